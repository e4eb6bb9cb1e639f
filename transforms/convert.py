"""Convert one span: read, normalize, adapt to the target, write chunks.

This is the data plane. Everything between the source and the chunk files is a chain of generators,
so that one record is in memory at a time. The result is an account of a few hundred bytes.
"""

import json
import logging
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from schemas.account import COUNTERS, Account, Chunk, SpanFile, add_loss, add_notice
from schemas.carried_bytes import carried_bytes
from schemas.defect import defect_type, record_error
from schemas.errors import (
    ConfigError,
    FatalError,
    FeedferryError,
    TooManyRejectsError,
)
from schemas.feed import FULL, INCREMENTAL, Feed, FeedHeader, TargetFeed
from schemas.known import UNCHANGED
from schemas.loss import REFUSED, Loss
from schemas.membership import Membership, RecordOrMembership
from schemas.notice import Notice
from schemas.record import Action, Arrival, Provenance, Record
from schemas.reject import Filtered, Reject, reject_record
from schemas.span import Span
from transforms.adapt import Adapted, Adapter, Target, adapt_membership, adapter, check_loss
from transforms.chunk import Frame, chunk
from transforms.formats import Encoder, ReadOptions, ReadResult, WriteOptions, by_name
from transforms.full_feed_log import UP_TO_DATE, FullFeedLog
from transforms.normalize import normalize
from transforms.sources import SourceConfig, source_of
from transforms.sources.seen import SEEN, SeenFile
from transforms.sources.span_reader import SpanReader
from transforms.storage.atomic import ChunkFiles, LineFile, RejectFile, WrittenFile
from transforms.storage.attempts import Accounts, Attempt
from transforms.values import notices as value_notices

UNKNOWN = "UNKNOWN"
"""The action of a reject whose action could not be read."""

PROGRESS = ".progress"
"""Suffix of the progress files in the folder of a run."""

