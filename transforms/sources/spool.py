"""A spool as a source: the feeds that a receiver took, in the order of their arrival.

A spool is a folder with a journal, `deliveries.jsonl`, and the files of the feeds that it names.
It may be read while the receiver still writes to it: what stands in it never changes.
"""

import enum
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import IO

import msgspec

from schemas.account import NoticeCount
from schemas.delivery import JOURNAL, Delivery, Door
from schemas.errors import ConfigError, FormatError, SourceError
from schemas.feed import CLEANUP, FULL, METADATA_AND_URL, REPLACE, Feed, is_web
from schemas.notice import Notice
from schemas.span import FileSignature, Span
from transforms.formats import by_door
from transforms.storage.atomic import whole_file

SPOOL = "spool"
"""The format of a source that is a spool: all that stands in it is read."""

SELECTION = "spool-selection"
"""The format of a span that only tells what was not selected of a spool."""

_MOST_NAMES = 10

_lines = msgspec.json.Decoder(Delivery)


class History(enum.Enum):
    """Which feeds are read: those that no later one supersedes, or all."""

    LATEST = "latest"
    ALL = "all"


class Spool(msgspec.Struct, frozen=True, kw_only=True):
    """Which feeds of a spool are read: all, or `only` those of some names.

    A name is that of a datasource, groupsource or profile, or of a door. `source` is what its user
    calls the spool, `root` its folder. `first` tells it from any other in the same folder.
    """

    source: str
    root: str
    history: History = History.LATEST
    only: tuple[str, ...] = ()
    first: Delivery | None = None


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """Ordinals of full feeds without an end, without a record, and of those that cannot be read."""

    torn: frozenset[int] = frozenset()
    empty: frozenset[int] = frozenset()
    unreadable: frozenset[int] = frozenset()


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The deliveries that a run reads, and what it is to tell of the others."""

    deliveries: tuple[Delivery, ...] = ()
    notices: tuple[NoticeCount, ...] = ()


_UNLOOKED = Looked()


def read_deliveries(spool: Path, after: int = 0) -> Iterator[Delivery]:
    """Yield what was delivered, in order of arrival: what has an ordinal greater than `after`.

    A last line without its end is still being written, and left out; without a journal there is
    nothing. Raises FormatError for any other line that is no delivery. What comes before is passed
    over in a few steps, however long it is.
    """
    path = spool / JOURNAL
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        return
    except OSError as exc:
        raise SourceError(f"{path}: {exc.strerror}; expected a file that can be read") from exc
    with stream:
        if after:
            _pass_over(stream, path, after)
        yield from _decode(stream, path, last=after)


def superseded(
    deliveries: Iterable[Delivery], *, only: frozenset[int] | None = None
) -> frozenset[int]:
    """Return the ordinals of deliveries of which nothing stands any more, as a later one says so.

    That is a full feed of the same datasource, or full, replaced or cleaned up groups of the same
    groupsource; of these, `only` some if they are given. Thunderstone data and web feeds supersede
    nothing.
    """
    gone: set[int] = set()
    standing: dict[tuple[Door, str], list[int]] = {}
    for delivery in deliveries:
        behind = standing.setdefault((delivery.door, name_of(delivery)), [])
        if is_whole(delivery) and (only is None or delivery.ordinal in only):
            gone.update(behind)
            behind.clear()
        behind.append(delivery.ordinal)
    return frozenset(gone)


def select(deliveries: Iterable[Delivery], spool: Spool, looked: Looked = _UNLOOKED) -> Selection:
    """Return what is to be read of a spool.

    A torn full feed is left out, and supersedes nothing. Nor does one that cannot be read. One
    without a record always supersedes what came before it: not every target has a chunk that says
    that this is gone.

    Raises ConfigError for names that nothing was delivered under, and for several profiles that
    nobody has named: their records are of different indexes, and nothing in them says so.
    """
    delivered = tuple(deliveries)
    _require_names(spool, delivered)
    if not spool.only:
        _require_one_profile(spool, delivered)
    named = [one for one in delivered if not spool.only or _is_named(one, spool.only)]
    torn = [one for one in named if one.ordinal in looked.torn]
    named = [one for one in named if one.ordinal not in looked.torn]
    is_latest = spool.history is History.LATEST
    counted = frozenset(one.ordinal for one in named) if is_latest else looked.empty
    gone = superseded(named, only=counted - looked.unreadable)
    standing = [one for one in named if one.ordinal not in gone]
    fallen = [one for one in named if one.ordinal in gone and one.path is not None]
    return Selection(
        deliveries=tuple(one for one in standing if one.path is not None),
        notices=(
            *_note_superseded(fallen, spool),
            *_note_torn(torn, spool),
            *_note_cleanups(standing, spool),
        ),
    )


def write_selection(selection: Selection, path: Path) -> None:
    """Write a selection; the file gets its name when all is there."""
    with whole_file(path) as stream:
        stream.write(msgspec.json.encode(selection))


def read_selection(path: Path) -> Selection:
    """Return a selection that was written."""
    return msgspec.json.decode(path.read_bytes(), type=Selection)


def tell(selection: Selection) -> Iterator[Notice]:
    """Yield a notice for each delivery that a selection leaves out."""
    for noted in selection.notices:
        yield from repeat(noted.first, noted.count)


def spans_of(
    selection: Selection, *, source: str, root: str, first: int = 0, rejects_missing: bool = False
) -> Iterator[Span]:
    """Yield a whole span for each delivery, the sources numbered from `first`.

    However small they are, they stay apart: an appliance takes feeds in their order, but of the
    order that it takes the records of one feed in, the guide says nothing.

    Raises SourceError where the file of one is not as it was delivered. With `rejects_missing`, the
    reader of a file that is gone rejects it instead.
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


