"""Read the folder of a run for its report: what is missing or damaged is left out."""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import msgspec

from feedferry.pipelines.folders.job_folders import runs_of
from feedferry.pipelines.folders.locks import ACCOUNT, WORK
from feedferry.pipelines.report.conversion_report import Report
from feedferry.pipelines.report.differences import VERIFICATION, Verification
from feedferry.pipelines.report.page_text import MAX_ROWS
from feedferry.pipelines.report.push_report import PushReport
from feedferry.schemas.account import AccountTotals, Chunk
from feedferry.schemas.errors import FatalError, FeedferryError
from feedferry.schemas.receipt import ChunkState
from feedferry.schemas.reject import Reject
from feedferry.schemas.run_record import RUN_RECORD, RunRecord
from feedferry.schemas.timeline import TIMELINE, TimelinePoint
from feedferry.transforms.rules.acl_changes import (
    ACL_CHANGES,
    ListedChange,
    first_changes,
)
from feedferry.transforms.sinks.push.receipts import read_receipts
from feedferry.transforms.storage.atomic import read_json, read_rejects
from feedferry.transforms.storage.files.journal import Journal
from feedferry.transforms.storage.run_folders.attempts import SPAN_REJECTS

REJECTS = "rejects"
"""Folder of a run with its rejects."""

_REPORT = "report.json"
_MAX_SCANNED = 10_000
"""How many rejects are read for a page, so that rare codes are shown too."""

_MAX_OF_CODE = 50
_T = TypeVar("_T")


class ChunkValues(Mapping[int, float]):
    """Numbers by the ordinals of chunks, in their order; 16 bytes for each.

    The last number of an ordinal counts. `kind` is the type of an array.
    """

    def __init__(self, kind: Literal["q", "d"], numbers: Iterable[tuple[int, float]] = ()) -> None:
        self._ordinals = array("q")
        self._values: array[int] | array[float] = array(kind)
        for ordinal, number in numbers:
            self._ordinals.append(ordinal)
            self._values.append(number)  # type: ignore[arg-type]  # integers for "q"
        if any(after <= before for before, after in pairwise(self._ordinals)):
            index_of = {ordinal: index for index, ordinal in enumerate(self._ordinals)}
            self._ordinals = array("q", sorted(index_of))
            self._values = array(kind, (self._values[index_of[at]] for at in self._ordinals))

    def __len__(self) -> int:
        return len(self._ordinals)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ordinals)

    def __getitem__(self, ordinal: int) -> float:
        index = bisect_left(self._ordinals, ordinal)
        if self._ordinals[index : index + 1] != array("q", [ordinal]):
            raise KeyError(ordinal)
        return self._values[index]


NO_VALUES = ChunkValues("q")


class NumberedReject(NamedTuple):
    """A reject of a run, and its number in the run, from 1."""

    number: int
    reject: Reject


class PushData(msgspec.Struct, frozen=True, kw_only=True):
    """A push to one appliance; `report` is `None` while it has not ended.

    `seconds` has the time between the first attempt to send a chunk and its acceptance, by ordinal.
    `acl_changes` are some of the listed changes of who sees documents, the wider ones first.
    """

    name: str
    report: PushReport | None
    seconds: Mapping[int, float] = NO_VALUES
    acl_changes: Sequence[ListedChange] = ()


