"""The deletions of documents that a full feed leaves out, for a target without full feeds."""

import sqlite3
from pathlib import Path

import pytest

from feedferry.pipelines.serve.rehearsal.index import open_index, write_deletions
from feedferry.schemas.delivery import Delivery
from feedferry.schemas.errors import SourceError
from feedferry.schemas.record import Action, Record
from feedferry.schemas.span import Span
from feedferry.transforms.formats import by_name
from support.rehearsal import HOST, Rehearsal, acl, gsa_feed, item, metadata, page


def deliver(rehearsal: Rehearsal, datasource: str, feedtype: str, *records: str) -> Delivery:
    markup = gsa_feed(*records)
    delivery = rehearsal.write(markup, datasource=datasource, feedtype=feedtype)
    rehearsal.apply(delivery)
    return delivery


def pages(names: str) -> tuple[str, ...]:
    return tuple(page(name) for name in names.split())


def deletions(rehearsal: Rehearsal, delivery: Delivery, *, settled: int = 99) -> list[str]:
    """The names of the pages that are to be deleted, as a reader finds them."""
    path = rehearsal.spool / "left-out.xml"
    count = write_deletions(rehearsal.index.path, delivery, path, is_settled=settled.__ge__)
    with path.open("rb") as stream:
        results = list(by_name("gsa-feed").read(stream, span=Span(source="left-out.xml")))
    records = [record for record in results if isinstance(record, Record)]
    assert (len(records), {record.action for record in records} - {Action.DELETE}) == (count, set())
    return [record.url.removeprefix(HOST) for record in records]


# Records that an appliance skips, and a gateway forwards.
SKIP_A, SKIP_B = (page(name, inner=metadata(x="")) for name in "ab")


@pytest.mark.parametrize(
    ("before", "full", "after", "expected"),
    [
        ([("s", "full", *pages("d c b a"))], pages("b e"), [], ["a", "c", "d"]),
        ([("s", "full", *pages("a b"))], (), [("other", "incremental", *pages("b"))], ["a"]),
        ([("s", "full", *pages("a")), ("other", "incremental", *pages("a"))], (), [], []),
        ([("s", "full", *pages("a")), ("s", "incremental", SKIP_B)], pages("a"), [], ["b"]),
        ([("s", "incremental", SKIP_A, SKIP_B)], (SKIP_A,), [], ["b"]),
        ([("s", "full", *pages("a b"))], (), [("other", "incremental", SKIP_B)], ["a"]),
        ([("s", "full", *pages("a"))], (page("b", "x & y"),), [], []),
        ([("s", "incremental", acl("ines", url="a"))], (), [], []),
        ([("s", "full", *pages("?a=1&amp;b=&lt;&quot;"))], (), [], ['?a=1&b=<"']),
    ],
    ids=[
        *("in-order", "taken-later", "taken-before", "skipped-before", "skipped-in-it"),
        *("skipped-of-another", "unreadable", "acl-alone", "markup"),
    ],
)
def test_a_full_feed_deletes_the_pages_of_its_datasource_that_it_leaves_out(
    rehearsal: Rehearsal,
    before: list[tuple[str, ...]],
    full: tuple[str, ...],
    after: list[tuple[str, ...]],
    expected: list[str],
) -> None:
    for datasource, feedtype, *records in before:
        deliver(rehearsal, datasource, feedtype, *records)
    delivery = deliver(rehearsal, "s", "full", *full)
    for datasource, feedtype, *records in after:
        deliver(rehearsal, datasource, feedtype, *records)
    assert deletions(rehearsal, delivery) == expected


def test_pages_taken_by_deliveries_that_are_not_settled_are_deleted(rehearsal: Rehearsal) -> None:
    deliver(rehearsal, "s", "full", *pages("a b"))
    second = deliver(rehearsal, "s", "full")
    deliver(rehearsal, "other", "incremental", *pages("b"))
    assert deletions(rehearsal, second, settled=2) == ["a", "b"]


def test_pages_of_a_profile_are_kept(rehearsal: Rehearsal) -> None:
    deliver(rehearsal, "s", "full", *pages("a b"))
    rehearsal.send(item("I", "a", "<Body>text</Body>"))
    assert deletions(rehearsal, deliver(rehearsal, "s", "full")) == ["b"]


def test_a_full_feed_without_its_end_deletes_nothing(rehearsal: Rehearsal) -> None:
    deliver(rehearsal, "s", "full", *pages("a"))
    markup = gsa_feed(page("b")).removesuffix("</group>\n</gsafeed>\n")
    torn = rehearsal.write(markup, datasource="s", feedtype="full")
    rehearsal.apply(torn)
    assert deletions(rehearsal, torn) == []


def test_a_delivery_is_known_when_it_is_digested(rehearsal: Rehearsal) -> None:
    delivery = rehearsal.write(gsa_feed(), datasource="sample", feedtype="full")
    before = rehearsal.index.deliveries.is_digested(delivery.ordinal)
    rehearsal.apply(delivery)
    assert (before, rehearsal.index.deliveries.is_digested(delivery.ordinal)) == (False, True)


def test_index_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    sqlite3.connect(path).close()
    with pytest.raises(SourceError) as caught, open_index(path) as index:
        index.deliveries.is_digested(1)
    assert str(caught.value) == (
        f"{path}: no such table: deliveries; expected the index of the spool; stop the receiver and"
        " remove the file: it is made again from the deliveries"
    )
