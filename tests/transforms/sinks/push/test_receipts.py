"""The journal of a push: what it remembers, what a crash leaves of it, and who may have it."""

import errno
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.account import Chunk
from schemas.errors import BusyError, ConfigError, FatalError, FeedferryError
from schemas.receipt import AttemptState, Receipt, Refusal
from support.runs import ROOT
from transforms.sinks.push.receipts import Receipts, read_receipts
from transforms.storage import journal as durable

TARGET = "http://gsa.example.com:19900"
SHA = "ab" * 32
HEAD = b'{"version":1,"target":"http://gsa.example.com:19900","run":"run-1"}\n'
CHUNK = Chunk(
    ordinal=7,
    path="chunks/000007.xml",
    bytes=1,
    sha256=SHA,
    records={},
    first_url="",
    last_url="",
    source="",
    span=0,
)
SENDING = Receipt(chunk=7, sha256=SHA, state=AttemptState.SENDING, at="2026-11-21T20:00:00Z")
ACCEPTED = Receipt(
    chunk=7,
    sha256=SHA,
    state=AttemptState.ACCEPTED,
    feedtype="full",
    bytes=12,
    status=200,
    reply="Success\n\x00é",
    seconds=0.25,
    at="2026-11-21T20:00:01Z",
    refused=(Refusal(3, "no"),),
)
FAILED = Receipt(chunk=7, sha256=SHA, state=AttemptState.FAILED, attempt=2)

