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

from msgspec.structs import replace

from feedferry.schemas.account import (
    Account,
    RejectSample,
    SpanFile,
    add_reject_sample,
)
from feedferry.schemas.avro import carried_bytes
from feedferry.schemas.choices import URL_CHECKS
from feedferry.schemas.errors import (
    FatalError,
    FeedferryError,
    RecordError,
)
from feedferry.schemas.feed import (
    FULL,
    INCREMENTAL,
    FeedHeader,
)
from feedferry.schemas.membership import Membership, RecordOrMembership
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Record
from feedferry.schemas.reject import (
    Filtered,
    Reject,
    record_error,
    reject_record,
)
from feedferry.schemas.span import Span, SpanEnd
from feedferry.transforms.conversion.batch_writer import BatchWriter, SingleResult
from feedferry.transforms.conversion.chunk import ChunkWriter
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.feed_targets import FeedTargets, in_feed
from feedferry.transforms.conversion.full_feeds import FullFeedLog
from feedferry.transforms.conversion.span_account import UNREADABLE_ACTION, SpanAccount
from feedferry.transforms.conversion.span_progress import SpanProgress
from feedferry.transforms.conversion.withholding import Withholding
from feedferry.transforms.formats import (
    ReadResult,
    find_format,
)
from feedferry.transforms.formats.base import Outcome
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.formats.holding.adapt_rules import rejected
from feedferry.transforms.formats.holding.values import doubtful_url, is_unserved
from feedferry.transforms.formats.holding.values import notices as value_notices
from feedferry.transforms.rules.adapt import KEPT_GROUPS, adapt_membership
from feedferry.transforms.rules.known_rejects import entry_of
from feedferry.transforms.rules.normalize import normalize
from feedferry.transforms.rules.older_versions import VersionLog
from feedferry.transforms.sources import SpanRequest, read_span
from feedferry.transforms.steps import AppliedSteps
from feedferry.transforms.steps.kept_acls import has_changed_acls
from feedferry.transforms.steps.run_lists import RunLists
from feedferry.transforms.steps.stated.group_log import GROUPS, GroupLog
from feedferry.transforms.steps.stated.stated_log import STATED, StatedLog
from feedferry.transforms.storage.atomic import AtomicFile, read_stored_rejects
from feedferry.transforms.storage.run_folders.attempts import SPAN_REJECTS, Attempt
from feedferry.transforms.storage.storage import Storage, is_object

CANCELLED = "cancelled"
"""The file in the folder of a run that ends its workers: runners may let tasks run to the end."""

_COLLECTED_OBJECTS = 20_000
_PROGRESS_SECONDS = 0.5
_PROGRESS_RECORDS = 256
_RESTATED_BYTES = len(INCREMENTAL) - len(FULL)
_log = logging.getLogger(__name__)


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
                settings.progress_log.finish(wrong, None)


def convert(span: Span, settings: Settings, *, by: type[Attempt] = Attempt) -> Account:
    """Convert one span into chunk files; return its account.

    An account of an earlier attempt is returned if its files are complete. Errors that a user can
    fix are not raised: the account then says why the span was stopped.
    """
    older = settings.versions
    if settings.older_versions and not older.may_be_in(span.name):
        settings = replace(settings, older_versions="")
    version = settings.older_versions
    attempt = by(settings.storage, span, verify=settings.verify, version=version)
    progress = settings.progress_log
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
    if settings.progress is not None and settings.storage.get(CANCELLED) is not None:
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


class _ProgressWriter:
    """Writes the progress of a span, at most twice a second; raises if the job is cancelled."""

    def __init__(self, span: Span, settings: Settings) -> None:
        self._span = span
        self._settings = settings
        self._log = settings.progress_log
        self._due_at = time.monotonic() + _PROGRESS_SECONDS

    def write_if_due(self, account: SpanAccount, stored_bytes: int) -> None:
        if time.monotonic() < self._due_at:
            return
        self._due_at = time.monotonic() + _PROGRESS_SECONDS
        records, rejects = account.counts["read"].total(), account.rejects.count
        self._log.write(self._span.name, SpanProgress(stored_bytes, records, rejects))
        if not is_object(self._settings.folder):  # where it costs a request
            _check_cancelled(self._settings)


