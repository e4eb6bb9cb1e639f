"""One span on its way: read, normalize, adapt, write in chunks — the data plane.

Everything between the source and the chunk file is a chain of generators, so that one record is in
memory at a time; what comes out is an account, a few hundred bytes.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

import msgspec

from schemas import avro
from schemas.account import Account, add_loss
from schemas.errors import FatalError, FeedferryError, LossRefusedError, TooManyRejectsError
from schemas.feed import FULL, INCREMENTAL, Feed
from schemas.loss import Loss
from schemas.record import Action, Arrival, Record
from schemas.reject import Filtered, Reject
from schemas.span import Span
from transforms.adapt import Adapter, Target, adapter
from transforms.chunk import Frame, chunk
from transforms.formats import READERS, WRITERS, Encoder, ReadOptions, WriteOptions
from transforms.normalize import normalize
from transforms.sinks.files import ChunkFiles, RejectFile, whole_file
from transforms.sources.files import Stretch, open_span

UNKNOWN = "UNKNOWN"
"""The action of what could not be understood."""

_HEADED = frozenset({"gsa-feed"})
_PROGRESS_SECONDS = 0.5
_PROGRESS_RECORDS = 256


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What every span of a run is told.

    `folder` takes the files of unfinished runs. A `datasource` or `feedtype` of the target replaces
    those of the source; `refused` are the fields whose loss ends the run.
    """

    folder: str
    target: Target
    reading: ReadOptions
    writing: WriteOptions
    max_chunk_bytes: int
    refused: frozenset[str] = frozenset()
    max_rejects: int | None = None
    beat: bool = False


def convert(span: Span, settings: Settings) -> Account:
    """Convert one span into chunk files; return its account, or the one that stands from before.

    Nothing is raised for what a user can mend: the account says that the span was stopped. Its
    files are whole or absent.
    """
    done = Path(settings.folder) / f"{span.name}.json"
    if done.exists():
        return msgspec.json.decode(done.read_bytes(), type=Account)
    passage = _Passage(span, settings)
    try:
        account = passage.run()
    except FeedferryError as exc:
        return passage.stop(str(exc), exc.exit_code)
    except OSError as exc:
        return passage.stop(str(exc), FatalError.exit_code)
    with whole_file(done) as stream:
        stream.write(msgspec.json.encode(account))
    return account


