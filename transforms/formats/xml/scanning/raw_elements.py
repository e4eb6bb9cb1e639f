"""Elements as they came, and runs of them that are read at once."""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from feedferry.schemas.record import Record
from feedferry.schemas.span import ElementContext
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.formats.xml.scanning.buffer import BLOCK_BYTES, Buffer

RUN_BYTES = 128 << 10
"""Most bytes that are passed to `bulk` at once."""

_SMALL_BYTES = 4 << 10
"""Runs of larger records have up to two blocks: all of the buffer, without a copy."""

_LEAST_RUN_BYTES = 16 << 10
_MAX_REFUSALS = 8
"""How often the range in which no run is tried doubles after runs that are refused."""


class RawElement(NamedTuple):
    """One element of the document: its bytes and its place in the stream."""

    name: str
    text: bytes
    offset: int
    line: int
    context: ElementContext


Records = list[Record | RecordBatch | ElementBlock | RawElement]


class Run(NamedTuple):
    """Adjacent elements that were understood: their number, and their length together.

    Those that need the parser are as they came.
    """

    records: Records
    number: int
    length: int


Bulk = Callable[[bytes, int, int, ElementContext], Run | None]
"""Makes records of the elements at the begin of a range, given its offset, line and context.

Returns None if the first is not understood. What it takes must be what the scanner would yield:
whole elements, with nothing between them but blanks.
"""


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
