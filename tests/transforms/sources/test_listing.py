"""Lines of a listing, written, read and cut into spans."""

import io
from pathlib import Path

import pytest

from schemas.errors import FatalError
from schemas.sent_document import SentDocument
from schemas.span import Span
from transforms.sources.listing import (
    EntryKind,
    ListingEntry,
    cut_listing,
    read_listing,
    write_listing,
)

LINES = (
    ListingEntry(key="a.txt", path="/docs/a.txt", url="https://docs.example.com/a.txt", size=5),
    ListingEntry(key="b\n\N{CHERRIES}", kind=EntryKind.FILTERED, code="hidden"),
    ListingEntry(
        key="c.zip",
        size=70,
        modified_ns=-1,
        fingerprint="0644",
        sidecars=("/docs/c.zip.meta.json",),
        known=SentDocument(key="c.zip", url=""),
        members=(SentDocument(key="c.zip/d", url="https://docs.example.com/c.zip/d"),),
    ),
)


class Trickle(io.BytesIO):
    """A stream that gives less than is asked for."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(7 if size is None or size < 0 else min(size, 7))


def listing(folder: Path, *lines: ListingEntry) -> Span:
    path = folder / "listing"
    write_listing(lines, path)
    return Span(source="docs", path=str(path), source_ordinal=2, format="files")


def keys(part: Span) -> list[str]:
    """The keys of the lines in a part of a listing."""
    text = Path(part.path).read_bytes()[part.offset :][: part.length]
    return [listed.key for _, listed in read_listing(io.BytesIO(text))]


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    text = Path(listing(tmp_path, *LINES).path).read_bytes()
    assert tuple(listed for _, listed in read_listing(io.BytesIO(text))) == LINES


def test_a_line_has_its_place_in_the_stream(tmp_path: Path) -> None:
    text = Path(listing(tmp_path, *LINES).path).read_bytes()
    offsets = [offset for offset, _ in read_listing(io.BytesIO(text))]
    assert text[offsets[1] :].startswith(b'{"key":"b\\n')


def test_lines_may_come_in_pieces(tmp_path: Path) -> None:
    text = Path(listing(tmp_path, *LINES).path).read_bytes()
    assert tuple(listed for _, listed in read_listing(Trickle(text))) == LINES


def test_what_is_not_stated_is_not_written(tmp_path: Path) -> None:
    span = listing(tmp_path, ListingEntry(key="a"))
    assert Path(span.path).read_bytes() == b'{"key":"a"}\n'


def test_a_listing_has_no_name_until_it_is_whole(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        write_listing(
            (ListingEntry(key=str(1 // number)) for number in (1, 0)), tmp_path / "listing"
        )
    assert list(tmp_path.iterdir()) == []


def test_a_listing_that_cannot_be_written_is_fatal(tmp_path: Path) -> None:
    with pytest.raises(FatalError) as caught:
        write_listing((), tmp_path / "none/listing")
    assert str(caught.value) == (
        f"{tmp_path}/none/listing: No such file or directory; expected to write there"
    )


def test_small_files_are_one_span(tmp_path: Path) -> None:
    (part,) = cut_listing(listing(tmp_path, *LINES), span_bytes=1 << 20)
    assert (part.format, part.ordinal, part.offset, keys(part)) == (
        "listing",
        0,
        0,
        ["a.txt", "b\n\N{CHERRIES}", "c.zip"],
    )


def test_spans_are_of_about_so_many_bytes_in_order(tmp_path: Path) -> None:
    parts = list(cut_listing(listing(tmp_path, *LINES), span_bytes=2100))
    assert [(part.name, keys(part)) for part in parts] == [
        ("00002-00000", ["a.txt", "b\n\N{CHERRIES}"]),
        ("00002-00001", ["c.zip"]),
    ]


def test_a_file_larger_than_a_span_stays_alone(tmp_path: Path) -> None:
    lines = (ListingEntry(key="a"), ListingEntry(key="b", size=1 << 30), ListingEntry(key="c"))
    parts = list(cut_listing(listing(tmp_path, *lines), span_bytes=1 << 20))
    assert [keys(part) for part in parts] == [["a"], ["b"], ["c"]]


def test_a_listing_of_nothing_has_no_span(tmp_path: Path) -> None:
    assert list(cut_listing(listing(tmp_path), span_bytes=1 << 20)) == []
