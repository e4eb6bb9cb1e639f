"""Metrics of a job as a text file for the textfile collector of the Prometheus node exporter."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from feedferry.pipelines.report.outcome import seconds_of
from feedferry.pipelines.report.run_data import RunData, read_runs
from feedferry.transforms.storage.atomic import write_whole

SUCCESSES = (0, 1)
"""Exit codes of a run that did its work; 1 has rejects."""


_COLUMNS = ("read", "written", "rejected", "filtered")


class Metric(NamedTuple):
    """A gauge; `label` distinguishes its values, and is "" if there is only one."""

    name: str
    help: str
    values: dict[str, float]
    label: str = ""


def write_metrics(path: Path, home: Path) -> None:
    """Write the metrics of the job whose runs are in `home`; the file is replaced whole."""
    lines = [
        line for metric in _metrics(read_runs(home)) for line in _metric_lines(metric, home.name)
    ]
    write_whole(path, "".join(f"{line}\n" for line in lines).encode(), by_several=True)


def _metrics(runs: list[RunData]) -> Iterator[Metric]:
    starts = [run.record.started_at for run in runs if run.record is not None]
    if starts:
        yield _gauge("start_timestamp_seconds", "Start of the last run.", starts[0].timestamp())
    ends = [
        (run.record.ended_at, run.record.exit_code, run)
        for run in runs
        if run.record is not None and run.record.ended_at is not None
    ]
    for end, code, _ in ends:
        if code in SUCCESSES:
            help = "End of the last run that did its work."
            yield _gauge("success_timestamp_seconds", help, end.timestamp())
            break
    for end, code, run in ends[:1]:
        yield _gauge("end_timestamp_seconds", "End of the last run.", end.timestamp())
        if code is not None:
            yield _gauge("exit_code", "Exit code of the last run.", code)
        yield from _run_metrics(run)


def _run_metrics(run: RunData) -> Iterator[Metric]:
    """Yield the metrics of the last run that ended."""
    seconds = seconds_of(run)
    if seconds is not None:
        yield _gauge("duration_seconds", "Working time of the last run.", seconds)
    if run.report is not None:
        account = run.report.account
        counts = {name: sum(getattr(account, name).values()) for name in _COLUMNS}
        yield Metric("records", "Records of the last run by result.", counts, "result")
        yield _gauge(
            "new_rejects", "Rejects of the last run that no list has.", account.new_rejects
        )
        losses: dict[str, float] = {name: loss.count for name, loss in account.losses.items()}
        yield Metric("losses", "Losses of the last run by field.", losses, "field")
        yield _gauge("withheld", "Rejected documents that no user finds.", run.withheld)
        yield _gauge("read_bytes", "Bytes that the last run read.", account.bytes_read)
        yield _gauge("chunks", "Chunks of the last run.", run.report.chunks)
        yield _gauge("chunk_bytes", "Bytes of the chunks.", run.report.chunk_bytes)
    if pushes := run.push_reports:
        results: dict[str, float] = {
            name: sum(push.records.get(name, 0) for push in pushes)
            for name in ("accepted", "refused", "left")
        }
        yield Metric("pushed_records", "Records of the last push by result.", results, "result")
        widened: Counter[str] = sum((Counter(push.acl_changes) for push in pushes), Counter())
        if widened:
            help = "Documents of the last push by the change of who sees them."
            yield Metric("acl_changes", help, {**widened}, "change")
        yield _gauge("newer", "Records of which the target had newer versions.", run.newer)
        sent = sum(push.bytes for push in pushes)
        yield _gauge("pushed_bytes", "Bytes that the appliance accepted.", sent)
        waited = sum(push.waited_seconds for push in pushes)
        yield _gauge("wait_seconds", "Time that the last push waited for the appliance.", waited)


def _gauge(name: str, help: str, value: float) -> Metric:
    return Metric(name, help, {"": value})


def _metric_lines(metric: Metric, job: str) -> Iterator[str]:
    if not metric.values:
        return
    name = f"feedferry_last_{metric.name}"
    yield f"# HELP {name} {metric.help}"
    yield f"# TYPE {name} gauge"
    for key, value in metric.values.items():
        more = f',{metric.label}="{_escape(key)}"' if metric.label else ""
        yield f'{name}{{job="{_escape(job)}"{more}}} {value:.15g}'


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
