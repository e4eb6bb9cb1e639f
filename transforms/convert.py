"""One span on its way: read, normalize, adapt, write in chunks — the data plane.

Everything between the source and the chunk file is a chain of generators, so that one record is in
memory at a time; what comes out is an account, a few hundred bytes.
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
from transforms.formats import (
    Encoder,
    ReadOptions,
    ReadResult,
    WriteOptions,
    by_name,
)
from transforms.full_feed_log import FullFeedLog
from transforms.normalize import normalize
from transforms.sources import SourceConfig, source_of
from transforms.sources.seen import SEEN, SeenFile
from transforms.sources.span_reader import SpanReader
from transforms.storage.atomic import ChunkFiles, LineFile, RejectFile, Written
from transforms.storage.attempts import Accounts, Attempt
from transforms.values import notices as value_notices

UNKNOWN = "UNKNOWN"
"""The action of what could not be understood."""

_UNLISTED = frozenset({UNCHANGED, "up-to-date"})  # there may be millions, and nothing to know
_NOWHERE = Provenance(source="\0")  # that of no record
_PROGRESS_SECONDS = 0.5
_log = logging.getLogger(__name__)
_BEAT_RECORDS = 256
_RESTATED_BYTES = len(INCREMENTAL) - len(FULL)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What every span of a run is told.

    `folder` takes the files of unfinished runs. A `datasource` or `feedtype` of the target replaces
    those of the source. `refused` are the fields whose loss ends the run: `acl` and `content`
    unless stated otherwise. `sources` tell how those are read that are more than bytes, by their
    names. `state` is the path of what is remembered of earlier runs. An empty full feed, which
    deletes all of its datasource, and a full feed from which documents are known to be missing,
    which deletes those, stop a run unless they are allowed. `verify` tells whether the files of an
    account that an earlier run left are hashed, or only their sizes are compared.
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
    beat: bool = False
    allow_empty_full: bool = False
    accept_holes: bool = False
    verify: bool = True


def convert(span: Span, settings: Settings) -> Account:
    """Convert one span into chunk files; return its account, or one that stands and is whole.

    Nothing is raised for what a user can mend: the account says that the span was stopped. Its
    files are whole or absent.
    """
    folder = Path(settings.folder)
    standing = Accounts(folder, span, verify=settings.verify).find()
    if standing is not None:
        return standing
    _log.info("span %s of %s: begun", span.name, span.source)
    try:
        with Attempt(folder, span, verify=settings.verify) as attempt:
            account = attempt.commit(_Passage(span, settings, attempt).run())
    except FeedferryError as exc:
        return Account(spans=1, stopped=str(exc), exit_code=exc.exit_code)
    except OSError as exc:
        return Account(spans=1, stopped=str(exc), exit_code=FatalError.exit_code)
    _log.info("span %s of %s: ended; %s", span.name, span.source, _counts_text(account))
    return account


def _counts_text(account: Account) -> str:
    """Return how many records were read, written, rejected and filtered, and into what."""
    counted = ("read", "written", "rejected", "filtered")
    counts = [f"{sum(getattr(account, name).values())} {name}" for name in counted]
    return ", ".join([*counts, f"{len(account.chunks)} chunks"])


class _Passage:
    """The counters and files of one span while it is under way."""

    def __init__(self, span: Span, settings: Settings, attempt: Attempt) -> None:
        self._span = span
        self._settings = settings
        self._attempt = attempt
        folder = attempt.folder
        self._adapters: dict[tuple[str | None, ...], tuple[TargetFeed, Adapter]] = {}
        self._account = Account(spans=1)
        self._rejects = RejectFile(folder / f"{span.name}.rejects.avro")
        self._uncrawled = LineFile(folder / f"{span.name}.urls.txt")
        self._filtered = LineFile(folder / f"{span.name}.filtered.jsonl")
        self._files = ChunkFiles(folder, span, _encoder_of(settings, None).extension)
        self._seen = SeenFile(
            folder / f"{span.name}{SEEN}", keeps_rejected=source_of(span).keeps_rejected
        )
        self._reader = SpanReader(
            span,
            config=settings.sources.get(span.source),
            options=settings.reading,
            see=None if settings.state is None else self._seen.add,
            state=settings.state,
        )
        self._counts = {name: Counter[str]() for name in COUNTERS}
        self._beat = _Beat(Path(settings.folder) / f"{span.name}.beat", folder / "beat")
        self._format = by_name(settings.target.format)
        self._is_fed = self._format.has_feedtypes and self._format.holds_documents
        lists_documents = source_of(span).lists_documents
        self._full_feeds = FullFeedLog(span, settings.target, lists_documents=lists_documents)
        self._origin = self._group_origin = _NOWHERE
        self._target_feed = TargetFeed()

    def run(self) -> Account:
        whole = False
        try:
            with closing(self._reader.results()) as found:
                self._files.write(self._chunk(self._adapt(found)))
            self._tell(self._counts["read"].total())
            whole = True
        finally:
            for kept in (self._rejects, self._uncrawled, self._filtered):
                kept.close(whole=whole)
        self._seen.write()
        return self._close()

    def _adapt(self, found: Iterable[ReadResult]) -> Iterator[RecordOrMembership]:
        """Yield what the target takes of what is found; count, and set the rest aside."""
        read = self._counts["read"]
        for total, one in enumerate(found, start=1):
            if total % _BEAT_RECORDS == 0 and self._beat.is_due:
                self._tell(total)
            if not isinstance(one, Record):
                yield from self._take(one)
                continue
            action: str = one.action._value_  # twice as fast as `value`
            read[action] += 1
            now, before = one.provenance, self._origin
            if now is not before and (
                now.datasource is not before.datasource
                or now.feedtype is not before.feedtype
                or now.source is not before.source
            ):
                self._enter_feed(one)
            try:
                if one.crawl is not None or one.extras:
                    for notice in value_notices(one):
                        add_notice(self._account.notices, notice)
                outcomes, losses = self._adapter(normalize(one))
            except Exception as exc:
                outcomes, losses = (_refused(one, exc),), ()
            if losses or len(outcomes) > 1:
                self._note(one, len(outcomes), losses)
            for outcome in outcomes:
                if isinstance(outcome, Record):
                    yield outcome
                else:
                    self._set_aside(outcome, one)

    def _take(
        self, one: Membership | Reject | Filtered | Notice | FeedHeader
    ) -> Iterator[Membership]:
        """Count what is no record; yield a group if the target takes such."""
        if isinstance(one, Notice):
            add_notice(self._account.notices, one)
            return
        if isinstance(one, FeedHeader):
            self._take_header(one)
            return
        action = one.action.value if isinstance(one, Membership) else one.action
        self._counts["read"][action or UNKNOWN] += 1
        if isinstance(one, Reject):
            self._reject(one)
        elif isinstance(one, Filtered):
            self._filter(one)
        else:
            outcome = self._adapt_membership(one)
            if isinstance(outcome, Membership):
                self._enter_groups(one)
                yield outcome
            else:
                self._reject(msgspec.structs.replace(outcome, data=carried_bytes(one)))

    def _adapt_membership(self, one: Membership) -> Membership | Reject:
        try:
            return adapt_membership(one, self._settings.target)
        except Exception as exc:
            return _refused(one, exc)

    def _take_header(self, header: FeedHeader) -> None:
        self._full_feeds.enter(header, memberships=header.memberships, has_records=False)
        if header.memberships and not (self._settings.target.feedtype or header.feedtype):
            detail = (
                "a groups feed of which no group was read; it adds nothing, and deletes nothing"
                " either unless --feedtype full makes it a full feed"
            )
            notice = Notice(code="empty-groups", detail=detail, source=header.source)
            add_notice(self._account.notices, notice)

    def _note(self, record: Record, outcomes: int, losses: Iterable[Loss]) -> None:
        for loss in losses:
            self._lose(loss)
        if outcomes > 1:
            self._counts["expanded"][record.action.value] += outcomes - 1

    def _chunk(self, records: Iterable[RecordOrMembership]) -> Iterator[Frame]:
        frames = chunk(
            records,
            target_feed_of=self._target_feed_of,
            encoder_of=self._encoder,
            max_bytes=self._settings.max_chunk_bytes,
            reserved_bytes=_RESTATED_BYTES if self._format.names_its_feed else 0,
            max_records=1 if self._format.has_one_record else self._settings.max_chunk_records,
        )
        for frame in frames:
            if isinstance(frame, Frame):
                yield frame
            else:
                self._reject(
                    msgspec.structs.replace(frame.reject, data=carried_bytes(frame.record))
                )

    def _tell(self, total: int) -> None:
        if self._settings.beat:
            self._beat.write(self._reader.bytes_read, total, self._rejects.count)

    def _set_aside(self, outcome: Reject | Filtered, record: Record) -> None:
        if isinstance(outcome, Reject):
            if record.arrival is Arrival.CRAWLED and record.action is Action.ADD:
                self._uncrawled.add(record.url.encode())
            self._reject(msgspec.structs.replace(outcome, data=carried_bytes(record)))
        else:
            self._filter(outcome)

    def _filter(self, filtered: Filtered) -> None:
        self._counts["filtered"][filtered.action] += 1
        self._counts["filter_codes"][filtered.code] += 1
        self._full_feeds.filter(filtered)
        if filtered.code not in _UNLISTED:
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

    def _target_feed_of(self, record: RecordOrMembership) -> TargetFeed | None:
        """The feed of what was adapted last, for a format whose chunks name one, or of groups."""
        return self._target_feed if self._is_fed or self._target_feed.memberships else None

    def _enter_feed(self, record: Record) -> None:
        """Turn to the feed that a record came in; those of one feed share their strings."""
        self._origin = origin = record.provenance
        key = _feed_of(origin)
        if key not in self._adapters:
            self._full_feeds.enter(origin, memberships=False, has_records=True)
            feed = self._name_feed(origin.datasource, origin.feedtype)
            is_own = (
                feed is not None and feed.feedtype == FULL and not self._settings.target.feedtype
            )
            target_feed = TargetFeed(feed=feed, origin=origin.source if is_own else None)
            self._adapters[key] = (target_feed, self._make_adapter(feed, record))
        self._target_feed, self._adapter = self._adapters[key]

    def _enter_groups(self, membership: Membership) -> None:
        """Turn to the groups feed that a group came in."""
        now = membership.provenance
        if not self._target_feed.memberships or _feed_of(now) != _feed_of(self._group_origin):
            self._origin, self._group_origin = _NOWHERE, now
            self._full_feeds.enter(now, memberships=True, has_records=True)
            self._target_feed = self._target_groups(now)

    def _target_groups(self, origin: Provenance) -> TargetFeed:
        """The feed of groups; other formats have none."""
        target = self._settings.target
        if not self._format.holds_only_memberships:
            return TargetFeed(memberships=True)
        is_own = origin.feedtype == FULL and not target.feedtype
        feed = Feed(
            datasource=target.datasource or origin.datasource or "",
            feedtype=FULL if is_own else target.feedtype or INCREMENTAL,
        )
        return TargetFeed(feed=feed, origin=origin.source if is_own else None, memberships=True)

    def _name_feed(self, datasource: str | None, feedtype: str | None) -> Feed | None:
        target = self._settings.target
        datasource = target.datasource or datasource
        if datasource is None:
            return None
        return Feed(datasource=datasource, feedtype=target.feedtype or feedtype or INCREMENTAL)

    def _make_adapter(self, feed: Feed | None, record: Record) -> Adapter:
        target = self._settings.target
        if feed is None and self._is_fed:
            raise ConfigError(
                f"{self._span.source}: no datasource in the source; expected --datasource NAME"
            )
        if self._format.keeps_everything and (target.datasource or target.feedtype):
            return partial(_in_feed, target, adapter(target))
        if record.provenance.feedtype == FULL and self._format.keeps_unlisted:
            detail = "full: the target keeps what the feed leaves out; delete that yourself"
            self._lose(Loss(field="feedtype", url=record.url, detail=detail))
        if feed is not None:
            target = msgspec.structs.replace(
                target, datasource=feed.datasource, feedtype=feed.feedtype
            )
        return adapter(target)

    def _encoder(self, target_feed: TargetFeed | None, number: int) -> tuple[Feed | None, Encoder]:
        """Only the first chunk of a full feed is full: any later one would erase those before.

        Which that is, is seen for certain when all spans are there.
        """
        feed = target_feed.feed if target_feed else None
        is_later = number or self._span.ordinal
        if feed is not None and feed.feedtype == FULL and is_later:
            feed = Feed(datasource=feed.datasource, feedtype=INCREMENTAL)
        return feed, _encoder_of(
            self._settings, feed, memberships=bool(target_feed and target_feed.memberships)
        )

    def _close(self) -> Account:
        account = self._account
        account.bytes_read = self._reader.bytes_read
        for finished in self._files.finished:
            self._counts["written"].update(finished.records)
        for name, counter in self._counts.items():
            setattr(account, name, dict(sorted(counter.items())))
        self._full_feeds.close(account)
        account.chunks, account.files = self._made()
        return account

    def _made(self) -> tuple[list[Chunk], list[SpanFile]]:
        """Return the chunks and all files, with paths relative to the folder of the run."""
        chunks = self._files.finished
        lists = (self._rejects, self._uncrawled, self._filtered, self._seen)
        written = [Written(chunk.path, chunk.bytes, chunk.sha256) for chunk in chunks]
        written += [kept.written for kept in lists if kept.written is not None]
        placed = [
            msgspec.structs.replace(chunk, path=self._attempt.path_of(chunk.path))
            for chunk in chunks
        ]
        return placed, [self._attempt.file(one) for one in written]


class _Beat:
    """Tells in a small file how far a span is, a few times a second at most.

    It is written at `partial`, which no other attempt has, and then moved.
    """

    def __init__(self, path: Path, partial: Path) -> None:
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


def _in_feed(target: Target, adapt: Adapter, record: Record) -> Adapted:
    """Adapt a record for an archive, as one of the feed that the user names."""
    origin = record.provenance
    provenance = msgspec.structs.replace(
        origin,
        datasource=target.datasource or origin.datasource,
        feedtype=target.feedtype or origin.feedtype,
    )
    return adapt(msgspec.structs.replace(record, provenance=provenance))


def _feed_of(origin: Provenance) -> tuple[str | None, ...]:
    return origin.source, origin.datasource, origin.feedtype


def _refused(record: RecordOrMembership, exc: Exception) -> Reject:
    error = record_error(exc)
    return reject_record(record, code=error.code, reason=error.reason, stage="adapt")


def _encoder_of(settings: Settings, feed: Feed | None, *, memberships: bool = False) -> Encoder:
    writing = msgspec.structs.replace(settings.writing, memberships=memberships)
    if feed is not None:
        writing = msgspec.structs.replace(writing, feed=feed)
    return by_name(settings.target.format).make_encoder(writing)
