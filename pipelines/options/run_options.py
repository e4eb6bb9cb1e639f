"""Options of `feedferry run` that no job file has."""

import msgspec

from pipelines.options.flags import Flag, declare
from pipelines.options.section import Section
from pipelines.options.value_parsers import DEADLINE

_RUN = Section.RUN

FRESH = Flag(
    "Begin a new run; the unfinished one is never resumed.", section=_RUN, affects_output=False
)
"""What --fresh means for a job, whose runs each have a folder of their own."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is run this time; `deadline` is in seconds since the epoch."""

    deadline: float | None = None
    allow_older: bool = False
    only_resume: bool = False


declare(
    RunOptions,
    _RUN,
    deadline=Flag("End at this time with exit code 75, and resume at the next start.", DEADLINE),
    allow_older=Flag("Push although the appliance has documents of a newer run."),
    only_resume=Flag("Finish the unfinished run; begin no other one after it."),
)
