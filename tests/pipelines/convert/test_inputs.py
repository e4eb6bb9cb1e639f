"""The files that the arguments INPUT… name, their order, and the messages about other arguments."""

import hashlib
import io
import os
from pathlib import Path

import pytest

from feedferry.pipelines.convert.inputs.input_files import group_spans, list_spans
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.span import FileSignature, Span, UnreadableFile
from support.archives import HOST, document, gsa_feed, jsonl, put, thunderstone
from support.spools import HandSpool

FEED = gsa_feed(document(1))

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(autouse=True)
def folder(here: Path) -> None:
    """A folder with feeds at two depths, and hidden files."""
    for name in ("b.xml", "a/c.xml", ".hidden.xml", ".cache/d.xml"):
        put(here / "in" / name, FEED)


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FEED)))


def spans(*inputs: str, from_format: str | None = "gsa-feed") -> list[Span]:
    options = ConvertOptions(
        inputs=inputs, output="out", to_format="jsonl", from_format=from_format
    )
    return list_spans(options, stdin_copy=Path("spool"))


def refusal(name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        spans(name, from_format=None)
    return str(caught.value)


def test_a_file_is_one_whole_span(here: Path) -> None:
    modified_ns = Path("in/b.xml").stat().st_mtime_ns
    assert spans("in/b.xml") == [
        Span(
            source="in/b.xml",
            path=f"{here}/in/b.xml",
            format="gsa-feed",
            signature=FileSignature(size=len(FEED), modified_ns=modified_ns),
            is_only=True,
        )
    ]


@pytest.mark.usefixtures("stdin")
def test_standard_input_is_copied_and_identified_by_its_digest() -> None:
    before, span, after = spans("in/b.xml", "-", "in/b.xml", from_format=None)

    assert [before.source_ordinal, span.source, after.source_ordinal] == [0, "-", 2]
    assert (span.format, Path("spool").read_bytes()) == ("gsa-feed", FEED)
    digest = hashlib.sha256(FEED).hexdigest()
    assert span.signature == FileSignature(size=len(FEED), sha256=digest)


@pytest.mark.parametrize(
    ("inputs", "sources"),
    [
        (("in/b.xml", "in/a/c.xml", "in/b.xml"), ["in/b.xml", "in/a/c.xml", "in/b.xml"]),
        (("in",), ["in/a/c.xml", "in/b.xml"]),
        (("in/",), ["in/a/c.xml", "in/b.xml"]),
        (("in/*.xml", "in/[ab].xml", "in/*b*"), ["in/b.xml"] * 3),
        (("in/**/c.xml",), ["in/a/c.xml"]),
        (("a[1].xml",), ["a[1].xml"]),
        (("s3://bucket/a.xml",), ["s3://bucket/a.xml"]),
    ],
)
def test_files_of_a_folder_or_glob_are_sorted_and_arguments_keep_their_order(
    inputs: tuple[str, ...], sources: list[str]
) -> None:
    put(Path("a[1].xml"), FEED)
    put(Path("a1.xml"), FEED)
    assert [span.source for span in spans(*inputs)] == sources


def test_a_glob_may_begin_at_the_root_or_in_the_folder_above(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [span.source for span in spans(f"{here}/in/b*")] == [f"{here}/in/b.xml"]
    monkeypatch.chdir(here / "in/a")
    assert [span.source for span in spans("../b*")] == ["../b.xml"]


@pytest.mark.parametrize("name", ["in", "in/*"], ids=["folder", "glob"])
def test_a_name_that_is_not_utf_8_is_a_rejected_span(name: str) -> None:
    put(Path("in/bad\udcff.xml"), FEED)

    (span,) = (span for span in spans(name) if span.format == "unreadable")
    assert span.source == "in/bad\\udcff.xml"
    assert span.position == UnreadableFile(
        "file-name", "'in/bad\\udcff.xml'; expected a name in UTF-8"
    )
    assert refusal("in/bad\udcff.xml") == "INPUT: 'in/bad\\udcff.xml'; expected a name in UTF-8"


@pytest.mark.parametrize(
    ("text", "from_format", "format_"),
    [
        (FEED, None, "gsa-feed"),
        (thunderstone(f"{HOST}/a"), None, "thunderstone"),
        (jsonl(f"{HOST}/a"), None, "jsonl"),
        (b"plain text", "avro", "avro"),
    ],
)
def test_a_format_is_recognised_unless_it_is_named(
    text: bytes, from_format: str | None, format_: str
) -> None:
    put(Path("a"), text)

    [span] = spans("a", from_format=from_format)
    assert span.format == format_


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.pdf", "INPUT: 'a.pdf' looks like a PDF document; expected one of the formats gsa-feed"),
        ("a.xml", "INPUT: 'a.xml' is not there; expected a file, folder, glob, uri or -"),
        ("empty", "INPUT: 'empty' holds no file; expected at least one"),
        ("*.xml", "INPUT: '*.xml' holds no file; expected at least one"),
        ("pipe", "INPUT: 'pipe': a pipe or a device; expected a file, or - for stdin"),
        ("/dev/zero", "INPUT: '/dev/zero': a pipe or a device; expected a file, or - for stdin"),
        ("nosuch://host/*.xml", "unknown scheme 'nosuch'; expected one of s3, "),
    ],
)
def test_an_argument_that_names_no_input_is_refused(name: str, message: str) -> None:
    put(Path("a.pdf"), b"%PDF-1.4")
    Path("empty").mkdir()
    os.mkfifo("pipe")
    assert refusal(name).startswith(message)


@pytest.mark.parametrize(
    ("files", "span_bytes", "expected"),
    [
        ("abc", 1000, [["a", "b", "c"]]),
        ("abc", 20, [["a", "b"], ["c"]]),
        ("Lb", 20, [["L"], ["b"]]),
        ("FF", 1000, [["F"], ["F"]]),
        ("aFcd", 1000, [["a"], ["F"], ["c", "d"]]),
    ],
)
def test_adjacent_files_of_one_record_are_read_together(
    files: str, span_bytes: int, expected: list[list[str]]
) -> None:
    whole = []
    for name in files:
        size = FileSignature(size=99 if name == "L" else 10)
        format_ = "gsa-feed" if name == "F" else "retriever-stream"
        whole.append(Span(source=name, path=name, format=format_, signature=size))
    grouped = group_spans(whole, span_bytes=span_bytes)
    assert [[member.source for member in span.members or (span,)] for span in grouped] == expected


def test_a_span_of_several_files_is_named_after_the_first_and_last() -> None:
    files = [Span(source=name, path=name, format="retriever-stream") for name in "abc"]
    [span] = group_spans(files, span_bytes=1000)

    assert (span.source, span.name, span.format) == ("a … c", "00000-00000", "")


def test_a_folder_with_a_journal_and_feeds_is_a_spool(here: Path) -> None:
    HandSpool("spool").feed(FEED)
    put(Path("other/deliveries.jsonl"), jsonl(HOST))

    [span] = spans("spool/", from_format=None)
    assert span == Span(source="spool", path=f"{here}/spool", format="spool", is_only=True)
    assert [span.source for span in spans("spool/feeds")] == ["spool/feeds/000001.xml"]
    assert [span.format for span in spans("other", from_format=None)] == ["jsonl"]
