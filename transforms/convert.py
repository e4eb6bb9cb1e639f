"""Convert one span: read, normalize, adapt to the target, write chunks.

This is the data plane. Everything between the source and the chunk files is a chain of generators,
so that one record is in memory at a time. The result is an account of a few hundred bytes.
"""

import gc
import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from types import MappingProxyType
from typing import NoReturn, TypeVar

import msgspec
from msgspec.structs import replace

from feedferry.schemas.account import (
    COUNTERS,
    Account,
    Chunk,
    RejectSample,
    SpanFile,
    add_loss,
    add_notice,
    add_reject_sample,
)
from feedferry.schemas.avro import carried_bytes
from feedferry.schemas.choices import URL_CHECKS
from feedferry.schemas.errors import (
    ConfigError,
    FatalError,
    FeedferryError,
    RecordError,
    TooManyRejectsError,
)
from feedferry.schemas.feed import (
    FULL,
    INCREMENTAL,
    METADATA_AND_URL,
    Feed,
    FeedHeader,
    FullFeed,
    Hole,
    TargetFeed,
    check_header,
)
from feedferry.schemas.membership import Membership, RecordOrMembership
from feedferry.schemas.notice import Loss, Notice
from feedferry.schemas.record import Action, Arrival, Provenance, Record
from feedferry.schemas.reject import (
    UNREADABLE,
    Filtered,
    Reject,
    defect_type,
    record_error,
    reject_record,
    storable,
)
from feedferry.schemas.sent_document import UNCHANGED
from feedferry.schemas.span import Span, SpanEnd
from feedferry.transforms.batch import BatchWriter, CurrentFeed, SingleResult, feed_key
from feedferry.transforms.chunk import ChunkWriter
from feedferry.transforms.conversion_settings import UP_TO_DATE, Settings, make_encoder
from feedferry.transforms.formats import (
    Encoder,
    ReadResult,
    by_name,
    find_format,
    format_of,
)
from feedferry.transforms.formats.adapt_rules import rejected
from feedferry.transforms.formats.base import Outcome
from feedferry.transforms.formats.columns.element_block import ElementBlock
from feedferry.transforms.formats.columns.record_batch import RecordBatch
from feedferry.transforms.formats.values import doubtful_url, is_unserved
from feedferry.transforms.formats.values import notices as value_notices
from feedferry.transforms.rules.adapt import (
    LEFT_OUT,
    Adapter,
    Target,
    adapt_membership,
    adapter,
    check_loss,
)
from feedferry.transforms.rules.known_rejects import entry_of, load_known_rejects
from feedferry.transforms.rules.normalize import normalize
from feedferry.transforms.rules.older_versions import VersionLog, load_older_versions
from feedferry.transforms.sources import SpanRequest, read_span, source_of
from feedferry.transforms.sources.state_changes import SEEN, StateChangeFile
from feedferry.transforms.span_progress import SpanProgress, progress_log
from feedferry.transforms.steps.run_lists import RunLists
from feedferry.transforms.storage.atomic import (
    AtomicFile,
    RejectFile,
    read_stored_rejects,
)
from feedferry.transforms.storage.attempts import SPAN_REJECTS, Attempt
from feedferry.transforms.storage.find_storage import storage_of
from feedferry.transforms.storage.storage import is_object

UNREADABLE_ACTION = "unreadable"
"""The action of a reject whose action could not be read."""

CANCELLED = "cancelled"
"""The file in the folder of a run that ends its workers: runners may let tasks run to the end."""

_UNLISTED_CODES = frozenset({UNCHANGED, UP_TO_DATE})  # there may be millions of these
DELETIONS = (Action.DELETE.value, Action.DELETE_PATTERN.value)
_NO_PROVENANCE = Provenance(source="\0none")  # no record has it
_COLLECTED_OBJECTS = 20_000
_PROGRESS_SECONDS = 0.5
_PROGRESS_RECORDS = 256
_RESTATED_BYTES = len(INCREMENTAL) - len(FULL)
_log = logging.getLogger(__name__)
_Item = TypeVar("_Item", Record, Membership)


