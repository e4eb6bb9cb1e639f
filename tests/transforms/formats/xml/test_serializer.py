"""The one serializer of all markup."""

import pytest
from hypothesis import given
from lxml import etree

from support.strategies import names, texts, xml_texts
from transforms.formats.xml.serializer import (
    attributes,
    count_marks,
    element,
    escape_attribute,
    escape_bytes,
    escape_text,
    holds,
    holds_bytes,
    is_plain,
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
def test_a_text_as_bytes_is_read_back_unchanged(text: str) -> None:
    assert (etree.fromstring(b"<a>" + escape_bytes(text.encode()) + b"</a>").text or "") == text


@given(xml_texts())
def test_a_text_is_escaped_the_same_as_bytes(text: str) -> None:
    assert escape_bytes(text.encode()) == escape_text(text).encode()


@given(xml_texts())
def test_an_attribute_is_read_back_unchanged(text: str) -> None:
    assert parse(f"<a{attributes([('b', text)])}/>").get("b") == text


@given(xml_texts(), xml_texts(), xml_texts())
def test_several_attributes_are_read_back_unchanged(one: str, two: str, three: str) -> None:
    markup = element("a", "", attributes([("b", one), ("c", two), ("d", three)]))
    assert list(parse(markup).attrib.values()) == [one, two, three]


@given(names(), xml_texts())
def test_an_element_has_its_name(name: str, text: str) -> None:
    assert parse(element(name, text)).tag == name


# What is written


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("", ""),
        ("a & b", "a &amp; b"),
        ("<b>", "&lt;b&gt;"),
        ("]]>", "]]&gt;"),
        ('"it\'s"', '"it\'s"'),
        ("a\r\nb\tc", "a&#13;\nb\tc"),
        ("&amp;", "&amp;amp;"),
        ("\U0001f600\u2028\x85", "\U0001f600\u2028\x85"),
    ],
)
def test_a_text_is_escaped_no_more_than_it_must(text: str, markup: str) -> None:
    assert escape_text(text) == markup


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("a & b", "a &amp; b"),
        ("<b>", "&lt;b&gt;"),
        ('"it\'s"', "&quot;it's&quot;"),
        ("a\r\nb\tc", "a&#13;&#10;b&#9;c"),
    ],
)
def test_an_attribute_keeps_its_quotes_tabs_and_line_ends(text: str, markup: str) -> None:
    assert escape_attribute(text) == markup


def test_an_attribute_without_a_value_is_left_out() -> None:
    assert attributes([("a", "1"), ("b", None), ("c", "")]) == ' a="1" c=""'


def test_no_attributes_are_nothing() -> None:
    assert attributes([]) == ""


def test_one_awkward_attribute_leaves_the_others_as_they_are() -> None:
    assert attributes([("a", "1"), ("b", "<")]) == ' a="1" b="&lt;"'


def test_an_attribute_that_xml_cannot_hold_is_shown() -> None:
    with pytest.raises(ValueError, match="b=") as caught:
        attributes([("a", "1"), ("b", "x\x00")])
    assert str(caught.value) == r"b='x\x00'"


def test_an_element_has_its_attributes_and_text() -> None:
    markup = element("meta", "a < b", attributes([("name", "x")]))
    assert markup == '<meta name="x">a &lt; b</meta>'


# What XML can hold


@given(xml_texts())
def test_xml_holds_what_it_can_hold(text: str) -> None:
    assert holds(text)


@given(texts())
def test_xml_holds_what_a_parser_takes(text: str) -> None:
    assert holds(text) == parses(text)


@given(texts())
def test_bytes_are_held_as_the_text_is(text: str) -> None:
    assert holds_bytes(text.encode()) == holds(text)


@pytest.mark.parametrize(
    "text", ["\x00", "a\x0bb", "\x1f", "\ud800", "\ufffe", "\uffff", "x" * 99 + "\x08"]
)
def test_xml_does_not_hold_control_characters_and_their_like(text: str) -> None:
    assert not holds(text)


@pytest.mark.parametrize("text", ["\t", "\n", "\r", "\x7f", "\x85", "\ufffd", "\U0010ffff", ""])
def test_xml_holds_what_only_looks_like_a_control_character(text: str) -> None:
    assert holds(text)


@given(texts())
def test_what_is_plain_needs_no_escaping(text: str) -> None:
    assert not is_plain(text) or (holds(text) and escape_attribute(text) == text)


@pytest.mark.parametrize("text", ["", "plain", "it's", "f\u00fcr"])
def test_usual_texts_are_plain(text: str) -> None:
    assert is_plain(text)


def test_a_lone_surrogate_is_not_plain() -> None:
    assert not is_plain("\ud800")


@given(xml_texts())
def test_a_value_without_marks_needs_no_more_than_references_for_ampersands(text: str) -> None:
    assert count_marks(text.encode()) or escape_attribute(text) == text.replace("&", "&amp;")


@pytest.mark.parametrize("value", ["", "plain", "it's", "f\u00fcr", "a&b", "\ufeff"])
def test_a_usual_value_adds_no_mark(value: str) -> None:
    assert count_marks(f'<a b="{value}"/>\n'.encode()) == 5


@pytest.mark.parametrize(
    "value", ["<", ">", '"', "\t", "\n", "\r", "\x00", "\x1f", "\ufffe", "\uffff"]
)
def test_a_value_that_cannot_stand_as_it_is_adds_a_mark(value: str) -> None:
    assert count_marks(f'<a b="{value}"/>\n'.encode()) == 6
