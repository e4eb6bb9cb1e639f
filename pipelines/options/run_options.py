"""Options of `feedferry run` that no job file has."""

from typing import Annotated

import msgspec

from pipelines.options.flags import Flag, Section
from pipelines.options.value_parsers import DEADLINE

_RUN = Section.RUN

FRESH = Flag("Begin a new run; the unfinished one is never resumed.", _RUN, affects_output=False)
"""What --fresh means for a job, whose runs each have a folder of their own."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is run this time; `deadline` is in seconds since the epoch."""

    deadline: Annotated[
        float | None,
        Flag("End at this time with exit code 75, and resume at the next start.", _RUN, DEADLINE),
    ] = None
    allow_older: Annotated[
        bool, Flag("Push although the appliance has documents of a newer run.", _RUN)
    ] = False
    only_resume: Annotated[
        bool, Flag("Finish the unfinished run; begin no other one after it.", _RUN)
    ] = False
