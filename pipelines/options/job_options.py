"""The settings that only jobs have, each declared with its key and its flag of `run`."""

import re
from typing import Annotated

import msgspec

from pipelines.options.flags import Flag, Section
from pipelines.options.value_parsers import DURATION, OUTPUT_FILE, ValueType, count_of
from schemas.errors import ConfigError
from transforms.sinks.push.generations import GENERATIONS, PUSHED

_NAME = re.compile(r"\w[\w.-]{0,99}")
_RUN = Section.RUN


def parse_job_name(text: str) -> str:
    """Return the name of a job, which is also the name of a folder."""
    if not _NAME.fullmatch(text):
        raise ConfigError(
            f"{text!r}; expected the name of a folder: at most 100 letters, digits, -, _ and .,"
            " without . or - at its beginning"
        )
    if text in (PUSHED, GENERATIONS):
        raise ConfigError(f"{text!r}; expected another name: the folder of runs has one of its own")
    return text


_JOB = ValueType("NAME", parse_job_name)


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job keeps its runs, and for how long; `None` means not stated."""

    name: Annotated[
        str,
        Flag(
            "Name of the job, and of the folder of its runs.",
            _RUN,
            _JOB,
            names=("NAME",),  # only in a file
            key="job",
        ),
    ]
    keep_runs: Annotated[
        int | None,
        Flag(
            "Finished runs to keep.",
            _RUN,
            count_of("runs", minimum=1),
            key="keep.runs",
            default="all",
        ),
    ] = None
    keep_seconds: Annotated[
        float | None,
        Flag(
            "Remove finished runs that are older.",
            _RUN,
            DURATION,
            names=("--keep-age",),
            key="keep.age",
            default="none",
        ),
    ] = None
    runs: Annotated[
        str,
        Flag(
            "Folder for the runs of all jobs, below the folder of the job file.",
            _RUN,
            OUTPUT_FILE,
            key="runs",
        ),
    ] = "runs"
    has_state: Annotated[
        bool,
        Flag(
            "Read only what changed since the last run.",
            _RUN,
            names=("--no-state",),
            key="state",
            default="true for files and databases, unless the feedtype is full",
        ),
    ] = True
    metrics_file: Annotated[
        str | None,
        Flag(
            "Prometheus text file to write after each run.",
            _RUN,
            OUTPUT_FILE,
            key="metrics_file",
            default="none",
        ),
    ] = None
