"""A push to a server that answers item by item, of another package: refusals, halving, a kill."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.transforms.storage.atomic import read_rejects
from support.bulk_server import BulkServer, install, known, serving
from support.runs import ROOT
from support.served import BOUND_SECONDS, COMMAND, wait_until

pytestmark = pytest.mark.slow

URL = "http://intranet.example.com/{:04d}"
RECORD = '<record url="{}" mimetype="text/plain"><content>Ships of {}.</content></record>'
HEADER = "<datasource>harbour</datasource><feedtype>incremental</feedtype>"


@pytest.fixture
def server(here: Path) -> Iterator[BulkServer]:
    with known(), serving() as server:
        yield server


def convert(count: int, *flags: str) -> list[str]:
    """Convert a feed into `out`; return its URLs."""
    urls = [URL.format(number) for number in range(count)]
    group = "".join(RECORD.format(url, url) for url in urls)
    feed = f"<gsafeed><header>{HEADER}</header><group>{group}</group></gsafeed>"
    Path("feed.xml").write_text(feed)
    assert main(["convert", "feed.xml", "-o", "out", "--to", "bulk", *flags]) == 0
    return urls


def push(server: BulkServer) -> int:
    return main(["push", "out", "--to", server.url, "--progress", "none"])


def test_a_refused_item_is_a_reject_with_its_own_lines(server: BulkServer) -> None:
    urls = convert(1000)
    server.answer = lambda urls: [400 if url == URL.format(700) else 200 for url in urls]
    assert push(server) == 1
    assert server.requests == [urls]
    assert len(server.documents) == 999
    (path,) = Path("out/rejects").glob("push-*.avro")
    (reject,) = read_rejects(path)
    assert reject.url == URL.format(700)
    assert reject.message == (
        "chunks/000001.ndjson:1401 (byte 226800): the appliance responded '400 no'; expected it to"
        " take the record"
    )
    action, document = reject.data.splitlines()
    assert json.loads(action) == {"index": {"_id": URL.format(700)}}
    assert json.loads(document)["text"] == f"Ships of {URL.format(700)}."


def test_an_item_that_is_to_be_sent_later_is_sent_again_with_its_chunk(server: BulkServer) -> None:
    urls = convert(20)
    busy = [429]
    server.answer = lambda urls: [200] * 19 + ([busy.pop()] if busy else [200])
    assert push(server) == 0
    assert server.requests == [urls, urls]
    assert sorted(server.documents) == urls


def test_a_request_that_is_too_large_is_halved_between_two_records(server: BulkServer) -> None:
    urls = convert(20)
    server.answer = lambda urls: 413 if len(urls) > 5 else [200] * len(urls)
    assert push(server) == 0
    assert [len(sent) for sent in server.requests] == [20, 10, 5, 5, 10, 5, 5]
    assert [url for sent in server.requests if len(sent) == 5 for url in sent] == urls
    assert sorted(server.documents) == urls


def test_a_push_that_was_killed_continues_with_the_chunk_that_has_no_answer(
    server: BulkServer, here: Path
) -> None:
    urls = convert(20, "--max-chunk-records", "4")
    goes_on = threading.Event()

    def answer(sent: list[str]) -> list[int]:
        if len(server.requests) == 3:
            goes_on.wait(BOUND_SECONDS)
        return [200] * len(sent)

    server.answer = answer
    site = install(here / "site")
    process = subprocess.Popen(
        [*COMMAND, "push", "out", "--to", server.url, "--progress", "none"],
        env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"},
        stderr=subprocess.PIPE,
    )
    wait_until(lambda: process.poll() is not None or len(server.requests) == 3)
    process.send_signal(signal.SIGKILL)
    _, stderr = process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == -signal.SIGKILL, stderr
    goes_on.set()

    assert push(server) == 0
    assert server.requests == [urls[:4], urls[4:8], urls[8:12], urls[8:12], urls[12:16], urls[16:]]
    assert sorted(server.documents) == urls
