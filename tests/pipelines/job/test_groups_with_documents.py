"""A job whose source has documents and groups sends both to a GSA, the documents first."""

import signal
from pathlib import Path

import pytest

from support.archives import documents, gsa_feed, put
from support.forks import run
from support.receivers import deliveries
from support.rehearsal import membership, xmlgroups
from support.served import BOUND_SECONDS, Served, serving, start, wait_until

pytestmark = pytest.mark.slow

JOB = """\
version: 1
job: wiki
source: {type: feeds, path: [feed.xml, groups.xml]}
target: {type: gsa-feed, url: %s, datasource: wiki}
chunk: {max_records: 1}
jobs: 4
"""
FEED = [("xmlfeed", "wiki", "incremental")] * 2
GROUPS = [("xmlgroups", "wiki", "incremental")] * 2


def write_job(folder: Path, appliance: Served, job: str = JOB) -> None:
    put(folder / "feed.xml", gsa_feed(*documents(1, 2)))
    put(
        folder / "groups.xml",
        xmlgroups(membership("eng", "tim"), membership("ops", "eve")).encode(),
    )
    (folder / "wiki.yaml").write_text(job % appliance.url)


def received(appliance: Served) -> list[tuple[str, str, str]]:
    return [(each.endpoint, each.datasource, each.feedtype) for each in deliveries(appliance.spool)]


def run_job(folder: Path, *flags: str) -> tuple[int, str]:
    ended = run("run", "wiki.yaml", "--progress", "none", *flags, cwd=folder)
    return ended.returncode, ended.stderr


def test_three_nights_with_a_kill_send_the_documents_and_then_the_groups(tmp_path: Path) -> None:
    put(tmp_path / "slow.yaml", b"- {endpoint: xmlgroups, requests: 4, delay: 5s}\n")
    with serving(tmp_path / "spool", "--scenario", str(tmp_path / "slow.yaml")) as appliance:
        write_job(tmp_path, appliance)
        assert run_job(tmp_path) == (0, "")
        assert received(appliance) == FEED + GROUPS

        put(
            tmp_path / "groups.xml",
            xmlgroups(membership("eng", "eve"), membership("ops", "tim")).encode(),
        )
        process = start("run", "wiki.yaml", "--progress", "none", cwd=tmp_path)
        wait_until(lambda: len(received(appliance)) == 8 or process.poll() is not None)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=BOUND_SECONDS)
        code, _ = run_job(tmp_path, "--only-resume")
        assert code == 0
        assert received(appliance)[4:] == [*FEED, *GROUPS, GROUPS[1]]

        assert run_job(tmp_path) == (0, "")
        assert received(appliance)[9:] == FEED + GROUPS


def test_refused_groups_are_replayed_with_their_groupsource(tmp_path: Path) -> None:
    put(tmp_path / "bad.yaml", b"- {endpoint: xmlgroups, requests: 1, status: 400}\n")
    with serving(tmp_path / "spool", "--scenario", str(tmp_path / "bad.yaml")) as appliance:
        write_job(tmp_path, appliance)
        assert run_job(tmp_path)[0] == 1
        assert received(appliance) == [*FEED, GROUPS[0]]
        assert run("rejects", "replay", "wiki.yaml", cwd=tmp_path).returncode == 0
        assert received(appliance) == FEED + GROUPS


def test_a_job_may_leave_groups_out(tmp_path: Path) -> None:
    with serving(tmp_path / "spool") as appliance:
        write_job(tmp_path, appliance, JOB.replace("datasource:", "groups: leave-out, datasource:"))
        ended = run("run", "wiki.yaml", "--progress", "none", cwd=tmp_path)
        assert ended.returncode == 0
        assert "filtered  groups-left-out 2" in ended.stdout
        assert received(appliance) == FEED
