"""The metrics of a job, for the textfile collector of the node exporter."""

import re
from datetime import timedelta
from pathlib import Path

from feedferry.pipelines.report.metrics import write_metrics
from feedferry.schemas.account import Account, LossCount
from feedferry.schemas.run_record import Phase
from support.run_folders import BEGIN, run_record, write_run
from support.runs import ROOT

_LABEL = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\n"])*"'
_SAMPLE = re.compile(rf"([a-zA-Z_:][\w:]*)\{{{_LABEL}(?:,{_LABEL})*\}} (-?[0-9.e+-]+)", re.ASCII)


def samples(path: Path) -> dict[str, float]:
    """Return the values by name and labels; each line must be in the text format of Prometheus."""
    values: dict[str, float] = {}
    declared = ""
    text = path.read_text("utf-8")
    assert text.endswith("\n")
    for line in text.removesuffix("\n").split("\n"):
        match line.split(" ", 3):
            case ["#", "HELP", name, _]:
                assert not any(known.startswith(f"{name}{{") for known in values), name
                declared = name
            case ["#", "TYPE", name, "gauge"]:
                assert name == declared
            case _:
                sample = _SAMPLE.fullmatch(line)
                assert sample is not None, line
                assert sample[1] == declared
                key = line.rpartition(" ")[0].removeprefix("feedferry_last_")
                assert key not in values, key
                values[key] = float(sample[2])
    return values


def test_the_metrics_are_those_of_the_last_run_that_ended(tmp_path: Path) -> None:
    home = tmp_path / "intranet"
    write_run(home / "20260701T020000Z-4f1c", record=run_record())
    later = BEGIN + timedelta(days=1)
    failed = run_record(
        id="20260702T020000Z-0000",
        started_at=later,
        ended_at=later + timedelta(minutes=1),
        phase=Phase.PUSH,
        exit_code=4,
    )
    write_run(home / failed.id, record=failed)
    running = run_record(
        id="20260703T020000Z-0000",
        started_at=later + timedelta(days=1),
        ended_at=None,
        phase=Phase.CONVERT,
        exit_code=None,
    )
    write_run(home / running.id, record=running)

    write_metrics(tmp_path / "feedferry.prom", home)

    assert samples(tmp_path / "feedferry.prom") == {
        'start_timestamp_seconds{job="intranet"}': 1_783_044_000,
        'success_timestamp_seconds{job="intranet"}': 1_782_876_245,
        'end_timestamp_seconds{job="intranet"}': 1_782_957_660,
        'exit_code{job="intranet"}': 4,
        'duration_seconds{job="intranet"}': 60,
        'records{job="intranet",result="read"}': 414_052,
        'records{job="intranet",result="written"}': 413_898,
        'records{job="intranet",result="rejected"}': 113,
        'records{job="intranet",result="filtered"}': 41,
        'new_rejects{job="intranet"}': 102,
        'withheld{job="intranet"}': 0,
        'losses{job="intranet",field="acl"}': 48,
        'losses{job="intranet",field="pagerank"}': 1_704,
        'read_bytes{job="intranet"}': 5_812_443_102,
        'chunks{job="intranet"}': 46,
        'chunk_bytes{job="intranet"}': 2_134_800_000,
        'pushed_records{job="intranet",result="accepted"}': 413_886,
        'pushed_records{job="intranet",result="refused"}': 12,
        'pushed_records{job="intranet",result="left"}': 0,
        'acl_changes{job="intranet",change="wider"}': 3,
        'newer{job="intranet"}': 0,
        'pushed_bytes{job="intranet"}': 2_204_117_002,
        'wait_seconds{job="intranet"}': 1_312.4,
    }


def test_the_duration_of_a_resumed_run_is_the_time_that_it_worked(tmp_path: Path) -> None:
    home = tmp_path / "intranet"
    resumed = run_record(attempts=2, ended_at=BEGIN + timedelta(days=1))
    write_run(home / resumed.id, record=resumed)

    write_metrics(tmp_path / "feedferry.prom", home)

    assert samples(tmp_path / "feedferry.prom")['duration_seconds{job="intranet"}'] == 5_050


def test_each_metric_is_documented(tmp_path: Path) -> None:
    home = tmp_path / "intranet"
    write_run(home / "20260701T020000Z-4f1c", record=run_record())
    write_metrics(tmp_path / "feedferry.prom", home)

    keys = samples(tmp_path / "feedferry.prom")
    names = {f"feedferry_last_{key.partition('{')[0]}" for key in keys}
    page = (ROOT / "docs" / "report.md").read_text("utf-8")
    rows = "".join(line for line in page.splitlines() if line.startswith("| `feedferry_"))
    assert {*re.findall(r"`(feedferry_\w+)`", rows)} == names


def test_names_of_jobs_and_fields_are_escaped(tmp_path: Path) -> None:
    home = tmp_path / 'a"b\\c\nd'
    total = Account(losses={'x"\n\\': LossCount(3)})
    write_run(home / "20260701T020000Z-4f1c", record=run_record(), total=total)

    write_metrics(tmp_path / "feedferry.prom", home)

    job = r'job="a\"b\\c\nd"'
    assert samples(tmp_path / "feedferry.prom")[rf'losses{{{job},field="x\"\n\\"}}'] == 3


def test_a_job_that_never_ran_has_no_metrics(tmp_path: Path) -> None:
    (tmp_path / "intranet").mkdir()

    write_metrics(tmp_path / "feedferry.prom", tmp_path / "intranet")

    assert (tmp_path / "feedferry.prom").read_bytes() == b""
