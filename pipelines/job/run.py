"""`feedferry run`: a job from its inputs to its appliance, resumed where it ended.

::

    list inputs ──► convert ──► push, verify ──► update the state
                    CONVERT     PUSH             REMEMBER            DONE

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
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.display import format_size
from pipelines.cli.endings import Ending, begun, ending_of
from pipelines.cli.locks import LOCK, PUSHES, WORK, locked_output, locked_state
from pipelines.cli.logs import log_to, tell
from pipelines.cli.signals import DeadlinePassed, deadline_raised
from pipelines.convert.inputs import size_of
from pipelines.convert.run import Conversion, convert, list_inputs, push
from pipelines.convert.run_folder import close_run_folder, find_work
from pipelines.convert.state_update import mark_unsure, remember
from pipelines.job.folders import abandon, new_run_id, runs_of, shown_path
from pipelines.job.job import Job
from pipelines.job.job_file import errors_in_keys
from pipelines.job.job_text import render
from pipelines.job.retention import remove_runs, runs_to_remove
from pipelines.job.run_options import RunOptions
from pipelines.job.verify import verify
from pipelines.report.job_index import write_index
from pipelines.report.metrics import write_metrics
from pipelines.report.run_report import write_report
from schemas.errors import ConfigError, FatalError, StoppedError
from schemas.run_record import Phase, Replay, RunRecord
from transforms.sinks.push.generations import next_generation
from transforms.storage.atomic import whole_file
from transforms.storage.lock import Lock
from transforms.storage.run_record import write_run

CONFIG = "config.rendered.yaml"
RUN_LOG = "run.log"
_log = logging.getLogger(__name__)


class _ExitCode(msgspec.Struct):
    """The only part of a report that a resumed run needs."""

    exit_code: int


def run(job: Job, options: RunOptions) -> int:
    """Finish the unfinished runs of a job, then begin a new run; return the exit code.

    A run that does not reach its end is the last one. With `only_resume`, a new run only replaces
    unfinished runs that were abandoned. Raises FeedferryError; the record of the run has its
    message and its exit code then.
    """
    if options.only_resume and job.convert.fresh:
        raise ConfigError("--fresh and --only-resume: both given; expected at most one of them")
    job = replace(job, home=shown_path(job.home))
    options = replace(options, deadline=options.deadline or job.deadline)
    is_quiet = job.convert.is_quiet
    with errors_in_keys(job), ExitStack() as locks:
        locks.enter_context(_locked_job(job.home))
        if job.convert.state is not None:
            locks.enter_context(locked_state(Path(job.convert.state)))
        records = runs_of(job.home)
        unfinished = [record for record in records if not record.is_over]
        if job.replay is not None:
            _check_replay(job, job.replay, records, allow_older=options.allow_older)
            options = replace(options, only_resume=bool(unfinished))  # and not replay again
        is_resumed, exit_code = False, 0
        for record in unfinished:
            with _resumed(job, options, record) as running:
                if running is None:
                    continue
                is_resumed, exit_code = True, running.run() or exit_code
                if not running.record.is_over:
                    return exit_code
                if exit_code:
                    text = f"done with exit code {exit_code}; feedferry runs show {running.folder}"
                    tell(f"feedferry: {running.folder}: {text}", is_quiet=is_quiet)
        is_abandoned = any(record.replay == job.replay for record in unfinished)
        if options.only_resume and (is_resumed or not is_abandoned):
            tell(f"feedferry: {job.home}: no unfinished run is left", is_quiet=is_quiet)
            return exit_code
        if is_resumed and options.deadline is not None and time.time() >= options.deadline:
            raise DeadlinePassed
        with _begun(job, options) as running:
            if is_resumed:
                tell(f"feedferry: beginning {running.folder}", is_quiet=is_quiet)
            return running.run() or exit_code


class JobRun:
    """One run of a job, whose folder and state are locked.

    `conversion` is None for a run that has nothing left to convert.
    """

    def __init__(
        self, job: Job, options: RunOptions, record: RunRecord, conversion: Conversion | None
    ) -> None:
        self._job = job
        self._options = options
        self._conversion = conversion
        self.folder = job.home / record.id
        self.record = record

    def run(self) -> int:
        """Execute the run, record how it ends, and remove old runs after it; return its exit code.

        The folder is complete on return, with the pages of the run.
        """
        job = self._job
        with self._recorded():
            exit_code = self._execute()
        if self.record.is_over and job.replay is None:
            remove_runs(job.home, runs_to_remove(runs_of(job.home), job.keep, datetime.now(UTC)))
        self._write_pages()
        return exit_code

    def _execute(self) -> int:
        """Do what is left of the run, and return its exit code."""
        message = None
        if self._conversion is not None and self.record.phase is Phase.CONVERT:
            with deadline_raised(self._options.deadline):
                convert(self._conversion, is_pushed=True)
            self._save(phase=Phase.PUSH)
        exit_code = self._conversion_code()
        if self.record.phase is Phase.PUSH:
            push_code, message = self._push()
            exit_code = push_code or exit_code
            if message is None:
                self._save(phase=Phase.REMEMBER)
        if self.record.phase is Phase.REMEMBER:
            self._remember()
            self._save(phase=Phase.DONE)
        self._end(Ending(message or "", exit_code))
        return exit_code

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Log the block to a file of the run, and record how it ends if it raises."""
        options, path = self._job.convert, self.folder / RUN_LOG
        file, format = options.log_file, options.log_format
        with log_to(path, job=self._job.name, run=self.record.id, file=file, format=format):
            _log.info("attempt %d: begun; phase %s", self.record.attempts, self.record.phase.value)
            try:
                with errors_in_keys(self._job), begun():
                    yield
            except BaseException as exc:
                self._end(ending_of(exc))
                self._write_pages()
                raise
            finally:
                ended, reason = self.record.exit_code, self.record.message or "done"
                level = logging.ERROR if self.record.message else logging.INFO
                text = f"attempt ended with exit code {ended}: {reason}"
                tell(text, level=level, is_quiet=True)

    def _write_pages(self) -> None:
        """Write the report of the run, the index of all runs, and the metrics."""
        write_report(self.folder)
        write_index(self._job.home)
        if self._job.metrics_file is not None:
            write_metrics(self._job.metrics_file, self._job.home)

    def _conversion_code(self) -> int:
        """Return the exit code of the conversion, which an earlier attempt may have finished."""
        path = self.folder / "report.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=_ExitCode).exit_code
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise FatalError(
                f"{path}: {exc}; expected the report of a conversion: restore it, or begin a new"
                " run with --fresh"
            ) from exc

    def _push(self) -> tuple[int, str | None]:
        """Push and verify; return the exit code, and why the push stopped if it did."""
        if self._job.push is None:
            return 0, None
        given = self._options
        settings = replace(self._job.push, deadline=given.deadline, allow_older=given.allow_older)
        options = _options_for(self._job, self.folder)
        account = push(self.folder, settings, options)
        if account.stopped is not None:
            return account.exit_code, options.reword(account.stopped)
        return verify(self.folder, settings, options) or account.exit_code, None

    def _remember(self) -> None:
        state, work = self._job.convert.state, find_work(self.folder)
        if work is not None:  # otherwise an earlier attempt has removed it, after this
            remember(work, state)
            close_run_folder(work)

    def _end(self, ending: Ending) -> None:
        self._save(
            ended_at=datetime.now(UTC),
            exit_code=ending.exit_code,
            message=ending.message or None,
        )

    def _save(self, **changes: object) -> None:
        self.record = write_run(self.folder, replace(self.record, **changes))


