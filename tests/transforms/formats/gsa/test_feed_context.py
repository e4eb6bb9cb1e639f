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


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        (b"", NOTHING),
        (b"<group>", NOTHING),
        (b"<group action='delete'>", NOTHING._replace(action=Action.DELETE)),
        (b'<group pagerank="90" feedrank="a">', NOTHING._replace(pagerank="90", feedrank="a")),
        (
            b'<group b="1" a="&lt;">',
            NOTHING._replace(extras=(Extra("group/@b", "1"), Extra("group/@a", "<"))),
        ),
        (
            b'<group action="">',
            NOTHING._replace(action=None, fault="a group with action=''"),
        ),
        (b'<group action="delete', NOTHING._replace(fault="a group whose tag cannot be read")),
        (NESTED, NOTHING._replace(fault="a group behind the end of a group inside it")),
    ],
)
def test_a_group_has_values_for_its_records(tag: bytes, expected: FeedContext) -> None:
    assert feed_context(ElementContext(group=tag)) == expected


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        (b"<header/>", (None, None)),
        (
            b"<header><datasource> a </datasource><feedtype>\nfull</feedtype></header>",
            ("a", "full"),
        ),
        (b"<header><datasource/><feedtype> </feedtype></header>", (None, None)),
        (b"<header><!-- --><datasource>a&amp;b</datasource></header>", ("a&b", None)),
        # Not well-formed
        (b"<header><datasource>web</datasource><feedtype>full", ("web", None)),
        (b"<header><datasource> web </datasource><feedtype>full</feedtype>", ("web", "full")),
        (b"<header><datasource>a&b</datasource><feedtype>full</feedtype>", (None, "full")),
    ],
)
def test_a_header_names_datasource_and_feedtype(
    markup: bytes, expected: tuple[str | None, str | None]
) -> None:
    context = feed_context(ElementContext(header=markup))
    assert (context.datasource, context.feedtype) == expected
