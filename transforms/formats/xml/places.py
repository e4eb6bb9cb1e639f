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
from collections.abc import Callable, Sequence
from functools import cached_property
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


class _ContextRuns:
    """Runs of records in one context: the first record of each, its end, and the contexts.

    The first record has the context before a run, and what follows its end the one after it.
    """

    def __init__(self) -> None:
        self._firsts, self._ends = array("Q"), array("Q")
        self._befores, self._afters = array("L"), array("L")
        self._numbers: dict[ElementContext, int] = {}

    def begin(self, first: int, context: ElementContext) -> None:
        """Begin a run with a record."""
        self._firsts.append(first)
        self._befores.append(self._number(context))

    def finish(self, end: int, after: ElementContext) -> None:
        """Note the end of the run that was begun."""
        self._ends.append(end)
        self._afters.append(self._number(after))

    def run_of(self, record: int) -> int:
        """Return the number of the run that has a record."""
        return bisect_right(self._firsts, record) - 1

    def before(self, run: int) -> ElementContext:
        return self.contexts[self._befores[run]]

    def after(self, run: int) -> ElementContext:
        return self.contexts[self._afters[run]]

    def end(self, run: int) -> int:
        return self._ends[run]

    @cached_property
    def contexts(self) -> Sequence[ElementContext]:
        """The contexts of all runs, when these are complete."""
        return tuple(self._numbers)

    def _number(self, context: ElementContext) -> int:
        return self._numbers.setdefault(context, len(self._numbers))


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
        self._runs = _ContextRuns()
        span = Span(source=source)
        scanner = RecordScanner(stream, names, span, max_unit_bytes=_MAX_RECORD_BYTES)
        self._prolog = b""
        self._read(scanner)
        contexts = self._runs.contexts
        self._is_nested = any(context.depth > 1 for context in contexts)
        self._is_damaged = any(UNKNOWN in (one.header, one.group) for one in contexts)
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
                        self._runs.finish(end, after)
                    else:
                        self._prolog = scanner.document.prolog
                        self.first_url = _unescaped_url(item)
                        if leading is not None:
                            start, run_context = leading, leading_context
                    self._runs.begin(len(self), run_context)
                    after = item.context
                self.add(start.offset, start.line or 0)
                end, last = item.offset + len(item.text), item
        if last is not None:
            self.last_url = _unescaped_url(last)
            self._runs.finish(end, after)

    def part(self, first: int, count: int) -> PartPlace:
        self._require_parts()
        runs, next_record = self._runs, first + count
        before, last_run = runs.before(runs.run_of(first)), runs.run_of(next_record - 1)
        ends_run = next_record == len(self) or runs.run_of(next_record) > last_run
        if ends_run:
            end, after = runs.end(last_run), runs.after(last_run)
        else:
            end, after = self.begins[next_record], runs.before(last_run)
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


def _unescaped_url(element: RawElement) -> str:
    return find_url(element.text) or ""
