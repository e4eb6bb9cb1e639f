"""Write records into chunk files of at most a number of bytes."""

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from operator import attrgetter

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import RecordError
from feedferry.schemas.feed import Feed, TargetFeed
from feedferry.schemas.membership import Membership, RecordOrMembership
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import Encoder
from feedferry.transforms.formats.fast_path.plans.batch_plan import EncodedBatch
from feedferry.transforms.storage.atomic import AtomicFile
from feedferry.transforms.storage.storage import Storage

FRAME_BYTES = 256 << 10
"""Records are framed and written in parts of about this size."""

EncoderOf = Callable[[TargetFeed | None, int], tuple[Feed | None, Encoder]]
"""Returns the feed that a chunk with this number states, and its encoder."""

_ACTION = attrgetter("action._value_")


class ChunkWriter:
    """Writes records to files `NAME-NNN.EXTENSION`; `finished` lists the complete chunks.

    Each chunk has at most `max_bytes`; `reserved_bytes` of them stay free, for a prolog that may
    grow. One frame is in memory, and one of each other format that target feeds name.
    """

    def __init__(  # noqa: PLR0913 # the limits are no concept of their own
        self,
        storage: Storage,
        span: Span,
        *,
        encoder_of: EncoderOf,
        max_bytes: int,
        reserved_bytes: int = 0,
        max_records: int | None = None,
    ) -> None:
        self._storage = storage
        self._span = span
        self._encoder_of = encoder_of
        self._max_bytes = max_bytes
        self._reserved_bytes = reserved_bytes
        self._max_records = max_records
        self._open: dict[str | None, _OpenChunk] = {}
        self.finished: list[Chunk] = []

    def write(self, record: RecordOrMembership, target_feed: TargetFeed | None) -> None:
        """Write a record of a feed, in a new chunk if the last one is full or of another feed.

        Raise RecordError if the record fits in no chunk, or what the encoder raises; the record is
        then in no chunk, and the next one can be written.
        """
        chunk = self._chunk_of(target_feed)
        data = chunk.encode(record)
        if chunk.count and (len(data) > chunk.room or chunk.count == self._max_records):
            chunk = self._begin(target_feed)
            data = chunk.encode(record)  # the encoder is another one
        if len(data) > chunk.room:
            raise RecordError(
                "record-too-large",
                f"a record of {len(data)} bytes as written; expected one that fits in a chunk of "
                f"{self._max_bytes} bytes; raise ⟦max_chunk_bytes⟧",
            )
        chunk.add(record, data)

    def encoder(self, target_feed: TargetFeed | None) -> Encoder:
        """Return the encoder of the chunk that the next record of a feed is tried in."""
        return self._chunk_of(target_feed).encoder

    def write_batch(self, batch: EncodedBatch, target_feed: TargetFeed | None) -> bool:
        """Write a batch of the encoder of a feed if all of it certainly fits in the chunk.

        The chunk is the same as if its records were written one by one.
        """
        chunk = self._chunk_of(target_feed)
        limit = self._max_records
        fits = chunk.holds(sum(map(len, batch.parts))) and (
            limit is None or chunk.count + batch.actions.total() <= limit
        )
        if fits:
            chunk.add_batch(batch)
        return fits

    def close(self, *, whole: bool) -> None:
        """Finish the last chunk of each format, or remove it."""
        for name in [*self._open]:
            self._close(name, whole=whole)

    def _close(self, name: str | None, *, whole: bool) -> None:
        chunk = self._open.pop(name, None)
        if chunk is not None and not whole:
            chunk.file.close(whole=False)
        elif chunk is not None and chunk.count:
            self.finished.append(chunk.finish(self._span))

    def _chunk_of(self, target_feed: TargetFeed | None) -> "_OpenChunk":
        chunk = self._open.get(target_feed.format if target_feed else None)
        if chunk is None or (
            target_feed is not chunk.target_feed and target_feed != chunk.target_feed
        ):
            chunk = self._begin(target_feed)
        return chunk

    def _begin(self, target_feed: TargetFeed | None) -> "_OpenChunk":
        """Begin a chunk; one without records is not written, and its number is used again."""
        format_name = target_feed.format if target_feed else None
        self._close(format_name, whole=True)
        number = len(self.finished)
        feed, encoder = self._encoder_of(target_feed, number)
        kind = f"-{format_name}" if format_name else ""
        name = f"{self._span.name}{kind}-{number:03d}.{encoder.extension}"
        room = self._max_bytes - self._reserved_bytes
        file = AtomicFile(self._storage, name)
        chunk = self._open[format_name] = _OpenChunk(file, target_feed, feed, encoder, room)
        return chunk


