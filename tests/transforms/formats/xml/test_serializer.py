"""The one serializer of all markup."""

import pytest
from hypothesis import given
from lxml import etree

from feedferry.schemas.record import Extra
from feedferry.testing.strategies import texts, xml_texts
from feedferry.transforms.formats.text.xml_text import (
    escape_attribute,
    escape_bytes,
    escape_text,
    holds,
    holds_bytes,
    is_plain,
)
from feedferry.transforms.formats.xml.serializer import (
    XML_NAMESPACE,
    ExtraMarkup,
    attributes,
    element,
    extra_element,
)


def parse(markup: str) -> etree._Element:
    return etree.fromstring(markup.encode())


def parses(text: str) -> bool:
    """Whether a parser takes `text` for what XML 1.0 can hold."""
    try:
        parse(f"<a>{escape_text(text)}</a>")
    except (etree.XMLSyntaxError, UnicodeEncodeError):
        return False
    return True


# Read back


@given(xml_texts())
def test_a_text_is_read_back_unchanged(text: str) -> None:
    assert (parse(element("a", text)).text or "") == text


@given(xml_texts())
def test_a_text_is_escaped_the_same_as_bytes(text: str) -> None:
    assert escape_bytes(text.encode()) == escape_text(text).encode()


@given(xml_texts(), xml_texts(), xml_texts())
def test_several_attributes_are_read_back_unchanged(finding: str, two: str, three: str) -> None:
    markup = element("a", "", attributes([("b", finding), ("c", two), ("d", three)]))
    assert list(parse(markup).attrib.values()) == [finding, two, three]


# What is written


def test_attributes_without_a_value_are_left_out() -> None:
    pairs = [("a", "1"), ("b", None), ("c", ""), ("d", "<")]
    assert element("meta", "a < b", attributes(pairs)) == (
        '<meta a="1" c="" d="&lt;">a &lt; b</meta>'
    )


def test_an_attribute_that_xml_cannot_hold_is_shown() -> None:
    with pytest.raises(ValueError, match="b=") as caught:
        attributes([("a", "1"), ("b", "x\x00")])
    assert str(caught.value) == r"b='x\x00'"


# What XML can hold


@given(texts())
def test_xml_holds_what_a_parser_takes(text: str) -> None:
    assert holds(text) == parses(text)


@given(texts())
def test_bytes_are_held_as_the_text_is(text: str) -> None:
    assert holds_bytes(text.encode()) == holds(text)


@pytest.mark.parametrize(
    ("text", "is_usual"),
    [(text, True) for text in ("", "plain", "it's", "f\u00fcr")]
    + [(text, False) for text in ("<", ">", '"', "\t", "\n", "\r", "\x00", "\x1f", "\ufffe")],
)
def test_a_usual_text_is_recognised(text: str, is_usual: bool) -> None:
    assert is_plain(text) is is_usual


@given(texts())
def test_what_is_plain_needs_no_escaping(text: str) -> None:
    assert not is_plain(text) or (holds(text) and escape_attribute(text) == text)


# Extras


EXTRAS = ExtraMarkup(
    (
        Extra("card/@a", "1 & 2"),
        Extra("card/@{urn:x}b", "<"),
        Extra(f"card/@{{{XML_NAMESPACE}}}lang", "de"),
        Extra("card/note/@c", ""),
        Extra("card/foo", "<foo/>"),
        Extra("card/bar", "<bar>x</bar>"),
    )
)


@pytest.mark.parametrize(
    ("place", "attributes", "children"),
    [
        (
            "card",
            ' a="1 &amp; 2" xmlns:n1="urn:x" n1:b="&lt;" xml:lang="de"',
            "<foo/>\n<bar>x</bar>\n",
        ),
        ("card/note", ' c=""', ""),
        ("car", "", ""),
        ("card/note[0]", "", ""),
    ],
)
def test_extras_are_written_by_their_place(place: str, attributes: str, children: str) -> None:
    assert (EXTRAS.attributes(place), EXTRAS.children(place)) == (attributes, children)


def test_an_unknown_element_is_kept_with_the_prefixes_that_it_uses() -> None:
    root = etree.fromstring('<c xmlns:x="urn:x" xmlns:y="urn:y"> <x:foo a="1">t</x:foo> tail</c>')
    assert extra_element("card/foo", root[0]) == Extra(
        "card/foo", '<x:foo xmlns:x="urn:x" a="1">t</x:foo>'
    )
