"""What spans are called, so that their names sort as they stand in the input."""

import msgspec

from schemas.feed import Feed
from schemas.span import Span


def test_a_span_is_named_by_its_source_and_its_place_there() -> None:
    assert Span(source_ordinal=7, ordinal=12).name == "00007-00012"


def test_names_of_many_sources_sort_as_the_sources_do() -> None:
    numbers = (99_999, 100_000, 100_001, 1_000_000)
    names = [Span(source_ordinal=number).name for number in numbers]
    assert names == sorted(names)


def test_names_of_many_parts_sort_as_the_parts_do() -> None:
    names = [Span(ordinal=number).name for number in (0, 99_999, 100_000, 999_999, 1_000_000)]
    assert names == sorted(names)


def test_a_span_travels_with_what_its_feed_was_posted_as() -> None:
    span = Span(source="spool#1", feed=Feed(datasource="crm", feedtype="full"))
    assert msgspec.json.decode(msgspec.json.encode(span), type=Span) == span
