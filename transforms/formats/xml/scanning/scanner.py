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

**Speed.** Two fast paths avoid calls for each record: `_bulk_runs` hands runs of records to `bulk`,
and `_simple_elements` yields records that contain at most one CDATA section. `_step` handles
everything else, one piece of markup at a time.
"""

import codecs
import html
import re
import sys
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

import msgspec

from feedferry.schemas.errors import FormatError, ProgressError, RecordError
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Place, Reject, reject_bytes
from feedferry.schemas.span import ElementContext, Span, SpanEnd
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.formats.text.byte_scans import count_lines, find
from feedferry.transforms.formats.text.streams import read_block
from feedferry.transforms.formats.xml.scanning.ambiguous_sections import (
    CROSSES,
    AmbiguityRule,
    find_certain_end,
)
from feedferry.transforms.formats.xml.scanning.encoding import HEAD_BYTES, Transcoded, detect
from feedferry.transforms.formats.xml.scanning.record_markup import MAX_BLANKS, TAG, markup_of
from feedferry.transforms.formats.xml.scanning.sections import CDATA, COMMENT, INSTRUCTION, SECTIONS

HEADER_DAMAGED = "header-damaged"
BLOCK_BYTES = 512 << 10
KEPT_BYTES = 1 << 20
"""How much is kept of a range that could not be delimited."""

UNKNOWN = b"<"
"""The header or group of a context that damage has made unknown."""

NESTED = b"<group"
"""The `group` of a context between the end tags of an inner and an outer group."""

_GROWTH = 4
"""The buffer of a large record grows by a quarter: a compromise between copying and memory."""

_OVERLAP_BYTES = MAX_BLANKS + 64
"""How much of the buffer is searched again after reading on: more than the longest end tag."""

_TAG_BYTES = 2048
"""A longer start tag of a record is left to `_step`."""

_CONTEXT_TAG_BYTES = 4 << 10
"""Most bytes of the tag of a root or a group, which is parsed again with every batch of records."""

_HEADER_BYTES = 16 << 10
"""Most bytes of a header, which is part of the context of each record."""

_DOCTYPE_BYTES = 16 << 10
"""How far the end of a DOCTYPE is searched."""

_PROLOG_BYTES = 64 << 10
"""Most bytes that `prolog` keeps."""

_COMMENT_BYTES = 16 << 20
"""How far the end of a comment or processing instruction is searched, in steps of a block."""

_RUN_BYTES = 128 << 10
"""Most bytes that are passed to `bulk` at once."""

_SMALL_BYTES = 4 << 10
"""Runs of larger records have up to two blocks: all of the buffer, without a copy."""

_LEAST_RUN_BYTES = 16 << 10
_MAX_REFUSALS = 8
"""How often the range in which no run is tried doubles after runs that are refused."""

_LARGE_BYTES = 4 << 20
"""A record above this is not held twice."""

_PREVIEW_BYTES = 40
_CHARACTER_BYTES = 4
_CONTINUATIONS = bytes(range(0x80, 0xC0))
_SLASH = ord("/")
_BLANKS = b" \t\r\n"
"""The white space of XML. Form feed and vertical tab are text."""

_URL_BYTES = 1 << 20
"""How far into a record its URL is searched."""

_STATED_URL = re.compile(
    rb"""\A[^>]*?\surl\s*=\s*(?:"([^"<>]+)"|'([^'<>]+)')"""
    rb"""|<(?:record|acl)\b(?:\s+[\w:.-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*?"""
    rb"""\s+url\s*=\s*(?:"([^"<\s]+)"|'([^'<\s]+)')(?=[\s/>])"""
    rb"""|<Url>([^<>]+)</Url"""
    rb"""|<membership\b[^<>]*>\s*<principal\b[^<>]*>([^<>]+)</principal"""
)
_REFERENCE = re.compile("&(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9A-Fa-f]+);")

_SPACE = re.compile(rb"[%b]*" % _BLANKS)
_NAME = re.compile(rb"<([^\s<>/?!]+)")
_TAGS = re.compile(rb"<(/?)([^\s<>/!?]+)[^<>]*?(/?)>")
_OPEN_QUOTE = re.compile(rb""""[^"<]*|'[^'<]*""")
_CDATA_END_BYTES = len(CDATA.closer)
_QUOTED = rb""""[^"]*+"|'[^']*+'"""
_SECTION = rb"<!--(?>[^-]++|-(?!->))*+-->|<\?(?>[^?]++|\?(?!>))*+\?>"
_WHOLE_DOCTYPE = re.compile(
    rb"<!DOCTYPE(?>[^<>\[\"']++|%b)*+(?:\[(?>[^\]\"'<]++|%b|%b|<(?!!--|\?|!DOCTYPE))*+\]\s*+)?>"
    % (_QUOTED, _QUOTED, _SECTION)
)
"""A DOCTYPE with its internal subset; one with another one inside is torn."""


