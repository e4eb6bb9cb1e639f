"""Fast reading of listings: whole blocks of records that have the usual shape.

A block with any other record is read command by command, and so is a stream with a delimiter of
more than one byte.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import NamedTuple

import msgspec

from schemas.record import Action, Arrival, Crawl, Provenance, Record
from schemas.span import Span

_FLAGS = ("lock", "crawl-once", "crawl-immediately")
_DELETE = "delete"
_MODIFIED_CHARS = len("last-modified=") + 1
_ID = "id="
_ID_CHARS = len(_ID) + 1
_epochs = msgspec.json.Decoder(list[datetime], strict=False)


class _FlagEffect(NamedTuple):
    """The fields that a combination of flags sets; `size` is that of `id=` and the flags."""

    action: Action
    arrival: Arrival | None
    crawl: Crawl | None
    size: int


class FastListingParser:
    """Makes records of blocks of a stream whose delimiter is one byte."""

    def __init__(self, delimiter: bytes, url_of: Callable[[str], str], span: Span) -> None:
        self._separator = delimiter.decode("latin-1")
        self._between_ids = _between_ids(self._separator)
        self._url_of = url_of
        self._span = span

    def documents(self, block: bytes, offset: int) -> Iterator[Record] | None:
        """Return the records of a block that begins with `id=` and ends with the delimiter.

        Return None unless all records have the usual shape: an id, a time, flags.
        """
        text = _decode(block)
        if text is None:
            return None
        *parts, after = self._between_ids.split(text[len(_ID) :] + _ID)
        docids, dates, flags = parts[0::3], parts[1::3], parts[2::3]
        if after or self._separator in "".join(docids):
            return None
        lengths = docids if len(text) == len(block) else [docid.encode() for docid in docids]
        columns = zip(docids, dates, flags, map(len, lengths), _moments(dates), strict=True)
        return self._records(columns, set(flags), offset)

    def ids(self, block: bytes, offset: int) -> Iterator[Record] | None:
        """Return the records of ids of an id-list, each with the delimiter after it.

        Return None unless all ids are plain UTF-8.
        """
        text = _decode(block)
        if text is None:
            return None
        return self._listed(text.split(self._separator)[:-1], offset)

    def _records(
        self,
        columns: Iterable[tuple[str, str | None, str, int, datetime | None]],
        flags: set[str],
        offset: int,
    ) -> Iterator[Record]:
        source, ordinal = self._span.source, self._span.ordinal
        effects = {names: _flag_effect(names, self._separator) for names in flags}
        for docid, date, names, length, moment in columns:
            action, arrival, crawl, size = effects[names]
            yield Record(
                url=self._url_of(docid),
                action=action,
                arrival=arrival,
                modified=moment,
                crawl=crawl,
                provenance=Provenance(source=source, span=ordinal, offset=offset),
            )
            offset += length + size
            if date:
                offset += _MODIFIED_CHARS + len(date)

    def _listed(self, docids: list[str], offset: int) -> Iterator[Record]:
        source, ordinal, url_of = self._span.source, self._span.ordinal, self._url_of
        for docid in docids:
            yield Record(
                url=url_of(docid),
                action=Action.ADD,
                arrival=Arrival.CRAWLED,
                provenance=Provenance(source=source, span=ordinal, offset=offset),
            )
            offset += 1 + len(docid.encode())


def _decode(block: bytes) -> str | None:
    try:
        return None if b"\xc0" in block else block.decode()
    except UnicodeDecodeError:
        return None


def _between_ids(separator: str) -> re.Pattern[str]:
    """Return a pattern for the bytes between two ids, with the time and the flags as groups."""
    end = re.escape(separator)
    flags = "|".join((*_FLAGS, _DELETE))
    return re.compile(
        f"{end}(?:last-modified=(0|[1-9][0-9]{{0,10}}){end})?"
        f"((?:(?:{flags}){end}){{0,{len(_FLAGS) + 1}}}){_ID}",
        re.ASCII,
    )


def _moments(dates: Sequence[str | None]) -> Iterable[datetime | None]:
    texts = list(filter(None, dates))
    moments: list[datetime] = _epochs.decode(f"[{','.join(texts)}]")
    if len(texts) == len(dates):
        return moments
    remaining = iter(moments)
    return (next(remaining) if date else None for date in dates)


@cache
def _flag_effect(flags: str, separator: str) -> _FlagEffect:
    names = flags.split(separator)[:-1]
    hints = {name.replace("-", "_"): True for name in names if name != _DELETE}
    crawl = msgspec.structs.replace(Crawl(), **hints) if hints else None
    size = _ID_CHARS + len(flags)
    if _DELETE in names:
        return _FlagEffect(Action.DELETE, None, crawl, size)
    return _FlagEffect(Action.ADD, Arrival.CRAWLED, crawl, size)
