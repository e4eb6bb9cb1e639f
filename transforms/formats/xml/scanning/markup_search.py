"""Searches for markup that stop at the limits of a record."""

import re
from typing import NamedTuple

from feedferry.transforms.formats.xml.scanning.buffer import OVERLAP_BYTES, Buffer, Token
from feedferry.transforms.formats.xml.scanning.record_markup import TAG
from feedferry.transforms.formats.xml.scanning.sections import CDATA, COMMENT, SECTIONS

_COMMENT_BYTES = 16 << 20
"""How far the end of a comment or processing instruction is searched, in steps of a block."""

_OPEN_QUOTE = re.compile(rb""""[^"<]*|'[^'<]*""")


class BadRange(NamedTuple):
    """Why the bytes at the current position are no record, and where those end that are not."""

    code: str
    reason: str
    end: int


class MarkupSearch:
    """Finds markup after the first byte of a buffer that is not consumed.

    Limits count from the position `since`, at which a record begins.
    """

    def __init__(self, buffer: Buffer, max_bytes: int) -> None:
        self.buffer = buffer
        self.max_bytes = max_bytes
        self.no_closer_before = dict.fromkeys(SECTIONS, 0)
        """Before this position, there is no end mark of a section that is still searched."""

        self._last_closer = dict.fromkeys(SECTIONS, (0, -1))
        """Where the last search that found an end mark began, and where that end mark is."""

    def search(self, pattern: re.Pattern[bytes], begin: int, since: int) -> Token | BadRange:
        """Return the first match from `begin` on."""
        while (token := self.buffer.search(pattern, begin)) is None:
            begin = max(begin, self.buffer.end - OVERLAP_BYTES)
            if fault := self._grow(since):
                return fault
        is_inside = token.end - since <= self.max_bytes
        return token if is_inside else self._too_large(self.buffer.position + 1)

    def find_tag_end(self) -> int | BadRange:
        """Return the end of the start tag that begins at the current position."""
        buffer, begin = self.buffer, self.buffer.position
        while True:
            tag = buffer.match(TAG, begin)
            end = tag.end if tag else begin
            if buffer.text(end, end + 1) == b">" and end + 1 - begin <= self.max_bytes:
                return end + 1
            quote = buffer.match(_OPEN_QUOTE, end)
            is_partial = (quote.end if quote else end) == buffer.end
            if not is_partial or self._is_full(begin) or not buffer.read_on():
                return BadRange("malformed", "a tag that does not end; expected '>'", begin + 1)

    def find_section_end(self, kind: str, begin: int, since: int) -> int | BadRange:
        """Return the end of the section that begins at `begin`, or why it is torn.

        Only the limit of a CDATA section counts from `since`.
        """
        opener, closer = SECTIONS[kind].opener, SECTIONS[kind].closer
        inside = begin + len(opener)
        close = self.find_closer(kind, inside, since)
        if close is not None and (
            kind != COMMENT.kind or self.buffer.find(opener, inside, close) < 0
        ):
            return close + len(closer)
        if kind == CDATA.kind and self._is_full(since):
            return self._too_large(begin)
        reason = f"{opener.decode()!r} without its end; expected {closer.decode()!r}"
        return BadRange("malformed", reason, inside)

    def find_closer(self, kind: str, begin: int, since: int) -> int | None:
        """Return the position of the end mark at or after `begin`, if it is not too far.

        Each byte is searched once for any number of openers.
        """
        buffer, closer = self.buffer, SECTIONS[kind].closer
        limit = since + self.max_bytes
        if kind != CDATA.kind:
            limit = min(limit, begin + _COMMENT_BYTES)
        searched, last = self._last_closer[kind]
        if searched <= begin <= last:
            return last if last <= limit else None
        at = max(begin, self.no_closer_before[kind])
        while (close := buffer.find(closer, at)) < 0:
            at = max(begin, buffer.end - len(closer) + 1)
            self.no_closer_before[kind] = at
            if at > limit or not buffer.read_on():
                return None
        self._last_closer[kind] = begin, close
        return close if close <= limit else None

    def inside(self, kind: str, begin: int, end: int) -> tuple[int, int]:
        """Return the range of the text of a section in the data of the buffer."""
        section, start = SECTIONS[kind], self.buffer.start
        return begin - start + len(section.opener), end - start - len(section.closer)

    def _is_full(self, since: int) -> bool:
        return self.buffer.end - since > self.max_bytes

    def _grow(self, since: int) -> BadRange | None:
        """Read on inside a record that begins at `since`; return why that is not possible."""
        after = self.buffer.position + 1
        if self._is_full(since):
            return self._too_large(after)
        if not self.buffer.read_on():
            reason = "the end of the stream inside a record; expected its end tag"
            return BadRange("torn-record", reason, after)
        return None

    def _too_large(self, end: int) -> BadRange:
        reason = (
            f"more than {self.max_bytes} bytes; expected a smaller record; raise"
            " ⟦max_content_bytes⟧"
        )
        return BadRange("record-too-large", reason, end)
