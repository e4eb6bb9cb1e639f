"""Run a job from its inputs to its appliance, resumed where it ended.

::

    list inputs ──► convert ──► push, settle ──► update the state ──► compare with the target
                    CONVERT     PUSH             REMEMBER             VERIFY               DONE

The record of the run has its phase, which only changes when everything before it is on the disk.
So a run that ended anywhere, by kill -9 too, is resumed in its phase. Spans that were converted,
chunks with a receipt, and a state that was updated are not repeated. A new run begins when all
earlier runs are over, so that runs are pushed in their order and read the state of the run before.
"""

import logging
import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from feedferry.pipelines.convert.engine import Conversion, list_inputs
from feedferry.pipelines.convert.engine import convert as convert_inputs
from feedferry.pipelines.convert.inputs.input_files import STDIN, size_of
from feedferry.pipelines.convert.inputs.source_runs import steps_of
from feedferry.pipelines.convert.publication.state_update import (
    is_unsure,
    mark_unsure,
    remember,
)
from feedferry.pipelines.convert.publication.stated_update import (
    keep_stated,
    notice_of_earlier_names,
)
from feedferry.pipelines.convert.publication.work_folder import (
    check_output,
    check_unused,
    close_work_folder,
    find_work,
)
from feedferry.pipelines.folders.job_folders import abandon, new_run_id, runs_of, shown_path
from feedferry.pipelines.folders.locks import WORK, locked_job, locked_output, locked_state
from feedferry.pipelines.folders.manifest import RUN_LOG, has_sent, read_manifest, receipts_folder
from feedferry.pipelines.folders.remote_folder import RemoteFolder
from feedferry.pipelines.folders.remote_runs import opened_remote
from feedferry.pipelines.job.file.job import Job
from feedferry.pipelines.job.file.job_text import render
from feedferry.pipelines.job.history.retention import remove_runs, runs_to_remove
from feedferry.pipelines.job.run.groups_phase import check_groups, publish_groups
from feedferry.pipelines.job.run.notify import notify
from feedferry.pipelines.job.run.push_phase import push_output, push_settings
from feedferry.pipelines.job.run.run_result import JobResult, RunResult
from feedferry.pipelines.job.run.settlement import changed_chunks, settle
from feedferry.pipelines.job.run.verify_phase import verify_run
from feedferry.pipelines.observer.endings import Ending, begun, ending_of
from feedferry.pipelines.observer.logs import log_to
from feedferry.pipelines.observer.observer import Observer, Step, followed
from feedferry.pipelines.observer.signals import DeadlinePassed, deadline_raised
from feedferry.pipelines.options.convert_options import ACLS_SUFFIX, ConvertOptions
from feedferry.pipelines.options.job_options import RunOptions
from feedferry.pipelines.report.conversion_report import read_report
from feedferry.pipelines.report.job_index import write_index
from feedferry.pipelines.report.metrics import write_metrics
from feedferry.pipelines.report.run_report import CONFIG, write_report
from feedferry.schemas.errors import ConfigError, FatalError, StoppedError
from feedferry.schemas.run_record import Phase, Replay, RunRecord
from feedferry.schemas.units import format_size
from feedferry.transforms.sinks.push.generations import next_generation
from feedferry.transforms.steps.kept_acls import (
    KEPT_ACLS,
    forget_sent,
    keep_replaced,
    remember_acls,
)
from feedferry.transforms.storage.atomic import write_whole
from feedferry.transforms.storage.run_folders.mirrors import shown
from feedferry.transforms.storage.run_folders.run_record import read_run, write_run
from feedferry.transforms.storage.storage import is_object

_log = logging.getLogger(__name__)


def convert(job: Job, observer: Observer) -> RunResult:
    """Convert and push into one folder, that of a job without a name.

    The run is resumed if it is started again with the same settings and inputs. Raises
    FeedferryError with nothing published.
    """
    if not is_object(job.convert.output):
        return _convert(job, observer, None)
    with opened_remote(job.convert.output) as remote, ExitStack() as opened:
        options = replace(job.convert, output=str(remote.mirror))
        if options.state is not None and is_object(options.state):
            state = opened.enter_context(remote.opened_state(options.state))
            options = replace(options, state=state)
        result = _convert(replace(job, home=remote.mirror, convert=options), observer, remote)
        _finish(remote, observer)
    return replace(result, uri=remote.uri)


