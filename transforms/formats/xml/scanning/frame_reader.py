"""The markup between records: root, group, header, DOCTYPE, comments and instructions."""

import re

from feedferry.schemas.reject import Reject
from feedferry.schemas.span import ElementContext
from feedferry.transforms.formats.xml.scanning.ambiguous_sections import AmbiguityRule
from feedferry.transforms.formats.xml.scanning.damage import Damage, DamageEnd
from feedferry.transforms.formats.xml.scanning.document_state import UNKNOWN
from feedferry.transforms.formats.xml.scanning.markup_search import BadRange
from feedferry.transforms.formats.xml.scanning.sections import INSTRUCTION, SECTIONS

HEADER_DAMAGED = "header-damaged"

_CONTEXT_TAG_BYTES = 4 << 10
"""Most bytes of the tag of a root or a group, which is parsed again with every batch of records."""

_HEADER_BYTES = 16 << 10
"""Most bytes of a header, which is part of the context of each record."""

_DOCTYPE_BYTES = 16 << 10
"""How far the end of a DOCTYPE is searched."""

_TAGS = re.compile(rb"<(/?)([^\s<>/!?]+)[^<>]*?(/?)>")
_QUOTED = rb""""[^"]*+"|'[^']*+'"""
_SECTION = rb"<!--(?>[^-]++|-(?!->))*+-->|<\?(?>[^?]++|\?(?!>))*+\?>"
_WHOLE_DOCTYPE = re.compile(
    rb"<!DOCTYPE(?>[^<>\[\"']++|%b)*+(?:\[(?>[^\]\"'<]++|%b|%b|<(?!!--|\?|!DOCTYPE))*+\]\s*+)?>"
    % (_QUOTED, _QUOTED, _SECTION)
)
"""A DOCTYPE with its internal subset; one with another one inside is torn."""


class FrameReader:
    """Reads the markup that begins at the first byte that is not consumed.

    Each method returns a reject if the markup cannot be read.
    """

    def __init__(self, damage: Damage, rule: AmbiguityRule) -> None:
        self._damage, self._rule = damage, rule
        self._buffer, self._search = damage.buffer, damage.search
        self._markup, self._document, self._span = damage.markup, damage.document, damage.span

    def enter(self, kind: str) -> Reject | None:
        """Enter the root or a group; if its tag cannot be read, enter it and return a reject."""
        begin, end = self._buffer.position, self._search.find_tag_end()
        if not isinstance(end, BadRange) and end - begin > _CONTEXT_TAG_BYTES:
            end = self._too_large("a start tag", end, _CONTEXT_TAG_BYTES)
        self._document.documents += kind == "root"
        if isinstance(end, BadRange):
            reject = self._damage.set_aside(end)
            self._document.enter(kind, reject.data[:_CONTEXT_TAG_BYTES].rstrip(b">") or b"<")
            return reject
        text = self._buffer.text(begin, end)
        self._buffer.consume(end)
        self._document.has_root = True
        if not text.endswith(b"/>"):
            self._document.enter(kind, text)
        elif kind == "root":
            self._document.note_ended(ElementContext(root=text))
        return None

    def enter_header(self) -> Reject | None:
        """Enter the header; one that is damaged is entered too, and returned as a reject."""
        buffer, begin = self._buffer, self._buffer.position
        token = self._search.search(self._markup.header_end, begin + 1, begin)
        if not isinstance(token, BadRange):
            end, is_whole = token.end, bool(token.text)
        elif token.code == "torn-record" and self._span.length is not None:
            end, is_whole = buffer.end, False  # no record in this span
        else:
            return self._damage.set_aside(token)
        if end - begin > _HEADER_BYTES:
            return self._damage.set_aside(self._too_large("a header", end, _HEADER_BYTES))
        if self._document.context.header not in (b"", UNKNOWN):
            fault = BadRange("stray", "a second header; expected a record", end)
            return self._damage.reject(fault)
        header = buffer.text(begin, end)
        self._document.enter_header(header)
        if is_whole and _is_balanced(header):
            buffer.consume(end)
            return None
        after = DamageEnd(end, self._document.context)
        if buffer.match(self._markup.frame.tag, end):
            after = self._damage.pass_frame(end, is_expected=True)
        reason = "a header without its end, or with tags that do not match; expected </header>"
        return self._damage.reject_up_to(after, BadRange(HEADER_DAMAGED, reason, end))

    def pass_doctype(self) -> Reject | None:
        """Pass a DOCTYPE; without the limit, many torn ones would be searched to the same end."""
        buffer, begin = self._buffer, self._buffer.position
        limit = begin + _DOCTYPE_BYTES
        while (doctype := buffer.match(_WHOLE_DOCTYPE, begin, limit)) is None:
            if buffer.end >= limit or not buffer.read_on():
                return self._damage.set_aside(
                    BadRange("malformed", "a DOCTYPE without its end", begin + 9)
                )
        self._document.note_prolog(doctype.text)
        buffer.consume(doctype.end)
        return None

    def pass_section(self, kind: str) -> Reject | None:
        begin = self._buffer.position
        end = self._search.find_section_end(kind, begin, begin)
        if isinstance(end, BadRange):
            return self._damage.set_aside(end)
        text = self._search.inside(kind, begin, end)
        if self._rule.swallows_records(self._buffer.data, *text, kind=kind):
            return self._damage.reject(ambiguity(kind, end))
        if kind == INSTRUCTION.kind:
            self._document.note_prolog(self._buffer.text(begin, end))
        self._buffer.consume(end)
        return None

    def _too_large(self, what: str, end: int, max_bytes: int) -> BadRange:
        length = end - self._buffer.position
        reason = f"{what} of {length} bytes; expected at most {max_bytes}"
        return BadRange("too-large", reason, end)


def _is_balanced(markup: bytes) -> bool:
    """Whether each end tag in the markup of a header ends the element that was begun last."""
    names: list[bytes] = []
    for slash, name, is_empty in _TAGS.findall(markup):
        if not slash:
            names += [] if is_empty else [name]
        elif not names or names.pop() != name:
            return False
    return not names


def ambiguity(kind: str, end: int) -> BadRange:
    """Return the fault of a section that also reads as records."""
    section = SECTIONS[kind]
    return BadRange(section.ambiguous_code, section.ambiguous_reason, end)
