"""The outcome of a run in words, and the tone that a page shows it in."""

from datetime import UTC, datetime
from typing import NamedTuple

from feedferry.pipelines.report.charts.progress_charts import working_seconds
from feedferry.pipelines.report.run_data import RunData
from feedferry.schemas.run_record import Phase


class Outcome(NamedTuple):
    """How a run ended; `tone` is `good`, `partly`, `bad` or `busy`, `sign` a character for it."""

    tone: str
    sign: str
    words: str
    reason: str = ""


_DONE = Outcome("good", "✓", "Done")
_OUTCOMES = {
    0: _DONE,
    1: Outcome("partly", "!", "Done, with rejects"),
    2: Outcome("bad", "✕", "Refused: options or job file are wrong"),
    3: Outcome("partly", "!", "Stopped at a limit"),
    4: Outcome("bad", "✕", "Failed"),
    5: Outcome("bad", "✕", "Failed: a defect of feedferry"),
    75: Outcome("busy", "…", "Not finished: the next start goes on"),
    130: Outcome("busy", "…", "Interrupted: the next start goes on"),
    143: Outcome("busy", "…", "Interrupted: the next start goes on"),
}
_RUNNING = Outcome("busy", "…", "Running, or ended without notice")
_ABANDONED = Outcome("busy", "…", "Abandoned: a later run replaced it")
_PUSH_STOPPED = Outcome("bad", "✕", "The push stopped")
_DIFFERENT = Outcome("partly", "!", "Done, but the target differs")
_TONES = ("good", "partly", "busy", "bad")


def outcome_of(run: RunData) -> Outcome:
    """Return the worst of what the record of the run, its report and its pushes state."""
    outcomes = [_recorded_outcome(run)]
    if run.verification is not None and run.verification.counts.has_findings:
        outcomes.insert(0, _DIFFERENT)  # the same exit code says that there are rejects
    for push in run.push_reports:
        if push.stopped is not None:
            outcomes.append(_PUSH_STOPPED._replace(reason=push.stopped))
        elif push.new_rejects > 0:
            outcomes.append(_OUTCOMES[1])
    return max(outcomes, key=lambda outcome: _TONES.index(outcome.tone))


def _recorded_outcome(run: RunData) -> Outcome:
    record, report = run.record, run.report
    if record is None:
        return _RUNNING if report is None else _OUTCOMES.get(report.exit_code, _OUTCOMES[4])
    if record.is_abandoned:
        return _ABANDONED._replace(reason=record.message or "")
    if record.exit_code is None:
        return _DONE if record.phase is Phase.DONE else _RUNNING
    outcome = _OUTCOMES.get(record.exit_code, _OUTCOMES[4])
    return outcome._replace(reason=record.message or "")


def seconds_of(run: RunData) -> float | None:
    """Return the duration of a run, `None` if nothing states it."""
    record = run.record
    if record is not None and record.attempts == 1 and record.ended_at is not None:
        return (record.ended_at - record.started_at).total_seconds()
    if run.points:
        return working_seconds(run.points)
    if record is not None and record.ended_at is not None:
        return (record.ended_at - record.started_at).total_seconds()
    return sum(push.seconds for push in run.push_reports) if run.push_reports else None


def begin_of(run: RunData) -> datetime | None:
    if run.record is not None:
        return run.record.started_at
    return datetime.fromtimestamp(run.points[0].at, UTC) if run.points else None
