"""Feed files that feedferry has not written, as chunks to be pushed.

An appliance takes a feed as it is: a torn or an empty full feed may delete a datasource. So every
file is checked before the first one is sent, and all faults are reported at once.
"""

import io
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
from msgspec.structs import replace

from schemas.account import Chunk
from schemas.errors import ConfigError, FormatError, SourceError
from schemas.feed import FULL, INCREMENTAL, check_datasource
from schemas.membership import MembershipAction
from schemas.record import Action
from transforms.formats import Format, find_format, look_of, sniff
from transforms.formats.splitter import RecordOffsets
from transforms.sinks.push.model import REQUEST_BYTES_LIMIT
from transforms.sinks.push.request_forms import REQUEST_FORMS, RequestForm, pushed_formats
from transforms.sinks.push.settings import SeveralFull
from transforms.storage.atomic import HashingReader, whole_file

COMPRESSED_EXTENSIONS = frozenset({".gz", ".bz2", ".xz", ".zst"})
"""Files with these extensions are decompressed before they are sent."""

RECORDS = "records"
"""The key of record counts if only a parser can distinguish actions."""

_COPY_BYTES = 1 << 20
_SNIFFED_BYTES = 64 << 10

OpenPlain = Callable[[Path], AbstractContextManager[IO[bytes]]]
"""Opens a file decompressed; raises SourceError, also on reading, if it cannot be read."""


class FeedFileOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of feed files; `datasource` and `feedtype` override the files."""

    datasource: str | None = None
    feedtype: str | None = None
    several_full: SeveralFull = SeveralFull.REFUSE
    allow_empty_full: bool = False


def chunks_of_files(
    paths: Sequence[Path], options: FeedFileOptions, *, staging: Path, open_plain: OpenPlain
) -> list[Chunk]:
    """Return a chunk for each file, in the given order; compressed files are unpacked to `staging`.

    Raises ConfigError with a line for each fault.
    """
    chunks: list[Chunk] = []
    faults: list[str] = []
    for ordinal, path in enumerate(paths, start=1):
        try:
            feed = _scan(path, _unpack(path, ordinal, staging, open_plain))
        except (ConfigError, FormatError, SourceError) as exc:
            faults.append(str(exc))
            continue
        chunk = _chunk(feed, ordinal, options)
        faults += _faults(feed, chunk)
        chunks.append(chunk)
    if options.several_full is SeveralFull.FIRST:
        chunks = list(_with_first_full(chunks))
    elif options.several_full is SeveralFull.REFUSE:
        faults += _several_full_faults(chunks)
    if not options.allow_empty_full:
        faults += _empty_full_faults(chunks)
    if faults:
        raise ConfigError("\n".join(faults))
    return chunks


class _ScannedFeed(NamedTuple):
    """A file that reads as a feed; `plain` is the file that is sent."""

    path: Path
    plain: Path
    format: Format
    form: RequestForm
    records: RecordOffsets
    bytes: int
    sha256: str


def _unpack(path: Path, ordinal: int, staging: Path, open_plain: OpenPlain) -> Path:
    """Return the file that is sent, decompressed if necessary."""
    if not path.is_file():
        found = "not a file" if path.exists() else "no such file"
        raise SourceError(f"{path}: {found}; expected a feed")
    if path.suffix.lower() not in COMPRESSED_EXTENSIONS:
        return path
    staging.mkdir(parents=True, exist_ok=True)
    plain = staging / f"{ordinal:06d}-{path.stem}"
    with open_plain(path) as source, whole_file(plain) as stream:
        size = 0
        while block := source.read(_COPY_BYTES):
            size += len(block)
            if size >= REQUEST_BYTES_LIMIT:
                raise ConfigError(
                    f"{path}: {REQUEST_BYTES_LIMIT:,} bytes or more when decompressed; "
                    "expected fewer: convert it into chunks first"
                )
            stream.write(block)
    return plain


def _scan(path: Path, plain: Path) -> _ScannedFeed:
    try:
        with plain.open("rb") as stream:
            format, form = _format(path, stream.read(_SNIFFED_BYTES))
            stream.seek(0)
            reader = HashingReader(stream)
            records = RecordOffsets(io.BufferedReader(reader), format.name, source=str(path))
    except OSError as exc:
        raise SourceError(f"{path}: {exc.strerror}; expected a readable file") from exc
    sha256 = reader.digest.hexdigest()
    return _ScannedFeed(path, plain, format, form, records, reader.bytes, sha256)


def _format(path: Path, head: bytes) -> tuple[Format, RequestForm]:
    expected = "expected " + " or ".join(format.name for format in pushed_formats())
    if not head:
        raise FormatError(f"{path}: an empty file; {expected}")
    try:
        name = sniff(head)
    except FormatError as exc:  # its message begins with the line
        raise FormatError(f"{path}{exc}") from exc
    if name is None:
        raise FormatError(f"{path}: looks like {look_of(head)}; {expected}")
    format = find_format(name)
    if format is None or format.door is None:
        raise FormatError(f"{path}: {name}; {expected}: convert it first")
    return format, REQUEST_FORMS[format.door]


def _chunk(feed: _ScannedFeed, ordinal: int, options: FeedFileOptions) -> Chunk:
    form, records = feed.form, feed.records
    datasource = feedtype = None
    if form.source_field:
        datasource = options.datasource or records.datasource
        feedtype = options.feedtype or form.default_feedtype or records.feedtype
    has_groups = feed.format.holds_only_memberships
    counts = {
        Action.UPDATE_INDEX.value: records.updates,
        MembershipAction.MEMBERSHIP.value if has_groups else RECORDS: len(records)
        - records.updates,
    }
    return Chunk(
        ordinal=ordinal,
        path=str(feed.plain),
        bytes=feed.bytes,
        sha256=feed.sha256,
        records={action: count for action, count in counts.items() if count},
        first_url=records.first_url,
        last_url=records.last_url,
        source=str(feed.path),
        span=0,
        format=feed.format.name,
        datasource=datasource,
        feedtype=feedtype,
        requested_feedtype=feedtype,
    )


def _faults(feed: _ScannedFeed, chunk: Chunk) -> Iterator[str]:
    path, form, records = feed.path, feed.form, feed.records
    if records.documents > 1:
        yield f"{path}: {records.documents} feeds in one file; expected one: convert it first"
    if records.is_torn:
        yield f"{path}: the last end tag is missing; expected a complete feed: records may be lost"
    if not form.source_field:
        return
    if chunk.datasource is None:
        yield f"{path}: no {form.source_field}; expected one: give it by --datasource"
    else:
        try:
            check_datasource(chunk.datasource, label=f"{path}: {form.source_field}")
        except ConfigError as exc:
            yield f"{exc}: give another by --datasource"
    if chunk.feedtype not in form.file_feedtypes:
        found = "no feedtype" if chunk.feedtype is None else f"feedtype {chunk.feedtype!r}"
        *others, last = form.file_feedtypes
        yield f"{path}: {found}; expected {', '.join(others)} or {last}: give it by --feedtype"


def _with_first_full(chunks: list[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks; only the first full feed of each datasource stays full."""
    seen: set[tuple[str | None, str | None]] = set()
    for chunk in chunks:
        key = (chunk.format, chunk.datasource)
        is_later = chunk.feedtype == FULL and key in seen
        if chunk.feedtype == FULL:
            seen.add(key)
        yield replace(chunk, feedtype=INCREMENTAL) if is_later else chunk


def _several_full_faults(chunks: list[Chunk]) -> Iterator[str]:
    sources: dict[tuple[str | None, str | None], list[str]] = defaultdict(list)
    for chunk in chunks:
        if chunk.feedtype == FULL:
            sources[chunk.format, chunk.datasource].append(chunk.source)
    for (_, datasource), names in sources.items():
        if len(names) > 1:
            yield (
                f"{', '.join(names)}: {len(names)} full feeds of {datasource!r}; expected one, "
                "because each deletes the one before it: give --several-full first if they are one "
                "feed in several files, or --several-full each to send them as they are"
            )


def _empty_full_faults(chunks: list[Chunk]) -> Iterator[str]:
    for chunk in chunks:
        if chunk.feedtype == FULL and not chunk.records:
            yield (
                f"{chunk.source}: a full feed without records; expected some, because it deletes "
                f"all of {chunk.datasource!r}: give --allow-empty-full to delete it"
            )
