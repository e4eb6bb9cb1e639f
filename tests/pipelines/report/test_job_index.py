"""The page of a job: all of its runs over time."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from feedferry.pipelines.report.job_index import write_index
from feedferry.pipelines.report.run_report import write_report
from feedferry.schemas.account import Account
from feedferry.schemas.run_record import Replay
from support.forks import run
from support.run_folders import BEGIN, run_record, write_run
from support.runs import ROOT
from support.served import serving

_TAGS = re.compile(r"<style>.*?</style>|<[^>]+>", re.DOTALL)


def words(path: Path) -> str:
    """Return the text of a page in one line."""
    return " ".join(_TAGS.sub(" ", path.read_text("utf-8")).split())


def test_all_runs_are_listed_with_their_numbers_the_newest_first(tmp_path: Path) -> None:
    home = tmp_path / "intranet"
    for day, code in enumerate((0, 4, 1)):
        at = BEGIN + timedelta(days=day)
        record = run_record(
            id=f"{at:%Y%m%dT%H%M%SZ}-0000",
            started_at=at,
            ended_at=at + timedelta(minutes=40 + day),
            exit_code=code,
        )
        total = Account(read={"ADD": 5_000 + day}, written={"ADD": 5_000}, rejected={"ADD": day})
        write_run(home / record.id, record=record, total=total)
    write_report(home / record.id)

    path = write_index(home)

    assert (path, "<a href=" in path.read_text("utf-8")) == (home / "index.html", True)
    text = words(path)
    for shown in (
        "intranet 3 runs. Over time The last 3 runs, the oldest first.",
        "Documents written the last 3 runs 0 2,000 4,000 6,000 1 Jul 2 Jul 3 Jul",
        "1 Jul 2 Jul 3 Jul 1 Jul 02:00: 5,000. Done, with rejects 2 Jul 02:00: 5,000. Failed",
        "Documents rejected the last 3 runs 0 1 2 1 Jul",
        "2026-07-03 02:00 ! Done, with rejects 5,002 5,000 2 413,886 42 min 0 s"
        " 2026-07-02 02:00 ✕ Failed 5,001 5,000 1 413,886 41 min 0 s",
    ):
        assert shown in text


def test_a_small_run_is_seen_next_to_a_large_one_with_its_time_and_its_message(
    tmp_path: Path,
) -> None:
    home = tmp_path / "intranet"
    runs = ((BEGIN, 3_000, 0), (BEGIN + timedelta(hours=10), 26, 3))
    for at, written, code in runs:
        record = run_record(
            id=f"{at:%Y%m%dT%H%M%SZ}-0000",
            started_at=at,
            exit_code=code,
            message="26 records; expected at least 1,000" if code else None,
        )
        write_run(home / record.id, record=record, total=Account(written={"ADD": written}))

    page = write_index(home).read_text("utf-8")

    bars = re.findall(r'class="bar (\w+)".*? height="([\d.]+)"/><title>([^<]+)', page)
    assert bars[:2] == [
        ("partly", "100.0", "1 Jul 02:00: 3,000. Done, with rejects"),
        ("partly", "3.0", "1 Jul 12:00: 26. Stopped at a limit"),
    ]
    assert "26 records; expected at least 1,000" in page


def test_a_label_of_a_chart_is_the_day_or_the_time_after_a_label_of_that_day(
    tmp_path: Path,
) -> None:
    home = tmp_path / "intranet"
    for hours in (0, 3, 10, 24, 48):
        at = BEGIN + timedelta(hours=hours)
        record = run_record(id=f"{at:%Y%m%dT%H%M%SZ}-0000", started_at=at, ended_at=at)
        write_run(home / record.id, record=record)
    labels = re.findall(
        r'class="column[^>]*>([^<]+)', write_index(home).read_text("utf-8").partition("</svg>")[0]
    )
    assert labels == ["1 Jul", " 05:00", " 12:00", "2 Jul", "3 Jul"]


def test_a_replay_has_a_badge_with_its_run(tmp_path: Path) -> None:
    home = tmp_path / "intranet"
    replay = Replay(run="20260701T020000Z-4f1c", generation=1, export="corrections")
    for number, of in enumerate((None, replay)):
        record = run_record(id=f"2026070{number + 1}T020000Z-0000", replay=of)
        write_run(home / record.id, record=record)
    badge = '<span class="badge">replay of 20260701T020000Z-4f1c</span>'
    assert write_index(home).read_text("utf-8").count(badge) == 1
    pages = [write_report(path).read_text("utf-8") for path in sorted(home.glob("2*/"))]
    assert [badge in page for page in pages] == [False, True]


def test_a_job_with_no_run_or_one_run_has_a_page_without_charts(tmp_path: Path) -> None:
    home = tmp_path / "intranet"
    home.mkdir()
    assert "intranet 0 runs." in words(write_index(home))

    write_run(home / "20260701T020000Z-4f1c", record=run_record())
    text = words(write_index(home))
    assert ("1 run." in text, "Over time" in text) == (True, False)


def test_a_job_of_many_years_has_a_bounded_page(tmp_path: Path) -> None:
    home = tmp_path / "intranet"
    for day in range(510):
        at = BEGIN + timedelta(days=day)
        record = run_record(id=f"{at:%Y%m%dT%H%M%SZ}-0000", started_at=at, ended_at=at)
        (home / record.id).mkdir(parents=True)
        (home / record.id / "run.json").write_text(
            f'{{"id": "{record.id}", "started_at": "{at:%Y-%m-%dT%H:%M:%SZ}"}}'
        )

    text = words(write_index(home))

    assert "510 runs; the last 500 are shown." in text
    assert "the last 100 runs" in text


@pytest.mark.slow
def test_a_job_leaves_its_report_its_index_and_its_metrics(tmp_path: Path) -> None:
    metrics = tmp_path / "intranet.prom"
    with serving(tmp_path / "spool") as appliance:
        job = tmp_path / "intranet.yaml"
        source = f"{{type: gsa-feed, path: {ROOT}/pipelines/sample/01-intranet.xml}}"
        target = f'{{type: gsa-feed, url: "{appliance.url}"}}'
        job.write_text(f"version: 1\njob: intranet\nsource: {source}\ntarget: {target}\n")
        run("run", str(job), "-q", "--set", f"metrics_file={metrics}")

    [report] = (tmp_path / "runs" / "intranet").glob("*/report.html")
    assert "intranet ✓ Done Run" in words(report)
    index = words(tmp_path / "runs" / "intranet" / "index.html")
    assert "intranet 1 run." in index
    assert "✓ Done 20 20 0 20" in index
    assert 'feedferry_last_exit_code{job="intranet"} 0\n' in metrics.read_text("utf-8")
