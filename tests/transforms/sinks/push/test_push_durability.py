"""A receipt is on the disk before the request that it is of is sent, and before what follows."""

from pathlib import Path

import pytest

from schemas.errors import FatalError
from support.disks import RecordingDisk
from support.wires import GSA, SUCCESS, FakeClient, Sent, chunk_of, wired
from transforms.retry import RetryPolicy
from transforms.sinks.push.model import ApplianceResponse
from transforms.sinks.push.outcome import PushAccount
from transforms.sinks.push.progress import PushProgress
from transforms.sinks.push.pusher import Pusher, PushPaths
from transforms.sinks.push.settings import PushSettings
from transforms.sinks.push.throttle.gate import StopSignal

FOLDER = "push/gsa"
JOURNAL = f"{FOLDER}/receipts-001.jsonl"
BEGIN = [
    f"sync {JOURNAL}",
    f"write {JOURNAL}",
    f"sync {JOURNAL}",
    f"sync folder {FOLDER}",
    "sync folder push",
]
LINE = [f"write {JOURNAL}", f"sync {JOURNAL}"]
CHUNK = [*LINE, "send", *LINE]
ALL = [*BEGIN, *CHUNK, *CHUNK, *LINE]


@pytest.fixture
def disk(tmp_path: Path) -> RecordingDisk:
    return RecordingDisk(tmp_path)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch, disk: RecordingDisk) -> FakeClient:
    def answer(_sent: Sent) -> ApplianceResponse:
        disk.done.append("send")
        return SUCCESS

    return wired(monkeypatch, answer)


def push(root: Path, disk: RecordingDisk) -> PushAccount:
    chunks = [chunk_of(root, number, "abc", feedtype="incremental") for number in (1, 2)]
    settings = PushSettings(appliance=GSA, retry=RetryPolicy(max_attempts=1))
    with Pusher(settings, stop=StopSignal(), progress=PushProgress(print), disk=disk) as pusher:
        return pusher.push(chunks, PushPaths(root=root, folder=root / FOLDER))


def test_a_receipt_is_on_the_disk_before_its_request_and_before_the_next(
    tmp_path: Path, disk: RecordingDisk, wire: FakeClient
) -> None:
    push(tmp_path, disk)
    assert disk.done == ALL


@pytest.mark.parametrize("operation", range(1, len(BEGIN) + len(LINE) + 1))
def test_nothing_is_sent_while_the_first_receipt_is_not_on_the_disk(
    tmp_path: Path, disk: RecordingDisk, wire: FakeClient, operation: int
) -> None:
    disk.fail_at(operation)
    try:
        pushed = push(tmp_path, disk)
    except FatalError:
        pushed = None
    assert pushed is None or pushed.stopped is not None
    assert wire.sent == []


@pytest.mark.parametrize("operation", [8, 9, 10, 11])
def test_nothing_follows_while_a_receipt_is_not_on_the_disk(
    tmp_path: Path, disk: RecordingDisk, wire: FakeClient, operation: int
) -> None:
    disk.fail_at(operation)
    assert push(tmp_path, disk).stopped is not None
    assert len(wire.sent) == 1