def is_whole(delivery: Delivery) -> bool:
    """Whether it is all that there is of its datasource or groupsource."""
    if delivery.door is Door.GROUPS:
        return delivery.feedtype in (FULL, CLEANUP, REPLACE)
    is_content = not is_web(delivery.datasource, delivery.feedtype)
    return delivery.door is Door.FEED and delivery.feedtype == FULL and is_content


def name_of(delivery: Delivery) -> str:
    """Return the datasource, groupsource or profile of a delivery."""
    return delivery.profile if delivery.door is Door.DATA else delivery.datasource


def _pass_over(stream: IO[bytes], path: Path, after: int) -> None:
    """Go to the first line of a greater ordinal, by halves: ordinals rise from line to line."""
    low, high = 0, stream.seek(0, os.SEEK_END)
    while low < high:
        middle = (low + high) // 2
        begin = _next_line(stream, middle)
        line = stream.readline()
        has_end = begin < high and line.endswith(b"\n")
        if has_end and _decode_line(line, begin, path).ordinal <= after:
            low = stream.tell()
        else:
            high = middle
    stream.seek(low)


def _next_line(stream: IO[bytes], offset: int) -> int:
    """Go to the first line that begins at `offset` or behind it."""
    stream.seek(max(offset - 1, 0))
    if offset:
        stream.readline()
    return stream.tell()


def _decode(stream: IO[bytes], path: Path, *, last: int) -> Iterator[Delivery]:
    offset = stream.tell()
    for line in stream:
        if not line.endswith(b"\n"):
            return
        delivery = _decode_line(line, offset, path)
        if delivery.ordinal <= last:
            raise _damaged(path, offset, f"ordinal {delivery.ordinal} behind {last}")
        if delivery.path is not None and not _is_inside(delivery.path):
            raise _damaged(path, offset, f"path {delivery.path!r}, which is not below the spool")
        last = delivery.ordinal
        offset += len(line)
        yield delivery


def _decode_line(line: bytes, offset: int, path: Path) -> Delivery:
    try:
        return _lines.decode(line)
    except msgspec.DecodeError as exc:
        raise _damaged(path, offset, str(exc)) from exc


