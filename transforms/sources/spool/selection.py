"""The feeds of a spool that a run reads, and the notices of the others."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import repeat
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
from transforms.storage.atomic import whole_file

_MAX_NAMES = 10
_END_TAG = re.compile(rb"</(?:gsafeed|xmlgroups)\s*>|<(?:gsafeed|xmlgroups)\b[^<>]*/>")
_RECORD = re.compile(rb"<(?:record|acl|membership)\b")
_TAIL_BYTES = 64 << 10
_BLOCK_BYTES = 1 << 20
_OVERLAP_BYTES = 64


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


class FeedFaults(msgspec.Struct, frozen=True, kw_only=True):
    """Ordinals of full feeds without an end, without a record, and of feeds that are unreadable."""

    torn: frozenset[int] = frozenset()
    empty: frozenset[int] = frozenset()
    unreadable: frozenset[int] = frozenset()


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The deliveries that a run reads, and the notices of the others."""

    deliveries: tuple[Delivery, ...] = ()
    notices: tuple[NoticeCount, ...] = ()


_NO_FAULTS = FeedFaults()


def find_faults(deliveries: Iterable[Delivery], root: Path) -> FeedFaults:
    """Examine the file of each full feed: its end, and whether it has a record.

    A full feed whose end is missing was not sent completely; an appliance takes nothing of it. The
    journal says neither.
    """
    torn, empty, unreadable = set(), set(), set()
    for delivery in deliveries:
        if delivery.path is None or not is_whole(delivery):
            continue
        try:
            with (root / delivery.path).open("rb") as stream:
                if not _has_end(stream):
                    torn.add(delivery.ordinal)
                elif not _has_record(stream):
                    empty.add(delivery.ordinal)
        except OSError:  # its reader rejects it
            unreadable.add(delivery.ordinal)
    return FeedFaults(
        torn=frozenset(torn), empty=frozenset(empty), unreadable=frozenset(unreadable)
    )


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
    deliveries: Iterable[Delivery], spool: Spool, faults: FeedFaults = _NO_FAULTS
) -> Selection:
    """Return the deliveries that a run reads.

    A torn full feed is left out, and supersedes nothing; nor does an unreadable one. A full feed
    without a record always supersedes: not every target has a chunk that says so.

    Raise ConfigError for names without deliveries, and for several profiles unless `only` names
    them: their records are of different indexes, and do not say which.
    """
    every = tuple(deliveries)
    _require_names(spool, every)
    if not spool.only:
        _require_one_profile(spool, every)
    named = [delivery for delivery in every if not spool.only or _is_named(delivery, spool.only)]
    torn = [delivery for delivery in named if delivery.ordinal in faults.torn]
    named = [delivery for delivery in named if delivery.ordinal not in faults.torn]
    is_latest = spool.history is SpoolHistory.LATEST
    whole = frozenset(delivery.ordinal for delivery in named) if is_latest else faults.empty
    gone = superseded(named, only=whole - faults.unreadable)
    current = [delivery for delivery in named if delivery.ordinal not in gone]
    replaced = [
        delivery for delivery in named if delivery.ordinal in gone and delivery.path is not None
    ]
    return Selection(
        deliveries=tuple(delivery for delivery in current if delivery.path is not None),
        notices=(
            *_note_superseded(replaced, spool),
            *_note_torn(torn, spool),
            *_note_cleanups(current, spool),
        ),
    )


def write_selection(selection: Selection, path: Path) -> None:
    """Write a selection, atomically."""
    with whole_file(path) as stream:
        stream.write(msgspec.json.encode(selection))


def read_selection(path: Path) -> Selection:
    return msgspec.json.decode(path.read_bytes(), type=Selection)


def notices_of(selection: Selection) -> Iterator[Notice]:
    """Yield a notice for each delivery that a selection leaves out."""
    for counted in selection.notices:
        yield from repeat(counted.first, counted.count)


