"""Options of `feedferry run` that no other verb has."""

from pathlib import Path
from typing import Annotated

import msgspec

from pipelines.cli.flags import Flag
from pipelines.cli.value_parsers import DEADLINE, ValueType
from pipelines.cli.verb import Section

_RUN = Section.RUN
_PATH = ValueType("PATH", Path, str)

FRESH = Flag("Begin a new run, and never resume the unfinished one.", _RUN, affects_output=False)
"""What --fresh means for a job, whose runs each have a folder of their own."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is run; `deadline` is in seconds since the epoch."""

    deadline: Annotated[
        float | None,
        Flag("End at this time, with exit code 75; start again to resume.", _RUN, DEADLINE),
    ] = None
    allow_older: Annotated[
        bool, Flag("Push although the appliance has a newer run.", _RUN, affects_output=False)
    ] = False
    runs: Annotated[
        Path | None,
        Flag(
            "Folder of all runs.",
            _RUN,
            _PATH,
            key="runs",
            metavar="DIR",
            default="runs/ next to JOB",
            affects_output=False,
        ),
    ] = None
    metrics_file: Annotated[
        Path | None,
        Flag(
            "Write metrics for Prometheus to this file.",
            _RUN,
            _PATH,
            key="metrics_file",
            metavar="FILE",
            affects_output=False,
        ),
    ] = None
