"""What full feeds removed, as it is told to whoever has to delete it one by one."""

import sqlite3
from pathlib import Path

import pytest

from pipelines.serve.rehearsal.full_feed_deletions import FORMAT, is_digested, write_deletions
from schemas.delivery import Delivery
from schemas.errors import SourceError
from schemas.record import Action, Record
from schemas.span import Span
from support.rehearsal import HOST, Rehearsal, acl, gone, gsa_feed, item, metadata, page
from transforms.formats import by_name


def full(held: Rehearsal, *names: str, datasource: str = "sample") -> Delivery:
    """Deliver a full feed of some pages."""
    markup = gsa_feed(*(page(name) for name in names))
    delivery = held.write(markup, datasource=datasource, feedtype="full")
    held.apply(delivery)
    return delivery


def deletions(held: Rehearsal, delivery: Delivery, *, settled: int = 99) -> list[str]:
    """The names of the pages that are to be deleted, as a reader finds them."""
    path = held.spool / "left-out.xml"
    count = write_deletions(held.index.path, delivery, path, is_settled=settled.__ge__)
    with path.open("rb") as stream:
        found = list(by_name(FORMAT).read(stream, span=Span(source="left-out.xml")))
    records = [one for one in found if isinstance(one, Record)]
    assert (len(records), {one.action for one in records} - {Action.DELETE}) == (count, set())
    return [one.url.removeprefix(HOST) for one in records]


def test_missing_urls_of_the_next_full_feed_are_left_out_in_order(held: Rehearsal) -> None:
    full(held, "d", "c", "b", "a")
    assert deletions(held, full(held, "b", "e")) == ["a", "c", "d"]


def test_urls_of_incremental_feeds_are_left_out_too(held: Rehearsal) -> None:
    full(held, "a")
    held.feed(gsa_feed(page("b")))
    assert deletions(held, full(held, "a")) == ["b"]


def test_deleted_urls_are_not_left_out(held: Rehearsal) -> None:
    full(held, "a", "b")
    held.feed(gsa_feed(gone("b")))
    assert deletions(held, full(held, "a")) == []


def test_urls_that_return_later_were_left_out(held: Rehearsal) -> None:
    full(held, "a", "b")
    second = full(held, "a")
    full(held, "a", "b")
    assert deletions(held, second) == ["b"]


def test_urls_taken_by_another_datasource_are_kept(held: Rehearsal) -> None:
    full(held, "a", "b")
    second = full(held)
    held.feed(gsa_feed(page("b")), datasource="other")
    assert deletions(held, second) == ["a"]


def test_urls_of_unsettled_deliveries_are_deleted(held: Rehearsal) -> None:
    full(held, "a", "b")
    second = full(held)
    held.feed(gsa_feed(page("b")), datasource="other")
    assert deletions(held, second, settled=2) == ["a", "b"]


def test_urls_taken_before_the_full_feed_are_kept(held: Rehearsal) -> None:
    full(held, "a")
    held.feed(gsa_feed(page("a")), datasource="other")
    assert deletions(held, full(held)) == []


def test_urls_of_a_profile_are_kept(held: Rehearsal) -> None:
    full(held, "a", "b")
    held.send(item("I", "a", "<Body>text</Body>"))
    assert deletions(held, full(held)) == ["b"]


def test_skipped_urls_are_left_out_too(held: Rehearsal) -> None:
    full(held, "a")
    held.feed(gsa_feed(skipped("b")))
    assert deletions(held, full(held, "a")) == ["b"]


def test_skipped_urls_of_the_full_feed_are_not_left_out(
    held: Rehearsal,
) -> None:
    held.feed(gsa_feed(skipped("a"), skipped("b")))
    delivery = held.write(gsa_feed(skipped("a")), datasource="sample", feedtype="full")
    held.apply(delivery)
    assert deletions(held, delivery) == ["b"]


def test_urls_skipped_of_another_datasource_are_kept(held: Rehearsal) -> None:
    full(held, "a", "b")
    second = full(held)
    held.feed(gsa_feed(skipped("b")), datasource="other")
    assert deletions(held, second) == ["a"]


def skipped(name: str) -> str:
    """A record that an appliance skips, and a gateway forwards."""
    return page(name, inner=metadata(x=""))


def test_of_a_full_feed_of_which_no_record_can_be_read_nothing_is_left_out(
    held: Rehearsal,
) -> None:
    full(held, "a")
    unread = held.write(gsa_feed(page("b", "x & y")), datasource="sample", feedtype="full")
    held.apply(unread)
    assert (deletions(held, unread), held.pages()) == ([], ["a"])


def test_an_acl_that_came_alone_is_no_document(held: Rehearsal) -> None:
    held.feed(gsa_feed(acl("ines", url="a")))
    assert deletions(held, full(held)) == []


def test_of_a_full_feed_without_its_end_nothing_is_left_out(held: Rehearsal) -> None:
    full(held, "a")
    markup = gsa_feed(page("b")).removesuffix("</group>\n</gsafeed>\n")
    torn = held.write(markup, datasource="sample", feedtype="full")
    held.apply(torn)
    assert deletions(held, torn) == []


def test_url_with_markup_is_kept(held: Rehearsal) -> None:
    full(held, "?a=1&amp;b=&lt;&quot;")
    assert deletions(held, full(held)) == ['?a=1&b=<"']


def test_a_delivery_is_known_when_it_is_digested(held: Rehearsal) -> None:
    delivery = held.write(gsa_feed(), datasource="sample", feedtype="full")
    before = is_digested(held.index.path, delivery.ordinal)
    held.apply(delivery)
    assert (before, is_digested(held.index.path, delivery.ordinal)) == (False, True)


def test_index_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    sqlite3.connect(path).close()
    with pytest.raises(SourceError) as caught:
        is_digested(path, 1)
    assert str(caught.value) == (
        f"{path}: no such table: deliveries; expected the index of the spool; stop the receiver and"
        " remove the file: it is made again from the deliveries"
    )
