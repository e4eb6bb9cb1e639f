"""A page can be written for whatever a folder holds: a run must not fail because of its page."""

from datetime import UTC
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.convert.report import Report, as_json
from pipelines.report.job_index import write_index
from pipelines.report.metrics import write_metrics
from pipelines.report.run_data import PushReport
from pipelines.report.run_report import write_report
from schemas.account import AccountTotals, LossCount, NoticeCount, RejectSample
from schemas.notice import Loss, Notice
from schemas.receipt import Receipt, Refusal
from schemas.run_record import RUN_RECORD, Phase, RunRecord
from schemas.timeline import TIMELINE, TimelinePoint
from support.run_folders import chunk

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBERS = st.integers(-(2**62), 2**62)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
MOMENTS = st.datetimes(timezones=st.just(UTC))
RECEIPT_TIMES = TEXTS | st.datetimes().map(str) | MOMENTS.map(str)
TIMES = FLOATS | st.floats(0, 1e5)
OVERRIDES = {str: TEXTS, int: NUMBERS, float: FLOATS, object: st.none() | TEXTS}
for kind, strategy in OVERRIDES.items():
    st.register_type_strategy(kind, strategy)


def every(kind: type[msgspec.Struct], **fixed: st.SearchStrategy[object]) -> Any:  # a strategy
    """Return structs with a value for each field, also for those that have a default."""
    names = (field.name for field in msgspec.structs.fields(kind))
    return st.builds(kind, **{name: fixed.get(name, ...) for name in names})


for part in (Loss, LossCount, Notice, NoticeCount, Refusal, RejectSample):
    st.register_type_strategy(part, every(part))


def lines(values: list[object]) -> bytes:
    return b"".join(msgspec.json.encode(value) + b"\n" for value in values)


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
        account=totals,
        folder="out",
        chunks=1,
        chunk_bytes=1,
        exit_code=0,
        settings={},
        sources=(),
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
