"""What the arguments INPUT… name: files, folders, globs, uris and standard input, in order.

Files of a folder or glob stand in the order of their names; arguments keep the order as given.
"""

import itertools
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from apache_beam.io.filesystems import FileSystems

from schemas.errors import (
    ConfigError,
    EncodingError,
    FeedferryError,
    FileNameError,
    SourceError,
    UnreadableError,
)
from schemas.reject import FILE_NAME, UNKNOWN_ENCODING, UNREADABLE
from schemas.span import FileSignature, Span, UnreadableFile
from transforms.formats import find_format
from transforms.sources import SOURCES, Source, check_input_name, find_source, source_of
from transforms.sources.files import open_span, sniff_format
from transforms.sources.signature import sign_path
from transforms.storage.atomic import PARTIAL, HashedFile, unwritable

MAX_MEMBERS = 1000
"""Most files that are put together in a span."""

STDIN = "-"
_GLOB_CHARS = frozenset("*?[")


def list_spans(
    inputs: tuple[str, ...], *, from_format: str | None, spool: Path, encoding: str = ""
) -> list[Span]:
    """Return a whole span for each file, tree or spool; standard input is first copied to `spool`.

    XML is read in the `encoding`, if it is given, whatever it declares.

    Raises ConfigError where an argument names nothing, or a file whose format is neither given nor
    found; SourceError where it cannot be listed. A file that cannot be read is a span that is
    rejected; where no file can be read, raises what is wrong with the first.
    """
    named = find_source(from_format)
    if named is not None and named.is_folder:
        return _with_encoding(named.list_inputs(inputs, first=0), encoding)
    spans: list[Span] = []
    faults: list[FeedferryError] = []
    for name in inputs:
        source = _matching(name) if from_format is None else None
        if source is not None:
            spans += _with_encoding(source.list_inputs((name,), first=len(spans)), encoding)
            continue
        for path in _expand(name):
            try:
                check_input_name(path)
                span = _file_span(path, spool, ordinal=len(spans))
                span = msgspec.structs.replace(span, encoding=encoding)
                spans.append(_in_format(span, from_format))
            except (FileNameError, UnreadableError, EncodingError) as exc:
                faults.append(exc)
                spans.append(_unreadable(path, exc, ordinal=len(spans)))
    if faults and len(faults) == len(spans):
        raise faults[0]
    return spans


def group_spans(spans: list[Span], *, span_bytes: int) -> list[Span]:
    """Return the spans, those of one record each put together: else each would be a chunk.

    Groups are runs of files of one format, of at most `span_bytes` and a thousand files.
    """
    grouped: list[Span] = []
    for _, run in itertools.groupby(spans, key=_kind):
        members = list(run)
        format_ = find_format(members[0].format)
        if format_ is not None and format_.has_one_record:
            grouped += map(_together, _runs(members, span_bytes))
        else:
            grouped += members
    return grouped


def _matching(name: str) -> Source[Any] | None:
    """Return the source that an input is, None for files of records.

    The tree comes first in SOURCES and last here: a spool is a folder too.
    """
    return next((source for source in reversed(SOURCES) if source.matches(name)), None)


def _with_encoding(spans: Iterable[Span], encoding: str) -> list[Span]:
    return [msgspec.structs.replace(span, encoding=encoding) for span in spans]


def _file_span(source: str, spool: Path, *, ordinal: int) -> Span:
    """Return the span of a file as it is now."""
    if source == STDIN:
        signature: FileSignature | None = _spool(spool)
        path = str(spool.absolute())
    else:
        path = source if "://" in source else str(Path(source).absolute())
        signature = sign_path(path)
    return Span(source=source, path=path, source_ordinal=ordinal, signature=signature)


def size_of(span: Span) -> int:
    """The file's size in bytes, 0 where it cannot be known beforehand."""
    if span.signature is not None:
        return span.signature.size or 0
    status = _status(span)
    return status.st_size if status else 0


def changed(span: Span) -> int:
    """When the file last changed, in nanoseconds; 0 where that cannot be known or says nothing."""
    if span.signature is not None:
        return span.signature.modified_ns or 0
    status = _status(span) if span.source != STDIN else None
    return status.st_mtime_ns if status else 0


def _status(span: Span) -> os.stat_result | None:
    """Return the status of a file; None of one that is gone, which its reader rejects."""
    try:
        return os.stat(span.path) if _is_settled(span) else None
    except FileNotFoundError:
        return None


def _is_settled(span: Span) -> bool:
    """Whether it is here, and may not change while it is read: a spool grows, and is the same."""
    return not ("://" in span.path or source_of(span).may_grow or _is_unreadable(span))


