"""Read the folder of a run for its report: what is missing or damaged is left out."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from pipelines.cli.locks import WORK
from pipelines.convert.report import Report
from pipelines.job.folders import runs_of
from schemas.account import AccountTotals, Chunk, RejectSample
from schemas.receipt import ChunkState, Receipt
from schemas.run_record import RUN_RECORD, RunRecord
from schemas.timeline import TIMELINE, TimelinePoint
from transforms.storage.journal import read_journal

_T = TypeVar("_T")


class PushReport(msgspec.Struct, frozen=True, kw_only=True):
    """The account of a push, from the `report.json` next to its receipts.

    `sent_bytes`, `waited_seconds` and `seconds` do not count earlier pushes that it continues.
    """

    target: str
    chunks: dict[str, int] = {}
    records: dict[str, int] = {}
    earlier_chunks: int = 0
    bytes: int = 0
    sent_bytes: int = 0
    attempts: int = 0
    notices: dict[str, int] = {}
    accepted_rejects: dict[str, int] = {}
    reject_samples: dict[str, tuple[RejectSample, ...]] = {}
    stopped: str | None = None
    waited_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def new_rejects(self) -> int:
        """The refused records that no list of known rejects has."""
        return self.records.get("refused", 0) - sum(self.accepted_rejects.values())


class PushData(msgspec.Struct, frozen=True, kw_only=True):
    """A push to one appliance; `report` is `None` while it has not ended.

    `seconds` has the time between the first attempt to send a chunk and its acceptance, by ordinal.
    """

    name: str
    report: PushReport | None
    seconds: dict[int, float] = {}


class RunData(msgspec.Struct, frozen=True, kw_only=True):
    """What the folder of a run holds about the run.

    `account` is that of the report, or of a conversion that is not published. `sizes` has the bytes
    of each chunk by its ordinal, `problems` names unreadable files.
    """

    folder: Path
    record: RunRecord | None
    report: Report | None
    account: AccountTotals | None
    pushes: tuple[PushData, ...]
    points: tuple[TimelinePoint, ...] = ()
    sizes: dict[int, int] = {}
    problems: tuple[str, ...] = ()


def read_run_data(folder: Path, *, has_chunks: bool = True) -> RunData:
    """Return the content of a run folder, whatever state the run is in.

    Without the chunks, only small files are read: the progress of a run only if it was resumed.
    """
    problems: list[str] = []
    record = _decode(folder / RUN_RECORD, RunRecord, problems)
    report = _decode(folder / "report.json", Report, problems)
    has_points = has_chunks or (record is not None and record.attempts > 1)
    return RunData(
        folder=folder,
        record=record,
        report=report,
        account=report.account if report is not None else _unpublished(folder, problems),
        pushes=tuple(
            PushData(
                name=path.name,
                report=_decode(path / "report.json", PushReport, problems),
                seconds=_acceptances(path, problems) if has_chunks else {},
            )
            for path in sorted(folder.glob("push/*/"))
        ),
        points=tuple(_lines(folder / TIMELINE, TimelinePoint, problems)) if has_points else (),
        sizes={
            chunk.ordinal: chunk.bytes
            for chunk in _lines(folder / "manifest.jsonl", Chunk, problems)
        }
        if has_chunks
        else {},
        problems=tuple(problems),
    )


def read_runs(home: Path, most: int | None = None) -> list[RunData]:
    """Return the newest runs of a job without their chunks, the newest first."""
    records = runs_of(home)[::-1][:most]
    return [read_run_data(home / record.id, has_chunks=False) for record in records]


def _unpublished(folder: Path, problems: list[str]) -> AccountTotals | None:
    """Return the account of a conversion that stopped at a limit, or was killed before its end."""
    paths = sorted(folder.glob(f"{WORK}/*/account.json"))
    return _decode(paths[-1], AccountTotals, problems) if paths else None


def _acceptances(folder: Path, problems: list[str]) -> dict[int, float]:
    """Return the seconds until each chunk was accepted, from the last file of receipts."""
    started: dict[int, datetime] = {}
    seconds: dict[int, float] = {}
    path = max(folder.glob("receipts-*.jsonl"), default=folder / "receipts-001.jsonl")
    for receipt in _lines(path, Receipt, problems, skipped=1):
        at = _moment(receipt.at)
        if at is None:
            continue
        begin = started.setdefault(receipt.chunk, at)
        if receipt.state is ChunkState.ACCEPTED:  # of the whole chunk, or of its last part so far
            seconds[receipt.chunk] = max((at - begin).total_seconds(), 0.0)
    return seconds


def _decode(path: Path, kind: type[_T], problems: list[str]) -> _T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as exc:
        problems.append(f"{path}: {exc}")
        return None


def _lines(path: Path, kind: type[_T], problems: list[str], *, skipped: int = 0) -> Iterator[_T]:
    """Yield the whole lines of a file after the first `skipped` ones, up to a damaged line."""
    decoder = msgspec.json.Decoder(kind)
    try:
        for line in read_journal(path):
            if line.number > skipped:
                yield decoder.decode(line.text)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as exc:
        problems.append(f"{path}: {exc}")


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
