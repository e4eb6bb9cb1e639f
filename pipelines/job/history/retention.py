"""Which runs of a job are removed, and how: only those that are never resumed."""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from feedferry.pipelines.folders.job_folders import run_folders
from feedferry.pipelines.folders.locks import WORK, locked_pushes
from feedferry.pipelines.job.file.job import Retention
from feedferry.schemas.errors import BusyError
from feedferry.schemas.run_record import RunRecord
from feedferry.transforms.storage.storage import PARTIAL

_REMOVED = ".removed-"
"""Prefix of the folder of a run that is being removed."""


def runs_to_remove(records: Sequence[RunRecord], keep: Retention, now: datetime) -> list[RunRecord]:
    """Return the runs, of all in order, that are over and beyond the retention of a job.

    The newest run is always kept. Abandoned runs are over too; their number counts. A replay stays
    as long as the run whose rejects it has.
    """
    over = [record for record in records if record.is_over and record.replay is None]
    kept = over[-keep.runs :] if keep.runs is not None else over
    if keep.seconds is not None:
        since = now - timedelta(seconds=keep.seconds)
        kept = [record for record in kept if (record.ended_at or record.started_at) >= since]
    removed = [record for record in over[:-1] if record not in kept]
    stays = {record.id for record in records} - {record.id for record in removed}
    replays = [record for record in records if record.is_over and record.replay is not None]
    return removed + [run for run in replays if run.replay and run.replay.run not in stays]


def remove_runs(home: Path, records: Sequence[RunRecord]) -> list[Path]:
    """Remove the folders of runs, and what interrupted removals and starts of runs have left.

    Return the folders of the runs; without one that is being pushed, which stays. The caller has
    locked the job.
    """
    removed = []
    for record in records:
        with suppress(BusyError), locked_pushes(folder := home / record.id):
            os.replace(folder, home / f"{_REMOVED}{record.id}")
            removed.append(folder)
    left = [  # the folders of runs that ended before they had a record
        folder
        for folder in run_folders(home)
        if all(path.name == WORK or path.suffix == PARTIAL for path in folder.iterdir())
    ]
    for path in (*home.glob(f"{_REMOVED}*"), *left):
        shutil.rmtree(path)
    for path in home.glob(f"*{PARTIAL}"):  # of a page that was being written
        path.unlink()
    return removed
