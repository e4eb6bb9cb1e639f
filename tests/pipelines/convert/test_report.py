"""The account as its user reads it, and as programs do."""

import json
from typing import Any

from pipelines.convert.report import Report, as_json, as_json_text, as_text
from schemas.account import Account, Chunk, LossCount, NoticeCount
from schemas.notice import Loss, Notice

CHUNK = Chunk(
    path="chunks/000001.xml",
    bytes=7,
    sha256="",
    records={},
    first_url="",
    last_url="",
    source="",
    span=0,
)
ACL = Loss(field="acl", url="http://www.example.com/a", detail="2 principals")
LOCK = Loss(field="lock", url="http://www.example.com/b", detail="true")


def report(**counted: Any) -> Report:
    return Report(
        account=Account(**counted),
        folder="out",
        chunks=3,
        chunk_bytes=1_234_567,
        exit_code=0,
        settings={"zone": "UTC"},
        sources=("Zürich.xml",),
    )


def test_an_account_is_a_table_with_its_total() -> None:
    account = report(
        read={"ADD": 1_200_000, "DELETE_PATTERN": 2},
        written={"ADD": 1_199_998},
        rejected={"ADD": 2, "DELETE_PATTERN": 1},
        filtered={"DELETE_PATTERN": 1},
    )

    assert as_text(account).splitlines() == [
        "                        read     written    rejected    filtered",
        "ADD                1,200,000   1,199,998           2           0",
        "DELETE_PATTERN             2           0           1           1",
        "total              1,200,002   1,199,998           3           1",
        "chunks    3, 1,234,567 bytes, in out/chunks/",
        "report    out/report.json",
    ]


def test_expanded_records_have_a_column() -> None:
    account = report(
        read={"DELETE_PATTERN": 1}, expanded={"DELETE_PATTERN": 1}, written={"DELETE": 2}
    )

    assert as_text(account).splitlines()[:4] == [
        "                        read    expanded     written    rejected    filtered",
        "DELETE                     0           0           2           0           0",
        "DELETE_PATTERN             1           1           0           0           0",
        "total                      1           1           2           0           0",
    ]


def test_an_empty_account_has_a_total_too() -> None:
    assert as_text(report()).splitlines()[:2] == [
        "               read     written    rejected    filtered",
        "total             0           0           0           0",
    ]


def test_losses_are_listed_by_field_with_a_sample() -> None:
    losses = {"lock": LossCount(1, (LOCK,)), "acl": LossCount(1_000, (ACL,))}

    assert as_text(report(losses=losses)).splitlines()[2:4] == [
        "loss      acl (accepted): 1,000, as http://www.example.com/a: 2 principals",
        "loss      lock: 1, as http://www.example.com/b: true",
    ]


def test_rejects_are_listed_by_code_with_their_place() -> None:
    account = report(reject_codes={"crawled": 2, "malformed": 1_000})

    line = "rejects   crawled 2, malformed 1,000, in out/rejects/"
    assert as_text(account).splitlines()[2] == line


def test_filtered_records_are_listed_by_code() -> None:
    account = report(filter_codes={"acl-alone": 3})

    assert as_text(account).splitlines()[2] == "filtered  acl-alone 3"


def test_a_report_has_a_version() -> None:
    assert as_json(report())["version"] == 1


def test_a_report_does_not_repeat_the_manifest() -> None:
    found: Any = as_json(report(chunks=[CHUNK]))

    assert ("chunks" in found["account"], found["chunks"]) == (False, 3)


def test_a_report_is_a_document_with_its_keys_sorted_and_letters_as_they_are() -> None:
    text = as_json_text(report())

    lines = text.splitlines()
    assert (list(json.loads(text)), lines[-4:]) == (
        [
            "account",
            "chunk_bytes",
            "chunks",
            "exit_code",
            "folder",
            "settings",
            "sources",
            "version",
        ],
        ['    "Zürich.xml"', "  ],", '  "version": 1', "}"],
    )


def test_notices_are_listed_by_code_with_the_first_of_each() -> None:
    date = Notice(code="date", detail="a date; read as one", source="ids.txt", offset=12)

    assert "notice    date: 1,234, as ids.txt (byte 12): a date; read as one" in as_text(
        report(notices={"date": NoticeCount(1234, date)})
    )
