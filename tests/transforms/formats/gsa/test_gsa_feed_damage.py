"""A bad record never takes others with it: feeds damaged at random places."""

import io

import pytest
from hypothesis import given, settings

from schemas.record import Record
from schemas.reject import Reject
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
from support.streams import read_both_ways
from transforms.formats.gsa import feed as gsa_feed

pytestmark = pytest.mark.slow


def read(markup: bytes) -> list[Record | Reject]:
    return read_both_ways(gsa_feed.read, markup)


def read_in_spans(markup: bytes) -> list[Record | Reject]:
    spans = gsa_feed.cut(io.BytesIO(markup), source="", span_bytes=200)
    return [
        result
        for span in spans
        for result in gsa_feed.read(io.BytesIO(markup[span.offset :][: span.length]), span=span)
    ]


@settings(max_examples=200, deadline=None)
@given(feeds())
def test_a_feed_without_fault_is_read_record_by_record(feed: MadeFeed) -> None:
    assert [one.url for one in read(feed.markup)] == feed.urls


@settings(max_examples=500, deadline=None)
@given(damaged())
def test_a_fault_in_one_record_leaves_all_others_as_they_were(case: Damaged) -> None:
    assert others(read(case.markup), case) == others(read(case.feed.markup), case)


@settings(max_examples=500, deadline=None)
@given(damaged())
def test_a_damaged_record_is_set_aside_or_still_read(case: Damaged) -> None:
    assert unaccounted(read(case.markup), case) == b""


@settings(max_examples=300, deadline=None)
@given(damaged().filter(lambda case: case.trapped))
def test_no_record_is_read_out_of_the_text_of_a_damaged_one(case: Damaged) -> None:
    assert fakes(read(case.markup)) == []


@settings(max_examples=300, deadline=None)
@given(damaged())
def test_a_reject_holds_the_bytes_of_its_place(case: Damaged) -> None:
    assert misplaced(read(case.markup), case.markup) == []


@settings(max_examples=200, deadline=None)
@given(torn())
def test_a_feed_torn_in_its_last_record_leaves_all_others_as_they_were(case: Damaged) -> None:
    assert others(read(case.markup), case) == others(read(case.feed.markup), case)


@settings(max_examples=200, deadline=None)
@given(torn())
def test_a_torn_record_is_set_aside(case: Damaged) -> None:
    assert unaccounted(read(case.markup), case) == b""


@settings(max_examples=200, deadline=None)
@given(damaged())
def test_a_fault_leaves_all_others_as_they_were_when_read_in_spans(case: Damaged) -> None:
    assert others(read_in_spans(case.markup), case) == others(read(case.feed.markup), case)


@settings(max_examples=500, deadline=None)
@given(damaged())
def test_a_fault_makes_no_protected_record_public(case: Damaged) -> None:
    assert made_public(read(case.markup), case) == []
