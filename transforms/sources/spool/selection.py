"""The feeds of a spool that a run reads, and the notices of the others."""

import enum
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec

from schemas.account import NoticeCount
from schemas.choices import SpoolHistory
from schemas.delivery import JOURNAL, Delivery, Door
from schemas.errors import ConfigError, SourceError
from schemas.feed import FULL, METADATA_AND_URL, REPLACE, Feed
from schemas.notice import Notice
from schemas.span import FileSignature, Span
from transforms.formats import by_door
from transforms.sources.spool.deliveries import is_whole, name_of

_MAX_NAMES = 10
_END_TAG = re.compile(rb"</(?:gsafeed|xmlgroups)\s*>|<(?:gsafeed|xmlgroups)\b[^<>]*/>")
_RECORD = re.compile(rb"<(?:record|acl|membership)\b")
_TAIL_BYTES = 64 << 10
_BLOCK_BYTES = 1 << 20
_OVERLAP_BYTES = 64

_SUPERSEDED = {
    SpoolHistory.LATEST: "later feeds supersede {}; left out: --history all reads them",
    SpoolHistory.ALL: "full feeds without records remove {}; left out",
}
_TORN = (
    "a full feed of {!r} without its end; left out, as it would delete documents of its missing"
    " part: earlier feeds stay"
)
_KEPT = {
    SpoolHistory.LATEST: "a cleanup of the groups of {!r}; no feed does that: the groups that the"
    " target has stay",
    SpoolHistory.ALL: "a cleanup of the groups of {!r}; no feed does that: earlier groups are read"
    " all the same",
}


class Spool(msgspec.Struct, frozen=True, kw_only=True):
    """Which feeds of a spool are read: all, or `only` the feeds of some names.

    A name is that of a datasource, groupsource or profile, or of a door. `source` is the name in
    messages, `root` the folder. `first` distinguishes the spool from another in the same folder.
    """

    source: str
    root: str
    history: SpoolHistory = SpoolHistory.LATEST
    only: tuple[str, ...] = ()
    first: Delivery | None = None


