"""A migration is pushed, verified at the target, repaired and verified again."""

import json
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from support.receivers import receiving, wait_until_idle
from support.rehearsal import acl, gone, gsa_feed, membership, page, xmlgroups

DOCUMENTS = 60


def feed(*records: str, datasource: str = "docs", feedtype: str = "incremental") -> str:
    markup = gsa_feed(*records).replace("<datasource>other<", f"<datasource>{datasource}<")
    return markup.replace("<feedtype>incremental<", f"<feedtype>{feedtype}<")


def pages(*, without: int = -1) -> list[str]:
    return [
        page(f"{number}.html", f"text of {number}", inner=acl(f"user{number % 7}"))
        for number in range(DOCUMENTS)
        if number != without
    ]


def results(text: str) -> dict[str, int]:
    """The counts in the last line of a comparison in JSON."""
    counts: dict[str, int] = json.loads(text.splitlines()[-1])["counts"]
    return counts


@pytest.mark.slow
def test_a_document_that_was_deleted_at_the_target_is_found_and_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("feed.xml").write_text(feed(*pages(), feedtype="full"))
    Path("gone.xml").write_text(feed(gone("7.html")))
    Path("acl.xml").write_text(feed(acl("eve", url="8.html")))
    with receiving(tmp_path / "spool") as receiver:
        url = f"http://127.0.0.1:{receiver.port}"
        verify = ("verify", "out", "--against", url, "--format", "json")
        assert main(["convert", "feed.xml", "-o", "out", "--to", "gsa-feed", "--push-to", url]) == 0
        wait_until_idle(receiver)
        capsys.readouterr()

        assert main(verify) == 0
        assert results(capsys.readouterr().out)["same"] == DOCUMENTS

        assert main(["push", "gone.xml", "acl.xml", "-o", "behind", "--to", url]) == 0
        wait_until_idle(receiver)
        capsys.readouterr()
        emitted = ("--emit", "repair", "--to", "gsa-feed")
        assert main([*verify, *emitted]) == 1
        lines = capsys.readouterr().out.splitlines()
        changed, missing = (json.loads(line) for line in lines[:2])
        assert (changed["change"], changed["url"].rpartition("/")[2]) == ("different", "8.html")
        assert [field["field"] for field in changed["fields"]] == ["acl"]
        assert (missing["change"], missing["url"].rpartition("/")[2]) == ("missing", "7.html")
        assert main([*verify[:-1], "html"]) == 1
        assert "8.html" in capsys.readouterr().out

        assert main(["push", "repair", "--to", url]) == 0
        wait_until_idle(receiver)
        capsys.readouterr()
        assert main(verify) == 0
        assert results(capsys.readouterr().out)["same"] == DOCUMENTS
    assert main(["verify", "out", "--against", "spool"]) == 0


@pytest.mark.slow
def test_a_feed_of_the_differences_makes_the_second_input_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("monday.xml").write_text(feed(*pages()))
    tuesday = [*pages(without=3), page("new.html"), page("4.html", "other", inner=acl("user4"))]
    Path("tuesday.xml").write_text(feed(*tuesday))
    Path("groups.xml").write_text(xmlgroups(membership("staff", "ann")))

    assert main(["diff", "monday.xml", "monday.xml"]) == 0
    emit = ("--emit", "changes", "--to", "gsa-feed", "--format", "json")
    assert main(["diff", "monday.xml", "tuesday.xml", *emit]) == 1
    assert main(["diff", "groups.xml", "groups.xml"]) == 0
    Path("history").mkdir()
    Path("history/1.xml").write_text(Path("monday.xml").read_text())
    (chunk,) = Path("changes/chunks").iterdir()
    Path("history/2.xml").write_text(chunk.read_text())
    assert chunk.read_text().count("<record ") == 3
    capsys.readouterr()
    assert main(["diff", "history", "tuesday.xml", "--format", "json"]) == 0
    assert results(capsys.readouterr().out)["same"] == DOCUMENTS

    assert main(["compact", "history", "-o", "whole", "--to", "avro"]) == 0
    assert main(["diff", "whole", "tuesday.xml"]) == 0


def test_a_compacted_full_feed_is_one_feed_with_its_acls_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = '<acl url="http://www.example.com/"><principal scope="user" access="permit">'
    Path("full.xml").write_text(feed(f"{folder}ann</principal></acl>", *pages(), feedtype="full"))

    assert main(["compact", "full.xml", "-o", "whole", "--to", "gsa-feed"]) == 0

    (chunk,) = Path("whole/chunks").iterdir()
    text = chunk.read_text()
    assert (text.count("<feedtype>full<"), text.count("<record ")) == (1, DOCUMENTS)
    assert "http://www.example.com/" in text.partition("<acl url=")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["verify", "a.xml", "--against", "http://"], "--against"),
        (["verify", "a.xml"], "--against: not given; expected URL|INPUT|urls; see --help"),
        (["verify", "--against", "b.xml"], "INPUT"),
        (["diff", "a.xml", "missing.xml"], "missing.xml"),
        (["diff", "a.xml", "b.xml", "--emit", "out"], "--to"),
        (["compact", "a.xml", "--to", "avro"], "-o"),
    ],
)
def test_what_cannot_be_compared_is_explained(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.xml", "b.xml"):
        Path(name).write_text(feed(page(name)))
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_an_unreachable_target_is_a_failure_that_can_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.xml").write_text(feed(page("a")))
    assert main(["verify", "a.xml", "--against", "http://127.0.0.1:9"]) == 4
    assert "127.0.0.1:9/documents" in capsys.readouterr().err


def test_the_findings_of_feeds_are_printed_in_each_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.xml").write_text(feed(page("a"), page("a", inner='<acl inherit-from="http://x.y/"/>')))
    assert main(["validate", "a.xml"]) == 1
    text = capsys.readouterr().out
    assert "a.xml:7: warning: url 'http://www.example.com/a' is in line 6 as well" in text
    assert "a.xml:7: error:" in text
    assert text.endswith("1 error, 1 warning\n")
    assert main(["validate", "a.xml", "--format", "json"]) == 1
    assert [json.loads(line)["line"] for line in capsys.readouterr().out.splitlines()] == [7, 7]
    assert main(["validate", "a.xml", "--format", "sarif"]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert {result["ruleId"] for result in run["results"]} == {"url-repeated", "acl-parent-missing"}
    assert main(["validate", "a.xml", "--rule", "dtd"]) == 0
    assert main(["validate", "a.xml", "--ignore", "url-repeated", "--severity", "error"]) == 1
