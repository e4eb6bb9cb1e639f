"""What the arguments INPUT… name, in which order, and what is told of those that name nothing."""

import gzip
import hashlib
import io
import sys
from pathlib import Path

import pytest

from pipelines.convert.inputs import changed, group_spans, list_spans, size_of
from schemas.errors import ConfigError
from schemas.span import FileSignature, Span, UnreadableFile
from support.archives import HOST, document, gsa_feed, native, put, thunderstone
from support.spools import HandSpool

FEED = gsa_feed(document(1))

pytestmark = pytest.mark.usefixtures("here")


def spans(*inputs: str, from_format: str | None = "gsa-feed") -> list[Span]:
    return list_spans(inputs, from_format=from_format, spool=Path("spool"))


def sources(*inputs: str) -> list[str]:
    return [span.source for span in spans(*inputs)]


@pytest.fixture
def folder(here: Path) -> str:
    """A folder with two feeds, one in a folder of its own, and what is hidden."""
    put(here / "in" / "b.xml", FEED)
    put(here / "in" / "a" / "c.xml", FEED)
    put(here / "in" / ".hidden.xml", FEED)
    return "in"


def test_a_file_is_one_whole_span() -> None:
    path = str(Path(put(Path("a.xml"), FEED)).absolute())
    modified_ns = Path("a.xml").stat().st_mtime_ns
    signature = FileSignature(size=len(FEED), modified_ns=modified_ns)

    assert spans("a.xml") == [
        Span(source="a.xml", path=path, format="gsa-feed", signature=signature)
    ]


def test_standard_input_is_known_by_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FEED)))
    [span] = spans("-")

    digest = hashlib.sha256(FEED).hexdigest()
    assert span.signature == FileSignature(size=len(FEED), sha256=digest)


def test_files_are_numbered_in_the_order_in_which_they_are_given() -> None:
    put(Path("a.xml"), FEED)
    put(Path("b.xml"), FEED)

    found = [(span.source_ordinal, span.source) for span in spans("b.xml", "a.xml")]
    assert found == [(0, "b.xml"), (1, "a.xml")]


def test_a_file_that_is_given_twice_is_read_twice() -> None:
    put(Path("a.xml"), FEED)

    assert sources("a.xml", "a.xml") == ["a.xml", "a.xml"]


def test_a_folder_is_its_files_at_any_depth_by_name(folder: str) -> None:
    assert sources(folder) == ["in/a/c.xml", "in/b.xml"]


def test_a_folder_may_have_a_slash_at_its_end(folder: str) -> None:
    assert sources(f"{folder}/") == ["in/a/c.xml", "in/b.xml"]


def test_what_is_in_a_hidden_folder_is_no_input(folder: str) -> None:
    put(Path(folder, ".cache", "d.xml"), FEED)

    assert sources(folder) == ["in/a/c.xml", "in/b.xml"]


def test_a_glob_is_the_files_that_it_covers_by_name(folder: str) -> None:
    put(Path(folder, "bb.xml"), FEED)

    assert sources("in/b*.xml") == ["in/b.xml", "in/bb.xml"]


def test_a_glob_covers_no_hidden_file(folder: str) -> None:
    assert sources(f"{folder}/*.xml") == ["in/b.xml"]


def test_a_glob_covers_no_folder(folder: str) -> None:
    assert sources(f"{folder}/*b*", f"{folder}/[ab].xml") == ["in/b.xml", "in/b.xml"]


def test_two_stars_cover_every_depth(folder: str) -> None:
    assert sources(f"{folder}/**/c.xml") == ["in/a/c.xml"]


def test_a_glob_may_begin_at_the_root(folder: str, here: Path) -> None:
    assert sources(f"{here}/{folder}/b*") == [f"{here}/in/b.xml"]


def test_a_glob_may_begin_in_the_folder_above(
    folder: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here / folder / "a")

    assert sources("../b*") == ["../b.xml"]


def test_a_file_whose_name_looks_like_a_glob_is_that_file() -> None:
    put(Path("a[1].xml"), FEED)
    put(Path("a1.xml"), FEED)

    assert sources("a[1].xml") == ["a[1].xml"]


def test_a_name_that_is_no_utf_8_is_told(folder: str) -> None:
    put(Path("bad\udcff.xml"), FEED)

    with pytest.raises(ConfigError) as caught:
        spans("bad\udcff.xml")

    assert str(caught.value) == "INPUT: 'bad\\udcff.xml'; expected a name in UTF-8"


@pytest.mark.parametrize("given", ["in", "in/*"], ids=["folder", "glob"])
def test_a_name_that_is_no_utf_8_among_others_is_a_span_that_is_rejected(
    folder: str, given: str
) -> None:
    put(Path(folder, "bad\udcff.xml"), FEED)

    (span,) = (span for span in spans(given) if span.format == "unreadable")

    assert span.source == "in/bad\\udcff.xml"
    assert span.position == UnreadableFile(
        "file-name", "'in/bad\\udcff.xml'; expected a name in UTF-8"
    )


def test_a_uri_is_taken_as_it_is() -> None:
    assert sources("s3://bucket/a.xml") == ["s3://bucket/a.xml"]


