"""The account as its user reads it, and as programs do."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from feedferry.pipelines.report.conversion_report import (
    Report,
    as_json_text,
    as_text,
    next_commands,
)
from feedferry.schemas.account import Account, Chunk, LossCount, NoticeCount, RejectSample
from feedferry.schemas.notice import Loss, Notice

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
TORN = RejectSample(source="feed.xml", line=7, offset=90, reason="no end; expected </record>")
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


def test_an_account_is_a_table_with_its_total_and_a_line_for_each_other_count() -> None:
    date = Notice(code="date", detail="a date; read as one", source="ids.txt", offset=12)
    account = report(
        read={"ADD": 1_200_000, "DELETE_PATTERN": 2},
        written={"ADD": 1_199_998},
        rejected={"ADD": 2, "DELETE_PATTERN": 1},
        filtered={"DELETE_PATTERN": 1},
        losses={"lock": LossCount(1, (LOCK,)), "acl": LossCount(1_000, (ACL,))},
        notices={"date": NoticeCount(1234, date)},
        reject_codes={"crawled": 2, "malformed": 1_000},
        reject_samples={"malformed": (TORN, TORN, replace(TORN, is_accepted=True))},
        filter_codes={"acl-alone": 3},
    )

    assert as_text(account).splitlines() == [
        "                        read     written    rejected    filtered",
        "ADD                1,200,000   1,199,998           2           0",
        "DELETE_PATTERN             2           0           1           1",
        "total              1,200,002   1,199,998           3           1",
        "loss      acl (accepted): 1,000, as http://www.example.com/a: 2 principals",
        "loss      lock: 1, as http://www.example.com/b: true",
        "notice    date: 1,234, as ids.txt (byte 12): a date; read as one",
        "rejects   crawled 2, malformed 1,000, in out/rejects/",
        "reject    malformed: feed.xml:7 (byte 90): no end; expected </record>",
        "filtered  acl-alone 3",
        "chunks    3, 1,234,567 bytes, in out/chunks/",
        "report    out/report.html",
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


def test_a_report_is_a_document_with_sorted_keys_and_without_the_manifest() -> None:
    text = as_json_text(report(chunks=[CHUNK]))

    values: Any = json.loads(text)
    assert list(values) == [
        *("account", "chunk_bytes", "chunks", "exit_code", "folder", "settings"),
        *("sources", "version"),
    ]
    assert ("chunks" in values["account"], values["chunks"], values["version"]) == (False, 3, 1)
    assert '    "Zürich.xml"' in text.splitlines()


@pytest.mark.parametrize(
    ("settings", "verb"),
    [({}, "show 'out dir' 1"), ({"accepted_rejects": "known.txt"}, "accept 'out dir'")],
)
def test_a_run_with_rejects_suggests_commands_that_can_be_pasted(
    settings: dict[str, object], verb: str
) -> None:
    total = Account(rejected={"ADD": 1}, reject_codes={"malformed": 1})
    finished = Report(
        account=total,
        folder="out dir",
        chunks=1,
        chunk_bytes=9,
        exit_code=1,
        settings=settings,
        sources=(),
    )
    lists = ["feedferry rejects list 'out dir'", f"feedferry rejects {verb}"]
    assert next_commands(finished, is_pushed=True) == lists
    assert next_commands(finished, is_pushed=False) == [*lists, "feedferry push 'out dir' --to URL"]
