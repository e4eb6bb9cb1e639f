"""Encoded records in runs that one chunk can carry, by exact bytes."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from schemas.errors import RecordError
from schemas.feed import Feed
from schemas.record import Record
from schemas.reject import Reject, reject_record
from transforms.formats._options import Encoder

FRAME_BYTES = 256 << 10
"""About how many bytes of records are framed and written at once."""


class Frame(NamedTuple):
    """A part of chunk `number`; all parts of a chunk, end to end, are its bytes.

    `asked` is the feed that its records belong to, `feed` what the chunk states at its head.
    """

    number: int
    asked: Feed | None
    feed: Feed | None
    data: bytes
    records: list[Record]


EncoderOf = Callable[[Feed | None, int], tuple[Feed | None, Encoder]]
"""The encoder for the feed of a chunk with this number, and the feed as that chunk states it."""


def chunk(
    records: Iterable[Record],
    *,
    feed_of: Callable[[Record], Feed | None],
    encoder_of: EncoderOf,
    max_bytes: int,
) -> Iterator[Frame | Reject]:
    """Yield the frames of one chunk after the other, each chunk at most `max_bytes`, in order.

    A new chunk begins where the next record does not fit, or is of another feed. A record that
    fits in no chunk, or that its format cannot hold, is a Reject. Holds one frame in memory.
    """
    cutter = _Cutter(encoder_of, max_bytes)
    for record in records:
        yield from cutter.add(record, feed_of(record))
    yield from cutter.close()


class _Cutter:
    def __init__(self, encoder_of: EncoderOf, max_bytes: int) -> None:
        self._encoder_of = encoder_of
        self._max_bytes = max_bytes
        self._number = -1
        self._encoder: Encoder | None = None

    def add(self, record: Record, feed: Feed | None) -> Iterator[Frame | Reject]:
        if self._encoder is None or feed != self._asked:
            yield from self.close()
            self._open(feed)
        try:
            data = self._encoder.encode(record)  # type: ignore[union-attr]  # `_open` made it
        except RecordError as exc:
            yield reject_record(record, code=exc.code, reason=exc.reason, stage="write")
            return
        if not self._fits(len(data)) and self._holds_records:
            yield from self.close()
            self._open(feed)
        if not self._fits(len(data)):
            yield self._too_large(record, len(data))
            return
        self._pending.append(data)
        self._records.append(record)
        self._size += len(data)
        self._pending_bytes += len(data)
        if self._pending_bytes >= FRAME_BYTES:
            yield self._flush()

    def close(self) -> Iterator[Frame]:
        """End the chunk; one without records never came to be."""
        if self._encoder is None or not self._holds_records:
            self._encoder = None
            return
        if self._pending:
            yield self._flush()
        yield Frame(self._number, self._asked, self._feed, self._encoder.epilog(), [])
        self._encoder = None

    @property
    def _holds_records(self) -> bool:
        return self._started or bool(self._pending)

    def _open(self, feed: Feed | None) -> None:
        self._asked = feed
        self._feed, self._encoder = self._encoder_of(feed, self._number + 1)
        self._pending: list[bytes] = []
        self._records: list[Record] = []
        self._pending_bytes = 0
        self._started = False
        self._size = len(self._encoder.prolog()) + len(self._encoder.epilog())

    def _fits(self, length: int) -> bool:
        assert self._encoder is not None  # noqa: S101
        return self._size + length + self._encoder.frame_bytes <= self._max_bytes

    def _flush(self) -> Frame:
        assert self._encoder is not None  # noqa: S101
        data = self._encoder.frame(self._pending)
        self._size += len(data) - self._pending_bytes
        if not self._started:
            self._number += 1
            data = self._encoder.prolog() + data
        frame = Frame(self._number, self._asked, self._feed, data, self._records)
        self._started = True
        self._pending, self._records, self._pending_bytes = [], [], 0
        return frame

    def _too_large(self, record: Record, length: int) -> Reject:
        reason = (
            f"a record of {length} bytes as written; expected one that fits in a chunk of "
            f"{self._max_bytes} bytes; raise --max-chunk-bytes"
        )
        return reject_record(record, code="record-too-large", reason=reason, stage="write")