class RunData(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the folder of a run.

    `account` is that of the report, or of a conversion that is not published. `sizes` has the bytes
    of each chunk by its ordinal, `problems` names unreadable files. `rejects` are the first ones of
    each code.
    """

    folder: Path
    record: RunRecord | None
    report: Report | None
    account: AccountTotals | None
    pushes: tuple[PushData, ...]
    verification: Verification | None = None
    points: tuple[TimelinePoint, ...] = ()
    sizes: Mapping[int, float] = NO_VALUES
    rejects: tuple[NumberedReject, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def push_reports(self) -> list[PushReport]:
        """The reports of the pushes that have ended."""
        return [push.report for push in self.pushes if push.report is not None]

    @property
    def withheld(self) -> int:
        """The number of rejected documents that no user finds."""
        noted = self.account and self.account.notices.get("withheld")
        return (noted.count if noted else 0) + sum(push.withheld for push in self.push_reports)

    @property
    def newer(self) -> int:
        """The number of records of which the target had newer versions."""
        return sum(push.newer for push in self.push_reports)


def read_run_data(folder: Path, *, has_chunks: bool = True) -> RunData:
    """Return the content of a run folder, whatever state the run is in.

    Without the chunks, only small files are read: the progress of a run only if it was resumed.
    """
    problems: list[str] = []
    record = _decode(folder / RUN_RECORD, RunRecord, problems)
    report = _decode(folder / _REPORT, Report, problems)
    has_points = has_chunks or (record is not None and record.attempts > 1)
    chunks = _lines(folder / "manifest.jsonl", Chunk, problems) if has_chunks else ()
    return RunData(
        folder=folder,
        record=record,
        report=report,
        account=report.account if report is not None else _unpublished(folder, problems),
        pushes=tuple(
            PushData(
                name=path.name,
                report=_decode(path / "report.json", PushReport, problems),
                seconds=ChunkValues("d", _acceptances(path, problems)) if has_chunks else NO_VALUES,
                acl_changes=first_changes(path / ACL_CHANGES, MAX_ROWS) if has_chunks else (),
            )
            for path in sorted(folder.glob("push/*/"))
        ),
        verification=_decode(folder / VERIFICATION, Verification, problems),
        points=tuple(_lines(folder / TIMELINE, TimelinePoint, problems)) if has_points else (),
        sizes=ChunkValues("q", ((chunk.ordinal, chunk.bytes) for chunk in chunks)),
        rejects=tuple(_first_rejects(folder, problems)) if has_chunks else (),
        problems=tuple(problems),
    )


def numbered_rejects(run: Path) -> Iterator[NumberedReject]:
    """Yield the rejects of a run: those of the conversion, then those of its pushes.

    A run that stopped at a limit has published nothing; its rejects are those of its parts that
    were converted to their end. Raises FatalError for a file that cannot be read.
    """
    files = sorted((run / REJECTS).glob("*.avro"))
    if not (run / _REPORT).exists():
        paths = sorted(run.glob(f"{WORK}/*/*/*/*{SPAN_REJECTS}"))
        files = list({path.name: path for path in paths}.values())  # of one attempt for each span
    for number, reject in enumerate(chain.from_iterable(map(read_rejects, files)), start=1):
        yield NumberedReject(number, reject)


def read_runs(home: Path, most: int | None = None) -> list[RunData]:
    """Return the newest runs of a job without their chunks, the newest first."""
    records = runs_of(home)[::-1][:most]
    return [read_run_data(home / record.id, has_chunks=False) for record in records]


def _unpublished(folder: Path, problems: list[str]) -> AccountTotals | None:
    """Return the account of a conversion that stopped at a limit."""
    paths = sorted(folder.glob(f"{WORK}/*/{ACCOUNT}"))
    return _decode(paths[-1], AccountTotals, problems) if paths else None


def _first_rejects(run: Path, problems: list[str]) -> Iterator[NumberedReject]:
    """Yield the first rejects of each code, without their bytes, as many as a page shows."""
    of_code: Counter[str] = Counter()
    rows = 0
    try:
        for number, reject in islice(numbered_rejects(run), _MAX_SCANNED):
            of_code[reject.code] += 1
            if of_code[reject.code] <= _MAX_OF_CODE and rows < MAX_ROWS:
                rows += 1
                yield NumberedReject(number, msgspec.structs.replace(reject, data=b""))
    except FeedferryError as exc:
        problems.append(str(exc))


def _acceptances(folder: Path, problems: list[str]) -> Iterator[tuple[int, float]]:
    """Yield the seconds until each chunk was accepted, from the last file of receipts.

    A chunk that was sent in parts has several; the last one counts.
    """
    started: dict[int, datetime] = {}
    for receipt in _readable(read_receipts(folder), problems):
        at = _moment(receipt.at)
        if at is None:
            continue
        begin = started.setdefault(receipt.chunk, at)
        if receipt.state is ChunkState.ACCEPTED:  # of the whole chunk, or of its last part so far
            yield receipt.chunk, max((at - begin).total_seconds(), 0.0)
            if not receipt.count:
                del started[receipt.chunk]


def _decode(path: Path, kind: type[_T], problems: list[str]) -> _T | None:
    try:
        return read_json(path, kind, expected="a file of the run")
    except FatalError as exc:
        problems.append(str(exc))
        return None


def _lines(path: Path, kind: type[_T], problems: list[str]) -> Iterator[_T]:
    journal = Journal(path, msgspec.json.Decoder(kind).decode, expected="a line of the run")
    return _readable(journal.read(), problems)


def _readable(entries: Iterator[_T], problems: list[str]) -> Iterator[_T]:
    """Yield the entries of a journal up to a damaged line."""
    try:
        yield from entries
    except FatalError as exc:
        problems.append(str(exc))


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