class SpanConversion:
    """The conversion of one span: from its source to its chunks, one record at a time.

    What is counted and set aside, the feeds, and batches are objects of their own.
    """

    def __init__(self, span: Span, settings: Settings, attempt: Attempt) -> None:
        self._span = span
        self._settings = settings
        self._attempt = attempt
        self._account = SpanAccount(span, settings, attempt.storage)
        self._feeds = FeedTargets(span, settings, self._account)
        target_format = self._feeds.format
        self._chunks = ChunkWriter(
            attempt.storage,
            span,
            encoder_of=self._feeds.encoder_of,
            max_bytes=settings.max_chunk_bytes,
            reserved_bytes=_RESTATED_BYTES if self._feeds.has_feeds else 0,
            max_records=1 if target_format.has_one_record else settings.max_chunk_records,
        )
        self._older = settings.versions
        reading = replace(
            settings.reading,
            batch_records=0 if settings.older_versions else settings.batch_records,
            acls_in_blocks=target_format.needs_decisions,
        )
        self._request = SpanRequest(
            span=span,
            config=settings.sources.get(span.source),
            options=reading,
            see=None if settings.state is None else self._account.changes.add,
            state=settings.state,
        )
        self._progress = _ProgressWriter(span, settings)
        self._origin: Record | None = None
        steps = settings.steps
        if has_changed_acls(span):  # documents of earlier runs, of which no version is rejected
            steps, settings = steps.of_changed_acls(), replace(settings, withhold=True)
        self._steps = steps.make(settings.local)
        self._withholding = Withholding(settings, self._feeds, self._account, self._steps)
        self._batches = BatchWriter(
            self._chunks,
            self._account.account,
            self._account.counts["read"],
            self._steps,
            size=settings.batch_records,
            current=lambda: self._feeds.current,
        )
        self._lists = _lists_of(span, settings, attempt, self._steps)
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
            for files in (self._chunks, self._account, self._versions, self._lists):
                if files is not None:
                    files.close(whole=whole)
        written = self._batches
        total = self._account.counts["read"].total()
        _log.debug(
            "span %s: %d of %d records by a plan, in %d batches, by %d plans; %d one by one",
            *(self._span.name, written.planned, total),
            *(written.batches, written.plans, total - written.planned),
        )
        return self._finish()

    def _finish(self) -> Account:
        """Return the account, with paths relative to the folder of the run."""
        chunks = self._chunks.finished
        self._account.counts["changed"] += self._steps.changed
        account, lists = self._account.finish(chunks)
        files = [
            *(SpanFile(path=file.path, bytes=file.bytes, sha256=file.sha256) for file in chunks),
            *lists,
            *([] if self._lists is None else self._lists.written),
            *self._versions.written,
        ]
        account.bytes_read = self._request.count.total
        account.bytes_stored = self._request.count.stored
        account.chunks = [replace(file, path=self._attempt.path_of(file.path)) for file in chunks]
        account.files = [self._attempt.file(file) for file in files]
        return account

    def _without_batches(self, results: Iterable[ReadResult]) -> Iterator[SingleResult]:
        """Write the batches that have a plan; yield the records of the others, and all else."""
        for total, result in enumerate(results, start=1):
            is_batch = isinstance(result, RecordBatch | ElementBlock)
            if is_batch or total % _PROGRESS_RECORDS == 0:
                self._progress.write_if_due(self._account, self._request.count.stored)
            if isinstance(result, RecordBatch | ElementBlock):
                yield from self._batches.write(result)
            else:
                yield result

    def _adapt(self, results: Iterable[SingleResult]) -> Iterator[RecordOrMembership]:
        """Yield the records that the target holds; count all, and set the others aside."""
        counts, feeds = self._account.counts, self._feeds
        read = counts["read"]
        for result in results:
            if not isinstance(result, Record):
                yield from self._take_other(result)
                continue
            self._origin = result
            action: str = result.action._value_  # twice as fast as `value`
            read[action] += 1
            now, before = result.provenance, feeds.current.provenance
            # Records of one feed share these strings, so that identity is enough.
            if now is not before and (
                now.datasource is not before.datasource
                or now.feedtype is not before.feedtype
                or now.source is not before.source
            ):
                feeds.enter(result)
                yield from self._withholding.of_feed(now)
            if not self._steps.has_any:
                yield from self._adapt_one(result, result)
                continue
            if self._has_versions:
                self._versions.add(result, read.total())
            items = self._steps.apply(result)
            if self._lists is not None:
                self._lists.add(result, items)
            if len(items) > 1:
                counts["expanded"][action] += len(items) - 1
            for item in items:
                if isinstance(item, Record):
                    yield from self._adapt_one(item, result)
                elif isinstance(item, Filtered | Reject):
                    yield from self._set_aside(item, result)
        yield from self._withholding.at_end()

    def _adapt_one(self, stated: Record, origin: Record) -> Iterator[Record]:
        """Yield what the target holds of a record, which may have been changed on the way."""
        try:
            record = normalize(stated)
            outcomes, losses = self._feeds.current.adapter(record)
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
            self._account.lose(loss)
        if len(outcomes) > 1:
            self._account.counts["expanded"][origin.action._value_] += len(outcomes) - 1
        for made in outcomes:
            outcome = self._without_older(made, origin)
            if isinstance(outcome, Record):
                yield outcome
            else:
                yield from self._set_aside(outcome, origin)

    def _without_older(self, outcome: Outcome, origin: Record) -> Outcome:
        """Return an outcome, or a reject in place of a version older than a rejected one."""
        if not self._older.refused or not isinstance(outcome, Record):
            return outcome
        number = self._account.counts["read"].total()
        return self._older.check(origin, self._span.name, number) or outcome

    def _note_values(self, record: Record, outcomes: Iterable[Outcome]) -> None:
        if self._settings.target.urls != URL_CHECKS[0] and (doubt := doubtful_url(record)):
            raise RecordError("url-doubtful", doubt)
        for notice in value_notices(record, outcomes):
            self._account.note(notice)
        if record.acl is not None and record.acl.permits_nobody and record.acl.is_waiting:
            self._account.wait(record, record.acl.inherit_from or "")

    def _take_other(
        self, result: Membership | Reject | Filtered | Notice | FeedHeader | SpanEnd
    ) -> Iterator[RecordOrMembership]:
        """Count a result that is no record; yield a group if the target holds groups."""
        if isinstance(result, SpanEnd):
            self._account.account.next = self._span.next(result)
            return
        if isinstance(result, Notice):
            self._account.note(result)
            return
        if isinstance(result, FeedHeader):
            self._feeds.take_header(result)
            if self._lists is not None:
                self._lists.enter(result)
            yield from self._withholding.of_feed(result)
            return
        action = result.action.value if isinstance(result, Membership) else result.action
        count = result.count if isinstance(result, Filtered) else 1
        self._account.counts["read"][action or UNREADABLE_ACTION] += count
        if isinstance(result, Reject):
            self._reject_version(result, None)
            self._account.reject(result)
            yield from self._withholding.of_reject(result)
        elif isinstance(result, Filtered):
            self._account.filter(result)
        else:
            items = self._steps.apply(result)
            if self._lists is not None:
                self._lists.add_group(result, items)
            for item in items:
                if isinstance(item, Membership):
                    yield from self._take_membership(item)
                elif isinstance(item, Filtered):
                    self._account.filter(item)
                elif isinstance(item, Reject):
                    self._account.reject(replace(item, data=carried_bytes(result)))

    def _take_membership(self, membership: Membership) -> Iterator[Membership]:
        target = self._settings.target
        outcome = adapt_membership(membership, target)
        if isinstance(outcome, Membership):
            self._feeds.enter_groups(membership)
            yield in_feed(target, outcome) if self._feeds.format.keeps_everything else outcome
        else:
            is_kept = self._lists is not None and self._lists.keeps_groups
            self._account.filter(outcome, KEPT_GROUPS if is_kept else None)

    def _set_aside(self, outcome: Reject | Filtered, record: Record) -> Iterator[Record]:
        if isinstance(outcome, Reject):
            self._reject_version(outcome, record)
        self._account.set_aside(outcome, record)
        if isinstance(outcome, Reject):
            yield from self._withholding.of_reject(outcome, record)

    def _reject_version(self, reject: Reject, origin: Record | None) -> None:
        if self._lists is not None:
            self._lists.reject(reject, origin)
        if self._has_versions:
            self._versions.reject(reject, origin, self._account.counts["read"].total())

    def _write(self, record: RecordOrMembership) -> None:
        """Write the record that was adapted last, into a chunk of its feed if it has one."""
        try:
            is_group = isinstance(record, Membership)
            self._chunks.write(
                record, self._feeds.groups if is_group else self._feeds.current.target
            )
        except Exception as exc:
            reject = reject_record(record, record_error(exc), stage="write")
            self._reject_version(reject, self._origin if isinstance(record, Record) else None)
            self._account.reject(replace(reject, data=carried_bytes(record)))
            for hidden in self._withholding.of_reject(reject, self._origin):
                self._chunks.write(hidden, self._feeds.current.target)


