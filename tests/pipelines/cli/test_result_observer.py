"""What is printed of the results of a run and of a push."""

from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.cli.results.result_observer import ResultObserver
from feedferry.pipelines.job.run.settlement import Settlement
from feedferry.pipelines.observer.observer import Step, followed
from feedferry.pipelines.options.display_options import DisplayOptions
from feedferry.pipelines.push.engine import notify_stop
from feedferry.pipelines.push.record import PushResult
from feedferry.schemas.errors import FatalError
from feedferry.transforms.sinks.push.outcome import PushAccount
from support.archives import BROKEN, documents, gsa_feed, put
from support.jobs import TreeJob
from support.runs import keep_levels
from support.served import serving


def test_the_reason_of_a_stopped_push_is_printable(capsys: pytest.CaptureFixture[str]) -> None:
    account = PushAccount(target="http://a", outcomes=())
    paths = {"root": Path("out"), "receipts": Path("out/push/a")}
    result = PushResult(**paths, account=account, reason="said \x1b[2J")
    notify_stop(result, ResultObserver(DisplayOptions(verbosity=-1)))
    assert capsys.readouterr().err == "feedferry: said \\x1b[2J\n"


def test_feed_files_cannot_be_replayed_in_a_dry_run_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = put(tmp_path / "a.xml", gsa_feed(*documents(1, 1)))
    with keep_levels():
        code = main(["push", str(feed), "--to", "http://127.0.0.1:1", "--replay", "--dry-run"])
    message = f"feedferry: --replay: {str(feed)!r}; expected the folder of a run\n"
    assert (code, capsys.readouterr()) == (2, ("", message))


@pytest.mark.slow
def test_a_run_ends_with_one_summary_and_a_quiet_night_with_one_line(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = [f'<record url="x{number}" mimetype="text/plain"/>' for number in range(3)]
    records = [*documents(1, 4), *bad, *(BROKEN for _ in range(3))]
    put(here / "feeds" / "a.xml", gsa_feed(*records))
    with serving(here / "spool") as appliance:
        job = TreeJob(here, appliance.url, documents=40)
        job_file = here / "people.yaml"
        steps = "transform: [metadata: {set: {site: a}}]\n"
        job_file.write_text(f"{job_file.read_text()}{steps}")
        assert main(["run", "people.yaml"]) == 0
        first = capfd.readouterr()
        appliance.settle()
        assert main(["run", "people.yaml"]) == 0
        quiet = capfd.readouterr()
        assert main(["run", "people.yaml", "-q"]) == 0
        silent = capfd.readouterr()
        assert main(["run", "people.yaml", "--format", "json"]) == 0
        json_text = capfd.readouterr().out
        job.write("0000.txt", "changed")
        assert main(["run", "people.yaml"]) == 0
        changed = capfd.readouterr().out
        (here / "people.yaml").unlink()
        flags = ("feeds", "-o", "out", "--to", "gsa-feed", "--push-to", appliance.url)
        assert main(["convert", *flags]) == 1
        labels = [line.split()[0] for line in capfd.readouterr().out.splitlines()]

    words = [line.split()[0] for line in first.out.splitlines()]
    assert words == [
        *("read", "ADD", "total", "changed", "chunks", "pushed", "target", "receipts", "settled"),
        "report",
    ]
    assert "pushed    40 accepted, 0 refused, 0 left\n" in first.out
    assert (quiet.out, quiet.err) == ("nothing has changed: 40 documents\n", "")
    assert (silent.out, silent.err) == ("", "")
    assert '"unchanged": 40' in json_text
    assert "filtered  unchanged 39\n" in changed
    assert [labels.count(label) for label in ("rejects", "reject", "report")] == [1, 2, 1]


def test_the_summary_of_a_run_that_fails_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    observer = ResultObserver(DisplayOptions())
    settled = Settlement(
        root=Path("out"), accepted=4, refused=0, chunks=2, changed=("chunks/1.xml",)
    )

    def fail() -> None:
        with followed(observer, Step.RUN):
            with followed(observer, Step.SETTLE) as step:
                step.result = settled
            with followed(observer, Step.VERIFY):
                raise FatalError("connection refused")

    with pytest.raises(FatalError):
        fail()
    assert capsys.readouterr() == (
        "settled   4 records accepted, 0 refused; chunk files: 1 as written, 1 changed\n",
        "feedferry: out/chunks/1.xml: changed since it was pushed\n",
    )
