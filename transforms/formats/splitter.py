"""The place of each record in a feed, so that a part of the feed can be sent as a feed of its own.

A part is a range of the feed's bytes, unchanged, between a head and a tail. The head has the start
tags that are open at its first record, the tail the end tags that are missing after its last one.
A part may span the border between two groups.

**Keeps:** the byte order mark, XML declaration and DOCTYPE; the header; the group, whose attributes
apply to its records. Bytes that are no record belong to the record before them, and at the start to
the first record, so nothing gets lost between two parts.

**Drops:** comments before the first record of a group.

**Has no parts:** a stream in another encoding than UTF-8, several feeds in one stream, a group
inside a group.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from typing import IO, NamedTuple

from schemas.errors import FormatError
from schemas.reject import Reject
from schemas.span import ElementContext, Span
from transforms.formats import FORMATS, find_format
from transforms.formats.gsa.record_reader import feed_context
from transforms.formats.xml.scanner import UNKNOWN, RawElement, RecordScanner, find_url

_MAX_RECORD_BYTES = 1 << 30
_UPDATE_INDEX = re.compile(rb"<Type>\s*UI\s*</Type>")
_UPDATE_BYTES = 1024


class FeedPart(NamedTuple):
    """Some records as a document: `length` bytes of the stream from `offset`, between two texts."""

    head: bytes
    offset: int
    length: int
    tail: bytes


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
            xml = ", ".join(format_.name for format_ in FORMATS if format_.is_xml)
            raise FormatError(f"{source}: {format!r}; expected one of {xml}")
        names = found.element_names
        self._source = source
        self._root = names.root.encode()
        self._begins, self._lines = array("Q"), array("Q")  # of records
        # Of runs of records in one context: first record, end, and contexts before and after.
        self._firsts, self._ends = array("Q"), array("Q")
        self._befores, self._afters = array("L"), array("L")
        self._contexts: dict[ElementContext, int] = {}
        self.is_torn = False
        self.updates = 0
        self.first_url = self.last_url = ""
        span = Span(source=source)
        scanner = RecordScanner(stream, names, span, max_unit_bytes=_MAX_RECORD_BYTES)
        self._prolog = b""
        self._read(scanner)
        self._numbered = tuple(self._contexts)
        self._is_nested = any(context.depth > 1 for context in self._numbered)
        self._is_damaged = any(UNKNOWN in (one.header, one.group) for one in self._numbered)
        self._is_utf8 = scanner.is_utf8
        self.documents = scanner.documents
        header = next(filter(None, scanner.ended), b"")
        context = feed_context(ElementContext(header=header))
        self.datasource = context.datasource
        self.feedtype = context.feedtype

    def _read(self, scanner: RecordScanner) -> None:
        last: RawElement | None = None
        leading: Reject | None = None  # bytes before the first record belong to it
        leading_context = run_context = after = scanner.context
        end = 0
        for item in scanner:
            if isinstance(item, Reject):
                self.is_torn = self.is_torn or item.code == "torn-end"
                if last is not None:
                    end, after = item.offset + item.length, scanner.context
                elif leading is None:
                    leading, leading_context = item, scanner.step_context
            elif isinstance(item, RawElement):
                start: RawElement | Reject = item
                if last is None or item.context is not run_context:
                    run_context = item.context
                    if last is not None:
                        self._end_run(end, after)
                    else:
                        self._prolog = scanner.prolog
                        self.first_url = _unescaped_url(item)
                        if leading is not None:
                            start, run_context = leading, leading_context
                    self._firsts.append(len(self._begins))
                    self._befores.append(self._number(run_context))
                    after = item.context
                self._begins.append(start.offset)
                self._lines.append(start.line or 0)
                end, last = item.offset + len(item.text), item
                if item.name == "Item" and len(item.text) < _UPDATE_BYTES:
                    self.updates += bool(_UPDATE_INDEX.search(item.text))
        if last is not None:
            self.last_url = _unescaped_url(last)
            self._end_run(end, after)

    def _end_run(self, end: int, after: ElementContext) -> None:
        self._ends.append(end)
        self._afters.append(self._number(after))

    def _number(self, context: ElementContext) -> int:
        return self._contexts.setdefault(context, len(self._contexts))

    def __len__(self) -> int:
        return len(self._begins)

    def part(self, first: int, count: int) -> FeedPart:
        """Return `count` records, at least one, from record `first` on, as a document.

        Raises FormatError if the stream has no parts.
        """
        self._require_parts()
        next_record = first + count
        run, last_run = self._run_of(first), self._run_of(next_record - 1)
        before = self._numbered[self._befores[run]]
        ends_run = next_record == len(self._begins) or self._run_of(next_record) > last_run
        if ends_run:
            end, after = self._ends[last_run], self._numbered[self._afters[last_run]]
        else:
            end, after = self._begins[next_record], self._numbered[self._befores[last_run]]
        tags = (before.root or b"<%b>" % self._root, before.header, before.group)
        tail = b"</group>\n" * after.depth
        if after.root or not before.root:
            tail += b"</%b>\n" % self._root
        offset = self._begins[first]
        return FeedPart(
            head=self._prolog + b"".join(tag + b"\n" for tag in tags if tag),
            offset=offset,
            length=end - offset,
            tail=tail,
        )

    def _require_parts(self) -> None:
        if not self._is_utf8:
            found, expected = "another encoding than UTF-8", "UTF-8"
        elif self.documents > 1:
            found, expected = f"{self.documents} feeds in one file", "one"
        elif self._is_damaged:
            found, expected = "records outside of a feed", "a whole feed"
        elif self._is_nested:
            found, expected = "a group inside a group", "groups one after another"
        else:
            return
        raise FormatError(
            f"{self._source}:1: {found}; expected {expected}, for a feed that is to be sent in "
            "parts: convert it first"
        )

    def line(self, record: int) -> int:
        """Return the line in which a record begins, from 1."""
        return self._lines[record]

    def middle(self, first: int, count: int) -> int:
        """Return the first record of the second half, in bytes, of at least two records."""
        last = first + count - 1
        part = self.part(first, count)
        middle = part.offset + part.length // 2
        record = bisect_left(self._begins, middle, first + 1, last)
        before, after = self._begins[record - 1], self._begins[record]
        return record - 1 if record > first + 1 and middle - before <= after - middle else record

    def _run_of(self, record: int) -> int:
        return bisect_right(self._firsts, record) - 1


def _unescaped_url(element: RawElement) -> str:
    return find_url(element.text) or ""
