"""The time that a push would take, at the rate of the earlier pushes of a job."""

from pathlib import Path

import msgspec

from pipelines.folders.locks import PUSHES
from pipelines.folders.manifest import REPORT
from pipelines.report.push_report import PushReport

_MAX_PUSHES = 10


class PushEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The estimated time of a push, and the number of earlier pushes that it is estimated from."""

    seconds: float
    pushes: int


def predict_push(size: int, home: Path) -> PushEstimate | None:
    """Return the time to push `size` bytes, by the latest pushes of the runs in a folder."""
    paths = sorted(home.glob(f"*/{PUSHES}/*/{REPORT}"), reverse=True)
    reports = [msgspec.json.decode(path.read_bytes(), type=PushReport) for path in paths]
    sent = [report for report in reports if report.sent_bytes][:_MAX_PUSHES]
    if not sent:
        return None
    rate = sum(report.seconds for report in sent) / sum(report.sent_bytes for report in sent)
    return PushEstimate(seconds=round(size * rate, 3), pushes=len(sent))
