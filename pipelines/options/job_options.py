"""Options of `feedferry run`: the settings that only jobs have, and flags that no job file has."""

import re
import shlex

import msgspec

from feedferry.pipelines.options.flags import Flag, declare
from feedferry.pipelines.options.section import Section
from feedferry.pipelines.options.value_parsers import (
    DEADLINE,
    DURATION,
    OUTPUT_FILE,
    TEXT,
    TIMEOUT,
    ValueType,
    count_of,
)
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sinks.push.generations import GENERATIONS, PUSHED

_NAME = re.compile(r"\w[\w.-]{0,99}")


def parse_job_name(text: str) -> str:
    """Return the name of a job, which is also the name of a folder."""
    if not _NAME.fullmatch(text):
        raise ConfigError(
            f"{text!r}; expected the name of a folder: at most 100 letters, digits, -, _ and .,"
            " without . or - at its beginning"
        )
    if text in (PUSHED, GENERATIONS):
        raise ConfigError(f"{text!r}: the folder of runs uses this name; expected another name")
    return text


def parse_command(text: str) -> str:
    """Return a command of words as in a shell, which is not started by one."""
    try:
        words = shlex.split(text)
    except ValueError as exc:
        raise ConfigError("a quotation mark without its end; expected words as in a shell") from exc
    if not words:
        raise ConfigError("no command; expected words as in a shell")
    return text


_JOB = ValueType("NAME", parse_job_name)
_COMMAND = ValueType("COMMAND", parse_command, schema=TEXT.schema)


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job keeps its runs, and for how long; `None` means not stated."""

    name: str
    keep_runs: int | None = None
    keep_seconds: float | None = None
    runs: str = "runs"
    has_state: bool = True
    metrics_file: str | None = None
    on_end: str | None = None
    notify_timeout: float = 60.0


declare(
    JobOptions,
    Section.RUN,
    name=Flag("Name of the job, and of the folder of its runs.", _JOB, key="job"),
    keep_runs=Flag(
        "Finished runs to keep.", count_of("runs", minimum=1), key="keep.runs", default="all"
    ),
    keep_seconds=Flag(
        "Remove finished runs that are older.",
        DURATION,
        key="keep.age",
        default="none",
    ),
    runs=Flag(
        "Folder for the runs of all jobs, below the folder of the job file.",
        OUTPUT_FILE,
        key="runs",
    ),
    has_state=Flag(
        "Read only what changed since the last run; without it, deletions are not found.",
        key="state",
        default="true for files and databases, unless the feedtype is full",
    ),
    metrics_file=Flag(
        "Prometheus text file to write after each run.",
        OUTPUT_FILE,
        key="metrics_file",
        default="none",
    ),
    on_end=Flag(
        "Command to start after each run; its environment names report.json and the exit code.",
        _COMMAND,
        key="notify.command",
        default="none",
        affects_output=False,
    ),
    notify_timeout=Flag("Time limit of the command.", TIMEOUT, key="notify.timeout"),
)


FRESH = Flag(
    "Begin a new run; the unfinished one is never resumed.",
    section=Section.RUN,
    affects_output=False,
)
"""What --fresh means for a job, whose runs each have a folder of their own."""


SET_KEY = Flag(
    "Value of a key of a job file, also of one without a flag, as target.index=intranet.",
    names=("--set",),
    metavar="KEY=VALUE",
    key=None,
    affects_output=False,
)
"""What --set means for a conversion without a job file."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is run this time; `deadline` is in seconds since the epoch."""

    deadline: float | None = None
    allow_older: bool = False
    only_resume: bool = False


declare(
    RunOptions,
    Section.RUN,
    deadline=Flag("End at this time with exit code 75, and resume at the next start.", DEADLINE),
    allow_older=Flag("Push although the appliance has documents of a newer run."),
    only_resume=Flag("Finish the unfinished run; begin no other one after it."),
)


class OverrideOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Values in place of those of a job file, for one start."""

    overrides: tuple[str, ...] = ()
    job_profile: str | None = None


declare(
    OverrideOptions,
    Section.RUN,
    overrides=Flag(
        "Value of a key of the job file, as chunk.max_bytes=1MiB or 'loss.accept=[acl]'.",
        names=("--set",),
        metavar="KEY=VALUE",
        key=None,
    ),
    job_profile=Flag(
        "Profile of the job file, whose values replace those of the file.",
        names=("--profile",),
        metavar="NAME",
        key=None,
    ),
)
