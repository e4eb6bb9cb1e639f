"""A bad record never takes others with it: feeds damaged at random places."""

import pytest
from hypothesis import given, settings

from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from support.damage import (
    Damaged,
    MadeFeed,
    damaged,
    fakes,
    feeds,
    made_public,
    misplaced,
    others,
    torn,
    unaccounted,
)
from support.gsa_records import read_feed, read_feed_in_spans
from support.streams import read_both_ways

pytestmark = pytest.mark.slow


def read(markup: bytes) -> list[Record | Reject]:
    return read_both_ways(read_feed, markup)


@settings(max_examples=200, deadline=None)
@given(feeds())
def test_a_feed_without_fault_is_read_record_by_record(feed: MadeFeed) -> None:
    assert [item.url for item in read(feed.markup)] == feed.urls


@pytest.mark.kind("property")
@settings(max_examples=500, deadline=None)
@given(damaged())
def test_a_fault_costs_its_record_which_is_set_aside_and_never_made_public(case: Damaged) -> None:
    results, whole = read(case.markup), others(read(case.feed.markup), case)
    assert others(results, case) == whole
    assert unaccounted(results, case) == b""
    assert misplaced(results, case.markup) == []
    assert made_public(results, case) == []
    assert others(read_feed_in_spans(case.markup, 200), case) == whole


@settings(max_examples=300, deadline=None)
@given(damaged().filter(lambda case: case.trapped))
def test_no_record_is_read_out_of_the_text_of_a_damaged_one(case: Damaged) -> None:
    assert fakes(read(case.markup)) == []


@settings(max_examples=200, deadline=None)
@given(torn())
def test_a_feed_torn_in_its_last_record_costs_that_record_only(case: Damaged) -> None:
    results = read(case.markup)
    assert others(results, case) == others(read(case.feed.markup), case)
    assert unaccounted(results, case) == b""
