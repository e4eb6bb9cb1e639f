"""Whole conversions by the command line: what they leave, print and answer."""

import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import fastavro
import pytest

from pipelines.cli.main import main
from support import served
from support.archives import (
    ACL,
    BROKEN,
    DELETED,
    HOST,
    document,
    documents,
    gsa_feed,
    native,
    put,
    thunderstone,
)
from support.runs import ROOT, chunks, column, convert, keep_levels, left, manifest, report

LONG = "plan " * 200
PROTECTED = document(9, inside=ACL)
CRAWLED = [f'<record url="{HOST}/{name}"/>' for name in "ab"]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


@pytest.fixture
def feed(here: Path) -> str:
    """A file with two documents, a broken one and a deletion."""
    put(here / "a.xml", gsa_feed(*documents(1, 2), BROKEN, DELETED))
    return "a.xml"


@pytest.fixture
def good(here: Path) -> str:
    """A file in which nothing is wrong."""
    put(here / "good.xml", gsa_feed(*documents(1, 2)))
    return "good.xml"


@pytest.fixture
def long(here: Path) -> str:
    """A full feed that takes two chunks of 64 KiB."""
    put(here / "long.xml", gsa_feed(*documents(1, 80, text=LONG), feedtype="full"))
    return "long.xml"


def run_in(folder: Path, *args: str) -> Path:
    """Convert into `out` of a folder that is the same for a whole module; return that."""
    with keep_levels(), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        convert(*args, "-o", "out")
    return folder / "out"


