"""Request bodies without their Content-Encoding or percent-encoding, block by block."""

import binascii
import itertools
import re
import zlib
from collections.abc import Iterable, Iterator

from pipelines.serve.http.exchange import RefusedError

PIECE_BYTES = 256 << 10
_SLICE_BYTES = 32 << 10
_GZIP = 31  # a window of any size, with the header and check sum of gzip
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_QUOTED_PRINTABLE = bytes.maketrans(b"%+", b"= ")


def limit_size(blocks: Iterable[bytes], *, limit: int) -> Iterator[bytes]:
    """Yield the blocks; raise RefusedError when their sizes add up to `limit` or more."""
    total = 0
    for block in blocks:
        total += len(block)
        if total >= limit:
            raise too_large(total, limit=limit)
        yield block


def too_large(size: int, *, limit: int) -> RefusedError:
    return RefusedError(413, f"a body of {size} bytes or more; expected less than {limit}")


def decompress(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the decoded body in pieces of at most PIECE_BYTES.

    Raises RefusedError for an unknown Content-Encoding, and for an incomplete body.
    """
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return iter(blocks)
    if name in {"gzip", "x-gzip"}:
        return _gunzip(blocks)
    raise RefusedError(415, f"Content-Encoding: {encoding!r}; expected gzip or none")


def peek(blocks: Iterable[bytes], count: int) -> tuple[bytes, Iterator[bytes]]:
    """Return the first bytes, `count` or more if possible, and all the blocks."""
    head = b""
    following = iter(blocks)
    while len(head) < count and (block := next(following, None)) is not None:
        head += block
    return head, itertools.chain([head] if head else [], following)


class PercentDecoder:
    """Decodes a text of application/x-www-form-urlencoded, in which `+` is a space."""

    def __init__(self) -> None:
        self._incomplete = b""

    def decode(self, block: bytes, *, is_last: bool) -> bytes:
        """Return the decoded text up to an escape that may continue in the next block."""
        block = self._incomplete + block
        cut = -1 if is_last else block.rfind(b"%", max(len(block) - 2, 0))
        if cut < 0:
            self._incomplete = b""
            return unquote(block)
        self._incomplete = block[cut:]
        return unquote(block[:cut])


def unquote(block: bytes) -> bytes:
    """Decode a percent-encoded text; a `%` that begins no escape is kept.

    Quoted-printable is the same code with other signs, and the standard library decodes it in C:
    three times as fast for base64, twenty times for XML. The result differs, and is not used, if a
    `%` begins no escape, which its length shows, or is followed by a line end.
    """
    if b"=" in block:
        block = block.replace(b"=", b"%3D")
    decoded = binascii.a2b_qp(block.translate(_QUOTED_PRINTABLE))
    is_exact = len(decoded) == len(block) - 2 * block.count(b"%")
    if is_exact and b"%\n" not in block and b"%\r" not in block:
        return decoded
    # `unquote_to_bytes` of the standard library takes 200 bytes for each escape.
    return _ESCAPE.sub(lambda escape: binascii.unhexlify(escape[1]), block.replace(b"+", b" "))


def _gunzip(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of gzip streams, of which there may be several in sequence."""
    inflater = zlib.decompressobj(_GZIP)
    try:
        for part in _slices(blocks):
            data = part
            while data:
                if inflater.eof:
                    inflater = zlib.decompressobj(_GZIP)
                if piece := inflater.decompress(data, PIECE_BYTES):
                    yield piece
                data = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
        if piece := inflater.flush():  # at most a few KiB, for which a full piece had no room
            yield piece
    except zlib.error as exc:
        raise RefusedError(400, f"a compressed body: {exc}; expected a complete one") from exc
    if not inflater.eof:
        raise RefusedError(400, "an incomplete compressed body; expected all of it")


def _slices(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the blocks in slices: bytes after a stream are copied for each stream."""
    for block in blocks:
        for begin in range(0, len(block), _SLICE_BYTES):
            yield block[begin : begin + _SLICE_BYTES]