def _check_replay(
    job: Job, replay: Replay, records: Sequence[RunRecord], *, allow_older: bool
) -> None:
    """Raise ConfigError if another run is unfinished, or if the replay could undo a newer run."""
    for record in records:
        if not record.is_over and record.replay != replay:
            command = f"feedferry run {shlex.quote(str(job.path))} --only-resume"
            raise ConfigError(f"{job.home / record.id}: an unfinished run; finish it: {command}")
    newer = [record.id for record in records if (record.age or 0) > (replay.generation or 0)]
    if newer and not allow_older:
        raise ConfigError(
            f"{job.home / replay.run}: older than {newer[-1]}, which may have sent newer documents;"
            " --allow-older replays it nevertheless"
        )


@contextmanager
def _begun(job: Job, options: RunOptions) -> Iterator[JobRun]:
    """Yield a new run."""
    folder = job.home / new_run_id(datetime.now(UTC))
    with locked_output(folder):
        conversion = list_inputs(_options_for(job, folder))
        _check_disk(conversion)
        now = datetime.now(UTC)
        record = RunRecord(id=folder.name, job=job.name, started_at=now, replay=job.replay)
        record = write_run(folder, next_generation(job.home.parent, record))
        with whole_file(folder / CONFIG) as stream:
            stream.write(render(job).encode())
        yield JobRun(job, options, record, conversion)


