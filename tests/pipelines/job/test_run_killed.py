"""A job that is killed anywhere and started again sends every document, and none of them twice."""

import random
import signal
import sqlite3
import subprocess
from contextlib import closing, suppress
from pathlib import Path

import pytest

from feedferry.schemas.run_record import Phase
from support.jobs import TreeJob, times_received
from support.runs import chosen
from support.served import BOUND_SECONDS, Served, stopped, wait_until

pytestmark = pytest.mark.slow

DOCUMENTS = 300
KILLS = chosen(usual=8, full=60)
SEED = 20261122
SMALL = ("--set", "source.span_bytes=4KiB", "--set", "chunk.max_records=5")


@pytest.fixture
def job(tmp_path: Path, appliance: Served) -> TreeJob:
    return TreeJob(tmp_path / "job", appliance.url, documents=DOCUMENTS)


def check_all_arrived_once(job: TreeJob, appliance: Served) -> None:
    assert appliance.urls() == job.urls()
    assert set(times_received(appliance).values()) == {1}


def check_next_run_sends_nothing(job: TreeJob, appliance: Served) -> None:
    before = appliance.arrivals()
    assert job.run(*SMALL).returncode == 0
    assert appliance.arrivals() == before


def kill_before_the_state(job: TreeJob) -> None:
    """Run until everything is pushed, and kill it before it updates the state."""
    with closing(sqlite3.connect(job.home / "state", isolation_level=None)) as state:
        state.execute("BEGIN IMMEDIATE")  # so that the run waits for it
        job.kill_when(lambda: job.records()[-1].phase is Phase.REMEMBER, *SMALL)


def test_a_run_killed_while_it_converts_continues_with_the_next_span(
    job: TreeJob, appliance: Served
) -> None:
    job.kill_when(lambda: job.has(".work/*/*.0.json"), *SMALL)
    assert [record.phase for record in job.records()] == [Phase.CONVERT]
    assert job.run(*SMALL).returncode == 0
    record, following = job.records()
    assert (record.phase, record.attempts, record.exit_code) == (Phase.DONE, 2, 0)
    assert (following.phase, following.attempts) == (Phase.DONE, 1)
    check_all_arrived_once(job, appliance)
    check_next_run_sends_nothing(job, appliance)


@pytest.mark.kind("kill")
def test_a_run_killed_while_it_pushes_continues_with_the_next_chunk(
    job: TreeJob, appliance: Served
) -> None:
    job.kill_when(lambda: appliance.arrivals().total() > 3, *SMALL)
    assert [record.phase for record in job.records()] == [Phase.PUSH]
    resumed = job.run(*SMALL)
    assert resumed.returncode == 0, resumed.stderr
    assert appliance.urls() == job.urls()
    repeated = [count for count in times_received(appliance).values() if count > 1]
    assert len(repeated) <= 5, "more than the chunk whose response was not seen"
    check_next_run_sends_nothing(job, appliance)


def test_a_run_killed_before_its_state_is_updated_only_updates_it(
    job: TreeJob, appliance: Served
) -> None:
    assert job.run(*SMALL).returncode == 0
    job.write("0007.txt", "changed")
    kill_before_the_state(job)
    before = appliance.arrivals()
    (job.folder / "docs").rename(job.folder / "gone")  # the source is not needed any more
    resumed = job.run(*SMALL, "--only-resume")
    assert (resumed.returncode, job.records()[-1].phase) == (0, Phase.DONE)
    (job.folder / "gone").rename(job.folder / "docs")
    assert appliance.arrivals() == before
    check_next_run_sends_nothing(job, appliance)


ROWS = """\
version: 1
job: people
source: {type: database, mapping: mapping.yaml}
target: {type: gsa-feed, datasource: people, url: URL}
"""
MAPPING = """\
connection: sqlite:///people.db
table: people
url: "http://db.example.com/{id}"
content: {column: body}
mimetype: text/plain
metadata: [{column: name, separator: ";"}, all]
acl: {users: name, inherit_from: "http://db.example.com/acl/{id}"}
incremental: {timestamp: updated, lag: 0s, deletes: compare}
"""


def test_rows_of_a_run_killed_before_its_state_is_updated_are_not_sent_again(
    tmp_path: Path, appliance: Served
) -> None:
    job = TreeJob(tmp_path / "job", appliance.url, documents=0)
    (job.folder / "people.yaml").write_text(ROWS.replace("URL", appliance.url))
    (job.folder / "mapping.yaml").write_text(MAPPING)
    with closing(sqlite3.connect(job.folder / "people.db")) as database, database:
        database.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name, body, updated)")
        rows = [(number, f"n{number};x", "text", "2026-11-20") for number in range(50)]
        database.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
    assert job.run().returncode == 0
    with closing(sqlite3.connect(job.folder / "people.db")) as database, database:
        database.execute("DELETE FROM people WHERE id = 7")
        database.execute(
            "UPDATE people SET body = 'new', updated = '2026-11-21 08:00:00' WHERE id = 1"
        )
    kill_before_the_state(job)
    before = appliance.arrivals()
    (job.folder / "people.db").rename(job.folder / "gone.db")
    assert job.run("--only-resume").returncode == 0
    (job.folder / "gone.db").rename(job.folder / "people.db")
    assert appliance.arrivals() == before
    assert len(appliance.urls()) == 49
    check_next_run_sends_nothing(job, appliance)


def test_a_job_killed_at_any_instants_sends_all_and_repeats_only_unseen_chunks(
    job: TreeJob, appliance: Served
) -> None:
    chance = random.Random(SEED)
    kills = 0
    while kills < KILLS and not any(record.is_over for record in job.records()):
        process = job.start(*SMALL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.5, 4.0))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=BOUND_SECONDS)
        kills += process.returncode == -signal.SIGKILL
    assert job.run(*SMALL).returncode == 0
    assert appliance.urls() == job.urls()
    assert sum(count - 1 for count in times_received(appliance).values()) <= 5 * kills
    check_next_run_sends_nothing(job, appliance)


def test_a_second_run_is_refused_at_once_with_the_process_of_the_first(
    job: TreeJob, appliance: Served
) -> None:
    with stopped(appliance.process):
        first = job.start()
        wait_until(lambda: job.has("report.json"))
        second = job.run()
    assert second.returncode == 75
    assert f"runs/people: in use by another run, process {first.pid} on " in second.stderr
    _, stderr = first.communicate(timeout=BOUND_SECONDS)
    assert first.returncode == 0, stderr
    check_all_arrived_once(job, appliance)