_UNLISTED_CODES = frozenset({UNCHANGED, UP_TO_DATE})  # there may be millions of these
_NO_PROVENANCE = Provenance(source="\0")  # no record has it
_PROGRESS_SECONDS = 0.5
_PROGRESS_RECORDS = 256
_RESTATED_BYTES = len(INCREMENTAL) - len(FULL)
_log = logging.getLogger(__name__)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a run, for each of its spans.

    `folder` holds the files of an unfinished run. `sources` are the configurations of the sources
    that have one, by the names of their spans. `state` is the path of the state of earlier runs.
    A datasource or feedtype of the `target` replaces that of the source. The loss of a field in
    `refused` stops the run. A full feed deletes everything that it leaves out, so an empty full
    feed, and one with documents known to be missing, stop the run unless they are allowed. With
    `verify`, the files of earlier attempts are hashed again; otherwise only their sizes count.
    """

    folder: str
    target: Target
    reading: ReadOptions
    writing: WriteOptions
    max_chunk_bytes: int
    max_chunk_records: int | None = None
    refused: frozenset[str] = REFUSED
    max_rejects: int | None = None
    sources: dict[str, SourceConfig] = {}
    state: str | None = None
    has_progress: bool = False
    allow_empty_full: bool = False
    accept_holes: bool = False
    verify: bool = True


def convert(span: Span, settings: Settings) -> Account:
    """Convert one span into chunk files; return its account.

    An account of an earlier attempt is returned if its files are complete. Errors that a user can
    fix are not raised: the account then says why the span was stopped.
    """
    folder = Path(settings.folder)
    earlier = Accounts(folder, span, verify=settings.verify).find()
    if earlier is not None:
        return earlier
    _log.info("span %s of %s: begun", span.name, span.source)
    try:
        with Attempt(folder, span, verify=settings.verify) as attempt:
            account = attempt.commit(SpanConversion(span, settings, attempt).run())
    except FeedferryError as exc:
        return Account(spans=1, stopped=str(exc), exit_code=exc.exit_code)
    except OSError as exc:
        return Account(spans=1, stopped=str(exc), exit_code=FatalError.exit_code)
    _log.info("span %s of %s: ended; %s", span.name, span.source, _describe_counts(account))
    return account


class SpanConversion:
    """The conversion of one span: its counters, its files, and the feed of the current record."""

    def __init__(self, span: Span, settings: Settings, attempt: Attempt) -> None:
        self._span = span
        self._settings = settings
        self._attempt = attempt
        self._format = by_name(settings.target.format)
        self._has_feeds = self._format.has_feedtypes and self._format.holds_documents
        source, folder = source_of(span), attempt.folder
        self._rejects = RejectFile(folder / f"{span.name}.rejects.avro")
        self._uncrawled = LineFile(folder / f"{span.name}.urls.txt")
        self._filtered = LineFile(folder / f"{span.name}.filtered.jsonl")
        self._chunks = ChunkFiles(folder, span, _make_encoder(settings, None).extension)
        self._seen = SeenFile(folder / f"{span.name}{SEEN}", keeps_rejected=source.keeps_rejected)
        self._progress = ProgressFile(
            Path(settings.folder) / f"{span.name}{PROGRESS}", partial=folder / "progress"
        )
        self._reader = SpanReader(
            span,
            config=settings.sources.get(span.source),
            options=settings.reading,
            see=None if settings.state is None else self._seen.add,
            state=settings.state,
        )
        self._account = Account(spans=1)
        self._counts = {name: Counter[str]() for name in COUNTERS}
        self._full_feeds = FullFeedLog(
            span, settings.target, lists_documents=source.lists_documents
        )
        self._adapters: dict[tuple[str | None, ...], tuple[TargetFeed, Adapter]] = {}
        self._provenance = self._groups_provenance = _NO_PROVENANCE
        self._target_feed = TargetFeed()

    def run(self) -> Account:
        whole = False
        try:
            with closing(self._reader.results()) as results:
                self._chunks.write(self._chunk(self._adapt(results)))
            self._write_progress(self._counts["read"].total())
            whole = True
        finally:
            for file in (self._rejects, self._uncrawled, self._filtered):
                file.close(whole=whole)
        self._seen.write()
        return self._close()

    def _adapt(self, results: Iterable[ReadResult]) -> Iterator[RecordOrMembership]:
        """Yield the records that the target holds; count all, and set the others aside."""
        read = self._counts["read"]
        for total, result in enumerate(results, start=1):
            if total % _PROGRESS_RECORDS == 0 and self._progress.is_due:
                self._write_progress(total)
            if not isinstance(result, Record):
                yield from self._take_other(result)
                continue
            action: str = result.action._value_  # twice as fast as `value`
            read[action] += 1
            now, before = result.provenance, self._provenance
            # Records of one feed share these strings, so that identity is enough.
            if now is not before and (
                now.datasource is not before.datasource
                or now.feedtype is not before.feedtype
                or now.source is not before.source
            ):
                self._enter_feed(result)
            try:
                if result.crawl is not None or result.extras:
                    for notice in value_notices(result):
                        add_notice(self._account.notices, notice)
                outcomes, losses = self._adapter(normalize(result))
            except Exception as exc:
                outcomes, losses = (_reject_for(result, exc),), ()
            if losses or len(outcomes) > 1:
                self._count_adapted(result, len(outcomes), losses)
            for outcome in outcomes:
                if isinstance(outcome, Record):
                    yield outcome
                else:
                    self._set_aside(outcome, result)

    def _take_other(
        self, result: Membership | Reject | Filtered | Notice | FeedHeader
    ) -> Iterator[Membership]:
        """Count a result that is no record; yield a group if the target holds groups."""
        if isinstance(result, Notice):
            add_notice(self._account.notices, result)
            return
        if isinstance(result, FeedHeader):
            self._take_header(result)
            return
        action = result.action.value if isinstance(result, Membership) else result.action
        self._counts["read"][action or UNKNOWN] += 1
        if isinstance(result, Reject):
            self._reject(result)
        elif isinstance(result, Filtered):
            self._filter(result)
        else:
            yield from self._take_membership(result)

    def _take_membership(self, membership: Membership) -> Iterator[Membership]:
        try:
            outcome = adapt_membership(membership, self._settings.target)
        except Exception as exc:
            outcome = _reject_for(membership, exc)
        if isinstance(outcome, Membership):
            self._enter_groups(membership)
            yield outcome
        else:
            self._reject(replace(outcome, data=carried_bytes(membership)))

    def _take_header(self, header: FeedHeader) -> None:
        self._full_feeds.enter(header, memberships=header.memberships, has_records=False)
        if header.memberships and not (self._settings.target.feedtype or header.feedtype):
            detail = (
                "a groups feed of which no group was read; it adds nothing, and deletes nothing"
                " either unless --feedtype full makes it a full feed"
            )
            notice = Notice(code="empty-groups", detail=detail, source=header.source)
            add_notice(self._account.notices, notice)

    def _count_adapted(self, record: Record, outcomes: int, losses: Iterable[Loss]) -> None:
        for loss in losses:
            self._lose(loss)
        if outcomes > 1:
            self._counts["expanded"][record.action.value] += outcomes - 1

    def _set_aside(self, outcome: Reject | Filtered, record: Record) -> None:
        if isinstance(outcome, Reject):
            if record.arrival is Arrival.CRAWLED and record.action is Action.ADD:
                self._uncrawled.add(record.url.encode())
            self._reject(replace(outcome, data=carried_bytes(record)))
        else:
            self._filter(outcome)

    def _filter(self, filtered: Filtered) -> None:
        self._counts["filtered"][filtered.action] += 1
        self._counts["filter_codes"][filtered.code] += 1
        self._full_feeds.filter(filtered)
        if filtered.code not in _UNLISTED_CODES:
            self._filtered.add(msgspec.json.encode(filtered))

    def _reject(self, reject: Reject) -> None:
        self._rejects.add(reject)
        self._counts["rejected"][reject.action or UNKNOWN] += 1
        self._counts["reject_codes"][reject.code] += 1
        if (defect := defect_type(reject)) is not None:
            self._counts["defects"][defect] += 1
        self._full_feeds.reject(reject)
        self._seen.reject(reject)
        limit = self._settings.max_rejects
        if limit is not None and self._rejects.count > limit:
            raise TooManyRejectsError(
                f"{reject.message}; this is more than the {limit} rejects that --max-rejects allows"
            )

    def _lose(self, loss: Loss) -> None:
        check_loss(loss, self._settings.refused, source=self._span.source)
        add_loss(self._account.losses, loss)

    def _chunk(self, records: Iterable[RecordOrMembership]) -> Iterator[Frame]:
        frames = chunk(
            records,
            target_feed_of=self._target_feed_of,
            encoder_of=self._encoder_of,
            max_bytes=self._settings.max_chunk_bytes,
            reserved_bytes=_RESTATED_BYTES if self._format.names_its_feed else 0,
            max_records=1 if self._format.has_one_record else self._settings.max_chunk_records,
        )
        for frame in frames:
            if isinstance(frame, Frame):
                yield frame
            else:
                self._reject(replace(frame.reject, data=carried_bytes(frame.record)))

    def _target_feed_of(self, _record: RecordOrMembership) -> TargetFeed | None:
        """Return the feed of the record that was adapted last, if its chunks are of a feed."""
        return self._target_feed if self._has_feeds or self._target_feed.memberships else None

    def _enter_feed(self, record: Record) -> None:
        """Make the feed of a record the current one."""
        self._provenance = provenance = record.provenance
        key = _feed_key(provenance)
        if key not in self._adapters:
            self._full_feeds.enter(provenance, memberships=False, has_records=True)
            feed = self._name_feed(provenance)
            is_full = feed is not None and feed.feedtype == FULL
            origin = provenance.source if is_full and not self._settings.target.feedtype else None
            target_feed = TargetFeed(feed=feed, origin=origin)
            self._adapters[key] = (target_feed, self._make_adapter(feed, record))
        self._target_feed, self._adapter = self._adapters[key]

    def _name_feed(self, provenance: Provenance) -> Feed | None:
        target = self._settings.target
        datasource = target.datasource or provenance.datasource
        if datasource is None:
            return None
        feedtype = target.feedtype or provenance.feedtype or INCREMENTAL
        return Feed(datasource=datasource, feedtype=feedtype)

    def _make_adapter(self, feed: Feed | None, record: Record) -> Adapter:
        target = self._settings.target
        if feed is None and self._has_feeds:
            raise ConfigError(
                f"{self._span.source}: no datasource in the source; expected --datasource NAME"
            )
        if self._format.keeps_everything and (target.datasource or target.feedtype):
            return partial(_adapt_in_feed, target, adapter(target))
        if record.provenance.feedtype == FULL and self._format.keeps_unlisted:
            detail = "full: the target keeps what the feed leaves out; delete that yourself"
            self._lose(Loss(field="feedtype", url=record.url, detail=detail))
        if feed is not None:
            target = replace(target, datasource=feed.datasource, feedtype=feed.feedtype)
        return adapter(target)

    def _enter_groups(self, membership: Membership) -> None:
        """Make the groups feed of a group the current feed."""
        now = membership.provenance
        if self._target_feed.memberships and _feed_key(now) == _feed_key(self._groups_provenance):
            return
        self._provenance, self._groups_provenance = _NO_PROVENANCE, now
        self._full_feeds.enter(now, memberships=True, has_records=True)
        self._target_feed = self._target_groups(now)

    def _target_groups(self, provenance: Provenance) -> TargetFeed:
        """Return the groups feed; formats that hold documents too have none."""
        target = self._settings.target
        if not self._format.holds_only_memberships:
            return TargetFeed(memberships=True)
        is_own = provenance.feedtype == FULL and not target.feedtype
        feed = Feed(
            datasource=target.datasource or provenance.datasource or "",
            feedtype=FULL if is_own else target.feedtype or INCREMENTAL,
        )
        origin = provenance.source if is_own else None
        return TargetFeed(feed=feed, origin=origin, memberships=True)

    def _encoder_of(
        self, target_feed: TargetFeed | None, number: int
    ) -> tuple[Feed | None, Encoder]:
        """Return the feed that a chunk states, and its encoder.

        Only the first chunk of a full feed is full: a later one would erase those before it. That
        this is the first chunk of the run is only certain when all spans are converted.
        """
        feed = target_feed.feed if target_feed else None
        is_later = number or self._span.ordinal
        if feed is not None and feed.feedtype == FULL and is_later:
            feed = Feed(datasource=feed.datasource, feedtype=INCREMENTAL)
        memberships = target_feed is not None and target_feed.memberships
        return feed, _make_encoder(self._settings, feed, memberships=memberships)

    def _write_progress(self, records: int) -> None:
        if self._settings.has_progress:
            self._progress.write(self._reader.bytes_read, records, self._rejects.count)

    def _close(self) -> Account:
        account = self._account
        account.bytes_read = self._reader.bytes_read
        for finished in self._chunks.finished:
            self._counts["written"].update(finished.records)
        for name, counter in self._counts.items():
            setattr(account, name, dict(sorted(counter.items())))
        self._full_feeds.close(account)
        account.chunks, account.files = self._finished_files()
        return account

    def _finished_files(self) -> tuple[list[Chunk], list[SpanFile]]:
        """Return the chunks and all files, with paths relative to the folder of the run."""
        chunks = self._chunks.finished
        lists = (self._rejects, self._uncrawled, self._filtered, self._seen)
        files = [WrittenFile(chunk.path, chunk.bytes, chunk.sha256) for chunk in chunks]
        files += [file.written for file in lists if file.written is not None]
        placed = [replace(chunk, path=self._attempt.path_of(chunk.path)) for chunk in chunks]
        return placed, [self._attempt.file(file) for file in files]


class ProgressFile:
    """A small file with the progress of a span, written a few times a second at most.

    It is written at `partial`, which no other attempt has, and then moved.
    """

    def __init__(self, path: Path, *, partial: Path) -> None:
        self._path = path
        self._partial = partial
        self._last = 0.0

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self._last >= _PROGRESS_SECONDS

    def write(self, bytes_read: int, records: int, rejects: int) -> None:
        self._last = time.monotonic()
        self._partial.write_text(json.dumps([bytes_read, records, rejects]))
        os.replace(self._partial, self._path)


def _describe_counts(account: Account) -> str:
    names = ("read", "written", "rejected", "filtered")
    counts = [f"{sum(getattr(account, name).values())} {name}" for name in names]
    return ", ".join([*counts, f"{len(account.chunks)} chunks"])


def _adapt_in_feed(target: Target, adapt: Adapter, record: Record) -> Adapted:
    """Adapt a record for an archive, as a record of the feed that the user names."""
    provenance = replace(
        record.provenance,
        datasource=target.datasource or record.provenance.datasource,
        feedtype=target.feedtype or record.provenance.feedtype,
    )
    return adapt(replace(record, provenance=provenance))


def _feed_key(provenance: Provenance) -> tuple[str | None, ...]:
    return provenance.source, provenance.datasource, provenance.feedtype


def _reject_for(record: RecordOrMembership, exc: Exception) -> Reject:
    error = record_error(exc)
    return reject_record(record, code=error.code, reason=error.reason, stage="adapt")


def _make_encoder(settings: Settings, feed: Feed | None, *, memberships: bool = False) -> Encoder:
    writing = replace(settings.writing, memberships=memberships)
    if feed is not None:
        writing = replace(writing, feed=feed)
    return by_name(settings.target.format).make_encoder(writing)
