"""The inputs of a run: files, folders, globs, URIs and standard input, in order.

The files of a folder or glob are sorted by name; the arguments keep their order.
"""

import itertools
import os
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.errors import (
    ConfigError,
    EncodingError,
    FeedferryError,
    FileNameError,
    SourceError,
    UnknownFormatError,
    UnreadableError,
)
from feedferry.schemas.reject import UNREADABLE, unreadable_file
from feedferry.schemas.span import FileSignature, Span
from feedferry.transforms.formats import ReadOptions, ReadResult, find_format
from feedferry.transforms.sources import (
    SOURCES,
    Source,
    SpanRequest,
    check_input_name,
    find_source,
    match_remote,
    open_span,
    read_span,
    refuse_binary,
    sign_path,
    sniff_format,
)
from feedferry.transforms.storage.atomic import AtomicFile
from feedferry.transforms.storage.storage import LocalStorage, is_object

MAX_MEMBERS = 1000
"""The most files of one span."""

REQUESTS = 64
"""How many files of object storage are examined at once."""

STDIN = "-"
STDIN_COPY = "stdin"
"""The copy of standard input, in the folder of unfinished runs or a temporary folder."""

_BLOCK_BYTES = 1 << 20
_GLOB_CHARS = frozenset("*?[")


def list_spans(options: ConvertOptions, *, stdin_copy: Path) -> list[Span]:
    """Return a whole span for each file or source; standard input is first copied.

    Raise ConfigError for an argument that names nothing; SourceError where a folder cannot be
    listed. A file that cannot be read, or whose format is neither given nor recognised, is a span
    that is rejected; if this is true for all files, raise the error of the first.
    """
    stated = find_source(options.from_format)
    if stated is not None and stated.is_folder:
        return _with_encoding(stated.list_inputs(options.inputs, first=0), options)
    spans: list[Span] = []
    faults: list[FeedferryError] = []
    for found, found_faults in examine_inputs(options, stdin_copy):
        spans += found
        faults += found_faults
    if faults and len(faults) == len(spans):
        raise faults[0]
    is_only = len(spans) == 1
    return [
        replace(span, source_ordinal=ordinal, is_only=is_only) for ordinal, span in enumerate(spans)
    ]


@contextmanager
def listed_spans(options: ConvertOptions) -> Iterator[tuple[list[Span], Path]]:
    """Yield the spans of the inputs of a verb without a run, and a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="feedferry-") as name:
        folder = Path(name)
        yield list_spans(options, stdin_copy=folder / STDIN_COPY), folder


def read_spans(spans: Iterable[Span], reading: ReadOptions) -> Generator[ReadResult, None, None]:
    """Yield what spans hold, in order."""
    for span in spans:
        with closing(read_span(SpanRequest(span=span, options=reading))) as results:
            yield from results


def group_spans(spans: list[Span], *, span_bytes: int) -> list[Span]:
    """Return the spans; put files of one record together, or else each would be a chunk.

    A group has adjacent files of one format, at most `span_bytes` and a thousand files.
    """
    grouped: list[Span] = []
    for name, run in itertools.groupby(spans, key=lambda span: span.format):
        format_ = find_format(name)
        if format_ is not None and format_.has_one_record:
            grouped += map(_put_together, _groups(run, span_bytes))
        else:
            grouped += run
    return grouped


def size_of(span: Span) -> int:
    """Return the size of a file in bytes, 0 if it is unknown."""
    return (span.signature and span.signature.size) or 0


def _with_encoding(spans: Iterable[Span], options: ConvertOptions) -> list[Span]:
    return [replace(span, encoding=options.encoding or "") for span in spans]


class InputFile(NamedTuple):
    """A file that an argument names; a list of object storage has its signature.

    `source` is the source of an argument that is a folder, which lists itself.
    """

    path: str
    signature: FileSignature | None = None
    source: Source[object] | None = None


_Examined = tuple[list[Span], list[FeedferryError]]
"""The spans of an input, and why they cannot be read."""


def examine_inputs(options: ConvertOptions, stdin_copy: Path) -> Iterator[_Examined]:
    """Yield the spans of the inputs in order, and raise the first error in that order.

    Requests to object storage are made by many threads at once.
    """
    inputs = _find_inputs(options)
    examine = partial(_examine, options=options, stdin_copy=stdin_copy)
    if not any(map(is_object, options.inputs)):
        yield from map(examine, inputs)
        return

    from multiprocessing.pool import ThreadPool

    def examine_object(file: InputFile) -> tuple[InputFile, _Examined | None]:
        return file, examine(file) if is_object(file.path) else None

    with ThreadPool(REQUESTS) as pool:
        for file, examined in pool.imap(examine_object, inputs):
            yield examined or examine(file)


def _find_inputs(options: ConvertOptions) -> Iterator[InputFile]:
    for name in options.inputs:
        # The tree comes first in SOURCES and last here: a spool is a folder too.
        matching = (source for source in reversed(SOURCES) if source.matches(name))
        source = next(matching, None) if options.from_format is None else None
        if source is not None:
            yield InputFile(name, source=source)
        else:
            yield from expand_input(name)


def _examine(file: InputFile, options: ConvertOptions, stdin_copy: Path) -> _Examined:
    """Return the spans of a file or a folder; a file that cannot be read has a fault as well."""
    path, from_format = file.path, options.from_format
    if file.source is not None:
        return _with_encoding(file.source.list_inputs((path,), first=0), options), []
    source = path.encode("utf-8", "backslashreplace").decode()
    span = Span(source=source, encoding=options.encoding or "", signature=file.signature)
    try:
        check_input_name(path)
        span = _locate(span, stdin_copy)
        if find_format(from_format) and "://" not in span.path:
            with open_span(span, is_partial=True) as stream:  # raises where it cannot be opened
                refuse_binary(span, stream)
        return [replace(span, format=from_format or sniff_format(span))], []
    except (FileNameError, UnknownFormatError, UnreadableError, EncodingError) as exc:
        return [replace(span, format=UNREADABLE, position=unreadable_file(path, exc))], [exc]


def _locate(span: Span, stdin_copy: Path) -> Span:
    """Return the span with the path of the file, and the file's signature as it is now."""
    source = span.source
    if "://" in source:
        return replace(span, path=source)
    if source == STDIN:
        return replace(span, path=str(stdin_copy.absolute()), signature=_copy_stdin(stdin_copy))
    path = str(Path(source).absolute())
    return replace(span, path=path, signature=sign_path(path))


