"""The progress of a run over time, in the file `timeline.jsonl` of its folder.

A point is appended at the beginning and end of each phase and at intervals between them. A run that
is resumed appends to the same file.
"""

from typing import Annotated

import msgspec

from feedferry.schemas.run_record import Phase

TIMELINE = "timeline.jsonl"
"""Name of the file in the folder of a run."""


class TimelinePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a phase at one time; `at` is in seconds since 1970.

    `total` is the expected final value of `bytes`, or of `records` if `counts_records`; `None` if
    it is not known. `backlog` is the last answer of the appliance, `None` before the first.
    """

    at: Annotated[float, msgspec.Meta(ge=0, lt=1e11)]
    phase: Phase
    bytes: int
    records: int
    rejects: int
    total: int | None = None
    counts_records: bool = False
    backlog: int | None = None
