"""Rejects of ranges of a document that are no records."""

import html
import re

import msgspec

from feedferry.schemas.errors import RecordError
from feedferry.schemas.reject import Place, Reject, reject_bytes
from feedferry.schemas.span import Span
from feedferry.transforms.formats.xml.scanning.buffer import Buffer
from feedferry.transforms.formats.xml.scanning.markup_search import BadRange

KEPT_BYTES = 1 << 20
"""How much is kept of a range that could not be delimited."""

_CHARACTER_BYTES = 4
_CONTINUATIONS = bytes(range(0x80, 0xC0))
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


def reject_range(buffer: Buffer, span: Span, fault: BadRange) -> Reject:
    """Consume a range, up to the end that the fault states, and return its reject."""
    text = buffer.original(buffer.text(buffer.position, fault.end))
    place = Place(buffer.offset, len(text), buffer.line)
    exc = RecordError(fault.code, fault.reason)
    reject = reject_bytes(exc, span=span, place=place, data=text, url=find_url(text))
    buffer.consume(fault.end)
    return reject


class RejectedRange:
    """A range whose end is not known yet; the first `KEPT_BYTES` of it are kept."""

    def __init__(self, buffer: Buffer, span: Span, fault: BadRange) -> None:
        self._buffer = buffer
        self._start = reject_range(buffer, span, fault._replace(end=buffer.position))
        self._kept = b""

    def drop(self, end: int) -> None:
        """Consume the bytes up to about a position: to the begin of a character."""
        buffer = self._buffer
        # In data that is no UTF-8, all bytes may match.
        least = max(buffer.position, end - _CHARACTER_BYTES)
        while end > least and (after := buffer.text(end, end + 1)) and after[0] & 0xC0 == 0x80:
            end -= 1
        kept_end = min(end, buffer.position + KEPT_BYTES - len(self._kept))
        self._kept += buffer.text(buffer.position, kept_end)
        buffer.consume(end)

    def finish(self, end: int) -> Reject:
        """Consume the rest of the range and return its reject."""
        self.drop(end)
        length = self._buffer.offset - self._start.offset
        kept = _whole_characters(self._kept) if self._buffer.transcoded else self._kept
        text = self._buffer.original(kept)
        return msgspec.structs.replace(
            self._start, data=text, length=length, truncated=len(text) < length, url=find_url(text)
        )


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
