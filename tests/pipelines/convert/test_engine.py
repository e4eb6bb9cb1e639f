"""Whole conversions by the command line: exit codes, files, output, and second runs."""

import gzip
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import fastavro
import pytest

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.convert.engine import Conversion, list_inputs
from feedferry.pipelines.observer.observer import Observer
from feedferry.pipelines.options.convert_checks import parse
from feedferry.transforms.rules.known_rejects import add_known_rejects
from support import forks
from support.archives import (
    ACL,
    BROKEN,
    DELETED,
    HOST,
    document,
    documents,
    gsa_feed,
    put,
    thunderstone,
)
from support.runs import AVRO_RUN, chunks, column, convert, keep_levels, left, report

LONG = "plan " * 200
PROTECTED = document(9, inside=ACL)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


@pytest.fixture
def feed(here: Path) -> str:
    """A file with two documents, a broken one and a deletion."""
    put(here / "a.xml", gsa_feed(*documents(1, 2), BROKEN, DELETED))
    return "a.xml"


@pytest.fixture
def good(here: Path) -> str:
    """A file without errors."""
    put(here / "good.xml", gsa_feed(*documents(1, 2)))
    return "good.xml"


@pytest.fixture
def long(here: Path) -> str:
    """A full feed that takes two chunks of 64 KiB."""
    put(here / "long.xml", gsa_feed(*documents(1, 80, text=LONG), feedtype="full"))
    return "long.xml"


def run_in(folder: Path, *args: str) -> Path:
    """Convert into `out` of a folder that a whole module shares; return `out`."""
    with keep_levels(), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        convert(*args, "-o", "out")
    return folder / "out"


