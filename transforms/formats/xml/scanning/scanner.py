"""Find the records of an XML document, however damaged it is.

An XML parser stops at the first fault, and all records after it are lost. `RecordScanner` does not
parse. It searches for the tags at which a record can begin or end, and yields in document order:

- a `RawElement` for each record: its bytes from start tag to end tag, for a parser to read alone;
- a `Reject` for each range of bytes that is no record: a torn record, text between records, …;
- a list, in place of many records: what `bulk` made of a run of elements.

**Damage containment.** A fault costs the record that has it, and no other. After a fault, the
scanner searches for the next place at which a record can begin (`RecordMarkup.after_damage`). Root,
group and header are entered even if their tags are damaged: records depend on them.

**The frame.** Tags of the root, a group or the header in an unfinished record are a part of it: the
context before it stays in force. They are only obeyed if they follow a tag of the record, and the
next record follows them. After a text that is cut off there, the context is `UNKNOWN`, so that no
record is read with a wrong datasource or action.

**Sections.** A comment cannot contain `<!--` by specification. If it does, it is torn there. A
section that also reads as records may have lost its end mark. It becomes one Reject, together with
the record that it begins in. `ambiguous_sections` has the rule.

**Memory.** One record and at most one block after it. The blocks of a large record are a quarter of
what was read of it. A record of more than `max_unit_bytes` is rejected. Limits count from the begin
of a record or section, so that no result depends on where a block ends. Of a rejected range, the
first `KEPT_BYTES` are kept.

**Borders.** A span with a grid ends at a border, see `Span`. The scanner stops before the main
record that begins there, and `border` says where.

**Speed.** Two fast paths avoid calls for each record: `BulkRuns` hands runs of records to `bulk`,
and `_simple_elements` yields records that contain at most one CDATA section. `_step` handles
everything else, one piece of markup at a time.

`Buffer` has the bytes, `MarkupSearch` finds markup in them, `DocumentState` has the context,
`FrameReader` reads the markup between records, `Damage` finds its end, and
`rejected_ranges` makes the rejects.
"""

import codecs
import re
import sys
from collections.abc import Iterator
from typing import IO

from feedferry.schemas.errors import FormatError, ProgressError
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import ElementContext, Span, SpanEnd
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.text.byte_scans import count_lines
from feedferry.transforms.formats.xml.scanning.ambiguous_sections import (
    CROSSES,
    AmbiguityRule,
    find_certain_end,
)
from feedferry.transforms.formats.xml.scanning.buffer import Buffer, Token
from feedferry.transforms.formats.xml.scanning.damage import Damage, DamageEnd
from feedferry.transforms.formats.xml.scanning.document_state import DocumentState
from feedferry.transforms.formats.xml.scanning.frame_reader import FrameReader, ambiguity
from feedferry.transforms.formats.xml.scanning.markup_search import BadRange, MarkupSearch
from feedferry.transforms.formats.xml.scanning.raw_elements import (
    RUN_BYTES,
    Bulk,
    BulkRuns,
    RawElement,
    Records,
)
from feedferry.transforms.formats.xml.scanning.record_markup import TAG, markup_of
from feedferry.transforms.formats.xml.scanning.sections import CDATA, SECTIONS

_TAG_BYTES = 2048
"""A longer start tag of a record is left to `_step`."""

_LARGE_BYTES = 4 << 20
"""A record above this is not held twice."""

_PREVIEW_BYTES = 40
_SLASH = ord("/")
_NAME = re.compile(rb"<([^\s<>/?!]+)")


