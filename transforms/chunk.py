"""Encoded records in runs that one chunk can carry, by exact bytes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from schemas.defect import record_error
from schemas.errors import RecordError
from schemas.feed import Feed, TargetFeed
from schemas.membership import RecordOrMembership
from schemas.reject import Reject, reject_record
from transforms.formats.base import Encoder

FRAME_BYTES = 256 << 10
"""About how many bytes of records are framed and written at once."""


class Frame(NamedTuple):
    """A part of chunk `number`; all parts of a chunk, end to end, are its bytes.

    `target_feed` is the feed that its records belong to, `feed` what the chunk states at its head.
    """

    number: int
    target_feed: TargetFeed | None
    feed: Feed | None
    data: bytes
    records: list[Any]  # of RecordOrMembership, all of one kind


class Refused(NamedTuple):
    """A record that is in no chunk, and why."""

    record: Any  # RecordOrMembership
    reject: Reject


EncoderOf = Callable[[TargetFeed | None, int], tuple[Feed | None, Encoder]]
"""The encoder for the feed of a chunk with this number, and the feed as that chunk states it."""


def chunk(  # noqa: PLR0913 # its limits would make no struct of their own
    records: Iterable[RecordOrMembership],
    *,
    target_feed_of: Callable[[Any], TargetFeed | None],
    encoder_of: EncoderOf,
    max_bytes: int,
    reserved_bytes: int = 0,
    max_records: int | None = None,
) -> Iterator[Frame | Refused]:
    """Yield the frames of one chunk after the other, each chunk at most `max_bytes`, in order.

    A new chunk begins where the next record does not fit, or is of another feed, and behind
    `max_records`. A record that fits in no chunk, or that its format cannot hold, is refused.
    Holds one frame in memory. `reserved_bytes` of each chunk are left free, for a head that may
    grow.
    """
    run = None
    number = 0
    for record in records:
        target_feed = target_feed_of(record)
        if run is None or target_feed is not run.target_feed:
            if run is not None and target_feed != run.target_feed:
                yield from run.end()
                number += run.is_begun
                run = None
            run = run or _Run(target_feed, number, encoder_of, max_bytes - reserved_bytes)
        data = run.encode(record)
        if isinstance(data, Refused):
            yield data
            continue
        if (len(data) > run.room or run.count == max_records) and run.count:
            yield from run.end()
            number += 1
            run = _Run(target_feed, number, encoder_of, max_bytes - reserved_bytes)
            data = run.encode(record)
        if isinstance(data, Refused):
            yield data
        elif len(data) > run.room:
            yield _refuse(record, _too_large(len(data), max_bytes))
        elif run.add(record, data):
            yield run.flush()
    if run is not None:
        yield from run.end()


class _Run:
    """The chunk that is being filled; there is `room` for so many bytes more of records."""

    def __init__(
        self, target_feed: TargetFeed | None, number: int, encoder_of: EncoderOf, max_bytes: int
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

    def encode(self, record: RecordOrMembership) -> bytes | Refused:
        """Return the bytes of a record, or why the format cannot hold it."""
        try:
            return self._encoder.encode(record)
        except Exception as exc:
            return _refuse(record, record_error(exc))

    def add(self, record: RecordOrMembership, data: bytes) -> bool:
        """Take a record; return whether it is time to flush."""
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
        """Yield what is left; a chunk without records never came to be."""
        if self._pending:
            yield self.flush()
        if self.is_begun:
            yield Frame(self._number, self.target_feed, self._feed, self._encoder.epilog(), [])


def _refuse(record: RecordOrMembership, exc: RecordError) -> Refused:
    return Refused(record, reject_record(record, code=exc.code, reason=exc.reason, stage="write"))


def _too_large(length: int, max_bytes: int) -> RecordError:
    return RecordError(
        "record-too-large",
        f"a record of {length} bytes as written; expected one that fits in a chunk of "
        f"{max_bytes} bytes; raise --max-chunk-bytes",
    )
