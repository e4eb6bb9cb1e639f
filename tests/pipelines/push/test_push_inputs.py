"""The inputs of `feedferry push`: runs, feed files, several runs, plans, and equal counts."""

import gzip
import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.pipelines.cli.main import main
from feedferry.schemas.receipt import ChunkState, Receipt
from feedferry.transforms.sinks.push.push_plan import plan_chunks
from feedferry.transforms.sinks.push.receipts import Receipts
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.sources.spool import read_deliveries
from support.fake_appliance import GSA, chunk_of, finished
from support.forks import run
from support.runs import ROOT
from support.served import serving

HOST = "http://www.example.com"
CLOSED_PORT = ("--to", "http://127.0.0.1:1", "--attempts", "1", "-q", "--progress", "none")
FAST = ("--progress", "none", "--backlog-interval", "50ms")
EXPECTED = "expected the folder of a finished run (the -o of convert), or feed files with -o DIR"


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["push", *words, *CLOSED_PORT]) == 2
    return capsys.readouterr().err.removeprefix("feedferry: ").rstrip()


def one_chunk(folder: Path, name: str, *, feedtype: str = "incremental") -> Path:
    """Make the folder of a run with one chunk of two documents."""
    chunk = chunk_of(folder, 1, [f"{name}1", f"{name}2"], feedtype=feedtype, action="ADD")
    return finished(folder, [chunk])


@pytest.mark.slow
def test_a_run_is_pushed_once_by_all_spellings_of_an_address(tmp_path: Path) -> None:
    folder = one_chunk(tmp_path / "run", "a")
    with serving(tmp_path / "spool") as appliance:
        other = appliance.url.replace("127.0.0.1", "LOCALHOST")
        assert run("push", str(folder), "--to", other, *FAST).returncode == 0
        again = run("push", str(folder), "--to", appliance.url, *FAST)
        assert again.returncode == 0, again.stderr
        assert appliance.arrivals().total() == 1
    assert len(list((folder / "push").iterdir())) == 1


# Refused inputs


def test_an_input_that_is_no_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing, empty, unfinished = (tmp_path / name for name in ("missing", "empty", "unfinished"))
    empty.mkdir()
    (unfinished / ".work").mkdir(parents=True)

    assert refusal(capsys, str(tmp_path)) == (
        f"INPUT: {str(tmp_path)!r}: no manifest.jsonl in it; {EXPECTED}"
    )
    assert refusal(capsys, str(missing)) == (
        f"INPUT: {str(missing)!r}: no such file or folder; {EXPECTED}"
    )
    assert refusal(capsys, str(empty), "-o", str(tmp_path / "out")) == (
        f"INPUT: {str(empty)!r}: a folder without files; {EXPECTED}"
    )
    assert refusal(capsys, str(unfinished)) == (
        f"INPUT: {str(unfinished)!r}: an unfinished run; expected a finished one: start its"
        " conversion again to complete it"
    )


def test_runs_are_not_mixed_with_feed_files_or_given_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = one_chunk(tmp_path / "run", "a")
    file = tmp_path / "feed.xml"
    file.write_text("<gsafeed/>")

    assert refusal(capsys, str(root), str(file)) == (
        f"INPUT: {str(file)!r}: not the folder of a run, but {str(root)!r} is one; expected only"
        " folders of runs or only feed files: push them one after the other"
    )
    assert refusal(capsys, str(root), f"{root}/.") == (
        "INPUT: the same run is given twice; expected each run once"
    )


def test_two_runs_with_a_full_feed_of_one_datasource_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (one_chunk(tmp_path / name, name, feedtype="full") for name in "ab")

    assert refusal(capsys, str(first), str(second)) == (
        f"{first}, {second}: 2 full feeds of 'wiki'; expected one, because each deletes the one"
        " before it: push the newest alone, or give --several-full each to send all, or"
        " --several-full first for files of one feed"
    )


def test_refused_feed_files_leave_no_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, out = tmp_path / "image.gz", tmp_path / "out"
    image.write_bytes(gzip.compress(b"\x89PNG\r\n\x1a\n"))

    assert refusal(capsys, str(image), "-o", str(out)).startswith(
        f"{image}: looks like a PNG image"
    )
    assert not out.exists()


def test_feed_files_of_another_datasource_need_another_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = str(tmp_path / chunk_of(tmp_path, 1, "a").path), str(tmp_path / "out")
    assert main(["push", path, "-o", out, *CLOSED_PORT]) == 4

    assert refusal(capsys, path, "-o", out, "--datasource", "other") == (
        f"-o {out}: has the run of other files, or of other names for them; expected another folder"
    )


def test_files_of_an_unfinished_start_are_replaced(tmp_path: Path) -> None:
    path, out = tmp_path / chunk_of(tmp_path, 1, "a").path, tmp_path / "out"
    (out / "chunks").mkdir(parents=True)
    (out / "chunks" / "000001.xml").write_text("another")
    main(["push", str(path), "-o", str(out), *CLOSED_PORT])

    assert (out / "chunks" / "000001.xml").read_bytes() == path.read_bytes()


# Plans


