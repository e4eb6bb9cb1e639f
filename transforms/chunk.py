"""Divide encoded records into chunks of at most a number of bytes."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from schemas.defect import record_error
from schemas.errors import RecordError
from schemas.feed import Feed, TargetFeed
from schemas.membership import RecordOrMembership
from schemas.reject import Reject, reject_record
from transforms.formats.base import Encoder

FRAME_BYTES = 256 << 10
"""Records are framed and written in parts of about this size."""


class Frame(NamedTuple):
    """A part of chunk `number`; the parts of a chunk, one after the other, are its bytes.

    `target_feed` is the feed that its records belong to, `feed` the feed that the chunk states.
    """

    number: int
    target_feed: TargetFeed | None
    feed: Feed | None
    data: bytes
    records: list[RecordOrMembership]


class UnwrittenRecord(NamedTuple):
    """A record that is in no chunk, and the reason."""

    record: RecordOrMembership
    reject: Reject


EncoderOf = Callable[[TargetFeed | None, int], tuple[Feed | None, Encoder]]
"""Returns the feed that a chunk with this number states, and its encoder."""


def chunk(  # noqa: PLR0913 # the limits are no concept of their own
    records: Iterable[RecordOrMembership],
    *,
    target_feed_of: Callable[[RecordOrMembership], TargetFeed | None],
    encoder_of: EncoderOf,
    max_bytes: int,
    reserved_bytes: int = 0,
    max_records: int | None = None,
) -> Iterator[Frame | UnwrittenRecord]:
    """Yield the frames of the chunks in order, each chunk at most `max_bytes`.

    A chunk ends after `max_records`, and before a record that does not fit or is of another feed. A
    record that fits in no chunk, or that the format cannot hold, is yielded with its reject.
    `reserved_bytes` of each chunk stay free, for a prolog that may grow. One frame is in memory.
    """
    current = None
    number = 0
    for record in records:
        target_feed = target_feed_of(record)
        if current is None or target_feed is not current.target_feed:
            if current is not None and target_feed != current.target_feed:
                yield from current.end()
                number += current.is_begun
                current = None
            current = current or _OpenChunk(
                target_feed, number, encoder_of, max_bytes - reserved_bytes
            )
        data = current.encode(record)
        if isinstance(data, UnwrittenRecord):
            yield data
            continue
        if (len(data) > current.room or current.count == max_records) and current.count:
            yield from current.end()
            number += 1
            current = _OpenChunk(target_feed, number, encoder_of, max_bytes - reserved_bytes)
            data = current.encode(record)  # the encoder is another one
        if isinstance(data, UnwrittenRecord):
            yield data
        elif len(data) > current.room:
            yield _unwritten(record, _too_large(len(data), max_bytes))
        elif current.add(record, data):
            yield current.flush()
    if current is not None:
        yield from current.end()


class _OpenChunk:
    """The chunk that is being filled; `room` is the number of bytes left for records."""

    def __init__(
        self,
        target_feed: TargetFeed | None,
        number: int,
        encoder_of: EncoderOf,
        max_bytes: int,
    ) -> None:
        self.target_feed = target_feed
        self._number = number
        self._feed, self._encoder = encoder_of(target_feed, number)
        ends = len(self._encoder.prolog()) + len(self._encoder.epilog())
        self.room = self._framed_room = max_bytes - ends - self._encoder.frame_bytes
        self._pending: list[bytes] = []
        self._records: list[RecordOrMembership] = []
        self.count = 0
        self.is_begun = False

    def encode(self, record: RecordOrMembership) -> bytes | UnwrittenRecord:
        try:
            return self._encoder.encode(record)
        except Exception as exc:
            return _unwritten(record, record_error(exc))

    def add(self, record: RecordOrMembership, data: bytes) -> bool:
        """Add a record; return whether it is time to flush."""
        self._pending.append(data)
        self._records.append(record)
        self.count += 1
        self.room -= len(data)
        return self._framed_room - self.room >= FRAME_BYTES

    def flush(self) -> Frame:
        data = self._encoder.frame(self._pending)
        self.room = self._framed_room = self._framed_room - len(data)
        if not self.is_begun:
            data = self._encoder.prolog() + data
        frame = Frame(self._number, self.target_feed, self._feed, data, self._records)
        self.is_begun = True
        self._pending, self._records = [], []
        return frame

    def end(self) -> Iterator[Frame]:
        """Yield the last frames; a chunk without records is not written."""
        if self._pending:
            yield self.flush()
        if self.is_begun:
            yield Frame(self._number, self.target_feed, self._feed, self._encoder.epilog(), [])


def _unwritten(record: RecordOrMembership, exc: RecordError) -> UnwrittenRecord:
    reject = reject_record(record, code=exc.code, reason=exc.reason, stage="write")
    return UnwrittenRecord(record, reject)


def _too_large(length: int, max_bytes: int) -> RecordError:
    return RecordError(
        "record-too-large",
        f"a record of {length} bytes as written; expected one that fits in a chunk of "
        f"{max_bytes} bytes; raise --max-chunk-bytes",
    )
