"""The receipts of a push: what they keep, what a crash leaves, and who may have them."""

import os
import socket
import tracemalloc
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import BusyError, ConfigError, FatalError, FeedferryError
from feedferry.schemas.receipt import ChunkState, Receipt, Refusal
from feedferry.transforms.sinks.push.outcome import outcome_of
from feedferry.transforms.sinks.push.push_plan import PlannedChunks
from feedferry.transforms.sinks.push.receipts import ReceiptIndex, Receipts
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.storage.files.journal import DISK, Disk
from support.appliance_sockets import chunk
from support.fake_appliance import GSA, read_receipts

SHA = "ab" * 32
CHUNK = chunk(b"", ordinal=7)
RUN = "b77b0d26cb969712"
HEADER = b'{"version":1,"target":"http://gsa.example.com:19900","run":"%b"}\n' % RUN.encode()
SENDING = Receipt(chunk=7, sha256=SHA, state=ChunkState.SENDING, at="2026-11-21T20:00:00Z")
ACCEPTED = Receipt(
    chunk=7,
    sha256=SHA,
    state=ChunkState.ACCEPTED,
    feedtype="full",
    bytes=12,
    status=200,
    reply="Success\n\x00é",
    seconds=0.25,
    at="2026-11-21T20:00:01Z",
    refused=(Refusal(3, "no"),),
)
FAILED = Receipt(chunk=7, sha256=SHA, state=ChunkState.FAILED, attempt=2)
TO_GSA = PushSettings(appliance=GSA)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "push" / "gsa"


def opened(folder: Path, *, disk: Disk = DISK) -> Receipts:
    return Receipts(folder, PlannedChunks([CHUNK], TO_GSA, {}), TO_GSA, disk=disk)


def push(folder: Path, *added: Receipt) -> None:
    with opened(folder) as receipts:
        for receipt in added:
            receipts.add(receipt)


def range_of(receipt: Receipt) -> tuple[int, int]:
    return receipt.first, receipt.count


def file_of(folder: Path) -> Path:
    return folder / "receipts-001.jsonl"


def refusal(receipts: Receipts, kind: type[FeedferryError]) -> str:
    with pytest.raises(kind) as caught, receipts:
        pass
    return str(caught.value)


def test_the_last_receipt_of_the_same_records_counts(folder: Path) -> None:
    half = Receipt(chunk=7, sha256=SHA, state=ChunkState.REFUSED, first=4, count=5)
    other = Receipt(chunk=8, sha256=SHA, state=ChunkState.ACCEPTED)
    with opened(folder) as receipts:
        assert receipts.last(CHUNK, 0, 0) is None
        for receipt in (SENDING, FAILED, SENDING, half, other):
            receipts.add(receipt)
            assert (
                receipts.last(replace(CHUNK, ordinal=receipt.chunk), *range_of(receipt)) == receipt
            )
            assert read_receipts(folder)[-1] == receipt
    with opened(folder) as receipts:
        assert receipts.last(CHUNK, 0, 0) == SENDING
        assert receipts.last(CHUNK, 4, 5) == half
        assert receipts.last(CHUNK, 4, 4) is None


RECEIPT = st.builds(
    Receipt,
    chunk=st.integers(1, 4),
    sha256=st.just(SHA),
    state=st.sampled_from([ChunkState.SENDING, ChunkState.ACCEPTED, ChunkState.FAILED]),
    first=st.sampled_from([0, 0, 0, 2]),
    count=st.sampled_from([0, 0, 0, 2]),
    attempt=st.integers(1, 2),
    bytes=st.integers(0, 99),
    reply=st.sampled_from(["", "Success", "é" * 3000]),
    refused=st.sampled_from([(), (Refusal(1, "no"),)]),
)