HOLD = """
import sys
from pathlib import Path
from transforms.sinks.push.receipts import Receipts

with Receipts(Path(sys.argv[1]), target="http://gsa.example.com:19900", run="run-1"):
    print("held", flush=True)
    sys.stdin.read()
"""
"""A push that has the lock, until it is told to end."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "push" / "gsa"


def opened(folder: Path, *, run: str = "run-1", replay: bool = False) -> Receipts:
    return Receipts(folder, target=TARGET, run=run, replay=replay)


def pushed(folder: Path, *receipts: Receipt, replay: bool = False) -> None:
    """Add receipts to a journal, and do not finish it."""
    with opened(folder, replay=replay) as journal:
        add(journal, *receipts)


def finished(folder: Path, *receipts: Receipt, replay: bool = False) -> None:
    with opened(folder, replay=replay) as journal:
        add(journal, *receipts)
        journal.finish("2026-11-21T21:00:00Z")


def add(journal: Receipts, *receipts: Receipt) -> None:
    for receipt in receipts:
        journal.add(receipt)


def file_of(folder: Path, generation: int = 1) -> Path:
    return folder / f"receipts-{generation:03d}.jsonl"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def state(folder: Path, first: int = 0, count: int = 0) -> AttemptState | None:
    with opened(folder) as journal:
        return journal.known(CHUNK, first, count)


def attempts(folder: Path, first: int = 0, count: int = 0) -> int:
    with opened(folder) as journal:
        return journal.attempts(CHUNK, first, count)


def refusal(journal: Receipts, kind: type[FeedferryError]) -> str:
    with pytest.raises(kind) as caught, journal:
        pass
    return str(caught.value)


def child(folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_until_held(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"


# What is remembered


def test_nothing_is_known_of_what_was_not_sent(folder: Path) -> None:
    assert state(folder) is None


def test_the_last_receipt_counts(folder: Path) -> None:
    pushed(folder, SENDING, ACCEPTED)
    assert state(folder) is AttemptState.ACCEPTED


def test_the_last_receipt_counts_before_the_journal_is_closed(folder: Path) -> None:
    with opened(folder) as journal:
        add(journal, SENDING)
        assert journal.known(CHUNK, 0, 0) is AttemptState.SENDING


def test_a_part_of_a_chunk_is_known_by_its_records(folder: Path) -> None:
    half = Receipt(chunk=7, sha256=SHA, state=AttemptState.REFUSED, first=4, count=5)
    pushed(folder, SENDING, half)
    assert [state(folder, 4, 5), state(folder, 4, 4), state(folder)] == [
        AttemptState.REFUSED,
        None,
        AttemptState.SENDING,
    ]


def test_another_chunk_is_not_known(folder: Path) -> None:
    pushed(folder, Receipt(chunk=8, sha256=SHA, state=AttemptState.ACCEPTED))
    assert state(folder) is None


def test_attempts_are_counted(folder: Path) -> None:
    pushed(folder, SENDING, FAILED, ACCEPTED)
    assert attempts(folder) == 2


def test_what_was_not_sent_has_no_attempts(folder: Path) -> None:
    assert attempts(folder) == 0


def test_a_receipt_is_in_the_file_when_it_was_added(folder: Path) -> None:
    with opened(folder) as journal:
        add(journal, ACCEPTED)
        assert read_receipts(folder) == [ACCEPTED]


def test_a_chunk_that_has_changed_is_refused(folder: Path) -> None:
    pushed(
        folder, Receipt(chunk=7, sha256="cd" * 32, state=AttemptState.ACCEPTED, first=1, count=1)
    )
    with pytest.raises(ConfigError) as caught:
        state(folder)
    assert str(caught.value) == (
        f"chunks/000007.xml: sha256 {SHA}; expected {'cd' * 32}, which the push began with: bring "
        f"that file back, or remove {folder} and push all of it again"
    )


def test_receipts_of_many_threads_are_all_kept(folder: Path) -> None:
    receipts = [
        Receipt(chunk=number, sha256=SHA, state=AttemptState.ACCEPTED, reply="x" * 500)
        for number in range(40)
    ]
    with opened(folder) as journal, ThreadPoolExecutor(8) as threads:
        list(threads.map(journal.add, receipts))
    assert sorted(read_receipts(folder), key=lambda receipt: receipt.chunk) == receipts


def test_a_receipt_is_one_line(folder: Path) -> None:
    pushed(folder, SENDING)
    assert file_of(folder).read_bytes() == HEAD + (
        b'{"chunk":7,"sha256":"' + SHA.encode() + b'","state":"sending","first":0,"count":0,'
        b'"attempt":1,"feedtype":null,"bytes":0,"status":null,"reply":"","seconds":0.0,'
        b'"at":"2026-11-21T20:00:00Z","refused":[]}\n'
    )


# The end of a push, and pushing it again


def test_a_push_that_goes_on_is_not_finished(folder: Path) -> None:
    pushed(folder, ACCEPTED)
    with opened(folder) as journal:
        assert not journal.is_finished


def test_a_push_that_was_finished_stays_so(folder: Path) -> None:
    finished(folder, ACCEPTED)
    with opened(folder) as journal:
        assert journal.is_finished


def test_the_end_of_a_push_is_its_last_line(folder: Path) -> None:
    finished(folder)
    assert file_of(folder).read_bytes() == HEAD + b'{"finished":"2026-11-21T21:00:00Z"}\n'


def test_a_push_is_finished_once(folder: Path) -> None:
    finished(folder)
    finished(folder)
    assert file_of(folder).read_bytes() == HEAD + b'{"finished":"2026-11-21T21:00:00Z"}\n'


def test_a_finished_push_knows_what_it_sent(folder: Path) -> None:
    finished(folder, ACCEPTED)
    assert state(folder) is AttemptState.ACCEPTED


def test_a_finished_push_to_which_something_is_added_is_not_finished(folder: Path) -> None:
    finished(folder)
    with opened(folder) as journal:
        add(journal, ACCEPTED)
        assert not journal.is_finished


def test_what_was_added_behind_the_end_is_kept(folder: Path) -> None:
    finished(folder, SENDING)
    pushed(folder, ACCEPTED)
    assert read_receipts(folder) == [SENDING, ACCEPTED]


def test_a_replay_knows_nothing_of_what_was_sent_before(folder: Path) -> None:
    finished(folder, ACCEPTED)
    with opened(folder, replay=True) as journal:
        assert journal.known(CHUNK, 0, 0) is None


def test_a_replay_has_a_file_of_its_own(folder: Path) -> None:
    finished(folder, ACCEPTED)
    pushed(folder, SENDING, replay=True)
    assert names(folder) == ["lock", "receipts-001.jsonl", "receipts-002.jsonl"]


def test_a_replay_leaves_the_receipts_before_it(folder: Path) -> None:
    finished(folder, ACCEPTED)
    before = file_of(folder).read_bytes()
    finished(folder, SENDING, replay=True)
    assert file_of(folder).read_bytes() == before


def test_a_replay_that_was_interrupted_goes_on(folder: Path) -> None:
    finished(folder, ACCEPTED)
    pushed(folder, SENDING, replay=True)
    with opened(folder, replay=True) as journal:
        assert journal.known(CHUNK, 0, 0) is AttemptState.SENDING


def test_a_replay_that_was_interrupted_goes_on_with_a_push(folder: Path) -> None:
    finished(folder, ACCEPTED)
    pushed(folder, SENDING, replay=True)
    assert state(folder) is AttemptState.SENDING


def test_a_replay_that_is_finished_can_be_replayed(folder: Path) -> None:
    finished(folder, ACCEPTED)
    finished(folder, SENDING, replay=True)
    finished(folder, FAILED, replay=True)
    assert read_receipts(folder) == [FAILED]


def test_a_push_that_is_not_finished_is_not_replayed(folder: Path) -> None:
    pushed(folder, ACCEPTED)
    assert refusal(opened(folder, replay=True), ConfigError) == (
        f"--replay: {folder}: a push that is not finished; expected a push that is: push first, "
        "without it"
    )


def test_what_was_never_pushed_is_not_replayed(folder: Path) -> None:
    assert refusal(opened(folder, replay=True), ConfigError) == (
        f"--replay: {folder}: nothing was pushed; expected a push that is: push first, without it"
    )


def test_generations_count_beyond_a_thousand(folder: Path) -> None:
    finished(folder)
    file_of(folder).rename(file_of(folder, 999))
    finished(folder, ACCEPTED, replay=True)
    assert (names(folder)[1], read_receipts(folder)) == ("receipts-1000.jsonl", [ACCEPTED])


# Whose receipts they are


def test_a_folder_is_for_one_target(folder: Path) -> None:
    pushed(folder, ACCEPTED)
    other = Receipts(folder, target="http://other.example.com:19900", run="run-1")
    assert refusal(other, ConfigError) == (
        f"{folder}/receipts-001.jsonl: receipts of 'run-1' at 'http://gsa.example.com:19900'; "
        "expected those of 'run-1' at 'http://other.example.com:19900': push the files that they "
        f"are of, with the same --groups-mode, or remove {folder} to push all of these"
    )


def test_a_folder_is_for_one_run(folder: Path) -> None:
    pushed(folder, ACCEPTED)
    assert refusal(opened(folder, run="run-2"), ConfigError) == (
        f"{folder}/receipts-001.jsonl: receipts of 'run-1' at 'http://gsa.example.com:19900'; "
        "expected those of 'run-2' at 'http://gsa.example.com:19900': push the files that they "
        f"are of, with the same --groups-mode, or remove {folder} to push all of these"
    )


def test_receipts_of_a_later_version_are_refused(folder: Path) -> None:
    pushed(folder)
    file_of(folder).write_bytes(HEAD.replace(b'"version":1', b'"version":2'))
    assert refusal(opened(folder), ConfigError) == (
        f"{folder}/receipts-001.jsonl:1: version 2; expected 1"
    )


def test_a_folder_that_was_refused_is_not_locked(folder: Path) -> None:
    pushed(folder, ACCEPTED)
    refusal(opened(folder, run="run-2"), ConfigError)
    assert state(folder) is AttemptState.ACCEPTED


# What a crash leaves


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    finished(folder, SENDING, ACCEPTED)
    return file_of(folder).read_bytes()


@settings(max_examples=80)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_file_that_is_cut_anywhere_reads_as_its_whole_lines(
    share: float, whole: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    left = whole[: int(share * len(whole))]
    file_of(folder).write_bytes(left)
    assert read_receipts(folder) == [SENDING, ACCEPTED][: max(0, left.count(b"\n") - 1)]


@settings(max_examples=60)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_push_goes_on_behind_the_whole_lines_of_a_file_that_is_cut_anywhere(
    share: float, whole: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    left = whole[: int(share * len(whole))]
    file_of(folder).write_bytes(left)
    pushed(folder, FAILED)
    kept = [SENDING, ACCEPTED][: max(0, left.count(b"\n") - 1)]
    assert read_receipts(folder) == [*kept, FAILED]


def test_zeros_that_a_crash_of_the_machine_leaves_are_cut_off(folder: Path) -> None:
    pushed(folder, SENDING)
    before = file_of(folder).read_bytes()
    file_of(folder).write_bytes(before + bytes(300))
    pushed(folder)
    assert file_of(folder).read_bytes() == before


def test_a_line_that_was_damaged_is_told(folder: Path) -> None:
    pushed(folder, SENDING, ACCEPTED)
    path = file_of(folder)
    path.write_bytes(path.read_bytes().replace(b'"sending"', b'"sendinh"'))
    assert refusal(opened(folder), FatalError) == (
        f"{path}:2: a line that was damaged; expected a receipt: bring the file back from a copy, "
        "or remove its folder and push everything again"
    )


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"\xff", b'{"chunk":1}', b"null"])
def test_whatever_stands_in_a_line_nothing_foreign_is_raised(folder: Path, line: bytes) -> None:
    pushed(folder, SENDING)
    file_of(folder).write_bytes(HEAD + line + b"\n")
    with pytest.raises(FatalError, match=":2: a line that was damaged"):
        read_receipts(folder)


def write_a_part(file: int, _line: bytes, offset: int) -> None:
    """As a disk does that has room for a few bytes."""
    os.pwrite(file, b'{"chunk":7', offset)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def add_to_a_full_disk(journal: Receipts) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "write_at", write_a_part)
        with pytest.raises(FatalError) as caught:
            journal.add(ACCEPTED)
    return str(caught.value)


def test_a_disk_that_is_full_is_told(folder: Path) -> None:
    with opened(folder) as journal:
        assert add_to_a_full_disk(journal) == (
            f"{folder}: No space left on device; expected to keep receipts there"
        )


def test_a_disk_that_is_full_leaves_no_torn_line(folder: Path) -> None:
    with opened(folder) as journal:
        add(journal, SENDING)
        add_to_a_full_disk(journal)
        add(journal, FAILED)
    assert read_receipts(folder) == [SENDING, FAILED]


def test_what_could_not_be_written_is_not_known(folder: Path) -> None:
    with opened(folder) as journal:
        add_to_a_full_disk(journal)
        assert journal.known(CHUNK, 0, 0) is None


def test_a_folder_that_is_a_file_keeps_no_receipts(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert refusal(opened(tmp_path / "file"), FatalError) == (
        f"{tmp_path}/file: File exists; expected to keep receipts there"
    )


# Who may have them


def test_a_second_push_is_kept_out(folder: Path) -> None:
    with opened(folder):
        assert refusal(opened(folder), BusyError) == (
            f"{folder}: in use by another push, process {os.getpid()} on {socket.gethostname()}; "
            "start again when that has ended"
        )


def test_a_push_that_does_not_say_who_it_is_keeps_others_out(folder: Path) -> None:
    with opened(folder):
        (folder / "lock").write_bytes(b"")
        assert refusal(opened(folder), BusyError) == (
            f"{folder}: in use by another push; start again when that has ended"
        )


@pytest.mark.slow
def test_a_push_in_another_process_is_kept_out(folder: Path) -> None:
    with child(folder) as process:
        wait_until_held(process)
        told = refusal(opened(folder), BusyError)
        process.communicate()
    assert re.findall("process ([0-9]+) on", told) == [str(process.pid)]


@pytest.mark.slow
def test_a_killed_push_leaves_no_lock(folder: Path) -> None:
    with child(folder) as process:
        wait_until_held(process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    pushed(folder, ACCEPTED)
    assert state(folder) is AttemptState.ACCEPTED


def test_a_push_that_has_ended_lets_the_next_one_in(folder: Path) -> None:
    pushed(folder, SENDING)
    pushed(folder, ACCEPTED)
    assert state(folder) is AttemptState.ACCEPTED


def test_receipts_are_read_while_they_are_written(folder: Path) -> None:
    with opened(folder) as journal:
        add(journal, SENDING, ACCEPTED)
        assert read_receipts(folder) == [SENDING, ACCEPTED]


def test_a_folder_that_is_not_there_has_no_receipts(folder: Path) -> None:
    assert read_receipts(folder) == []


def test_reading_makes_nothing(folder: Path) -> None:
    read_receipts(folder)
    assert not folder.exists()


def test_other_files_in_the_folder_are_no_receipts(folder: Path) -> None:
    pushed(folder, ACCEPTED)
    (folder / "receipts-002.jsonl.partial").write_bytes(b"{")
    (folder / "report.json").write_bytes(b"{}")
    assert read_receipts(folder) == [ACCEPTED]