def _finish(remote: RemoteFolder, observer: Observer) -> None:
    """Upload the end of a run; after its record is there, an error is a notice."""
    try:
        remote.finish()
    except FatalError as exc:
        if not remote.is_finished:
            raise
        text = f"{exc}; the run is complete: feedferry runs clean {remote.uri} removes what is left"
        observer.notice(f"feedferry: {text}", logging.WARNING)


def _convert(job: Job, observer: Observer, remote: RemoteFolder | None) -> RunResult:
    options = job.convert
    check_output(job.home, options)
    check_groups(job.push, options.acls_path)
    with ExitStack() as locks:
        locks.enter_context(locked_output(job.home))
        conversion = list_inputs(options, observer)
        if remote is not None:
            _refuse_remote(job, conversion, remote)
            if options.fresh:
                remote.clear()
            conversion = replace(conversion, remote=remote)
        if options.state is not None:
            locks.enter_context(locked_state(Path(options.state)))
        begun_at, attempts, earlier = datetime.now(UTC), 0, None
        if not options.fresh:
            with suppress(FatalError):  # a damaged record costs the count of attempts only
                earlier = read_run(job.home)
        if earlier is not None and earlier.is_over and _is_same(earlier, job, conversion):
            text = "complete, nothing is left to do; ⟦fresh⟧ converts again"
            observer.notice(f"feedferry: {shown(job.home)}: {text}")
            if (work := find_work(job.home)) is not None:  # its removal was interrupted
                close_work_folder(work)
            return RunResult(folder=job.home, exit_code=earlier.exit_code or 0)
        check_unused(job.home, conversion.work, options)
        if earlier is not None and not earlier.is_over:
            begun_at, attempts = earlier.started_at, earlier.attempts
        record = RunRecord(id=job.home.absolute().name, started_at=begun_at, attempts=attempts + 1)
        record = write_run(job.home, replace(record, fingerprint=conversion.fingerprint))
        write_whole(job.home / CONFIG, render(job).encode())
        return JobRun(job, RunOptions(), record, conversion, observer).run()


def _is_same(earlier: RunRecord, job: Job, conversion: Conversion) -> bool:
    """Whether a complete run had the settings and the inputs of a conversion.

    Documents of a tree and rows of a database may have changed, so they are other inputs.
    """
    return (
        earlier.fingerprint == conversion.fingerprint
        and not conversion.configs
        and all(span.signature is not None for span in conversion.spans)
        and (job.push is None or receipts_folder(job.home, job.push).exists())
        and not changed_chunks(job.home, job.push, verify=False)
    )


def run(job: Job, options: RunOptions, observer: Observer) -> JobResult:
    """Finish the unfinished runs of a job, then begin a new run.

    A run that does not reach its end is the last one. With `only_resume`, a new run only replaces
    unfinished runs that were abandoned. Raises FeedferryError; the record of the run has its
    message and its exit code then.
    """
    if options.only_resume and job.convert.fresh:
        raise ConfigError("⟦fresh⟧ and ⟦only_resume⟧: both given; expected at most one of them")
    job = replace(job, home=shown_path(job.home))
    options = replace(options, deadline=options.deadline or job.deadline)
    with job.errors_in_keys(), ExitStack() as locks:
        locks.enter_context(locked_job(job.home))
        if job.convert.acls_path is not None:  # next to the state, and there without one
            state = job.convert.acls_path.removesuffix(ACLS_SUFFIX)
            locks.enter_context(locked_state(Path(state)))
        return _run(job, options, observer)


def _run(job: Job, options: RunOptions, observer: Observer) -> JobResult:
    records = runs_of(job.home)
    unfinished = [record for record in records if not record.is_over]
    if job.replay is not None:
        _check_replay(job, job.replay, records, allow_older=options.allow_older)
        is_begun = any(record.replay == job.replay for record in unfinished)
        options = replace(options, only_resume=is_begun)  # and not replay again
    results: list[RunResult] = []
    for record in unfinished:
        with _resumed(job, options, record, observer) as running:
            if running is None:
                continue
            results.append(result := running.run())
            if not running.record.is_over:
                return JobResult(runs=tuple(results))
            if code := result.exit_code:
                text = f"done with exit code {code}; feedferry runs show {running.folder}"
                observer.notice(f"feedferry: {running.folder}: {text}")
    is_abandoned = any(record.replay == job.replay for record in unfinished)
    if options.only_resume and (results or not is_abandoned):
        observer.notice(f"feedferry: {job.home}: no unfinished run is left")
        return JobResult(runs=tuple(results))
    if results and options.deadline is not None and time.time() >= options.deadline:
        raise DeadlinePassed
    with _begun(job, options, observer) as running:
        if results:
            observer.notice(f"feedferry: beginning {running.folder}")
        return JobResult(runs=(*results, running.run()))


