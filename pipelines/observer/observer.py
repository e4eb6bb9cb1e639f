"""Observers follow a command: a terminal, a log, a user of the Python API, or a test.

The engines print nothing. They return results, and pass what happens meanwhile to an observer.
"""

import enum
import logging
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from feedferry.pipelines.observer.progress import (
    Progress,
    ProgressMeter,
    ProgressWatcher,
    Snapshot,
    append_point,
    progress_text,
)
from feedferry.schemas.run_record import Phase
from feedferry.schemas.setting import in_flags
from feedferry.schemas.timeline import TIMELINE

_SHOWN = {"is_shown": True}
_log = logging.getLogger(__name__)


class Step(enum.Enum):
    """A part of a command that may take long, or a whole run; the value says what it does."""

    RUN = "running"
    LIST_INPUTS = "listing inputs"
    LIST_DOCUMENTS = "listing documents"
    PUBLISH = "publishing"
    PLAN = "planning"
    PUSH = "push"
    SETTLE = "settling"
    VERIFY = "verifying"


class Observer:
    """Follows the steps of a command. This class ignores everything; override what you need.

    `progress` is called from a thread of its own, about every `progress_seconds`; by default never.
    """

    progress_seconds = math.inf

    def begun(self, step: Step) -> None:
        """A step begins."""

    def progress(self, progress: Progress) -> None:
        """A conversion or a push has proceeded; `progress.is_last` at its end."""

    def notice(self, message: str, level: int = logging.INFO) -> None:
        """Something happened that the user may want to know; `level` is one of `logging`."""

    def finished(self, step: Step, result: object = None) -> None:
        """A step has ended; `result` is None for a step without one, and after an error."""

    def interrupted(self) -> None:
        """A signal was received, and what is being sent is finished. Called in a signal handler."""


class LoggedObserver(Observer):
    """Passes everything on to an observer; notices, in which `wording` names settings, are logged.

    They are logged to files only, because a terminal shows them as well.
    """

    def __init__(self, observer: Observer, wording: Callable[[str], str] = in_flags) -> None:
        self._observer = observer
        self._wording = wording
        self.progress_seconds = observer.progress_seconds

    def begun(self, step: Step) -> None:
        self._observer.begun(step)

    def progress(self, progress: Progress) -> None:
        self._observer.progress(progress)

    def notice(self, message: str, level: int = logging.INFO) -> None:
        text = self._wording(message)
        _log.log(level, "%s", text.removeprefix("feedferry: "), extra=_SHOWN)
        self._observer.notice(text, level)

    def finished(self, step: Step, result: object = None) -> None:
        self._observer.finished(step, result)

    def interrupted(self) -> None:
        self._observer.interrupted()


class FollowedStep:
    """A step that is followed; `result` is passed to the observer at its end."""

    def __init__(self) -> None:
        self.result: object = None


@contextmanager
def followed(observer: Observer, step: Step) -> Iterator[FollowedStep]:
    """Notify the observer of the begin and the end of a step."""
    observer.begun(step)
    current = FollowedStep()
    try:
        yield current
    finally:
        observer.finished(step, current.result)


@contextmanager
def metered(
    observer: Observer,
    phase: Phase,
    snapshot: Callable[[], Snapshot],
    *,
    folder: Path | None = None,
) -> Iterator[ProgressMeter]:
    """Measure the progress of a phase during the block, for the observer and the timeline.

    `snapshot` is called in a thread of its own, and in this one at the begin and end. `folder` is
    that of the timeline.
    """

    def show(progress: Progress) -> float:
        observer.progress(progress)
        return observer.progress_seconds

    watchers: list[ProgressWatcher] = []
    if folder is not None:
        watchers.append(partial(append_point, path=folder / TIMELINE))
    if observer.progress_seconds < math.inf:
        watchers.append(show)
    meter = ProgressMeter(phase, snapshot, watchers)
    end = threading.Event()

    def step_until_end() -> None:
        while not end.wait(meter.step()):
            pass

    _log.info("%s: begun", phase.value)
    thread = threading.Thread(target=step_until_end, name="progress", daemon=True)
    if watchers:
        thread.start()
    try:
        yield meter
    finally:
        end.set()
        if watchers:
            thread.join()
        _log.info("%s: ended; %s", phase.value, progress_text(meter.finish()))
