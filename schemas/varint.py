"""Avro numbers: zigzag, seven bits per byte, lowest bits first.

**Spec:** Apache Avro 1.12, "Binary Encoding", "Primitive Types".

Tables have 14 bits per entry; a loop over the bytes takes twice as long.
"""


def _two_bytes(low: int) -> bytes:
    return bytes((low & 0x7F | 0x80, low >> 7 | 0x80))


def _one_or_two_bytes(low: int) -> bytes:
    return bytes((low,)) if low < 0x80 else bytes((low & 0x7F | 0x80, low >> 7))


_LOW = tuple(_two_bytes(low) for low in range(1 << 14))
"""Encodings of the lowest 14 bits of a longer number."""
_LAST = tuple(_one_or_two_bytes(low) for low in range(1 << 14))
LENGTHS = _LAST[::2]
"""Encodings of the longs from 0, for callers that avoid a function call."""
SHORT = len(LENGTHS)


def long(number: int) -> bytes:
    """Return an Avro long, or int, of at most 64 bits."""
    return _varint(number << 1 if number >= 0 else ~number << 1 | 1)


def length(data: bytes) -> bytes:
    """Return the length prefix of `data`."""
    size = len(data)
    return LENGTHS[size] if size < SHORT else long(size)


def _varint(number: int) -> bytes:
    if number < 1 << 14:
        return _LAST[number]
    if number < 1 << 28:
        return _LOW[number & 0x3FFF] + _LAST[number >> 14]
    return _LOW[number & 0x3FFF] + _LOW[number >> 14 & 0x3FFF] + _varint(number >> 28)
