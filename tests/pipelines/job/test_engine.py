"""`feedferry run`: what a job sends, what its runs leave, and when it goes on or begins anew."""

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.convert.publication.state_update import mark_unsure
from feedferry.pipelines.convert.publication.work_folder import find_work
from feedferry.pipelines.folders.locks import locked_state
from feedferry.pipelines.job.file.job_file import load_job
from feedferry.pipelines.job.run.engine import run as run_job
from feedferry.pipelines.job.run.settlement import settle
from feedferry.pipelines.observer.observer import Observer
from feedferry.pipelines.observer.signals import DeadlinePassed
from feedferry.pipelines.options.job_options import RunOptions
from feedferry.schemas.errors import BalanceError
from feedferry.schemas.run_record import Phase, RunRecord
from feedferry.transforms.storage.run_folders.run_record import write_run
from support.archives import BROKEN, documents, gsa_feed, put
from support.jobs import HOST, TreeJob
from support.served import BOUND_SECONDS, Served, serving, wait_until

pytestmark = pytest.mark.slow

CHUNKS = ("--set", "chunk.max_records=3")
BUSY = "- backlog: 6000\n  until: 1h\n"


@pytest.fixture
def job(here: Path, appliance: Served) -> TreeJob:
    return TreeJob(here, appliance.url, documents=10)


def run(*flags: str) -> int:
    """Run the job in this process; return the exit code."""
    return main(["run", "people.yaml", "--progress", "none", *flags])


def ends(job: TreeJob) -> list[tuple[Phase, bool, int | None]]:
    """Return the phase of each run, whether it is abandoned, and its exit code."""
    return [(record.phase, record.is_abandoned, record.exit_code) for record in job.records()]


UNREADABLE = "<p>\0\0\0"
DONE = (Phase.DONE, False, 0)


