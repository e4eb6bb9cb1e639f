"""An older run of a job is not pushed over a newer one unasked.

::

    RUNS/JOB/TIME-ID/                                      a run, with its generation in run.json
    RUNS/pushed/APPLIANCE/FORMAT/DATASOURCE/ledger.jsonl   a line for each run that was pushed there

The generation counts the runs of all jobs in one folder of runs, so that two jobs that feed one
datasource can be ordered too. Their runs disturb each other only if one of them is full, which
deletes what the other has sent. A run without a generation, made by `convert -o`, is not looked at.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from schemas.account import Chunk
from schemas.errors import ConfigError, FatalError
from schemas.feed import FULL
from transforms.sinks.push.model import ERASING_FEEDTYPES
from transforms.sinks.push.settings import PushSettings
from transforms.storage.journal import DISK, Disk, Journal, read_journal
from transforms.storage.lock import Lock
from transforms.storage.run_record import read_run

PUSHED = "pushed"
_LEDGER = "ledger.jsonl"
_NO_DATASOURCE = "-"
"""The folder of data for Thunderstone, which has no datasources; no datasource has this name."""


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
    """The runs that were pushed to one datasource of an appliance, and the run to be pushed."""

    folder: Path
    run: PushedRun
    root: Path
    target: str

    def check(self) -> None:
        """Raise ConfigError if a newer run was pushed, which this one would undo."""
        newer = [run for _, run in self._read() if run.disturbs(self.run)]
        if newer:
            raise ConfigError(
                f"{self.root}: generation {self.run.generation} of {self.run.job}; generation"
                f" {newer[-1].generation} of {newer[-1].job} was already pushed to {self.target}:"
                " expected a newer run, because this one would replace newer documents: begin a new"
                " run with --fresh, or give --allow-older"
            )

    def add(self, disk: Disk) -> None:
        """Add the run, unless it is there; it is on the disk on return."""
        lines = list(self._read())
        if any(run.run == self.run.run for _, run in lines):
            return
        path = self.folder / _LEDGER
        journal = Journal(path, size=lines[-1][0] if lines else 0, disk=disk)
        try:
            journal.append(msgspec.json.encode(self.run) + b"\n")
        finally:
            journal.close()
        disk.sync_folder(self.folder)
        disk.sync_folder(self.folder.parent)

    def _read(self) -> Iterator[tuple[int, PushedRun]]:
        """Yield each run with the offset of the end of its line."""
        path = self.folder / _LEDGER
        for line in read_journal(path):
            try:
                yield line.end, msgspec.json.decode(line.text, type=PushedRun)
            except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
                raise FatalError(
                    f"{path}:{line.number}: {exc}; expected a run that was pushed: restore the file"
                ) from exc


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
    if record is None or record.generation is None or record.job is None:
        return
    home = root.absolute().parent
    if (root.absolute().name, home.name) != (record.id, record.job):
        raise ConfigError(
            f"{root}: the run {record.id} of the job {record.job}; expected it in its folder"
            f" {record.job}/{record.id}, because newer runs are recorded next to that"
        )
    full: dict[tuple[str, str], bool] = {}
    for chunk in chunks:
        key = chunk.format or "", chunk.datasource or _NO_DATASOURCE
        is_full = chunk.requested_feedtype == FULL or chunk.feedtype in ERASING_FEEDTYPES
        full[key] = full.get(key, False) or is_full
    for (format, datasource), is_full in sorted(full.items()):
        yield Ledger(
            folder=home.parent / PUSHED / settings.appliance.name / format / datasource,
            run=PushedRun(
                generation=record.generation,
                job=record.job,
                run=record.id,
                is_full=is_full,
                at=datetime.now(UTC).isoformat(timespec="seconds"),
            ),
            root=root,
            target=settings.appliance.target,
        )