def convert_on(
    span: Span, settings: Settings, attempted: Mapping[Span, Account] = MappingProxyType({})
) -> Iterator[Account]:
    """Convert a span and, if it has a grid, all spans after it, each from where one has ended.

    `attempted` are spans that were converted from a guess of where they begin. The account of a
    right guess is used; a wrong one is no span of the file, and its progress is removed.
    """
    following: Span | None = span
    names = set()
    while following is not None:
        names.add(following.name)
        account = attempted.get(following) or convert(following, settings)
        yield account
        following = account.next
        if following is None and account.stopped is None:
            for wrong in {guess.name for guess in attempted if guess.name not in names}:
                progress_log(settings.progress, settings.begun).finish(wrong, None)


def convert(span: Span, settings: Settings, *, by: type[Attempt] = Attempt) -> Account:
    """Convert one span into chunk files; return its account.

    An account of an earlier attempt is returned if its files are complete. Errors that a user can
    fix are not raised: the account then says why the span was stopped.
    """
    older = load_older_versions(settings.folder, settings.older_versions)
    if settings.older_versions and not older.may_be_in(span.name):
        settings = replace(settings, older_versions="")
    storage, version = storage_of(settings.folder), settings.older_versions
    attempt = by(storage, span, verify=settings.verify, version=version)
    progress = progress_log(settings.progress, settings.begun)
    if (earlier := attempt.find_account(begun=settings.begun)) is not None:
        progress.finish(span.name, SpanProgress.of(earlier))
        return _accept_rejects(earlier, span, settings)
    _log.info("span %s of %s: begun", span.name, span.source)
    try:
        _check_cancelled(settings)
        with attempt:
            account = attempt.commit(SpanConversion(span, settings, attempt).run())
    except FeedferryError as exc:
        return Account(spans=1, stopped=exc.text, exit_code=exc.exit_code)
    except OSError as exc:
        return Account(spans=1, stopped=str(exc), exit_code=FatalError.exit_code)
    progress.finish(span.name, SpanProgress.of(account))
    _log.info("span %s of %s: ended; %s", span.name, span.source, _describe_counts(account))
    return account


def _check_cancelled(settings: Settings) -> None:
    """Raise FatalError if the job was cancelled: its runner may let tasks run to the end."""
    if settings.progress is not None and storage_of(settings.folder).get(CANCELLED) is not None:
        raise FatalError("the job was cancelled")