@example(added=[replace(SENDING, chunk=2, reply="Success"), replace(ACCEPTED, chunk=2, reply="")])
@given(added=st.lists(RECEIPT, max_size=20))
def test_an_index_of_places_has_the_outcomes_of_all_receipts(
    added: list[Receipt], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("index") / "receipts.jsonl"
    chunks = [replace(CHUNK, ordinal=ordinal, records={"ADD": 4}) for ordinal in (1, 2, 3)]
    index = ReceiptIndex(path, chunks=3)
    with path.open("wb", buffering=0) as stream:
        stream.write(b"the header\n")
        for receipt in added:
            place = stream.tell()
            stream.write(msgspec.json.encode(receipt) + b"\n")
            index.add(receipt, place)
    for each in (*chunks, replace(CHUNK, ordinal=4)):
        receipts = [receipt for receipt in added if receipt.chunk == each.ordinal]
        last = {range_of(receipt): receipt for receipt in receipts}

        assert index.outcomes([each])[0] == outcome_of(each, receipts)
        assert [index.last(each.ordinal, *records) for records in last] == [*last.values()]


def test_chunks_that_were_accepted_at_once_take_a_few_bytes_of_memory(tmp_path: Path) -> None:
    path, number = tmp_path / "receipts.jsonl", 5000
    accepted = replace(ACCEPTED, refused=(), reply="Success" * 200)
    tracemalloc.start()
    index = ReceiptIndex(path, chunks=number)
    with path.open("wb") as stream:
        stream.write(b"the header\n")
        for ordinal in range(1, number + 1):
            index.add(replace(SENDING, chunk=ordinal), 0)
            place = stream.tell()
            stream.write(msgspec.json.encode(replace(accepted, chunk=ordinal)) + b"\n")
            index.add(replace(accepted, chunk=ordinal), place)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert index.last(number, 0, 0) == replace(accepted, chunk=number)
    assert size < 50 * number


def test_a_receipt_is_one_line(folder: Path) -> None:
    push(folder, SENDING)

    assert file_of(folder).read_bytes() == HEADER + (
        b'{"chunk":7,"sha256":"' + SHA.encode() + b'","state":"sending","first":0,"count":0,'
        b'"attempt":1,"feedtype":null,"bytes":0,"status":null,"reply":"","seconds":0.0,'
        b'"at":"2026-11-21T20:00:00Z","refused":[]}\n'
    )


def test_a_file_is_continued_and_the_last_one_counts(folder: Path) -> None:
    push(folder, ACCEPTED)
    push(folder, FAILED)
    assert read_receipts(folder) == [ACCEPTED, FAILED]
    (folder / "receipts-002.jsonl").write_bytes(HEADER)  # of a replay
    push(folder, SENDING)

    assert read_receipts(folder) == [SENDING]


# Other runs


@pytest.mark.parametrize(
    ("chunks", "url", "expected"),
    [
        ([CHUNK], "http://b:1", f"'{RUN}' at 'http://b:1'"),
        ([replace(CHUNK, datasource="b")], GSA.url, f"'bbc5dea72b2118e7' at '{GSA.url}'"),
    ],
)
def test_a_folder_belongs_to_one_run_and_one_appliance(
    folder: Path, chunks: list[Chunk], url: str, expected: str
) -> None:
    push(folder, ACCEPTED)
    settings = PushSettings(appliance=replace(GSA, url=url))
    other = Receipts(folder, PlannedChunks(chunks, settings, {}), settings)

    assert refusal(other, ConfigError) == (
        f"{folder}/receipts-001.jsonl: receipts of '{RUN}' at '{GSA.url}'; expected those of "
        f"{expected}: push the files that they belong to, with the same --groups-mode, "
        f"or remove {folder} to push all of these"
    )
    push(folder)  # the folder is not locked


def test_receipts_of_a_later_version_are_refused(folder: Path) -> None:
    push(folder, SENDING)
    file_of(folder).write_bytes(HEADER.replace(b'"version":1', b'"version":2'))

    assert refusal(opened(folder), ConfigError) == (
        f"{folder}/receipts-001.jsonl:1: version 2; expected 1"
    )


# What a crash leaves


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    push(folder, SENDING, ACCEPTED)
    return file_of(folder).read_bytes()


@settings(max_examples=80)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_push_continues_after_the_whole_lines_of_a_file_cut_anywhere(
    share: float, whole: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    left = whole[: int(share * len(whole))]
    kept = [SENDING, ACCEPTED][: max(0, left.count(b"\n") - 1)]
    file_of(folder).write_bytes(left)
    assert read_receipts(folder) == kept
    push(folder, FAILED)

    assert read_receipts(folder) == [*kept, FAILED]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"", "Input data was truncated"),
        (b'{"chunk":1}', "Object missing required field `sha256`"),
        (b'{"state":"sendinh"}', "Invalid enum value 'sendinh' - at `$.state`"),
    ],
)
def test_a_damaged_line_is_fatal(folder: Path, line: bytes, found: str) -> None:
    push(folder, SENDING)
    file_of(folder).write_bytes(HEADER + line + b"\n")

    assert refusal(opened(folder), FatalError) == (
        f"{file_of(folder)}:2: {found}; expected a receipt: restore the file from a copy, or"
        " remove its folder and push everything again"
    )


def test_a_folder_that_is_a_file_is_fatal(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    assert refusal(opened(tmp_path / "file"), FatalError) == (
        f"{tmp_path}/file: File exists; expected to write there"
    )


def test_a_second_push_is_kept_out(folder: Path) -> None:
    with opened(folder):
        assert refusal(opened(folder), BusyError) == (
            f"{folder}: in use by another push, process {os.getpid()} on {socket.gethostname()}; "
            "start again when that has ended"
        )
        (folder / "lock").write_bytes(b"")
        assert refusal(opened(folder), BusyError) == (
            f"{folder}: in use by another push; start again when that has ended"
        )
