"""The folders of the runs of jobs: where they are, and the record of each run.

::

    RUNS/JOB/TIME-ID/run.json     one run; TIME is that of its start, in UTC
    RUNS/JOB/state, lock          shared by the runs of a job
    RUNS/generations.jsonl        shared by all jobs, see `transforms.sinks.push.generations`
"""

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from msgspec.structs import replace

from feedferry.pipelines.folders.remote_runs import mirror_to_read
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.run_record import RUN_RECORD, RunRecord
from feedferry.transforms.config.secrets import resolve
from feedferry.transforms.config.yaml_structs import YAML_SUFFIXES, read_scalars
from feedferry.transforms.storage.run_folders.run_record import read_run, write_run
from feedferry.transforms.storage.storage import is_object

RUNS = "runs"
"""The folder of all runs, next to the job file unless the job names another one."""

STATE = "state"
"""The state of a job's source, in the folder of the job."""

_RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}")
_RUN_FILES = (RUN_RECORD, "manifest.jsonl", "report.json")


def new_run_id(now: datetime) -> str:
    """Return the name of the folder of a run that begins now; names sort by time."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{uuid4().hex[:4]}"


def runs_of(home: Path) -> list[RunRecord]:
    """Return the records of the runs of a job, the oldest first, whatever the clock was.

    A folder with the record of another one is a copy, and no run.
    """
    found = {folder.name: read_run(folder) for folder in run_folders(home)}
    records = [record for name, record in found.items() if record is not None and record.id == name]
    return sorted(records, key=lambda run: (run.generation or 0, run.started_at, run.id))


def run_folders(home: Path) -> list[Path]:
    """Return the folders of a job that are named as runs; one without a record is no run yet."""
    return [path for path in home.glob("*-*") if _RUN_ID.fullmatch(path.name)]


def abandon(folder: Path, record: RunRecord, reason: str) -> None:
    """Mark an unfinished run as one that is not resumed."""
    now = datetime.now(UTC)
    write_run(folder, replace(record, is_abandoned=True, ended_at=now, message=reason))


def find_run(text: str) -> Path:
    """Return the folder of a run: `text` is that folder, or a job, of which it is the newest run.

    A replay is not the newest run of a job. The output folder of a conversion without a job is the
    folder of a run as well. Raises ConfigError if there is none.
    """
    folder = mirror_to_read(text) if is_object(text) else Path(text)
    if any((folder / name).is_file() for name in _RUN_FILES):
        return folder
    if is_object(text):
        raise ConfigError(f"{text}: no run; expected the -o of convert")
    home = find_home(text)
    if not (records := [record for record in runs_of(home) if record.replay is None]):
        raise ConfigError(f"{text}: {home} has no runs; expected a job that has run")
    return home / records[-1].id


def find_home(text: str) -> Path:
    """Return the folder of a job's runs; `text` is its job file, this folder, or its name in runs/.

    Raises ConfigError if there is none. The folder of a job that has never run may be missing.
    """
    path = Path(text)
    if path.is_file():
        return _home_of(path)
    if path.is_dir():
        return path
    home = Path(RUNS) / text
    if not home.is_dir():
        names = sorted(path.name for path in Path(RUNS).glob("*/") if runs_of(path))
        known = f": {RUNS}/ has {', '.join(names)}" if names else ""
        raise ConfigError(
            f"{text!r}: no such job; expected a job file, the folder of a job or of a run, or the"
            f" name of a job in {RUNS}/{known}"
        )
    return home


def shown_path(path: Path) -> Path:
    """Return a path below the working folder without that folder."""
    return Path(os.path.relpath(path)) if path.absolute().is_relative_to(Path.cwd()) else path


def _home_of(path: Path) -> Path:
    """Return the folder of the runs of a job file, of which only two keys are decoded."""
    if path.suffix not in YAML_SUFFIXES:
        raise ConfigError(f"{path}: expected a job file, with the extension {YAML_SUFFIXES[0]}")
    keys = read_scalars(path)
    runs = os.environ.get("FEEDFERRY_RUNS") or path.parent / resolve(keys.get("runs", RUNS))
    return Path(runs) / keys.get("job", path.stem)
