"""Run a pipeline to its end: in this process, or as a job of another runner.

A job elsewhere outlives the command unless it is cancelled, so a signal, a deadline and a stall
cancel it. What another runner raises is about its workers, its network or its configuration: the
work of the finished spans is kept, and the run can be started again.
"""

import logging
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import suppress
from uuid import uuid4

import apache_beam as beam
from apache_beam.runners.runner import PipelineResult

from feedferry.pipelines.observer.signals import in_thread
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.errors import FatalError, FeedferryError
from feedferry.schemas.units import duration_text
from feedferry.transforms.conversion.convert import CANCELLED
from feedferry.transforms.storage.run_folders.find_storage import storage_of
from feedferry.transforms.storage.storage import Storage

_CANCEL_SECONDS = 30.0
_POLL_SECONDS = 0.5
_STALL_CHECKS = 60
"""Progress is read this often in the time of a stall: on a shared disk, it may be many files."""

_MESSAGE_LENGTH = 300
_log = logging.getLogger(__name__)


class StallWatch:
    """Raises FatalError if the progress of a job has not changed for some time."""

    def __init__(
        self,
        progress: Callable[[], object],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress = progress
        self._seconds = seconds
        self._clock = clock
        self._last = progress()
        self._changed_at = self._checked_at = clock()

    def check(self) -> None:
        now = self._clock()
        if now - self._checked_at < self._seconds / _STALL_CHECKS:
            return
        self._checked_at, progress = now, self._progress()
        if progress != self._last:
            self._last, self._changed_at = progress, now
        elif now - self._changed_at >= self._seconds:
            raise FatalError(
                f"no progress for {duration_text(self._seconds)}, so the job is cancelled: a worker"
                " may have ended; start again to resume, with a longer ⟦stall⟧ if one document"
                " takes that long"
            )


def run_to_file(
    pipeline: beam.Pipeline,
    account: beam.PCollection[bytes],
    folder: str,
    *,
    options: ConvertOptions,
    progress: Callable[[], object] | None = None,
) -> bytes:
    """Run a pipeline, let a worker write its only result to a file, and return that.

    `folder` is a path or a URI, which all workers share. The first of several attempts to write the
    file counts. With `progress`, that of a conversion in the folder, a job of another runner is
    cancelled if the progress stays the same for too long.
    """
    storage, name = storage_of(folder), f"account-{uuid4().hex}.json"
    _ = account | "Report" >> beam.Map(_store, folder, name)
    storage.remove(CANCELLED)  # of an earlier job, which may have had another runner
    if options.runner is None:
        pipeline.run().wait_until_finish()
    else:
        watch = None if progress is None else StallWatch(progress, options.stall)
        _run_elsewhere(pipeline, options.runner, watch, storage)
    text = storage.get(name)
    if text is None:
        raise FatalError(
            f"--runner {options.runner}: the job has ended without a result in"
            f" {storage.locate(name)}: it is lost, or its workers do not share that folder; start"
            " again to resume"
        )
    storage.remove(name)
    return text


def _run_elsewhere(
    pipeline: beam.Pipeline, runner: str, watch: StallWatch | None, storage: Storage
) -> None:
    """Run a job; cancel it at a signal, a deadline or a stall."""
    try:
        result = _submit(pipeline)
        try:
            _wait(result, watch)
        except BaseException:
            with suppress(FeedferryError):  # the first error counts; the runner cancels, too
                storage.put_if_absent(CANCELLED, b"")
            _cancel(result)
            raise
    except FeedferryError:
        raise
    except Exception as exc:
        _log.info("the runner has failed", exc_info=exc)
        raise FatalError(
            f"--runner {runner}: {_first_line(exc)}; the log has all of it; start again to resume"
        ) from exc


def _submit(pipeline: beam.Pipeline) -> PipelineResult:
    """Start a job. Runners with a job server replace the handler of SIGINT: the job is ours."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        return pipeline.run()
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


def _wait(result: PipelineResult, watch: StallWatch | None) -> None:
    """Wait in a thread, so that signals and stalls are noticed whatever the runner waits for."""
    end = in_thread(result.wait_until_finish)
    while not wait([end], _POLL_SECONDS).done:
        if watch is not None:
            watch.check()
    end.result()


def _cancel(result: PipelineResult) -> None:
    try:
        in_thread(result.cancel).result(_CANCEL_SECONDS)
    except Exception as exc:  # whatever the runner raises
        _log.warning(
            "the job is not cancelled (%s): it may run to its end; cancel it with the tools of the"
            " cluster",
            _first_line(exc),
            extra={"is_shown": True},
        )


def _first_line(exc: Exception) -> str:
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    text = lines[0] if lines else ""
    return f"{type(exc).__name__}: {text}"[:_MESSAGE_LENGTH].removesuffix(": ")


def _store(account: bytes, folder: str, name: str) -> None:
    storage_of(folder).put_if_absent(name, account)
