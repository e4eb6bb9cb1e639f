"""The place of each record in a feed, so that a part of the feed can be sent as a feed of its own.

A part is a range of the feed's bytes, unchanged, between a head and a tail. The head has the start
tags that are open at its first record, the tail the end tags that are missing after its last one.
A part may span the border between two groups, or between two feeds in one stream.

**Keeps:** the byte order mark, XML declaration and DOCTYPE; the header; the group, whose attributes
apply to its records. Bytes that are no record belong to the record before them, and at the start to
the first record, so nothing gets lost between two parts.

**Drops:** comments before the first record of a group.

A stream in another encoding than UTF-8 has records, but no parts.
"""

import html
import re
from array import array
from bisect import bisect_left, bisect_right
from typing import IO, NamedTuple

from schemas.errors import FormatError
from schemas.reject import Reject
from schemas.span import ElementContext, Span
from transforms.formats import all_formats, find_format
from transforms.formats.gsa.feed_context import feed_context
from transforms.formats.xml.raw_element import RawElement, find_url
from transforms.formats.xml.scanner import RecordScanner

_MAX_RECORD_BYTES = 1 << 30
_NAME_BYTES = 1 << 20
"""How far into a record its name is searched."""

_GROUP = re.compile(rb"<principal\b[^<>]*>\s*([^<>]*[^<>\s])")
_UPDATE_INDEX = re.compile(rb"<Type>\s*UI\s*</Type>")
_UPDATE_BYTES = 1024


class FeedPart(NamedTuple):
    """Some records as a document: `length` bytes of the stream from `offset`, between two texts."""

    head: bytes
    offset: int
    length: int
    tail: bytes


class _Position(NamedTuple):
    """The open markup at a place between records: the text before the root, and start tags."""

    prolog: bytes
    context: ElementContext