@dataclass
class JobRun:
    """One run of a job, whose folder and state are locked.

    `conversion` is None for a run that has nothing left to convert.
    """

    job: Job
    options: RunOptions
    record: RunRecord
    conversion: Conversion | None
    observer: Observer

    @property
    def folder(self) -> Path:
        return self.job.home if self.job.path is None else self.job.home / self.record.id

    def run(self) -> RunResult:
        """Execute the run, record how it ends, and remove old runs after it.

        The folder is complete on return, with the pages of the run. An error in writing these, or
        in removing old runs, does not change how the run has ended.
        """
        try:
            return self._run()
        finally:
            self._notify()

    def _run(self) -> RunResult:
        job = self.job
        with followed(self.observer, Step.RUN):
            with self._recorded():
                result = self._execute()
            try:
                if self.record.is_over and job.name is not None and job.replay is None:
                    old = runs_to_remove(runs_of(job.home), job.keep, datetime.now(UTC))
                    remove_runs(job.home, old)
                self._write_pages()
            except (OSError, FatalError) as exc:
                text = f"{ending_of(exc).message}; the run itself has ended"
                self.observer.notice(f"feedferry: {text}", logging.ERROR)
        return result

    def _execute(self) -> RunResult:
        """Do the rest of the run."""
        job, conversion = self.job, None
        result = RunResult(folder=self.folder, exit_code=0)
        if self.conversion is not None and self.record.phase is Phase.CONVERT:
            is_pushed = job.name is not None or job.push is not None
            inputs = self.conversion
            if job.name is not None:
                inputs = replace(inputs, run=self.record.id, generation=self.record.age or 0)
            with deadline_raised(self.options.deadline):
                conversion = convert_inputs(inputs, self.observer, is_pushed=is_pushed)
            self._save(phase=Phase.PUSH)
        exit_code = read_report(self.folder).exit_code  # of an earlier attempt, maybe
        result = replace(result, exit_code=exit_code, conversion=conversion)
        if self.record.phase is Phase.PUSH:
            result = self._push(result)
            if result.message is None:
                self._save(phase=Phase.REMEMBER)
        if self.record.phase is Phase.REMEMBER:
            self._remember()
            self._save(phase=Phase.VERIFY)
        if self.record.phase is Phase.VERIFY:
            result = self._verify(result)
        phase = Phase.DONE if self.record.phase is Phase.VERIFY else self.record.phase
        self._end(Ending(result.message or "", result.exit_code), phase)
        return result

    def _notify(self) -> None:
        """Start the command of the job; its failure is shown, also with -q, and changes nothing."""
        job, exit_code = self.job, self.record.exit_code
        if job.notify is None or job.name is None or exit_code is None:
            return
        with self._logged():
            reason = notify(job.notify, self.folder, job=job.name, exit_code=exit_code)
            if reason is not None:
                text = f"feedferry: notify.command: {reason}; the run itself has ended"
                self.observer.notice(text, logging.ERROR)

    def _logged(self) -> AbstractContextManager[None]:
        """Log the block to a file of the run."""
        job, path = self.job, self.folder / RUN_LOG
        run, file, format = self.record.id, job.log.log_file, job.log.log_format
        return log_to(path, job=job.name, run=run, file=file, format=format)

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Log the block to a file of the run, and record how it ends if it raises."""
        job = self.job
        with self._logged():
            write_run(self.folder, self.record)
            _log.info("attempt %d: begun; phase %s", self.record.attempts, self.record.phase.value)
            try:
                with job.errors_in_keys(), begun():
                    yield
            except BaseException as exc:
                self._end(ending_of(exc), self.record.phase)
                self._write_pages()
                raise
            finally:
                ended, reason = self.record.exit_code, self.record.message or "done"
                level = logging.ERROR if self.record.message else logging.INFO
                text = "attempt ended with exit code %s: %s"
                _log.log(level, text, ended, reason, extra={"is_shown": True})

    def _write_pages(self) -> None:
        """Write the report of the run, the index of all runs, and the metrics."""
        write_report(self.folder)
        if self.job.name is not None:
            write_index(self.job.home)
        if self.job.metrics_file is not None:
            write_metrics(self.job.metrics_file, self.job.home)

    def _push(self, result: RunResult) -> RunResult:
        """Push, and compare the receipts; the message of the result says why the push stopped."""
        if self.job.push is None:
            return result
        given, target = self.options, self.job.push
        deadline = given.deadline or target.deadline
        options = _options_for(self.job, self.folder)
        settings = push_settings(target, options)
        settings = replace(settings, deadline=deadline, allow_older=given.allow_older)
        pushed = push_output(self.folder, settings, options, self.observer)
        result = replace(result, push=pushed, exit_code=pushed.exit_code or result.exit_code)
        if pushed.reason is not None:
            return replace(result, message=self.job.reword(pushed.reason))
        with followed(self.observer, Step.SETTLE) as step:
            step.result = settlement = settle(self.folder, settings, verify=options.verify)
        exit_code = settlement.exit_code or result.exit_code
        return replace(result, settlement=settlement, exit_code=exit_code)

    def _verify(self, result: RunResult) -> RunResult:
        """Compare the run with the target, unless it has no chunks or the job lost the key."""
        if self.job.verify is None or not read_manifest(self.folder):
            return result
        with followed(self.observer, Step.VERIFY) as step:
            step.result = found = verify_run(self.folder, self.job.verify, self.job.push)
        return replace(result, verification=found, exit_code=found.exit_code or result.exit_code)

    def _remember(self) -> None:
        options, work = self.job.convert, find_work(self.folder)
        if work is not None:  # otherwise an earlier attempt has removed it, after this
            remember(work, options.state)
            if options.acls_path is not None:
                keep_replaced(work, self.folder)
                remember_acls(work / KEPT_ACLS, Path(options.acls_path))
                keep_stated(work, Path(options.acls_path))
                self._publish_groups(Path(options.acls_path))
            if self.conversion is not None and self.conversion.remote is not None:
                self.conversion.remote.save_state()
            close_work_folder(work)

    def _publish_groups(self, acls: Path) -> None:
        publish_groups(self.job.push, acls, self.observer.notice, job=self.job.name or acls.name)

    def _end(self, ending: Ending, phase: Phase) -> None:
        self._save(
            phase=phase,
            ended_at=datetime.now(UTC),
            exit_code=ending.exit_code,
            message=ending.message or None,
        )

    def _save(self, **changes: object) -> None:
        self.record = write_run(self.folder, replace(self.record, **changes))


def _refuse_remote(job: Job, conversion: Conversion, remote: RemoteFolder) -> None:
    """Raise ConfigError for inputs and settings that a run in object storage cannot have.

    The workers of a runner may be on hosts without the folders of this one.
    """
    if job.convert.runner is not None and job.convert.state is not None:
        raise ConfigError(
            f"⟦state⟧: not with ⟦runner⟧ and ⟦output⟧ {remote.uri}, because workers on other hosts"
            " do not have it; expected a conversion without ⟦runner⟧"
        )
    if (
        job.convert.runner is not None
        and (step := steps_of(job.convert).reading_step()) is not None
    ):
        raise ConfigError(
            f"⟦transform⟧: step {step!r} is not for ⟦runner⟧ with ⟦output⟧ {remote.uri}; expected a"
            " conversion without ⟦runner⟧"
        )
    if any(span.source == STDIN for span in conversion.spans):
        raise ConfigError(
            f"⟦output⟧ {remote.uri}: for standard input, which cannot be read again to resume;"
            " expected a file"
        )


def _check_replay(
    job: Job, replay: Replay, records: Sequence[RunRecord], *, allow_older: bool
) -> None:
    """Raise ConfigError if another run is unfinished, or if the replay could undo a newer run.

    Another replay that has sent nothing is not in the way.
    """
    for record in records:
        is_needed = record.replay is None or has_sent(job.home / record.id)
        if not record.is_over and record.replay != replay and is_needed:
            words = ["run", str(job.path), "--only-resume"]
            if (other := record.replay) is not None:
                words = ["rejects", "replay", str(shown_path(job.home / other.run)), other.export]
            command = shlex.join(["feedferry", *words])
            raise ConfigError(f"{job.home / record.id}: an unfinished run; finish it: {command}")
    newer = [record.id for record in records if (record.age or 0) > (replay.generation or 0)]
    if newer and not allow_older:
        raise ConfigError(
            f"{job.home / replay.run}: older than {newer[-1]}, which may have sent newer documents;"
            " ⟦allow_older⟧ replays it nevertheless"
        )


@contextmanager
def _begun(job: Job, options: RunOptions, observer: Observer) -> Iterator[JobRun]:
    """Yield a new run."""
    folder = job.home / new_run_id(datetime.now(UTC))
    with locked_output(folder):
        conversion = list_inputs(_options_for(job, folder), observer)
        _check_disk(conversion)
        now = datetime.now(UTC)
        record = RunRecord(id=folder.name, job=job.name, started_at=now, replay=job.replay)
        if job.name is not None:
            record = next_generation(job.home.parent, record)
            _notify_of_earlier_names(job, observer)
        record = write_run(folder, record)
        write_whole(folder / CONFIG, render(job).encode())
        yield JobRun(job, options, record, conversion, observer)


def _notify_of_earlier_names(job: Job, observer: Observer) -> None:
    runs = sum(record.phase is Phase.DONE for record in runs_of(job.home))
    text = notice_of_earlier_names(job.convert, runs)
    if text is not None and job.replay is None:
        observer.notice(f"feedferry: {job.path}: transform: {text}", logging.WARNING)


@contextmanager
def _resumed(
    job: Job, options: RunOptions, record: RunRecord, observer: Observer
) -> Iterator[JobRun | None]:
    """Yield a run that goes on, None if it is abandoned.

    That is so with --fresh, and before its push if its inputs have changed, if it stopped at a
    limit: rows or files may have been corrected since, or if another replay begins. A push that has
    begun is finished.
    """
    folder = job.home / record.id
    is_sent = has_sent(folder)
    with locked_output(folder):
        reason, conversion = "", None
        if job.convert.fresh or (is_sent and _is_unsure(job, folder)):
            reason = "begun anew with ⟦fresh⟧" + "; a part of it may have been sent" * is_sent
            if is_sent:
                _mark_unsure(job, folder, observer)
        elif job.replay is not None and record.replay != job.replay:
            reason = "another replay has begun"
        elif record.phase is Phase.CONVERT and record.exit_code == StoppedError.exit_code:
            reason = "stopped at a limit, so the source is read again"
        elif record.phase is Phase.CONVERT or (record.phase is Phase.PUSH and not is_sent):
            conversion = list_inputs(_options_for(job, folder), observer)
            if find_work(folder) not in (None, conversion.work):
                reason = "inputs or settings have changed"
        if reason:
            _abandon(job, record, reason, observer)
            yield None
            return
        observer.notice(f"feedferry: resuming {folder} ({record.phase.value})")
        attempts = record.attempts + 1
        record = replace(record, attempts=attempts, ended_at=None, exit_code=None, message=None)
        yield JobRun(job, options, record, conversion, observer)


def _is_unsure(job: Job, folder: Path) -> bool:
    """Whether a start with --fresh was interrupted before it abandoned the run."""
    work = find_work(folder)
    return job.convert.state is not None and work is not None and is_unsure(work, job.convert.state)


def _mark_unsure(job: Job, folder: Path, observer: Observer) -> None:
    """Have the new run send again, or delete, what a run has sent that is not in the state.

    ACLs that it has changed are unknown until they are stated again.
    """
    work, acls = find_work(folder), job.convert.acls_path
    if work is not None and acls is not None:
        forget_sent(work / KEPT_ACLS, Path(acls), folder)
        keep_stated(work, Path(acls), is_unsure=True)
    if job.convert.state is None or work is None:
        return
    try:
        mark_unsure(work, job.convert.state)
    except FatalError as exc:
        text = f"feedferry: {exc}; documents that it has sent, and that are deleted now, may stay"
        observer.notice(text, logging.WARNING)


def _abandon(job: Job, record: RunRecord, reason: str, observer: Observer) -> None:
    """Abandon a run, whose spans are of no use any more; its chunks and receipts stay."""
    folder = job.home / record.id
    text = f"feedferry: {folder} is abandoned: {reason}"
    observer.notice(text, logging.WARNING)
    abandon(folder, record, reason)
    shutil.rmtree(folder / WORK, ignore_errors=True)


def _options_for(job: Job, folder: Path) -> ConvertOptions:
    """Return the options of a conversion into the folder of a run."""
    return replace(job.convert, output=str(folder), fresh=False)


def _check_disk(conversion: Conversion) -> None:
    """Raise FatalError if there is no room for half the input: no format is that much shorter."""
    needed = sum(map(size_of, conversion.spans)) // 2
    free = shutil.disk_usage(conversion.output).free
    if free < needed:
        raise FatalError(
            f"{conversion.output}: {format_size(free)} free; expected {format_size(needed)} at"
            " least, half the size of the inputs: free some space, or give another folder by `runs`"
        )
