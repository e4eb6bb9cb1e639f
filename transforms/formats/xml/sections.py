"""Where tags and sections end, in a stream that may be torn anywhere."""

import re
from typing import IO, NamedTuple

from schemas.span import Span
from transforms.formats.xml.element_names import CLOSERS, TAG, ElementNames
from transforms.formats.xml.window import Window

_COMMENT_BYTES = 16 << 20
OVERLAP = 1024
OPENERS = {"cdata": b"<![CDATA[", "comment": b"<!--", "instruction": b"<?"}
_DOCTYPE = b"<!DOCTYPE"
_DOCTYPE_BYTES = 16 << 10
_DOCTYPE_PART = re.compile(rb"""[\[\]>"']|<!--|<\?|<""")
_DOCTYPE_ENDS = {b'"': b'"', b"'": b"'", b"<!--": b"-->", b"<?": b"?>"}
_OPEN_QUOTE = re.compile(rb""""[^"<]*|'[^'<]*""")


class BadRange(NamedTuple):
    code: str
    reason: str
    at: int


class Sections(Window):
    """A window that finds ends; positions are relative to `_pos`, and the window grows for them.

    `_doubtful` is the kind of a section that was passed and may be torn, empty if there was none.
    """

    def __init__(
        self, stream: IO[bytes], vocabulary: ElementNames, span: Span, *, max_unit_bytes: int
    ) -> None:
        super().__init__(stream, span)
        self._vocabulary = vocabulary
        self._max_unit_bytes = max_unit_bytes
        self._doubtful = ""
        self._barren = dict.fromkeys(OPENERS, 0)
        self._closers = dict.fromkeys(OPENERS, (0, -1))

    def _tag(self) -> int | BadRange:
        """Return the length of the start tag at `_pos`."""
        while True:
            match = TAG.match(self._data, self._pos)
            end = match.end() if match else self._pos
            if self._data[end : end + 1] == b">":
                return end + 1 - self._pos
            quote = _OPEN_QUOTE.match(self._data, end)
            partial = (quote.end() if quote else end) == len(self._data)
            if not partial or self._is_full() or not self._more():
                return BadRange("malformed", "a tag that does not end; expected '>'", 1)

    def _search(self, pattern: re.Pattern[bytes], at: int) -> re.Match[bytes] | BadRange:
        while not (token := pattern.search(self._data, self._pos + at)):
            at = max(at, len(self._data) - self._pos - OVERLAP)
            if fault := self._grow():
                return fault
        return token

    def _close(self, kind: str, at: int) -> int | BadRange:
        """Return where the section that opens at `at` ends, or the stretch if it is torn."""
        opener, closer = OPENERS[kind], CLOSERS[kind]
        begin = at + len(opener)
        found = self._find_closer(kind, begin)
        if found is not None:
            nested = self._data.find(opener, self._pos + begin, self._pos + found)
            if nested < 0 or kind != "comment":
                if self._may_be_torn(kind, at, found, nested):
                    self._doubtful = kind
                return found + len(closer)
        if kind == "cdata" and self._is_full():
            return self._too_large(at)
        reason = f"{opener.decode()!r} without its end; expected {closer.decode()!r}"
        return BadRange("malformed", reason, begin)

    def _may_be_torn(self, kind: str, at: int, close: int, nested: int) -> bool:
        """Whether the section at `at` reads as records too; at `_pos` it is between records."""
        begin, end = self._pos + at + len(OPENERS[kind]), self._pos + close
        if kind == "cdata":
            return nested >= 0 and self._vocabulary.reads_as_records(self._data, begin, end)
        return self._vocabulary.swallows_records(
            self._data, begin, end, kind=kind, is_inside=at > 0
        )

    def _find_closer(self, kind: str, begin: int) -> int | None:
        """Return where the closer is; what is known to have none is not looked at again.

        Nor is what is known to have none before the closer that was found last.
        """
        closer = CLOSERS[kind]
        sought, last = self._closers[kind]
        if sought <= self._consumed + begin <= last:
            return last - self._consumed
        seek = max(begin, self._barren[kind] - self._consumed)
        while (found := self._data.find(closer, self._pos + seek)) < 0:
            seek = max(begin, len(self._data) - self._pos - len(closer) + 1)
            self._barren[kind] = self._consumed + seek
            if (kind != "cdata" and seek - begin > _COMMENT_BYTES) or self._grow():
                return None
        self._closers[kind] = self._consumed + begin, self._consumed + found - self._pos
        return found - self._pos

    def _is_full(self) -> bool:
        return len(self._data) - self._pos > self._max_unit_bytes

    def _too_large(self, at: int) -> BadRange:
        most = self._max_unit_bytes
        reason = f"more than {most} bytes; expected a smaller record; raise --max-content-bytes"
        return BadRange("record-too-large", reason, at)

    def _grow(self) -> BadRange | None:
        if self._is_full():
            return self._too_large(1)
        if not self._more():
            return BadRange(
                "torn-record", "the end of the stream inside a record; expected its end tag", 1
            )
        return None


def doctype_end(data: bytes, at: int) -> int:
    """Where a DOCTYPE and its internal subset end, -1 if that is not at hand, 0 if it is torn.

    One of more than `_DOCTYPE_BYTES` is torn, and so is one with another inside it: else each of
    many that are torn would be looked through to the same far end.
    """
    subset, limit, at = False, at + _DOCTYPE_BYTES, at + len(_DOCTYPE)
    while part := _DOCTYPE_PART.search(data, at, limit):
        found, at = part.group(), part.end()
        if found == b">" and not subset:
            return at
        if found in _DOCTYPE_ENDS:
            close = data.find(_DOCTYPE_ENDS[found], at, limit)
            if close < 0:
                break
            at = close + len(_DOCTYPE_ENDS[found])
        elif found == b"<" and (not subset or data.startswith(_DOCTYPE, part.start())):
            return 0
        elif found in b"[]":
            subset = found == b"["
    return -1 if len(data) < limit else 0
