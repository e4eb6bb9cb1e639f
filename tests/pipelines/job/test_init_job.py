"""The init verb: a draft of a job file for each kind of source."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from feedferry.pipelines.check.local_checks import check_placeholders
from feedferry.pipelines.cli.main import main
from feedferry.pipelines.job.draft.init_job import write_job
from feedferry.pipelines.job.file.job import Job
from feedferry.pipelines.job.file.job_file import load_job
from feedferry.pipelines.job.run.engine import convert
from feedferry.pipelines.observer.observer import Observer
from feedferry.schemas.delivery import JOURNAL
from support.archives import put
from support.bulk_server import known
from support.format_names import WRITTEN
from support.runs import ROOT, report

SAMPLE = ROOT / "pipelines" / "sample"
RECVDATA = "http://search.example.com/texis/dowalk/recvdata.xml"


def init(source: str, target: str, output: str = "jobs/job.yaml") -> Job:
    """Return the job that the draft for an input states, after a check of the file."""
    Path(output).parent.mkdir(exist_ok=True)
    assert main(["init", "--source", source, "--target", target, "-o", output]) == 0
    assert main(["check", output, "--offline"]) == 0
    return load_job(Path(output), {}, os.environ)


@pytest.fixture
def inputs(here: Path) -> Path:
    """Make an input of each kind; feeds are in `archive`, documents in `docs`."""
    shutil.copytree(SAMPLE, here / "archive")
    put(here / "docs" / "a.html", b"<p>a</p>")
    put(here / "2026" / "a.html", b"<p>a</p>")
    put(here / "spool" / JOURNAL, b"")
    (here / "spool" / "feeds").mkdir()
    put(here / "programs.yaml", b"timeout: 1m\nlister: [./list.sh]\n")
    with closing(sqlite3.connect("people.db")) as database, database:
        database.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
        database.execute("INSERT INTO people VALUES (1, 'Ida'), (2, 'Tim')")
    return here


def test_an_archive_of_feeds_has_its_format_and_the_appliance_its_url(inputs: Path) -> None:
    job = init("archive", RECVDATA)
    assert (job.convert.from_format, job.convert.inputs) == ("gsa-feed", (f"{inputs}/archive",))
    assert (job.convert.to_format, job.push and job.push.appliance.url) == (
        "thunderstone",
        RECVDATA,
    )
    assert "# 3 files of gsa-feed. The first feed is intranet/" in Path("jobs/job.yaml").read_text()


@pytest.mark.parametrize(
    ("source", "target", "type_", "datasource"),
    [
        ("docs", "gsa-feed", "files", "docs"),
        ("archive/01-intranet.xml", "http://gsa.example.com:19900", "gsa-feed", None),
        ("archive/*.xml", "avro", "gsa-feed", None),
        ("programs.yaml", "gsa-feed", "adaptor", "programs"),
        ("spool", "avro", "spool", None),
        ("2026", "gsa-feed", "files", "_2026"),
        ("sqlite:///people.db", "gsa-feed", "database", "people"),
    ],
)
def test_a_draft_has_no_errors(
    inputs: Path, source: str, target: str, type_: str, datasource: str | None
) -> None:
    options = init(source, target, "jobs/docs.yaml").convert
    assert (options.from_format, options.to_format) == (
        type_,
        target.partition(":")[0].replace("http", "gsa-feed"),
    )
    assert options.datasource == datasource


def test_a_draft_of_a_database_has_a_mapping_next_to_it(inputs: Path) -> None:
    Path("jobs").mkdir()
    shutil.copy("people.db", "jobs")
    job = init("sqlite:///people.db", "gsa-feed")
    assert job.convert.mapping == f"{inputs}/jobs/people-mapping.yaml"


def test_the_feed_of_the_first_record_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    origin = '"provenance":{"datasource":"wiki","feedtype":"full"}'
    Path("a.jsonl").write_text(f'{{"url":"http://w.example.com/1","action":"ADD",{origin}}}\n')
    text = write_job("a.jsonl", "avro", None, table=None, schema=None)
    assert "# 1 file of jsonl. The first feed is wiki/full, as DATASOURCE/FEEDTYPE.\n" in text


@pytest.mark.parametrize(
    ("target", "lines"),
    [
        ("gsa-feed", ["# url: http://HOST[:19900], https://HOST[:19902]"]),
        (
            "thunderstone",
            [
                "# url: the whole address of a recvdata.xml",
                "# profile: example  # replace: the profile that receives the documents",
            ],
        ),
        ("bulk", ["# url: http://HOST:PORT/INDEX/_bulk"]),
        ("http://search.example.com/hr/_bulk", ['url: "http://search.example.com/hr/_bulk"']),
        ("avro", []),
    ],
)
def test_a_draft_asks_the_appliance_that_takes_the_format(
    inputs: Path, target: str, lines: list[str]
) -> None:
    with known():
        text = write_job("docs", target, None, table=None, schema=None)
    keys = text.split("target:\n")[1].split("\n\n")[0].splitlines()
    type_ = "bulk" if "bulk" in target else target
    expected = [f"  {line}" for line in (f"type: {type_}", *lines)]
    assert keys[: len(expected)] == expected
    assert "url:" not in "".join(keys[len(expected) :])


def test_a_draft_for_a_search_server_has_the_index_and_its_keys(inputs: Path) -> None:
    job = init("archive/*.xml", "http://127.0.0.1:9200/intranet")
    assert job.push is not None
    assert job.push.appliance.url == "http://127.0.0.1:9200/intranet"
    text = Path("jobs/job.yaml").read_text("utf-8")
    assert '  url: "http://127.0.0.1:9200"\n  index: intranet\n' in text
    assert "# keep_indices: N  # Indexes that stay when a full feed has replaced them.\n" in text
    uncommented = text.replace("# verify: target", "verify: target").replace(
        "# keep_indices: N", "keep_indices: 2"
    )
    Path("jobs/job.yaml").write_text(uncommented, "utf-8")
    assert load_job(Path("jobs/job.yaml"), {}, {}).verify is not None


@pytest.mark.slow
@pytest.mark.parametrize(("source", "read"), [("docs", 1), ("archive", 57)])
def test_a_draft_can_be_converted(inputs: Path, source: str, read: int) -> None:
    job = init(source, "jsonl")
    options = msgspec.structs.replace(job.convert, output="out", state=None)
    flags = msgspec.structs.replace(job, name=None, path=None, home=Path("out"), convert=options)
    assert convert(flags, Observer()).exit_code == 0
    assert sum(report("out")["account"]["read"].values()) == read


@pytest.mark.parametrize(
    ("source", "target", "values"),
    [
        ("docs", "gsa-feed", {"https://docs.example.com/"}),
        ("archive", RECVDATA, {RECVDATA, "example"}),
        ("sqlite:///people.db", "gsa-feed", {"https://people.example.com/{id}"}),
    ],
)
def test_names_that_are_left_in_a_draft_are_warnings_of_plan_and_check(
    inputs: Path,
    capsys: pytest.CaptureFixture[str],
    source: str,
    target: str,
    values: set[str],
) -> None:
    job = init(source, target, "job.yaml")
    lines = {line.found for line in check_placeholders(job.convert.mapping, job)}
    assert lines == {f"{value}: the name of an example" for value in values}
    if job.push is None:
        assert main(["check", "job.yaml"]) == 0
        assert "warn  placeholder" in capsys.readouterr().out
    main(["plan", "job.yaml", "--set", "loss.accept=acl"])
    warnings = [line for line in capsys.readouterr().err.splitlines() if "of an example" in line]
    assert warnings == [
        f"feedferry: {value}: the name of an example; replace it by the real name before documents"
        " are sent"
        for value in sorted(values, reverse=True)
    ]


def test_a_draft_is_printed_without_output(
    inputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--source", "docs", "--target", "gsa-feed"]) == 0
    assert "  path: docs\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--source", "docs"), "--target: not given; see feedferry init --help"),
        (
            ("--source", "docs", "--target", "gsa"),
            f"--target: 'gsa'; expected one of {WRITTEN}, or the URL of an appliance",
        ),
        (
            ("--source", "none", "--target", "avro"),
            "INPUT: 'none' is not there; expected a file, folder, glob, uri or -",
        ),
        (
            ("--source", "none.yaml", "--target", "avro"),
            "none.yaml: No such file or directory; expected a file that can be read",
        ),
        (
            ("--source", "sqlite:///people.db", "--target", "avro"),
            "-o: not given; expected a file, because its mapping is a second file",
        ),
        (
            ("--source", "https://ida:hunter2@h/", "--target", "avro"),
            "--source: a password in plain text; expected ${env:NAME} or ${file:PATH} instead",
        ),
        (
            ("--source", "docs", "--target", "avro", "-o", "programs.yaml"),
            "-o programs.yaml: exists; expected the name of a new file",
        ),
    ],
)
def test_what_cannot_be_drafted_is_refused(
    inputs: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], message: str
) -> None:
    assert main(["init", *args]) == 2
    assert capsys.readouterr().err == f"feedferry: {message}\n"