def _is_inside(path: str) -> bool:
    parts = {*path.split("/")}
    return not path.startswith("/") and ".." not in parts and bool(parts - {"", "."})


def _damaged(path: Path, offset: int, found: str) -> FormatError:
    with path.open("rb") as stream:
        number = 1 + stream.read(offset).count(b"\n")
    return FormatError(
        f"{path}:{number}: {found}; expected a delivery, as feedferry serve writes it; take the"
        " line out, and all but the feed that it names is read"
    )


def _feed_of(delivery: Delivery) -> Feed | None:
    if delivery.door is Door.DATA:
        return None
    feedtype = FULL if delivery.feedtype == REPLACE else delivery.feedtype
    if feedtype == FULL and delivery.door is Door.FEED and not is_whole(delivery):
        feedtype = METADATA_AND_URL  # web is never replaced, whatever a client says
    return Feed(datasource=delivery.datasource, feedtype=feedtype)


def _require_names(spool: Spool, deliveries: tuple[Delivery, ...]) -> None:
    names = {name_of(one) for one in deliveries}
    doors = {one.door.value for one in deliveries}
    unknown = sorted(set(spool.only) - names - doors)
    if unknown:
        raise ConfigError(
            f"--only {unknown[0]}: {spool.source!r} holds nothing of that name; expected one of"
            f" {_join(sorted(names))}, or a door: {_join(sorted(doors))}"
        )


def _require_one_profile(spool: Spool, deliveries: tuple[Delivery, ...]) -> None:
    profiles = sorted({one.profile for one in deliveries if one.door is Door.DATA})
    if len(profiles) > 1:
        raise ConfigError(
            f"INPUT: {spool.source!r} holds data of the profiles {_join(profiles)}; expected --only"
            " PROFILE, as records do not say which they are of"
        )


def _is_named(delivery: Delivery, only: tuple[str, ...]) -> bool:
    return name_of(delivery) in only or delivery.door.value in only


def _note_superseded(feeds: list[Delivery], spool: Spool) -> Iterator[NoticeCount]:
    if not feeds:
        return
    counts = Counter(name_of(one) for one in feeds)
    shown = [f"{count} of {name!r}" for name, count in counts.most_common(_MOST_NAMES)]
    if len(counts) > _MOST_NAMES:
        shown.append(f"and those of {len(counts) - _MOST_NAMES} more")
    detail = _FALLEN[spool.history].format(", ".join(shown))
    notice = Notice(code="superseded", detail=detail, source=spool.source)
    yield NoticeCount(len(feeds), notice)


def _note_torn(feeds: list[Delivery], spool: Spool) -> Iterator[NoticeCount]:
    if feeds:
        detail = (
            f"a full feed of {name_of(feeds[0])!r} without its end; left out, as it would delete"
            " what stands in the rest: what came before it stands"
        )
        yield _noted("torn", detail, feeds, spool)


def _noted(code: str, detail: str, feeds: list[Delivery], spool: Spool) -> NoticeCount:
    source = f"{spool.source}#{feeds[0].ordinal}"
    return NoticeCount(len(feeds), Notice(code=code, detail=detail, source=source))


def _note_cleanups(deliveries: list[Delivery], spool: Spool) -> Iterator[NoticeCount]:
    cleanups = [one for one in deliveries if one.path is None]
    if not cleanups:
        return
    detail = f"a cleanup of the groups of {cleanups[0].datasource!r}; {_UNCLEANED[spool.history]}"
    yield _noted("cleanup", detail, cleanups, spool)


_FALLEN = {
    History.LATEST: "later feeds supersede {}; left out: --history all reads them",
    History.ALL: "full feeds without records remove {}; left out",
}
_UNCLEANED = {
    History.LATEST: "no feed does that: what the target has of them stays",
    History.ALL: "no feed does that: what came before it is read all the same",
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


def _join(names: list[str]) -> str:
    return ", ".join(map(repr, names))