def _in_format(span: Span, from_format: str | None) -> Span:
    if find_format(from_format) and "://" not in span.path:
        with open_span(span):  # raises where it cannot be opened
            pass
    return msgspec.structs.replace(span, format=from_format or sniff_format(span))


def _unreadable(source: str, exc: FeedferryError, *, ordinal: int) -> Span:
    """Return the span of a file that is rejected."""
    name = source.encode("utf-8", "backslashreplace").decode()
    if isinstance(exc, UnreadableError):
        position = UnreadableFile(exc.code, exc.reason)
    else:
        code = UNKNOWN_ENCODING if isinstance(exc, EncodingError) else FILE_NAME
        reason = str(exc).removeprefix(f"{source}:1: ").removeprefix("INPUT: ")
        position = UnreadableFile(code, reason)
    return Span(source=name, source_ordinal=ordinal, format=UNREADABLE, position=position)


def _is_unreadable(span: Span) -> bool:
    return isinstance(span.position, UnreadableFile)


def _kind(span: Span) -> str:
    return span.format


def _runs(members: list[Span], span_bytes: int) -> Iterator[list[Span]]:
    run: list[Span] = []
    size = 0
    for member in members:
        more = size_of(member)
        if run and (size + more > span_bytes or len(run) == MAX_MEMBERS):
            yield run
            run, size = [], 0
        run.append(member)
        size += more
    yield run


def _together(run: list[Span]) -> Span:
    first, last = run[0], run[-1]
    if first is last:
        return first
    source = f"{first.source} … {last.source}"
    return Span(source=source, source_ordinal=first.source_ordinal, members=tuple(run))


def _expand(name: str) -> Iterator[str]:
    if name == STDIN:
        yield name
    elif "://" in name:
        yield from _remote(name)
    elif Path(name).is_dir():
        folder = Path(name)
        yield from _found(name, _inputs_below(folder))
    elif Path(name).exists():
        yield name
    elif _GLOB_CHARS & set(name):
        root = Path(name).anchor or "."
        pattern = str(Path(name).relative_to(root)) if Path(name).is_absolute() else name
        paths = Path(root).glob(pattern)
        yield from _found(name, (path for path in paths if _is_input(path, Path(root))))
    else:
        raise ConfigError(f"INPUT: {name!r} is not there; expected a file, folder, glob, uri or -")


def _inputs_below(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder, and the folders in it that cannot be listed."""
    unlisted: list[OSError] = []
    for root, _, names in os.walk(folder, onerror=unlisted.append):
        yield from (path for name in names if _is_input(path := Path(root, name), folder))
    yield from (Path(exc.filename) for exc in unlisted)


def _is_input(path: Path, root: Path) -> bool:
    """Whether it is a file, and neither it nor a folder on the way to it is hidden.

    A link whose target is missing counts as a file, so that it is rejected and not passed over.
    """
    hidden = any(part.startswith(".") and part != ".." for part in path.relative_to(root).parts)
    return not hidden and (path.is_file() or (path.is_symlink() and not path.exists()))


def _found(name: str, paths: Iterator[Path]) -> list[str]:
    found = sorted(str(path) for path in paths)
    if not found:
        raise ConfigError(f"INPUT: {name!r} holds no file; expected at least one")
    return found


def _remote(name: str) -> list[str]:
    """A uri with a glob is listed; any other is taken as it is, for not all schemes can list."""
    if not _GLOB_CHARS & set(name):
        return [name]
    try:
        [match] = FileSystems.match([name])
    except (OSError, ValueError) as exc:
        raise SourceError(f"{name}: {exc}; expected a uri that can be listed") from exc
    if not match.metadata_list:
        raise ConfigError(f"INPUT: {name!r} matches no file; expected at least one")
    return sorted(found.path for found in match.metadata_list)


def _spool(spool: Path) -> FileSignature:
    """Copy standard input, and return what it is known by.

    Workers of other processes cannot read it, and a run can resume from a file. Its time says
    nothing, as it is copied again then: what it holds is compared.
    """
    spool.parent.mkdir(parents=True, exist_ok=True)
    partial = spool.with_name(spool.name + PARTIAL)
    try:
        with HashedFile(partial) as stream:
            shutil.copyfileobj(sys.stdin.buffer, stream, 1 << 20)
        os.replace(partial, spool)
    except OSError as exc:
        raise unwritable(spool, exc) from exc
    written = stream.describe(spool.name)
    return FileSignature(size=written.bytes, sha256=written.sha256)
