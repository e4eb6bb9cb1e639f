"""One delivery on its way through a gateway: converted as `convert` does, pushed as `push` does."""

import filecmp
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.locks import WORK
from pipelines.convert.publish import publish
from pipelines.convert.settings import check_account, settings_of
from pipelines.push.run import folder_of, read_manifest, settle
from pipelines.serve.delivery_conversion import Conversion, SetAside
from pipelines.serve.forward_journal import Forwarded, Ledger, State
from pipelines.serve.receiver import INDEX
from pipelines.serve.rehearsal import full_feed_deletions
from pipelines.serve.rehearsal.digest import TORN
from pipelines.serve.rehearsal.set_aside import MAX_ATTEMPTS, ended_too_often
from pipelines.serve.rehearsal.worker_process import WorkerEndedError
from schemas.account import Account, Chunk
from schemas.delivery import Delivery, Door
from schemas.errors import ConfigError, FatalError, FormatError, SourceError, TargetError
from schemas.feed import CLEANUP, FULL, INCREMENTAL, REPLACE, check_datasource
from schemas.reject import UNKNOWN_ENCODING, UNREADABLE
from schemas.span import Span
from transforms.convert import Settings
from transforms.formats import by_door, by_name
from transforms.sinks.push.model import ERASING, ApplianceProtocol, ResponseMeaning
from transforms.sinks.push.outcome import ACCEPTED, REFUSED, ChunkOutcome, PushAccount, count_of
from transforms.sinks.push.pusher import Pusher, PushPaths
from transforms.sinks.push.settings import PushSettings
from transforms.sinks.push.wire import gsa_responses
from transforms.sources.files import sniff_format
from transforms.sources.spool import Selection, is_whole, spans_of

FORWARD = "forward"
"""Folder of a spool where what is forwarded stands: the journal, and runs that need looking at."""

_TO = {
    ApplianceProtocol.FEEDERGATE: {
        Door.FEED: Door.FEED,
        Door.GROUPS: Door.GROUPS,
        Door.DATA: Door.FEED,
    },
    ApplianceProtocol.RECVDATA: {Door.FEED: Door.DATA, Door.DATA: Door.DATA},
}
_REPORT = "report.json"
_DELIVERY = "delivery.json"
_LEFT_OUT = "left-out.xml"
_NOW = "left-out-now.xml"
_REJECTS = "rejects"
_ATTEMPTS = "attempts"


class Voice(NamedTuple):
    """Who is told: `tell` takes what somebody has to look after, `remark` what is to be known."""

    tell: Callable[[str], None]
    remark: Callable[[str], None]


class _Report(msgspec.Struct):
    """What is read again of the report of a run."""

    account: Account


