"""A worker of a Dask cluster pushes a run in object storage; if it is killed, another goes on."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import feedferry
from feedferry.transforms.storage.run_folders.find_storage import storage_of
from support import remotes
from support.archives import documents, gsa_feed
from support.dask_cluster import FEEDFERRY, WAIT_SECONDS, DaskCluster, environment
from support.ports import kept_port
from support.served import Served, serving, wait_until

URI = f"s3://{remotes.BUCKET}/run"
TO = ("--to", "gsa-feed", "--max-chunk-records", "2")
RECEIPTS = 20
HELD = f"- {{endpoint: xmlfeed, requests: {RECEIPTS + 2}, delay: 20s}}\n"
"""The push is in its middle for so long."""

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("s3")]


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Served]:
    """An appliance that keeps the push waiting for the reply to one chunk."""
    (tmp_path / "held.yaml").write_text(HELD)
    with serving(tmp_path / "spool", "--scenario", str(tmp_path / "held.yaml")) as served:
        yield served


@pytest.fixture
def expected(tmp_path: Path) -> Iterator[Served]:
    """An appliance after a push by the command."""
    feed = gsa_feed(*documents(0, 199, text="plan " * 50), feedtype="full")
    (tmp_path / "feed.xml").write_bytes(feed)
    with serving(tmp_path / "expected") as served:
        words = {"to_format": "gsa-feed", "max_chunk_records": "2", "push_to": served.url}
        feedferry.convert(str(tmp_path / "feed.xml"), str(tmp_path / "out"), **words)  # type: ignore[arg-type]
        yield served


def _objects(ending: str) -> list[str]:
    return [name for name in storage_of(URI).sizes("push") if ending in name]


def _pushed_on_dask(
    folder: Path, url: str, act: Callable[[subprocess.Popen[bytes], int], None]
) -> tuple[int, bytes]:
    """Convert and push on a cluster; call `act` in the middle of the push with its worker."""
    with kept_port() as port:
        cluster = DaskCluster(port, folder / "dask.log")
        runner = ("--runner", "DaskRunner", "--cluster", cluster.url, "--push-to", url, "-q")
        command = [*FEEDFERRY, "convert", str(folder / "feed.xml"), "-o", URI, *TO, *runner]
        process = subprocess.Popen(command, cwd=folder, env=environment(), stderr=subprocess.PIPE)
        try:
            wait_until(lambda: process.poll() is not None or len(_objects(".jsonl/")) >= RECEIPTS)
            (lease,) = _objects("lease.json")
            holder = json.loads(storage_of(URI).get(lease) or b"")["pid"]
            assert holder in {worker.pid for worker in cluster.workers}
            act(process, holder)
            _, errors = process.communicate(timeout=2 * WAIT_SECONDS)
            wait_until(lambda: not _objects("lease.json"))  # the worker may go on
        finally:
            process.kill()
            process.wait()
            cluster.end()
    return process.returncode, errors


def _documents(appliance: Served) -> list[dict[str, object]]:
    """The documents without the number of the delivery that has brought each."""
    return [{**document, "feed": 0} for document in appliance.documents()]


def _check(appliance: Served, expected: Served) -> None:
    """All feeds are there in their order; only what had no response may be there twice."""
    arrivals = appliance.arrivals()
    assert arrivals.keys() == expected.arrivals().keys()
    assert sum(arrivals.values()) <= len(arrivals) + 1
    assert _documents(appliance) == _documents(expected)
    assert appliance.feedtypes().count("full") == 1


def test_a_killed_worker_is_replaced_when_its_lease_has_expired(
    appliance: Served, expected: Served, tmp_path: Path
) -> None:
    code, errors = _pushed_on_dask(
        tmp_path, appliance.url, lambda _, pid: os.kill(pid, signal.SIGKILL)
    )

    assert code == 0, errors
    _check(appliance, expected)
    assert _objects("lease.json") == []


def test_a_signal_ends_the_push_of_the_worker_and_the_next_push_goes_on(
    appliance: Served, expected: Served, tmp_path: Path
) -> None:
    code, errors = _pushed_on_dask(
        tmp_path, appliance.url, lambda command, _: command.send_signal(signal.SIGTERM)
    )
    assert code == 143, errors
    assert _objects("lease.json") == []
    receipts = len(_objects(".jsonl/"))
    assert _objects("cancelled") == []
    (result,) = feedferry.push(URI, appliance.url)

    assert receipts < len(_objects(".jsonl/"))
    assert result.exit_code == 0
    _check(appliance, expected)
