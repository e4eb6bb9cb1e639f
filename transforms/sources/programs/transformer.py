"""The transformer: a program that rewrites the metadata of one document.

Its last two arguments are names of files of the form `name NUL value NUL …`. The first file has
the metadata. The second has the parameters `docid`, `url` and `mimetype`. If the program exits with
0, the metadata is read from the first file again.

**Spec:** GSA adaptor library, CommandLineTransform.
"""

import tempfile
from collections.abc import Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Event

from msgspec.structs import replace

from feedferry.schemas.errors import ProgramError, RecordError
from feedferry.schemas.record import Meta, Record
from feedferry.schemas.reject import Reject, record_error
from feedferry.transforms.sources.programs.calls import ProgramCalls, reject_document
from feedferry.transforms.sources.programs.process import run

STAGE = "transform"


def transform(calls: ProgramCalls, record: Record, cancelled: Event) -> Record | Reject:
    """Return a document with the metadata of the program, or its Reject."""
    try:
        metadata = calls.attempt(partial(_metadata, calls, record, cancelled), cancelled)
        return replace(record, metadata=metadata)
    except ProgramError as exc:
        code = exc.code.replace("program", "transformer")
        return reject_document(record, RecordError(code, exc.reason), stage=STAGE)
    except Exception as exc:
        return reject_document(record, record_error(exc), stage=STAGE)


def _metadata(calls: ProgramCalls, record: Record, cancelled: Event) -> tuple[Meta, ...]:
    programs = calls.programs
    params = {"docid": calls.id_of(record.url), "url": record.url}
    if record.mimetype is not None:
        params["mimetype"] = record.mimetype
    with tempfile.TemporaryDirectory(prefix="feedferry-") as folder:
        metadata_path, params_path = Path(folder, "metadata"), Path(folder, "params")
        pairs = ((meta.name, meta.data or meta.value.encode()) for meta in record.metadata)
        metadata_path.write_bytes(_join(pairs))
        params_path.write_bytes(_join((name, value.encode()) for name, value in params.items()))
        run(
            programs,
            (*programs.transformer, str(metadata_path), str(params_path)),
            cancelled=cancelled,
        )
        return _split(_read(metadata_path, programs.max_output_bytes))


def _join(pairs: Iterable[tuple[str, bytes]]) -> bytes:
    texts = list(chain.from_iterable((name.encode(), value) for name, value in pairs))
    for text in texts:
        if b"\0" in text:
            reason = f"{text!r}; expected names, values and parameters without NUL"
            raise RecordError("transformer-nul", reason)
    return b"".join(text + b"\0" for text in texts)


def _read(path: Path, max_bytes: int) -> bytes:
    """Return the contents of a regular file; a pipe or a link in its place is refused."""
    if path.is_symlink() or not path.is_file():
        raise _unreadable("no file in place of the metadata")
    if path.stat().st_size > max_bytes:
        raise _unreadable(f"more than {max_bytes} bytes of metadata (max_output_bytes)")
    return path.read_bytes()


def _split(text: bytes) -> tuple[Meta, ...]:
    texts = text.split(b"\0")
    if texts.pop() or len(texts) % 2:
        raise _unreadable(f"metadata that ends {text[-40:]!r}")
    return tuple(map(_meta, texts[::2], texts[1::2]))


def _meta(name: bytes, value: bytes) -> Meta:
    """Return a pair; a value that is not UTF-8 is kept as bytes, a name has to be UTF-8."""
    try:
        text = name.decode()
    except UnicodeDecodeError as exc:
        raise _unreadable(f"the name {name!r}") from exc
    try:
        return Meta(text, value.decode())
    except UnicodeDecodeError:
        return Meta(text, "", value)


def _unreadable(found: str) -> RecordError:
    return RecordError(
        "transformer-output", f"{found}; expected name, NUL, value and NUL, in UTF-8"
    )
