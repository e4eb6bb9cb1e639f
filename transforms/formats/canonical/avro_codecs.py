"""The codecs of Avro container files, with a bound on what a block may unpack to.

**Spec:** Apache Avro 1.12, "Object Container Files", "Required Codecs" and "Optional Codecs".

fastavro unpacks without a bound, so that a few kilobytes could fill the memory: only codecs that
state the unpacked size ahead are left to it.
"""

import bz2
import io
import lzma
import zlib
from typing import Protocol

import fastavro
import zstandard
from fastavro.read import BLOCK_READERS

from schemas.avro import UNREADABLE
from schemas.errors import RecordError

_XZ_MEMORY_BYTES = 128 << 20
_PIECE_BYTES = 1 << 20
_UNREADABLE = (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, *UNREADABLE)


class _Stream(Protocol):
    @property
    def eof(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def check_codec(codec: str) -> None:
    """Raise LookupError with the reason unless blocks of this codec can be unpacked here."""
    if codec in _UNPACK:
        return
    if codec not in _STATED_SIZE:
        known = ", ".join(sorted([*_UNPACK, *_STATED_SIZE]))
        raise LookupError(f"codec {codec!r}; expected one of {known}")
    try:
        BLOCK_READERS[codec](io.BytesIO())
    except EOFError:
        return
    except ValueError as exc:  # fastavro puts a function in place of a codec without its library
        raise LookupError(f"codec {codec!r}; {exc}") from exc


def unpack(codec: str, block: bytes, *, max_bytes: int) -> bytes:
    """Return the datums of a block; raise RecordError if it is torn or holds over `max_bytes`."""
    try:
        if codec in _UNPACK:
            datums = _UNPACK[codec](block, max_bytes)
        else:
            datums = _unpack_stated(codec, block, max_bytes)
    except _UNREADABLE as exc:
        reason = f"{len(block)} bytes that are none ({exc}); expected a {codec} block"
        raise RecordError("bad-block", reason) from exc
    if len(datums) > max_bytes:
        raise _too_large(codec, max_bytes)
    return datums


def _too_large(codec: str, max_bytes: int) -> RecordError:
    found = f"a {codec} block that unpacks to more"
    return RecordError("block-too-large", f"{found}; expected at most {max_bytes} bytes")


def _unpack_null(block: bytes, _max_bytes: int) -> bytes:
    return block


def _unpack_deflate(block: bytes, max_bytes: int) -> bytes:
    return _unpack_stream(zlib.decompressobj(-zlib.MAX_WBITS), block, max_bytes)


def _unpack_bzip2(block: bytes, max_bytes: int) -> bytes:
    return _unpack_stream(bz2.BZ2Decompressor(), block, max_bytes)


def _unpack_xz(block: bytes, max_bytes: int) -> bytes:
    return _unpack_stream(lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES), block, max_bytes)


def _unpack_stream(stream: _Stream, block: bytes, max_bytes: int) -> bytes:
    datums = stream.decompress(block, max_bytes + 1)
    if not stream.eof and len(datums) <= max_bytes:
        raise EOFError("its end is missing")
    return datums


def _unpack_zstandard(block: bytes, max_bytes: int) -> bytes:
    pieces: list[bytes] = []
    left = max_bytes + 1
    with zstandard.ZstdDecompressor().stream_reader(block, read_across_frames=True) as stream:
        while left and (piece := stream.read(min(left, _PIECE_BYTES))):
            pieces.append(piece)
            left -= len(piece)
    return b"".join(pieces)


def _unpack_stated(codec: str, block: bytes, max_bytes: int) -> bytes:
    if _STATED_SIZE[codec](block) > max_bytes:
        raise _too_large(codec, max_bytes)
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "bytes", block)
    stream.seek(0)
    try:
        datums: bytes = BLOCK_READERS[codec](stream).read()
    except Exception as exc:  # a class of a library that need not be installed
        raise ValueError(str(exc)) from exc
    return datums


def _snappy_size(block: bytes) -> int:
    size = 0
    for place, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    return size


def _lz4_size(block: bytes) -> int:
    return int.from_bytes(block[:4], "little")


_UNPACK = {
    "null": _unpack_null,
    "deflate": _unpack_deflate,
    "bzip2": _unpack_bzip2,
    "xz": _unpack_xz,
    "zstandard": _unpack_zstandard,
}
_STATED_SIZE = {"snappy": _snappy_size, "lz4": _lz4_size}