def spans_of(
    selection: Selection, *, source: str, root: str, first: int = 0, rejects_missing: bool = False
) -> Iterator[Span]:
    """Yield a whole span for each delivery, the sources numbered from `first`.

    Small feeds are not put together: an appliance takes feeds in their order, but the guide does
    not say in which order it takes the records of one feed.

    Raise SourceError where a file is not as it was delivered. With `rejects_missing`, the reader of
    a missing file rejects it instead.
    """
    for ordinal, delivery in enumerate(selection.deliveries, start=first):
        path = Path(root, delivery.path or "")
        name = f"{source}#{delivery.ordinal}"
        if path.exists() or not rejects_missing:
            _require_file(path, delivery, name)
        yield Span(
            source=name,
            path=str(path),
            source_ordinal=ordinal,
            format=by_door(delivery.door).name,
            feed=_feed_of(delivery),
            signature=FileSignature(size=delivery.bytes),
        )


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


def _require_names(spool: Spool, deliveries: tuple[Delivery, ...]) -> None:
    names = {name_of(delivery) for delivery in deliveries}
    doors = {delivery.door.value for delivery in deliveries}
    unknown = sorted(set(spool.only) - names - doors)
    if unknown:
        raise ConfigError(
            f"--only {unknown[0]}: {spool.source!r} holds nothing of that name; expected one of"
            f" {_quote_all(sorted(names))}, or a door: {_quote_all(sorted(doors))}"
        )


def _require_one_profile(spool: Spool, deliveries: tuple[Delivery, ...]) -> None:
    profiles = sorted({one.profile for one in deliveries if one.door is Door.DATA})
    if len(profiles) > 1:
        raise ConfigError(
            f"INPUT: {spool.source!r} holds data of the profiles {_quote_all(profiles)}; expected"
            " --only PROFILE, as records do not say which they are of"
        )


def _is_named(delivery: Delivery, only: tuple[str, ...]) -> bool:
    return name_of(delivery) in only or delivery.door.value in only


def _note_superseded(feeds: list[Delivery], spool: Spool) -> Iterator[NoticeCount]:
    if not feeds:
        return
    counts = Counter(map(name_of, feeds))
    names = [f"{count} of {name!r}" for name, count in counts.most_common(_MAX_NAMES)]
    if len(counts) > _MAX_NAMES:
        names.append(f"and those of {len(counts) - _MAX_NAMES} more")
    detail = _SUPERSEDED[spool.history].format(", ".join(names))
    notice = Notice(code="superseded", detail=detail, source=spool.source)
    yield NoticeCount(len(feeds), notice)


def _note_torn(feeds: list[Delivery], spool: Spool) -> Iterator[NoticeCount]:
    if feeds:
        detail = (
            f"a full feed of {name_of(feeds[0])!r} without its end; left out, as it would delete"
            " documents of its missing part: earlier feeds stay"
        )
        yield _notice_count("torn", detail, feeds, spool)


def _note_cleanups(deliveries: list[Delivery], spool: Spool) -> Iterator[NoticeCount]:
    cleanups = [delivery for delivery in deliveries if delivery.path is None]
    if cleanups:
        detail = f"a cleanup of the groups of {cleanups[0].datasource!r}; {_KEPT[spool.history]}"
        yield _notice_count("cleanup", detail, cleanups, spool)


def _notice_count(code: str, detail: str, feeds: list[Delivery], spool: Spool) -> NoticeCount:
    source = f"{spool.source}#{feeds[0].ordinal}"
    return NoticeCount(len(feeds), Notice(code=code, detail=detail, source=source))


_SUPERSEDED = {
    SpoolHistory.LATEST: "later feeds supersede {}; left out: --history all reads them",
    SpoolHistory.ALL: "full feeds without records remove {}; left out",
}
_KEPT = {
    SpoolHistory.LATEST: "no feed does that: the groups that the target has stay",
    SpoolHistory.ALL: "no feed does that: earlier groups are read all the same",
}


def _require_file(path: Path, delivery: Delivery, name: str) -> None:
    try:
        size = path.stat().st_size
    except OSError as exc:
        raise _not_delivered(f"{name}: {path}: {exc.strerror}", delivery) from exc
    if size != delivery.bytes:
        raise _not_delivered(f"{name}: {path}: {size:,} bytes", delivery)


def _not_delivered(found: str, delivery: Delivery) -> SourceError:
    return SourceError(
        f"{found}; expected the {delivery.bytes:,} bytes that were delivered; copy the file again,"
        f" or take its line out of {JOURNAL}"
    )


def _quote_all(names: list[str]) -> str:
    return ", ".join(map(repr, names))
