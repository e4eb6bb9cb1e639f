"""Listings at the speed of the disk: stretches of records of the usual shape, a block at a time.

A stretch with anything else in it is left to the reader that goes command by command; so is every
stream whose delimiter is longer than a byte.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import msgspec

from schemas.record import Action, Arrival, Crawl, Provenance, Record
from schemas.span import Span

_FLAGS = ("lock", "crawl-once", "crawl-immediately")
_DELETE = "delete"
_MODIFIED_CHARS = len("last-modified=") + 1
_ID = "id="
_ID_CHARS = len(_ID) + 1
_epochs = msgspec.json.Decoder(list[datetime], strict=False)
_Columns = tuple[Sequence[str], Sequence[str | None], Sequence[str]]


class _Hints(NamedTuple):
    """What the flags of a record say; `size` is that of a record with them, but for id and time."""

    action: Action
    arrival: Arrival | None
    crawl: Crawl | None
    size: int


class Express:
    """Makes records of stretches of a stream that is separated by one byte."""

    def __init__(self, delimiter: bytes, url_of: Callable[[str], str], span: Span) -> None:
        self._delimiter = delimiter
        self._separator = delimiter.decode("latin-1")
        self._between_ids = _between_ids(self._separator)
        self._url_of = url_of
        self._span = span

    def documents(self, stretch: bytes, offset: int) -> Iterator[Record] | None:
        """Return the records of a stretch that begins with `id=` and ends with the delimiter.

        None where they are not all of the usual shape: their id, a time, flags.
        """
        text = _text(stretch)
        if text is None:
            return None
        *parts, behind = self._between_ids.split(text[len(_ID) :] + _ID)
        rows = docids, _, _ = parts[0::3], parts[1::3], parts[2::3]
        if behind or self._separator in "".join(docids):
            return None
        lengths = docids if len(text) == len(stretch) else [docid.encode() for docid in docids]
        return self._dated(rows, map(len, lengths), offset)

    def ids(self, stretch: bytes, offset: int) -> Iterator[Record] | None:
        """Return the records of the ids in a stretch of an id-list, all ending with the delimiter.

        None where some are not UTF-8 without liberties.
        """
        text = _text(stretch)
        if text is None:
            return None
        return self._plain(text.split(self._separator)[:-1], offset)

    def _dated(self, rows: _Columns, lengths: Iterable[int], offset: int) -> Iterator[Record]:
        source, span = self._span.source, self._span.ordinal
        docids, dates, flags = rows
        hints = {stated: _hints(stated, self._separator) for stated in set(flags)}
        columns = zip(
            map(self._url_of, docids), _moments(dates), dates, flags, lengths, strict=True
        )
        for url, moment, date, stated, length in columns:
            action, arrival, crawl, size = hints[stated]
            yield Record(
                url=url,
                action=action,
                arrival=arrival,
                modified=moment,
                crawl=crawl,
                provenance=Provenance(source=source, span=span, offset=offset),
            )
            offset += length + size
            if date:
                offset += _MODIFIED_CHARS + len(date)

    def _plain(self, docids: list[str], offset: int) -> Iterator[Record]:
        source, span, url_of = self._span.source, self._span.ordinal, self._url_of
        for docid in docids:
            yield Record(
                url=url_of(docid),
                action=Action.ADD,
                arrival=Arrival.CRAWLED,
                provenance=Provenance(source=source, span=span, offset=offset),
            )
            offset += 1 + len(docid.encode())


def _text(stretch: bytes) -> str | None:
    if b"\xc0" in stretch:
        return None
    try:
        return stretch.decode()
    except UnicodeDecodeError:
        return None


def _between_ids(separator: str) -> re.Pattern[str]:
    """A pattern for what stands between two ids, with the time and the flags as its groups."""
    end = re.escape(separator)
    flags = "|".join((*_FLAGS, _DELETE))
    return re.compile(
        f"{end}(?:last-modified=(0|[1-9][0-9]{{0,10}}){end})?"
        f"((?:(?:{flags}){end}){{0,{len(_FLAGS) + 1}}}){_ID}",
        re.ASCII,
    )


def _moments(dates: Sequence[str | None]) -> Iterable[datetime | None]:
    stated = list(filter(None, dates))
    moments: list[datetime] = _epochs.decode(f"[{','.join(stated)}]")
    if len(stated) == len(dates):
        return moments
    following = iter(moments)
    return (next(following) if date else None for date in dates)


@cache
def _hints(flags: str, separator: str) -> _Hints:
    names = flags.split(separator)[:-1]
    stated: dict[str, Any] = {name.replace("-", "_"): True for name in names if name != _DELETE}
    crawl = Crawl(**stated) if stated else None
    size = _ID_CHARS + len(flags)
    if _DELETE in names:
        return _Hints(Action.DELETE, None, crawl, size)
    return _Hints(Action.ADD, Arrival.CRAWLED, crawl, size)