class _Passage:
    """The counters and files of one span while it is under way."""

    def __init__(self, span: Span, settings: Settings) -> None:
        self._span = span
        self._settings = settings
        self._folder = Path(settings.folder)
        self._adapters: dict[Feed | None, Adapter] = {}
        self._feeds: dict[tuple[str | None, str | None], Feed | None] = {}
        self._account = Account(spans=1)
        self._rejects = RejectFile(self._folder / f"{span.name}.rejects.avro")
        self._uncrawled: list[str] = []
        self._files = ChunkFiles(self._folder, span, _encoder_of(settings, None).extension)
        self._counts = {name: Counter[str]() for name in _COUNTERS}
        self._beat = _Beat(self._folder / f"{span.name}.beat") if settings.beat else None

    def run(self) -> Account:
        whole = False
        try:
            with open_span(self._span) as stream:
                read = READERS[self._span.format]
                found = read(
                    cast(IO[bytes], stream), span=self._span, options=self._settings.reading
                )
                adapted = self._adapt(self._count(found, stream))
                self._files.write(self._chunk(adapted))
                self._account.bytes_read = stream.bytes_read
            whole = True
        finally:
            self._rejects.close(whole=whole)
        self._list_uncrawled()
        return self._close()

    def stop(self, reason: str, exit_code: int) -> Account:
        """What was made is of no use without the rest of the span."""
        for finished in self._files.finished:
            (self._folder / finished.path).unlink(missing_ok=True)
        return Account(spans=1, stopped=reason, exit_code=exit_code)

    def _count(self, found: Iterable[Record | Reject], stream: Stretch) -> Iterator[Record]:
        read = self._counts["read"]
        total = 0
        for one in found:
            total += 1
            if self._beat and total % _PROGRESS_RECORDS == 0:
                self._beat.beat(stream.bytes_read, total, self._rejects.count)
            if isinstance(one, Record):
                read[one.action.value] += 1
                yield one
            else:
                read[one.action or UNKNOWN] += 1
                self._reject(one)
        if self._beat:
            self._beat.beat(stream.bytes_read, total, self._rejects.count, last=True)

    def _adapt(self, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            adapt = self._adapters.get(self._feed_of(record)) or self._adapter(record)
            outcomes, losses = adapt(normalize(record))
            for loss in losses:
                self._lose(loss)
            if len(outcomes) > 1:
                self._counts["expanded"][record.action.value] += len(outcomes) - 1
            for outcome in outcomes:
                if isinstance(outcome, Record):
                    yield outcome
                else:
                    self._set_aside(outcome, record)

    def _chunk(self, records: Iterable[Record]) -> Iterator[Frame]:
        frames = chunk(
            self._keep_original(records),
            feed_of=self._headed,
            encoder_of=self._encoder,
            max_bytes=self._settings.max_chunk_bytes,
        )
        for frame in frames:
            if isinstance(frame, Frame):
                yield frame
            else:
                self._reject(msgspec.structs.replace(frame, data=_datum(self._original)))

    def _keep_original(self, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            self._original = record
            yield record

    def _set_aside(self, outcome: Reject | Filtered, record: Record) -> None:
        if isinstance(outcome, Reject):
            if record.arrival is Arrival.CRAWLED and record.action is Action.ADD:
                self._uncrawled.append(record.url)
            self._reject(msgspec.structs.replace(outcome, data=_datum(record)))
        else:
            self._counts["filtered"][outcome.action] += 1
            self._counts["filter_codes"][outcome.code] += 1

    def _reject(self, reject: Reject) -> None:
        self._rejects.add(reject)
        self._counts["rejected"][reject.action or UNKNOWN] += 1
        self._counts["reject_codes"][reject.code] += 1
        limit = self._settings.max_rejects
        if limit is not None and self._rejects.count > limit:
            raise TooManyRejectsError(f"more than {limit} rejects, the last {reject.message}")

    def _lose(self, loss: Loss) -> None:
        if loss.field in self._settings.refused:
            raise LossRefusedError(
                f"{self._span.source}: {loss.url}: {loss.field}: {loss.detail}; "
                f"--accept-loss {loss.field} goes on without it"
            )
        add_loss(self._account.losses, loss)

    def _feed_of(self, record: Record) -> Feed | None:
        """The feed that a record is to be in; None where neither source nor user names one."""
        origin = (record.provenance.datasource, record.provenance.feedtype)
        if origin not in self._feeds:
            target = self._settings.target
            datasource = target.datasource or origin[0]
            feedtype = target.feedtype or origin[1] or INCREMENTAL
            self._feeds[origin] = (
                Feed(datasource=datasource, feedtype=feedtype) if datasource else None
            )
        return self._feeds[origin]

    def _headed(self, record: Record) -> Feed | None:
        """The feed at the head of the chunk, for a format that has one."""
        return self._feed_of(record) if self._settings.target.format in _HEADED else None

    def _adapter(self, record: Record) -> Adapter:
        feed = self._feed_of(record)
        target = self._settings.target
        if feed is not None:
            target = msgspec.structs.replace(
                target, datasource=feed.datasource, feedtype=feed.feedtype
            )
        elif target.format in _HEADED:
            raise FatalError(
                f"{self._span.source}: no datasource in the source; expected --datasource NAME"
            )
        self._adapters[feed] = adapter(target)
        if record.provenance.feedtype == FULL and target.format == "thunderstone":
            detail = (
                "a full feed, whose target keeps what it leaves out; expected a diff or deletes"
            )
            self._lose(Loss(field="feedtype", url=record.url, detail=detail))
        return self._adapters[feed]

    def _encoder(self, feed: Feed | None, number: int) -> tuple[Feed | None, Encoder]:
        """Only the first chunk of a full feed may be full: the next would erase the one before."""
        if feed is not None and feed.feedtype == FULL and (number or self._span.ordinal):
            feed = Feed(datasource=feed.datasource, feedtype=INCREMENTAL)
        return feed, _encoder_of(self._settings, feed)

    def _list_uncrawled(self) -> None:
        if self._uncrawled:
            with whole_file(self._folder / f"{self._span.name}.urls.txt") as stream:
                stream.writelines(url.encode() + b"\n" for url in self._uncrawled)

    def _close(self) -> Account:
        account = self._account
        for finished in self._files.finished:
            self._counts["written"].update(finished.records)
        for name, counter in self._counts.items():
            setattr(account, name, dict(sorted(counter.items())))
        account.chunks = self._files.finished
        return account


_COUNTERS = (
    *("read", "expanded", "written", "rejected", "filtered"),
    *("reject_codes", "filter_codes"),
)


class _Beat:
    """Tells in a small file how far a span is, a few times a second at most."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = 0.0

    def beat(self, bytes_read: int, records: int, rejects: int, *, last: bool = False) -> None:
        now = time.monotonic()
        if last or now - self._last >= _PROGRESS_SECONDS:
            self._last = now
            partial = self._path.with_suffix(".beating")
            partial.write_text(json.dumps([bytes_read, records, rejects]))
            os.replace(partial, self._path)


def _datum(record: Record) -> bytes:
    return avro.encode(record)


def _encoder_of(settings: Settings, feed: Feed | None) -> Encoder:
    writing = settings.writing
    if feed is not None:
        writing = msgspec.structs.replace(writing, feed=feed)
    return WRITERS[settings.target.format](writing)
