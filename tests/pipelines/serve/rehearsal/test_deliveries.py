"""What became of each delivery, as the Feeds page and a test of resuming see it."""

import pytest

from pipelines.serve.rehearsal.digest import Interrupted
from pipelines.serve.rehearsal.views import Fed, Status
from schemas.delivery import Door
from support.rehearsal import (
    DAY,
    NOON,
    Rehearsal,
    gsa_feed,
    item,
    membership,
    metadata,
    page,
    xmlgroups,
)


def test_a_feed_is_a_line_of_the_page(held: Rehearsal) -> None:
    markup = gsa_feed(page("a"), page("b", inner=metadata(x="")))
    held.feed(markup, feedtype="full")
    assert held.index.feeds() == [
        Fed(
            ordinal=1,
            door=Door.FEED,
            datasource="sample",
            feedtype="full",
            bytes=len(markup),
            at=DAY,
            status=Status.WITH_ERRORS,
            included=1,
            in_error=1,
            details=(
                "Skipping the record, Line number: 7, Error: Element record content does not"
                " follow the DTD, Misplaced metadata",
            ),
            finished_at=NOON,
            client="127.0.0.1",
            user_agent="curl/7.88.1",
        )
    ]


def test_the_statuses_are_in_the_words_of_the_appliance() -> None:
    assert [status.value for status in Status] == [
        "Completed",
        "Completed with errors",
        "Failed in error",
        "In progress",
        "Set aside",
        "Waiting",
    ]


def test_data_stands_under_its_profile(held: Rehearsal) -> None:
    fed = held.send(item("I", "a"), profile="intranet")
    assert (fed.door, fed.datasource, fed.feedtype) == (Door.DATA, "intranet", "")


def test_the_last_five_feeds_of_each_datasource_are_shown_newest_first(held: Rehearsal) -> None:
    held.feed(gsa_feed(), datasource="rare")
    held.feed(gsa_feed(), datasource="often")
    held.feed(gsa_feed(), datasource="often")
    held.feed(gsa_feed(), datasource="often")
    held.feed(gsa_feed(), datasource="often")
    held.feed(gsa_feed(), datasource="often")
    held.feed(gsa_feed(), datasource="often")
    assert [one.ordinal for one in held.index.feeds()] == [7, 6, 5, 4, 3, 1]


def test_as_many_feeds_are_shown_as_are_asked_for(held: Rehearsal) -> None:
    held.feed(gsa_feed(), datasource="first")
    held.feed(gsa_feed(), datasource="first")
    held.feed(gsa_feed(), datasource="second")
    assert [one.ordinal for one in held.index.feeds(per_datasource=1)] == [3, 2]


def test_doors_have_feeds_of_their_own(held: Rehearsal) -> None:
    held.feed(gsa_feed(), datasource="ldap")
    held.groups(xmlgroups(membership("staff", "ann")), groupsource="ldap")
    shown = held.index.feeds(per_datasource=1)
    assert [one.door for one in shown] == [Door.GROUPS, Door.FEED]


def test_a_delivery_that_is_being_digested_is_in_progress(held: Rehearsal) -> None:
    delivery = held.write(gsa_feed(page("a")), datasource="sample", feedtype="incremental")
    with pytest.raises(Interrupted):
        held.index.apply(delivery, held.spool, stopping=lambda: True)
    (fed,) = held.index.feeds()
    assert (fed.status, fed.included, fed.finished_at) == (Status.IN_PROGRESS, 0, "")


def test_what_is_in_progress_is_not_digested(held: Rehearsal) -> None:
    delivery = held.write(gsa_feed(page("a")), datasource="sample", feedtype="incremental")
    with pytest.raises(Interrupted):
        held.index.apply(delivery, held.spool, stopping=lambda: True)
    assert held.index.applied == 0