@contextmanager
def _few_collections() -> Iterator[None]:
    """Search for cyclic garbage less often: a search reads all new rows, and finds none."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_COLLECTED_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _not_entered(_record: Record) -> NoReturn:
    raise AssertionError("a record before its feed")


class SpanConversion:
    """The conversion of one span: its counters, its files, and the feed of the current record."""

    def __init__(self, span: Span, settings: Settings, attempt: Attempt) -> None:
        self._span = span
        self._settings = settings
        self._attempt = attempt
        self._format = by_name(settings.target.format)
        self._has_feeds = self._format.has_document_feeds
        source, storage = source_of(span), attempt.storage
        self._has_keys = source.has_state
        self._known_rejects = load_known_rejects(settings.accepted_rejects)
        self._new_rejects = 0
        self._rejects = RejectFile(storage, f"{span.name}{SPAN_REJECTS}")
        self._uncrawled = AtomicFile(storage, f"{span.name}.urls.txt")
        self._filtered = AtomicFile(storage, f"{span.name}.filtered.jsonl")
        self._changes = StateChangeFile(
            AtomicFile(storage, f"{span.name}{SEEN}"), keeps_rejected=source.keeps_rejected
        )
        self._chunks = ChunkWriter(
            storage,
            span,
            encoder_of=self._encoder_of,
            max_bytes=settings.max_chunk_bytes,
            reserved_bytes=_RESTATED_BYTES if self._has_feeds else 0,
            max_records=1 if self._format.has_one_record else settings.max_chunk_records,
        )
        self._older = load_older_versions(settings.folder, settings.older_versions)
        self._request = SpanRequest(
            span=span,
            config=settings.sources.get(span.source),
            options=replace(
                settings.reading,
                batch_records=0 if settings.older_versions else settings.batch_records,
            ),
            see=None if settings.state is None else self._changes.add,
            state=settings.state,
            rewrite=settings.steps.rewriter,
        )
        self._progress = progress_log(settings.progress, settings.begun)
        self._progress_due_at = time.monotonic() + _PROGRESS_SECONDS
        self._account = Account(spans=1)
        self._counts = {name: Counter[str]() for name in COUNTERS}
        self._full_feeds = FullFeedLog(span, settings.target)
        self._adapters: dict[tuple[str | None, ...], tuple[TargetFeed, Adapter]] = {}
        self._current = CurrentFeed(_NO_PROVENANCE, None, _not_entered)
        self._groups_provenance, self._groups_feed = _NO_PROVENANCE, TargetFeed(memberships=True)
        self._origin: Record | None = None
        self._steps = settings.steps.make(settings.local)
        self._batches = BatchWriter(
            self._chunks,
            self._account,
            self._counts["read"],
            self._steps,
            size=settings.batch_records,
            current=lambda: self._current,
        )
        self._lists = self._run_lists() if self._steps.has_any else None
        # Other sources have one version of each document.
        self._has_versions = find_format(span.format) is not None
        has_hashes = self._has_versions and not self._steps.is_of_model
        self._versions = VersionLog(attempt.lists, span.name, has_hashes=has_hashes)

    def run(self) -> Account:
        whole = False
        try:
            with _few_collections(), closing(read_span(self._request)) as results:
                for record in self._adapt(self._steps.ahead(self._without_batches(results))):
                    self._write(record)
            self._chunks.close(whole=True)
            whole = True
        finally:
            self._steps.close()
            for file in (self._chunks, self._rejects, self._uncrawled, self._filtered):
                file.close(whole=whole)
            self._versions.close(whole=whole)
            if self._lists is not None:
                self._lists.close(whole=whole)
        self._changes.write()
        written = self._batches
        total = self._counts["read"].total()
        _log.debug(
            "span %s: %d of %d records by a plan, in %d batches, by %d plans; %d one by one",
            *(self._span.name, written.planned, total),
            *(written.batches, written.plans, total - written.planned),
        )
        return self._close()

    def _run_lists(self) -> RunLists:
        return RunLists(
            self._attempt.lists,
            self._span.name,
            self._steps,
            has_origins=self._settings.steps.rewrites_urls,
        )

    def _without_batches(self, results: Iterable[ReadResult]) -> Iterator[SingleResult]:
        """Write the batches that have a plan; yield the records of the others, and all else."""
        for total, result in enumerate(results, start=1):
            is_batch = isinstance(result, RecordBatch | ElementBlock)
            if (is_batch or total % _PROGRESS_RECORDS == 0) and (
                time.monotonic() >= self._progress_due_at
            ):
                self._write_progress()
            if isinstance(result, RecordBatch | ElementBlock):
                yield from self._batches.write(result)
            else:
                yield result

    def _adapt(self, results: Iterable[SingleResult]) -> Iterator[RecordOrMembership]:
        """Yield the records that the target holds; count all, and set the others aside."""
        read = self._counts["read"]
        for result in results:
            if not isinstance(result, Record):
                yield from self._take_other(result)
                continue
            self._origin = result
            action: str = result.action._value_  # twice as fast as `value`
            read[action] += 1
            now, before = result.provenance, self._current.provenance
            # Records of one feed share these strings, so that identity is enough.
            if now is not before and (
                now.datasource is not before.datasource
                or now.feedtype is not before.feedtype
                or now.source is not before.source
            ):
                self._enter_feed(result)
            if not self._steps.has_any:
                yield from self._adapt_one(result, result)
                continue
            if self._has_versions:
                self._versions.add(result, read.total())
            items = self._steps.apply(result)
            if self._lists is not None:
                self._lists.add(result, items)
            if len(items) > 1:
                self._counts["expanded"][action] += len(items) - 1
            for item in items:
                if isinstance(item, Record):
                    yield from self._adapt_one(item, result)
                elif isinstance(item, Filtered | Reject):
                    self._set_aside(item, result)

    def _adapt_one(self, stated: Record, origin: Record) -> Iterator[Record]:
        """Yield what the target holds of a record, which may have been changed on the way."""
        try:
            record = normalize(stated)
            outcomes, losses = self._current.adapter(record)
            if (
                is_unserved(record.url)
                or record.crawl is not None
                or record.extras
                or (record.acl is not None and record.acl.permits_nobody)
            ):
                self._note_values(record, outcomes)
        except Exception as exc:
            outcomes, losses = rejected(stated, record_error(exc))
        for loss in losses:
            self._lose(loss)
        if len(outcomes) > 1:
            self._counts["expanded"][origin.action._value_] += len(outcomes) - 1
        for made in outcomes:
            outcome = self._without_older(made, origin)
            if isinstance(outcome, Record):
                yield outcome
            else:
                self._set_aside(outcome, origin)

    def _without_older(self, outcome: Outcome, origin: Record) -> Outcome:
        """Return an outcome, or a reject in place of a version older than a rejected one."""
        if not self._older.refused or not isinstance(outcome, Record):
            return outcome
        number = self._counts["read"].total()
        return self._older.check(origin, self._span.name, number) or outcome

    def _note_values(self, record: Record, outcomes: Iterable[Outcome]) -> None:
        if self._settings.target.urls != URL_CHECKS[0] and (doubt := doubtful_url(record)):
            raise RecordError("url-doubtful", doubt)
        for notice in value_notices(record, outcomes):
            add_notice(self._account.notices, notice)

    def _take_other(
        self, result: Membership | Reject | Filtered | Notice | FeedHeader | SpanEnd
    ) -> Iterator[Membership]:
        """Count a result that is no record; yield a group if the target holds groups."""
        if isinstance(result, SpanEnd):
            self._account.next = self._span.next(result)
            return
        if isinstance(result, Notice):
            add_notice(self._account.notices, result)
            return
        if isinstance(result, FeedHeader):
            self._take_header(result)
            return
        action = result.action.value if isinstance(result, Membership) else result.action
        count = result.count if isinstance(result, Filtered) else 1
        self._counts["read"][action or UNREADABLE_ACTION] += count
        if isinstance(result, Reject):
            self._reject_version(result, None)
            self._reject(result)
        elif isinstance(result, Filtered):
            self._filter(result)
        else:
            for item in self._steps.apply(result):
                if isinstance(item, Membership):
                    yield from self._take_membership(item)
                elif isinstance(item, Filtered):
                    self._filter(item)
                elif isinstance(item, Reject):
                    self._reject(replace(item, data=carried_bytes(result)))

    def _take_membership(self, membership: Membership) -> Iterator[Membership]:
        target = self._settings.target
        outcome = adapt_membership(membership, target)
        if isinstance(outcome, Membership):
            self._enter_groups(membership)
            yield _in_feed(target, outcome) if self._format.keeps_everything else outcome
        else:
            self._filter(outcome)

    def _take_header(self, header: FeedHeader) -> None:
        self._full_feeds.enter(header, memberships=header.memberships, has_records=False)
        if header.memberships and not (self._settings.target.feedtype or header.feedtype):
            detail = (
                "a groups feed of which no group was read; it adds nothing, and deletes nothing"
                " either unless --feedtype full makes it a full feed"
            )
            notice = Notice(code="empty-groups", detail=detail, source=header.source)
            add_notice(self._account.notices, notice)

    def _set_aside(self, outcome: Reject | Filtered, record: Record) -> None:
        if isinstance(outcome, Reject):
            if record.arrival is Arrival.CRAWLED and record.action is Action.ADD:
                self._uncrawled.write(record.url.encode() + b"\n")
            self._reject_version(outcome, record)
            self._reject(replace(outcome, data=carried_bytes(record)))
        else:
            self._filter(outcome)

    def _reject_version(self, reject: Reject, origin: Record | None) -> None:
        if self._has_versions:
            self._versions.reject(reject, origin, self._counts["read"].total())

    def _filter(self, outcome: Filtered) -> None:
        filtered = storable(outcome)
        self._counts["filtered"][filtered.action] += filtered.count
        self._counts["filter_codes"][filtered.code] += filtered.count
        if (detail := LEFT_OUT.get(filtered.code)) is not None:
            notice = Notice(code=filtered.code, detail=detail, source=self._span.source)
            add_notice(self._account.notices, notice)
        if filtered.code not in _UNLISTED_CODES:
            self._filtered.write(msgspec.json.encode(filtered) + b"\n")

    def _reject(self, outcome: Reject) -> None:
        reject = storable(outcome)
        if self._has_keys and reject.key is None:
            reject = replace(reject, key=reject.url)
        try:
            self._rejects.add(reject)
        except Exception as exc:
            error = record_error(exc)
            reject = replace(reject, code=error.code, reason=error.reason, data=b"", truncated=True)
            self._rejects.add(reject)
        self._counts["rejected"][reject.action or UNREADABLE_ACTION] += 1
        self._counts["reject_codes"][reject.code] += 1
        is_accepted = bool(self._known_rejects) and entry_of(reject) in self._known_rejects
        self._counts["accepted_rejects"][reject.code] += is_accepted
        self._new_rejects += not is_accepted
        add_reject_sample(self._account.reject_samples, reject, is_accepted=is_accepted)
        if (defect := defect_type(reject)) is not None:
            self._counts["defects"][defect] += 1
        self._full_feeds.reject(reject, is_accepted=is_accepted)
        self._changes.reject(reject)
        limit = self._settings.max_rejects
        if limit is not None and self._new_rejects > limit:
            raise TooManyRejectsError(
                f"{reject.message}; this is more than the {limit} rejects that ⟦max_rejects⟧ allows"
            )

    def _lose(self, loss: Loss) -> None:
        check_loss(loss, self._settings.refused, source=self._span.source)
        add_loss(self._account.losses, loss)

    def _write(self, record: RecordOrMembership) -> None:
        """Write the record that was adapted last, into a chunk of its feed if it has one."""
        try:
            is_group = isinstance(record, Membership)
            self._chunks.write(record, self._groups_feed if is_group else self._current.target)
        except Exception as exc:
            reject = reject_record(record, record_error(exc), stage="write")
            self._reject_version(reject, self._origin if isinstance(record, Record) else None)
            self._reject(replace(reject, data=carried_bytes(record)))

    def _enter_feed(self, record: Record) -> None:
        """Make the feed of a record the current one."""
        provenance = record.provenance
        key = feed_key(provenance)
        if key not in self._adapters:
            self._enter_header(provenance, memberships=False)
            feed = self._name_feed(provenance)
            is_full = feed is not None and feed.feedtype == FULL
            origin = provenance.source if is_full and not self._settings.target.feedtype else None
            target_feed = TargetFeed(feed=feed, origin=origin)
            self._adapters[key] = (target_feed, self._make_adapter(feed, record))
        target_feed, adapter_of_feed = self._adapters[key]
        target = target_feed if self._has_feeds else None
        self._current = CurrentFeed(provenance, target, adapter_of_feed)

    def _enter_header(self, stated: Provenance, *, memberships: bool) -> None:
        """Check the feed of a record, which may come from an archive, and note a full one."""
        where = f"{stated.source}:{stated.line}" if stated.line else stated.source
        used = self._settings.reading.used_header
        check_header(stated.datasource, stated.feedtype, where=where, used=used)
        self._full_feeds.enter(stated, memberships=memberships, has_records=True)

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
                f"{self._span.source}: no datasource in the source; expected ⟦datasource NAME⟧"
            )
        if self._format.keeps_everything and (target.datasource or target.feedtype):
            adapt = adapter(target)
            return lambda record: adapt(_in_feed(target, record))
        feedtype = record.provenance.feedtype
        if self._format.keeps_unlisted and feedtype not in (None, INCREMENTAL, METADATA_AND_URL):
            detail = f"{feedtype}: the target keeps what the feed leaves out; delete that yourself"
            self._lose(Loss(field="feedtype", url=record.url, detail=detail))
        if feed is not None:
            target = replace(target, datasource=feed.datasource, feedtype=feed.feedtype)
        return adapter(target)

    def _enter_groups(self, membership: Membership) -> None:
        """Make the groups feed of a group the current one."""
        now = membership.provenance
        if feed_key(now) != feed_key(self._groups_provenance):
            self._groups_provenance = now
            self._enter_header(now, memberships=True)
            self._groups_feed = self._target_groups(now)

    def _target_groups(self, provenance: Provenance) -> TargetFeed:
        """Return the groups feed; formats that hold documents too have none."""
        target = self._settings.target
        if self._format.holds.memberships and self._format.holds.actions:
            return TargetFeed(memberships=True)
        datasource = target.datasource or provenance.datasource or ""
        if not datasource and self._has_feeds:
            raise ConfigError(
                f"{self._span.source}: groups without a groupsource; expected ⟦datasource NAME⟧, or"
                " ⟦groups leave-out⟧"
            )
        is_full = (target.feedtype or provenance.feedtype) == FULL
        feed = Feed(datasource=datasource, feedtype=FULL if is_full else INCREMENTAL)
        origin = provenance.source if is_full and not target.feedtype else None
        format_ = format_of(target, memberships=True)
        name = format_.name if format_ and format_ is not self._format else None
        return TargetFeed(feed=feed, origin=origin, memberships=True, format=name)

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
        return feed, make_encoder(self._settings, feed, memberships=memberships)

    def _write_progress(self) -> None:
        self._progress_due_at = time.monotonic() + _PROGRESS_SECONDS
        records, size = self._counts["read"].total(), self._request.count.stored
        self._progress.write(self._span.name, SpanProgress(size, records, self._rejects.count))
        if not is_object(self._settings.folder):  # where it costs a request
            _check_cancelled(self._settings)

    def _close(self) -> Account:
        account = self._account
        account.bytes_read = self._request.count.total
        account.bytes_stored = self._request.count.stored
        for finished in self._chunks.finished:
            self._counts["written"].update(finished.records)
        self._counts["changed"] += self._steps.changed
        for name, counter in self._counts.items():
            setattr(account, name, dict(sorted((+counter).items())))
        account.full_feeds = list(self._full_feeds.feeds.values())
        account.holes = list(self._full_feeds.holes.values())
        account.chunks, account.files = self._finished_files()
        return account

    def _finished_files(self) -> tuple[list[Chunk], list[SpanFile]]:
        """Return the chunks and all files, with paths relative to the folder of the run."""
        chunks = self._chunks.finished
        lists = (self._rejects, self._uncrawled, self._filtered, self._changes)
        files = [
            SpanFile(path=chunk.path, bytes=chunk.bytes, sha256=chunk.sha256) for chunk in chunks
        ]
        files += [file.written for file in lists if file.written is not None]
        files += [] if self._lists is None else self._lists.written
        files += self._versions.written
        placed = [replace(chunk, path=self._attempt.path_of(chunk.path)) for chunk in chunks]
        return placed, [self._attempt.file(file) for file in files]


class FullFeedLog:
    """Collects the full feeds of one span, and their holes: rejects that may be documents."""

    def __init__(self, span: Span, target: Target) -> None:
        self._span, self._target = span, target
        format_ = find_format(span.format)
        self.is_archive = format_ is not None and format_.keeps_everything
        states_feeds = span.format == UNREADABLE or (
            format_ is not None and format_.keeps_feedtypes
        )
        self._unknown = FULL if states_feeds else None
        self.feeds: dict[tuple[str | None, str | None, bool], FullFeed] = {}
        self.holes: dict[tuple[str, str | None], Hole] = {}

    def enter(
        self, origin: Provenance | FeedHeader, *, memberships: bool, has_records: bool
    ) -> None:
        """Add the feed of a record, or a feed without records, if it is to be full."""
        if (self._target.feedtype or origin.feedtype) != FULL:
            return
        feed = FullFeed(
            datasource=self._target.datasource or origin.datasource or None,
            origin=None if self._target.feedtype else origin.source,
            source=origin.source,
            span=self._span.name,
            memberships=memberships,
            has_records=has_records,
            is_archived=self.is_archive,
        )
        key = feed.datasource, feed.origin, memberships
        if has_records or key not in self.feeds:
            self.feeds[key] = feed

    def reject(self, reject: Reject, *, is_accepted: bool) -> None:
        """Add a reject that may be of a full feed; accepted ones and deletions are no holes.

        A part of a stream that could not be read may be documents of any feed of its source.
        """
        is_known = reject.stage != "read" or reject.feedtype is not None
        if (self._target.feedtype or (reject.feedtype if is_known else self._unknown)) != FULL:
            return
        source = "" if self._target.feedtype else reject.source
        datasource = (self._target.datasource or reject.datasource) if is_known else None
        hole = self.holes.get((source, datasource))
        count = not (is_accepted or reject.action in DELETIONS)
        if hole is None or (count and not hole.count):
            name, first = self._span.name, reject.message
            hole = Hole(source=source, span=name, count=0, first=first, datasource=datasource)
        self.holes[source, datasource] = replace(hole, count=hole.count + count)


def _accept_rejects(account: Account, span: Span, settings: Settings) -> Account:
    """Return the account of an earlier attempt with the rejects that are accepted now."""
    known = load_known_rejects(settings.accepted_rejects)
    if not (known or account.accepted_rejects):
        return account
    accepted, samples = Counter[str](), dict[str, tuple[RejectSample, ...]]()
    full_feeds = FullFeedLog(span, settings.target)
    run = storage_of(settings.folder)
    for file in account.files:
        if file.path.endswith(SPAN_REJECTS):
            for reject in read_stored_rejects(run, file.path):
                is_accepted = entry_of(reject) in known
                accepted[reject.code] += is_accepted
                add_reject_sample(samples, reject, is_accepted=is_accepted)
                full_feeds.reject(reject, is_accepted=is_accepted)
    counts = dict(sorted((+accepted).items()))
    holes = list(full_feeds.holes.values())
    return replace(account, accepted_rejects=counts, reject_samples=samples, holes=holes)


def _describe_counts(account: Account) -> str:
    names = ("read", "written", "rejected", "filtered")
    counts = [f"{sum(getattr(account, name).values())} {name}" for name in names]
    return ", ".join([*counts, f"{len(account.chunks)} chunks"])


def _in_feed(target: Target, item: _Item) -> _Item:
    """Return a record or a group for an archive, as one of the feed that the user names."""
    provenance = replace(
        item.provenance,
        datasource=target.datasource or item.provenance.datasource,
        feedtype=target.feedtype or item.provenance.feedtype,
    )
    return replace(item, provenance=provenance)
