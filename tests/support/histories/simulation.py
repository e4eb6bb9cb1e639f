"""The nights of a job: feeds, runs that are killed and resumed, and what the index shows."""

import csv
from pathlib import Path

import msgspec

from feedferry.transforms.steps.kept_acls import CHANGED_ACLS
from support.forks import Forks
from support.histories.changes import (
    HOST,
    Night,
    Put,
    Rename,
    applied,
    feeds,
    is_sent,
    resends,
)
from support.histories.groups_feeds import groups_feeds, groups_text
from support.histories.observed_index import GROUPS_INDEX, INDEX, Finding, ObservedIndex
from support.histories.source_state import Key, SourceState

JOB = "nights.yaml"
MOST_RUNS = 12
_JOB_TEXT = """\
version: 1
job: nights
source: {{type: feeds, path: ["feeds/*"]}}
transform:
  - principals: {{table: names.csv, groups: false}}
  - acl: {acl}
target: {{type: opensearch, url: "{url}/{index}", groups_index: {groups}}}
chunk: {{max_records: 4}}
keep: {{runs: 2}}
"""
_STOPPED, _DEFECT, _KILLED = 3, 5, -9


class ViolationError(Exception):
    """A promise is broken in a night."""

    def __init__(self, night: int, text: str) -> None:
        super().__init__(f"night {night}: {text}")
        self.night = night


class Figures(msgspec.Struct):
    """The counts of a simulation."""

    nights: int = 0
    runs: int = 0
    kills: int = 0
    stops: int = 0
    requests: int = 0
    searches: int = 0
    listed: int = 0
    shown: int = 0


class Simulation:
    """A source, its job in a folder, and an index that is observed."""

    def __init__(self, folder: Path, index: ObservedIndex, forks: Forks, url: str) -> None:
        self._folder, self._index, self._forks = folder, index, forks
        self.figures = Figures()
        self.listed = frozenset[Key]()
        self._after = SourceState()
        self._url = url
        write_job(folder, url)

    def night(self, before: SourceState, night: Night) -> SourceState:
        """Return the state after a night when it has ended; raise ViolationError."""
        after = self._after = applied(before, night)
        if any(isinstance(change, Rename) for change in night.changes):
            _write_table(self._folder, after.table)
        write_settings(self._folder, self._url, after)
        earlier = self._run_folders()
        self._index.begin(before, night)
        self._run_until_done(before, night)
        self._index.end()
        after = self._after
        listed = {key for folder in self._run_folders() - earlier for key in _listed(folder)}
        sent = {
            change.key for change in night.changes if isinstance(change, Put) and is_sent(change)
        }
        if resends(night):
            sent |= {*after.items}
        sent |= {key for key in after.items if key[0] in night.full}
        self.listed = frozenset((self.listed - sent | listed) & after.items.keys())
        self._check(after)
        self.figures.nights += 1
        return after

    def _run_until_done(self, before: SourceState, night: Night) -> None:
        kills, is_corrected = [*night.kills], False
        flags: list[str] = []
        write_feeds(self._folder, before, night)
        output = ""
        for _ in range(MOST_RUNS):
            last = kills.pop(0) if kills else 0
            words = ["run", JOB, "--progress", "none", *flags]
            if is_corrected:
                words += ["--set", "safety.accept_holes=true"]  # documents without a parent
            run = self._forks.run(*words, last=last)
            output, flags = run.output, []
            self.figures.runs += 1
            self._raise_findings(run.output)
            if run.returncode in (0, 1):
                return
            if run.returncode == _KILLED:
                self.figures.kills += 1
                flags = ["--fresh"] if night.is_fresh else []
            elif run.returncode == _STOPPED:
                if is_corrected:
                    break
                self.figures.stops += 1
                is_corrected = True
                self._after = applied(before, night, is_corrected=True)
                self._index.allow(before, night, self._after)
                write_feeds(self._folder, before, night, is_corrected=True)
            elif run.returncode == 4:
                flags = ["--fresh"]
            else:
                break
        raise ViolationError(self.figures.nights, f"the night does not end: {output}")

    def _check(self, after: SourceState) -> None:
        self._raise_findings("")
        seen, permitted = self._index.visible(), after.permitted()
        if wrong := seen - permitted:
            raise ViolationError(self.figures.nights, f"found after the night: {sorted(wrong)}")
        missing = {pair for pair in permitted - seen if pair[1] not in self.listed}
        if missing:
            raise ViolationError(
                self.figures.nights, f"not found after the night: {sorted(missing)}"
            )
        self.figures.shown += len(seen)
        self.figures.listed += len(self.listed)
        self.figures.requests = self._index.requests
        self.figures.searches = self._index.searches

    def _raise_findings(self, output: str) -> None:
        if self._index.findings:
            text = "\n".join(map(_text_of, self._index.findings))
            self._index.findings.clear()
            raise ViolationError(self.figures.nights, f"{text}\n{output}")

    def _run_folders(self) -> set[Path]:
        return {*(self._folder / "runs" / "nights").glob("*-*/")}


def _text_of(finding: Finding) -> str:
    return f"after {finding.request}: {finding.pairs} {finding.text}"


def _listed(run: Path) -> set[Key]:
    """Return the documents that a run or its push states that no user finds.

    Those that wait for a parent, or whose ACL came in an earlier run, are left out: they are found
    as soon as their chain permits it.
    """
    found = set[Key]()
    for path in run.rglob("withheld.csv"):
        with path.open(encoding="utf-8", newline="") as lines:
            found |= {
                (row["datasource"], row["url"].removeprefix(HOST))
                for row in csv.DictReader(lines)
                if row["code"] != "acl-chain-waiting" and CHANGED_ACLS not in row["where"]
            }
    return found


def write_job(folder: Path, url: str) -> None:
    """Write a job that reads feeds and a table of names, and pushes to a server."""
    (folder / "feeds").mkdir()
    (folder / "groups.xml").write_text(groups_text(SourceState(), ()), "utf-8")
    write_settings(folder, url, SourceState())
    _write_table(folder, {})


def write_settings(folder: Path, url: str, state: SourceState) -> None:
    """Write the file of the job."""
    acl = "{mode: decision, groups: groups.xml}" if state.replaces_groups else "decision"
    text = _JOB_TEXT.format(url=url, index=INDEX, groups=GROUPS_INDEX, acl=acl)
    (folder / JOB).write_text(text, "utf-8")


def write_feeds(
    folder: Path, before: SourceState, night: Night, *, is_corrected: bool = False
) -> None:
    """Write the feeds of a night in place of those that are there; there is at least one.

    Besides, there is a file with all groups.
    """
    for path in (folder / "feeds").iterdir():
        path.unlink()
    after = applied(before, night, is_corrected=is_corrected)
    (folder / "groups.xml").write_text(groups_text(after, sorted(after.groups)), "utf-8")
    for write in (feeds, groups_feeds):
        for name, text in write(before, night, is_corrected=is_corrected):
            (folder / "feeds" / name).write_text(text, "utf-8")
    if not any((folder / "feeds").iterdir()):
        head = "<datasource>docs</datasource><feedtype>incremental</feedtype>"
        text = f"<gsafeed><header>{head}</header><group></group></gsafeed>"
        (folder / "feeds" / "0-docs.xml").write_text(text, "utf-8")


def _write_table(folder: Path, table: dict[str, str]) -> None:
    lines = (f"{old},{new}\n" for old, new in {"-": "-", **table}.items())
    (folder / "names.csv").write_text("".join(lines), "utf-8")
