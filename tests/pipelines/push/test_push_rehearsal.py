"""Pushes by the command to a receiver in another process, which misbehaves on demand."""

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from feedferry.schemas.delivery import JOURNAL
from support.archives import documents, gsa_feed, put
from support.fake_appliance import chunk_of, finished, items_of
from support.forks import run
from support.pages import read_page
from support.ports import kept_port
from support.runs import ROOT, manifest
from support.served import BOUND_SECONDS, Served, serving, start, wait_until

pytestmark = pytest.mark.slow

HOST = "http://www.example.com"
SCENARIOS = read_page("docs/scenarios.md")
FAST = ("--progress", "none", "--backlog-interval", "50ms")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of six chunks of three documents each, the first of them full."""
    chunks = [
        chunk_of(
            tmp_path / "run",
            number,
            [f"{number}{letter}" for letter in "abc"],
            feedtype="full" if number == 1 else "incremental",
            action="ADD",
        )
        for number in range(1, 7)
    ]
    return finished(tmp_path / "run", chunks)


ALL = [f"{HOST}/{number}{letter}" for number in range(1, 7) for letter in "abc"]


def scenario(folder: Path, text: str) -> tuple[str, str]:
    path = folder / "scenario.yaml"
    path.write_text(text)
    return "--scenario", str(path)


def push(folder: Path, appliance: Served, *flags: str) -> tuple[int, str]:
    """Push; return the exit code and stderr."""
    ended = run("push", str(folder), "--to", appliance.url, *FAST, *flags)
    return ended.returncode, ended.stderr


def rejects(folder: Path) -> list[Any]:
    [path] = (folder / "rejects").iterdir()
    with path.open("rb") as stream:
        return list(fastavro.reader(stream))


def test_all_chunks_arrive_once_and_in_order(folder: Path, tmp_path: Path) -> None:
    with serving(tmp_path / "spool") as appliance:
        ended = push(folder, appliance)
        urls, feedtypes = appliance.urls(), appliance.feedtypes()

    assert ended == (0, "")
    assert urls == ALL
    assert feedtypes == ["full", *["incremental"] * 5]
    outcomes = {(line["state"], line["attempts"], line["reply"]) for line in manifest(folder)}
    assert outcomes == {("accepted", 1, "Success")}


@pytest.mark.parametrize(
    "misbehaviour",
    [
        pytest.param("- {endpoint: xmlfeed, every: 2, status: 500}", id="internal errors"),
        pytest.param("- {endpoint: xmlfeed, every: 2, reset: at-once}", id="torn at once"),
        pytest.param("- {endpoint: xmlfeed, every: 2, reset: in-body}", id="torn in the body"),
        pytest.param(
            "- {endpoint: xmlfeed, every: 2, reset: before-reply}", id="torn before the reply"
        ),
        pytest.param("- {endpoint: xmlfeed, requests: 1, disk_full: true}", id="a full disk"),
        pytest.param("- {endpoint: xmlfeed, requests: 1-2, status: 503, text: later}", id="busy"),
        pytest.param("- {backlog: [0, 4001, 4001, 1000, 999]}", id="a backlog that falls"),
        pytest.param(
            "- {endpoint: getbacklogcount, requests: 1, status: 401}", id="a hidden backlog"
        ),
    ],
)
def test_temporary_errors_do_not_end_a_push(
    folder: Path, tmp_path: Path, misbehaviour: str
) -> None:
    with serving(tmp_path / "spool", *scenario(tmp_path, misbehaviour)) as appliance:
        code, stderr = push(folder, appliance)
        urls = appliance.urls()

    assert (code, urls) == (0, ALL), stderr


def test_a_push_to_an_appliance_without_a_backlog_says_so_once(
    folder: Path, tmp_path: Path
) -> None:
    [text] = re.findall(r'title="no-backlog.yaml"\n(.*?)```', SCENARIOS, re.DOTALL)
    with serving(tmp_path / "spool", *scenario(tmp_path, text)) as appliance:
        ended = push(folder, appliance)
        urls = appliance.urls()

    assert ended == (
        0,
        "the appliance reports no backlog (404); the push continues without a limit; "
        "use --window to limit when it sends\n",
    )
    assert urls == ALL


def test_a_refused_record_is_alone_in_the_rejects_and_not_sent_again(
    folder: Path, tmp_path: Path
) -> None:
    flags = scenario(tmp_path, f"- refuse_urls: [{HOST}/3b]")
    with serving(tmp_path / "spool", *flags) as appliance:
        code, _ = push(folder, appliance)
        before = appliance.arrivals()
        again, _ = push(folder, appliance)
        after, urls = appliance.arrivals(), appliance.urls()

    [reject] = rejects(folder)
    assert (code, urls) == (1, [url for url in ALL if url != f"{HOST}/3b"])
    assert (again, after) == (1, before)
    assert (reject["code"], reject["stage"], reject["url"]) == ("refused", "push", f"{HOST}/3b")
    assert reject["source"] == "chunks/000003.xml"
    assert reject["data"].startswith(f'<record url="{HOST}/3b"'.encode())


def test_thunderstone_gets_its_items_and_then_one_update(tmp_path: Path) -> None:
    chunks = [items_of(tmp_path, 1, "abc"), items_of(tmp_path, 2, "d")]
    files = [tmp_path / chunk.path for chunk in chunks]
    kept = tmp_path / "kept"
    flags = scenario(tmp_path, f"- refuse_urls: [{HOST}/b]")
    with serving(tmp_path / "spool", *flags) as appliance:
        to = ("--to", f"{appliance.url}/texis/dowalk/recvdata.xml", "--profile", "intranet")
        ended = run("push", *map(str, files), "-o", str(kept), *to, *FAST)
        arrivals = appliance.arrivals()

    [reject] = rejects(kept)
    assert (ended.returncode, reject["url"], arrivals.total()) == (1, f"{HOST}/b", 3)


@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
)
def test_a_signal_ends_a_push_after_the_current_chunk(
    folder: Path, tmp_path: Path, number: int, expected: int
) -> None:
    flags = scenario(tmp_path, "- {endpoint: xmlfeed, requests: 2, delay: 2h}")
    with kept_port() as port:
        with serving(tmp_path / "spool", "--port", str(port), *flags) as appliance:
            process = start("push", str(folder), "--to", appliance.url, *FAST)
            wait_until(lambda: _taken(tmp_path / "spool") == 2)  # its response is delayed
            process.send_signal(number)
            first = _line(process)
        _, printed = process.communicate(timeout=BOUND_SECONDS)  # a delay ends with the appliance
        with serving(tmp_path / "spool", "--port", str(port)) as appliance:
            drained = appliance.arrivals().total()
            ended = push(folder, appliance)
            urls, total = appliance.urls(), appliance.arrivals().total()

    assert (process.returncode, drained) == (expected, 2)
    assert [first, *printed.splitlines()] == [
        "feedferry: Finishing the current chunk. Press Ctrl-C again to stop now.",
        "feedferry: stopped after the current chunk; push again to continue",
    ]
    assert (ended, urls, total) == ((0, ""), ALL, 6)


def test_a_second_signal_ends_a_push_at_once(folder: Path, tmp_path: Path) -> None:
    flags = scenario(tmp_path, "- {endpoint: xmlfeed, requests: 2, delay: 2h}")
    with serving(tmp_path / "spool", *flags) as appliance:
        process = start("push", str(folder), "--to", appliance.url, *FAST)
        wait_until(lambda: _taken(tmp_path / "spool") == 2)
        process.send_signal(signal.SIGINT)
        _line(process)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=BOUND_SECONDS)

    assert (process.returncode, stderr.strip().splitlines()) == (130, ["feedferry: interrupted"])


def _line(process: "subprocess.Popen[str]") -> str:
    """Wait for the next line of a process on stderr and return it."""
    assert process.stderr is not None
    return process.stderr.readline().rstrip("\n")


def _taken(spool: Path) -> int:
    journal = spool / JOURNAL
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def test_feed_files_are_pushed_and_kept(folder: Path, tmp_path: Path) -> None:
    files = [str(folder / "chunks" / f"{number:06d}.xml") for number in (2, 3)]
    with serving(tmp_path / "spool") as appliance:
        kept = str(tmp_path / "kept")
        ended = run("push", *files, "-o", kept, "--to", appliance.url, *FAST)
        again = run("push", kept, "--to", appliance.url, *FAST)
        urls, total = appliance.urls(), appliance.arrivals().total()

    assert (ended.returncode, again.returncode) == (0, 0), ended.stderr
    assert urls == [f"{HOST}/{number}{letter}" for number in (2, 3) for letter in "abc"]
    assert total == 2


@pytest.fixture
def rehearsal(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "spool") as appliance:
        yield appliance


@pytest.mark.parametrize(
    "flags",
    [(), ("--jobs", "2", "--runner", "apache_beam.runners.portability.fn_api_runner.FnApiRunner")],
    ids=["in this process", "on Beam"],
)
def test_a_conversion_can_be_pushed_in_one_go(
    tmp_path: Path, rehearsal: Served, flags: tuple[str, ...]
) -> None:
    output, sample = str(tmp_path / "out"), str(ROOT / "pipelines" / "sample")
    words = ("-o", output, "--to", "gsa-feed", "--push-to", rehearsal.url, *flags, *FAST)
    ended = run("convert", sample, *words)

    assert ended.returncode == 0, ended.stderr
    assert {line["state"] for line in manifest(output)} == {"accepted"}
    assert not (tmp_path / "out" / ".work").exists()
    assert len(rehearsal.documents()) == 48


def test_an_allowed_empty_full_feed_empties_its_datasource_only(
    tmp_path: Path, rehearsal: Served
) -> None:
    put(tmp_path / "1.xml", gsa_feed(*documents(1, 2), feedtype="full"))
    put(tmp_path / "2.xml", gsa_feed(*documents(3, 3), datasource="wiki"))
    put(tmp_path / "3.xml", gsa_feed(feedtype="full"))
    sources = [str(tmp_path / name) for name in ("1.xml", "2.xml", "3.xml")]
    words = ("-o", str(tmp_path / "out"), "--to", "gsa-feed", "--push-to", rehearsal.url, *FAST)

    refused = run("convert", *sources, *words)
    assert (refused.returncode, rehearsal.feedtypes()) == (3, [])
    ended = run("convert", *sources, *words, "--allow-empty-full")
    assert ended.returncode == 0, ended.stderr
    assert {line["state"] for line in manifest(tmp_path / "out")} == {"accepted"}
    assert sorted(rehearsal.feedtypes()) == ["full", "full", "incremental"]
    assert rehearsal.urls() == ["http://intranet.example.com/3.txt"]


def test_a_state_is_updated_after_the_push(tmp_path: Path, rehearsal: Served) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("a text")
    state = tmp_path / "docs.state"
    words = (
        *("convert", str(docs), "-o", str(tmp_path / "out"), "--to", "gsa-feed"),
        *("--datasource", "docs", "--base-url", f"{HOST}/", "--acl", "public"),
        *("--state", str(state)),
        *("--progress", "none", "--attempts", "1"),
    )
    failed = run(*words, "--push-to", "http://127.0.0.1:1")
    again = run(*words, "--push-to", rehearsal.url)
    nothing = run(*words[:2], "-o", str(tmp_path / "next"), *words[4:], "--push-to", rehearsal.url)

    assert (failed.returncode, again.returncode, nothing.returncode) == (4, 0, 0), again.stderr
    assert rehearsal.urls() == [f"{HOST}/a.txt"]
    assert manifest(tmp_path / "next") == []
