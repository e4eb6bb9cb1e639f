"""The runs that convert the deliveries of a spool for one appliance, each in a folder of its own.

A full feed for an appliance without full feeds is preceded by the deletions of the documents that
it leaves out.
"""

import filecmp
import logging
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.convert.inputs.source_runs import settings_of, steps_of
from feedferry.pipelines.convert.inputs.step_inputs import prepare_steps
from feedferry.pipelines.convert.publication.account_checks import check_account
from feedferry.pipelines.convert.publication.publish import publish
from feedferry.pipelines.convert.publication.stated_update import store_stated
from feedferry.pipelines.folders.gateway_folders import FORWARD
from feedferry.pipelines.folders.locks import WORK
from feedferry.pipelines.folders.manifest import REPORT, read_manifest
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.serve.forward_journal import ForwardJournal, run_folder
from feedferry.pipelines.serve.gateway_acls import GatewayAcls
from feedferry.pipelines.serve.rehearsal.index import INDEX_FILE, open_index, write_deletions
from feedferry.pipelines.serve.spool_consumer import name
from feedferry.pipelines.serve.worker_process import SetAsideError, WorkerProcess
from feedferry.schemas.account import Account, Chunk, merge
from feedferry.schemas.delivery import Delivery
from feedferry.schemas.errors import ConfigError, SourceError, StoppedError
from feedferry.schemas.feed import CLEANUP, FULL, INCREMENTAL, check_datasource
from feedferry.schemas.reject import UNKNOWN_ENCODING, UNKNOWN_FORMAT, UNREADABLE
from feedferry.schemas.span import Span
from feedferry.schemas.units import counted
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.convert import convert_on
from feedferry.transforms.conversion.file_spans import begin
from feedferry.transforms.conversion.full_feeds import DELETIONS
from feedferry.transforms.formats import GSA_FEED, Format, by_name
from feedferry.transforms.rules.adapt import GROUPS_LEFT_OUT
from feedferry.transforms.sinks.push.model import count_records
from feedferry.transforms.sinks.push.wire.protocol import ApplianceProtocol
from feedferry.transforms.sources.spool import is_whole, spans_of
from feedferry.transforms.steps.kept_acls import CHANGED_ACLS, SENT_ACLS
from feedferry.transforms.storage.atomic import link_or_copy

_log = logging.getLogger(__name__)
_DELIVERY = "delivery.json"
_LEFT_OUT = "left-out.xml"
_LEFT_OUT_NOW = "left-out-now.xml"
_REJECTS = "rejects"
_NO_GROUPS = "no-groups.xml"
_DELETIONS = ": documents left out"


class PartialFeedError(SetAsideError):
    """A full feed cannot be forwarded as a whole, as records of it are rejected or refused."""


Convert = Callable[[list[Span], Settings, int], Account]
"""Converts the spans of a delivery, none larger than a number of bytes."""


def convert_spans(spans: list[Span], settings: Settings, span_bytes: int) -> Account:
    """Convert the spans of a delivery, in parts, and the ACLs whose decisions it changes.

    Where ACLs are kept, those that a damaged part of a single delivery may have replaced are
    unknown, and documents below them are withheld: if it were set aside, the target would show
    earlier versions. Several deliveries raise StoppedError, and are converted one by one.
    """
    begin_file = partial(begin, span_bytes=span_bytes, options=settings.reading)
    settles = settings.kept_acls is not None and len(spans) == 1
    changed = prepare_steps(spans, settings, run=settings.writing.run, settles_doubts=settles)
    begun = (part for span in (*changed, *spans) for part in begin_file(span))
    return merge(account for part in begun for account in convert_on(part, settings))


