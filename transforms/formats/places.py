"""The place of each record in a chunk, so that some of its records can be sent as a chunk.

A part is a range of the bytes of the chunk, unchanged, between a head and a tail. Bytes that are no
record belong to the record before them, and at the start to the first record, so nothing gets lost
between two parts.
"""

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Callable
from typing import IO, NamedTuple


class PartPlace(NamedTuple):
    """Some records as a document: `length` bytes of the stream from `offset`, between two texts."""

    head: bytes
    offset: int
    length: int
    tail: bytes


class Places(ABC):
    """The place of each record of a stream, in 16 bytes per record.

    `documents` is the number of feeds in the stream; `datasource` and `feedtype` are those that the
    first states. `is_torn` says that the last feed does not end. `first_url` and
    `last_url` are those of records, or names of groups.
    """

    documents = 1
    datasource: str | None = None
    feedtype: str | None = None
    is_torn = False
    first_url = last_url = ""

    def __init__(self, source: str) -> None:
        self.source = source
        self.begins, self._lines = array("Q"), array("Q")

    def add(self, offset: int, line: int) -> None:
        """Add the next record."""
        self.begins.append(offset)
        self._lines.append(line)

    def __len__(self) -> int:
        return len(self.begins)

    @abstractmethod
    def part(self, first: int, count: int) -> PartPlace:
        """Return `count` records, at least one, from record `first` on, as a document.

        Raises FormatError if the stream has no parts.
        """

    @abstractmethod
    def url_of(self, data: bytes) -> str | None:
        """Return the URL that a record states, or the name of its group; None if it has none."""

    def line(self, record: int) -> int:
        """Return the line in which a record begins, from 1."""
        return self._lines[record]

    def middle(self, first: int, count: int) -> int:
        """Return the first record of the second half, in bytes, of at least two records."""
        last = first + count - 1
        part = self.part(first, count)
        middle = part.offset + part.length // 2
        record = bisect_left(self.begins, middle, first + 1, last)
        before, after = self.begins[record - 1], self.begins[record]
        return record - 1 if record > first + 1 and middle - before <= after - middle else record


class LinePlaces(Places):
    """The places of records without a frame around them, which begin at a line each.

    `begins_record` says whether a record begins at a line; the lines after it belong to it.
    `find_url` returns the URL that the first line of a record states.
    """

    def __init__(
        self,
        stream: IO[bytes],
        *,
        source: str = "",
        begins_record: Callable[[bytes], bool] = lambda line: not line.isspace(),
        find_url: Callable[[bytes], str | None],
    ) -> None:
        """Read the stream once, with one line in memory at a time."""
        super().__init__(source)
        self._find_url = find_url
        first = last = b""
        offset = 0
        for number, line in enumerate(stream, start=1):
            if begins_record(line):
                self.add(offset if self.begins else 0, number)
                first, last = first or line, line
            offset += len(line)
        self._end = offset
        self.first_url, self.last_url = self.url_of(first) or "", self.url_of(last) or ""

    def part(self, first: int, count: int) -> PartPlace:
        is_last = first + count == len(self)
        end = self._end if is_last else self.begins[first + count]
        return PartPlace(b"", self.begins[first], end - self.begins[first], b"")

    def url_of(self, data: bytes) -> str | None:
        return self._find_url(data.lstrip().partition(b"\n")[0]) if data else None
