"""The total of a conversion, by what its sources know, and what its spans have done."""

import gzip
from pathlib import Path

import pytest

from feedferry.pipelines.convert.workers.progress import ConvertProgress
from feedferry.pipelines.observer.progress import Snapshot
from feedferry.schemas.account import Account
from feedferry.schemas.span import FileSignature, KeyRange, Span
from feedferry.transforms.conversion.span_progress import SpanProgress, progress_log
from feedferry.transforms.sources import SpanRequest, read_span
from feedferry.transforms.sources.listing import ListingEntry, cut_listing, write_listing
from support.archives import documents, gsa_feed

FEED = Span(source="a.xml.gz", path="a.xml.gz", format="gsa-feed", signature=FileSignature(size=70))


def total(folder: Path, *spans: Span) -> tuple[int | None, bool]:
    snapshot = ConvertProgress(str(folder), spans).snapshot()
    return snapshot.total, snapshot.counts_records


def tree(folder: Path) -> list[Span]:
    path = folder / "listing"
    write_listing([ListingEntry(key="a", size=30), ListingEntry(key="b", size=12)], path)
    return list(cut_listing(Span(source="docs", path=str(path), format="files"), span_bytes=1))


def test_the_total_is_bytes_or_rows_or_unknown(tmp_path: Path) -> None:
    rows = Span(source="people.yaml", format="database", position=KeyRange(rows=1200))
    assert total(tmp_path, FEED, FEED) == (140, False)
    assert total(tmp_path, *tree(tmp_path)) == (42, False)
    assert total(tmp_path, FEED, *tree(tmp_path)) == (112, False)
    assert total(tmp_path, rows, rows) == (2400, True)
    assert total(tmp_path, FEED, rows)[0] is None
    assert total(tmp_path, Span(source="s3://bucket/a.xml", format="gsa-feed"))[0] is None


def test_spans_are_added_up(tmp_path: Path) -> None:
    progress_log(str(tmp_path)).write("0", SpanProgress(10, 3, 1))
    progress_log(str(tmp_path)).finish("1", SpanProgress(5, 2, 0))
    assert ConvertProgress(str(tmp_path), [FEED]).snapshot() == Snapshot(
        bytes=15, records=5, rejects=1, total=70
    )


@pytest.mark.parametrize(
    ("spans", "last"),
    [
        ([FEED], Snapshot(bytes=60, records=9, rejects=2, total=60)),
        (
            [Span(source="people.yaml", format="database", position=KeyRange(rows=12))],
            Snapshot(bytes=60, records=9, rejects=2, total=9, counts_records=True),
        ),
        (
            [Span(source="s3://bucket/a.xml", format="gsa-feed")],
            Snapshot(bytes=60, records=9, rejects=2, counts_records=True),
        ),
    ],
    ids=["bytes", "rows", "unknown"],
)
def test_a_conversion_that_is_finished_has_done_all(
    tmp_path: Path, spans: list[Span], last: Snapshot
) -> None:
    progress = ConvertProgress(str(tmp_path), spans)
    account = Account(read={"ADD": 9}, rejected={"ADD": 2}, bytes_stored=60)
    progress.finish(account)
    assert progress.snapshot() == last
    assert last.share in (1.0, None)


def test_bytes_of_a_compressed_feed_are_counted_as_they_are_stored(tmp_path: Path) -> None:
    text = gsa_feed(*documents(1, 500))
    path = tmp_path / "a.xml.gz"
    path.write_bytes(gzip.compress(text))
    span = Span(source=str(path), path=str(path), format="gsa-feed")
    request = SpanRequest[None](span=span)
    assert sum(1 for _ in read_span(request)) == 500
    assert (request.count.total, request.count.stored) == (len(text), path.stat().st_size)
