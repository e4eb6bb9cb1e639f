"""The record of one run, in the file `run.json` of its folder.

It is written when a run begins, when it enters a phase and when it ends, so that a run that is
started again knows where to go on.
"""

import enum
from datetime import datetime

import msgspec

RUN_RECORD = "run.json"
"""Name of the file in the folder of a run."""


class Phase(enum.Enum):
    """The phases of a run, in order: `PUSH` also settles. A run that is `DONE` is not resumed."""

    CONVERT = "convert"
    PUSH = "push"
    REMEMBER = "remember"
    VERIFY = "verify"
    DONE = "done"


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The export that a replay converts, and the run whose rejects it has, with its generation.

    `run` is the name of the run, or the path of one without a job.
    """

    run: str
    generation: int | None
    export: str


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a job, or a conversion without a job, whose `job` and `generation` are `None`.

    `id` is the name of its folder, `TIME-ID`. `generation` counts the runs of all jobs in one
    folder of runs, so that of two runs the later one has the larger number. `attempts` counts how
    often the run was started; `exit_code` and `message` are those of the last attempt that ended,
    `message` only if it did not end well. An abandoned run is not resumed: a later one replaced it.
    A run that is no `replay` reads the source of the job. `fingerprint` is that of the settings and
    the inputs of a conversion without a job.
    Times are UTC.
    """

    version: int = 1
    id: str
    job: str | None = None
    generation: int | None = None
    started_at: datetime
    ended_at: datetime | None = None
    phase: Phase = Phase.CONVERT
    attempts: int = 1
    exit_code: int | None = None
    message: str | None = None
    is_abandoned: bool = False
    replay: Replay | None = None
    fingerprint: str | None = None

    @property
    def age(self) -> int | None:
        """The generation of the run that has read the documents from the source."""
        return self.replay.generation if self.replay is not None else self.generation

    @property
    def is_over(self) -> bool:
        """Whether the run is never resumed."""
        return self.is_abandoned or self.phase is Phase.DONE
