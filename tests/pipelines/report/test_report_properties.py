"""A page can be written for whatever a folder holds: a run must not fail because of its page."""

from datetime import UTC
from pathlib import Path
from tempfile import TemporaryDirectory
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedferry.pipelines.report.conversion_report import Report, as_json
from feedferry.pipelines.report.job_index import write_index
from feedferry.pipelines.report.metrics import write_metrics
from feedferry.pipelines.report.push_report import PushReport
from feedferry.pipelines.report.run_report import write_report
from feedferry.schemas.account import AccountTotals
from feedferry.schemas.receipt import Receipt
from feedferry.schemas.run_record import RUN_RECORD, Phase, RunRecord
from feedferry.schemas.timeline import TIMELINE, TimelinePoint
from support.run_folders import chunk

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBERS = st.integers(-(2**62), 2**62)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
MOMENTS = st.datetimes(timezones=st.just(UTC))
RECEIPT_TIMES = TEXTS | st.datetimes().map(str) | MOMENTS.map(str)
TIMES = FLOATS | st.floats(0, 1e5)
SCALARS: dict[Any, Any] = {str: TEXTS, int: NUMBERS, float: FLOATS}  # strategies by type


def every(kind: type[msgspec.Struct], **fixed: Any) -> Any:  # strategies
    """Return structs with a value for each field, also for those that have a default."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{name: values(hint) for name, hint in hints.items()} | fixed)


def values(hint: Any) -> Any:  # a type and a strategy
    """Return values that JSON can hold."""
    parts = get_args(hint)
    match get_origin(hint):
        case None if hint in SCALARS:
            return SCALARS[hint]
        case None if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return every(hint)
        case origin if origin is dict:
            return st.dictionaries(values(parts[0]), values(parts[1]), max_size=3)
        case origin if origin is tuple:
            return st.lists(values(parts[0]), max_size=3).map(tuple)
        case origin if origin in (UnionType, Union):
            return st.one_of(*map(values, parts))
    return st.from_type(hint)


def lines(written: list[object]) -> bytes:
    return b"".join(msgspec.json.encode(value) + b"\n" for value in written)


@pytest.mark.slow
@settings(max_examples=50)
@given(
    every(RunRecord, id=st.just("20260701T020000Z-0000"), started_at=MOMENTS, ended_at=MOMENTS),
    every(AccountTotals),
    every(PushReport),
    st.lists(every(TimelinePoint, at=TIMES, phase=st.sampled_from(Phase)), max_size=12),
    st.lists(
        every(
            Receipt, chunk=st.integers(1, 3), at=TEXTS | st.datetimes().map(str) | MOMENTS.map(str)
        )
    ),
)
def test_a_page_can_be_written_for_every_run(
    record: RunRecord,
    totals: AccountTotals,
    push: PushReport,
    points: list[object],
    receipts: list[object],
) -> None:
    report = Report(
        account=totals, folder="out", chunks=1, chunk_bytes=1, exit_code=0, settings={}, sources=()
    )
    with TemporaryDirectory() as name:
        folder = Path(name, "intranet", record.id)
        appliance = folder / "push" / "gsa"
        appliance.mkdir(parents=True)
        (folder / RUN_RECORD).write_bytes(msgspec.json.encode(record))
        (folder / "report.json").write_bytes(msgspec.json.encode(as_json(report)))
        (folder / TIMELINE).write_bytes(lines(points))
        (folder / "manifest.jsonl").write_bytes(lines([chunk(1), chunk(2), chunk(3)]))
        (appliance / "report.json").write_bytes(msgspec.json.encode(push))
        (appliance / "receipts-001.jsonl").write_bytes(b"{}\n" + lines(receipts))

        write_report(folder)
        write_index(folder.parent)
        write_metrics(Path(name, "intranet.prom"), folder.parent)
