"""Runs that are killed at any operation: a search finds the old documents or the new ones.

50 kills for each server and kind of feed take 10 minutes each on a busy machine::

    FEEDFERRY_STORM=full pytest -n0 -m "" tests/search/test_kills.py -k "opensearch and 2.19"
"""

import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.forks import forks
from support.runs import chosen
from support.search_servers import SearchServer

pytestmark = pytest.mark.slow

KILLS = chosen(usual=1, full=50)
DOCUMENTS = 12
SEED = 36
HOST = "http://docs.example.com/"
JOB = """\
version: 1
job: nights
source: {type: gsa-feed, path: [feed.xml]}
target: {type: opensearch, url: "URL/intranet"}
"""
SMALL = ("--set", "source.span_bytes=400B", "--set", "chunk.max_records=3", "--set", "keep.runs=2")


def write_feed(folder: Path, feedtype: str, version: int, names: list[str]) -> None:
    records = "".join(
        f'<record url="{HOST}{name}" mimetype="text/plain">'
        f"<content>version {version}</content></record>\n"
        for name in names
    )
    (folder / "feed.xml").write_text(
        f"<gsafeed><header><datasource>docs</datasource><feedtype>{feedtype}</feedtype></header>"
        f"<group>\n{records}</group></gsafeed>\n"
    )


def found(server: SearchServer) -> dict[str, int]:
    """The version of each document that a search finds, by name."""
    body = {"size": 1000}
    path = "/intranet/_search?ignore_unavailable=true"
    hits = server.call("POST", path, body)["hits"]["hits"]
    versions = {}
    for hit in hits:
        text = str(hit["_source"].get("body") or hit["_source"])
        match = re.search(r"version (\d+)", text)
        assert match is not None, text
        versions[hit["_id"].removeprefix(HOST)] = int(match[1])
    return versions


@contextmanager
def watched(server: SearchServer) -> Iterator[list[dict[str, int]]]:
    """Search all the time, in a thread; yield the different results."""
    results: list[dict[str, int]] = []
    is_over = threading.Event()

    def search() -> None:
        while not is_over.is_set():
            result = found(server)
            if not results or results[-1] != result:
                results.append(result)

    thread = threading.Thread(target=search)
    thread.start()
    try:
        yield results
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize("feedtype", ["full", "incremental"])
def test_after_any_kills_the_index_has_what_the_feeds_have(
    server: SearchServer, tmp_path: Path, feedtype: str
) -> None:
    choice = random.Random(SEED)
    names = [f"{number}.txt" for number in range(DOCUMENTS)]
    (tmp_path / "job.yaml").write_text(JOB.replace("URL", server.url))
    words = ("run", "job.yaml", "--progress", "none", *SMALL)
    with forks(tmp_path) as runs:
        write_feed(tmp_path, feedtype, 0, names)
        first = runs.run(*words)
        assert first.returncode == 0, first.output
        state = dict.fromkeys(names, 0)
        assert found(server) == state
        kills = version = 0
        while kills < KILLS:
            version += 1
            sent = choice.sample(names, choice.randrange(4, DOCUMENTS + 1))
            write_feed(tmp_path, feedtype, version, sent)
            next_state = dict.fromkeys(sent, version)
            if feedtype == "incremental":
                next_state = state | next_state
            with watched(server) as results:
                run = runs.run(*words, last=choice.randrange(1, first.operations))
                assert run.returncode in (0, -9), run.output
                kills += run.returncode == -9
                run = runs.run(*words)  # the unfinished run
                assert run.returncode == 0, run.output
                run = runs.run(*words)  # a run of what has changed since
                assert run.returncode == 0, run.output
            assert found(server) == next_state
            if feedtype == "full":
                assert all(result in (state, next_state) for result in results)
            state = next_state
