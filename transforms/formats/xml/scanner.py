"""Where the records of an XML document begin and end, whatever its bytes are.

A parser stops at the first fault. This scanner never parses: it looks for the tags at which a
record can begin or end, passes over CDATA sections, comments and processing instructions, and
cuts the stream into units: one element each, that a parser then takes alone. A stretch that is
no unit is a Reject, and the next unit begins behind it.

A comment whose end is damaged would swallow records up to the end of the next. It must not
hold `<!--`, so it is taken as torn there. A CDATA section may hold anything but its end: one whose
end is damaged is well-formed up to the next `]]>`. If what it swallows reads as the end of its
record, whole records and another CDATA section, nobody can tell which it is: to trust it would
lose records in silence, to doubt it would let content bring in records of its own. So the whole
stretch is a Reject. The same is done with a comment or a processing instruction that holds whole
records and ends inside another record: text of that record may hold `-->` or `?>`.
"""

import re
from collections.abc import Callable, Iterator
from typing import IO

import msgspec

from schemas.errors import FormatError, ProgressError, RecordError
from schemas.record import Record
from schemas.reject import Place, Reject, reject_bytes
from schemas.span import Span
from transforms.formats.xml.element_names import CLOSERS, TAG, ElementNames
from transforms.formats.xml.raw_element import NESTED, Context, RawElement, find_url
from transforms.formats.xml.sections import OPENERS, OVERLAP, BadRange, Sections, doctype_end

KEPT_BYTES = 1 << 20
"""How much is kept of a stretch that could not be delimited."""

_AROUND_BYTES = 4 << 10
"""Most bytes of the tag of a root or a group, which is parsed with units over and over."""

_HEADER_BYTES = 16 << 10

_RUN_BYTES = 128 << 10
_LARGE_BYTES = 4 << 20
"""A unit above this is not held twice."""
_PREVIEW = 40
_BLANKS = b" \t\r\n"
"""The white space of XML. Form feed and vertical tab are not white space between records."""
_SPACE = re.compile(rb"[%b]*" % _BLANKS)
_CHARACTER_BYTES = 4
_CONTINUATIONS = bytes(range(0x80, 0xC0))
_TAG_BYTES = 2048  # a start tag that is not seen to end by then is left to the steps
_SLASH = ord("/")
_CDATA_END = re.compile(rb"\](?=\]>)")  # one literal byte, which `re` finds fastest
_NAME = re.compile(rb"<([^\s<>/?!]+)")


_DOUBTS = {
    "cdata": BadRange(
        "ambiguous-cdata",
        "a CDATA section that holds the end of its record, whole records and another CDATA; "
        "expected ']]>' before them, or content that does not read as records",
        0,
    ),
    "comment": BadRange(
        "ambiguous-comment",
        "a comment that holds whole records and ends inside another; "
        "expected '-->' before them, or a comment that ends behind a record",
        0,
    ),
    "instruction": BadRange(
        "ambiguous-instruction",
        "a processing instruction that holds whole records and ends inside another, or behind "
        "another '<?'; expected '?>' before them, or no records in it",
        0,
    ),
}
"""What the reject of a section that may be torn says, by the kind of the section."""

Bulk = Callable[[bytes, int, int, Context], list[Record] | None]
"""Makes records of a run of units, given its offset, line and context; None if they differ."""


