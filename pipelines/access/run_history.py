"""The runs and the kept ACLs of a job, as of one of its runs."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from feedferry.pipelines.folders.gateway_folders import find_acls, find_spool
from feedferry.pipelines.folders.job_folders import STATE, find_home, runs_of, shown_path
from feedferry.pipelines.folders.manifest import has_sent
from feedferry.pipelines.options.convert_options import ACLS_SUFFIX
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.run_record import Phase, RunRecord
from feedferry.transforms.config.yaml_structs import YAML_SUFFIXES
from feedferry.transforms.steps.kept_acls import REPLACED_ACLS, KeptAcl, read_kept
from feedferry.transforms.storage.run_folders.run_record import read_run

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_BACKUP = re.compile(r"\.backup-(\d{8}T\d{6})")


_OF_A_GATEWAY = (
    "a gateway keeps ACLs that arrive alone, that others inherit, or that inherit, and no others:"
    " --target has the decision in the index"
)


class RunHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a job up to one of them, the newest first, and the ACLs that the job kept then.

    `acls` is the file of the job, `later` are the runs after that, the oldest first: an ACL that a
    later run has replaced is in the folder of that run. A conversion without a job has one folder
    and no `home`, and keeps no ACLs.
    """

    home: Path | None = None
    acls: Path | None = None
    folders: Sequence[Path] = ()
    later: Sequence[Path] = ()
    notes: Sequence[str] = ()

    def acls_of(self, url: str) -> list[KeptAcl]:
        """Return the ACLs of a URL, one for each datasource whose document does not state none."""
        names = {folder.name for folder in self.later}
        found: dict[str | None, KeptAcl] = {}
        for path in (*(folder / REPLACED_ACLS for folder in self.later), self.acls):
            for acl in () if path is None else read_kept(path, url):
                found.setdefault(acl.datasource, acl)
        acls = sorted(found.values(), key=lambda acl: acl.datasource or "")
        return [acl for acl in acls if acl.run not in names and not acl.states_none]


def find_history(text: str, as_of: str | None) -> RunHistory:
    """Return the history at `text`: a job as in `find_home`, a run, a state file, or a spool.

    It is that as of a run, or as of a time; without one, as of the newest run or that of `text`.
    Raise ConfigError if that run is not there.
    """
    path, spool = Path(text), find_spool(text)
    if spool is not None:
        if as_of is not None:
            raise ConfigError("--as-of: not for a gateway; expected the job, which has runs")
        return RunHistory(acls=find_acls(text, spool), notes=[_OF_A_GATEWAY])
    if path.is_file() and path.suffix not in YAML_SUFFIXES:
        if as_of is not None:
            raise ConfigError("--as-of: not for a state file; expected the job, which has runs")
        acls = path if path.suffix == ACLS_SUFFIX else path.with_name(f"{path.name}{ACLS_SUFFIX}")
        return RunHistory(acls=acls)
    record = read_run(path) if path.is_dir() else None
    if record is not None and record.job is None:
        if as_of is not None:
            raise ConfigError(f"--as-of: not for {path}, a conversion without a job")
        return RunHistory(folders=(path,))
    if record is not None:
        return _history_of(path.parent, as_of or path.name)
    return _history_of(find_home(text), as_of)


def _history_of(home: Path, as_of: str | None) -> RunHistory:
    """Return the history of a job; a replay is as old as the run whose rejects it has."""
    records = sorted(runs_of(home), key=lambda run: (run.age or 0, run.generation or 0))
    if not records:
        raise ConfigError(f"{home}: no runs; expected a job that has run")
    count = len(records) if as_of is None else _position(records, as_of, home)
    acls = home / f"{STATE}{ACLS_SUFFIX}"
    folders = [home / record.id for record in records]
    known = [run for run in records[:count] if _may_have_sent(home / run.id, run)]
    last = records[count - 1]
    notes = [
        f"{record.id} {'was abandoned' if record.is_abandoned else 'is not finished'}:"
        " the target may have a part of it"
        for record in known
        if record.phase is not Phase.DONE or record.is_abandoned
    ]
    ended = last.ended_at or last.started_at
    notes += [
        f"{shown_path(copy)} has the ACLs of the job before they were changed by feedferry state"
        for copy in sorted(home.glob(f"{acls.name}.backup-*"))
        if (stamp := _BACKUP.search(copy.name))
        and datetime.strptime(stamp[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC) > ended
    ]
    return RunHistory(
        home=home,
        acls=acls,
        folders=[home / record.id for record in reversed(known)],
        later=folders[count:],
        notes=notes,
    )


def _position(records: Sequence[RunRecord], as_of: str, home: Path) -> int:
    """Return the number of runs up to the one that `as_of` names, or up to its time."""
    name = Path(as_of).name
    names = [record.id for record in records]
    if name in names:
        return names.index(name) + 1
    moment = _moment(as_of)
    if moment is None:
        raise ConfigError(
            f"--as-of: {as_of!r}: no run in {shown_path(home)}, which has {names[0]} to"
            f" {names[-1]}; expected one of these, or a time such as 2026-11-24T18:00:00Z. Runs"
            " before these were removed (keep)"
        )
    count = sum(record.started_at < moment for record in records)
    if not count:
        raise ConfigError(
            f"--as-of: {as_of!r}: before {names[0]}, the oldest run in {shown_path(home)}; expected"
            " a later time: earlier runs were removed (keep), or there were none"
        )
    return count


def _moment(text: str) -> datetime | None:
    """Return a time in ISO 8601, and of a day its end; None for another text.

    Without a zone, it is in UTC.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return moment + timedelta(days=1) if _DAY.fullmatch(text) else moment


def _may_have_sent(folder: Path, record: RunRecord) -> bool:
    """Whether the target may have a part of a run."""
    if record.is_abandoned:
        return has_sent(folder)
    return record.phase is not Phase.CONVERT
