"""`feedferry loss` prints the table of losses as text or as JSON."""

import json

import pytest

from pipelines.cli.main import main


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["loss", *args]) == 0
    return capsys.readouterr().out


def test_a_table_has_a_row_for_each_loss(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    assert printed(capsys, "--from", "lister-stream", "--to", "gsa-feed").splitlines() == [
        "what                    by default  as                detail",
        "URL to be crawled       rejected    no-content        --feedtype",
        "                                                      metadata-and-url makes a",
        "                                                      feed that it crawls",
        "document id, not a URL  rejected    url-not-absolute  --base-url completes",
        "                                                      document ids and paths",
        "",
        "A field that stops the run is converted without by --accept-loss FIELD. A run stops at any"
        " other",
        "field with --fail-on-loss FIELD. Rejects are kept, with their records.",
    ]


def test_flags_of_the_target_change_its_losses(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("--from", "lister-stream", "--to", "gsa-feed", "--feedtype", "metadata-and-url")
    assert "URL to be crawled" not in printed(capsys, *args)
    assert printed(capsys, "--from", "gsa-groups", "--to", "jsonl") == (
        "gsa-groups to jsonl: nothing is lost\n"
    )


def test_json_has_what_changes_each_default(capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(printed(capsys, "--to", "thunderstone", "--format", "json"))
    assert (report["from"], report["to"]) == (None, "thunderstone")
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


def test_a_target_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["loss", "--from", "gsa-feed"]) == 2
    assert capsys.readouterr().err == ("feedferry: --to: not given; expected FORMAT; see --help\n")
