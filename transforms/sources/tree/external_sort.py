"""External merge sort: any number of items in order, in constant memory."""

import heapq
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import IO, Any, Generic, NamedTuple, TypeVar

from schemas.errors import FatalError

_BLOCK_BYTES = 1 << 14

Item = TypeVar("Item")


class SortCodec(NamedTuple, Generic[Item]):
    """How items are compared, and written to a file; encoded items contain no NUL byte."""

    key: Callable[[Item], Any]  # Any: a key is only compared with other keys
    encode: Callable[[Item], bytes]
    decode: Callable[[bytes], Item]


class ExternalSort(Iterator[Item]):
    """Iterate over items in the order of their keys.

    All items are read when the object is made, so an error of their iterator is raised there. Up to
    `run_length` items are sorted in memory; more are written to a temporary file in sorted runs.
    """

    def __init__(
        self, items: Iterable[Item], codec: SortCodec[Item], *, run_length: int = 100_000
    ) -> None:
        self._codec = codec
        self._stream: IO[bytes] | None = None
        try:
            self._merged = self._sort(iter(items), run_length)
        except BaseException:
            self.close()
            raise

    def __next__(self) -> Item:
        return next(self._merged)

    def close(self) -> None:
        """Delete the temporary file, if there is one."""
        if self._stream is not None:
            self._stream.close()

    def _sort(self, items: Iterator[Item], run_length: int) -> Iterator[Item]:
        run = sorted(islice(items, run_length), key=self._codec.key)
        if len(run) < run_length:
            return iter(run)
        places = []
        while run:
            places.append(self._write_run(run))
            run = sorted(islice(items, run_length), key=self._codec.key)
        return heapq.merge(*(self._read_run(*place) for place in places), key=self._codec.key)

    def _write_run(self, run: list[Item]) -> tuple[int, int]:
        try:
            if self._stream is None:
                self._stream = tempfile.TemporaryFile()  # noqa: SIM115 # closed by close
            begin = self._stream.tell()
            self._stream.writelines(self._codec.encode(item) + b"\0" for item in run)
            return begin, self._stream.tell()
        except OSError as exc:
            reason = f"{tempfile.gettempdir()}: {exc.strerror}; expected to write there"
            raise FatalError(reason) from exc

    def _read_run(self, begin: int, end: int) -> Iterator[Item]:
        """Yield a run block by block; other runs are read from the same file in between."""
        partial = b""
        while self._stream is not None and begin < end:
            self._stream.seek(begin)
            block = self._stream.read(min(_BLOCK_BYTES, end - begin))
            begin += len(block)
            *encoded, partial = (partial + block).split(b"\0")
            yield from map(self._codec.decode, encoded)
