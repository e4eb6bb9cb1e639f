"""Rows on disk, divided by their keys, so that those of one key are in memory together.

Memory hardly depends on their number: each part is written in blocks, and read whole. A part has
about 20,000 of 10 million rows.
"""

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

_PARTS = 512
_BLOCK_BYTES = 64 << 20
_LENGTH_BYTES = 4
_ROW_BYTES = 120
"""The memory of a row beyond its bytes."""

_Row = tuple[int, bytes, bytes]


class Spill:
    """Bytes by input and key; `folder` must exist, and is its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._blocks: list[list[_Row]] = [[] for _ in range(_PARTS)]
        self._bytes = 0

    def add(self, side: int, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Add keys with their bytes, of the input number `side`."""
        blocks, crc32 = self._blocks, zlib.crc32
        size = self._bytes
        for key, data in rows:
            blocks[crc32(key) % _PARTS].append((side, key, data))
            size += len(key) + len(data) + _ROW_BYTES
            if size > _BLOCK_BYTES:
                self._write()
                size = 0
        self._bytes = size

    def keys(
        self, sides: int, *, keep: bool = False
    ) -> Iterator[tuple[bytes, tuple[list[bytes], ...]]]:
        """Yield each key with its bytes of each input, in their order.

        Yielded items are removed, unless `keep` says that it is needed again.
        """
        self._write()
        decode = msgspec.msgpack.Decoder(list[_Row]).decode
        for part in range(_PARTS):
            path = self._path(part)
            if not path.exists():
                continue
            by_key: dict[bytes, tuple[list[bytes], ...]] = {}
            for block in _blocks(path.read_bytes()):
                for side, key, data in decode(block):
                    own = by_key.get(key)
                    if own is None:
                        own = by_key[key] = tuple([[] for _ in range(sides)])
                    own[side].append(data)
            if not keep:
                path.unlink()
            yield from by_key.items()

    def _write(self) -> None:
        encode = msgspec.msgpack.encode
        for part, block in enumerate(self._blocks):
            if block:
                data = encode(block)
                with self._path(part).open("ab") as stream:
                    stream.write(len(data).to_bytes(_LENGTH_BYTES, "big"))
                    stream.write(data)
                block.clear()
        self._bytes = 0

    def _path(self, part: int) -> Path:
        return self._folder / f"{part:03}.spill"


def _blocks(data: bytes) -> Iterator[memoryview]:
    view, at = memoryview(data), 0
    while at < len(view):
        begin = at + _LENGTH_BYTES
        at = begin + int.from_bytes(view[at:begin], "big")
        yield view[begin:at]
