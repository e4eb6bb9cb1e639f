"""The results of runs."""

from pathlib import Path

import msgspec

from feedferry.pipelines.job.run.settlement import Settlement
from feedferry.pipelines.push.record import PushResult
from feedferry.pipelines.report.conversion_report import ConversionResult
from feedferry.pipelines.report.differences import Verification


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a run: its folder, its exit code, and the results of the phases it executed.

    `message` says why it stopped; it is None if it did not. A run in object storage has a `uri`;
    its `folder` was removed when it ended.
    """

    folder: Path
    uri: str | None = None
    exit_code: int
    message: str | None = None
    conversion: ConversionResult | None = None
    push: PushResult | None = None
    settlement: Settlement | None = None
    verification: Verification | None = None


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that a start of a job has finished, resumed ones first."""

    runs: tuple[RunResult, ...] = ()

    @property
    def exit_code(self) -> int:
        """That of the last run that did not end with 0."""
        return next((run.exit_code for run in reversed(self.runs) if run.exit_code), 0)
