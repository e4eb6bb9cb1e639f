"""Which runs of elements are read at once, and which are not tried."""

import re
from collections.abc import Iterator

from feedferry.schemas.span import ElementContext
from feedferry.transforms.formats.xml.scanning.buffer import BLOCK_BYTES, Buffer
from feedferry.transforms.formats.xml.scanning.raw_elements import Bulk, Run

RUN_BYTES = 128 << 10
"""Most bytes that are passed to `bulk` at once."""

_SMALL_BYTES = 4 << 10
"""Runs of larger records have up to two blocks: all of the buffer, without a copy."""

_LEAST_RUN_BYTES = 16 << 10
_MAX_REFUSALS = 8
"""How often the range in which no run is tried doubles after runs that are refused."""


class BulkRuns:
    """Passes runs of elements to `bulk`; a run that it refuses is not tried again.

    The buffer is filled before each run. After runs of which a part was taken, shorter ones are
    tried; a short one of which a part was taken counts as refused. No run is tried before the
    position `next`.
    """

    def __init__(
        self, buffer: Buffer, bulk: Bulk, next_record: re.Pattern[bytes], *, run_bytes: int
    ) -> None:
        self._buffer, self._bulk, self._next_record = buffer, bulk, next_record
        self._run_bytes = self._tried_bytes = run_bytes
        self._refusals = 0
        self.next = 0

    def take(self, stop: int, context: ElementContext) -> Iterator[Run]:
        """Yield the runs that are taken, each consumed; no run crosses the offset `stop`."""
        buffer = self._buffer
        while not buffer.transcoded and buffer.position >= self.next:
            size = min(self._tried_bytes, stop - buffer.offset)
            if size <= 0:
                return
            if buffer.end - buffer.position < size:
                buffer.read_on()
            if not buffer.match(self._next_record, buffer.position):
                return
            run = buffer.text(buffer.position, buffer.position + size)
            taken = self._bulk(run, buffer.offset, buffer.line, context)
            if taken is None:
                if buffer.end - buffer.position < RUN_BYTES and buffer.read_on():
                    continue
                self._refuse(len(run))
                return
            is_large = 0 < taken.number * _SMALL_BYTES < taken.length  # a cut counts no records
            self._tried_bytes = 2 * BLOCK_BYTES if is_large else self._run_bytes
            is_part = taken.length < len(run) // 2
            if is_part:
                self._tried_bytes = max(_LEAST_RUN_BYTES, 2 * taken.length)
            else:
                self._refusals = 0
            buffer.consume(buffer.position + taken.length)
            yield taken
            if is_part and len(run) == _LEAST_RUN_BYTES:
                self._refuse(len(run))
                return

    def _refuse(self, length: int) -> None:
        """Try no run in a range: one element, then half of the length, then twice as much."""
        passed = length >> 1 << self._refusals - 1 if self._refusals else 0
        self.next = self._buffer.position + passed + 1
        self._refusals = min(self._refusals + 1, _MAX_REFUSALS)
        self._tried_bytes = self._run_bytes
