"""Mutations of documents, by a seed: the same seed gives the same cases on every machine."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

MAX_BYTES = 24 << 10
_MOST_STEPS = 6
_BYTES = b"\0\x01\x07\x0b\x0c\x1f \t\r\n\"'&<>/=[]!-?\x7f\x80\x85\xa0\xc0\xc3\xed\xef\xff"
_LENGTHS = (1, 1, 2, 3, 7, 16, 64, 200, 600)


class Mutator:
    """Makes a new document of one of the seeds, by up to six steps."""

    def __init__(self, seeds: Sequence[bytes], words: Sequence[bytes], *, random: Random) -> None:
        self._seeds = seeds
        self._words = words
        self._random = random
        self._steps: tuple[Callable[[bytes], bytes], ...] = (
            *(self._insert_word, self._insert_word, self._insert_word, self._replace_by_word),
            *(self._remove, self._remove, self._duplicate, self._move, self._flip, self._put_byte),
            *(self._splice, self._truncate, self._repeat, self._swap_case, self._transcode),
        )

    def cases(self) -> Iterator[bytes]:
        """Yield the seeds, and then mutated documents without end."""
        yield from self._seeds
        while True:
            yield self._case()

    def _case(self) -> bytes:
        random = self._random
        data = random.choice(self._seeds)
        for _ in range(random.randint(1, _MOST_STEPS)):
            data = random.choice(self._steps)(data)[:MAX_BYTES]
        return data

    def _at(self, data: bytes) -> int:
        return self._random.randint(0, len(data))

    def _stretch(self, data: bytes) -> tuple[int, int]:
        begin = self._at(data)
        if self._random.random() < 0.5:  # up to where something ends
            for mark in self._random.sample((b">", b"\n", b"\0", b'"', b","), 5):
                end = data.find(mark, begin)
                if end >= 0:
                    return begin, end + 1
        return begin, min(len(data), begin + self._random.choice(_LENGTHS))

    def _insert_word(self, data: bytes) -> bytes:
        at = self._at(data)
        return data[:at] + self._random.choice(self._words) + data[at:]

    def _replace_by_word(self, data: bytes) -> bytes:
        begin, end = self._stretch(data)
        return data[:begin] + self._random.choice(self._words) + data[end:]

    def _remove(self, data: bytes) -> bytes:
        begin, end = self._stretch(data)
        return data[:begin] + data[end:]

    def _duplicate(self, data: bytes) -> bytes:
        begin, end = self._stretch(data)
        return data[:end] + data[begin:]

    def _move(self, data: bytes) -> bytes:
        begin, end = self._stretch(data)
        remaining = data[:begin] + data[end:]
        at = self._at(remaining)
        return remaining[:at] + data[begin:end] + remaining[at:]

    def _flip(self, data: bytes) -> bytes:
        if not data:
            return data
        at = self._random.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << self._random.randrange(8)]) + data[at + 1 :]

    def _put_byte(self, data: bytes) -> bytes:
        at = self._at(data)
        byte = self._random.choice(_BYTES)
        over = self._random.random() < 0.5
        return data[:at] + bytes([byte]) + data[at + over :]

    def _splice(self, data: bytes) -> bytes:
        other = self._random.choice(self._seeds)
        return data[: self._at(data)] + other[self._at(other) :]

    def _truncate(self, data: bytes) -> bytes:
        return data[: self._at(data)]

    def _repeat(self, data: bytes) -> bytes:
        begin, end = self._stretch(data)
        return data[:begin] + data[begin:end] * self._random.choice((2, 3, 20, 200)) + data[end:]

    def _swap_case(self, data: bytes) -> bytes:
        begin, end = self._stretch(data)
        return data[:begin] + data[begin:end].swapcase() + data[end:]

    def _transcode(self, data: bytes) -> bytes:
        if self._random.random() < 0.7:  # rarely: whatever follows is mostly not understood
            return data
        codec = self._random.choice(("utf-16", "utf-16-be", "utf-32", "utf-8-sig", "latin-1"))
        return data.decode("utf-8", "replace").encode(codec, "replace")
