"""`feedferry formats FROM TO` prints the table of losses as text or as JSON."""

import json

import pytest

from feedferry.pipelines.cli.main import main


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["formats", *args]) == 0
    return capsys.readouterr().out


def test_a_table_has_a_row_for_each_loss(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    assert printed(capsys, "lister-stream", "gsa-feed").splitlines() == [
        "what                    by default  as                detail",
        "URL to be crawled       rejected    no-content        --feedtype",
        "                                                      metadata-and-url",
        "                                                      makes a feed",
        "                                                      that it crawls",
        "document id, not a URL  rejected    url-not-absolute  --base-url",
        "                                                      completes",
        "                                                      document ids and",
        "                                                      paths",
        "",
        "A field that stops the run is converted without by --accept-loss",
        "FIELD. A run stops at any other field with --fail-on-loss FIELD.",
        "Rejects are kept, with their records.",
    ]


def test_a_table_with_wide_columns_fits_a_terminal_of_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = printed(capsys, "gsa-feed", "thunderstone").splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert lines[0] == ("what                    by default        as                 detail")


def test_flags_of_the_target_change_its_losses(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("lister-stream", "gsa-feed", "--feedtype", "metadata-and-url")
    assert "URL to be crawled" not in printed(capsys, *args)
    assert printed(capsys, "gsa-groups", "jsonl") == ("gsa-groups to jsonl: nothing is lost\n")


def test_json_has_what_changes_each_default(capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(printed(capsys, "files", "thunderstone", "--format", "json"))
    assert (report["from"], report["to"]) == ("files", "thunderstone")
    assert [row for row in report["losses"] if row["item"] == "secure"] == [
        {
            "item": "secure",
            "effect": "stops the run",
            "name": "acl",
            "detail": "without an ACL, any user would see the document",
            "change": "--accept-loss acl",
        },
        {
            "item": "secure",
            "effect": "lost and counted",
            "name": "secure",
            "detail": "",
            "change": "--fail-on-loss secure",
        },
    ]


def test_both_formats_are_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["formats", "gsa-feed"]) == 2
    assert capsys.readouterr().err == (
        "feedferry: gsa-feed: given alone; expected FROM_FORMAT and TO_FORMAT\n"
    )


def test_the_formats_are_listed_as_text_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.split()[:2] for line in printed(capsys).splitlines()]
    listed = json.loads(printed(capsys, "--format", "json"))["formats"]
    assert ["gsa-feed", "read/write"] in lines
    assert [[row["name"], row["uses"]] for row in listed] == lines
