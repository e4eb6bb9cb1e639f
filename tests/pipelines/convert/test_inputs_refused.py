"""Inputs that another start cannot help: they are refused before a run begins, with 2."""

from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from support.archives import document, gsa_feed, put
from support.rehearsal import xmlgroups

JOB = "version: 1\njob: job\nsource: {}\ntarget: {{type: gsa-feed{}}}\n"
MAPPING = b"connection: sqlite:///missing.db\ntable: docs\nurl: 'http://www.example.com/{id}'\n"
PDF = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n"
NAMED = ", datasource: docs"
TREE = "{type: files, path: docs, base_url: 'http://www.example.com/'}"


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("{type: gsa-feed, path: a.pdf}", NAMED, "looks like a PDF document; expected another"),
        (
            "{type: database, mapping: map.yaml}",
            NAMED,
            "missing.db': no such file; expected",
        ),
        (TREE, "", "docs: no datasource in the source; expected target: {datasource: NAME}"),
    ],
    ids=["PDF", "SQLite", "datasource"],
)
def test_an_input_that_no_start_can_read_is_refused_before_a_run_begins(
    here: Path, capsys: pytest.CaptureFixture[str], source: str, target: str, message: str
) -> None:
    put(here / "a.pdf", PDF)
    put(here / "map.yaml", MAPPING)
    put(here / "docs/a.txt", b"text")
    put(here / "job.yaml", JOB.format(source, target).encode())
    for verb in ("plan", "run", "run"):
        assert main([verb, "job.yaml", "--progress", "none"]) == 2
        text = capsys.readouterr().err
        assert message in text
        assert "start again" not in text
    assert list(here.rglob("run.json")) == []


def test_a_check_of_a_job_names_a_missing_datasource(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(here / "docs/a.txt", b"text")
    put(here / "job.yaml", JOB.format(TREE, "").encode())
    assert main(["check", "job.yaml", "--offline"]) == 2
    assert "docs: no datasource in the source; expected target:" in capsys.readouterr().err


def test_a_pdf_among_feeds_is_a_reject(here: Path) -> None:
    put(here / "a.pdf", PDF)
    put(here / "feed.xml", gsa_feed(document(1)))
    words = ["convert", "a.pdf", "feed.xml", "--from", "gsa-feed", "--progress", "none"]
    assert main([*words, "-o", "out", "--to", "avro"]) == 1
    assert b'"unknown-format": 1' in Path("out/report.json").read_bytes()


@pytest.mark.parametrize("others", [[], ["feed.xml"]], ids=["alone", "among feeds"])
def test_the_message_about_a_file_of_another_format_names_the_fix(
    others: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(here / "groups.xml", xmlgroups("").encode())
    put(here / "feed.xml", gsa_feed(document(1)))
    words = ["convert", "groups.xml", *others, "--from", "gsa-feed", "--progress", "none"]
    assert main([*words, "-o", "out", "--to", "avro"]) == (1 if others else 4)
    assert (
        "root element 'xmlgroups'; expected <gsafeed>; the file is gsa-groups: expected no --from,"
        " or in a job source.type: feeds"
    ) in "".join(capsys.readouterr())