class RawElement(NamedTuple):
    """One element of the document: its bytes and its place in the stream."""

    name: str
    text: bytes
    offset: int
    line: int
    context: ElementContext


class BadRange(NamedTuple):
    """Why the bytes at the current position are no record, and how many are certainly not one."""

    code: str
    reason: str
    length: int


Records = list[Record | RecordBatch | ElementBlock | RawElement]


class Run(NamedTuple):
    """Adjacent elements that were understood: their number, and their length together.

    Those that need the parser are as they came.
    """

    records: Records
    number: int
    length: int


Bulk = Callable[[bytes, int, int, ElementContext], Run | None]
"""Makes records of the elements at the begin of a range, given its offset, line and context.

Returns None if the first is not understood. What it takes must be what the scanner would yield:
whole elements, with nothing between them but blanks.
"""


class RecordScanner:
    """Iterates over the records of a stream; see the module for the rules.

    The buffer is `_data`; everything before `_pos` is consumed. `_offset` and `_line` are the place
    of `_pos` in the stream, in its own encoding; `_consumed` counts bytes of UTF-8. Methods take
    and return positions relative to `_pos`, because reading on drops the consumed bytes. Positions
    of matches are relative to the buffer, so they are valid until the next reading.
    """

    def __init__(  # noqa: PLR0913 - two for passing many elements at once
        self,
        stream: IO[bytes],
        names: ElementNames,
        span: Span,
        *,
        max_unit_bytes: int,
        bulk: Bulk | None = None,
        run_bytes: int = _RUN_BYTES,
    ) -> None:
        self._names, self._markup = names, markup_of(names)
        self._ambiguity = AmbiguityRule(names)
        self._span = span
        self._max_bytes = max_unit_bytes
        self._bulk = bulk
        self._run_bytes = self._tried_bytes = run_bytes
        self._refusals = 0
        self._line = span.line
        self._offset = span.offset
        self._consumed = 0
        self._pos = 0
        self._ended = False
        self._next_bulk = 0
        self._stop = span.stop_after(span.offset)
        self._is_after_fault = False  # how a bad range ends may depend on the markup after it
        self._main = names.records[0]
        # Where a search for an end mark need not be repeated, as counts of consumed bytes.
        self._no_closer_before = dict.fromkeys(SECTIONS, 0)
        self._last_closer = dict.fromkeys(SECTIONS, (0, -1))
        position = span.position
        self.context = position if isinstance(position, ElementContext) else ElementContext()
        self._has_root = position is not None
        self.step_context = self.context
        """The context before the markup that `_step` or `_stray` read last, which may change it."""

        self.ended: dict[bytes, ElementContext] = {}
        """The documents that have ended, by the bytes of their header."""

        self.documents = 0
        self.prolog = b""
        """Byte order mark, XML declaration and DOCTYPE of the current document."""

        self.border: SpanEnd | None = None
        """The border before which the scanner has stopped."""

        self._begin(stream)

    def __iter__(self) -> Iterator[RawElement | Reject | Records]:
        while True:
            if self._bulk is not None and self._has_root:
                yield from self._bulk_runs(self._bulk)
            yield from self._simple_elements()
            if not self._skip_blanks():
                break
            if self._is_at_border():
                self.border = SpanEnd(self._offset, self._line, self.context)
                return
            before = self._consumed
            self.step_context = self.context
            token = self._markup.between_records.match(self._data, self._pos)
            result = self._step(token.lastgroup or "", token) if token else self._stray()
            if self._consumed == before:
                raise self._no_progress()
            del token  # it holds the buffer
            if isinstance(result, Reject):
                self._is_after_fault = True
            elif result is not None and result.name == self._main:
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
        self._stop = self._span.stop_after(self._offset)

    def original(self, utf8: bytes) -> bytes:
        """Return the stream's own bytes for a part of it that was read."""
        return self._transcoded.original(utf8) if self._transcoded else utf8

    @property
    def place(self) -> tuple[int, int]:
        """Offset and line of the first byte that is not consumed."""
        return self._offset, self._line

    @property
    def is_utf8(self) -> bool:
        """Whether offsets can be sought: the stream is read without conversion."""
        return self._transcoded is None

    @property
    def doubtful_encoding(self) -> tuple[str, int, str] | None:
        """The declared codec, and the place and encoding of the first text in another one."""
        transcoded = self._transcoded
        if transcoded is None or transcoded.doubt is None or self._span.encoding:
            return None
        return transcoded.codec, *transcoded.doubt

    # Borders

    def _is_at_border(self) -> bool:
        """Whether the next span begins with the record at the present position, if there is one."""
        if self._offset < self._stop or self._is_after_fault or not self._has_root:
            return False
        return self._markup.main_record.match(self._data, self._pos) is not None

    # The buffer

    def _begin(self, stream: IO[bytes]) -> None:
        head = b""
        if self._span.offset == 0:
            while len(head) < HEAD_BYTES and (block := stream.read(HEAD_BYTES - len(head))):
                head += block
        codec, mark = detect(head, source=self._span.source, encoding=self._span.encoding)
        self._transcoded = Transcoded(stream, codec, head[mark:]) if codec != "utf-8" else None
        if self._transcoded:
            self._stop = sys.maxsize  # the places of other encodings cannot be sought
        self._read = self._transcoded.read if self._transcoded else stream.read
        self._data = b"" if self._transcoded else head[mark:]
        self._offset += mark
        if mark and self.is_utf8:
            self.prolog = codecs.BOM_UTF8

    def _read_on(self) -> bool:
        """Read a block and drop the consumed bytes; return whether there was more."""
        if not self._ended:
            self._compact()
            least = len(self._data) // _GROWTH
            block = read_block(self._read, max(BLOCK_BYTES, least), least=least)
            self._ended = not block
            self._data += block
        return not self._ended

    def _compact(self) -> None:
        self._data = self._data[self._pos :]
        self._pos = 0

    def _consume(self, length: int) -> None:
        end = self._pos + length
        self._line += count_lines(self._data, self._pos, end)
        if self._transcoded:
            self._offset += len(self._transcoded.original(self._data[self._pos : end]))
        else:
            self._offset += length
        self._consumed += length
        self._pos = end

    def _is_full(self, since: int = 0) -> bool:
        return len(self._data) - self._pos - since > self._max_bytes

    def _grow(self, since: int) -> BadRange | None:
        """Read on inside a record that begins at `since`; return why that is not possible."""
        if self._is_full(since):
            return self._record_too_large(1)
        if not self._read_on():
            reason = "the end of the stream inside a record; expected its end tag"
            return BadRange("torn-record", reason, 1)
        return None

    def _record_too_large(self, length: int) -> BadRange:
        reason = (
            f"more than {self._max_bytes} bytes; expected a smaller record; raise"
            " ⟦max_content_bytes⟧"
        )
        return BadRange("record-too-large", reason, length)

    def _skip_blanks(self) -> bool:
        """Pass white space; return whether anything is left, with its tag name in the buffer."""
        while True:
            match = _SPACE.match(self._data, self._pos)
            if match and match.end() > self._pos:
                self._consume(match.end() - self._pos)
            if len(self._data) - self._pos >= _OVERLAP_BYTES or not self._read_on():
                break
        return self._pos < len(self._data)

    # Fast paths

    def _bulk_runs(self, bulk: Bulk) -> Iterator[Records]:
        """Yield what `bulk` makes of runs of elements; a run that it refuses is not tried again.

        The buffer is filled before each run. After runs of which a part was taken, shorter ones are
        tried; a short one of which a part was taken counts as refused. No run crosses the line of
        the grid after which the span ends.
        """
        while not self._transcoded and self._consumed >= self._next_bulk:
            size = min(self._tried_bytes, self._stop - self._offset)
            if size <= 0:
                return
            if len(self._data) - self._pos < size:
                self._read_on()
            if not self._markup.next_record.match(self._data, self._pos):
                return
            run = self._data[self._pos : self._pos + size]
            taken = bulk(run, self._offset, self._line, self.context)
            if taken is None:
                if len(self._data) - self._pos < _RUN_BYTES and self._read_on():
                    continue
                self._refuse_run(len(run))
                return
            self._is_after_fault = False
            is_large = 0 < taken.number * _SMALL_BYTES < taken.length  # a cut counts no records
            self._tried_bytes = 2 * BLOCK_BYTES if is_large else self._run_bytes
            is_part = taken.length < len(run) // 2
            if is_part:
                self._tried_bytes = max(_LEAST_RUN_BYTES, 2 * taken.length)
            else:
                self._refusals = 0
            self._consume(taken.length)
            yield taken.records
            if is_part and len(run) == _LEAST_RUN_BYTES:
                self._refuse_run(len(run))
                return

    def _refuse_run(self, length: int) -> None:
        """Try no run in a range: one element, then half of the length, then twice as much."""
        passed = length >> 1 << self._refusals - 1 if self._refusals else 0
        self._next_bulk = self._consumed + passed + 1
        self._refusals = min(self._refusals + 1, _MAX_REFUSALS)
        self._tried_bytes = self._run_bytes

    def _simple_elements(self) -> Iterator[RawElement]:
        """Yield elements that end in the buffer and have at most one CDATA section."""
        if self._transcoded or not self._has_root:
            return
        data, pos, first = self._data, self._pos, self._pos
        line = first + self._stop - self._offset
        is_bulk = self._bulk and pos < line
        stop = pos + self._next_bulk - self._consumed if is_bulk else len(data)
        while pos < stop and (start := self._markup.next_record.match(data, pos)) is not None:
            name = start["record"].decode()
            begin = start.start("record") - 1
            if begin >= line and name == self._main and not self._is_after_fault:
                break
            end = data.find(b">", begin, begin + _TAG_BYTES)
            if end < 0:
                break
            tag = data[begin:end]
            if tag.endswith(b"/") or tag.count(b'"') & 1 or b"'" in tag or tag.rfind(b"<"):
                whole = TAG.match(data, begin)
                end = whole.end() if whole else begin
                if data[end : end + 1] != b">":
                    break
            if data[end - 1] == _SLASH:
                end += 1
            else:
                token = self._markup.in_record[name].search(data, end)
                if token is not None and token.lastgroup == "cdata":
                    token = self._after_simple_cdata(name, token)
                if token is None or token.lastgroup != "end":
                    break
                end = token.end()
            if end - begin > self._max_bytes:
                break
            self._line += count_lines(data, pos, begin)
            text, offset = data[begin:end], self._offset + begin - first
            if name == self._main:
                self._is_after_fault = False
            yield RawElement(name, text, offset, self._line, self.context)
            self._line += count_lines(data, begin, end)
            pos = end
        self._pos = pos
        self._offset += pos - first
        self._consumed += pos - first

    def _after_simple_cdata(self, name: str, token: re.Match[bytes]) -> re.Match[bytes] | None:
        """Return the token after a CDATA section that certainly ends in the buffer."""
        if name != self._names.records[0]:
            return None  # it may run from one standalone element into another
        searched = self._pos + self._no_closer_before["cdata"] - self._consumed
        close = find_certain_end(self._data, token.end(), self._markup, searched=searched)
        if close < 0:
            return None
        return self._markup.in_record[name].search(self._data, close + _CDATA_END_BYTES)

    # One piece of markup at a time

    def _step(self, kind: str, token: re.Match[bytes]) -> RawElement | Reject | None:
        if kind == "record":
            return self._element(token["record"].decode())
        if kind in SECTIONS:
            return self._pass_section(kind)
        if kind == "doctype":
            return self._doctype()
        if kind == "header":
            return self._header()
        if kind in ("ungroup", "end"):
            self._consume(token.end() - self._pos)
            self._leave(kind)
            return None
        return self._open(kind)

    def _element(self, name: str) -> RawElement | Reject:
        """Return the element that begins here, or the reject of a torn one."""
        if not self._has_root:
            raise self._no_root(f"root element {name!r}")
        at = self._tag()
        if not isinstance(at, BadRange) and self._data[self._pos + at - 2] == _SLASH:
            return self._take(name, at)
        ambiguous, depth, cdata_end = "", 0, -1
        while not isinstance(at, BadRange):
            inside = self._names.records[0] if ambiguous else name
            token = self._search(self._markup.in_record[inside], at)
            if isinstance(token, BadRange):
                at = token
                break
            kind, begin = str(token.lastgroup), token.start() - self._pos
            if ambiguous and kind not in SECTIONS:
                length, context = token.end() - self._pos if kind == "end" else begin, self.context
                if kind == "frame":
                    length, context = self._pass_frame(begin, is_expected=False)
                return self._leave_damage(self._reject_ambiguous(ambiguous, length), context)
            if kind == "end":
                return self._take(name, token.end() - self._pos)
            if kind not in SECTIONS:
                return self._torn(name, token)
            at = self._close(kind, begin)
            if isinstance(at, BadRange):
                break
            is_continued = kind == CDATA.kind and begin == cdata_end
            text = self._inside(kind, begin, at)
            depth = depth if is_continued else 0
            depth = self._ambiguity.depth_after(name, self._data, *text, depth=depth)
            cdata_end = at
            if depth == CROSSES:
                ambiguous = ambiguous or kind
                # Go on where no section is open in any reading.
                opened = self._ambiguity.open_section(self._data, *text)
                closer = self._find_closer(opened, at) if opened else None
                at = at if closer is None else closer + len(SECTIONS[opened].closer)
        return self._set_aside(at, is_inside=True)

    def _inside(self, kind: str, begin: int, end: int) -> tuple[int, int]:
        """Return the range of the text of a section in the buffer."""
        section = SECTIONS[kind]
        return self._pos + begin + len(section.opener), self._pos + end - len(section.closer)

    def _take(self, name: str, length: int) -> RawElement:
        text = self._data[self._pos : self._pos + length]
        element = RawElement(name, text, self._offset, self._line, self.context)
        self._consume(length)
        if length > _LARGE_BYTES:
            self._compact()
        return element

    def _torn(self, name: str, token: re.Match[bytes]) -> Reject:
        found = token.group().decode("utf-8", "replace")
        reason = f"{found!r} inside <{name}>; expected </{name}> before it"
        begin = token.start() - self._pos
        if token.lastgroup == "frame":
            length, context = self._pass_frame(begin, is_expected=self._is_after_tag(token))
            if length > begin:
                return self._leave_damage(self._reject("torn-record", reason, length), context)
        standalone = self._markup.standalone_with_url.search(
            self._data, self._pos + 1, self._pos + begin
        )
        is_main = name == self._names.records[0]
        end = standalone.start() - self._pos if standalone and is_main else begin
        return self._reject("torn-record", reason, end)

    def _leave_damage(self, reject: Reject, context: ElementContext) -> Reject:
        self.context = context
        return reject

    def _pass_frame(self, at: int, *, is_expected: bool) -> tuple[int, ElementContext]:
        """Return where damage ends that has a tag of the frame at `at`, and the context after it.

        It ends at `at`, so that the tag is obeyed, if a tag `is_expected` there, and only markup of
        the frame follows it up to the next record.
        """
        frame, pos = self._markup.frame, at
        run = last = at  # of the tags without text in between, and the last of these
        while True:
            token = self._search(frame.around, pos, at)
            kind = "" if isinstance(token, BadRange) else str(token.lastgroup)
            if isinstance(token, BadRange) or kind in ("end", "begin"):
                break
            start, pos = token.start() - self._pos, token.end() - self._pos
            if kind in SECTIONS:
                end = self._close(kind, start, at)
                pos = pos if isinstance(end, BadRange) else end
            else:
                run, last = run if self._is_gap(last, start) else start, start
        if kind == "end" and not isinstance(token, BadRange):
            return token.end() - self._pos, self.context
        stop = len(self._data) if isinstance(token, BadRange) else token.start()
        tags = self._data[self._pos + run : stop]
        stop -= self._pos
        if not self._is_gap(last, stop):
            return stop, self.context
        if is_expected and run == at:
            return at, self.context
        if not kind:
            return (run if frame.end.fullmatch(tags) else stop), self.context
        return stop, self._context_after(tags)

    def _is_after_tag(self, frame: re.Match[bytes]) -> bool:
        """Whether an end tag of the frame follows a tag, whole or torn, and not a text."""
        text = self._data[self._pos : frame.start()].rstrip(_BLANKS)
        is_after = text.endswith(b">") or text.rfind(b"<") > text.rfind(b">")
        return is_after and frame[0].startswith(b"</")

    def _is_gap(self, begin: int, end: int) -> bool:
        """Whether a tag of the frame and only markup between records is in a range."""
        pattern = self._markup.frame.tag_and_gap
        return bool(pattern.fullmatch(self._data, self._pos + begin, self._pos + end))

    def _context_after(self, frame: bytes) -> ElementContext:
        """Return the context after tags that are either obeyed or the text of a torn record."""
        tags = self._markup.frame.tag.findall(frame)
        if len(tags) == 2 and tags[1] == self.context.group:
            return self.context
        is_group = all(self._markup.frame.group_tag.match(tag) for tag in tags)
        header = self.context.header if is_group else UNKNOWN
        return ElementContext(root=self.context.root, header=header, group=UNKNOWN, depth=1)

    def _tag(self) -> int | BadRange:
        """Return the length of the start tag that begins here."""
        while True:
            match = TAG.match(self._data, self._pos)
            end = match.end() if match else self._pos
            length = end + 1 - self._pos
            if self._data[end : end + 1] == b">" and length <= self._max_bytes:
                return length
            quote = _OPEN_QUOTE.match(self._data, end)
            is_partial = (quote.end() if quote else end) == len(self._data)
            if not is_partial or self._is_full() or not self._read_on():
                return BadRange("malformed", "a tag that does not end; expected '>'", 1)

    def _search(
        self, pattern: re.Pattern[bytes], at: int, since: int = 0
    ) -> re.Match[bytes] | BadRange:
        """Return the first match from `at` on, in a record that begins at `since`."""
        while not (token := pattern.search(self._data, self._pos + at)):
            at = max(at, len(self._data) - self._pos - _OVERLAP_BYTES)
            if fault := self._grow(since):
                return fault
        is_inside = token.end() - self._pos - since <= self._max_bytes
        return token if is_inside else self._record_too_large(1)

    # Root, group, header and DOCTYPE

    def _open(self, kind: str) -> Reject | None:
        """Enter the root or a group; if its tag cannot be read, enter it and return a reject."""
        length = self._tag()
        if not isinstance(length, BadRange) and length > _CONTEXT_TAG_BYTES:
            length = _markup_too_large("a start tag", length, _CONTEXT_TAG_BYTES)
        self.documents += kind == "root"
        if isinstance(length, BadRange):
            reject = self._set_aside(length)
            self._enter(kind, reject.data[:_CONTEXT_TAG_BYTES].rstrip(b">") or b"<")
            return reject
        text = self._data[self._pos : self._pos + length]
        self._consume(length)
        self._has_root = True
        if not text.endswith(b"/>"):
            self._enter(kind, text)
        elif kind == "root":
            self._end_document(ElementContext(root=text))
        return None

    def _enter(self, kind: str, tag: bytes) -> None:
        self._has_root = True
        if kind == "root":
            self._end_document(self.context)
            self.context = ElementContext(root=tag)
        else:
            depth = 1 + bool(self.context.depth)
            self.context = msgspec.structs.replace(self.context, group=tag, depth=depth)

    def _leave(self, kind: str) -> None:
        if kind == "end":  # another document may follow: connectors append feeds to one archive
            self._end_document(self.context)
            self.context = ElementContext(header=UNKNOWN)
            self.prolog = b""
        else:
            depth = max(0, self.context.depth - 1)
            group = NESTED if depth else b""
            self.context = msgspec.structs.replace(self.context, group=group, depth=depth)

    def _end_document(self, context: ElementContext) -> None:
        if context.root:
            self.ended.setdefault(context.header, context)

    def _header(self) -> Reject | None:
        """Enter the header; one that is damaged is entered too, and returned as a reject."""
        token = self._search(self._markup.header_end, 1)
        if not isinstance(token, BadRange):
            length, is_whole = token.end() - self._pos, bool(token.group())
        elif token.code == "torn-record" and self._span.length is not None:
            length, is_whole = len(self._data) - self._pos, False  # no record in this span
        else:
            return self._set_aside(token)
        if length > _HEADER_BYTES:
            return self._set_aside(_markup_too_large("a header", length, _HEADER_BYTES))
        if self.context.header not in (b"", UNKNOWN):
            return self._reject("stray", "a second header; expected a record", length)
        header = self._data[self._pos : self._pos + length]
        self.context = ElementContext(root=self.context.root, header=header)
        if is_whole and _is_balanced(header):
            self._consume(length)
            return None
        context = self.context
        if self._markup.frame.tag.match(self._data, self._pos + length):
            length, context = self._pass_frame(length, is_expected=True)
        reason = "a header without its end, or with tags that do not match; expected </header>"
        return self._leave_damage(self._reject(HEADER_DAMAGED, reason, length), context)

    def _doctype(self) -> Reject | None:
        """Pass a DOCTYPE; without the limit, many torn ones would be searched to the same end."""
        while True:
            limit = self._pos + _DOCTYPE_BYTES
            match = _WHOLE_DOCTYPE.match(self._data, self._pos, limit)
            if match is not None:
                break
            if len(self._data) >= limit or not self._read_on():
                return self._set_aside(BadRange("malformed", "a DOCTYPE without its end", 9))
        length = match.end() - self._pos
        self._note_prolog(length)
        self._consume(length)
        return None

    def _note_prolog(self, length: int) -> None:
        if not self.context.root and len(self.prolog) + length < _PROLOG_BYTES:
            self.prolog += self._data[self._pos : self._pos + length] + b"\n"

    # Sections: CDATA, comments, processing instructions

    def _pass_section(self, kind: str) -> Reject | None:
        end = self._close(kind, 0)
        if isinstance(end, BadRange):
            return self._set_aside(end)
        if self._ambiguity.swallows_records(self._data, *self._inside(kind, 0, end), kind=kind):
            return self._reject_ambiguous(kind, end)
        if kind == INSTRUCTION.kind:
            self._note_prolog(end)
        self._consume(end)
        return None

    def _close(self, kind: str, at: int, since: int = 0) -> int | BadRange:
        """Return the end of the section that begins at `at`, or why it is torn.

        The limit of a CDATA section counts from `since`.
        """
        opener, closer = SECTIONS[kind].opener, SECTIONS[kind].closer
        begin = at + len(opener)
        close = self._find_closer(kind, begin, since)
        if close is not None and (
            kind != COMMENT.kind
            or find(self._data, opener, self._pos + begin, self._pos + close) < 0
        ):
            return close + len(closer)
        if kind == CDATA.kind and self._is_full(since):
            return self._record_too_large(at)
        reason = f"{opener.decode()!r} without its end; expected {closer.decode()!r}"
        return BadRange("malformed", reason, begin)

    def _find_closer(self, kind: str, begin: int, since: int = 0) -> int | None:
        """Return the position of the end mark at or after `begin`, if it is not too far.

        Each byte is searched once for any number of openers. `_no_closer_before` is where the last
        search that reached the end of the buffer stopped. `_last_closer` is where the last search
        that found an end mark began, and where that end mark is.
        """
        closer = SECTIONS[kind].closer
        limit = since + self._max_bytes
        if kind != CDATA.kind:
            limit = min(limit, begin + _COMMENT_BYTES)
        searched, last = self._last_closer[kind]
        if searched <= self._consumed + begin <= last:
            close = last - self._consumed
            return close if close <= limit else None
        at = max(begin, self._no_closer_before[kind] - self._consumed)
        while (close := find(self._data, closer, self._pos + at)) < 0:
            at = max(begin, len(self._data) - self._pos - len(closer) + 1)
            self._no_closer_before[kind] = self._consumed + at
            if at > limit or not self._read_on():
                return None
        close -= self._pos
        self._last_closer[kind] = self._consumed + begin, self._consumed + close
        return close if close <= limit else None

    def _reject_ambiguous(self, kind: str, length: int) -> Reject:
        section = SECTIONS[kind]
        return self._reject(section.ambiguous_code, section.ambiguous_reason, length)

    # Bytes that are no record

    def _stray(self) -> Reject:
        name = _NAME.match(self._data[self._pos : self._pos + _PREVIEW_BYTES])
        if not self._has_root and name:
            root = name[1].decode("utf-8", "replace")
            damage = " that is damaged" if root == self._names.root else ""
            raise self._no_root(f"root element {root!r}{damage}")
        what = f"<{name[1].decode('utf-8', 'replace')}>" if name else "text"
        return self._set_aside(BadRange("stray", f"{what} between records; expected a record", 1))

    def _end_of_stream(self) -> Iterator[Reject]:
        if self._span.length is None and self.context.root:
            self._end_document(self.context)
            root = self._names.root
            reason = f"the end of the stream; expected </{root}>: more records may have followed"
            yield self._reject("torn-end", reason, 0)
        elif not self._has_root:
            raise self._no_root("no element at all")

    def _no_root(self, found: str) -> FormatError:
        where = f"{self._span.source}:{self._line}"
        return FormatError(f"{where}: {found}; expected <{self._names.root}>")

    def _no_progress(self) -> ProgressError:
        where = f"{self._span.source}:{self._line} (byte {self._offset})"
        return ProgressError(
            f"{where}: the reader does not advance; expected at least one byte to be read: "
            "report this defect of feedferry"
        )

    def _set_aside(self, fault: BadRange, *, is_inside: bool = False) -> Reject:
        """Consume everything up to the next place at which a record can begin.

        `is_inside` says that the fault is in a record.
        """
        start = self._reject(fault.code, fault.reason, 0)
        at, kept, is_open = fault.length, b"", False
        while True:
            token = self._markup.after_damage.search(self._data, self._pos + at)
            if token is None:
                kept = self._drop(kept, max(at, len(self._data) - self._pos - _OVERLAP_BYTES))
                at = 0
                if not self._read_on():
                    return self._finish(start, kept, self._length_without_blanks())
                continue
            kind = token.lastgroup or ""
            begin, at = token.start() - self._pos, token.end() - self._pos
            near_end = token.end() + _OVERLAP_BYTES > len(self._data)
            if kind == "opened" and near_end and self._read_on():
                at = begin  # its url may not have been in the buffer
                continue
            if kind == "end" or (kind == "closed" and not is_open):
                return self._finish(start, kept, at)
            if kind == "other":
                return self._finish(start, kept, self._length_without_blanks(begin))
            if kind == "frame":
                is_expected = not is_inside or self._is_after_tag(token)
                end, context = self._pass_frame(begin, is_expected=is_expected)
                reject = self._finish(start, kept, self._length_without_blanks(end))
                return self._leave_damage(reject, context)
            is_open = kind == "opened" or (is_open and kind != "closed")
            if kind in SECTIONS:
                close = self._close(kind, begin, begin)
                if isinstance(close, BadRange) and close.code == "record-too-large":
                    kept, at = self._drop_cdata(kept, at), 0
                else:
                    at = at if isinstance(close, BadRange) else close

    def _length_without_blanks(self, end: int | None = None) -> int:
        stop = None if end is None else self._pos + end
        return len(self._data[self._pos : stop].rstrip(_BLANKS))

    def _drop_cdata(self, kept: bytes, at: int) -> bytes:
        """Drop a CDATA section that is too large for the buffer, so that it adds no records."""
        kept = self._drop(kept, at)
        while (close := find(self._data, CDATA.closer, self._pos)) < 0:
            kept = self._drop(kept, max(0, len(self._data) - self._pos - _CDATA_END_BYTES + 1))
            if not self._read_on():
                return self._drop(kept, len(self._data) - self._pos)
        return self._drop(kept, close - self._pos + _CDATA_END_BYTES)

    def _drop(self, kept: bytes, length: int) -> bytes:
        """Consume about `length` bytes, up to a character's begin, and return the kept bytes."""
        least = max(0, length - _CHARACTER_BYTES)  # in data that is no UTF-8, all bytes may match
        after = self._data[self._pos + length : self._pos + length + 1]
        while length > least and after and after[0] & 0xC0 == 0x80:
            length -= 1
            after = self._data[self._pos + length : self._pos + length + 1]
        kept += self._data[self._pos : self._pos + min(length, KEPT_BYTES - len(kept))]
        self._consume(length)
        return kept

    def _finish(self, start: Reject, kept: bytes, length: int) -> Reject:
        kept = self._drop(kept, length)
        length = self._offset - start.offset
        text = self.original(_whole_characters(kept) if self._transcoded else kept)
        return msgspec.structs.replace(
            start, data=text, length=length, truncated=len(text) < length, url=find_url(text)
        )

    def _reject(self, code: str, reason: str, length: int) -> Reject:
        text = self.original(self._data[self._pos : self._pos + length])
        place = Place(self._offset, len(text), self._line)
        exc = RecordError(code, reason)
        reject = reject_bytes(exc, span=self._span, place=place, data=text, url=find_url(text))
        self._consume(length)
        return reject