@dataclass(kw_only=True, eq=False)
class DeliveryRuns:
    """Converts deliveries, each into the folder of its run.

    `options` apply to each conversion, which `convert_spans` does in the process of the `worker`.
    `journal` returns the outcomes so far. `acls` are those that are kept for a target with
    decisions; it is None for other targets.
    """

    spool: Path
    options: ConvertOptions
    protocol: ApplianceProtocol
    worker: WorkerProcess
    convert_spans: Convert
    journal: Callable[[], ForwardJournal]

    def __post_init__(self) -> None:
        self._folder = self.spool / FORWARD
        self._index = self.spool / INDEX_FILE
        has_decisions = by_name(self.protocol.default_format).needs_decisions
        self.acls = GatewayAcls.of(self.spool, self.options) if has_decisions else None

    def format_for(self, delivery: Delivery) -> Format | None:
        """Return the format of the run of a delivery, None for groups that have no place.

        For a target with decisions, the run keeps the groups, and sends none of them.
        """
        is_taken = self.protocol.endpoint_of(delivery.format) is not None
        format_ = by_name(delivery.format)
        if is_taken or (format_.holds_only_memberships and self.acls is None):
            return format_ if is_taken else None
        return by_name(self.protocol.default_format)

    def is_ready(self, delivery: Delivery) -> bool:
        """Whether the deletions of a delivery are known.

        All forwarded deliveries have to be digested too, as they may have taken URLs.
        """
        if not self._needs_deletions(delivery):
            return True
        if not self._index.exists():
            return False
        with open_index(self._index) as index:
            return index.deliveries.is_digested(max(delivery.ordinal, self.journal().last))

    def convert(
        self, delivery: Delivery, to_format: Format, later: Sequence[Delivery] = ()
    ) -> Path:
        """Convert a delivery unless a finished run can be used; return the folder of the run.

        Incremental feeds that have arrived `later` are in the same run.
        """
        output = run_folder(self.spool, delivery.ordinal)
        work = output / WORK
        options = self._options_of(delivery, to_format, output)
        stated = self._inputs_of((delivery, *later), work, options)
        if _is_finished(output, to_format, stated) and not self._is_outdated(delivery, work):
            return output
        if self.acls is not None:
            self._keep_sent()
        shutil.rmtree(output, ignore_errors=True)
        work.mkdir(parents=True)
        if (self._folder / SENT_ACLS).exists():
            link_or_copy(self._folder / SENT_ACLS, work / SENT_ACLS)
        (output / _DELIVERY).write_bytes(stated)
        settings = settings_of(options, (), work, {})
        writing = replace(settings.writing, run=output.name, generation=delivery.ordinal)
        settings = replace(settings, writing=writing)
        spans = self._spans_of(delivery, later, work)
        sizes = [each.bytes for each in (delivery, *later)]
        arguments = (spans, settings, self.options.span_bytes_for(sizes))
        try:
            account = self.worker.run(self.convert_spans, *arguments, size=sum(sizes))
        except StoppedError as exc:  # an ACL inherits from a doubtful one of the same delivery
            if self.acls is not None:  # of another delivery, or a groups feed of a step is damaged
                raise
            raise SetAsideError(exc.text) from exc
        self._check(account, delivery)
        if self.acls is not None:
            store_stated(account, settings)
        publish(account, settings, output=output, spans=spans, options=options)
        self._report(account, names(delivery, later), output)
        return output

    def later_of_run(self, delivery: Delivery) -> list[Delivery] | None:
        """Return the later deliveries in the run of a delivery; None if it has not been made."""
        output = run_folder(self.spool, delivery.ordinal)
        _, *lines = _lines_of(output / _DELIVERY)
        made = [msgspec.json.decode(line, type=Delivery) for line in lines]
        return made[1:] if (output / REPORT).exists() and made[:1] == [delivery] else None

    def remember(self, delivery: Delivery) -> None:
        """Keep the ACLs of a delivery that is forwarded; this may be repeated."""
        if self.acls is not None:
            self.acls.remember(run_folder(self.spool, delivery.ordinal) / WORK)
            (self._folder / SENT_ACLS).unlink(missing_ok=True)

    def clear(self, ordinal: int) -> None:
        """Remove the folder of a run, except rejects and their report. Can be repeated."""
        output = run_folder(self.spool, ordinal)
        has_rejects = (output / _REJECTS).exists()
        shutil.rmtree(output / WORK if has_rejects else output, ignore_errors=True)

    def clear_settled(self) -> None:
        """Clear runs that were settled, but not cleared before the gateway was killed."""
        for path in self._folder.iterdir():
            if path.name.isdecimal() and self.journal().is_settled(int(path.name)):
                self.clear(int(path.name))

    def _inputs_of(
        self, deliveries: Sequence[Delivery], work: Path, options: ConvertOptions
    ) -> bytes:
        """Return the inputs of a finished run: its steps, the ACLs before it, and its deliveries.

        A run whose ACLs are remembered was made of those before.
        """
        stated = b"\n".join(map(msgspec.json.encode, deliveries))
        if self.acls is not None and self.acls.has_remembered(work):
            return _lines_of(work.parent / _DELIVERY)[0] + stated
        acls = "" if self.acls is None else self.acls.signature()
        accepted = ",".join(sorted(options.accept_loss))
        return f"{steps_of(options).fingerprint()} {accepted} {acls}\n".encode() + stated

    def _keep_sent(self) -> None:
        """Keep the changed ACLs of a run that is not settled, and has sent any of them.

        It is made again, with other deliveries, as an incremental feed, or not at all, if its
        delivery was removed. A run has those, too, that were kept when it was made.
        """
        for work in sorted(self._folder.glob(f"[0-9]*/{WORK}")):
            is_settled = self.journal().is_settled(int(work.parent.name))
            if not is_settled and (work / CHANGED_ACLS).exists():
                link_or_copy(work / CHANGED_ACLS, self._folder / SENT_ACLS)
                shutil.rmtree(work.parent, ignore_errors=True)

    def _needs_deletions(self, delivery: Delivery) -> bool:
        """Whether a full feed is for an appliance without full feeds."""
        is_full = is_whole(delivery) and not _has_only_groups(delivery)
        return is_full and not self.protocol.has_full_feeds

    def _spans_of(self, delivery: Delivery, later: Sequence[Delivery], work: Path) -> list[Span]:
        """Return the deletions of a full feed where the target needs them, and the deliveries."""
        deletions: list[Span] = []
        if self._needs_deletions(delivery):
            path = work / _LEFT_OUT
            if self._write_deletions(delivery, path):
                source = self._deletions_source(delivery)
                deletions.append(Span(source=source, path=str(path), format=GSA_FEED.name))
            delivery = replace(delivery, feedtype=INCREMENTAL)
        spool = Span(source=str(self.spool), path=str(self.spool))
        if delivery.feedtype == CLEANUP:
            delivery, spool = _written_cleanup(delivery, work), replace(spool, path=str(work))
        return [*deletions, *spans_of([delivery, *later], spool, first=len(deletions))]

    def _write_deletions(self, delivery: Delivery, path: Path) -> int:
        is_settled = self.journal().is_settled
        return write_deletions(self._index, delivery, path, is_settled=is_settled)

    def _deletions_source(self, delivery: Delivery) -> str:
        return f"{self.spool}#{delivery.ordinal}{_DELETIONS}"

    def _is_outdated(self, delivery: Delivery, work: Path) -> bool:
        """Whether a run would delete URLs that another datasource has taken since it was made."""
        if not self._needs_deletions(delivery):
            return False
        with suppress(OSError):
            self._write_deletions(delivery, work / _LEFT_OUT_NOW)
            return not filecmp.cmp(work / _LEFT_OUT, work / _LEFT_OUT_NOW, shallow=False)
        return True

    def _options_of(self, delivery: Delivery, to_format: Format, output: Path) -> ConvertOptions:
        options = self.options if self.acls is None else self.acls.options_of(self.options)
        options = replace(
            options,
            output=str(output),
            to_format=to_format.name,
            allow_empty_full=True,  # the client requested it
            accept_holes=True,  # a full feed with rejects is set aside, see `_check`
        )
        if delivery.profile and to_format.has_feedtypes:
            try:
                as_datasource = "the profile as a datasource:"
                datasource = check_datasource(delivery.profile, label=as_datasource)
            except ConfigError as exc:
                raise SetAsideError(str(exc)) from exc
            options = replace(options, datasource=datasource)
        return options

    def _check(self, account: Account, delivery: Delivery) -> None:
        check_account(account)
        if account.reject_codes.get(UNREADABLE):
            raise SourceError(
                f"{name(delivery)}: {delivery.path} cannot be read; it is tried again"
            )
        for code in (UNKNOWN_ENCODING, UNKNOWN_FORMAT):
            for sample in account.reject_samples.get(code, ()):
                raise SetAsideError(sample.message)
        if not is_whole(delivery) or (self.acls is not None and _has_only_groups(delivery)):
            return  # a group of which a membership is rejected is kept as unknown
        if self.acls is None:
            kinds = account.rejected.items()
            missing = sum(count for action, count in kinds if action not in DELETIONS)
        else:  # an ACL of an earlier delivery that is rejected is none of this one
            missing = sum(hole.count for hole in account.holes)
        if missing:
            (first, *_), *_ = account.reject_samples.values()
            raise PartialFeedError(
                f"a full feed with {counted(missing, 'reject')}, as {first.message}; expected all"
                " of it, as it deletes what it leaves out"
            )

    def _report(self, account: Account, label: str, output: Path) -> None:
        """Report deletions, losses, and records that are not forwarded."""
        chunks = account.chunks
        left_out = sum(count_records(of) for of in chunks if of.source.endswith(_DELETIONS))
        if left_out:
            _log.info("%s", f"{label}: {left_out} documents that it leaves out are deleted")
        if changed := count_changed(chunks):
            _log.info("%s", f"{label}: {counted(changed, 'earlier document')} with a new ACL")
        filtered, notices = {**account.filter_codes}, {**account.notices}
        if self.acls is not None and (groups := filtered.pop(GROUPS_LEFT_OUT, 0)):
            del notices[GROUPS_LEFT_OUT]
            _log.info("%s", f"{label}: {counted(groups, 'group')} kept in {self.acls.path}")
        for notice in notices.values():
            _log.info("%s", f"{notice.first.message}; {notice.count} in all")
        for field, loss in account.losses.items():
            first = loss.samples[0]
            _log.info(
                "%s",
                f"{label}: without {field}: {loss.count}, as {first.url}: {first.detail}",
            )
        if filtered:
            _log.info("%s", f"{label}: {_format_counts(filtered)} left out")
        if account.rejected:
            nothing = "" if account.chunks else "; no record is sent"
            _log.warning(
                "%s",
                f"{label}: {_format_counts(account.reject_codes)} rejected, in"
                f" {output}/rejects/{nothing}",
            )


