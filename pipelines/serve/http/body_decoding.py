"""Bodies as they were before they were compressed or percent-encoded, block by block."""

import binascii
import itertools
import re
import zlib
from collections.abc import Iterable, Iterator

from pipelines.serve.http.exchange import RefusedError

PIECE_BYTES = 256 << 10
_SLICE_BYTES = 32 << 10
_GZIP = 31  # a window of any size, with gzip's own header and check sum
_ZLIB = 15
_RAW = -15
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_QUOTED = bytes.maketrans(b"%+", b"= ")


def bounded(blocks: Iterable[bytes], *, limit: int) -> Iterator[bytes]:
    """Yield the blocks; raise RefusedError when they are `limit` bytes together, or more."""
    total = 0
    for block in blocks:
        total += len(block)
        if total >= limit:
            raise too_large(total, limit=limit)
        yield block


def too_large(found: int, *, limit: int) -> RefusedError:
    return RefusedError(413, f"a body of {found} bytes or more; expected less than {limit}")


def decompressed(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Yield what a Content-Encoding stands for, in pieces of at most PIECE_BYTES.

    Raises RefusedError for one that is not known, and for what is not whole.
    """
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return iter(blocks)
    if name in {"gzip", "x-gzip"}:
        return _inflated(blocks, _GZIP)
    if name == "deflate":
        head, blocks = peek(blocks, 2)
        return _inflated(blocks, _ZLIB if _is_zlib(head) else _RAW)
    raise RefusedError(415, f"Content-Encoding: {encoding!r}; expected gzip, deflate or none")


def peek(blocks: Iterable[bytes], count: int) -> tuple[bytes, Iterator[bytes]]:
    """Return the first bytes, `count` or more unless there are fewer, and all the blocks."""
    head = b""
    rest = iter(blocks)
    while len(head) < count and (block := next(rest, None)) is not None:
        head += block
    return head, itertools.chain([head] if head else [], rest)


class PercentDecoder:
    """Decodes a text of application/x-www-form-urlencoded in which `+` is a space."""

    def __init__(self) -> None:
        self._torn = b""

    def decode(self, block: bytes, *, is_last: bool) -> bytes:
        """Return what can be told so far; all of it if the block is the last one."""
        block = self._torn + block
        cut = -1 if is_last else block.rfind(b"%", max(len(block) - 2, 0))
        if cut < 0:
            self._torn = b""
            return unquote(block)
        self._torn = block[cut:]
        return unquote(block[:cut])


def unquote(block: bytes) -> bytes:
    """Return what a whole percent-encoded text stands for; what is no escape stays as it is.

    Quoted-printable is the same code with other signs, and the standard library decodes it in C:
    three times as fast for base64, twenty times for XML. It differs where an escape is none,
    and the lengths then tell, or where a line ends behind its sign.
    """
    if b"=" in block:
        block = block.replace(b"=", b"%3D")
    decoded = binascii.a2b_qp(block.translate(_QUOTED))
    is_so = len(decoded) == len(block) - 2 * block.count(b"%")
    if is_so and b"%\n" not in block and b"%\r" not in block:
        return decoded
    # The function of the standard library for this takes 200 bytes for each that is no escape.
    return _ESCAPE.sub(_unescape, block.replace(b"+", b" "))


def _unescape(escape: re.Match[bytes]) -> bytes:
    return binascii.unhexlify(escape[1])


def _is_zlib(head: bytes) -> bool:
    """Deflate should be zlib (RFC 9110, 8.4.1.2), and there are clients that send it bare."""
    return len(head) > 1 and head[0] & 15 == 8 and int.from_bytes(head[:2], "big") % 31 == 0


def _inflated(blocks: Iterable[bytes], window: int) -> Iterator[bytes]:
    """Yield what streams hold; gzip may have several, one behind the other."""
    inflater = zlib.decompressobj(window)
    try:
        for some in _slices(blocks):
            rest = some
            while rest:
                if inflater.eof:
                    inflater = zlib.decompressobj(_follow(window))
                if piece := inflater.decompress(rest, PIECE_BYTES):
                    yield piece
                rest = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
        if piece := inflater.flush():  # a few KiB at most: what a full piece left no room for
            yield piece
    except zlib.error as exc:
        raise RefusedError(400, f"a compressed body: {exc}; expected one that is whole") from exc
    if not inflater.eof:
        raise RefusedError(400, "a compressed body that ends too early; expected it whole")


def _slices(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the blocks in slices: what is behind the end of a stream is copied with each stream."""
    for block in blocks:
        for begin in range(0, len(block), _SLICE_BYTES):
            yield block[begin : begin + _SLICE_BYTES]


def _follow(window: int) -> int:
    if window != _GZIP:
        raise RefusedError(400, "a compressed body with more behind it; expected its end")
    return window
