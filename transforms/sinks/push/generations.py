"""An older run of a job is not pushed over a newer one unasked.

::

    RUNS/JOB/TIME-ID/                                      a run, with its generation in run.json
    RUNS/generations.jsonl                                 a line for each run of all jobs
    RUNS/pushed/APPLIANCE/FORMAT/DATASOURCE/ledger.jsonl   a line for each run that was pushed there

APPLIANCE is the canonical spelling of its address. The generation counts the runs of all jobs in
one folder of runs, so that two jobs that feed one datasource can be ordered too. Their runs disturb
each other only if one of them is full, which deletes what the other has sent. A run without a
generation, made by `convert -o`, is not looked at. A replay counts as the run whose rejects it
sends.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.feed import FULL
from feedferry.schemas.run_record import RUN_RECORD, RunRecord
from feedferry.transforms.sinks.push.model import ERASING_FEEDTYPES
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.storage.atomic import writing
from feedferry.transforms.storage.files.journal import DISK, Disk, Journal
from feedferry.transforms.storage.files.lock import Lock, waiting_lock
from feedferry.transforms.storage.run_folders.run_record import read_run

GENERATIONS = "generations.jsonl"
PUSHED = "pushed"
_LEDGER = "ledger.jsonl"
_NO_DATASOURCE = "-"
"""The folder of data without a datasource; no datasource has this name."""

_A_RUN = "a line about a run"


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has begun."""

    generation: int
    run: str
    job: str | None


class PushedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was pushed to a datasource, or began to be."""

    generation: int
    job: str
    run: str
    is_full: bool
    at: str

    def disturbs(self, older: "PushedRun") -> bool:
        """Whether pushing the older run now would undo a part of this one."""
        is_related = self.job == older.job or self.is_full or older.is_full
        return self.generation > older.generation and is_related


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The runs that were pushed to one datasource of an appliance, and the run to be pushed.

    `appliance` is the name of the folders of the appliance, `folder` that of the datasource.
    """

    appliance: str
    folder: Path
    run: PushedRun
    root: Path
    target: str

    def check(self) -> None:
        """Raise ConfigError if a newer run was pushed, which this one would undo."""
        pushed = (*_ledger(self.folder).read(), *self._sent_runs())
        newer = [run for run in pushed if run.disturbs(self.run)]
        if newer:
            raise ConfigError(
                f"{self.root}: generation {self.run.generation} of {self.run.job}; generation"
                f" {newer[-1].generation} of {newer[-1].job} was already pushed to {self.target},"
                " and this run would replace newer documents: begin a new run with ⟦fresh⟧, or give"
                " ⟦allow_older⟧"
            )

    def add(self, disk: Disk) -> None:
        """Add the run, unless it is there; it is on the disk on return."""
        if any(run.run == self.run.run for run in _ledger(self.folder).read()):
            return
        with _ledger(self.folder, disk) as ledger, writing(ledger.path):
            ledger.append(self.run)

    def _sent_runs(self) -> Iterator[PushedRun]:
        """Yield the runs of the job with receipts, which a ledger that was cut off may not have."""
        home = self.root.absolute().parent
        for folder in home.glob(f"*/*/{self.appliance}"):
            record = read_run(folder.parent.parent)
            if record is not None and record.age and any(folder.glob("receipts-*.jsonl")):
                yield replace(self.run, generation=record.age, run=record.id)


def next_generation(runs: Path, record: RunRecord) -> RunRecord:
    """Return the record with the next generation of a folder of runs; no other run gets it.

    It is greater than that of any pushed run, and of any run of the job that is still there, also
    if lines of `generations.jsonl` or of ledgers were lost.
    """
    ledgers = runs.glob(f"{PUSHED}/*/*/*")
    with (
        waiting_lock(runs / f".{GENERATIONS}.lock"),
        _generations(runs / GENERATIONS) as generations,
    ):
        known = [entry.generation for entry in generations.read()]
        known += [run.generation for ledger in ledgers for run in _ledger(ledger).read()]
        records = (runs / str(record.job)).glob(f"*/{RUN_RECORD}")
        earlier = (read_run(path.parent) for path in records)
        known += [run.generation for run in earlier if run and run.generation]
        entry = Generation(generation=max(known, default=0) + 1, run=record.id, job=record.job)
        with writing(generations.path):
            generations.append(entry)
    return replace(record, generation=entry.generation)


def check_generation(root: Path, chunks: Sequence[Chunk], settings: PushSettings) -> None:
    """Raise ConfigError if a newer run was pushed, which these chunks of a run would undo."""
    if not settings.allow_older:
        for ledger in _ledgers(root, chunks, settings):
            ledger.check()


@contextmanager
def claimed_datasources(
    root: Path, chunks: Sequence[Chunk], settings: PushSettings, *, disk: Disk = DISK
) -> Iterator[None]:
    """Claim the datasources of the chunks of a run, which are pushed in the block.

    Raises ConfigError as `check_generation` does, and BusyError if another run with a generation is
    being pushed to one of them.
    """
    with ExitStack() as locks:
        ledgers = list(_ledgers(root, chunks, settings))
        for ledger in ledgers:
            ledger.folder.mkdir(parents=True, exist_ok=True)
            where = f"{ledger.folder.name} at {ledger.target}"
            locks.enter_context(Lock(ledger.folder / "lock", where=where, by="push"))
        check_generation(root, chunks, settings)
        for ledger in ledgers:
            ledger.add(disk)
        yield


def _ledgers(root: Path, chunks: Sequence[Chunk], settings: PushSettings) -> Iterator[Ledger]:
    """Yield a ledger for each datasource, always in the same order; none without a generation."""
    record = read_run(root)
    if record is None or record.generation is None or record.age is None or record.job is None:
        return
    home = root.absolute().parent
    if (root.absolute().name, home.name) != (record.id, record.job):
        raise ConfigError(
            f"{root}: the run {record.id} of the job {record.job}; expected it in its folder"
            f" {record.job}/{record.id}, because newer runs are recorded next to that"
        )
    path = home.parent / GENERATIONS
    begun = Generation(generation=record.generation, run=record.id, job=record.job)
    if begun not in _generations(path).read():
        raise ConfigError(
            f"{root}: not in {path}; expected a run where it was made, because newer runs are"
            " recorded next to that: push it there, or begin a new run with ⟦fresh⟧"
        )
    full: dict[tuple[str, str], bool] = {}
    for chunk in chunks:
        key = chunk.format or "", chunk.datasource or _NO_DATASOURCE
        is_full = chunk.requested_feedtype == FULL or chunk.feedtype in ERASING_FEEDTYPES
        full[key] = full.get(key, False) or is_full
    appliance = settings.appliance.name
    for (format, datasource), is_full in sorted(full.items()):
        yield Ledger(
            appliance=appliance,
            folder=home.parent / PUSHED / appliance / format / datasource,
            run=PushedRun(
                generation=record.age,
                job=record.job,
                run=record.id,
                is_full=is_full,
                at=datetime.now(UTC).isoformat(timespec="seconds"),
            ),
            root=root,
            target=settings.appliance.target,
        )


def _generations(path: Path) -> Journal[Generation]:
    return Journal(path, msgspec.json.Decoder(Generation).decode, expected=_A_RUN)


def _ledger(path: Path, disk: Disk = DISK) -> Journal[PushedRun]:
    decode = msgspec.json.Decoder(PushedRun).decode
    return Journal(path / _LEDGER, decode, expected=_A_RUN, disk=disk)