def overwrite(path: Path, text: bytes) -> None:
    """Write a file that looks unchanged: with the same length and time."""
    before = path.stat()
    path.write_bytes(text.ljust(before.st_size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


# Exit codes


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("nowhere.xml", "-o", "out", "--to", "avro"),
            "INPUT: 'nowhere.xml' is not there; expected a file, folder, glob, uri or -",
        ),
        (
            ("good.xml", "-o", "good.xml", "--to", "avro"),
            "-o good.xml: Not a directory; expected a folder to write in",
        ),
        (
            ("good.xml", "-o", "out", "--to", "gsa-feed", "--known-urls", "no.txt"),
            "--known-urls no.txt: [Errno 2] No such file or directory: 'no.txt'; expected a URL on"
            " each line",
        ),
    ],
    ids=["input", "output", "known-urls"],
)
@pytest.mark.usefixtures("good")
def test_a_run_that_cannot_begin_ends_with_2_and_writes_nothing(
    args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = convert(*args)

    assert (code, capsys.readouterr().err) == (2, f"feedferry: {message}\n")
    assert left(".") == ["good.xml"]


@pytest.mark.parametrize(
    ("records", "args", "message"),
    [
        (
            (document(1), PROTECTED),
            ("thunderstone",),
            f"a.xml: {HOST}/9.txt: acl: 1 principal; --accept-loss acl goes on without it",
        ),
        (
            (f'<record url="{HOST}/a" mimetype="a/b" lock="true"><content>a</content></record>',),
            ("thunderstone", "--fail-on-loss", "lock"),
            f"a.xml: {HOST}/a: lock: true; --accept-loss lock goes on without it",
        ),
        (
            (document(1),),
            ("gsa-feed", "--feedtype", "metadata-and-url"),
            f"a.xml: {HOST}/1.txt: content: 6 bytes, NONE; --accept-loss content goes on without"
            " it",
        ),
        (
            (*documents(1, 2), BROKEN, DELETED),
            ("avro", "--max-rejects", "0"),
            "a.xml:5 (byte 348): an & that is not escaped; expected &amp;; this is more than the 0"
            " rejects that --max-rejects allows",
        ),
        (
            (*documents(1, 2), BROKEN, DELETED),
            ("avro", "--max-rejects", "24.9%"),
            "1 of 4 records rejected; expected at most what --max-rejects allows; nothing is"
            " published; feedferry rejects list shows them",
        ),
    ],
    ids=["lost-acl", "fail-on-loss", "lost-content", "rejects", "share-of-rejects"],
)
def test_a_run_above_a_limit_ends_with_3_and_prints_no_account(
    records: tuple[str, ...],
    args: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = put(Path("a.xml"), gsa_feed(*records))
    code = convert(source, "-o", "out", "--to", *args)

    assert (code, capsys.readouterr()) == (3, ("", f"feedferry: {message}\n"))


def test_rejects_are_counted_over_all_spans(feed: str) -> None:
    other = put(Path("b.xml"), gsa_feed(BROKEN))

    assert convert(feed, "-o", "out", "--to", "avro", "--max-rejects", "25%") == 1
    assert convert(feed, other, "-o", "both", "--to", "avro", "--max-rejects", "1") == 3


def test_known_rejects_do_not_make_a_run_end_with_1_and_a_new_one_does(
    feed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    add_known_rejects(Path("known.txt"), [f"malformed {HOST}/torn.txt"])
    words = ("--to", "avro", "--max-rejects", "0", "--accepted-rejects", "known.txt")

    assert convert(feed, "-o", "out", *words) == 0
    assert "rejects   malformed 1 (1 accepted), in out/rejects/" in capsys.readouterr().out
    assert report("out")["account"]["accepted_rejects"] == {"malformed": 1}

    other = put(Path("b.xml"), gsa_feed(BROKEN.replace("torn.txt", "new.txt")))
    assert convert(feed, other, "-o", "both", *words[:2], *words[4:]) == 1
    assert convert(feed, other, "-o", "limited", *words) == 3


def test_a_list_of_known_rejects_that_cannot_be_read_ends_a_run_before_it_begins(
    feed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put(Path("known.txt"), b"malformed\n")

    assert convert(feed, "-o", "out", "--to", "avro", "--accepted-rejects", "known.txt") == 2
    assert capsys.readouterr().err == (
        "feedferry: known.txt:1: 'malformed'; expected '# feedferry known rejects 1'\n"
    )
    assert not Path("out").exists()


def test_a_feed_without_a_datasource_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    source = put(Path("items.xml"), thunderstone(f"{HOST}/a"))
    convert(source, "-o", "out", "--to", "gsa-feed")

    message = "items.xml: no datasource in the source; expected --datasource NAME"
    assert capsys.readouterr().err == f"feedferry: {message}\n"


# Files


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run from a feed with a broken record to Avro."""
    folder = tmp_path_factory.mktemp("finished")
    put(folder / "a.xml", gsa_feed(*documents(1, 2), BROKEN, DELETED))
    return run_in(folder, "a.xml", "--to", "avro")


def test_a_finished_run_leaves_the_documented_files_and_rejects_with_their_bytes(
    finished: Path,
) -> None:
    assert left(finished) == [
        "chunks/",
        "chunks/000001.avro",
        "config.rendered.yaml",
        "manifest.jsonl",
        "rejects/",
        "rejects/00000-00000.avro",
        *("report.html", "report.json", "run.json", "run.log", "timeline.jsonl"),
    ]
    with (finished / "rejects" / "00000-00000.avro").open("rb") as stream:
        rejects: list[Any] = list(fastavro.reader(stream))
    assert [(reject["source"], reject["data"]) for reject in rejects] == [
        ("a.xml", BROKEN.encode())
    ]


def test_the_report_holds_the_account_its_inputs_and_the_exit_code(finished: Path) -> None:
    values = report(finished)
    [sample] = values["account"].pop("reject_samples")["malformed"]

    assert (sample["source"], sample["is_accepted"]) == ("a.xml", False)
    assert (values["sources"], values["version"], values["exit_code"]) == (["a.xml"], 1, 1)
    assert values["account"] == {
        "read": {"ADD": 2, "DELETE": 1, "unreadable": 1},
        "expanded": {},
        "written": {"ADD": 2, "DELETE": 1},
        "rejected": {"unreadable": 1},
        "filtered": {},
        "reject_codes": {"malformed": 1},
        "accepted_rejects": {},
        "filter_codes": {},
        "changed": {},
        "defects": {},
        "losses": {},
        "notices": {},
        "spans": 1,
        "bytes_read": (finished.parent / "a.xml").stat().st_size,
    }
    assert ".work" not in (finished / "report.json").read_text("utf-8")


@pytest.mark.parametrize("span_bytes", ["32MiB", "300"], ids=["one-span", "many-spans"])
def test_a_stopped_run_leaves_nothing_that_looks_finished(span_bytes: str) -> None:
    source = put(Path("a.xml"), gsa_feed(*documents(1, 8), BROKEN, PROTECTED))
    convert(source, "-o", "out", "--to", "thunderstone", "--span-bytes", span_bytes)

    assert sorted(os.listdir("out")) == [
        *(".work", "config.rendered.yaml", "report.html", "run.json", "run.log", "timeline.jsonl")
    ]


def test_a_run_with_the_size_of_spans_that_auto_means_is_the_same_run(
    good: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path("large.xml").open("wb") as stream:
        stream.truncate(10**12)  # without blocks on the disk
    words = {"inputs": (good, "large.xml"), "output": "out", "to_format": "avro"}

    def listed(**others: object) -> Conversion:
        options = parse({**words, "from_format": "gsa-feed", **others})
        return list_inputs(options, Observer())

    automatic = listed()
    assert automatic.span_bytes == listed(span_bytes="auto").span_bytes == 48 << 20
    assert automatic.fingerprint == listed(span_bytes="48MiB").fingerprint
    assert automatic.fingerprint != listed(span_bytes="32MiB").fingerprint
    assert (
        listed(inputs=(good,)).fingerprint == listed(inputs=(good,), span_bytes="32MiB").fingerprint
    )


def test_a_run_that_cannot_write_its_manifest_leaves_no_chunks_and_is_resumed(good: str) -> None:
    Path("out/manifest.jsonl.partial").mkdir(parents=True)
    convert(good, "-o", "out", "--to", "avro")
    assert "chunks/" not in left("out")

    Path("out/manifest.jsonl.partial").rmdir()
    assert convert(good, "-o", "out", "--to", "avro") == 0
    assert left("out") == AVRO_RUN


def test_a_run_with_a_damaged_record_is_resumed(good: str) -> None:
    Path("out/manifest.jsonl.partial").mkdir(parents=True)
    assert convert(good, "-o", "out", "--to", "avro") == 4
    assert json.loads(Path("out/run.json").read_text())["attempts"] == 1
    Path("out/run.json").write_bytes(b"\0" * 20)
    Path("out/manifest.jsonl.partial").rmdir()
    assert convert(good, "-o", "out", "--to", "avro") == 0
    assert left("out") == AVRO_RUN


# Output


def test_the_account_is_printed_as_json_and_by_a_quiet_run(
    feed: str, good: str, capsys: pytest.CaptureFixture[str]
) -> None:
    convert(feed, "-o", "out", "--to", "avro", "--format", "json")
    assert json.loads(capsys.readouterr().out) == report("out")

    main(["convert", good, "-o", "out", "--to", "avro", "--fresh"])
    account = capsys.readouterr().out
    main(["convert", good, "-o", "out", "--to", "avro", "--fresh", "-q"])
    assert capsys.readouterr() == (account, "")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_verbose_run_logs_spans_and_chunks_and_nothing_of_beam(
    feed: str, here: Path, jobs: str
) -> None:
    words = (feed, "-o", "out", "--to", "avro", "--jobs", jobs, "--progress", "none", "-v")
    lines = forks.run("convert", *words, cwd=here).stderr.splitlines()
    err = [line.partition(" ")[2] for line in lines]

    begun = f"INFO - out span 00000-00000 of {feed}: begun"
    published = "INFO - out chunks/000001.avro: published; "
    assert (err.count(begun), sum(line.startswith(published) for line in err)) == (1, 1)
    assert [line for line in err if not line.startswith(("INFO - - ", "INFO - out "))] == []
    assert [line.partition("ended; ")[2] for line in err if "00000-00000" in line][1:] == [
        "4 read, 3 written, 1 rejected, 0 filtered, 1 chunks"
    ]


# Inputs


@pytest.mark.parametrize(
    ("text", "ended"),
    [(gsa_feed(document(1)), (0, True)), (b"\x89PNG\r\n\x1a\n", (2, False))],
    ids=["feed", "image"],
)
def test_standard_input_is_read_by_a_fresh_run_and_no_copy_is_left_of_another_format(
    text: bytes, ended: tuple[int, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path(put(Path("input"), text)).open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        code = convert("-", "-o", "out", "--to", "jsonl", "--fresh")

    assert (code, Path("out").exists()) == ended


# Chunks


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run from a full feed in three spans."""
    folder = tmp_path_factory.mktemp("wide")
    put(folder / "wide.xml", gsa_feed(*documents(1, 12, text=LONG * 100), feedtype="full"))
    return run_in(folder, "wide.xml", "--to", "gsa-feed", "--span-bytes", "400KB")


@pytest.fixture(scope="module")
def restated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run from a full feed whose first span has nothing to write."""
    folder = tmp_path_factory.mktemp("restated")
    broken = documents(1, 4, text="fish & chips " * 10_000)
    good = documents(5, 12, text=LONG * 100)
    put(folder / "late.xml", gsa_feed(*broken, *good, feedtype="full"))
    words = ("--to", "gsa-feed", "--span-bytes", "400KB", "--accept-holes")
    return run_in(folder, "late.xml", *words)


@pytest.mark.parametrize(
    ("fixture", "feedtypes"),
    [
        ("wide", ["full", "incremental", "incremental"]),
        ("restated", ["full", "incremental", "incremental"]),
    ],
)
def test_a_full_feed_in_several_spans_is_one_full_and_then_incrementals(
    fixture: str, feedtypes: list[str], request: pytest.FixtureRequest
) -> None:
    out: Path = request.getfixturevalue(fixture)

    headers = [text.partition(b"<feedtype>")[2].partition(b"<")[0] for text in chunks(out)]
    assert (column(out, "feedtype"), [header.decode() for header in headers]) == (
        feedtypes,
        feedtypes,
    )


def test_a_chunk_with_another_feedtype_is_described_anew_and_complete(restated: Path) -> None:
    described = list(zip(column(restated, "bytes"), column(restated, "sha256"), strict=True))
    convert(str(restated / "chunks"), "-o", "again", "--to", "gsa-feed")

    texts = chunks(restated)
    assert described == [(len(text), hashlib.sha256(text).hexdigest()) for text in texts]
    assert chunks("again") == texts


def test_the_feedtype_full_makes_one_full_feed_of_all_inputs() -> None:
    put(Path("in/1.xml"), thunderstone(f"{HOST}/1"))
    put(Path("in/2.xml"), thunderstone(f"{HOST}/2"))
    convert("in", "-o", "out", "--to", "gsa-feed", "--datasource", "wiki", "--feedtype", "full")

    assert column("out", "feedtype") == ["full", "incremental"]


def test_a_chunk_has_at_most_the_stated_number_of_records() -> None:
    feed = put(Path("seven.xml"), gsa_feed(*documents(1, 7), feedtype="full"))
    convert(feed, "-o", "out", "--to", "gsa-feed", "--max-chunk-records", "3")

    assert column("out", "records") == [{"ADD": 3}, {"ADD": 3}, {"ADD": 1}]
    assert column("out", "feedtype") == ["full", "incremental", "incremental"]


@pytest.mark.parametrize("format_", ["gsa-feed", "thunderstone", "avro", "jsonl"])
def test_chunks_of_all_files_are_numbered_and_have_at_most_the_stated_number_of_bytes(
    good: str, long: str, format_: str
) -> None:
    convert(good, long, "-o", "out", "--to", format_, "--max-chunk-bytes", "64KiB")

    sizes = [len(text) for text in chunks("out")]
    assert (max(sizes) > 60_000, max(sizes) <= 65_536) == (True, True)
    assert column("out", "ordinal")[:3] == [1, 2, 3]
    if format_ == "jsonl":
        urls = [json.loads(line)["url"] for line in b"".join(chunks("out")).splitlines()]
        assert urls == [f"{HOST}/{number}.txt" for number in (1, 2, *range(1, 81))]


def test_urls_that_must_be_crawled_are_listed() -> None:
    for name in "ab":
        crawled = gsa_feed(f'<record url="{HOST}/{name}"/>', feedtype="metadata-and-url")
        put(Path(f"in/{name}.xml"), crawled)
    convert("in", "-o", "out", "--to", "thunderstone")

    assert Path("out/urls.txt").read_text() == f"{HOST}/a\n{HOST}/b\n"


def test_known_urls_expand_a_deletion_by_pattern() -> None:
    put(Path("known.txt"), f"{HOST}/a/1\n{HOST}/b/1\n{HOST}/a/2\n".encode())
    source = put(Path("a.jsonl"), f'{{"action":"DELETE_PATTERN","url":"{HOST}/a/*"}}\n'.encode())
    args = ("--to", "gsa-feed", "--datasource", "intranet", "--known-urls", "known.txt")
    convert(source, "-o", "out", *args)

    assert column("out", "records") == [{"DELETE": 2}]


# A second run


def test_a_complete_run_that_is_started_again_ends_as_it_did(
    feed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = (feed, "-o", "out", "--to", "avro")
    put(Path(feed), gsa_feed(document(1), BROKEN))
    assert convert(*command) == 1
    before = left("out"), Path("out/run.json").read_bytes()
    capsys.readouterr()
    assert [convert(*command), convert(*command, "-q")] == [1, 1]
    text = "feedferry: out: complete, nothing is left to do; --fresh converts again\n"
    assert capsys.readouterr() == ("", text)
    assert (left("out"), Path("out/run.json").read_bytes()) == before


@pytest.mark.parametrize("change", ["settings", "inputs", "chunks", "appliance"])
def test_a_finished_run_is_not_overwritten(
    good: str, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [good, "-o", "out", "--to", "avro"]
    convert(*command, "-q")
    if change == "settings":
        command += ["--max-chunk-records", "1"]
    elif change == "inputs":
        put(Path(good), Path(good).read_bytes() + b"\n")
    elif change == "chunks":
        Path("out/chunks/000001.avro").unlink()
    else:
        command = [*command[:-1], "gsa-feed", "--push-to", "http://gsa.example.com:19900"]
    before = Path("out/run.json").read_bytes()
    capsys.readouterr()
    code = convert(*command)

    message = "-o out: holds chunks of a finished run; expected another folder, or --fresh"
    assert (code, capsys.readouterr().err) == (2, f"feedferry: {message}\n")
    assert Path("out/run.json").read_bytes() == before


def test_a_fresh_run_replaces_a_finished_one_and_keeps_other_files(good: str, feed: str) -> None:
    convert(feed, "-o", "out", "--to", "avro", "--fresh")
    put(Path("out/notes.txt"), b"by hand")
    convert(good, "-o", "out", "--to", "jsonl", "--fresh")

    assert left("out") == [
        *("chunks/", "chunks/000001.jsonl", "config.rendered.yaml", "manifest.jsonl", "notes.txt"),
        *("report.html", "report.json", "run.json", "run.log", "timeline.jsonl"),
    ]


@pytest.mark.parametrize("source", ["nowhere.xml", "out/chunks"])
def test_a_fresh_run_that_cannot_begin_removes_nothing(good: str, source: str) -> None:
    convert(good, "-o", "out", "--to", "avro")
    code = convert(source, "-o", "out", "--to", "jsonl", "--fresh")

    assert (code, "chunks/000001.avro" in left("out")) == (2, True)


RESUMED = (
    *("1.xml", "2.xml.gz", "-o", "out", "--to", "jsonl", "--from", "gsa-feed"),
    *("--max-rejects", "0"),
)


@pytest.fixture
def interrupted(here: Path) -> None:
    """A run that stopped at its second file, which is whole now; the first one no longer is."""
    whole = gzip.compress(gsa_feed(document(2)))
    no_feed = gzip.compress(b"hello").ljust(len(whole), b"\0")
    put(here / "1.xml", gsa_feed(document(1)))
    put(here / "2.xml.gz", no_feed)
    convert(*RESUMED, "-q")
    overwrite(here / "1.xml", b"no feed")
    overwrite(here / "2.xml.gz", whole)


@pytest.mark.parametrize("args", [(), ("--format", "json"), ("--jobs", "2")], ids=str)
@pytest.mark.usefixtures("interrupted")
def test_a_stopped_run_is_resumed_without_reading_again(args: tuple[str, ...]) -> None:
    code = convert(*RESUMED, *args)

    assert (code, column("out", "last_url")) == (0, [f"{HOST}/1.txt", f"{HOST}/2.txt"])
    assert ".work/" not in left("out")


@pytest.mark.usefixtures("interrupted")
def test_a_fresh_run_is_not_resumed() -> None:
    assert convert(*RESUMED, "--fresh") == 3


@pytest.mark.usefixtures("interrupted")
def test_a_run_is_not_resumed_for_an_input_that_has_changed() -> None:
    put(Path("1.xml"), gsa_feed(document(7)))
    convert(*RESUMED)

    assert column("out", "last_url") == [f"{HOST}/7.txt", f"{HOST}/2.txt"]
