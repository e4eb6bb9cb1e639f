"""Reading of streams in blocks."""

from collections.abc import Callable


def read_block(read: Callable[[int], bytes], size: int, *, least: int) -> bytes:
    """Return up to `size` bytes of a stream; fewer than `least` only at its end.

    A pipe returns few bytes per call. A caller that appends each block to its buffer copies the
    buffer each time, so blocks must not be small compared with the buffer.
    """
    pieces = [read(size)]
    length = len(pieces[0])
    while pieces[-1] and length < least:
        pieces.append(read(size))
        length += len(pieces[-1])
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
