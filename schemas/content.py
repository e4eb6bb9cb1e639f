"""Encode and decode content: base64, and zlib in base64.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Providing Content in the Feed", "Content
Compression".
"""

import pybase64
from isal import isal_zlib

from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Content, Encoding

MAX_CONTENT_BYTES = 20 * 1024 * 1024
"""Default limit for a decoded document, in bytes."""
CHECKED = 1 << 40
"""Limit for a document whose size was checked by its reader."""

_ZLIB_LEVEL = 2  # ISA-L has levels 0 to 3; level 3 takes twice the time for a few percent
_CACHED_BYTES = 4 << 20
"""The size of the documents of zlib streams above which the cache is emptied."""
_WHITE_SPACE = b" \t\r\n"
_LARGE_STREAM = "a zlib stream that inflates to more"


def clean_base64(text: bytes) -> bytes:
    """Return base64 text with padding and without white space; raise RecordError if it is not one.

    Examples of the guide have missing or wrong padding, and some clients wrap lines.
    """
    if _is_base64(text):
        return text
    bare = text.translate(None, _WHITE_SPACE).rstrip(b"=")
    padded = bare + b"=" * (-len(bare) % 4)
    if len(bare) % 4 == 1 or not _is_base64(padded):
        raise RecordError("bad-base64", f"{len(text)} bytes that are no base64; expected base64")
    return padded


def decode(content: Content, *, max_bytes: int = MAX_CONTENT_BYTES) -> bytes:
    """Return the decoded bytes; raise RecordError above `max_bytes` or for a truncated stream."""
    if content.encoding is Encoding.ZLIB_BASE64:
        return _inflate(content.data, max_bytes)
    check(content, max_bytes=max_bytes)
    if content.encoding is Encoding.BASE64:
        return pybase64.b64decode(content.data)
    return content.data


def check(content: Content, *, max_bytes: int = MAX_CONTENT_BYTES) -> None:
    """Raise RecordError if `decode` would; only a zlib stream is copied."""
    data = content.data
    if content.encoding is Encoding.ZLIB_BASE64:
        _inflate(data, max_bytes)
        return
    size = len(data)
    if content.encoding is Encoding.BASE64 and size > max_bytes:
        size = size // 4 * 3 - data[-2:].count(b"=")
    if size > max_bytes:
        raise content_too_large(f"{size} bytes", max_bytes)


def to_base64(content: Content) -> bytes:
    """Return the document as base64 text; base64 content is returned unchanged."""
    if content.encoding is Encoding.BASE64:
        return content.data
    return pybase64.b64encode(decode(content, max_bytes=CHECKED))


def compress(content: Content, *, max_bytes: int = MAX_CONTENT_BYTES) -> Content:
    """Return the content as zlib in base64 if that is shorter than the document, else unchanged.

    Raise RecordError as `decode` does.
    """
    if content.encoding is Encoding.ZLIB_BASE64:
        return content
    data = decode(content, max_bytes=max_bytes)
    packed = pybase64.b64encode(isal_zlib.compress(data, _ZLIB_LEVEL))
    return Content(packed, Encoding.ZLIB_BASE64) if len(packed) < len(data) else content


def _is_base64(text: bytes) -> bool:
    try:
        pybase64.b64decode(text, validate=True)
    except ValueError:  # includes binascii.Error
        return False
    return True


def _inflate(text: bytes, max_bytes: int) -> bytes:
    """Return a document, which may be cached: it is checked when it is read, and later written."""
    data = _inflated.get(text)
    if data is None:
        data = _inflate_again(text, max_bytes)
        if len(data) < _CACHED_BYTES:
            if sum(map(len, [*_inflated.values()])) > _CACHED_BYTES:
                _inflated.clear()
            _inflated[text] = data
    elif len(data) > max_bytes:
        raise content_too_large(_LARGE_STREAM, max_bytes)
    return data


_inflated: dict[bytes, bytes] = {}


def _inflate_again(text: bytes, max_bytes: int) -> bytes:
    stream = isal_zlib.decompressobj()
    try:
        data: bytes = stream.decompress(pybase64.b64decode(text), max_bytes + 1)
    except isal_zlib.error as exc:  # type: ignore[misc]  # the stub does not declare an exception
        raise RecordError("bad-zlib", f"{exc}; expected a zlib stream") from exc
    if len(data) > max_bytes:
        raise content_too_large(_LARGE_STREAM, max_bytes)
    if not stream.eof:
        raise RecordError("bad-zlib", "a zlib stream without its end; expected a whole one")
    return data


def content_too_large(found: str, max_bytes: int) -> RecordError:
    """Return the error for a content of more than `max_bytes`."""
    reason = f"{found}; expected at most {max_bytes} bytes; raise ⟦max_content_bytes⟧ to read it"
    return RecordError("content-too-large", reason)
