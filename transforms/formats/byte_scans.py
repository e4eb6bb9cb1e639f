"""Passes over many bytes that take a fraction of the time of the methods of `bytes`.

`bytes.count` costs a call for each byte that it finds, and `bytes.translate` a step for each byte.
"""

from collections.abc import Iterator
from typing import Any

_FEW_BYTES = 4 << 10
_PIECE_BYTES = 64 << 10
_CONTROLS = bytes(range(0x20))
_LINE_END, _BLANK = 0x0A, 0x20


def count_lines(data: bytes, begin: int, end: int) -> int:
    """Return the number of line ends in a range of `data`."""
    if end - begin < _FEW_BYTES:
        return data.count(b"\n", begin, end)
    import numpy as np  # takes a tenth of a second to load

    pieces = _pieces(data, begin, end)
    return sum(int(np.count_nonzero(codes == _LINE_END)) for codes in pieces)


def has_controls(text: bytes, *, allowed: bytes = b"\n\t") -> bool:
    """Whether there are control characters but some, of which the most frequent one is first.

    XML has none but tabs and line ends.
    """
    if len(text) < _FEW_BYTES:
        return len(text.translate(None, _CONTROLS.translate(None, allowed))) != len(text)
    import numpy as np  # the same

    for codes in _pieces(text, 0, len(text)):
        if codes.min() >= _BLANK:  # this takes a fraction of the others
            continue
        count = np.count_nonzero(codes < _BLANK)
        for code in allowed:
            count -= np.count_nonzero(codes == code)
            if not count:
                break
        if count:
            return True
    return False


def find_all(data: bytes, mark: bytes) -> list[int]:
    """Return the places of a mark of at least a byte, which does not overlap itself."""
    import numpy as np  # the same

    codes = np.frombuffer(data, np.uint8)
    places = np.flatnonzero(codes[: len(data) - len(mark) + 1] == mark[0])
    for at, byte in enumerate(mark[1:], start=1):
        places = places[codes[places + at] == byte]
    found: list[int] = places.tolist()
    return found


# Any: arrays of numpy, whose types would load it.
def _pieces(data: bytes, begin: int, end: int) -> Iterator[Any]:
    """Yield a range in pieces of 64 KiB, to keep temporary arrays small."""
    import numpy as np  # the same

    for at in range(begin, end, _PIECE_BYTES):
        yield np.frombuffer(data, np.uint8, min(_PIECE_BYTES, end - at), at)
