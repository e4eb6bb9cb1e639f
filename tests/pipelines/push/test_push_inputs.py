"""`feedferry push`: which inputs it takes, several runs in one command, and equal counts."""

import gzip
import json
import re
from pathlib import Path

import pytest

from pipelines.cli.main import main
from support.runs import ROOT
from support.served import run, serving
from support.wires import chunk_of, finished, items_of
from transforms.sources.spool import read_deliveries

pytestmark = pytest.mark.slow

HOST = "http://www.example.com"
CLOSED_PORT = ("--to", "http://127.0.0.1:1", "--attempts", "1", "-q", "--progress", "none")
FAST = ("--progress", "none", "--backlog-interval", "50ms")
EXPECTED = "expected the folder of a finished run (the -o of convert), or feed files with -o DIR"


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["push", *words, *CLOSED_PORT]) == 2
    return capsys.readouterr().err.removeprefix("feedferry: ").rstrip()


def one_chunk(folder: Path, name: str, *, feedtype: str = "incremental") -> Path:
    """Make the folder of a run with one chunk of two documents."""
    chunk = chunk_of(folder, 1, [f"{name}1", f"{name}2"], feedtype=feedtype, action="ADD")
    return finished(folder, [chunk])


def test_a_folder_that_is_not_a_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(capsys, str(tmp_path)) == (
        f"INPUT: {str(tmp_path)!r}: no manifest.jsonl in it; {EXPECTED}"
    )


def test_an_input_that_does_not_exist_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "missing")
    assert refusal(capsys, missing) == f"INPUT: {missing!r}: no such file or folder; {EXPECTED}"


def test_an_unfinished_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".work").mkdir()
    assert refusal(capsys, str(tmp_path)) == (
        f"INPUT: {str(tmp_path)!r}: an unfinished run; expected a finished one: start its"
        " conversion again to complete it"
    )


def test_an_empty_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert refusal(capsys, str(empty), "-o", str(tmp_path / "out")) == (
        f"INPUT: {str(empty)!r}: a folder without files; {EXPECTED}"
    )


def test_runs_and_feed_files_are_not_mixed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = one_chunk(tmp_path / "run", "a")
    file = tmp_path / "feed.xml"
    file.write_text("<gsafeed/>")
    assert refusal(capsys, str(root), str(file)) == (
        f"INPUT: {str(file)!r}: not the folder of a run, but {str(root)!r} is one; expected only"
        " folders of runs or only feed files: push them one after the other"
    )


def test_a_run_is_not_pushed_twice_by_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = one_chunk(tmp_path / "run", "a")
    assert refusal(capsys, str(root), f"{root}/.") == (
        "INPUT: the same run is given twice; expected each run once"
    )


def test_two_runs_with_a_full_feed_of_one_datasource_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (one_chunk(tmp_path / name, name, feedtype="full") for name in "ab")
    assert refusal(capsys, str(first), str(second)) == (
        f"{second}: a full feed of 'wiki', like {first}; expected one, because the second deletes"
        " what the first one brought: push the newer run alone, or send both with --several-full"
        " each"
    )


def test_several_runs_are_pushed_in_the_order_given(tmp_path: Path) -> None:
    runs = [str(one_chunk(tmp_path / name, name)) for name in "ba"]
    with serving(tmp_path / "spool") as appliance:
        ended = run("push", *runs, "--to", appliance.url, *FAST)
        urls = appliance.urls()
        feeds = [tmp_path / "spool" / str(one.path) for one in read_deliveries(appliance.spool)]

    assert (ended.returncode, ended.stderr) == (0, "")
    assert urls == [f"{HOST}/{name}" for name in ("a1", "a2", "b1", "b2")]
    assert [feed.read_bytes() for feed in feeds] == [
        (tmp_path / name / "chunks" / "000001.xml").read_bytes() for name in "ba"
    ]
    assert re.findall(r"receipts  (\S+)/push/", ended.stdout) == runs


def test_the_second_of_two_full_runs_replaces_the_first_if_it_may(tmp_path: Path) -> None:
    runs = [str(one_chunk(tmp_path / name, name, feedtype="full")) for name in "ba"]
    with serving(tmp_path / "spool") as appliance:
        ended = run("push", *runs, "--to", appliance.url, "--several-full", "each", *FAST)
        urls, feedtypes = appliance.urls(), appliance.feedtypes()

    assert (ended.returncode, ended.stderr) == (0, "")
    assert feedtypes == ["full", "full"]
    assert urls == [f"{HOST}/a1", f"{HOST}/a2"]