def test_a_plan_leaves_out_accepted_chunks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chunks = [chunk_of(tmp_path, 1, "ab"), chunk_of(tmp_path, 2, "c")]
    folder = finished(tmp_path, chunks) / "push" / "127.0.0.1_1"
    settings = PushSettings(appliance=replace(GSA, url="http://127.0.0.1:1"))
    plan = ["push", str(tmp_path), *CLOSED_PORT, "--dry-run"]
    end = "target    http://127.0.0.1:1\nnothing was sent\n"
    with Receipts(folder, plan_chunks(chunks, settings), settings) as receipts:
        receipts.add(Receipt(chunk=1, sha256="", state=ChunkState.ACCEPTED))
        assert main(plan) == 0
        assert capsys.readouterr().out == (
            f"chunks    wiki: 1 (1 incremental), 1 records, {chunks[1].bytes:,} bytes\n{end}"
        )
        receipts.add(Receipt(chunk=2, sha256="", state=ChunkState.ACCEPTED))
        assert main(plan) == 0
        assert capsys.readouterr().out == (
            f"chunks    none left: earlier pushes have settled all of them\n{end}"
        )


def test_a_plan_of_feed_files_makes_no_file(tmp_path: Path) -> None:
    path, out = tmp_path / chunk_of(tmp_path, 1, "a").path, tmp_path / "out"

    assert main(["push", str(path), "-o", str(out), *CLOSED_PORT, "--dry-run"]) == 0
    assert not out.exists()


# Several runs


@pytest.mark.slow
def test_several_runs_are_pushed_in_the_given_order(tmp_path: Path) -> None:
    runs = [str(one_chunk(tmp_path / name, name)) for name in "ba"]
    with serving(tmp_path / "spool") as appliance:
        ended = run("push", *runs, "--to", appliance.url, *FAST)
        urls = appliance.urls()
        feeds = [
            tmp_path / "spool" / str(delivery.path) for delivery in read_deliveries(appliance.spool)
        ]

    assert (ended.returncode, ended.stderr) == (0, "")
    assert urls == [f"{HOST}/{name}" for name in ("a1", "a2", "b1", "b2")]
    assert [feed.read_bytes() for feed in feeds] == [
        (tmp_path / name / "chunks" / "000001.xml").read_bytes() for name in "ba"
    ]
    assert re.findall(r"receipts  (\S+)/push/", ended.stdout) == runs


@pytest.mark.slow
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


@pytest.mark.slow
def test_no_run_is_sent_after_a_run_that_stopped(tmp_path: Path) -> None:
    runs = [str(one_chunk(tmp_path / name, name)) for name in "ab"]
    (tmp_path / "a" / "chunks" / "000001.xml").write_bytes(b"changed")
    with serving(tmp_path / "spool") as appliance:
        ended = run("push", *runs, "--to", appliance.url, *FAST)
        urls = appliance.urls()

    assert (ended.returncode, urls) == (4, [])


# Equal counts


@pytest.mark.slow
def test_a_second_push_reports_that_nothing_was_sent(tmp_path: Path) -> None:
    root = str(one_chunk(tmp_path / "run", "a"))

    def reports() -> dict[Path, bytes]:
        names = ("report.*", "timeline.jsonl", "manifest.jsonl")
        return {path: path.read_bytes() for name in names for path in Path(root).rglob(name)}

    with serving(tmp_path / "spool") as appliance:
        first = run("push", root, "--to", appliance.url, *FAST)
        files = reports()
        again = run("push", root, "--to", appliance.url, *FAST)
        as_json = run("push", root, "--to", appliance.url, "--format", "json", *FAST)
        urls = appliance.urls()

    assert "sent  " not in first.stdout
    assert (
        "push      nothing to send: an earlier push has settled 1 chunk; --replay sends them again"
    ) in again.stdout.splitlines()
    assert "on the wire" not in again.stdout
    assert "records" not in again.stderr
    assert files == reports()
    report = json.loads(as_json.stdout)
    assert (report["sent_bytes"], report["earlier_chunks"], report["bytes"] > 0) == (0, 1, True)
    assert len(urls) == 2


@pytest.mark.slow
def test_every_account_of_the_sample_has_the_same_counts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sample = (str(ROOT / "pipelines" / "sample"), "-o", str(out), "--to", "thunderstone")
    with serving(tmp_path / "spool", "--receive-profile", "sample") as appliance:
        target = f"{appliance.url}/texis/dowalk/recvdata.xml"
        converted = run("convert", *sample, "--accept-loss", "acl", "--progress", "none")
        named = ("--to", target, "--profile", "sample", "--progress", "plain")
        plan = run("push", str(out), *named, "--dry-run")
        pushed = run("push", str(out), *named)

    assert re.findall(r"^total +57 +(\d+) +0 +3$", converted.stdout, re.MULTILINE) == ["54"]
    assert re.findall(r"^chunks +(\d+), 66,800 bytes", converted.stdout, re.MULTILINE) == ["3"]
    assert "chunks    thunderstone: 3 (3 thunderstone), 54 records, 66,800 bytes" in plan.stdout
    assert re.findall(r"^(?:accepted|total) +(\d+) +(\d+)$", pushed.stdout, re.MULTILINE) == [
        ("3", "54"),
        ("3", "54"),
    ]
    *_, last = (out / "timeline.jsonl").read_text().splitlines()
    point = json.loads(last)
    assert (point["phase"], point["records"], point["bytes"]) == ("push", 54, point["total"])
