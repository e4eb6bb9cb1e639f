"""The account of a push as text and JSON, and its plan."""

import tracemalloc
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.pipelines.folders.manifest import read_manifest, write_manifest
from feedferry.pipelines.report.push_report import as_json, plan_text, summary_of
from feedferry.pipelines.terminal.summary import summary_text
from feedferry.schemas.errors import FatalError
from feedferry.schemas.receipt import ChunkState, Refusal
from feedferry.transforms.sinks.push.outcome import ChunkOutcome, PushAccount
from feedferry.transforms.sinks.push.settings import PushSettings
from support.appliance_sockets import chunk
from support.fake_appliance import GSA

CHUNK = replace(
    chunk(b"", ordinal=1, path="chunks/000001.xml", source="", records={"ADD": 3}),
    bytes=2048,
    datasource="wiki",
    feedtype="full",
)
PUSHED = PushAccount(
    target="http://gsa.example.com:19900",
    outcomes=(
        ChunkOutcome(chunk=CHUNK, state=ChunkState.ACCEPTED, accepted=3, bytes=3000, attempts=1),
        ChunkOutcome(
            chunk=replace(CHUNK, path="chunks/000002.xml"),
            state=ChunkState.PARTLY_ACCEPTED,
            accepted=2,
            refused=1,
            refusals=(Refusal(1, "malformed feed"),),
            bytes=2000,
            attempts=4,
        ),
        ChunkOutcome(
            chunk=CHUNK, state=ChunkState.REFUSED, refused=3, reply="malformed feed", attempts=1
        ),
        ChunkOutcome(chunk=CHUNK, state=ChunkState.READY),
    ),
    notices={"OK, 'Not found'": 2},
    stopped="why it stopped",
    exit_code=4,
    waited_seconds=61.2,
    seconds=90.6,
)


def test_the_account_of_a_push() -> None:
    assert summary_text(
        summary_of(PUSHED, root=Path("out"), folder=Path("out/push/gsa"))
    ).splitlines() == [
        "                chunks     records",
        "accepted             2           5",
        "refused              1           4",
        "left                 1           3",
        "total                4          12",
        "refused   chunks/000002.xml, record 2: malformed feed",
        "refused   chunks/000001.xml: malformed feed",
        "notice    OK, 'Not found': 2",
        "rejects   4, in out/rejects/",
        "target    http://gsa.example.com:19900, 5,000 bytes on the wire in 1:31, 1:01 waiting",
        "receipts  out/push/gsa/",
        "report    out/report.html",
    ]


def test_the_report_of_a_push_as_json() -> None:
    assert as_json(PUSHED) == {
        "version": 1,
        "target": "http://gsa.example.com:19900",
        "chunks": {"accepted": 1, "partly-accepted": 1, "ready": 1, "refused": 1},
        "records": {"accepted": 5, "refused": 4, "left": 3},
        "earlier_chunks": 0,
        "bytes": 5000,
        "sent_bytes": 5000,
        "attempts": 6,
        "notices": {"OK, 'Not found'": 2},
        "newer": 0,
        "withheld": 0,
        "acl_changes": {},
        "steps": {},
        "accepted_rejects": {},
        "reject_samples": {},
        "stopped": "why it stopped",
        "waited_seconds": 61.2,
        "seconds": 90.6,
    }


def test_a_plan_has_a_line_for_each_datasource() -> None:
    chunks = [CHUNK, replace(CHUNK, feedtype="incremental"), replace(CHUNK, datasource="people")]
    assert plan_text(chunks, PushSettings(appliance=GSA)).splitlines() == [
        "chunks    wiki: 2 (1 full, 1 incremental), 6 records, 4,096 bytes",
        "chunks    people: 1 (1 full), 3 records, 2,048 bytes",
        "target    http://gsa.example.com:19900",
        "nothing was sent",
    ]


def test_a_chunk_with_single_refused_records_is_shown_once() -> None:
    outcome = ChunkOutcome(
        chunk=replace(CHUNK, records={"ADD": 1}),
        state=ChunkState.REFUSED,
        refused=1,
        refusals=(Refusal(0, "no"),),
        reply="no",
    )
    shown = summary_text(
        summary_of(replace(PUSHED, outcomes=(outcome,)), root=Path("out"), folder=Path("out/push"))
    )
    shown_lines = [line for line in shown.splitlines() if "chunks/" in line]
    assert shown_lines == ["refused   chunks/000001.xml, record 1: no"]


@pytest.mark.parametrize("damage", [b"{", b"{}", b"\xff"])
def test_a_damaged_manifest_names_the_file_and_the_cure(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "report.json").write_text("{}")
    (tmp_path / "manifest.jsonl").write_bytes(damage)
    with pytest.raises(FatalError, match=r"manifest\.jsonl: .*; expected .* --fresh"):
        read_manifest(tmp_path)


def test_a_manifest_is_in_the_order_of_ordinals_and_keeps_its_lines(tmp_path: Path) -> None:
    chunks = [replace(CHUNK, ordinal=ordinal, first_url="é" * 5000) for ordinal in (3, 1, 2)]
    (tmp_path / "report.json").write_text("{}")
    write_manifest(tmp_path, chunks)
    manifest = read_manifest(tmp_path)
    assert list(manifest) == [chunks[1], chunks[2], chunks[0]]  # opens the file
    write_manifest(tmp_path, [])

    assert [manifest[0], *manifest[1:], manifest[-1]] == [*(chunks[i] for i in (1, 2, 0, 0))]
    assert list(read_manifest(tmp_path)) == []


def test_a_manifest_takes_a_few_bytes_of_memory_for_each_chunk(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{}")
    write_manifest(tmp_path, (replace(CHUNK, ordinal=ordinal) for ordinal in range(20_000)))
    tracemalloc.start()
    manifest = read_manifest(tmp_path)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert len(manifest) == 20_000
    assert size < 20 * len(manifest)
