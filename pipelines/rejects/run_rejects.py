"""The rejects of a run, with what is known about them: accepted, or replayed by another run."""

import json
import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import msgspec

from feedferry.pipelines.job.file.job_file import load_job
from feedferry.pipelines.report.run_data import REJECTS, numbered_rejects
from feedferry.pipelines.report.run_report import CONFIG
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.reject import Reject
from feedferry.transforms.rules.known_rejects import add_known_rejects, entry_of, load_known_rejects
from feedferry.transforms.rules.older_versions import OLDER_VERSION
from feedferry.transforms.storage.atomic import read_json, write_json
from feedferry.transforms.storage.run_folders.mirrors import shown
from feedferry.transforms.storage.run_folders.run_record import read_run

_REPORT = "report.json"
_REPLAYED = "replayed.json"


class RunReject(NamedTuple):
    """A reject of a run, numbered from 1; `replayed_in` is the run that converted it."""

    run: Path
    number: int
    reject: Reject
    is_accepted: bool = False
    replayed_in: str | None = None

    @property
    def state(self) -> str:
        return "replayed" if self.replayed_in else "accepted" if self.is_accepted else "new"

    @property
    def is_new(self) -> bool:
        return self.state == "new"

    @property
    def is_correctable(self) -> bool:
        """Whether its bytes may be converted again; those of an older version never are."""
        return bool(self.reject.data) and self.reject.code != OLDER_VERSION


class RejectFilter(NamedTuple):
    """Which rejects are meant; empty fields are any. URLs and sources are glob patterns."""

    codes: tuple[str, ...] = ()
    url: str | None = None
    source: str | None = None

    def takes(self, reject: Reject) -> bool:
        return (
            (not self.codes or reject.code in self.codes)
            and (self.url is None or fnmatchcase(reject.url or "", self.url))
            and (self.source is None or fnmatchcase(reject.source, self.source))
        )


EVERY_REJECT = RejectFilter()


class _ListSetting(msgspec.Struct, frozen=True):
    accepted_rejects: str | None = None


class _SettingsOfReport(msgspec.Struct, frozen=True):
    """The part of a report that says which list the run had."""

    settings: _ListSetting = _ListSetting()


def rejects_of(
    run: Path, chosen: RejectFilter = EVERY_REJECT, *, known_path: Path | None = None
) -> Iterator[RunReject]:
    """Yield the rejects of a run in the order of their numbers.

    The list of known rejects is that of the run, or `known_path`.
    """
    path = known_path or known_path_of(run)
    known = load_known_rejects(None if path is None else str(path))
    replayed = read_replayed(run)
    for number, reject in numbered_rejects(run):
        if chosen.takes(reject):
            is_accepted = bool(known) and entry_of(reject) in known
            yield RunReject(run, number, reject, is_accepted, replayed.get(number))


def known_path_of(run: Path) -> Path | None:
    """Return the path of the list of known rejects that a run has, None if it has none.

    It is in the report of a run, or in the settings of a run that has none yet.
    """
    report = read_json(run / _REPORT, _SettingsOfReport, expected="the report of a run")
    if report is None:
        settings = run / CONFIG
        return _known_path_of_job(settings, is_of_run=True) if settings.exists() else None
    found = report.settings.accepted_rejects
    return Path(found) if found else None


def job_file_of(run: Path) -> Path | None:
    """Return the job file of a run, next to the folder of all runs; None without a job.

    Raises ConfigError if it is not there.
    """
    record = read_run(run)
    if record is None or record.job is None:
        return None
    path = run.absolute().parents[2] / f"{record.job}.yaml"
    if not path.exists():
        raise ConfigError(f"{path}: not there; expected the job file of {run}: give it as JOB")
    return path


def _known_path_of_job(path: Path, *, is_of_run: bool = False) -> Path | None:
    # The settings of a conversion into object storage have its URI, where a job has a folder.
    words = {"overrides": (f"runs={path.parent}",)} if is_of_run else {}
    found = load_job(path, words, os.environ).convert.accepted_rejects
    return Path(found) if found else None


def find_reject(run: Path, *, number: int | None = None, url: str | None = None) -> RunReject:
    """Return one reject, by its number or its URL; raise ConfigError if there is none."""
    for found in rejects_of(run):
        if found.number == number or (url is not None and found.reject.url == url):
            return found
    wanted = f"reject {number}" if number is not None else f"reject of {url}"
    raise ConfigError(
        f"{shown(run)}: no {wanted}; expected one that feedferry rejects list --format json shows"
    )


def accept_rejects(
    run: Path, chosen: RejectFilter, path: Path | None, *, job_file: Path | None = None
) -> tuple[Path, int]:
    """Add rejects of a run to a list; return its path and how many were new to it.

    The list is that of the job as it is now, or of a run without a job, unless there is a `path`.
    """
    if path is None:
        job_file = job_file or job_file_of(run)
        path = known_path_of(run) if job_file is None else _known_path_of_job(job_file)
    if path is None:
        raise ConfigError(
            f"{job_file or shown(run)}: no list of known rejects; expected ⟦output FILE⟧, and then"
            " ⟦accepted_rejects FILE⟧ or the key rejects.accepted of the job"
        )
    rejects = rejects_of(run, chosen, known_path=path)
    return path, add_known_rejects(path, {entry_of(found.reject) for found in rejects})


def read_replayed(run: Path) -> dict[int, str]:
    """Return the runs that converted rejects of a run, by the numbers of the rejects."""
    path = run / REJECTS / _REPLAYED
    return read_json(path, dict[int, str], expected="numbers of runs") or {}


def mark_replayed(run: Path, numbers: Iterable[int], by: str) -> None:
    marks = read_replayed(run) | dict.fromkeys(numbers, by)
    write_json(run / REJECTS / _REPLAYED, {str(number): marks[number] for number in sorted(marks)})


def as_json_line(found: RunReject) -> str:
    """Return a reject as one line of JSON, without its bytes."""
    values = msgspec.to_builtins(msgspec.structs.replace(found.reject, data=b""))
    del values["data"]
    state = {"is_accepted": found.is_accepted, "replayed_in": found.replayed_in}
    return json.dumps(
        {"run": shown(found.run), "number": found.number, **values, **state}, ensure_ascii=False
    )
