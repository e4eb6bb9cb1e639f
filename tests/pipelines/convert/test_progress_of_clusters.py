"""Workers on other hosts show their progress by objects; two Dask workers write to SeaweedFS."""

import json
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from feedferry.transforms.conversion.span_progress import STORED_SECONDS
from feedferry.transforms.storage.run_folders.find_storage import storage_of
from support import remotes
from support.archives import documents, gsa_feed, put
from support.dask_cluster import FEEDFERRY, WAIT_SECONDS, DaskCluster, environment
from support.object_faults import FaultyProxy, Request, faulty_proxy
from support.ports import kept_port

URI = f"s3://{remotes.BUCKET}/run"
FILES = 24
RECORDS = 40
UPLOAD_SECONDS = 3.0

pytestmark = pytest.mark.slow


@pytest.fixture
def proxy(s3: None) -> Iterator[FaultyProxy]:
    with faulty_proxy(environment()["AWS_ENDPOINT_URL"]) as proxy:
        yield proxy


class Requests:
    """Notes when requests about progress are made, by their kind and object; slows uploads."""

    def __init__(self) -> None:
        self.times: dict[tuple[str, str], list[float]] = defaultdict(list)

    def note(self, request: Request) -> str:
        path = unquote(request.path)
        if "/progress" in path:
            is_list = request.command == "GET" and "prefix=" in path
            name = "" if is_list else path.rpartition("/")[2]
            self.times["LIST" if is_list else request.command, name].append(time.monotonic())
        elif request.command == "PUT" and path.partition("?")[0].endswith(".xml"):
            time.sleep(UPLOAD_SECONDS)
        return "pass"

    def of(self, kind: str) -> list[list[float]]:
        return [times for (method, _), times in self.times.items() if method == kind]


def _feeds(folder: Path) -> None:
    for number in range(FILES):
        begin = number * RECORDS
        feed = gsa_feed(*documents(begin, begin + RECORDS - 1, text="plan " * 100))
        put(folder / f"{number:02d}.xml", feed)


def _points(text: bytes) -> list[int]:
    """The records of the points of the conversion in a timeline."""
    points = [json.loads(line) for line in text.splitlines()]
    return [point["records"] for point in points if point["phase"] == "convert"]


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_progress_of_two_workers_is_shown_and_costs_few_requests(
    proxy: FaultyProxy, tmp_path: Path, *, is_killed: bool
) -> None:
    requests = Requests()
    proxy.fault = requests.note
    _feeds(tmp_path / "feeds")
    begin = time.monotonic()
    with kept_port() as port:
        cluster = DaskCluster(port, tmp_path / "dask.log")
        words = ("convert", str(tmp_path / "feeds"), "-o", URI, "--to", "gsa-feed", "--stall", "1m")
        command = [*FEEDFERRY, *words, "--runner", "DaskRunner", "--cluster", cluster.url, "-q"]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE)
        try:
            while is_killed and len(requests.of("PUT")) < 2 and process.poll() is None:
                assert time.monotonic() - begin < WAIT_SECONDS
                time.sleep(0.1)
            if is_killed:
                cluster.workers[0].kill()
            _, errors = process.communicate(timeout=WAIT_SECONDS)
        finally:
            process.kill()
            process.wait()
            cluster.end()
    seconds = time.monotonic() - begin

    assert process.returncode == 0, errors
    storage = storage_of(URI)
    records = _points(storage.get("timeline.jsonl") or b"")
    assert sorted(records) == records
    assert records[-1] == FILES * RECORDS
    assert len(set(records)) > 3, records  # it moves before the end
    assert not [name for name in storage.sizes() if "progress" in name]
    puts, lists, gets = requests.of("PUT"), requests.of("LIST"), requests.of("GET")
    assert len(puts) == 2  # an object for each worker
    for times in (*puts, *lists):
        assert len(times) > 2 or is_killed
        assert len(times) <= 1 + seconds / STORED_SECONDS  # a busy machine delays any of them
    assert sum(map(len, gets)) <= 2 * sum(map(len, lists))