def test_each_run_sends_what_has_changed_and_leaves_its_folder(
    job: TreeJob, appliance: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == 0
    assert "settled   10 records accepted, 0 refused; chunk files: 1 as written, 0 changed\n" in (
        capsys.readouterr().out
    )
    job.write("0003.txt", "changed")
    (job.docs / "0004.txt").unlink()
    assert run("--set", "metrics_file=people.prom") == 0
    assert appliance.urls() == job.urls()
    first, second = job.records()
    assert (first.generation, second.generation, second.attempts) == (1, 2, 1)
    assert {path.name for path in (job.home / second.id).iterdir()} >= {
        *("chunks", "manifest.jsonl", "push", "report.html", "report.json", "run.json"),
        *("config.rendered.yaml", "run.log", "timeline.jsonl"),
    }
    assert {path.name for path in job.home.iterdir()} == {
        *(first.id, second.id, "index.html", "lock", "state")
    }
    assert "people" in Path("people.prom").read_text()


def test_a_page_that_cannot_be_written_does_not_change_how_a_run_has_ended(
    job: TreeJob, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--set", "metrics_file=missing/people.prom") == 0
    text = "missing/people.prom: No such file or directory; expected to write there; the run itself"
    assert f"{text} has ended\n" in capsys.readouterr().err
    assert ends(job) == [DONE]


def test_a_run_has_a_log_with_all_its_attempts(here: Path) -> None:
    (here / "busy.yaml").write_text("- {endpoint: getbacklogcount, backlog: 6000, requests: 1-2}\n")
    with serving(here / "spool", "--scenario", "busy.yaml") as appliance:
        job = TreeJob(here / "job", appliance.url, documents=10)
        job.run("--set", "push.max_wait=0s", "--log-file", str(here / "all.log"))
        flags = ("--only-resume", "--set", "push.backlog.interval=100ms")
        job.run(*flags, "--log-file", str(here / "all.log"))
    (record,) = job.records()
    prefix = f"INFO people {record.id} "
    log = (job.home / record.id / "run.log").read_text("utf-8")
    lines = [line.partition(" ")[2] for line in log.splitlines()]
    for message in (
        "attempt 1: begun; phase convert",
        "attempt 2: begun; phase push",
        "attempt ended with exit code 0: done",
    ):
        assert lines.count(prefix + message) == 1, log
    assert "ERROR people" in log
    assert "attempt ended with exit code 75: 6,000 feeds waiting" in log
    assert sum("chunks/000001.xml: published" in line for line in lines) == 1
    assert (
        sum("chunks/000001.xml, from record 1: accepted; 10 records" in line for line in lines) == 1
    )
    everything = (here / "all.log").read_text("utf-8").splitlines()
    assert [line for line in everything if line in log.splitlines()] == log.splitlines()


def test_a_pushed_run_is_compared_with_its_receipts(job: TreeJob) -> None:
    assert run() == 0
    folder, loaded = job.home / job.records()[0].id, load_job(Path("people.yaml"), {}, {})
    assert loaded.push is not None
    assert settle(folder, loaded.push, verify=True).exit_code == 0
    with (folder / "chunks" / "000001.xml").open("ab") as chunk:
        chunk.write(b"\n")
    settlement = settle(folder, loaded.push, verify=True)
    assert (settlement.exit_code, settlement.changed) == (1, ("chunks/000001.xml",))
    report = (folder / "report.json").read_text()
    (folder / "report.json").write_text(report.replace('"ADD": 10', '"ADD": 11'))
    with pytest.raises(BalanceError, match="11 records written, but 10 accepted and 0 refused"):
        settle(folder, loaded.push, verify=True)


def test_the_finished_runs_beyond_the_retention_are_removed(job: TreeJob) -> None:
    begun = job.home / "20261123T020000Z-ab12"  # killed while it wrote its record
    (begun / ".work").mkdir(parents=True)
    (begun / "run.json.1a2b.partial").touch()
    assert [run("--set", "keep.runs=2") for _ in range(3)] == [0, 0, 0]
    assert [record.generation for record in job.records()] == [2, 3]
    assert not begun.exists()


def test_a_source_or_option_that_cannot_be_used_leaves_no_run(job: TreeJob) -> None:
    assert run("--set", "source.acl=missing.csv") == 2
    assert job.records() == []


LISTER = """\
test -e hang && exec sleep 600
printf 'GSA Adaptor Data Version 1 [\\n]\\nid=a\\n'
"""
LISTED = f"""\
version: 1
job: people
source: {{type: adaptor, path: programs.yaml, base_url: {HOST!r}}}
target: {{type: gsa-feed, datasource: web, feedtype: metadata-and-url, url: URL}}
"""


def test_an_input_that_is_too_large_for_the_disk_leaves_no_run(
    job: TreeJob, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (here / "feed.xml").open("wb") as feed:
        feed.truncate(15 << 40)  # a hole, which needs no disk
    source = "source: {type: gsa-feed, path: feed.xml}\n"
    (here / "people.yaml").write_text(
        f"version: 1\njob: people\n{source}target: {{type: gsa-feed}}\n"
    )
    assert run() == 4
    assert "expected 7.5 TiB at least, half the size of the inputs" in capsys.readouterr().err
    assert [path.name for path in job.home.iterdir()] == ["lock"]


def test_a_job_refuses_to_run_while_its_state_is_in_use(
    job: TreeJob, capsys: pytest.CaptureFixture[str]
) -> None:
    job.home.mkdir(parents=True)
    with locked_state(job.home / "state"):
        assert run() == 75
    assert f"{job.home}/state: in use by another run" in capsys.readouterr().err
    assert (ends(job), run()) == ([], 0)


def test_a_deadline_ends_the_conversion_and_the_next_start_goes_on(
    here: Path, appliance: Served
) -> None:
    job = TreeJob(here, appliance.url, documents=0)
    (here / "list.sh").write_text(LISTER)
    (here / "programs.yaml").write_text("lister: [sh, list.sh]\n")
    (here / "people.yaml").write_text(LISTED.replace("URL", appliance.url))
    (here / "hang").touch()
    late = job.run("--deadline", "1s")
    assert late.returncode == 75
    assert late.stderr.endswith(
        "feedferry: the deadline has passed; start again to resume\n"
        "feedferry: start again: feedferry run people.yaml --progress none --deadline 1s\n"
    )
    assert ends(job) == [(Phase.CONVERT, False, 75)]
    log = (job.home / job.records()[0].id / "run.log").read_text()
    assert "exit code 75: the deadline has passed; start again to resume\n" in log
    (here / "hang").unlink()
    assert run("--only-resume") == 0
    assert (ends(job), appliance.urls()) == ([DONE], [f"{HOST}a"])


def test_a_run_that_ends_before_it_has_converted_anything_goes_on(
    job: TreeJob, appliance: Served
) -> None:
    assert [job.run("--deadline", "1ms").returncode for _ in range(2)] == [75, 75]
    assert job.run("--only-resume").returncode == 0
    assert (ends(job), appliance.urls()) == ([DONE], job.urls())


def test_a_deadline_ends_the_push_and_the_next_start_goes_on(here: Path) -> None:
    (here / "busy.yaml").write_text("- {endpoint: getbacklogcount, backlog: 6000, requests: 1-2}\n")
    with serving(here / "spool", "--scenario", "busy.yaml") as appliance:
        job = TreeJob(here / "job", appliance.url, documents=10)
        job.kill_when(lambda: bool(job.records()) and job.records()[-1].phase is Phase.PUSH)
        first = job.run("--deadline", "1s")
        assert (first.returncode, ends(job)) == (75, [(Phase.PUSH, False, 75)]), first.stderr
        last = job.run("--set", "push.backlog.interval=100ms")
        assert (last.returncode, ends(job)) == (0, [DONE, DONE]), last.stderr
        assert appliance.urls() == job.urls()


def stop_in_push(job: TreeJob, appliance: Served, *flags: str) -> RunRecord:
    """Run until the appliance refuses a chunk; return the record of the run."""
    assert run(*CHUNKS, "--set", "push.on_refusal=stop", *flags) == 4
    return job.records()[-1]


@pytest.fixture
def refusing(here: Path) -> Iterator[tuple[TreeJob, Served]]:
    """A job, and an appliance that fails once, at the third chunk."""
    (here / "bad.yaml").write_text("- {endpoint: xmlfeed, requests: 3-3, status: 400}\n")
    with serving(here / "spool", "--scenario", "bad.yaml") as served:
        yield TreeJob(here, served.url, documents=10), served


def test_a_run_that_stopped_at_a_limit_is_begun_anew_with_the_corrected_source(
    job: TreeJob, appliance: Served
) -> None:
    limits = ("--set", "rejects.max=0", "--set", "source.max_content_bytes=1KiB")
    job.write("0003.txt", "too long " * 200)
    assert run(*limits) == 3
    job.write("0003.txt", "short")
    assert run(*limits) == 0
    assert ends(job) == [(Phase.CONVERT, True, 3), DONE]
    assert appliance.urls() == job.urls()


def test_settings_that_change_before_the_push_begin_a_new_run(
    job: TreeJob, appliance: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--set", "target.url=http://127.0.0.1:9", "--set", "push.attempts=1") == 4
    assert run(*CHUNKS) == 0
    assert ends(job) == [(Phase.PUSH, True, 4), DONE]
    first = job.records()[0]
    assert f"runs/people/{first.id} is abandoned: inputs or settings have changed" in (
        capsys.readouterr().err
    )
    assert not (job.home / first.id / ".work").exists()
    assert appliance.urls() == job.urls()


def test_settings_that_change_during_the_push_come_with_the_next_run(
    refusing: tuple[TreeJob, Served],
) -> None:
    job, appliance = refusing
    stop_in_push(job, appliance)
    job.write("0001.txt", "changed")
    before = len(appliance.feedtypes())
    assert run("--set", "chunk.max_records=7", "--set", "source.path_metadata=true") == 0
    assert ends(job) == [DONE, DONE]
    assert appliance.urls() == job.urls()
    chunks = 2 + 2  # the rest of the old run; by other rules, all 10 documents again
    assert len(appliance.feedtypes()) == before + chunks


def test_the_start_after_a_failed_night_sends_the_old_run_and_then_what_has_changed(
    refusing: tuple[TreeJob, Served], capsys: pytest.CaptureFixture[str]
) -> None:
    job, appliance = refusing
    old = stop_in_push(job, appliance)
    job.write("0001.txt", "changed")
    (job.docs / "0002.txt").unlink()
    job.write("new.txt", "new")
    capsys.readouterr()
    assert run(*CHUNKS, "--set", "metrics_file=people.prom") == 0
    assert ends(job) == [DONE, DONE]
    assert appliance.urls() == job.urls()
    first, second = job.records()
    assert (first.id, first.generation, second.generation) == (old.id, 1, 2)
    out, err = capsys.readouterr()
    assert out.count("settled   ") == 2
    assert out.index(f"{first.id}/report.html") < out.index(f"{second.id}/report.html")
    assert [line for line in err.splitlines() if line.startswith("feedferry: ")] == [
        f"feedferry: resuming runs/people/{first.id} (push)",
        f"feedferry: beginning runs/people/{second.id}",
    ]
    assert f"{second.started_at.timestamp():.15g}\n" in Path("people.prom").read_text()
    before = appliance.arrivals()
    assert (run(), appliance.arrivals()) == (0, before)


def test_a_start_that_only_resumes_finishes_the_old_run_and_begins_no_other(
    refusing: tuple[TreeJob, Served], capsys: pytest.CaptureFixture[str]
) -> None:
    job, appliance = refusing
    stop_in_push(job, appliance)
    job.write("new.txt", "new")
    assert run(*CHUNKS, "--only-resume") == 0
    assert (ends(job), len(appliance.urls())) == ([DONE], 10)
    capsys.readouterr()
    assert run("--only-resume") == 0
    assert (ends(job), appliance.urls()) == ([DONE], job.urls()[:-1])
    assert capsys.readouterr().err == "feedferry: runs/people: no unfinished run is left\n"
    assert run("--only-resume", "--fresh") == 2


def test_a_start_that_only_resumes_replaces_a_run_that_stopped_at_a_limit(job: TreeJob) -> None:
    job.write("0003.txt", "too long " * 200)
    limits = ("--set", "rejects.max=0", "--set", "source.max_content_bytes=1KiB")
    assert run(*limits) == 3
    assert run("--only-resume") == 0
    assert ends(job) == [(Phase.CONVERT, True, 3), DONE]


def test_no_new_run_is_begun_if_the_old_one_fails_again(job: TreeJob) -> None:
    down = ("--set", "target.url=http://127.0.0.1:9", "--set", "push.attempts=1")
    assert [run(*down), run(*down)] == [4, 4]
    (record,) = job.records()
    assert (record.phase, record.attempts, record.exit_code) == (Phase.PUSH, 2, 4)


def test_the_rejects_of_the_old_run_are_in_the_exit_code_of_the_start(
    job: TreeJob, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write("0003.txt", "too long " * 200)
    limit = ("--set", "source.max_content_bytes=1KiB")
    assert run(*limit, "--set", "target.url=http://127.0.0.1:9", "--set", "push.attempts=1") == 4
    job.write("0003.txt", "short")
    capsys.readouterr()
    assert run(*limit) == 1
    old, new = job.records()
    assert (old.exit_code, new.exit_code) == (1, 0)
    shown = f"runs/people/{old.id}: done with exit code 1; feedferry runs show runs/people/{old.id}"
    assert shown in capsys.readouterr().err


def test_a_deadline_that_has_passed_when_the_old_run_is_done_begins_no_new_one(
    job: TreeJob,
) -> None:
    assert run() == 0
    (record,) = job.records()
    write_run(job.home / record.id, replace(record, phase=Phase.REMEMBER, exit_code=4))
    with pytest.raises(DeadlinePassed):
        run_job(load_job(Path("people.yaml"), {}, {}), RunOptions(deadline=1.0), Observer())
    assert ends(job) == [DONE]


def test_a_signal_during_the_last_chunk_of_the_old_run_begins_no_new_one(here: Path) -> None:
    (here / "slow.yaml").write_text(
        "- {endpoint: xmlfeed, requests: 1-1, status: 400}\n"
        "- {endpoint: xmlfeed, requests: 2-2, delay: 3s}\n"
    )
    with serving(here / "spool", "--scenario", "slow.yaml") as appliance:
        job = TreeJob(here / "job", appliance.url, documents=10)
        assert job.run("--set", "push.on_refusal=stop").returncode == 4
        process = job.start()
        wait_until(lambda: appliance.arrivals().total() == 1)
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=BOUND_SECONDS)
        assert (process.returncode, ends(job)) == (143, [(Phase.PUSH, False, 143)]), stderr
        assert job.run("--only-resume").returncode == 0
        assert (ends(job), appliance.arrivals().total()) == ([DONE], 1)


def test_fresh_begins_a_new_run_and_keeps_the_receipts_of_the_unfinished_one(
    refusing: tuple[TreeJob, Served], capsys: pytest.CaptureFixture[str]
) -> None:
    job, appliance = refusing
    old = stop_in_push(job, appliance)
    assert run("--fresh") == 0
    assert ends(job) == [(Phase.PUSH, True, 4), DONE]
    assert list((job.home / old.id).glob("push/*/receipts-001.jsonl"))
    assert appliance.urls() == job.urls()
    capsys.readouterr()
    assert main(["push", f"runs/people/{old.id}", "--to", appliance.url]) == 2
    assert "generation 1 of people; generation 2 of people was already pushed" in (
        capsys.readouterr().err
    )


def test_a_fresh_start_that_was_killed_before_it_abandoned_a_run_is_continued(
    refusing: tuple[TreeJob, Served], capsys: pytest.CaptureFixture[str]
) -> None:
    job, appliance = refusing
    old = stop_in_push(job, appliance)
    work = find_work(job.home / old.id)
    assert work is not None
    mark_unsure(work, str(job.home / "state"))
    capsys.readouterr()
    assert run() == 0
    assert (
        "is abandoned: begun anew with --fresh; a part of it may have been sent"
        in capsys.readouterr().err
    )
    assert ends(job) == [(Phase.PUSH, True, 4), DONE]
    assert appliance.urls() == job.urls()


def test_an_unfinished_run_is_refused_when_another_job_has_replaced_its_datasource(
    refusing: tuple[TreeJob, Served], capsys: pytest.CaptureFixture[str]
) -> None:
    job, appliance = refusing
    stop_in_push(job, appliance)
    text = (job.folder / "people.yaml").read_text().replace("job: people", "job: all")
    (job.folder / "all.yaml").write_text(
        text.replace("datasource: people", "datasource: people, feedtype: full")
    )
    assert main(["run", "all.yaml", "--progress", "none"]) == 0
    capsys.readouterr()
    assert run(*CHUNKS) == 2
    assert "generation 1 of people; generation 2 of all was already" in capsys.readouterr().err
    assert run(*CHUNKS, "--allow-older") == 0


def test_a_damaged_report_stops_the_run_and_a_fresh_one_replaces_it(
    refusing: tuple[TreeJob, Served], capsys: pytest.CaptureFixture[str]
) -> None:
    job, appliance = refusing
    folder = job.home / stop_in_push(job, appliance).id
    (folder / "report.json").write_text('{"account":')
    assert run() == 4
    assert "report.json: Input data was truncated; expected the report" in capsys.readouterr().err
    assert list(folder.glob("push/*/receipts-001.jsonl"))
    assert run("--fresh") == 0
    assert appliance.urls() == job.urls()


def test_a_full_feed_with_rejects_is_sent_when_these_are_accepted(
    job: TreeJob, here: Path, appliance: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    put(here / "feed.xml", gsa_feed(*documents(1, 2), BROKEN, feedtype="full"))
    (here / "people.yaml").write_text(
        "version: 1\njob: people\nsource: {type: gsa-feed, path: feed.xml}\n"
        f"target: {{type: gsa-feed, url: {appliance.url}}}\nrejects: {{accepted: known.txt}}\n"
    )
    assert (run(), appliance.urls()) == (3, [])
    message = capsys.readouterr().err
    assert "a full feed of 'intranet' without 1 document or part of the input, as " in message
    assert "safety: {accept_holes: true} (--set safety.accept_holes=true) goes on" in message
    assert "without them" in message
    assert "rejects.accepted go on without these only" in message
    assert main(["rejects", "accept", "people.yaml"]) == 0
    assert (run(), len(appliance.urls())) == (0, 2)
    put(here / "feed.xml", gsa_feed(*documents(1, 1), BROKEN, UNREADABLE, feedtype="full"))
    assert (run(), len(appliance.urls())) == (3, 2)


NOTIFIED = """\
#!/bin/sh
echo "$FEEDFERRY_JOB $FEEDFERRY_RUN $FEEDFERRY_EXIT_CODE $FEEDFERRY_REPORT" >> notified
echo printed
"""


def write_command(folder: Path, text: str) -> None:
    path = folder / "notify.sh"
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.slow
def test_a_command_is_started_after_each_run_however_it_ends(
    here: Path, job: TreeJob, capfd: pytest.CaptureFixture[str]
) -> None:
    write_command(here, NOTIFIED)
    down = ("--set", "target.url=http://127.0.0.1:9", "--set", "push.attempts=1")
    assert run("--on-end", "./notify.sh", *down) == 4
    assert run("--fresh", "--set", "notify.command=./notify.sh 'a b'", "--format", "json") == 0
    first, second = job.records()
    assert Path("notified").read_text().splitlines() == [
        f"people {record.id} {code} {job.home.absolute() / record.id / 'report.json'}"
        for record, code in ((first, 4), (second, 0))
    ]
    out, err = capfd.readouterr()
    assert ("printed" in out, err.count("printed")) == (False, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/bin/sh\nexit 3\n", "ended with exit code 3"),
        ("#!/bin/sh\nexec sleep 60\n", "killed at its time limit; see notify.timeout"),
        ("", "not started: Exec format error"),
    ],
)
def test_a_command_that_fails_changes_neither_the_run_nor_its_exit_code(
    here: Path, job: TreeJob, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    write_command(here, text)
    assert run("-q", "--on-end", "./notify.sh", "--set", "notify.timeout=200ms") == 0
    line = f"notify.command: {reason}; the run itself has ended"
    assert capsys.readouterr().err.count(f"feedferry: {line}\n") == 1
    assert ends(job) == [DONE]
    assert line in (job.home / job.records()[0].id / "run.log").read_text()


@pytest.mark.slow
def test_a_command_is_killed_with_what_it_has_started(here: Path, job: TreeJob) -> None:
    write_command(here, "#!/bin/sh\nexec 3> held\nsleep 600 &\nwait\n")
    os.mkfifo("held")
    with open(os.open("held", os.O_RDONLY | os.O_NONBLOCK), "rb") as held:
        assert run("--on-end", "./notify.sh", "--set", "notify.timeout=1s") == 0
        has_ended = select.select([held], [], [], BOUND_SECONDS)[0]  # no process writes to it
        assert has_ended == [held]


def test_a_command_without_its_end_is_refused(
    job: TreeJob, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--on-end", "notify 'a") == 2
    text = "--on-end: a quotation mark without its end; expected words as in a shell"
    assert text in capsys.readouterr().err
    assert job.records() == []