def names(delivery: Delivery, later: Sequence[Delivery]) -> str:
    """Return the name of the deliveries of a run in a message."""
    if not later:
        return name(delivery)
    return f"deliveries {delivery.ordinal} to {later[-1].ordinal}"


def _has_only_groups(delivery: Delivery) -> bool:
    return by_name(delivery.format).holds_only_memberships


def _written_cleanup(delivery: Delivery, work: Path) -> Delivery:
    """Write the removal of all groups of a groupsource as a full feed without groups."""
    size = (work / _NO_GROUPS).write_bytes(b"<xmlgroups/>\n")
    return replace(delivery, path=_NO_GROUPS, bytes=size, feedtype=FULL)


def count_changed(chunks: Iterable[Chunk]) -> int:
    """Return the number of documents of earlier deliveries whose decisions have changed."""
    return sum(count_records(chunk) for chunk in chunks if chunk.source == CHANGED_ACLS)


def _is_finished(output: Path, to_format: Format, stated: bytes) -> bool:
    """Whether there is a finished run of these inputs for this target.

    The ordinal may have belonged to a delivery that was removed from the journal.
    """
    source = output / _DELIVERY
    if not (output / REPORT).exists() or not source.exists():
        return False
    if source.read_bytes() != stated:
        return False
    return all(chunk.format == to_format.name for chunk in read_manifest(output))


def _lines_of(path: Path) -> list[bytes]:
    """Return the lines of a file, an empty one without it."""
    try:
        return path.read_bytes().splitlines(keepends=True) or [b""]
    except FileNotFoundError:
        return [b""]


def _format_counts(codes: dict[str, int]) -> str:
    return ", ".join(f"{count} {code}" for code, count in codes.items())