def _lists_of(
    span: Span, settings: Settings, attempt: Attempt, steps: AppliedSteps
) -> RunLists | None:
    """Return the lists of a span, None without steps; a job lists the ACLs of documents, too."""
    if not steps.has_any:
        return None
    storage = attempt.lists
    if has_changed_acls(span):
        has_origins = settings.steps.of_changed_acls().rewrites_urls
        return RunLists(storage, span.name, steps, has_origins=has_origins)
    kept = _kept_logs(span, settings, storage) if settings.keeps_stated else None
    has_origins = settings.steps.rewrites_urls
    return RunLists(storage, span.name, steps, has_origins=has_origins, kept=kept)


def _kept_logs(
    span: Span, settings: Settings, storage: Storage
) -> tuple[StatedLog | None, GroupLog]:
    """Return the logs of what a job keeps: of ACLs if steps map them, and of groups."""
    target, format_ = settings.target, find_format(span.format)
    mapping = settings.steps.mapping(settings.local, has_groups=True)
    stated = None
    if mapping is not None and mapping.is_needed:
        stated = StatedLog(
            AtomicFile(storage, f"{span.name}{STATED}"),
            mapping,
            datasource=target.datasource,
            feedtype=target.feedtype,
            withholds=settings.withhold,
        )
    groups = GroupLog(
        AtomicFile(storage, f"{span.name}{GROUPS}"),
        feedtype=target.feedtype,
        has_only_groups=format_ is not None and format_.holds_only_memberships,
    )
    return stated, groups


def _accept_rejects(account: Account, span: Span, settings: Settings) -> Account:
    """Return the account of an earlier attempt with the rejects that are accepted now."""
    known = settings.known_rejects
    if not (known or account.accepted_rejects):
        return account
    accepted, samples = Counter[str](), dict[str, tuple[RejectSample, ...]]()
    full_feeds = FullFeedLog(span, settings.target)
    run = settings.storage
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