def _is_balanced(markup: bytes) -> bool:
    """Whether each end tag in the markup of a header ends the element that was begun last."""
    names: list[bytes] = []
    for slash, name, is_empty in _TAGS.findall(markup):
        if not slash:
            names += [] if is_empty else [name]
        elif not names or names.pop() != name:
            return False
    return not names


def find_url(text: bytes) -> str | None:
    """Return the URL of a record, or the name of a group, that its markup states completely.

    As an attribute, it is in the first tag, which may be damaged.
    """
    found = _STATED_URL.search(text, 0, _URL_BYTES)
    url = found and next(filter(None, found.groups())).strip()
    return _REFERENCE.sub(_character, url.decode("utf-8", "replace")) if url else None


def _character(reference: re.Match[str]) -> str:
    return html.unescape(reference[0])


def _whole_characters(utf8: bytes) -> bytes:
    """Return `utf8` without a last character of which some bytes are missing."""
    text = utf8.rstrip(_CONTINUATIONS)
    lead = text[-1] if text else 0
    width = 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
    is_torn = len(utf8) - len(text) + 1 < width
    return text[:-1] if is_torn else utf8


def _markup_too_large(what: str, length: int, max_bytes: int) -> BadRange:
    reason = f"{what} of {length} bytes; expected at most {max_bytes}"
    return BadRange("too-large", reason, length)