def overwrite(path: Path, text: bytes) -> None:
    """Write a file that looks as it did: as long, and changed at the same moment."""
    before = path.stat()
    path.write_bytes(text.ljust(before.st_size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


# Exit codes


def test_a_run_without_rejects_ends_with_0(good: str) -> None:
    assert convert(good, "-o", "out", "--to", "avro") == 0


def test_a_run_with_rejects_ends_with_1(feed: str) -> None:
    assert convert(feed, "-o", "out", "--to", "avro") == 1


def test_an_input_that_is_not_there_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    code = convert("nowhere.xml", "-o", "out", "--to", "avro")

    message = "INPUT: 'nowhere.xml' is not there; expected a file, folder, glob, uri or -"
    assert (code, capsys.readouterr().err) == (2, f"feedferry: {message}\n")


def test_an_output_that_is_a_file_ends_with_2(
    good: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = convert(good, "-o", good, "--to", "avro")

    message = "-o good.xml: Not a directory; expected a folder to write in"
    assert (code, capsys.readouterr().err) == (2, f"feedferry: {message}\n")


def test_known_urls_that_are_not_there_end_with_2(
    good: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = convert(good, "-o", "out", "--to", "gsa-feed", "--known-urls", "no.txt")

    cause = "[Errno 2] No such file or directory: 'no.txt'"
    message = f"--known-urls no.txt: {cause}; expected a URL on each line"
    assert (code, capsys.readouterr().err) == (2, f"feedferry: {message}\n")


@pytest.mark.parametrize(
    "args",
    [("nowhere.xml", "--to", "avro"), ("good.xml", "--to", "gsa-feed", "--known-urls", "no.txt")],
    ids=["input", "known-urls"],
)
@pytest.mark.usefixtures("good")
def test_a_run_that_ends_with_2_has_touched_nothing(args: tuple[str, ...]) -> None:
    convert(*args, "-o", "out")

    assert left(".") == ["good.xml"]


def test_an_acl_that_would_be_lost_ends_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    source = put(Path("a.xml"), gsa_feed(document(1), PROTECTED))
    code = convert(source, "-o", "out", "--to", "thunderstone")

    message = f"a.xml: {HOST}/9.txt: acl: 1 principal; --accept-loss acl goes on without it"
    assert (code, capsys.readouterr().err) == (3, f"feedferry: {message}\n")


def test_an_acl_may_be_lost_where_its_user_accepts_that() -> None:
    source = put(Path("a.xml"), gsa_feed(document(1), PROTECTED))

    assert convert(source, "-o", "out", "--to", "thunderstone", "--accept-loss", "acl") == 0


def test_a_content_that_would_be_lost_ends_with_3(good: str) -> None:
    code = convert(good, "-o", "out", "--to", "gsa-feed", "--feedtype", "metadata-and-url")

    assert code == 3


def test_a_loss_that_is_to_fail_ends_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    locked = (
        f'<record url="{HOST}/a" mimetype="text/plain" lock="true"><content>a</content></record>'
    )
    source = put(Path("a.xml"), gsa_feed(locked))
    code = convert(source, "-o", "out", "--to", "thunderstone", "--fail-on-loss", "lock")

    message = f"a.xml: {HOST}/a: lock: true; --accept-loss lock goes on without it"
    assert (code, capsys.readouterr().err) == (3, f"feedferry: {message}\n")


def test_more_rejects_than_allowed_end_with_3(
    feed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = convert(feed, "-o", "out", "--to", "avro", "--max-rejects", "0")

    reject = "a.xml:5 (byte 348): an & that is not escaped; expected &amp;"
    message = f"{reject}; this is more than the 0 rejects that --max-rejects allows"
    assert (code, capsys.readouterr().err) == (3, f"feedferry: {message}\n")


def test_a_greater_share_of_rejects_than_allowed_ends_with_3(
    feed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = convert(feed, "-o", "out", "--to", "avro", "--max-rejects", "24.9%")

    found = "1 of 4 records rejected; expected at most what --max-rejects allows"
    message = f"{found}; nothing is published"
    assert (code, capsys.readouterr().err) == (3, f"feedferry: {message}\n")


def test_the_rejects_of_all_spans_are_counted_together(feed: str) -> None:
    other = put(Path("b.xml"), gsa_feed(BROKEN))

    assert convert(feed, other, "-o", "out", "--to", "avro", "--max-rejects", "1") == 3


def test_a_share_of_rejects_that_is_allowed_ends_with_1(feed: str) -> None:
    assert convert(feed, "-o", "out", "--to", "avro", "--max-rejects", "25%") == 1


def test_a_torn_input_ends_with_1() -> None:
    torn = put(Path("a.xml.gz"), gzip.compress(gsa_feed(document(1)))[:-9])
    code = convert(torn, "-o", "out", "--to", "avro", "--from", "gsa-feed")

    assert (code, report("out")["account"]["reject_codes"]["torn-compression"]) == (1, 1)


@pytest.mark.parametrize(
    ("text", "look"),
    [
        (b"", "an empty file"),
        (b"\x89PNG\r\n\x1a\n", "a PNG image"),
        (b'<?xml version="1.0"?>\n<rss version="2.0"/>', "an RSS feed"),
        (b"plan\n", "plain text"),
    ],
)
def test_an_input_of_no_known_format_ends_with_2_and_touches_nothing(
    capsys: pytest.CaptureFixture[str], text: bytes, look: str
) -> None:
    code = convert(put(Path("a.xml"), text), "-o", "out", "--to", "avro")

    message = f"feedferry: INPUT: 'a.xml' looks like {look}; expected one of the formats gsa-feed, "
    assert (code, Path("out").exists()) == (2, False)
    assert capsys.readouterr().err.startswith(message)


def test_an_uri_of_an_unknown_scheme_is_no_defect() -> None:
    assert convert("nosuch://host/a.xml", "-o", "out", "--to", "avro") in {2, 4}


def test_a_feed_without_a_datasource_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    source = put(Path("items.xml"), thunderstone(f"{HOST}/a"))
    convert(source, "-o", "out", "--to", "gsa-feed")

    message = "items.xml: no datasource in the source; expected --datasource NAME"
    assert capsys.readouterr().err == f"feedferry: {message}\n"


# What a run leaves


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run from a feed with a broken record to Avro."""
    folder = tmp_path_factory.mktemp("finished")
    put(folder / "a.xml", gsa_feed(*documents(1, 2), BROKEN, DELETED))
    return run_in(folder, "a.xml", "--to", "avro")


def test_a_finished_run_leaves_what_it_promises(finished: Path) -> None:
    assert left(finished) == [
        "chunks/",
        "chunks/000001.avro",
        "manifest.jsonl",
        "rejects/",
        "rejects/00000-00000.avro",
        "report.json",
    ]


def test_a_run_without_rejects_leaves_no_folder_for_them(good: str) -> None:
    convert(good, "-o", "out", "--to", "avro")

    assert "rejects/" not in left("out")


@pytest.mark.parametrize("span_bytes", ["32MiB", "300"], ids=["one-span", "many-spans"])
def test_a_run_that_is_stopped_leaves_nothing_that_looks_finished(span_bytes: str) -> None:
    source = put(Path("a.xml"), gsa_feed(*documents(1, 8), BROKEN, PROTECTED))
    convert(source, "-o", "out", "--to", "thunderstone", "--span-bytes", span_bytes)

    assert os.listdir("out") == [".work"]


def test_a_run_whose_manifest_cannot_be_written_leaves_no_chunks(good: str) -> None:
    Path("out/manifest.jsonl.partial").mkdir(parents=True)
    convert(good, "-o", "out", "--to", "avro")

    assert "chunks/" not in left("out")


def test_a_run_whose_manifest_could_not_be_written_is_resumed(good: str) -> None:
    Path("out/manifest.jsonl.partial").mkdir(parents=True)
    convert(good, "-o", "out", "--to", "avro")
    Path("out/manifest.jsonl.partial").rmdir()

    assert convert(good, "-o", "out", "--to", "avro") == 0


def test_a_manifest_line_tells_all_of_a_chunk(good: str) -> None:
    convert(good, "-o", "out", "--to", "gsa-feed")

    [text] = chunks("out")
    assert manifest("out") == [
        {
            "asked": "incremental",
            "attempts": 0,
            "bytes": len(text),
            "datasource": "intranet",
            "feedtype": "incremental",
            "first_url": f"{HOST}/1.txt",
            "format": "gsa-feed",
            "last_url": f"{HOST}/2.txt",
            "members": 0,
            "note": None,
            "ordinal": 1,
            "origin": None,
            "path": "chunks/000001.xml",
            "records": {"ADD": 2},
            "reply": None,
            "sha256": hashlib.sha256(text).hexdigest(),
            "source": "good.xml",
            "span": 0,
            "state": "ready",
        }
    ]


def test_rejects_can_be_read_with_their_original_bytes(finished: Path) -> None:
    with (finished / "rejects" / "00000-00000.avro").open("rb") as stream:
        rejects: list[Any] = list(fastavro.reader(stream))
    found = [(reject["source"], reject["data"]) for reject in rejects]
    assert found == [("a.xml", BROKEN.encode())]


def test_the_report_names_its_inputs(finished: Path) -> None:
    assert report(finished)["sources"] == ["a.xml"]


def test_the_report_holds_the_account(finished: Path) -> None:
    assert report(finished)["account"] == {
        "read": {"ADD": 2, "DELETE": 1, "UNKNOWN": 1},
        "expanded": {},
        "written": {"ADD": 2, "DELETE": 1},
        "rejected": {"UNKNOWN": 1},
        "filtered": {},
        "reject_codes": {"malformed": 1},
        "filter_codes": {},
        "defects": {},
        "losses": {},
        "notices": {},
        "spans": 1,
        "bytes_read": (finished.parent / "a.xml").stat().st_size,
    }


def test_the_report_has_a_version_and_the_exit_code(finished: Path) -> None:
    assert (report(finished)["version"], report(finished)["exit_code"]) == (1, 1)


def test_the_report_does_not_name_folders_that_are_gone(finished: Path) -> None:
    assert ".work" not in (finished / "report.json").read_text("utf-8")


def test_a_feed_whose_records_are_all_rejected_leaves_no_chunk() -> None:
    source = put(Path("a.xml"), gsa_feed(BROKEN, BROKEN))
    code = convert(source, "-o", "out", "--to", "thunderstone")

    assert (code, chunks("out"), manifest("out")) == (1, [], [])


# What a run prints


def test_the_account_is_printed(feed: str, capsys: pytest.CaptureFixture[str]) -> None:
    convert(feed, "-o", "out", "--to", "native")

    assert capsys.readouterr().out == (
        "                 read     written    rejected    filtered\n"
        "ADD                 2           2           0           0\n"
        "DELETE              1           1           0           0\n"
        "UNKNOWN             1           0           1           0\n"
        "total               4           3           1           0\n"
        "rejects   malformed 1, in out/rejects/\n"
        "chunks    1, 637 bytes, in out/chunks/\n"
        "report    out/report.json\n"
    )


def test_the_account_is_printed_as_json(feed: str, capsys: pytest.CaptureFixture[str]) -> None:
    convert(feed, "-o", "out", "--to", "avro", "--format", "json")

    assert json.loads(capsys.readouterr().out) == report("out")


def test_nothing_but_the_account_is_printed(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    convert(good, "-o", "out", "--to", "avro")

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("flags", [(), ("--format", "json")])
def test_a_quiet_run_prints_its_account_and_nothing_on_stderr(
    good: str, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    main(["convert", good, "-o", "out", "--to", "avro", *flags])
    account = capsys.readouterr().out
    main(["convert", good, "-o", "out", "--to", "avro", *flags, "--fresh", "-q"])

    assert capsys.readouterr() == (account, "")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_verbose_run_says_what_is_opened_and_converted_and_nothing_of_beam(
    feed: str, here: Path, jobs: str
) -> None:
    words = (feed, "-o", "out", "--to", "avro", "--jobs", jobs, "--progress", "none", "-v")
    err = served.run("convert", *words, cwd=here).stderr.splitlines()

    opened = f"INFO transforms.sources.files: {feed}: opened at byte 0"
    begun = f"INFO transforms.convert: span 00000-00000 of {feed}: begun"
    assert {opened, begun} < set(err)
    assert [line for line in err if not line.startswith("INFO transforms.")] == []
    assert [line.partition("ended; ")[2] for line in err if "ended" in line] == [
        "4 read, 3 written, 1 rejected, 0 filtered, 1 chunks"
    ]


def test_a_run_with_workers_says_nothing_of_beam(good: str, here: Path) -> None:
    words = (good, "-o", "out", "--to", "avro", "--jobs", "2", "--progress", "none")
    run = served.run("convert", *words, cwd=here)

    assert (run.returncode, run.stderr) == (0, "")


def test_a_stopped_run_prints_no_account(feed: str, capsys: pytest.CaptureFixture[str]) -> None:
    convert(feed, "-o", "out", "--to", "avro", "--max-rejects", "0")

    assert capsys.readouterr().out == ""


# Inputs


def test_files_keep_the_order_in_which_they_are_given(good: str, feed: str) -> None:
    convert(good, feed, "-o", "out", "--to", "avro")

    assert column("out", "source") == ["good.xml", "a.xml"]


def test_files_of_a_folder_stand_in_the_order_of_their_names() -> None:
    put(Path("in/b.xml"), gsa_feed(document(2)))
    put(Path("in/a.xml"), gsa_feed(document(1)))
    put(Path("in/a/c.xml"), gsa_feed(document(3)))
    convert("in", "-o", "out", "--to", "avro")

    assert column("out", "source") == ["in/a.xml", "in/a/c.xml", "in/b.xml"]


def test_inputs_may_be_of_different_formats() -> None:
    put(Path("in/1.jsonl"), native(f"{HOST}/1"))
    put(Path("in/2.xml"), thunderstone(f"{HOST}/2"))
    put(Path("in/3.xml.gz"), gzip.compress(gsa_feed(document(3))))
    convert("in", "-o", "out", "--to", "avro")

    assert column("out", "last_url") == [f"{HOST}/1", f"{HOST}/2", f"{HOST}/3.txt"]


def test_what_an_unfinished_run_left_below_its_input_is_no_input() -> None:
    put(Path("in/a.xml"), gsa_feed(document(1), BROKEN))
    convert("in", "-o", "in/out", "--to", "native", "--max-rejects", "0%")
    convert("in", "-o", "in/out", "--to", "native")

    assert report("in/out")["sources"] == ["in/a.xml"]


def test_standard_input_is_read() -> None:
    code = "from pipelines.cli.main import main; raise SystemExit(main())"
    subprocess.run(
        [sys.executable, "-c", code, "convert", "-", "-o", "out", "--to", "native", "-q"],
        check=True,
        input=gsa_feed(*documents(1, 2)),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
    )

    assert column("out", "records") == [{"ADD": 2}]


def test_standard_input_is_read_where_a_fresh_run_begins(
    monkeypatch: pytest.MonkeyPatch, good: str
) -> None:
    with Path(good).open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        code = convert("-", "-o", "out", "--to", "native", "--fresh")

    assert (code, column("out", "records")) == (0, [{"ADD": 2}])


def test_standard_input_of_no_known_format_leaves_no_copy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    image = tmp_path / "image.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n")
    with image.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        code = convert("-", "-o", "out", "--to", "native")

    assert (code, Path("out").exists()) == (2, False)


def test_standard_input_is_called_by_the_name_that_its_user_gave_it(
    monkeypatch: pytest.MonkeyPatch, good: str
) -> None:
    with Path(good).open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        convert("-", "-o", "out", "--to", "native")

    assert column("out", "source") == ["-"]


# Chunks


def test_a_full_feed_in_several_chunks_is_one_full_and_then_incrementals(long: str) -> None:
    convert(long, "-o", "out", "--to", "gsa-feed", "--max-chunk-bytes", "64KiB")

    assert column("out", "feedtype") == ["full", "incremental"]


def test_a_chunk_has_no_more_records_than_are_asked_for(tmp_path: Path) -> None:
    feed = put(tmp_path / "seven.xml", gsa_feed(*documents(1, 7), feedtype="full"))
    convert(feed, "-o", "out", "--to", "gsa-feed", "--max-chunk-records", "3")

    assert column("out", "records") == [{"ADD": 3}, {"ADD": 3}, {"ADD": 1}]
    assert column("out", "feedtype") == ["full", "incremental", "incremental"]


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run from a full feed in three spans."""
    folder = tmp_path_factory.mktemp("wide")
    put(folder / "wide.xml", gsa_feed(*documents(1, 12, text=LONG * 100), feedtype="full"))
    return run_in(folder, "wide.xml", "--to", "gsa-feed", "--span-bytes", "400KB")


def test_a_full_feed_in_several_spans_is_one_full_and_then_incrementals(wide: Path) -> None:
    assert column(wide, "feedtype") == ["full", "incremental", "incremental"]


def test_the_header_of_a_chunk_says_what_the_manifest_says(wide: Path) -> None:
    headers = [text.partition(b"<feedtype>")[2].partition(b"<")[0] for text in chunks(wide)]
    assert headers == [b"full", b"incremental", b"incremental"]


@pytest.fixture(scope="module")
def restated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run from a full feed whose first span leaves nothing to write."""
    folder = tmp_path_factory.mktemp("restated")
    broken = documents(1, 4, text="fish & chips " * 10_000)
    good = documents(5, 12, text=LONG * 100)
    put(folder / "late.xml", gsa_feed(*broken, *good, feedtype="full"))
    return run_in(folder, "late.xml", "--to", "gsa-feed", "--span-bytes", "400KB")


def test_the_first_chunk_is_full_also_where_the_first_span_left_nothing(restated: Path) -> None:
    assert column(restated, "feedtype") == ["full", "incremental"]


def test_the_header_is_full_also_where_the_first_span_left_nothing(restated: Path) -> None:
    full = [b"<feedtype>full</feedtype>" in text for text in chunks(restated)]
    assert full == [True, False]


def test_the_manifest_describes_a_chunk_that_was_stated_anew(restated: Path) -> None:
    found = list(zip(column(restated, "bytes"), column(restated, "sha256"), strict=True))

    assert found == [(len(text), hashlib.sha256(text).hexdigest()) for text in chunks(restated)]


def test_a_chunk_that_was_stated_anew_has_its_records_and_its_end(restated: Path) -> None:
    convert(str(restated / "chunks"), "-o", "again", "--to", "gsa-feed")

    assert chunks("again") == chunks(restated)


def test_a_full_feed_that_passed_an_archive_of_several_chunks_is_still_one(long: str) -> None:
    convert(long, "-o", "archive", "--to", "avro", "--max-chunk-bytes", "64KiB")
    convert("archive/chunks", "-o", "out", "--to", "gsa-feed")

    assert column("out", "feedtype") == ["full", "incremental"]


def test_a_full_feed_that_is_asked_for_is_one_of_all_inputs() -> None:
    put(Path("in/1.xml"), thunderstone(f"{HOST}/1"))
    put(Path("in/2.xml"), thunderstone(f"{HOST}/2"))
    convert("in", "-o", "out", "--to", "gsa-feed", "--datasource", "wiki", "--feedtype", "full")

    assert column("out", "feedtype") == ["full", "incremental"]


@pytest.mark.parametrize("format_", ["gsa-feed", "thunderstone", "avro", "native"])
def test_no_chunk_is_longer_than_asked(long: str, format_: str) -> None:
    convert(long, "-o", "out", "--to", format_, "--max-chunk-bytes", "64KiB")

    sizes = [len(text) for text in chunks("out")]
    assert (max(sizes) > 60_000, max(sizes) <= 65_536) == (True, True)


def test_the_chunks_of_all_files_are_numbered_through(good: str, long: str) -> None:
    convert(good, long, "-o", "out", "--to", "avro", "--max-chunk-bytes", "64KiB")

    found = list(zip(column("out", "ordinal"), column("out", "path"), strict=True))
    assert found == [
        (1, "chunks/000001.avro"),
        (2, "chunks/000002.avro"),
        (3, "chunks/000003.avro"),
    ]


def test_no_record_is_lost_between_chunks(long: str) -> None:
    convert(long, "-o", "out", "--to", "native", "--max-chunk-bytes", "64KiB")

    urls = [json.loads(line)["url"] for line in b"".join(chunks("out")).splitlines()]
    assert urls == [f"{HOST}/{number}.txt" for number in range(1, 81)]


def test_the_index_of_a_thunderstone_is_updated_last(good: str, feed: str) -> None:
    convert(good, feed, "-o", "out", "--to", "thunderstone")

    assert column("out", "records") == [{"ADD": 2}, {"ADD": 2, "DELETE": 1}, {"UPDATE_INDEX": 1}]


def test_the_update_of_the_index_is_a_document_of_its_own(good: str) -> None:
    convert(good, "-o", "out", "--to", "thunderstone")

    assert chunks("out")[-1].decode() == (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<ThunderstoneReplication xmlns:dt="urn:schemas-microsoft-com:datatypes"'
        ' xmlns:u="http://www.thunderstone.com/ParametricSearch/1.0/">\n'
        "<Item><Type>UI</Type></Item>\n"
        "</ThunderstoneReplication>\n"
    )


def test_urls_that_only_a_crawler_can_bring_in_are_listed() -> None:
    put(Path("in/1.xml"), gsa_feed(CRAWLED[0], feedtype="metadata-and-url"))
    put(Path("in/2.xml"), gsa_feed(CRAWLED[1], feedtype="metadata-and-url"))
    convert("in", "-o", "out", "--to", "thunderstone")

    assert Path("out/urls.txt").read_text() == f"{HOST}/a\n{HOST}/b\n"


def test_known_urls_expand_a_deletion_by_pattern() -> None:
    put(Path("known.txt"), f"{HOST}/a/1\n{HOST}/b/1\n{HOST}/a/2\n".encode())
    source = put(Path("a.jsonl"), f'{{"action":"DELETE_PATTERN","url":"{HOST}/a/*"}}\n'.encode())
    args = ("--to", "gsa-feed", "--datasource", "intranet", "--known-urls", "known.txt")
    convert(source, "-o", "out", *args)

    assert column("out", "records") == [{"DELETE": 2}]


def test_a_dialect_is_written(good: str) -> None:
    convert(good, "-o", "out", "--to", "gsa-feed", "--dialect", "5.0")

    assert b"crawl-once" not in chunks("out")[0]


# A second run


def test_a_finished_run_is_not_written_over(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    convert(good, "-o", "out", "--to", "avro", "-q")
    code = convert(good, "-o", "out", "--to", "avro")

    message = "-o out: holds chunks of a finished run; expected another folder, or --fresh"
    assert (code, capsys.readouterr().err) == (2, f"feedferry: {message}\n")


def test_a_fresh_run_takes_the_place_of_a_finished_one(good: str, feed: str) -> None:
    convert(feed, "-o", "out", "--to", "avro")
    convert(good, "-o", "out", "--to", "native", "--fresh")

    assert left("out") == ["chunks/", "chunks/000001.jsonl", "manifest.jsonl", "report.json"]


def test_a_fresh_run_leaves_what_it_did_not_make(good: str) -> None:
    put(Path("out/notes.txt"), b"by hand")
    convert(good, "-o", "out", "--to", "avro", "--fresh")

    assert Path("out/notes.txt").read_bytes() == b"by hand"


def test_a_fresh_run_that_cannot_begin_leaves_the_one_before(good: str) -> None:
    convert(good, "-o", "out", "--to", "avro")
    convert("nowhere.xml", "-o", "out", "--to", "avro", "--fresh")

    assert "chunks/000001.avro" in left("out")


def test_a_fresh_run_does_not_remove_its_own_input(good: str) -> None:
    convert(good, "-o", "out", "--to", "avro")
    convert("out/chunks", "-o", "out", "--to", "native", "--fresh")

    assert "chunks/000001.avro" in left("out")


@pytest.fixture
def interrupted(here: Path) -> tuple[str, str]:
    """Two files of a run that stopped at the second, which is whole now; the first is not."""
    whole = gzip.compress(gsa_feed(document(2)))
    no_feed = gzip.compress(b"hello").ljust(len(whole), b"\0")
    put(here / "1.xml", gsa_feed(document(1)))
    put(here / "2.xml.gz", no_feed)
    convert("1.xml", "2.xml.gz", "-o", "out", "--to", "native", "--from", "gsa-feed", "-q")
    overwrite(here / "1.xml", b"no feed")
    overwrite(here / "2.xml.gz", whole)
    return "1.xml", "2.xml.gz"


def test_a_run_that_was_stopped_goes_on_without_reading_again(
    interrupted: tuple[str, str],
) -> None:
    convert(*interrupted, "-o", "out", "--to", "native", "--from", "gsa-feed")

    assert column("out", "last_url") == [f"{HOST}/1.txt", f"{HOST}/2.txt"]


def test_a_run_goes_on_however_it_is_to_be_shown(interrupted: tuple[str, str]) -> None:
    args = ("-o", "out", "--to", "native", "--from", "gsa-feed", "--format", "json")

    assert convert(*interrupted, *args) == 0


def test_a_run_goes_on_with_more_workers(interrupted: tuple[str, str]) -> None:
    convert(*interrupted, "-o", "out", "--to", "native", "--from", "gsa-feed", "--jobs", "2")

    assert column("out", "last_url") == [f"{HOST}/1.txt", f"{HOST}/2.txt"]


def test_a_fresh_run_does_not_go_on(interrupted: tuple[str, str]) -> None:
    args = ("-o", "out", "--to", "native", "--from", "gsa-feed", "--fresh")

    assert convert(*interrupted, *args) == 4


def test_a_run_does_not_go_on_with_an_input_that_has_changed(
    interrupted: tuple[str, str],
) -> None:
    put(Path(interrupted[0]), gsa_feed(document(7)))
    convert(*interrupted, "-o", "out", "--to", "native", "--from", "gsa-feed")

    assert column("out", "last_url") == [f"{HOST}/7.txt", f"{HOST}/2.txt"]


def test_a_run_that_went_on_leaves_no_unfinished_one(interrupted: tuple[str, str]) -> None:
    convert(*interrupted, "-o", "out", "--to", "native", "--from", "gsa-feed")

    assert ".work/" not in left("out")
