"""The checks of a job, each with a time limit; all of them run.

Nothing that a check does changes the appliance or the source.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from feedferry.pipelines.check.local_checks import (
    check_disk,
    check_folder,
    check_job_state,
    check_placeholders,
    check_schedule,
    check_secrets,
    check_unfinished,
    free_bytes,
)
from feedferry.pipelines.convert.inputs.input_files import STDIN, STDIN_COPY, list_spans
from feedferry.pipelines.convert.inputs.source_runs import load_sources, settings_of, source_runs
from feedferry.pipelines.job.file.job import Job
from feedferry.schemas.check import Check, CheckLine, fail, fail_of, warn
from feedferry.schemas.errors import FeedferryError
from feedferry.transforms.sinks.push.wire.checks import check_appliance
from feedferry.transforms.sources import source_of

CHECK_SECONDS = 10.0
_GRACE = 1.2
"""A check is given up after its seconds times this."""


def check_job(
    job: Job, *, seconds: float = CHECK_SECONDS, free: Callable[[Path], int] = free_bytes
) -> Iterator[CheckLine]:
    """Yield the lines of all checks of a job; a check has `seconds`."""
    found: list[Check] = []
    input_bytes = 0

    def load(_seconds: float) -> Iterable[CheckLine]:
        with job.errors_in_keys():
            found.extend(_source_checks(job))
        return ()

    others = start_checks(_other_checks(job), seconds=seconds)
    yield from start_checks([Check("source", load)], seconds=seconds)
    for line in start_checks(found, seconds=seconds):
        input_bytes += line.input_bytes
        yield line
    yield from others
    yield check_disk(job, input_bytes, free)


def start_checks(checks: Sequence[Check], *, seconds: float) -> Iterator[CheckLine]:
    """Start all checks; return an iterator of their lines, in the order of the checks.

    A check that takes too long is left to itself, in a thread that ends with the process.
    """
    latest = time.monotonic() + seconds * _GRACE
    running: list[tuple[Check, threading.Thread, list[CheckLine]]] = []
    for check in checks:
        found: list[CheckLine] = []
        thread = threading.Thread(target=_collect, args=(check, seconds, found), daemon=True)
        thread.start()
        running.append((check, thread, found))
    return chain.from_iterable(
        _await(check, thread, found, latest) for check, thread, found in running
    )


def _await(
    check: Check, thread: threading.Thread, found: list[CheckLine], latest: float
) -> list[CheckLine]:
    """Return the lines of a check that has ended, or until its time is over."""
    thread.join(max(latest - time.monotonic(), 0))
    if not thread.is_alive():
        return found
    late = warn if found else fail
    reason = "its result takes too long" if found else "no result in time"
    return [*found, late(check.what, reason, "see whether it is slow or does not answer")]


def _collect(check: Check, seconds: float, found: list[CheckLine]) -> None:
    try:
        for line in check.run(seconds):
            found.append(line)
    except (FeedferryError, OSError) as exc:
        found.append(fail_of(check.what, exc))
    except Exception as exc:  # its text may hold anything
        found.append(fail(check.what, type(exc).__name__, "report this defect of feedferry"))


def _source_checks(job: Job) -> list[Check]:
    """Load the sources of a job; return their checks. A state is made by the first run."""
    state = job.convert.state
    has_run = state is not None and Path(state).exists()
    options = replace(job.convert, output=str(job.home), state=state if has_run else None)
    if STDIN in options.inputs:
        return []
    spans = list_spans(options, stdin_copy=job.home / STDIN_COPY)
    configs = load_sources(spans, options)
    runs = source_runs(spans, settings_of(options, (), job.home, configs), options)
    sources = dict.fromkeys(source_of(run.span) for run in runs)
    return [
        check
        for source in sources
        for check in source.checks([run for run in runs if source_of(run.span) is source])
    ]


def _other_checks(job: Job) -> list[Check]:
    checks = [
        Check("folder of runs", lambda _seconds: check_folder(job)),
        Check("state", lambda _seconds: check_job_state(job)),
        Check("secret", lambda _seconds: check_secrets(job)),
        Check("placeholder", lambda _seconds: check_placeholders(job.convert.mapping, job)),
        Check("unfinished run", lambda _seconds: check_unfinished(job)),
    ]
    if (push := job.push) is None:
        return checks
    now = datetime.now().astimezone()
    ask = partial(check_appliance, push.appliance, push.backlog, now=now.timestamp())
    return [
        Check("appliance", lambda seconds: ask(seconds=seconds)),
        Check("schedule", lambda _seconds: check_schedule(push, now)),
        *checks,
    ]