class RecordScanner(Sections):
    """Yields the units of a stream, and a Reject for each stretch between them that is none.

    Holds one unit and at most a block beyond it in memory; a unit of more than `max_unit_bytes` is
    set aside. `bulk` may take runs of units, and `skim_bytes` is how many bytes of units may be
    passed without a look, for cutting. `original` gives back the stream's own bytes of a unit.
    """

    def __init__(  # noqa: PLR0913 - one for each way to pass many units at once
        self,
        stream: IO[bytes],
        vocabulary: ElementNames,
        span: Span,
        *,
        max_unit_bytes: int,
        bulk: Bulk | None = None,
        skim_bytes: int = 0,
    ) -> None:
        super().__init__(stream, vocabulary, span, max_unit_bytes=max_unit_bytes)
        self._bulk = bulk
        self._skim_bytes = skim_bytes
        self._next_run = 0
        self._next_skim = 0
        self.context = (
            msgspec.json.decode(span.context, type=Context) if span.context else Context()
        )
        self._seen = bool(span.context)
        self.ended: dict[bytes, Context] = {}
        """Documents that have ended, by the bytes of their header."""

    def __iter__(self) -> Iterator[RawElement | Reject | list[Record]]:
        while True:
            if self._bulk is not None and self._seen:
                yield from self._runs(self._bulk)
            if self._skim_bytes and self._seen:
                yield from self._skim()
            yield from self._run()
            if not self._forward():
                break
            before = self._consumed
            token = self._vocabulary.top.match(self._data, self._pos)
            found = self._step(token.lastgroup or "", token) if token else self._stray()
            if self._consumed == before:
                raise self._no_progress()
            del token  # it holds the data
            if isinstance(found, RawElement) and len(found.text) > _LARGE_BYTES:
                passed = [found]
                del found  # so that only the consumer holds a large unit
                yield passed.pop()
            elif found is not None:
                yield found
        yield from self._end_of_stream()

    def _forward(self) -> bool:
        """Pass white space; return whether anything is left, a whole tag name of it at hand."""
        while True:
            match = _SPACE.match(self._data, self._pos)
            if match and match.end() > self._pos:
                self._consume(match.end() - self._pos)
            if len(self._data) - self._pos >= OVERLAP or not self._more():
                break
        return self._pos < len(self._data)

    def _runs(self, bulk: Bulk) -> Iterator[list[Record]]:
        """Yield records of runs of units that are all alike; what is no run is not tried again."""
        while not self._transcoded and self._consumed >= self._next_run:
            limit = self._pos + _RUN_BYTES
            special = self._vocabulary.special.search(self._data, self._pos, limit)
            tag = self._vocabulary.end_tag
            end = self._data.rfind(tag, self._pos, special.start() if special else limit)
            text = self._data[self._pos : end + len(tag)] if end >= 0 else b""
            records = bulk(text, self._offset, self._line, self.context) if text else None
            if records is None:
                tried = special.end() - self._pos if special else len(self._data) - self._pos
                tried = min(tried, _RUN_BYTES // 2)
                self._next_run = self._consumed + max(len(text), tried)
                return
            self._consume(len(text))
            yield records

    def _skim(self) -> Iterator[list[Record]]:
        """Pass units without a look at them; yield nothing in their place, for `place` to be asked.

        Where no CDATA, comment or group is in the way, a unit begins behind each end tag of one.
        """
        while not self._transcoded and self._consumed >= self._next_skim:
            end, looked = self._skim_end()
            if end == self._pos:
                self._next_skim = self._consumed + looked - self._pos
                return
            self._consume(end - self._pos)
            yield []

    def _skim_end(self) -> tuple[int, int]:
        """Return where the last unit ends that can be passed, and how far was looked for it."""
        data, tag = self._data, self._vocabulary.end_tag
        at = end = self._pos
        limit = min(len(data), self._pos + self._skim_bytes)
        while True:
            barrier = self._vocabulary.barrier.search(data, at, limit)
            found = data.rfind(tag, at, barrier.start() if barrier else limit)
            end = found + len(tag) if found >= 0 else end
            if not barrier:
                return end, limit
            if not data.startswith(OPENERS["cdata"], barrier.start()):
                return end, barrier.end()
            close = _CDATA_END.search(data, barrier.end(), limit)
            if not close:
                return end, limit
            if data.find(OPENERS["cdata"], barrier.end(), close.start()) >= 0:
                return end, close.end()
            at = close.start() + 3

    def _run(self) -> Iterator[RawElement]:
        """Yield units while each is seen to end before anything else begins, by few calls."""
        if self._transcoded or not self._seen:
            return
        data, pos, begun = self._data, self._pos, self._pos
        stop = pos + self._next_run - self._consumed if self._bulk else len(data)
        while pos < stop and (start := self._vocabulary.start.match(data, pos)) is not None:
            name = start["unit"].decode()
            begin = start.start("unit") - 1
            end = data.find(b">", begin, begin + _TAG_BYTES)
            if end < 0:
                break
            tag = data[begin:end]
            if tag.endswith(b"/") or tag.count(b'"') & 1 or b"'" in tag or tag.rfind(b"<"):
                whole = TAG.match(data, begin)
                end = whole.end() if whole else begin
                if data[end : end + 1] != b">":
                    break
            cdata, section = 0, None
            if data[end - 1] == _SLASH:
                end += 1
            else:
                token = self._vocabulary.inside[name].search(data, end)
                if token is not None and token.lastgroup == "cdata":
                    cdata = token.end()
                    token = self._behind_cdata(name, token)
                if token is None or token.lastgroup != "end":
                    break
                section = (cdata - begin, token.pos - 3 - begin) if cdata else None
                end = token.end()
            self._line += data.count(b"\n", pos, begin)
            text, offset = data[begin:end], self._offset + begin - begun
            yield RawElement(name, text, offset, self._line, not cdata, self.context, section)
            self._line += data.count(b"\n", begin, end)
            pos = end
        self._pos = pos
        self._offset += pos - begun
        self._consumed += pos - begun

    def _behind_cdata(self, name: str, token: re.Match[bytes]) -> re.Match[bytes] | None:
        """The token behind a CDATA section that is at hand and holds no other; else None."""
        barren = self._pos + self._barren["cdata"] - self._consumed
        close = _CDATA_END.search(self._data, max(token.end(), barren))
        if not close or self._data.find(token.group(), token.end(), close.start()) >= 0:
            return None
        return self._vocabulary.inside[name].search(self._data, close.start() + 3)

    def _step(self, kind: str, token: re.Match[bytes]) -> RawElement | Reject | None:
        if kind == "unit":
            return self._unit(token["unit"].decode())
        if kind in ("comment", "instruction"):
            return self._pass_over(kind)
        if kind == "doctype":
            return self._doctype()
        if kind == "header":
            return self._header()
        if kind in ("ungroup", "end"):
            self._consume(token.end() - self._pos)
            self._leave(kind)
            return None
        return self._open(kind)

    def _unit(self, name: str) -> RawElement | Reject:
        if not self._seen:
            raise self._no_root(f"root element {name!r}")
        tag = self._tag()
        if isinstance(tag, BadRange):
            return self._set_aside(tag)
        if self._data[self._pos + tag - 2] == _SLASH:
            return self._take(name, tag, plain=True)
        plain = True
        at = tag
        self._doubtful = ""
        while True:
            token = self._search(self._vocabulary.inside[name], at)
            if isinstance(token, BadRange):
                return self._set_aside(token)
            kind = token.lastgroup
            if kind == "end":
                length = token.end() - self._pos
                return self._doubt(length) or self._take(name, length, plain=plain)
            if kind == "other":
                return self._torn(name, token)
            plain = False
            closed = self._close(str(kind), token.start() - self._pos)
            if isinstance(closed, BadRange):
                return self._set_aside(closed)
            at = closed

    def _doubt(self, length: int) -> Reject | None:
        if not self._doubtful:
            return None
        code, reason, _ = _DOUBTS[self._doubtful]
        return self._reject(code, reason, length)

    def _take(self, name: str, length: int, *, plain: bool) -> RawElement:
        text = self._data[self._pos : self._pos + length]
        unit = RawElement(name, text, self._offset, self._line, plain, self.context)
        self._consume(length)
        if length > _LARGE_BYTES:
            self._compact()
        return unit

    def _torn(self, name: str, token: re.Match[bytes]) -> Reject:
        found = token.group().decode("utf-8", "replace")
        reason = f"{found!r} inside <{name}>; expected </{name}> before it"
        loose = self._vocabulary.loose.search(self._data, self._pos + 1, token.start())
        end = loose.start() if loose and name == self._vocabulary.units[0] else token.start()
        return self._reject("torn-record", reason, end - self._pos)

    def _open(self, kind: str) -> Reject | None:
        """Enter the root or a group; one whose tag cannot be read is entered all the same."""
        tag = self._tag()
        if not isinstance(tag, BadRange) and tag > _AROUND_BYTES:
            tag = _too_large("a start tag", tag, _AROUND_BYTES)
        if isinstance(tag, BadRange):
            reject = self._set_aside(tag)
            self._enter(kind, reject.data[:_AROUND_BYTES].rstrip(b">") or b"<")
            return reject
        text = self._data[self._pos : self._pos + tag]
        self._consume(tag)
        self._seen = True
        if not text.endswith(b"/>"):
            self._enter(kind, text)
        elif kind == "root":
            self._end_document(Context(root=text))
        return None

    def _enter(self, kind: str, tag: bytes) -> None:
        self._seen = True
        if kind == "root":
            self._end_document(self.context)
            self.context = Context(root=tag)
        else:
            depth = 1 + bool(self.context.depth)
            self.context = msgspec.structs.replace(self.context, group=tag, depth=depth)

    def _leave(self, kind: str) -> None:
        if kind == "end":  # another document may follow: connectors append feeds to one archive
            self._end_document(self.context)
            self.context = Context()
        else:
            depth = max(0, self.context.depth - 1)
            group = NESTED if depth else b""
            self.context = msgspec.structs.replace(self.context, group=group, depth=depth)

    def _end_document(self, context: Context) -> None:
        if context.root:
            self.ended.setdefault(context.header, context)

    def _header(self) -> Reject | None:
        token = self._search(self._vocabulary.header_end, 1)
        if not isinstance(token, BadRange):
            length = token.end() - self._pos
        elif (
            token.code == "torn-record" and self._span.length is not None
        ):  # cut before the record that ends it
            length = len(self._data) - self._pos
        else:
            return self._set_aside(token)
        if length > _HEADER_BYTES:
            return self._set_aside(_too_large("a header", length, _HEADER_BYTES))
        header = self._data[self._pos : self._pos + length]
        self._consume(length)
        self.context = Context(root=self.context.root, header=header)
        return None

    def _doctype(self) -> Reject | None:
        while (end := doctype_end(self._data, self._pos)) <= 0:
            if end == 0 or not self._more():
                return self._set_aside(BadRange("malformed", "a DOCTYPE without its end", 9))
        self._consume(end - self._pos)
        return None

    def _pass_over(self, kind: str) -> Reject | None:
        self._doubtful = ""
        closed = self._close(kind, 0)
        if isinstance(closed, BadRange):
            return self._set_aside(closed)
        if reject := self._doubt(closed):
            return reject
        self._consume(closed)
        return None

    def _stray(self) -> Reject:
        found = self._data[self._pos : self._pos + _PREVIEW]
        name = _NAME.match(found)
        if not self._seen and name:
            raise self._no_root(f"root element {name[1].decode('utf-8', 'replace')!r}")
        what = f"<{name[1].decode('utf-8', 'replace')}>" if name else "text"
        return self._set_aside(BadRange("stray", f"{what} between records; expected a record", 1))

    def _end_of_stream(self) -> Iterator[Reject]:
        if self._span.length is None and self.context.root:
            self._end_document(self.context)
            root = self._vocabulary.root
            reason = f"the end of the stream; expected </{root}>: more records may have followed"
            yield self._reject("torn-end", reason, 0)
        elif not self._seen:
            raise self._no_root("no element at all")

    def _no_root(self, found: str) -> FormatError:
        source, root = self._span.source, self._vocabulary.root
        return FormatError(f"{source}:{self._line}: {found}; expected <{root}>")

    def _no_progress(self) -> ProgressError:
        where = f"{self._span.source}:{self._line} (byte {self._offset})"
        return ProgressError(
            f"{where}: the reader does not advance; expected at least one byte to be read: "
            "report this defect of feedferry"
        )

    def _set_aside(self, stretch: BadRange) -> Reject:
        """Consume up to the next place where a unit can begin; what is dropped is not held."""
        start = self._reject(stretch.code, stretch.reason, 0)
        at, kept, opened = stretch.at, b"", False
        while True:
            token = self._vocabulary.recover.search(self._data, self._pos + at)
            if token is None:
                kept = self._drop(kept, max(at, len(self._data) - self._pos - OVERLAP))
                at = 0
                if not self._more():
                    rest = self._data[self._pos :]
                    return self._finish(start, kept, len(rest.rstrip(_BLANKS)))
                continue
            kind = token.lastgroup or ""
            begin, at = token.start() - self._pos, token.end() - self._pos
            near_end = token.end() + OVERLAP > len(self._data)
            if kind == "opened" and near_end and self._more():
                at = begin  # whether it has a url was not at hand yet
                continue
            if kind == "end" or (kind == "closed" and not opened):
                return self._finish(start, kept, at)
            if kind == "other":
                rest = self._data[self._pos : self._pos + begin]
                return self._finish(start, kept, len(rest.rstrip(_BLANKS)))
            opened = kind == "opened" or (opened and kind != "closed")
            if kind in OPENERS:
                closed = self._close(kind, begin)
                if isinstance(closed, BadRange) and closed.code == "record-too-large":
                    kept, at = self._drop_cdata(kept, at), 0
                else:
                    at = at if isinstance(closed, BadRange) else closed

    def _drop_cdata(self, kept: bytes, at: int) -> bytes:
        """Pass a CDATA section that is too large to hold: what it contains brings no records."""
        closer = CLOSERS["cdata"]
        kept = self._drop(kept, at)
        while (found := self._data.find(closer, self._pos)) < 0:
            kept = self._drop(kept, max(0, len(self._data) - self._pos - len(closer) + 1))
            if not self._more():
                return self._drop(kept, len(self._data) - self._pos)
        return self._drop(kept, found - self._pos + len(closer))

    def _drop(self, kept: bytes, length: int) -> bytes:
        rest = self._data[self._pos + length : self._pos + length + 1]
        least = max(0, length - _CHARACTER_BYTES)  # of what is no UTF-8 all bytes may look so
        while length > least and rest and rest[0] & 0xC0 == 0x80:  # not inside a character
            length -= 1
            rest = self._data[self._pos + length : self._pos + length + 1]
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


def _whole_characters(utf8: bytes) -> bytes:
    """Return `utf8` without a last character of which some bytes are missing."""
    behind_lead = utf8.rstrip(_CONTINUATIONS)
    lead = behind_lead[-1] if behind_lead else 0
    width = 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
    is_torn = len(utf8) - len(behind_lead) + 1 < width
    return behind_lead[:-1] if is_torn else utf8


def _too_large(what: str, length: int, most: int) -> BadRange:
    reason = f"{what} of {length} bytes; expected at most {most}"
    return BadRange("too-large", reason, length)