class _OpenChunk:
    """The chunk that is being filled; `room` is the number of bytes left for records."""

    def __init__(
        self,
        file: AtomicFile,
        target_feed: TargetFeed | None,
        feed: Feed | None,
        encoder: Encoder,
        max_bytes: int,
    ) -> None:
        self.target_feed = target_feed
        self.file = file
        self.encode = encoder.encode
        self._feed = feed
        self.encoder = encoder
        ends = len(encoder.prolog()) + len(encoder.epilog())
        self.room = self._framed_room = max_bytes - ends - encoder.frame_bytes
        self._pending: list[bytes] = []
        self._records: list[RecordOrMembership] = []
        self.count = 0
        self._actions: Counter[str] = Counter()
        self._first_url = self._last_url = ""
        self._members = 0

    def add(self, record: RecordOrMembership, data: bytes) -> None:
        if not self.count:
            self._first_url = record.url
        self._pending.append(data)
        self._records.append(record)
        self.count += 1
        self.room -= len(data)
        if self._framed_room - self.room >= FRAME_BYTES:
            self._flush()

    def holds(self, size: int) -> bool:
        """Whether records of `size` bytes fit, in any number of frames."""
        frames = size // FRAME_BYTES + 2
        return size + frames * self.encoder.frame_bytes <= self.room

    def add_batch(self, batch: EncodedBatch) -> None:
        self._count_pending()
        if not self.count:
            self._first_url = batch.first_url
        ends = [*accumulate(map(len, batch.parts))]
        begin = added = 0
        while begin < len(ends):
            pending = self._framed_room - self.room
            end = bisect_left(ends, added + FRAME_BYTES - pending, begin) + 1
            self._pending += batch.parts[begin:end]
            size = ends[min(end, len(ends)) - 1] - added
            self.room -= size
            added += size
            begin = end
            if self._framed_room - self.room >= FRAME_BYTES:
                self._flush()
        self.count += batch.actions.total()
        self._actions.update(batch.actions)
        self._last_url = batch.last_url

    def finish(self, span: Span) -> Chunk:
        """Write the rest, and describe the chunk."""
        if self._pending:
            self._flush()
        self.file.write(self.encoder.epilog())
        written = self.file.finish()
        requested = self.target_feed.feed if self.target_feed else None
        return Chunk(
            path=written.path,
            bytes=written.bytes,
            sha256=written.sha256,
            records=dict(sorted(self._actions.items())),
            first_url=self._first_url,
            last_url=self._last_url,
            source=span.source,
            span=span.ordinal,
            format=self.target_feed.format if self.target_feed else None,
            datasource=(self._feed.datasource or None) if self._feed else None,
            feedtype=self._feed.feedtype if self._feed else None,
            requested_feedtype=requested.feedtype if requested else None,
            origin=self.target_feed.origin if self.target_feed else None,
            members=self._members,
        )

    def _flush(self) -> None:
        data = self.encoder.frame(self._pending)
        self.room = self._framed_room = self._framed_room - len(data)
        if self.file.is_empty:
            self.file.write(self.encoder.prolog())
        self.file.write(data)
        self._pending = []
        self._count_pending()

    def _count_pending(self) -> None:
        if not self._records:
            return
        self._actions.update(map(_ACTION, self._records))
        self._last_url = self._records[-1].url
        if self.target_feed and self.target_feed.memberships:
            groups = (record for record in self._records if isinstance(record, Membership))
            self._members += sum(len(group.members) for group in groups)
        self._records = []


def write_chunk(storage: Storage, name: str, text: bytes) -> Chunk:
    """Write a chunk; return it without ordinal, records and datasource."""
    storage.put(name, text)
    return Chunk(
        path=name,
        bytes=len(text),
        sha256=hashlib.sha256(text).hexdigest(),
        records={},
        first_url="",
        last_url="",
        source="",
        span=0,
    )
