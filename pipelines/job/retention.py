"""Which runs of a job are removed, and how: only those that are never resumed."""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from pipelines.cli.locks import locked_pushes
from pipelines.job.job import Retention
from schemas.errors import BusyError
from schemas.run_record import RunRecord

_REMOVED = ".removed-"
"""Prefix of the folder of a run that is being removed."""


def runs_to_remove(records: Sequence[RunRecord], keep: Retention, now: datetime) -> list[RunRecord]:
    """Return the runs, of all in order, that are over and beyond the retention of a job.

    The newest run is always kept. Abandoned runs are over too; their number counts.
    """
    over = [record for record in records if record.is_over]
    kept = over[-keep.runs :] if keep.runs is not None else over
    if keep.seconds is not None:
        since = now - timedelta(seconds=keep.seconds)
        kept = [record for record in kept if (record.ended_at or record.started_at) >= since]
    return [record for record in over[:-1] if record not in kept]


def remove_runs(home: Path, records: Sequence[RunRecord]) -> list[Path]:
    """Remove the folders of runs, and what an interrupted removal has left.

    Return the folders of the runs; without one that is being pushed, which stays.
    """
    removed = []
    for record in records:
        with suppress(BusyError), locked_pushes(folder := home / record.id):
            os.replace(folder, home / f"{_REMOVED}{record.id}")
            removed.append(folder)
    for path in home.glob(f"{_REMOVED}*"):
        shutil.rmtree(path)
    return removed
