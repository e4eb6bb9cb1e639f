"""Feed files that nobody here has made, as chunks to be pushed: each is looked through first.

An appliance takes what it is sent as it is: a torn feed or one that is empty may wipe a datasource.
So each file is checked before the first one is sent, and all that is found is told at once.
"""

import enum
import io
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, NamedTuple

from msgspec.structs import replace

from schemas.account import Chunk
from schemas.errors import ConfigError, FormatError, SourceError
from schemas.feed import FEEDTYPES, FULL, INCREMENTAL, check_datasource
from schemas.membership import MembershipAction
from schemas.record import Action
from transforms.formats import Format, by_name, look_of, sniff
from transforms.formats.splitter import FORMATS, RecordOffsets
from transforms.sinks.push.model import REQUEST_BYTES_LIMIT
from transforms.storage.atomic import whole_file
from transforms.storage.hashing_reader import Digested

COMPRESSED = frozenset({".gz", ".bz2", ".xz", ".zst"})
"""Extensions of files that are decompressed before they are sent."""

RECORDS = "records"
"""What records are counted by where only a parser can tell their action."""

_COPY_BYTES = 1 << 20
_SNIFFED_BYTES = 64 << 10

OpenPlain = Callable[[Path], AbstractContextManager[IO[bytes]]]
"""Opens a file decompressed; raises SourceError where it cannot be read, on reading too."""


class SeveralFull(enum.Enum):
    """What becomes of several full feeds of one datasource, each of which erases the one before.

    FIRST: they are one feed in several files, so all but the first are sent as incremental.
    EACH: they are sent as they stand.
    """

    REFUSE = "refuse"
    FIRST = "first"
    EACH = "each"


def describe(  # noqa: PLR0913 - one for each thing that a file does not say of itself
    paths: Sequence[Path],
    *,
    datasource: str | None,
    feedtype: str | None,
    several_full: SeveralFull,
    staging: Path,
    open_plain: OpenPlain,
    allow_empty_full: bool = False,
) -> list[Chunk]:
    """Return a chunk for each file, in the order given; its path is that of the file.

    A `datasource` and a `feedtype` win over those that stand in the files. What is compressed is
    decompressed into `staging`. Raises ConfigError with a line for each thing that keeps a file
    from being sent.
    """
    stated = _Stated(datasource, feedtype)
    chunks: list[Chunk] = []
    faults: list[str] = []
    for ordinal, path in enumerate(paths, start=1):
        try:
            plain = _plain(path, ordinal, staging, open_plain)
            looked = _look(path, plain)
        except (ConfigError, FormatError, SourceError) as exc:
            faults.append(str(exc))
            continue
        faults += _faults(looked, stated)
        chunks.append(_chunk(looked, ordinal, stated))
    chunks = _in_turn(chunks, several_full)
    faults += _several(chunks, several_full)
    faults += () if allow_empty_full else _emptying(chunks)
    if faults:
        raise ConfigError("\n".join(faults))
    return chunks


class _Stated(NamedTuple):
    """What is said of the files beside what they say."""

    datasource: str | None
    feedtype: str | None


class _Looked(NamedTuple):
    """What was found in a file that reads as a feed."""

    path: Path
    plain: Path
    format: Format
    offsets: RecordOffsets
    bytes: int
    sha256: str


def _plain(path: Path, ordinal: int, staging: Path, open_plain: OpenPlain) -> Path:
    """Return where the file stands as it will be sent."""
    if not path.is_file():
        found = "no file" if path.exists() else "not there"
        raise SourceError(f"{path}: {found}; expected a feed")
    if path.suffix.lower() not in COMPRESSED:
        return path
    staging.mkdir(parents=True, exist_ok=True)
    plain = staging / f"{ordinal:06d}-{path.stem}"
    with open_plain(path) as source, whole_file(plain) as stream:
        size = 0
        while block := source.read(_COPY_BYTES):
            size += len(block)
            if size >= REQUEST_BYTES_LIMIT:
                raise ConfigError(
                    f"{path}: {REQUEST_BYTES_LIMIT:,} bytes or more when it is decompressed; "
                    "expected fewer: convert it into chunks first"
                )
            stream.write(block)
    return plain


def _look(path: Path, plain: Path) -> _Looked:
    try:
        with plain.open("rb") as stream:
            format = _format(path, stream.read(_SNIFFED_BYTES))
            stream.seek(0)
            digested = Digested(stream)
            found = RecordOffsets(io.BufferedReader(digested), format, source=str(path))
    except OSError as exc:
        raise SourceError(f"{path}: {exc.strerror}; expected a file that can be read") from exc
    return _Looked(path, plain, by_name(format), found, digested.bytes, digested.digest.hexdigest())


