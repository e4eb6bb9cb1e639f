"""A program that rewrites metadata, document by document.

It is run with two more arguments, the names of two files of `name NUL value NUL …`: the metadata,
and what else it may want to know (`docid`, `url`, `mimetype`). What the first holds when the
program exits with 0 is the metadata from then on; the second is not read again.

**Spec:** GSA adaptor library, CommandLineTransform.
"""

import os
import stat
import tempfile
from collections.abc import Generator, Iterable
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path

import msgspec

from schemas.defect import record_error
from schemas.errors import ProgramError, RecordError
from schemas.record import Action, Meta, Record
from transforms.formats.base import Found, ReadOptions
from transforms.formats.command_stream.doc_ids import id_maker
from transforms.sources.programs.ordered_pool import Job, abreast
from transforms.sources.programs.program_rejects import reject_document
from transforms.sources.programs.programs_file import Programs
from transforms.sources.programs.retry import USUAL, Pauses, attempt
from transforms.sources.programs.subprocess_run import Leash, call_of, run

STAGE = "transform"


def transform(
    records: Iterable[Found],
    programs: Programs,
    *,
    options: ReadOptions = ReadOptions(),
    pauses: Pauses = USUAL,
) -> Generator[Found, None, None]:
    """Yield each added document with the metadata that the transformer makes of its own.

    One that it does not take is a Reject; all else, and all if there is no transformer, is passed
    on. Order is kept.
    """
    if not programs.transformer:
        yield from records
        return
    transformer = _Transformer(programs, options, pauses)
    jobs = (_job(found, transformer) for found in records)
    with closing(abreast(jobs, parallel=programs.parallel or 1)) as outcomes:
        yield from outcomes


def _job(found: Found, transformer: "_Transformer") -> Job | Found:
    if isinstance(found, Record) and found.action is Action.ADD:
        return partial(transformer.transform, found)
    return found


class _Transformer:
    """Calls the program, and reads what it wrote."""

    def __init__(self, programs: Programs, options: ReadOptions, pauses: Pauses) -> None:
        self._programs = programs
        self._pauses = pauses
        self._id_of = id_maker(options.docids)

    def transform(self, record: Record, leash: Leash) -> list[Found]:
        ask = partial(self._metadata, record, leash)
        try:
            made = attempt(ask, programs=self._programs, pauses=self._pauses, leash=leash)
        except ProgramError as exc:
            code = exc.code.replace("program", "transformer")
            return [reject_document(record, RecordError(code, exc.reason), stage=STAGE)]
        except Exception as exc:
            return [reject_document(record, record_error(exc), stage=STAGE)]
        return [msgspec.structs.replace(record, metadata=made)]

    def _metadata(self, record: Record, leash: Leash) -> tuple[Meta, ...]:
        params = {"docid": self._id_of(record.url), "url": record.url}
        if record.mimetype is not None:
            params["mimetype"] = record.mimetype
        with tempfile.TemporaryDirectory(prefix="feedferry-") as folder:
            metadata, around = Path(folder, "metadata"), Path(folder, "params")
            metadata.write_bytes(_join((meta.name, _value(meta)) for meta in record.metadata))
            around.write_bytes(_join((name, value.encode()) for name, value in params.items()))
            command = (*self._programs.transformer, str(metadata), str(around))
            run(call_of(self._programs, command), leash=leash)
            return _split(_read(metadata, self._programs.max_output_bytes))


def _value(meta: Meta) -> bytes:
    return meta.value.encode() if meta.data is None else meta.data


def _join(pairs: Iterable[tuple[str, bytes]]) -> bytes:
    texts = list(chain.from_iterable((name.encode(), value) for name, value in pairs))
    for text in texts:
        if b"\0" in text:
            raise RecordError(
                "transformer-nul", f"{text!r}; expected no NUL in what is transformed"
            )
    return b"".join(text + b"\0" for text in texts)


def _read(path: Path, max_bytes: int) -> bytes:
    """Return what the program left; a pipe in its place would never be read to its end."""
    try:
        with open(path, "rb", opener=_open_at_once) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise _unreadable("no file where the metadata was")
            text = stream.read(max_bytes + 1)
    except OSError as exc:
        raise _unreadable(f"{exc.strerror} where the metadata was") from exc
    if len(text) > max_bytes:
        raise _unreadable(f"more than {max_bytes} bytes of metadata (max_output_bytes)")
    return text


def _open_at_once(path: str, flags: int) -> int:
    """Open what is there, but follow no link, and wait for nobody at the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _split(text: bytes) -> tuple[Meta, ...]:
    texts = text.split(b"\0")
    if texts.pop() or len(texts) % 2:
        raise _unreadable(f"metadata that ends {text[-40:]!r}")
    return tuple(map(_meta, texts[::2], texts[1::2]))


def _meta(name: bytes, value: bytes) -> Meta:
    """A value that is not text is kept as the bytes it is; a name is text."""
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
