"""Two runs that would disturb each other: the second is refused at once."""

import os
import socket
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.transforms.storage.files.lock import Lock
from support.archives import documents, gsa_feed, put
from support.runs import AVRO_RUN, convert, left

HOLDER = f"process {os.getpid()} on {socket.gethostname()}; start again when that has ended"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


@pytest.fixture
def feed() -> str:
    return put(Path("a.xml"), gsa_feed(*documents(1, 2)))


def held(name: str, *, by: str = "run") -> Lock:
    """A lock that another run or push has."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    return Lock(Path(name), where="", by=by)


def test_a_second_run_into_one_folder_is_refused(
    feed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with held("out/.work/lock"):
        code = convert(feed, "-o", "out", "--to", "avro")

    message = f"-o out: in use by another run, {HOLDER}"
    assert (code, capsys.readouterr().err.splitlines()[0]) == (75, f"feedferry: {message}")


def test_a_fresh_run_removes_no_files_of_a_running_run(feed: str) -> None:
    put(Path("out/.work/1/a"), b"1")
    with held("out/.work/lock"):
        convert(feed, "-o", "out", "--to", "avro", "--fresh", "-q")

    assert left("out") == [".work/", ".work/1/", ".work/1/a", ".work/lock"]


def test_standard_input_is_not_read_by_a_run_that_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with held("out/.work/lock"):
        assert convert("-", "-o", "out", "--to", "avro", "-q") == 75


def test_a_run_may_begin_when_the_other_has_ended_and_leaves_no_lock(feed: str) -> None:
    with held("out/.work/lock"):
        convert(feed, "-o", "out", "--to", "avro", "-q")

    assert convert(feed, "-o", "out", "--to", "avro", "-q") == 0
    assert left("out") == AVRO_RUN


def test_a_second_run_with_one_state_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    put(Path("docs/a.txt"), b"x")
    args = ("--to", "gsa-feed", "--datasource", "docs", "--base-url", "http://docs.example.com/")
    with held(".sent.lock"):
        code = convert("docs", "-o", "out", *args, "--state", "sent")

    message = f"--state sent: in use by another run, {HOLDER}"
    assert (code, capsys.readouterr().err.splitlines()[0]) == (75, f"feedferry: {message}")
    assert left(".") == [".sent.lock", "docs/", "docs/a.txt"]
    convert("docs", "-o", "out", *args, "--state", "sent", "-q")
    assert sorted(os.listdir()) == ["docs", "out", "sent"]


def test_a_fresh_run_does_not_remove_chunks_that_are_being_pushed(
    feed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    convert(feed, "-o", "out", "--to", "gsa-feed", "-q")
    with held("out/push/gsa/lock", by="push"):
        code = convert(feed, "-o", "out", "--to", "gsa-feed", "--fresh")

    message = f"out/push/gsa: in use by another push, {HOLDER}"
    assert (code, capsys.readouterr().err.splitlines()[0]) == (75, f"feedferry: {message}")
    assert "chunks/000001.xml" in left("out")


def test_feed_files_are_not_taken_into_a_folder_that_is_in_use(
    feed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with held("out/.work/lock"):
        code = main(["push", feed, "-o", "out", "--to", "http://127.0.0.1:9/"])

    message = f"-o out: in use by another run, {HOLDER}"
    assert (code, capsys.readouterr().err.splitlines()[0]) == (75, f"feedferry: {message}")