def test_a_glob_of_uris_of_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^unknown scheme 'nosuch'; expected one of s3, "):
        spans("nosuch://host/*.xml")


def test_standard_input_is_copied_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FEED)))
    spans("-")

    assert Path("spool").read_bytes() == FEED


def test_standard_input_may_stand_between_files(monkeypatch: pytest.MonkeyPatch) -> None:
    put(Path("a.xml"), FEED)
    put(Path("b.xml"), FEED)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FEED)))

    assert sources("b.xml", "-", "a.xml") == ["b.xml", "-", "a.xml"]


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        (FEED, "gsa-feed"),
        (thunderstone(f"{HOST}/a"), "thunderstone"),
        (native(f"{HOST}/a"), "native"),
    ],
)
def test_a_format_is_found_by_looking(text: bytes, format_: str) -> None:
    put(Path("a"), text)

    [span] = spans("a", from_format=None)
    assert span.format == format_


def test_a_format_is_found_in_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FEED)))

    [span] = spans("-", from_format=None)
    assert span.format == "gsa-feed"


def test_a_format_that_is_named_is_not_looked_for() -> None:
    put(Path("a"), b"%PDF-1.4")

    [span] = spans("a", from_format="avro")
    assert span.format == "avro"


def test_a_file_of_no_known_format_is_refused() -> None:
    put(Path("a.pdf"), b"%PDF-1.4")

    with pytest.raises(ConfigError, match=r"^INPUT: 'a.pdf' looks like a PDF document; expected "):
        spans("a.pdf", from_format=None)


def test_an_input_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError) as caught:
        spans("a.xml")

    expected = "INPUT: 'a.xml' is not there; expected a file, folder, glob, uri or -"
    assert str(caught.value) == expected


def test_an_empty_folder_is_told() -> None:
    Path("in").mkdir()

    with pytest.raises(ConfigError) as caught:
        spans("in")

    assert str(caught.value) == "INPUT: 'in' holds no file; expected at least one"


def test_a_glob_that_covers_nothing_is_told() -> None:
    with pytest.raises(ConfigError) as caught:
        spans("*.xml")

    assert str(caught.value) == "INPUT: '*.xml' holds no file; expected at least one"


def test_the_size_of_a_file_is_known() -> None:
    put(Path("a"), b"12345")

    assert size_of(Span(path="a")) == 5


def test_the_size_of_a_compressed_file_is_that_on_disk() -> None:
    put(Path("a.gz"), gzip.compress(b" " * 10_000))

    assert size_of(Span(path="a.gz")) < 100


def test_the_size_of_a_remote_file_is_not_asked_for() -> None:
    assert size_of(Span(path="s3://bucket/a.xml")) == 0


def stream(name: str, *, size: int = 10, format_: str = "retriever-stream") -> Span:
    put(Path(name), b"x" * size)
    return Span(source=name, path=name, format=format_)


def grouped(*given: Span, span_bytes: int = 1000) -> list[list[str]]:
    """The sources of each span, those of its members for one that has some."""
    spans = group_spans(list(given), span_bytes=span_bytes)
    return [[one.source for one in span.members or (span,)] for span in spans]


def test_files_of_one_record_are_read_together() -> None:
    assert grouped(stream("a"), stream("b"), stream("c")) == [["a", "b", "c"]]


def test_a_span_of_several_files_is_called_by_its_first_and_last() -> None:
    [span] = group_spans([stream("a"), stream("b"), stream("c")], span_bytes=1000)

    assert (span.source, span.name, span.format) == ("a … c", "00000-00000", "")


def test_files_together_are_no_more_than_a_span() -> None:
    given = (stream("a"), stream("b"), stream("c"))

    assert grouped(*given, span_bytes=20) == [["a", "b"], ["c"]]


def test_a_file_larger_than_a_span_stays_alone() -> None:
    assert grouped(stream("a", size=99), stream("b"), span_bytes=20) == [["a"], ["b"]]


def test_files_of_many_records_stay_alone() -> None:
    feeds = (stream("a", format_="gsa-feed"), stream("b", format_="gsa-feed"))

    assert grouped(*feeds) == [["a"], ["b"]]


def test_files_that_are_read_together_are_of_one_format_and_in_their_order() -> None:
    given = (stream("a"), stream("b", format_="gsa-feed"), stream("c"), stream("d"))

    assert grouped(*given) == [["a"], ["b"], ["c", "d"]]


def test_a_folder_with_a_journal_and_feeds_is_a_spool(here: Path) -> None:
    HandSpool("spool").feed(FEED)

    assert spans("spool/", from_format=None) == [
        Span(source="spool", path=f"{here}/spool", format="spool")
    ]


def test_a_spool_is_what_its_user_says() -> None:
    HandSpool("spool").feed(FEED)

    assert sources("spool/feeds") == ["spool/feeds/000001.xml"]


def test_a_journal_without_feeds_is_a_file() -> None:
    put(Path("in/deliveries.jsonl"), native(HOST))

    assert [span.format for span in spans("in", from_format=None)] == ["native"]


def test_a_spool_that_grows_is_the_same_input() -> None:
    HandSpool("spool").feed(FEED)
    [span] = spans("spool", from_format=None)

    assert (size_of(span), changed(span)) == (0, 0)
