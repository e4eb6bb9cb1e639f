"""What the records of a gsafeed inherit."""

import pytest

from schemas.record import Action, Extra
from schemas.span import ElementContext
from transforms.formats.gsa.feed_context import FeedContext, feed_context
from transforms.formats.xml.raw_element import NESTED

NOTHING = FeedContext(
    datasource=None,
    feedtype=None,
    action=Action.ADD,
    pagerank=None,
    feedrank=None,
    extras=(),
    fault="",
)


def group(tag: bytes) -> FeedContext:
    return feed_context(ElementContext(group=tag))


def header(markup: bytes) -> tuple[str | None, str | None]:
    around = feed_context(ElementContext(header=markup))
    return around.datasource, around.feedtype


@pytest.mark.parametrize("tag", [b"", b"<group>", b'<group action="add">'])
def test_a_record_is_added_unless_its_group_says_otherwise(tag: bytes) -> None:
    assert group(tag) == NOTHING


def test_a_group_may_delete_its_records() -> None:
    assert group(b"<group action='delete'>") == NOTHING._replace(action=Action.DELETE)


def test_a_group_has_ranks() -> None:
    assert group(b'<group pagerank="90" feedrank="a">') == NOTHING._replace(
        pagerank="90", feedrank="a"
    )


def test_what_is_not_known_of_a_group_is_kept() -> None:
    assert group(b'<group b="1" a="&lt;">') == NOTHING._replace(
        extras=(Extra("group/@b", "1"), Extra("group/@a", "<"))
    )


@pytest.mark.parametrize(
    ("tag", "doubt"),
    [
        (b'<group action="Delete">', "a group with action='Delete'"),
        (b'<group action="">', "a group with action=''"),
        (b'<group action="delete', "a group whose tag cannot be read"),
        (b'<group action="delete" action="delete">', "a group whose tag cannot be read"),
        (NESTED, "a group behind the end of a group inside it"),
    ],
)
def test_a_group_of_which_the_action_is_not_known_says_why(tag: bytes, doubt: str) -> None:
    assert group(tag).fault == doubt


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        (b"", (None, None)),
        (b"<header/>", (None, None)),
        (
            b"<header><datasource> a </datasource><feedtype>\nfull</feedtype></header>",
            ("a", "full"),
        ),
        (b"<header><datasource/><feedtype> </feedtype></header>", (None, None)),
        (b"<header><!-- --><datasource>a&amp;b</datasource></header>", ("a&b", None)),
    ],
)
def test_a_header_names_datasource_and_feedtype(
    markup: bytes, expected: tuple[str | None, str | None]
) -> None:
    assert header(markup) == expected


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        (b"<header><datasource>web</datasource><feedtype>full", ("web", None)),
        (b"<header><datasource> web </datasource><feedtype>full</feedtype>", ("web", "full")),
        (b"<header><datasource>a&b</datasource><feedtype>full</feedtype>", (None, "full")),
    ],
)
def test_of_a_header_that_cannot_be_read_what_shows_is_taken(
    markup: bytes, expected: tuple[str | None, str | None]
) -> None:
    assert header(markup) == expected