def _format(path: Path, head: bytes) -> str:
    expected = " or ".join(FORMATS)
    if not head:
        raise FormatError(f"{path}: an empty file; expected {expected}")
    try:
        format = sniff(head)
    except FormatError as exc:  # it begins with the line
        raise FormatError(f"{path}{exc}") from exc
    if format is None:
        raise FormatError(f"{path}: looks like {look_of(head)}; expected {expected}")
    if format not in FORMATS:
        raise FormatError(f"{path}: {format}; expected {expected}: convert it first")
    return format


def _chunk(looked: _Looked, ordinal: int, stated: _Stated) -> Chunk:
    found, feedtype = looked.offsets, _feedtype(looked, stated)
    return Chunk(
        ordinal=ordinal,
        path=str(looked.plain),
        bytes=looked.bytes,
        sha256=looked.sha256,
        records=_counts(looked),
        first_url=found.first_url,
        last_url=found.last_url,
        source=str(looked.path),
        span=0,
        format=looked.format.name,
        datasource=_datasource(looked, stated),
        feedtype=feedtype,
        requested_feedtype=feedtype,
    )


def _counts(looked: _Looked) -> dict[str, int]:
    count, updates = len(looked.offsets), looked.offsets.updates
    name = MembershipAction.MEMBERSHIP.value if looked.format.holds_only_memberships else RECORDS
    counts = {Action.UPDATE_INDEX.value: updates, name: count - updates}
    return {action: number for action, number in counts.items() if number}


def _datasource(looked: _Looked, stated: _Stated) -> str | None:
    """Return the datasource that a feed is sent with, the groupsource of groups."""
    if not looked.format.has_feedtypes:
        return None
    return stated.datasource or looked.offsets.datasource


def _feedtype(looked: _Looked, stated: _Stated) -> str | None:
    """Return the feedtype; groups that say none are added, for a full feed erases all others."""
    if not looked.format.has_feedtypes:
        return None
    default = INCREMENTAL if looked.format.holds_only_memberships else looked.offsets.feedtype
    return stated.feedtype or default


def _faults(looked: _Looked, stated: _Stated) -> Iterator[str]:
    path, found = looked.path, looked.offsets
    if found.documents > 1:
        yield f"{path}: {found.documents} feeds behind one another; expected one: convert it first"
    if found.is_torn:
        yield f"{path}: the end of the file; expected its last end tag: records may be missing"
    if looked.format.has_feedtypes:
        yield from _unnamed(looked, stated)
        yield from _untyped(looked, stated)


def _unnamed(looked: _Looked, stated: _Stated) -> Iterator[str]:
    name = _datasource(looked, stated)
    what = "groupsource" if looked.format.holds_only_memberships else "datasource"
    if name is None:
        yield f"{looked.path}: no {what}; expected one: give it by --datasource"
        return
    try:
        check_datasource(name, label=f"{looked.path}: {what}")
    except ConfigError as exc:
        yield f"{exc}: give another by --datasource"


def _untyped(looked: _Looked, stated: _Stated) -> Iterator[str]:
    feedtype = _feedtype(looked, stated)
    expected = FEEDTYPES[:2] if looked.format.holds_only_memberships else FEEDTYPES
    if feedtype not in expected:
        found = "no feedtype" if feedtype is None else f"feedtype {feedtype!r}"
        names = f"{', '.join(expected[:-1])} or {expected[-1]}"
        yield f"{looked.path}: {found}; expected {names}: give it by --feedtype"


def _in_turn(chunks: list[Chunk], several_full: SeveralFull) -> list[Chunk]:
    """Return the chunks as they are sent: of full feeds that are one, only the first is full."""
    if several_full is not SeveralFull.FIRST:
        return chunks
    seen: set[tuple[str | None, str | None]] = set()
    turned = []
    for chunk in chunks:
        key = (chunk.format, chunk.datasource)
        is_later = chunk.feedtype == FULL and key in seen
        seen |= {key} if chunk.feedtype == FULL else set()
        turned.append(replace(chunk, feedtype=INCREMENTAL) if is_later else chunk)
    return turned


def _several(chunks: list[Chunk], several_full: SeveralFull) -> Iterator[str]:
    if several_full is not SeveralFull.REFUSE:
        return
    full: dict[tuple[str | None, str | None], list[str]] = defaultdict(list)
    for chunk in chunks:
        if chunk.feedtype == FULL:
            full[chunk.format, chunk.datasource].append(chunk.source)
    for (_, datasource), sources in full.items():
        if len(sources) > 1:
            yield (
                f"{', '.join(sources)}: {len(sources)} full feeds of {datasource!r}; expected one, "
                "for each erases what the one before it brought: give --several-full first if they "
                "are one feed in several files, --several-full each to send them as they are"
            )


def _emptying(chunks: list[Chunk]) -> Iterator[str]:
    for chunk in chunks:
        if chunk.feedtype == FULL and not chunk.records:
            yield (
                f"{chunk.source}: a full feed without records; expected some, for it wipes all of "
                f"{chunk.datasource!r}: give --allow-empty-full if that is what you want"
            )