class RecordScanner:
    """Iterates over the records of a stream; see the module for the rules."""

    def __init__(  # noqa: PLR0913 - two for passing many elements at once
        self,
        stream: IO[bytes],
        names: ElementNames,
        span: Span,
        *,
        max_unit_bytes: int,
        bulk: Bulk | None = None,
        run_bytes: int = RUN_BYTES,
    ) -> None:
        self._root, self._span = names.root, span
        self._markup = markup = markup_of(names)
        self._ambiguity = AmbiguityRule(names)
        self._buffer = buffer = Buffer(stream, span)
        self._search = MarkupSearch(buffer, max_unit_bytes)
        self.document = DocumentState(span)
        self._damage = Damage(self._search, markup, self.document, span)
        self._frame = FrameReader(self._damage, self._ambiguity)
        self._bulk = bulk and BulkRuns(buffer, bulk, markup.next_record, run_bytes=run_bytes)
        # The places of other encodings cannot be sought.
        self._stop = span.stop_after(span.offset) if self.is_utf8 else sys.maxsize
        self._is_after_fault = False  # how a bad range ends may depend on the markup after it
        self.step_context = self.document.context
        """The context before the markup that `_step` or `_stray` read last, which may change it."""

        self.border: SpanEnd | None = None
        """The border before which the scanner has stopped."""

        if buffer.mark_bytes and self.is_utf8:
            self.document.prolog = codecs.BOM_UTF8

    def __iter__(self) -> Iterator[RawElement | Reject | Records]:
        buffer = self._buffer
        while True:
            if self._bulk is not None and self.document.has_root:
                yield from self._bulk_runs(self._bulk)
            yield from self._simple_elements()
            if not buffer.skip_blanks():
                break
            if self._is_at_border():
                self.border = SpanEnd(buffer.offset, buffer.line, self.context)
                return
            before = buffer.position
            self.step_context = self.context
            token = buffer.match(self._markup.between_records, before)
            result = self._step(token) if token else self._stray()
            if buffer.position == before:
                raise self._no_progress()
            if isinstance(result, Reject):
                self._is_after_fault = True
            elif result is not None and result.name == self._markup.main:
                self._is_after_fault = False
            if isinstance(result, RawElement) and len(result.text) > _LARGE_BYTES:
                passed = [result]
                del result  # so that only the consumer holds a large element
                yield passed.pop()
            elif result is not None:
                yield result
        yield from self._end_of_stream()

    def pass_border(self) -> None:
        """Let the iteration go on after a border, up to the next one."""
        self.border = None
        self._stop = self._span.stop_after(self._buffer.offset)

    def original(self, utf8: bytes) -> bytes:
        """Return the stream's own bytes for a part of it that was read."""
        return self._buffer.original(utf8)

    @property
    def context(self) -> ElementContext:
        """The context of the next record."""
        return self.document.context

    @property
    def is_utf8(self) -> bool:
        """Whether offsets can be sought: the stream is read without conversion."""
        return self._buffer.transcoded is None

    @property
    def doubtful_encoding(self) -> tuple[str, int, str] | None:
        """The declared codec, and the place and encoding of the first text in another one."""
        transcoded = self._buffer.transcoded
        if transcoded is None or transcoded.doubt is None or self._span.encoding:
            return None
        return transcoded.codec, *transcoded.doubt

    def _is_at_border(self) -> bool:
        """Whether the next span begins with the record at the present position, if there is one."""
        buffer = self._buffer
        if buffer.offset < self._stop or self._is_after_fault or not self.document.has_root:
            return False
        return buffer.match(self._markup.main_record, buffer.position) is not None

    def _bulk_runs(self, bulk: BulkRuns) -> Iterator[Records]:
        """Yield what is made of runs of elements."""
        for run in bulk.take(self._stop, self.context):
            self._is_after_fault = False
            yield run.records

    def _simple_elements(self) -> Iterator[RawElement]:
        """Yield elements that end in the buffer and have at most one CDATA section."""
        buffer = self._buffer
        if buffer.transcoded or not self.document.has_root:
            return
        data, first = buffer.data, buffer.position - buffer.start  # positions are those in `data`
        pos, line = first, first + self._stop - buffer.offset
        stop = self._bulk.next - buffer.start if self._bulk and pos < line else len(data)
        while pos < stop and (start := self._markup.next_record.match(data, pos)) is not None:
            name = start["record"].decode()
            begin = start.start("record") - 1
            if begin >= line and name == self._markup.main and not self._is_after_fault:
                break
            end = self._find_simple_end(name, data, begin)
            if end < 0 or end - begin > self._search.max_bytes:
                break
            buffer.line += count_lines(data, pos, begin)
            text, offset = data[begin:end], buffer.offset + begin - first
            if name == self._markup.main:
                self._is_after_fault = False
            yield RawElement(name, text, offset, buffer.line, self.context)
            buffer.line += count_lines(data, begin, end)
            pos = end
        buffer.position += pos - first
        buffer.offset += pos - first

    def _find_simple_end(self, name: str, data: bytes, begin: int) -> int:
        """Return where an element in `data` ends, -1 if that takes more than a few searches."""
        end = data.find(b">", begin, begin + _TAG_BYTES)
        if end < 0:
            return -1
        tag = data[begin:end]
        if tag.endswith(b"/") or tag.count(b'"') & 1 or b"'" in tag or tag.rfind(b"<"):
            whole = TAG.match(data, begin)
            end = whole.end() if whole else begin
            if data[end : end + 1] != b">":
                return -1
        if data[end - 1] == _SLASH:
            return end + 1
        inside = self._markup.in_record[name]
        token = inside.search(data, end)
        if token is not None and token.lastgroup == CDATA.kind:
            if name != self._markup.main:
                return -1  # it may run from one standalone element into another
            searched = self._search.no_closer_before[CDATA.kind] - self._buffer.start
            close = find_certain_end(data, token.end(), self._markup, searched=searched)
            if close < 0:
                return -1
            token = inside.search(data, close + len(CDATA.closer))
        return token.end() if token is not None and token.lastgroup == "end" else -1

    # One piece of markup at a time

    def _step(self, token: Token) -> RawElement | Reject | None:
        kind = token.kind
        if kind == "record":
            return self._element(token.text[1:].decode())
        if kind in SECTIONS:
            return self._frame.pass_section(kind)
        if kind == "doctype":
            return self._frame.pass_doctype()
        if kind == "header":
            return self._frame.enter_header()
        if kind in ("ungroup", "end"):
            self._buffer.consume(token.end)
            self.document.leave(kind)
            return None
        return self._frame.enter(kind)

    def _element(self, name: str) -> RawElement | Reject:
        """Return the element that begins here, or the reject of a torn one."""
        if not self.document.has_root:
            raise self._no_root(f"root element {name!r}")
        at, since = self._search.find_tag_end(), self._buffer.position
        if not isinstance(at, BadRange) and self._buffer.text(at - 2, at - 1) == b"/":
            return self._take(name, at)
        ambiguous, depth, cdata_end = "", 0, -1
        while not isinstance(at, BadRange):
            inside = self._markup.main if ambiguous else name
            token = self._search.search(self._markup.in_record[inside], at, since)
            if isinstance(token, BadRange):
                at = token
                break
            kind, begin = token.kind, token.begin
            if ambiguous and kind not in SECTIONS:
                return self._reject_ambiguous(ambiguous, token)
            if kind == "end":
                return self._take(name, token.end)
            if kind not in SECTIONS:
                return self._damage.tear(name, token)
            at = self._search.find_section_end(kind, begin, since)
            if isinstance(at, BadRange):
                break
            is_continued = kind == CDATA.kind and begin == cdata_end
            text = self._search.inside(kind, begin, at)
            depth = depth if is_continued else 0
            depth = self._ambiguity.depth_after(name, self._buffer.data, *text, depth=depth)
            cdata_end = at
            if depth == CROSSES:
                ambiguous = ambiguous or kind
                # Go on where no section is open in any reading.
                opened = self._ambiguity.open_section(self._buffer.data, *text)
                closer = self._search.find_closer(opened, at, since) if opened else None
                at = at if closer is None else closer + len(SECTIONS[opened].closer)
        return self._damage.set_aside(at, is_inside=True)

    def _take(self, name: str, end: int) -> RawElement:
        buffer = self._buffer
        text = buffer.text(buffer.position, end)
        element = RawElement(name, text, buffer.offset, buffer.line, self.context)
        buffer.consume(end)
        if len(text) > _LARGE_BYTES:
            buffer.drop()
        return element

    def _reject_ambiguous(self, kind: str, token: Token) -> Reject:
        """Reject a record with an ambiguous section, up to a token that ends it."""
        end = DamageEnd(token.end if token.kind == "end" else token.begin, self.context)
        if token.kind == "frame":
            end = self._damage.pass_frame(token.begin, is_expected=False)
        return self._damage.reject_up_to(end, ambiguity(kind, end.position))

    # Bytes that are no record

    def _stray(self) -> Reject:
        begin = self._buffer.position
        name = _NAME.match(self._buffer.text(begin, begin + _PREVIEW_BYTES))
        if not self.document.has_root and name:
            root = name[1].decode("utf-8", "replace")
            damage = " that is damaged" if root == self._root else ""
            raise self._no_root(f"root element {root!r}{damage}")
        what = f"<{name[1].decode('utf-8', 'replace')}>" if name else "text"
        reason = f"{what} between records; expected a record"
        return self._damage.set_aside(BadRange("stray", reason, begin + 1))

    def _end_of_stream(self) -> Iterator[Reject]:
        if self._span.length is None and self.context.root:
            self.document.end()
            reason = (
                f"the end of the stream; expected </{self._root}>: more records may have followed"
            )
            yield self._damage.reject(BadRange("torn-end", reason, self._buffer.position))
        elif not self.document.has_root:
            raise self._no_root("no element at all")

    def _no_root(self, found: str) -> FormatError:
        where = f"{self._span.source}:{self._buffer.line}"
        return FormatError(f"{where}: {found}; expected <{self._root}>")

    def _no_progress(self) -> ProgressError:
        where = f"{self._span.source}:{self._buffer.line} (byte {self._buffer.offset})"
        return ProgressError(
            f"{where}: the reader does not advance; expected at least one byte to be read: "
            "report this defect of feedferry"
        )
