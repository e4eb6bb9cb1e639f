"""Structs on disk, divided by their keys, so that those of one key are in memory together.

Memory hardly depends on their number: each part is written in blocks, and read whole. A part has
about 20,000 of 10 million structs.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

_PARTS = 512
_BLOCK_BYTES = 64 << 20
_LENGTH_BYTES = 4


class Keyed(Protocol):
    """A struct with a key."""

    @property
    def key(self) -> bytes: ...


Item = TypeVar("Item", bound=Keyed)


class Spill(Generic[Item]):
    """Structs of one type, by input and key; `folder` must exist, and is its own."""

    def __init__(self, folder: Path, kind: type[Item]) -> None:
        self._folder = folder
        self._kind = kind
        self._encode = msgspec.msgpack.Encoder().encode
        self._blocks = [bytearray() for _ in range(_PARTS)]
        self._bytes = 0

    def add(self, side: int, item: Item) -> None:
        """Add a struct of the input number `side`, from 0 to 255."""
        data = self._encode(item)
        block = self._blocks[zlib.crc32(item.key) % _PARTS]
        block += len(data).to_bytes(_LENGTH_BYTES, "big")
        block.append(side)
        block += data
        self._bytes += len(data)
        if self._bytes > _BLOCK_BYTES:
            self._write()

    def keys(self, sides: int) -> Iterator[tuple[bytes, tuple[list[Item], ...]]]:
        """Yield each key with its structs of each input, in their order; call it once."""
        self._write()
        decode = msgspec.msgpack.Decoder(self._kind).decode
        for part in range(_PARTS):
            path = self._path(part)
            if not path.exists():
                continue
            by_key: dict[bytes, tuple[list[Item], ...]] = {}
            for side, data in _parts(path.read_bytes()):
                item = decode(data)
                items = by_key.get(item.key)
                if items is None:
                    items = by_key[item.key] = tuple([] for _ in range(sides))
                items[side].append(item)
            path.unlink()
            yield from by_key.items()

    def _write(self) -> None:
        for part, block in enumerate(self._blocks):
            if block:
                with self._path(part).open("ab") as stream:
                    stream.write(block)
                block.clear()
        self._bytes = 0

    def _path(self, part: int) -> Path:
        return self._folder / f"{part:03}.spill"


def _parts(data: bytes) -> Iterator[tuple[int, memoryview]]:
    view, at = memoryview(data), 0
    while at < len(view):
        size = int.from_bytes(view[at : at + _LENGTH_BYTES], "big")
        begin = at + _LENGTH_BYTES + 1
        yield view[begin - 1], view[begin : begin + size]
        at = begin + size