def _groups(spans: Iterable[Span], span_bytes: int) -> Iterator[list[Span]]:
    group: list[Span] = []
    size = 0
    for span in spans:
        more = size_of(span)
        if group and (size + more > span_bytes or len(group) == MAX_MEMBERS):
            yield group
            group, size = [], 0
        group.append(span)
        size += more
    yield group


def _put_together(group: list[Span]) -> Span:
    first, last = group[0], group[-1]
    if first is last:
        return first
    source = f"{first.source} … {last.source}"
    return Span(source=source, source_ordinal=first.source_ordinal, members=tuple(group))


def expand_input(name: str) -> Iterator[InputFile]:
    """Yield the files that an argument names."""
    if name == STDIN:
        yield InputFile(name)
    elif "://" in name:
        yield from _expand_remote(name)
    elif Path(name).is_dir():
        yield from _sorted(name, _inputs_below(Path(name)))
    elif Path(name).exists():
        yield InputFile(name)
    elif _GLOB_CHARS & set(name):
        root = Path(name).anchor or "."
        pattern = str(Path(name).relative_to(root)) if Path(name).is_absolute() else name
        paths = Path(root).glob(pattern)
        yield from _sorted(name, (path for path in paths if _is_input(path, Path(root))))
    else:
        raise ConfigError(
            f"⟦inputs⟧: {name!r} is not there; expected a file, folder, glob, uri or -"
        )


def _inputs_below(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder, and its subfolders that cannot be listed."""
    unlisted: list[OSError] = []
    for root, _, names in os.walk(folder, onerror=unlisted.append):
        yield from (path for name in names if _is_input(path := Path(root, name), folder))
    yield from (Path(exc.filename) for exc in unlisted)


def _is_input(path: Path, root: Path) -> bool:
    """Whether the path is a file, and neither the file nor a folder on the way to it is hidden.

    A link whose target is missing counts as a file, so that it is rejected and not skipped.
    """
    hidden = any(part.startswith(".") and part != ".." for part in path.relative_to(root).parts)
    return not hidden and (path.is_file() or (path.is_symlink() and not path.exists()))


def _sorted(name: str, paths: Iterator[Path]) -> Iterator[InputFile]:
    files = sorted(str(path) for path in paths)
    if not files:
        raise ConfigError(f"⟦inputs⟧: {name!r} holds no file; expected at least one")
    return map(InputFile, files)


def _expand_remote(name: str) -> list[InputFile]:
    """Return the files that match a glob; any other URI is a file, and in HTTP ? begins a query."""
    glob_chars = _GLOB_CHARS - {"?"} if name.startswith(("http://", "https://")) else _GLOB_CHARS
    if not glob_chars & set(name):
        return [InputFile(name)]
    try:
        files = match_remote(name)
    except (OSError, ValueError) as exc:
        text = getattr(exc, "strerror", None) or exc
        raise SourceError(f"{name}: {text}; expected a uri that can be listed") from exc
    if not files:
        raise ConfigError(f"⟦inputs⟧: {name!r} matches no file; expected at least one")
    return [InputFile(*file) for file in files.items()]


def _copy_stdin(spool: Path) -> FileSignature:
    """Copy standard input, and return its signature.

    Worker processes cannot read standard input, and a run can resume from a file. The signature has
    no time, because a run that is started again copies the input again.
    """
    copy = AtomicFile(LocalStorage(spool.parent), spool.name)
    while block := sys.stdin.buffer.read(_BLOCK_BYTES):
        copy.write(block)
    written = copy.finish()
    return FileSignature(size=written.bytes, sha256=written.sha256)
