"""A receipt is on the disk before its request is sent, and before the push continues."""

from pathlib import Path

import pytest

from schemas.errors import FatalError
from support.disks import RecordingDisk
from support.fake_appliance import GSA, SUCCESS, FakeClient, Sent, chunk_of
from transforms.retry import RetryPolicy
from transforms.sinks.push.model import ApplianceResponse
from transforms.sinks.push.outcome import PushAccount, PushProgress
from transforms.sinks.push.pusher import Pusher
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
ALL = [*BEGIN, *CHUNK, *CHUNK]


@pytest.fixture
def disk(tmp_path: Path) -> RecordingDisk:
    return RecordingDisk(tmp_path)


@pytest.fixture
def client(disk: RecordingDisk) -> FakeClient:
    def answer(_sent: Sent) -> ApplianceResponse:
        disk.done.append("send")
        return SUCCESS

    return FakeClient(answer)


def push(root: Path, disk: RecordingDisk, client: FakeClient) -> PushAccount:
    chunks = [chunk_of(root, number, "abc", feedtype="incremental") for number in (1, 2)]
    settings = PushSettings(appliance=GSA, retry=RetryPolicy(max_attempts=1))
    progress = PushProgress(print)
    with Pusher(settings, stop=StopSignal(), progress=progress, client=client, disk=disk) as pusher:
        return pusher.push(chunks, root=root, folder=root / FOLDER)


def test_a_receipt_is_on_the_disk_before_its_request_and_before_the_next(
    tmp_path: Path, disk: RecordingDisk, client: FakeClient
) -> None:
    push(tmp_path, disk, client)
    assert disk.done == ALL


@pytest.mark.parametrize("operation", range(1, len(BEGIN) + len(LINE) + 1))
def test_nothing_is_sent_while_the_first_receipt_is_not_on_the_disk(
    tmp_path: Path, disk: RecordingDisk, client: FakeClient, operation: int
) -> None:
    disk.fail_at(operation)
    try:
        pushed = push(tmp_path, disk, client)
    except FatalError:
        pushed = None
    assert pushed is None or pushed.stopped is not None
    assert client.sent == []


@pytest.mark.parametrize("operation", [8, 9, 10, 11])
def test_no_request_follows_while_a_receipt_is_not_on_the_disk(
    tmp_path: Path, disk: RecordingDisk, client: FakeClient, operation: int
) -> None:
    disk.fail_at(operation)
    assert push(tmp_path, disk, client).stopped is not None
    assert len(client.sent) == 1
