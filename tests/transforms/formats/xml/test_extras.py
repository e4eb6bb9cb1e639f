"""What no field holds, as the markup that it was."""

import pytest
from lxml import etree

from schemas.record import Extra
from transforms.formats.xml.extras import ExtraMarkup, extra_element

EXTRAS = ExtraMarkup(
    (
        Extra("card/@a", "1 & 2"),
        Extra("card/@{urn:x}b", "<"),
        Extra("card/note/@c", ""),
        Extra("card/foo", "<foo/>"),
        Extra("card/bar", "<bar>x</bar>"),
    )
)


def test_attributes_are_those_of_their_element() -> None:
    assert EXTRAS.attributes("card/note") == ' c=""'


def test_an_attribute_in_a_namespace_declares_it() -> None:
    assert EXTRAS.attributes("card") == ' a="1 &amp; 2" xmlns:n1="urn:x" n1:b="&lt;"'


def test_elements_stand_in_their_order() -> None:
    assert EXTRAS.children("card") == "<foo/>\n<bar>x</bar>\n"


@pytest.mark.parametrize("place", ["", "car", "card/note[0]"])
def test_an_element_without_extras_has_none(place: str) -> None:
    assert (EXTRAS.attributes(place), EXTRAS.children(place)) == ("", "")


@pytest.mark.parametrize(("extras", "is_any"), [((), False), ((Extra("a/@b", ""),), True)])
def test_extras_are_true_where_there_are_any(extras: tuple[Extra, ...], is_any: bool) -> None:
    assert bool(ExtraMarkup(extras)) is is_any


def test_an_unknown_element_is_kept_with_the_prefixes_that_it_uses() -> None:
    root = etree.fromstring('<c xmlns:x="urn:x" xmlns:y="urn:y"> <x:foo a="1">t</x:foo> tail</c>')
    assert extra_element("card", root[0]) == Extra(
        "card/foo", '<x:foo xmlns:x="urn:x" a="1">t</x:foo>'
    )
