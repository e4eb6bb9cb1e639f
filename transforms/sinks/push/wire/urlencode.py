"""Encode bytes as a value of an application/x-www-form-urlencoded form, block by block.

**Spec:** WHATWG URL, "application/x-www-form-urlencoded serializing"; but `~` is not encoded,
as in RFC 3986.
"""

KEPT = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~*"
_SPACE = b" "
_UNCOUNTED = KEPT + _SPACE
_PERCENT = 0x25
_SLICE_BYTES = 1 << 14  # small enough for the processor cache
_ENCODED = [(bytes([byte]), b"%%%02X" % byte) for byte in range(256)]


def encode(block: bytes) -> bytes:
    """Return `block` encoded; any cut of a document gives the same bytes when joined again."""
    slices = range(0, len(block), _SLICE_BYTES)
    return b"".join([_encode(block[start : start + _SLICE_BYTES]) for start in slices])


def encoded_length(block: bytes) -> int:
    """Return how long `encode(block)` is."""
    return len(block) + 2 * len(block.translate(None, _UNCOUNTED))


def _encode(block: bytes) -> bytes:
    """Replace each reserved byte that occurs; three times as fast as a regular expression."""
    found = set(block.translate(None, _UNCOUNTED))
    if _PERCENT in found:  # first, because the other replacements contain it
        block = block.replace(*_ENCODED[_PERCENT])
    for byte in found - {_PERCENT}:
        block = block.replace(*_ENCODED[byte])
    return block.replace(_SPACE, b"+")