class FeedFault(enum.Enum):
    """What the file of a full feed lacks: its end, a record, or a place where it can be read."""

    TORN = "torn"
    EMPTY = "empty"
    UNREADABLE = "unreadable"


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The deliveries that a run reads, and the notices of the others."""

    deliveries: tuple[Delivery, ...] = ()
    notices: tuple[NoticeCount, ...] = ()


def find_faults(deliveries: Iterable[Delivery], root: Path) -> dict[int, FeedFault]:
    """Examine the file of each full feed; return the faults by the ordinals of the deliveries.

    A full feed whose end is missing was not sent completely; an appliance takes nothing of it. The
    journal does not say so.
    """
    faults = (
        (delivery.ordinal, _fault_of(root / delivery.path))
        for delivery in deliveries
        if delivery.path is not None and is_whole(delivery)
    )
    return {ordinal: fault for ordinal, fault in faults if fault is not None}


def superseded(
    deliveries: Iterable[Delivery], *, only: frozenset[int] | None = None
) -> frozenset[int]:
    """Return the ordinals of deliveries that a later one replaces completely.

    That is a full feed of the same datasource, or full, replaced or cleaned up groups of the same
    groupsource; with `only`, one of these ordinals. Thunderstone data and web feeds supersede
    nothing.
    """
    gone: set[int] = set()
    current: dict[tuple[Door, str], list[int]] = {}
    for delivery in deliveries:
        earlier = current.setdefault((delivery.door, name_of(delivery)), [])
        if is_whole(delivery) and (only is None or delivery.ordinal in only):
            gone.update(earlier)
            earlier.clear()
        earlier.append(delivery.ordinal)
    return frozenset(gone)


def select(
    deliveries: Iterable[Delivery], spool: Spool, faults: Mapping[int, FeedFault] = {}
) -> Selection:
    """Return the deliveries that a run reads.

    A torn full feed is left out, and supersedes nothing; nor does an unreadable one. A full feed
    without a record always supersedes: not every target has a chunk that says so.

    Raise ConfigError for names without deliveries, and for several profiles unless `only` names
    them: their records are of different indexes, and do not say which.
    """
    every = tuple(deliveries)
    _check_names(spool, every)
    named = [
        delivery
        for delivery in every
        if not spool.only or {name_of(delivery), delivery.door.value} & {*spool.only}
    ]
    torn = [delivery for delivery in named if faults.get(delivery.ordinal) is FeedFault.TORN]
    whole = [delivery for delivery in named if faults.get(delivery.ordinal) is not FeedFault.TORN]
    replacing = frozenset(
        delivery.ordinal
        for delivery in whole
        if faults.get(delivery.ordinal) is FeedFault.EMPTY
        or (spool.history is SpoolHistory.LATEST and delivery.ordinal not in faults)
    )
    gone = superseded(whole, only=replacing)
    current = [delivery for delivery in whole if delivery.ordinal not in gone]
    notices = (
        _note_superseded([delivery for delivery in whole if delivery.ordinal in gone], spool),
        _note("torn", torn, _TORN, spool),
        _note("cleanup", [one for one in current if one.path is None], _KEPT[spool.history], spool),
    )
    return Selection(
        deliveries=tuple(delivery for delivery in current if delivery.path is not None),
        notices=tuple(notice for notice in notices if notice is not None),
    )


def spans_of(
    selection: Selection, spool: Span, *, first: int = 0, rejects_missing: bool = False
) -> Iterator[Span]:
    """Yield a span for each delivery of the span of a spool, the sources numbered from `first`.

    Small feeds are not put together: an appliance takes feeds in their order, but the guide does
    not say in which order it takes the records of one feed.

    Raise SourceError where a file is not as it was delivered. With `rejects_missing`, the reader of
    a missing file rejects it instead.
    """
    for ordinal, delivery in enumerate(selection.deliveries, start=first):
        path = Path(spool.path, delivery.path or "")
        name = f"{spool.source}#{delivery.ordinal}"
        if path.exists() or not rejects_missing:
            _require_file(path, delivery, name)
        yield Span(
            source=name,
            path=str(path),
            source_ordinal=ordinal,
            format=by_door(delivery.door).name,
            feed=_feed_of(delivery),
            encoding=spool.encoding,
            signature=FileSignature(size=delivery.bytes),
        )


def _fault_of(path: Path) -> FeedFault | None:
    try:
        with path.open("rb") as stream:
            if not _has_end(stream):
                return FeedFault.TORN
            return None if _has_record(stream) else FeedFault.EMPTY
    except OSError:  # its reader rejects it
        return FeedFault.UNREADABLE


def _has_end(stream: IO[bytes]) -> bool:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(size - _TAIL_BYTES, 0))
    return _END_TAG.search(_as_ascii(stream.read())) is not None


def _has_record(stream: IO[bytes]) -> bool:
    """Whether a feed has a record; only an empty feed is read to its end."""
    stream.seek(0)
    overlap = b""
    while block := _as_ascii(stream.read(_BLOCK_BYTES)):
        if _RECORD.search(overlap + block):
            return True
        overlap = block[-_OVERLAP_BYTES:]
    return False


def _as_ascii(block: bytes) -> bytes:
    """Remove the zeros of ASCII characters in UTF-16 and UTF-32."""
    return block.replace(b"\0", b"")


def _feed_of(delivery: Delivery) -> Feed | None:
    if delivery.door is Door.DATA:
        return None
    feedtype = FULL if delivery.feedtype == REPLACE else delivery.feedtype
    if feedtype == FULL and delivery.door is Door.FEED and not is_whole(delivery):
        feedtype = METADATA_AND_URL  # web is never replaced, whichever feedtype a client posts
    return Feed(datasource=delivery.datasource, feedtype=feedtype)


def _check_names(spool: Spool, deliveries: tuple[Delivery, ...]) -> None:
    names = {name_of(delivery) for delivery in deliveries}
    doors = {delivery.door.value for delivery in deliveries}
    unknown = sorted(set(spool.only) - names - doors)
    if unknown:
        raise ConfigError(
            f"--only {unknown[0]}: {spool.source!r} holds nothing of that name; expected one of"
            f" {_quote_all(names)}, or a door: {_quote_all(doors)}"
        )
    profiles = {delivery.profile for delivery in deliveries if delivery.door is Door.DATA}
    if len(profiles) > 1 and not spool.only:
        raise ConfigError(
            f"INPUT: {spool.source!r} holds data of the profiles {_quote_all(profiles)}; expected"
            " --only PROFILE, as records do not say which they are of"
        )


def _note_superseded(deliveries: Iterable[Delivery], spool: Spool) -> NoticeCount | None:
    counts = Counter(name_of(delivery) for delivery in deliveries if delivery.path is not None)
    if not counts:
        return None
    names = [f"{count} of {name!r}" for name, count in counts.most_common(_MAX_NAMES)]
    if len(counts) > _MAX_NAMES:
        names.append(f"and those of {len(counts) - _MAX_NAMES} more")
    detail = _SUPERSEDED[spool.history].format(", ".join(names))
    notice = Notice(code="superseded", detail=detail, source=spool.source)
    return NoticeCount(counts.total(), notice)


def _note(
    code: str, deliveries: Sequence[Delivery], detail: str, spool: Spool
) -> NoticeCount | None:
    if not deliveries:
        return None
    first = deliveries[0]
    source = f"{spool.source}#{first.ordinal}"
    notice = Notice(code=code, detail=detail.format(name_of(first)), source=source)
    return NoticeCount(len(deliveries), notice)


def _require_file(path: Path, delivery: Delivery, name: str) -> None:
    try:
        size = path.stat().st_size
        found = f"{size:,} bytes"
    except OSError as exc:
        size, found = -1, str(exc.strerror)
    if size != delivery.bytes:
        raise SourceError(
            f"{name}: {path}: {found}; expected the {delivery.bytes:,} bytes that were delivered;"
            f" copy the file again, or take its line out of {JOURNAL}"
        )


def _quote_all(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names)))