@contextmanager
def _resumed(job: Job, options: RunOptions, record: RunRecord) -> Iterator[JobRun | None]:
    """Yield a run that goes on, None if it is abandoned.

    That is so with --fresh, and before its push if its inputs have changed, or if it stopped at a
    limit: rows or files may have been corrected since. A push that has begun is finished.
    """
    folder = job.home / record.id
    has_sent = any(folder.glob(f"{PUSHES}/*/receipts-*.jsonl"))
    with locked_output(folder):
        reason, conversion = "", None
        if job.convert.fresh:
            reason = "begun anew with --fresh" + "; a part of it was sent" * has_sent
            if has_sent:
                _mark_unsure(job, folder)
        elif record.phase is Phase.CONVERT and record.exit_code == StoppedError.exit_code:
            reason = "stopped at a limit, so the source is read again"
        elif record.phase is Phase.CONVERT or (record.phase is Phase.PUSH and not has_sent):
            conversion = list_inputs(_options_for(job, folder))
            if find_work(folder) not in (None, conversion.work):
                reason = "inputs or settings have changed"
        if reason:
            _abandon(job, record, reason)
            yield None
            return
        resumed = f"feedferry: resuming {folder} ({record.phase.value})"
        tell(resumed, is_quiet=job.convert.is_quiet)
        attempts = record.attempts + 1
        record = replace(record, attempts=attempts, ended_at=None, exit_code=None, message=None)
        yield JobRun(job, options, write_run(folder, record), conversion)


def _mark_unsure(job: Job, folder: Path) -> None:
    """Have the new run send again, or delete, what a run has sent that is not in the state."""
    work = find_work(folder)
    if job.convert.state is None or work is None:
        return
    try:
        mark_unsure(work, job.convert.state)
    except FatalError as exc:
        text = f"feedferry: {exc}; documents that it has sent, and that are deleted now, may stay"
        tell(text, level=logging.WARNING)


def _abandon(job: Job, record: RunRecord, reason: str) -> None:
    """Abandon a run, whose spans are of no use any more; its chunks and receipts stay."""
    folder = job.home / record.id
    text = f"feedferry: {folder} is abandoned: {reason}"
    tell(text, level=logging.WARNING, is_quiet=job.convert.is_quiet)
    abandon(folder, record, reason)
    shutil.rmtree(folder / WORK, ignore_errors=True)


@contextmanager
def _locked_job(home: Path) -> Iterator[None]:
    """Lock a job; raise BusyError, which names the process, if it is running."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = Lock(home / LOCK, where=str(home), by="run")
    except OSError as exc:
        raise ConfigError(f"{home}: {exc.strerror}; expected a folder for runs") from exc
    with lock:
        yield


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
            " least, half the size of the inputs: free some space, or give another folder by --runs"
        )