class Forwarder:
    """Forwards deliveries of a spool, each by a run of its own in a folder.

    `options` are those of each conversion; `ledger` tells what was forwarded before. `conversion`
    is not closed.
    """

    def __init__(  # noqa: PLR0913 - what the two halves of a delivery's way need
        self,
        spool: Path,
        options: ConvertOptions,
        settings: PushSettings,
        voice: Voice,
        ledger: Ledger,
        *,
        conversion: Conversion,
    ) -> None:
        self._spool = spool
        self._folder = spool / FORWARD
        self._options = options
        self._settings = settings
        self._tell, self._remark = voice
        self._ledger = ledger
        self._conversion = conversion

    def forward(self, delivery: Delivery, pusher: Pusher) -> Forwarded:
        """Return what became of a delivery; raise FeedferryError or OSError while that is open."""
        to_door = _TO[self._settings.appliance.protocol].get(delivery.door)
        if to_door is None:
            self._remark(f"{name(delivery)}: groups, which Thunderstone has no place for; left out")
            return Forwarded(ordinal=delivery.ordinal, state=State.LEFT_OUT, settled=0)
        try:
            self._check_index(delivery)
            if delivery.feedtype == CLEANUP:
                return self._clean_up(delivery, pusher)
            output = self._convert(delivery, by_door(to_door).name)
            return self._push(delivery, output, pusher)
        except SetAside as exc:
            self._tell(
                f"{name(delivery)}: {exc}; set aside, it stays in {delivery.path};"
                f" to try again: feedferry serve --spool {self._spool} --retry {delivery.ordinal}"
            )
            return Forwarded(
                ordinal=delivery.ordinal, state=State.SET_ASIDE, settled=0, reason=str(exc)
            )

    def is_ready(self, delivery: Delivery) -> bool:
        """Whether it is known what a delivery deletes.

        All that was forwarded has to be digested too: it may have made urls its own.
        """
        if not self._must_delete(delivery):
            return True
        last = max(delivery.ordinal, self._ledger.last)
        return full_feed_deletions.is_digested(self._spool / INDEX, last)

    def clear(self, ordinal: int) -> None:
        """Remove what a run left, but for the rejects and their report; done again, it goes on."""
        output = self._output(ordinal)
        if (output / _REJECTS).exists():
            shutil.rmtree(output / WORK, ignore_errors=True)
        else:
            shutil.rmtree(output, ignore_errors=True)

    def forget(self, ordinal: int) -> None:
        """Remove all of a run, so that the next attempt begins anew."""
        shutil.rmtree(self._output(ordinal), ignore_errors=True)

    def sweep(self) -> None:
        """Clear what was noted as settled before an end that came too early."""
        for path in self._folder.iterdir():
            if path.name.isdecimal() and self._ledger.is_settled(int(path.name)):
                self.clear(int(path.name))

    def _output(self, ordinal: int) -> Path:
        return self._folder / f"{ordinal:012d}"

    def _clean_up(self, delivery: Delivery, pusher: Pusher) -> Forwarded:
        verdict = gsa_responses.judge(pusher.wire.cleanup(delivery.datasource))
        if verdict.meaning is not ResponseMeaning.ACCEPTED:
            raise TargetError(verdict.message)
        return Forwarded(ordinal=delivery.ordinal, state=State.FORWARDED, settled=0)

    def _convert(self, delivery: Delivery, to_format: str) -> Path:
        """Make a run of a delivery, unless it stands; return its folder."""
        output = self._output(delivery.ordinal)
        work = output / WORK
        if _stands(output, to_format, delivery) and not self._is_overtaken(delivery, work):
            return output
        attempts = _attempts(output)
        if attempts >= MAX_ATTEMPTS:
            raise SetAside(ended_too_often())
        shutil.rmtree(output, ignore_errors=True)
        work.mkdir(parents=True)
        (output / _DELIVERY).write_bytes(msgspec.json.encode(delivery))
        options = self._options_of(delivery, to_format, output)
        settings = settings_of(options, (), work, {})
        spans = self._spans(delivery, work)
        (output / _ATTEMPTS).write_text(str(attempts + 1))
        account = self._account(spans, settings, delivery)
        self._check(account, delivery, spans[-1])
        publish(account, settings, output=output, spans=spans)
        self._tell_account(account, delivery, output)
        return output

    def _account(self, spans: list[Span], settings: Settings, delivery: Delivery) -> Account:
        """Convert a delivery; an attempt that ends the worker process counts as one, no other."""
        span_bytes, size = self._options.span_bytes, delivery.bytes
        try:
            account = self._conversion.run(spans, settings, span_bytes=span_bytes, size=size)
        except WorkerEndedError as exc:
            raise FatalError(f"its conversion was not finished: {exc}") from exc
        except Exception:
            (self._output(delivery.ordinal) / _ATTEMPTS).unlink(missing_ok=True)
            raise
        (self._output(delivery.ordinal) / _ATTEMPTS).unlink(missing_ok=True)
        return account

    def _check_index(self, delivery: Delivery) -> None:
        """Raise SetAside for a delivery whose deletions the index cannot say."""
        if self._must_delete(delivery) and full_feed_deletions.is_set_aside(
            self._spool / INDEX, delivery.ordinal
        ):
            raise SetAside("the index could not digest it, so what it deletes is not known")

    def _must_delete(self, delivery: Delivery) -> bool:
        """Whether it removes documents, which its target has to be told one by one."""
        is_feed = delivery.door is Door.FEED and is_whole(delivery)
        return is_feed and self._settings.appliance.protocol is ApplianceProtocol.RECVDATA

    def _spans(self, delivery: Delivery, work: Path) -> list[Span]:
        """Return what is read for a delivery: deletions that it stands for, and then itself."""
        deletions = []
        if self._must_delete(delivery):
            deletions = self._deletions(delivery, work / _LEFT_OUT)
            delivery = replace(delivery, feedtype=INCREMENTAL)
        source, selection = str(self._spool), Selection(deliveries=(delivery,))
        return [*deletions, *spans_of(selection, source=source, root=source, first=len(deletions))]

    def _deletions(self, delivery: Delivery, path: Path) -> list[Span]:
        if not self._write_deletions(delivery, path):
            return []
        source = self._source_of_deletions(delivery)
        return [Span(source=source, path=str(path), format=full_feed_deletions.FORMAT)]

    def _write_deletions(self, delivery: Delivery, path: Path) -> int:
        index, is_settled = self._spool / INDEX, self._ledger.is_settled
        return full_feed_deletions.write_deletions(index, delivery, path, is_settled=is_settled)

    def _source_of_deletions(self, delivery: Delivery) -> str:
        return f"{self._spool}#{delivery.ordinal}: what it leaves out"

    def _is_overtaken(self, delivery: Delivery, work: Path) -> bool:
        """Whether a run would delete what another datasource has made its own since it was made."""
        if not self._must_delete(delivery):
            return False
        with suppress(OSError):
            self._write_deletions(delivery, work / _NOW)
            return not filecmp.cmp(work / _LEFT_OUT, work / _NOW, shallow=False)
        return True

    def _options_of(self, delivery: Delivery, to_format: str, output: Path) -> ConvertOptions:
        options = replace(
            self._options,
            output=str(output),
            to_format=to_format,
            allow_empty_full=True,  # the client asked for it
            accept_holes=True,  # a feed without its end is set aside, see `_check`
        )
        if delivery.door is Door.DATA and by_name(to_format).door is Door.FEED:
            options = replace(options, datasource=_as_datasource(delivery.profile))
        return options

    def _check(self, account: Account, delivery: Delivery, span: Span) -> None:
        check_account(account)
        if account.reject_codes.get(UNREADABLE):
            raise SourceError(
                f"{name(delivery)}: {delivery.path} cannot be read; it is tried again"
            )
        if account.reject_codes.get(UNKNOWN_ENCODING):
            raise SetAside(_unknown_encoding(span))
        if is_whole(delivery) and account.reject_codes.get(TORN):
            raise SetAside(
                "a full feed without its end; expected all of it, as it deletes what it leaves out"
            )

    def _tell_account(self, account: Account, delivery: Delivery, output: Path) -> None:
        """Say what is not forwarded of a delivery, or not as it came, and what it deletes."""
        source = self._source_of_deletions(delivery)
        count = sum(count_of(chunk) for chunk in account.chunks if chunk.source == source)
        if count:
            self._remark(f"{name(delivery)}: {count} that the full feed leaves out are deleted")
        for noted in account.notices.values():
            self._remark(f"{noted.first.message}; {noted.count} in all")
        for field, lost in account.losses.items():
            first = lost.samples[0]
            self._remark(
                f"{name(delivery)}: without {field}: {lost.count}, as {first.url}: {first.detail}"
            )
        if account.filtered:
            self._remark(f"{name(delivery)}: {_shown(account.filter_codes)} left out")
        if account.rejected:
            nothing = "" if account.chunks else "; nothing is left of it to be sent"
            self._tell(
                f"{name(delivery)}: {_shown(account.reject_codes)} rejected, in {output}/rejects/"
                f"{nothing}"
            )

    def _push(self, delivery: Delivery, root: Path, pusher: Pusher) -> Forwarded:
        chunks = [_restated(chunk, delivery) for chunk in read_manifest(root)]
        places = PushPaths(root=root, folder=folder_of(root, self._settings))
        pushed = pusher.push(chunks, places)
        if any(fate.state != ACCEPTED for fate in pushed.outcomes):
            settle(root, pushed, self._settings)
        if any(map(_is_full_refused, pushed.outcomes)):
            raise SetAside(f"{pushed.stopped}; its records are in {root}/rejects/")
        if pushed.stopped is not None:
            raise TargetError(pushed.stopped)
        forwarded = _forwarded(delivery, pushed, _account_of(root))
        if forwarded.refused:
            self._tell(f"{name(delivery)}: {forwarded.refused} refused, in {root}/rejects/")
        return forwarded


