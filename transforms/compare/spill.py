"""Events on disk, divided by their keys, so that those of one key are in memory together.

Memory hardly depends on the number of events: each part is written in blocks, and read whole. A
part of a history of 10 million records takes about 20,000 of them.

A sort of all events by SQLite was measured as well: it took three times as long.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from transforms.compare.history import Event

_PARTS = 512
_BLOCK_BYTES = 64 << 20
_LENGTH_BYTES = 4


class Spill:
    """The events of some inputs, by input and key; `folder` must exist, and is its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._encode = msgspec.msgpack.Encoder().encode
        self._blocks = [bytearray() for _ in range(_PARTS)]
        self._bytes = 0

    def add(self, side: int, event: Event) -> None:
        """Add an event of the input number `side`, from 0 to 255."""
        data = self._encode(event)
        block = self._blocks[zlib.crc32(event.key) % _PARTS]
        block += len(data).to_bytes(_LENGTH_BYTES, "big")
        block.append(side)
        block += data
        self._bytes += len(data)
        if self._bytes > _BLOCK_BYTES:
            self._write()

    def keys(self, sides: int) -> Iterator[tuple[bytes, tuple[list[Event], ...]]]:
        """Yield each key with its events of each input, in their order; call it once."""
        self._write()
        decode = msgspec.msgpack.Decoder(Event).decode
        for part in range(_PARTS):
            path = self._path(part)
            if not path.exists():
                continue
            by_key: dict[bytes, tuple[list[Event], ...]] = {}
            for side, data in _events(path.read_bytes()):
                event = decode(data)
                events = by_key.get(event.key)
                if events is None:
                    events = by_key[event.key] = tuple([] for _ in range(sides))
                events[side].append(event)
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
        return self._folder / f"{part:03}.events"


def _events(data: bytes) -> Iterator[tuple[int, memoryview]]:
    view, at = memoryview(data), 0
    while at < len(view):
        size = int.from_bytes(view[at : at + _LENGTH_BYTES], "big")
        begin = at + _LENGTH_BYTES + 1
        yield view[begin - 1], view[begin : begin + size]
        at = begin + size
