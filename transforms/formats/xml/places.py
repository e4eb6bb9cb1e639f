"""The places of the records of an XML document.

The head of a part has the start tags that are open at its first record, the tail the end tags that
are missing after its last one. A part may span the border between two groups.

**Keeps:** the byte order mark, XML declaration and DOCTYPE; the header; the group, whose attributes
apply to its records.

**Drops:** comments before the first record of a group.

**Has no parts:** a stream in another encoding than UTF-8, several feeds in one stream, a group
inside a group.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import IO

from feedferry.schemas.errors import FormatError
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import ElementContext, Span
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.places import PartPlace, Places
from feedferry.transforms.formats.xml.scanning.document_state import UNKNOWN
from feedferry.transforms.formats.xml.scanning.raw_elements import RawElement
from feedferry.transforms.formats.xml.scanning.rejected_ranges import find_url
from feedferry.transforms.formats.xml.scanning.scanner import RecordScanner

_MAX_RECORD_BYTES = 1 << 30

FeedOf = Callable[[bytes], tuple[str | None, str | None]]
"""Reads datasource and feedtype of the header of a feed."""


class XmlPlaces(Places):
    """The place of each record of a document, in 40 more bytes per group."""

    def __init__(
        self,
        names: ElementNames,
        stream: IO[bytes],
        *,
        source: str = "",
        feed_of: FeedOf = lambda _header: (None, None),
    ) -> None:
        """Read the stream once, with one record in memory; raise FormatError for no feed."""
        super().__init__(source)
        self._root = names.root.encode()
        # Of runs of records in one context: first record, end, and contexts before and after.
        self._firsts, self._ends = array("Q"), array("Q")
        self._befores, self._afters = array("L"), array("L")
        self._contexts: dict[ElementContext, int] = {}
        span = Span(source=source)
        scanner = RecordScanner(stream, names, span, max_unit_bytes=_MAX_RECORD_BYTES)
        self._prolog = b""
        self._read(scanner)
        self._numbered = tuple(self._contexts)
        self._is_nested = any(context.depth > 1 for context in self._numbered)
        self._is_damaged = any(UNKNOWN in (one.header, one.group) for one in self._numbered)
        self._is_utf8 = scanner.is_utf8
        self.documents = scanner.document.documents
        self.datasource, self.feedtype = feed_of(next(filter(None, scanner.document.ended), b""))

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
                        self._prolog = scanner.document.prolog
                        self.first_url = _unescaped_url(item)
                        if leading is not None:
                            start, run_context = leading, leading_context
                    self._firsts.append(len(self))
                    self._befores.append(self._number(run_context))
                    after = item.context
                self.add(start.offset, start.line or 0)
                end, last = item.offset + len(item.text), item
        if last is not None:
            self.last_url = _unescaped_url(last)
            self._end_run(end, after)

    def _end_run(self, end: int, after: ElementContext) -> None:
        self._ends.append(end)
        self._afters.append(self._number(after))

    def _number(self, context: ElementContext) -> int:
        return self._contexts.setdefault(context, len(self._contexts))

    def part(self, first: int, count: int) -> PartPlace:
        self._require_parts()
        next_record = first + count
        run, last_run = self._run_of(first), self._run_of(next_record - 1)
        before = self._numbered[self._befores[run]]
        ends_run = next_record == len(self) or self._run_of(next_record) > last_run
        if ends_run:
            end, after = self._ends[last_run], self._numbered[self._afters[last_run]]
        else:
            end, after = self.begins[next_record], self._numbered[self._befores[last_run]]
        tags = (before.root or b"<%b>" % self._root, before.header, before.group)
        tail = b"</group>\n" * after.depth
        if after.root or not before.root:
            tail += b"</%b>\n" % self._root
        offset = self.begins[first]
        return PartPlace(
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
            f"{self.source}:1: {found}; expected {expected}, for a feed that is to be sent in "
            "parts: convert it first"
        )

    def url_of(self, data: bytes) -> str | None:
        return find_url(data)

    def _run_of(self, record: int) -> int:
        return bisect_right(self._firsts, record) - 1


def _unescaped_url(element: RawElement) -> str:
    return find_url(element.text) or ""
