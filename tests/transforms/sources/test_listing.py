"""Lines of a listing: written, read and cut into spans."""

import io
from pathlib import Path

import pytest

from feedferry.schemas.sent_document import SentDocument
from feedferry.schemas.span import Span
from feedferry.schemas.span_size import AUTO
from feedferry.transforms.sources.listing import (
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
        sent_document=SentDocument(key="c.zip", url=""),
        members=(SentDocument(key="c.zip/d", url="https://docs.example.com/c.zip/d"),),
    ),
)


def listing(folder: Path, *lines: ListingEntry) -> Span:
    path = folder / "listing"
    write_listing(lines, path)
    return Span(source="docs", path=str(path), source_ordinal=2, format="files")


def keys(part: Span) -> list[str]:
    """Return the keys of the lines in a part of a listing."""
    text = Path(part.path).read_bytes()[part.offset :][: part.length]
    return [entry.key for _, entry in read_listing(io.BytesIO(text))]


def test_lines_are_read_as_they_were_written_with_their_offsets(tmp_path: Path) -> None:
    text = Path(listing(tmp_path, *LINES).path).read_bytes()
    offsets, entries = zip(*read_listing(io.BytesIO(text)), strict=True)
    assert entries == LINES
    assert text[offsets[1] :].startswith(b'{"key":"b\\n')


def test_defaults_are_not_written(tmp_path: Path) -> None:
    span = listing(tmp_path, ListingEntry(key="a"))
    assert Path(span.path).read_bytes() == b'{"key":"a"}\n'


LARGE = ListingEntry(key="large", size=80 * 20_000 << 20)


@pytest.mark.parametrize(
    ("lines", "span_bytes", "expected"),
    [
        ((), 1 << 20, []),
        (LINES, 1 << 20, [["a.txt", "b\n\N{CHERRIES}", "c.zip"]]),
        (LINES, AUTO, [["a.txt", "b\n\N{CHERRIES}", "c.zip"]]),
        (
            [ListingEntry(key=key, size=size << 40) for key, size in (("a", 4), ("b", 5))],
            AUTO,
            [["a"], ["b"]],
        ),
        (
            [ListingEntry(key=key, size=40 << 20) for key in "abc"] + [LARGE],
            AUTO,
            [["a", "b"], ["c"], ["large"]],
        ),
        (LINES, 2100, [["a.txt", "b\n\N{CHERRIES}"], ["c.zip"]]),
        (
            (ListingEntry(key="a"), ListingEntry(key="b", size=1 << 30), ListingEntry(key="c")),
            1 << 20,
            [["a"], ["b"], ["c"]],
        ),
    ],
)
def test_a_listing_is_cut_into_spans_of_about_a_size(
    tmp_path: Path, lines: tuple[ListingEntry, ...], span_bytes: int, expected: list[list[str]]
) -> None:
    parts = list(cut_listing(listing(tmp_path, *lines), span_bytes=span_bytes))
    assert [keys(part) for part in parts] == expected
    assert [(part.format, part.name) for part in parts] == [
        ("listing", f"00002-{number:05d}") for number in range(len(expected))
    ]
