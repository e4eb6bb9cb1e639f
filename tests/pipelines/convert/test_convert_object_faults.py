"""Faults of object storage: requests refused, answers lost, parts cut half way."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import feedferry
from schemas.account import Account
from schemas.errors import FatalError
from schemas.span import Span
from support import remotes
from support.archives import document, gsa_feed
from support.object_faults import FaultyProxy, Request, faulty_proxy, times
from transforms.storage.attempts import Attempt
from transforms.storage.find_storage import storage_of
from transforms.storage.objects import ObjectStorage, listed_once

pytestmark = pytest.mark.slow

URI = f"s3://{remotes.BUCKET}/run"


@pytest.fixture
def proxy() -> Iterator[FaultyProxy]:
    with remotes.s3_server(), faulty_proxy(os.environ["AWS_ENDPOINT_URL"]) as faulty:
        yield faulty


@pytest.fixture
def feed(tmp_path: Path) -> str:
    path = tmp_path / "feed.xml"
    path.write_bytes(gsa_feed(*(document(number, text="x" * 999) for number in range(100))))
    return str(path)


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


@pytest.mark.parametrize("action", ["slow", "lose", "cut"])
@pytest.mark.parametrize("matches", [_is_account, _is_chunk, _is_lease, _is_report])
def test_a_fault_that_passes_changes_nothing(
    proxy: FaultyProxy,
    feed: str,
    tmp_path: Path,
    action: str,
    matches: Callable[[Request], bool],
) -> None:
    proxy.fault = times(2, action, matches)
    _convert(feed, URI)
    _convert(feed, str(tmp_path / "out"))

    assert proxy.made == 2
    assert _chunks(URI) == _chunks(str(tmp_path / "out"))
    used = {name for name in storage_of(URI).sizes(".work") if name.endswith(".xml")}
    assert len(used) == len(_chunks(URI))


def test_a_fault_that_stays_ends_the_run_which_is_resumed(
    proxy: FaultyProxy, feed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    _convert(feed, str(tmp_path / "out"))

    assert _chunks(URI) == _chunks(str(tmp_path / "out"))


@pytest.mark.parametrize("delay", [0, 1, 2, 5, 10, 20, 50])
def test_of_two_attempts_on_a_span_one_counts(proxy: FaultyProxy, delay: int) -> None:
    """The loser removes its files, and returns the account of the winner."""
    listed_once.cache_clear()
    span = Span(source="a.xml", format="gsa-feed")
    storage = ObjectStorage.of(URI)
    begin, accounts = threading.Event(), []

    def convert(milliseconds: int) -> None:
        with Attempt(storage, span) as attempt:
            attempt.storage.put("a.xml", os.urandom(8))
            begin.wait()
            threading.Event().wait(milliseconds / 1000)
            accounts.append(attempt.commit(Account(spans=1, bytes_read=id(attempt))))

    threads = [threading.Thread(target=convert, args=(wait,)) for wait in (0, delay)]
    for thread in threads:
        thread.start()
    begin.set()
    for thread in threads:
        thread.join()

    first, second = (msgspec.json.encode(account) for account in accounts)
    assert first == second
    assert len([name for name in storage.sizes() if name.endswith("a.xml")]) == 1
