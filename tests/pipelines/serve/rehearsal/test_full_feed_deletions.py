"""What full feeds removed, as it is told to whoever has to delete it one by one."""

import sqlite3
from pathlib import Path

import pytest

from pipelines.serve.rehearsal.index_reader import open_index, write_deletions
from schemas.delivery import Delivery
from schemas.errors import SourceError
from schemas.record import Action, Record
from schemas.span import Span
from support.rehearsal import HOST, Rehearsal, acl, gsa_feed, item, metadata, page
from transforms.formats import by_name


def full(rehearsal: Rehearsal, *names: str, datasource: str = "sample") -> Delivery:
    """Deliver a full feed of some pages."""
    markup = gsa_feed(*(page(name) for name in names))
    delivery = rehearsal.write(markup, datasource=datasource, feedtype="full")
    rehearsal.apply(delivery)
    return delivery


def deletions(rehearsal: Rehearsal, delivery: Delivery, *, settled: int = 99) -> list[str]:
    """The names of the pages that are to be deleted, as a reader finds them."""
    path = rehearsal.spool / "left-out.xml"
    count = write_deletions(rehearsal.index.path, delivery, path, is_settled=settled.__ge__)
    with path.open("rb") as stream:
        found = list(by_name("gsa-feed").read(stream, span=Span(source="left-out.xml")))
    records = [one for one in found if isinstance(one, Record)]
    assert (len(records), {one.action for one in records} - {Action.DELETE}) == (count, set())
    return [one.url.removeprefix(HOST) for one in records]


def test_missing_urls_of_the_next_full_feed_are_left_out_in_order(rehearsal: Rehearsal) -> None:
    full(rehearsal, "d", "c", "b", "a")
    assert deletions(rehearsal, full(rehearsal, "b", "e")) == ["a", "c", "d"]


def test_urls_taken_by_another_datasource_are_kept(rehearsal: Rehearsal) -> None:
    full(rehearsal, "a", "b")
    second = full(rehearsal)
    rehearsal.feed(gsa_feed(page("b")), datasource="other")
    assert deletions(rehearsal, second) == ["a"]


def test_urls_of_unsettled_deliveries_are_deleted(rehearsal: Rehearsal) -> None:
    full(rehearsal, "a", "b")
    second = full(rehearsal)
    rehearsal.feed(gsa_feed(page("b")), datasource="other")
    assert deletions(rehearsal, second, settled=2) == ["a", "b"]


def test_urls_taken_before_the_full_feed_are_kept(rehearsal: Rehearsal) -> None:
    full(rehearsal, "a")
    rehearsal.feed(gsa_feed(page("a")), datasource="other")
    assert deletions(rehearsal, full(rehearsal)) == []


def test_urls_of_a_profile_are_kept(rehearsal: Rehearsal) -> None:
    full(rehearsal, "a", "b")
    rehearsal.send(item("I", "a", "<Body>text</Body>"))
    assert deletions(rehearsal, full(rehearsal)) == ["b"]


def test_skipped_urls_are_left_out_too(rehearsal: Rehearsal) -> None:
    full(rehearsal, "a")
    rehearsal.feed(gsa_feed(skipped("b")))
    assert deletions(rehearsal, full(rehearsal, "a")) == ["b"]


def test_skipped_urls_of_the_full_feed_are_not_left_out(
    rehearsal: Rehearsal,
) -> None:
    rehearsal.feed(gsa_feed(skipped("a"), skipped("b")))
    delivery = rehearsal.write(gsa_feed(skipped("a")), datasource="sample", feedtype="full")
    rehearsal.apply(delivery)
    assert deletions(rehearsal, delivery) == ["b"]


def test_urls_skipped_of_another_datasource_are_kept(rehearsal: Rehearsal) -> None:
    full(rehearsal, "a", "b")
    second = full(rehearsal)
    rehearsal.feed(gsa_feed(skipped("b")), datasource="other")
    assert deletions(rehearsal, second) == ["a"]


def skipped(name: str) -> str:
    """A record that an appliance skips, and a gateway forwards."""
    return page(name, inner=metadata(x=""))


def test_of_a_full_feed_of_which_no_record_can_be_read_nothing_is_left_out(
    rehearsal: Rehearsal,
) -> None:
    full(rehearsal, "a")
    unread = rehearsal.write(gsa_feed(page("b", "x & y")), datasource="sample", feedtype="full")
    rehearsal.apply(unread)
    assert (deletions(rehearsal, unread), rehearsal.pages()) == ([], ["a"])


def test_an_acl_that_came_alone_is_no_document(rehearsal: Rehearsal) -> None:
    rehearsal.feed(gsa_feed(acl("ines", url="a")))
    assert deletions(rehearsal, full(rehearsal)) == []


def test_of_a_full_feed_without_its_end_nothing_is_left_out(rehearsal: Rehearsal) -> None:
    full(rehearsal, "a")
    markup = gsa_feed(page("b")).removesuffix("</group>\n</gsafeed>\n")
    torn = rehearsal.write(markup, datasource="sample", feedtype="full")
    rehearsal.apply(torn)
    assert deletions(rehearsal, torn) == []


def test_url_with_markup_is_kept(rehearsal: Rehearsal) -> None:
    full(rehearsal, "?a=1&amp;b=&lt;&quot;")
    assert deletions(rehearsal, full(rehearsal)) == ['?a=1&b=<"']


def test_a_delivery_is_known_when_it_is_digested(rehearsal: Rehearsal) -> None:
    delivery = rehearsal.write(gsa_feed(), datasource="sample", feedtype="full")
    before = rehearsal.index.is_digested(delivery.ordinal)
    rehearsal.apply(delivery)
    assert (before, rehearsal.index.is_digested(delivery.ordinal)) == (False, True)


def test_index_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    sqlite3.connect(path).close()
    with pytest.raises(SourceError) as caught, open_index(path) as index:
        index.is_digested(1)
    assert str(caught.value) == (
        f"{path}: no such table: deliveries; expected the index of the spool; stop the receiver and"
        " remove the file: it is made again from the deliveries"
    )
