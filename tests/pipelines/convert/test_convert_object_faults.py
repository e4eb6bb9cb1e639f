"""Faults of object storage: requests refused, answers lost, parts cut half way."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import feedferry
from feedferry.pipelines.cli.main import main
from feedferry.pipelines.folders.remote_folder import RUN_LEASE
from feedferry.schemas.errors import FatalError
from feedferry.transforms.storage.run_folders.find_storage import storage_of
from support import remotes
from support.archives import BROKEN, document, gsa_feed
from support.object_faults import Fault, FaultyProxy, Request, faulty_proxy, times
from support.runs import ROOT, chosen

pytestmark = pytest.mark.slow

URI = f"s3://{remotes.BUCKET}/run"


@pytest.fixture
def proxy(s3: None) -> Iterator[FaultyProxy]:
    with faulty_proxy(os.environ["AWS_ENDPOINT_URL"]) as faulty:
        yield faulty


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("feed") / "feed.xml"
    path.write_bytes(gsa_feed(*(document(number, text="x" * 999) for number in range(100))))
    return str(path)


@pytest.fixture(scope="module")
def local_chunks(feed: str) -> list[bytes | None]:
    """The chunks of a run in a folder."""
    folder = f"{feed}.out"
    _convert(feed, folder)
    return _chunks(folder)


def _convert(feed: str, output: str) -> None:
    feedferry.convert(feed, output, to_format="gsa-feed", span_bytes="32KiB")


def _chunks(root: str) -> list[bytes | None]:
    storage = storage_of(root)
    lines = (storage.get("manifest.jsonl") or b"").splitlines()
    return [storage.get(json.loads(line)["path"]) for line in lines]


def _is_account(request: Request) -> bool:
    return request.command == "PUT" and ".0.json" in request.path


def _is_chunk(request: Request) -> bool:
    return request.command == "PUT" and ".xml" in request.path


def _is_lease(request: Request) -> bool:
    return request.command == "PUT" and request.path.endswith("lease.json")


def _is_report(request: Request) -> bool:
    return request.command == "PUT" and request.path.endswith("report.json")


def _is_deletion(request: Request) -> bool:
    return request.command == "POST" and "?delete" in request.path


@pytest.mark.parametrize("action", ["slow", "lose", "cut"])
@pytest.mark.parametrize("matches", [_is_account, _is_chunk, _is_lease, _is_report])
def test_a_fault_that_passes_changes_nothing(
    proxy: FaultyProxy,
    feed: str,
    local_chunks: list[bytes | None],
    action: str,
    matches: Callable[[Request], bool],
) -> None:
    proxy.fault = times(2, action, matches)
    _convert(feed, URI)

    assert proxy.made == 2
    assert _chunks(URI) == local_chunks
    used = {name for name in storage_of(URI).sizes(".work") if name.endswith(".xml")}
    assert len(used) == len(_chunks(URI))


@pytest.mark.parametrize("action", ["reset", "reset-after"])
@pytest.mark.parametrize("matches", [_is_account, _is_lease, _is_report, _is_deletion])
def test_a_request_whose_connection_is_reset_is_tried_again(
    proxy: FaultyProxy, feed: str, action: str, matches: Callable[[Request], bool]
) -> None:
    proxy.fault = times(1, action, matches)
    _convert(feed, URI)
    assert proxy.made == 1
    assert len(_chunks(URI)) > 1


def test_a_fault_that_stays_ends_the_run_which_is_resumed(
    proxy: FaultyProxy, feed: str, local_chunks: list[bytes | None]
) -> None:
    """Credentials that expire: all requests are refused from some moment."""
    seen = []

    def expire(request: Request) -> str:
        seen.append(request.path)
        return "cut" if _is_chunk(request) and len(seen) > 12 else "pass"

    proxy.fault = expire
    with pytest.raises(FatalError, match=r"s3://documents/run/\.work/.*expected to read and write"):
        _convert(feed, URI)
    assert storage_of(URI).get("report.json") is None
    proxy.fault = lambda request: "pass"
    _convert(feed, URI)

    assert _chunks(URI) == local_chunks


def _after_end() -> Fault:
    """Refuse all requests after the record of the end of a run."""
    records: list[str] = []

    def decide(request: Request) -> str:
        if len(records) == 2:
            return "reset"
        records.extend(["end"] * request.path.endswith("/run.json"))
        return "pass"

    return decide


@pytest.mark.parametrize("records", [[], [BROKEN]], ids=["0", "1"])
def test_a_fault_after_the_end_of_a_run_does_not_change_its_exit_code(
    proxy: FaultyProxy, tmp_path: Path, capsys: pytest.CaptureFixture[str], records: list[str]
) -> None:
    feed = tmp_path / "feed.xml"
    feed.write_bytes(gsa_feed(document(1), *records))
    command = ["convert", str(feed), "-o", URI, "--to", "gsa-feed", "--progress", "none"]
    proxy.fault = _after_end()
    assert main(command) == len(records)
    assert f"the run is complete: feedferry runs clean {URI}" in capsys.readouterr().err
    proxy.fault = lambda request: "pass"
    storage_of(URI).remove(RUN_LEASE)  # it would expire

    assert [main(command), main(command)] == [len(records)] * 2
    assert f"{URI}: complete, nothing is left to do" in capsys.readouterr().err
    assert set(storage_of(URI).sizes(".work")) == {
        json.loads(line)["path"]
        for line in (storage_of(URI).get("manifest.jsonl") or b"").splitlines()
    }


_RACER = """
import sys, time
from feedferry.schemas.account import Account
from feedferry.schemas.span import Span
from feedferry.transforms.storage.run_folders.attempts import Attempt
from feedferry.transforms.storage.objects.object_storage import ObjectStorage

storage, number = ObjectStorage.of(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
begin = float(sys.stdin.readline())
for ordinal, seconds in enumerate(map(float, sys.argv[3:])):
    with Attempt(storage, Span(source="a.xml", format="gsa-feed", ordinal=ordinal)) as attempt:
        attempt.storage.put("a.xml", bytes([number]))
        time.sleep(max(0.0, begin + seconds - time.time()))
        account = attempt.commit(Account(spans=1, bytes_read=number))
    print(account.bytes_read)
"""
_EVERY_DELAY = [step / 20 for step in range(21)]
_SPACE_SECONDS = 1.3


def test_of_two_processes_on_a_span_one_counts(s3: None) -> None:
    """One commits up to a second after the other. The loser removes its files, and both agree."""
    delays = chosen(usual=[0.0, 0.002, 0.01, 0.05, 0.5, 1.0], full=_EVERY_DELAY)
    earlier = [ordinal * _SPACE_SECONDS for ordinal in range(len(delays))]
    later = [begin + delay for begin, delay in zip(earlier, delays, strict=True)]
    racers = [_racer(1, earlier), _racer(2, later)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    begin = f"{time.time() + 1}\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(begin)
        racer.stdin.flush()
    first, second = (racer.communicate(timeout=120)[0].split() for racer in racers)
    assert [racer.returncode for racer in racers] == [0, 0]
    storage = storage_of(URI)
    winners = [storage.get(name) for name in sorted(storage.sizes()) if "/" in name]

    assert first == second
    assert winners == [bytes([int(number)]) for number in first]
    assert len(winners) == len(delays)


def _racer(number: int, times: Sequence[float]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", _RACER, URI, str(number), *map(str, times)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