class RecordOffsets:
    """The place of each record of a stream, in 16 bytes per record and 40 per group.

    `documents` is the number of feeds in the stream; `datasource` and `feedtype` are those in the
    header of the first gsafeed. `is_torn` states that the last feed does not end. `updates` counts
    the Items that only ask for new search indexes. `first_url` and `last_url` are those of records,
    or names of groups.
    """

    def __init__(self, stream: IO[bytes], format: str, *, source: str = "") -> None:
        """Read the stream once, with one record in memory at a time.

        Raises FormatError if there is no feed, or if the format is not XML.
        """
        found = find_format(format)
        if found is None or found.element_names is None:
            xml = ", ".join(format_.name for format_ in all_formats() if format_.is_xml)
            raise FormatError(f"{source}: {format!r}; expected one of {xml}")
        names = found.element_names
        self._source = source
        self._root = names.root.encode()
        self._begins, self._lines = array("Q"), array("Q")  # of records
        # Of runs of records in one context: first record, end, and positions before and after.
        self._firsts, self._ends = array("Q"), array("Q")
        self._befores, self._afters = array("L"), array("L")
        self._document_firsts = array("Q")
        self._positions: dict[_Position, int] = {}
        self.is_torn = False
        self.updates = 0
        self.first_url = self.last_url = ""
        span = Span(source=source)
        scanner = RecordScanner(stream, names, span, max_unit_bytes=_MAX_RECORD_BYTES)
        self._read(scanner)
        self._numbered = tuple(self._positions)
        self.is_utf8 = scanner.is_utf8
        self.documents = scanner.documents
        header = next(filter(None, scanner.ended), b"")
        context = feed_context(ElementContext(header=header))
        self.datasource = context.datasource
        self.feedtype = context.feedtype

    def _read(self, scanner: RecordScanner) -> None:
        last: RawElement | None = None
        leading: Reject | None = None  # bytes before the first record belong to it
        leading_context = run_context = scanner.context
        document, end, after = 0, 0, _Position(b"", scanner.context)
        for item in scanner:
            if isinstance(item, Reject):
                self.is_torn = self.is_torn or item.code == "torn-end"
                if last is not None:
                    end, after = item.offset + item.length, _position(scanner)
                elif leading is None:
                    leading, leading_context = item, scanner.step_context
            elif isinstance(item, RawElement):
                is_led = leading is not None and last is None
                if last is None or item.context is not run_context:
                    if last is None:
                        self.first_url = _unescaped_name(item)
                    else:
                        self._end_run(end, after)
                    if document != scanner.documents:
                        self._document_firsts.append(len(self._begins))
                    document = scanner.documents
                    run_context = leading_context if is_led else item.context
                    before = _Position(scanner.prolog, run_context)
                    self._firsts.append(len(self._begins))
                    self._befores.append(self._number(before))
                    after = _Position(scanner.prolog, item.context)
                start: RawElement | Reject = leading if is_led and leading else item
                self._begins.append(start.offset)
                self._lines.append(start.line or 0)
                end, last = item.offset + len(item.text), item
                if item.name == "Item" and len(item.text) < _UPDATE_BYTES:
                    self.updates += bool(_UPDATE_INDEX.search(item.text))
        if last is not None:
            self.last_url = _unescaped_name(last)
            self._end_run(end, after)

    def _end_run(self, end: int, after: _Position) -> None:
        self._ends.append(end)
        self._afters.append(self._number(after))

    def _number(self, position: _Position) -> int:
        return self._positions.setdefault(position, len(self._positions))

    def __len__(self) -> int:
        return len(self._begins)

    def part(self, first: int, count: int) -> FeedPart:
        """Return `count` records, at least one, from record `first` on, as a document.

        Raises FormatError if the stream is not UTF-8.
        """
        if not self.is_utf8:
            raise FormatError(
                f"{self._source}:1: another encoding than UTF-8; expected UTF-8, for a feed "
                "that is to be sent in parts: convert it first"
            )
        next_record = first + count
        run, last_run = self._run_of(first), self._run_of(next_record - 1)
        before = self._numbered[self._befores[run]]
        ends_run = next_record == len(self._begins) or self._run_of(next_record) > last_run
        if ends_run:
            end, after = self._ends[last_run], self._numbered[self._afters[last_run]]
        else:
            end, after = self._begins[next_record], self._numbered[self._befores[last_run]]
        groups = _open_groups(before.context, leaves=run != last_run or before != after)
        offset = self._begins[first]
        return FeedPart(
            head=_head(before, groups, self._root),
            offset=offset,
            length=end - offset,
            tail=_tail(before.context, after.context, len(groups), self._root),
        )

    def line(self, record: int) -> int:
        """Return the line in which a record begins, from 1."""
        return self._lines[record]

    def middle(self, first: int, count: int) -> int:
        """Return the first record of the second half, in bytes, of at least two records.

        If they are of several feeds, it is the first record of a feed.
        """
        last = first + count - 1
        part = self.part(first, count)
        middle = part.offset + part.length // 2
        borders = self._document_firsts
        low, high = bisect_right(borders, first), bisect_right(borders, last)
        if low < high:
            return min(borders[low:high], key=lambda record: abs(self._begins[record] - middle))
        record = bisect_left(self._begins, middle, first + 1, last)
        before, after = self._begins[record - 1], self._begins[record]
        return record - 1 if record > first + 1 and middle - before <= after - middle else record

    def _run_of(self, record: int) -> int:
        return bisect_right(self._firsts, record) - 1


def name_in(text: bytes) -> str | None:
    """Return the url of a record or the group of a membership, with its references."""
    text = text[:_NAME_BYTES]
    if (url := find_url(text)) is not None:
        return url
    group = _GROUP.search(text) if b"<membership" in text else None
    return group[1].decode("utf-8", "replace") if group else None


def _position(scanner: RecordScanner) -> _Position:
    return _Position(scanner.prolog, scanner.context)


def _open_groups(context: ElementContext, *, leaves: bool) -> tuple[bytes, ...]:
    """Return the start tags of groups; of nested ones, only the inner if no record leaves it."""
    if not context.group:
        return ()
    inner = context.group + b"\n"
    return (b"<group>\n", inner) if context.depth > 1 and leaves else (inner,)


def _head(position: _Position, groups: tuple[bytes, ...], root: bytes) -> bytes:
    context = position.context
    tags = (context.root or b"<%b>" % root, context.header)
    return b"".join((position.prolog, *(tag + b"\n" for tag in tags if tag), *groups))


def _tail(before: ElementContext, after: ElementContext, opened: int, root: bytes) -> bytes:
    groups = b"</group>\n" * (after.depth - before.depth + opened)
    is_open = after.root or not before.root
    return groups + (b"</%b>\n" % root if is_open else b"")


def _unescaped_name(element: RawElement) -> str:
    return html.unescape(name_in(element.text) or "")