def name(delivery: Delivery) -> str:
    """What a delivery is called in a message."""
    return f"delivery {delivery.ordinal} of {delivery.datasource or delivery.profile!r}"


def _attempts(output: Path) -> int:
    """Return how often a conversion was begun there that ended its process each time."""
    try:
        return int((output / _ATTEMPTS).read_text())
    except (OSError, ValueError):
        return 0


def _as_datasource(profile: str) -> str:
    try:
        return check_datasource(profile, label="the profile as a datasource:")
    except ConfigError as exc:
        raise SetAside(str(exc)) from exc


def _stands(output: Path, to_format: str, delivery: Delivery) -> bool:
    """Whether a run is finished that is of use for this target, and of this delivery.

    Another one may have had its ordinal, and been taken out of the journal.
    """
    made_of = output / _DELIVERY
    if not (output / _REPORT).exists() or not made_of.exists():
        return False
    if made_of.read_bytes() != msgspec.json.encode(delivery):
        return False
    return all(chunk.format == to_format for chunk in read_manifest(output))


def _unknown_encoding(span: Span) -> str:
    """Return what is wrong with the encoding that a delivery declares."""
    try:
        sniff_format(span)
    except FormatError as exc:
        return str(exc)
    return f"{span.source}: an unknown encoding; expected the name of one"


def _account_of(root: Path) -> Account:
    return msgspec.json.decode((root / _REPORT).read_bytes(), type=_Report).account


def _forwarded(delivery: Delivery, pushed: PushAccount, account: Account) -> Forwarded:
    return Forwarded(
        ordinal=delivery.ordinal,
        state=State.FORWARDED,
        settled=0,
        accepted=sum(fate.accepted for fate in pushed.outcomes),
        refused=sum(fate.refused for fate in pushed.outcomes),
        rejected=sum(account.rejected.values()),
        filtered=sum(account.filtered.values()),
        losses={field: lost.count for field, lost in account.losses.items()},
    )


def _is_full_refused(fate: ChunkOutcome) -> bool:
    return fate.chunk.feedtype in ERASING and fate.state == REFUSED


def _restated(chunk: Chunk, delivery: Delivery) -> Chunk:
    """Groups that replace those of their source, and no others, are sent so again."""
    is_replaced = delivery.feedtype == REPLACE and chunk.feedtype == FULL
    return replace(chunk, feedtype=REPLACE) if is_replaced else chunk


def _shown(codes: dict[str, int]) -> str:
    return ", ".join(f"{count} {code}" for code, count in codes.items())