def test_receipts_of_another_run_are_found_before_anything_is_sent(tmp_path: Path) -> None:
    first, second = (one_chunk(tmp_path / name, name) for name in "ab")
    with serving(tmp_path / "spool") as appliance:
        run("push", str(second), "--to", appliance.url, *FAST)
        one_chunk(second, "c")
        ended = run("push", str(first), str(second), "--to", appliance.url, *FAST)
        urls = appliance.urls()

    assert ended.returncode == 2
    assert "receipts-001.jsonl: receipts of " in ended.stderr
    assert urls == [f"{HOST}/b1", f"{HOST}/b2"]


def test_a_run_that_is_not_accepted_keeps_later_runs_from_being_sent(tmp_path: Path) -> None:
    runs = [str(one_chunk(tmp_path / name, name)) for name in "ab"]
    (tmp_path / "a" / "chunks" / "000001.xml").write_bytes(b"changed")
    with serving(tmp_path / "spool") as appliance:
        ended = run("push", *runs, "--to", appliance.url, *FAST)
        urls = appliance.urls()

    assert ended.returncode == 4
    assert urls == []


def test_a_push_of_what_is_settled_reports_that_nothing_was_sent(tmp_path: Path) -> None:
    root = str(one_chunk(tmp_path / "run", "a"))
    with serving(tmp_path / "spool") as appliance:
        first = run("push", root, "--to", appliance.url, *FAST)
        again = run("push", root, "--to", appliance.url, *FAST)
        as_json = run("push", root, "--to", appliance.url, "--format", "json", *FAST)
        urls = appliance.urls()

    assert "sent  " not in first.stdout
    assert (
        "sent      nothing: an earlier push has settled all 1 chunks; --replay sends them again"
    ) in again.stdout.splitlines()
    assert ", 0 bytes on the wire in" in again.stdout
    report = json.loads(as_json.stdout)
    assert (report["sent_bytes"], report["earlier_chunks"], report["bytes"] > 0) == (0, 1, True)
    assert len(urls) == 2


def test_a_dry_run_of_what_is_settled_says_so(tmp_path: Path) -> None:
    root = str(one_chunk(tmp_path / "run", "a"))
    with serving(tmp_path / "spool") as appliance:
        run("push", root, "--to", appliance.url, *FAST)
        plan = run("push", root, "--to", appliance.url, "--dry-run")

    assert plan.stdout.splitlines() == [
        "chunks    none left: earlier pushes have settled all of them",
        f"target    {appliance.url}",
        "nothing was sent",
    ]


def test_every_account_of_the_sample_shows_the_same_counts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sample = (str(ROOT / "pipelines" / "sample"), "-o", str(out), "--to", "thunderstone")
    with serving(tmp_path / "spool", "--receive-profile", "sample") as appliance:
        target = f"{appliance.url}/texis/dowalk/recvdata.xml"
        converted = run("convert", *sample, "--accept-loss", "acl", "--progress", "none")
        named = ("--to", target, "--profile", "sample", "--progress", "plain")
        plan = run("push", str(out), *named, "--dry-run")
        pushed = run("push", str(out), *named)

    assert re.findall(r"^total +57 +(\d+) +0 +3$", converted.stdout, re.MULTILINE) == ["54"]
    assert re.findall(r"^chunks +(\d+), 67,028 bytes", converted.stdout, re.MULTILINE) == ["4"]
    assert "chunks    thunderstone: 4 (4 thunderstone), 54 records, 67,028 bytes" in plan.stdout
    assert re.findall(r"^(?:accepted|total) +(\d+) +(\d+)$", pushed.stdout, re.MULTILINE) == [
        ("4", "54"),
        ("4", "54"),
    ]
    assert re.findall(r", (\d+) records, ", pushed.stderr)[-1] == "54"


def test_the_plan_of_feed_files_has_the_update_that_the_push_adds(tmp_path: Path) -> None:
    chunk = items_of(tmp_path, 1, ["a", "b"])
    path = str(tmp_path / chunk.path)
    with serving(tmp_path / "spool", "--receive-profile", "sample") as appliance:
        target = f"{appliance.url}/texis/dowalk/recvdata.xml"
        flags = ("-o", str(tmp_path / "out"), "--to", target, "--profile", "sample", *FAST)
        plan = run("push", path, *flags, "--dry-run")
        pushed = run("push", path, *flags)

    assert "chunks    thunderstone: 2 (2 thunderstone), 2 records," in plan.stdout
    assert re.findall(r"^total +(\d+) +(\d+)$", pushed.stdout, re.MULTILINE) == [("2", "2")]


def test_files_that_are_refused_leave_no_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = tmp_path / "image.gz"
    image.write_bytes(gzip.compress(b"\x89PNG\r\n\x1a\n"))
    out = tmp_path / "out"
    assert refusal(capsys, str(image), "-o", str(out)).startswith(
        f"{image}: looks like a PNG image"
    )
    assert not out.exists()
