"""The patterns by which documents are cut, on the bytes that matter."""

import re

import pytest

from transforms.formats.xml.element_names import ElementNames

FEED = ElementNames(root="feed", records=("record", "acl"), group="group", header="header")
LIST = ElementNames(root="list", records=("card",))


def kind(pattern: re.Pattern[bytes], text: bytes) -> str | None:
    match = pattern.match(text)
    return match.lastgroup if match else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"<record>", "record"),
        (b"<record/>", "record"),
        (b"<record\turl", "record"),
        (b"<acl ", "record"),
        (b"<records>", None),
        (b"<Record>", None),
        (b"</record>", None),
        (b"<!-- ", "comment"),
        (b"<?xml ", "instruction"),
        (b"<!DOCTYPE ", "doctype"),
        (b"<![CDATA[", None),
        (b"<feed>", "root"),
        (b"</feed>", "end"),
        (b"</feed >", "end"),
        (b"<feeds>", None),
        (b"<group>", "group"),
        (b"<group/>", "group"),
        (b"</group\n>", "ungroup"),
        (b"<header>", "header"),
        (b"</header>", None),
        (b"text", None),
    ],
)
def test_what_stands_between_units_is_told_apart(text: bytes, expected: str | None) -> None:
    assert kind(FEED.top, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"</record>", "end"),
        (b"</record  >", "end"),
        (b"<![CDATA[", "cdata"),
        (b"<!--", "comment"),
        (b"<?", "instruction"),
        (b"<record>", "other"),
        (b"<group>", "other"),
        (b"</group>", "other"),
        (b"</feed>", "other"),
        (b"<header/>", "other"),
        (b"<acl>", None),
        (b"<recording>", None),
    ],
)
def test_inside_a_record_its_end_is_looked_for(text: bytes, expected: str | None) -> None:
    assert kind(FEED.inside["record"], text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"</acl>", "end"),
        (b"<acl>", "other"),
        (b"<record>", "other"),
        (b"</record>", "other"),
        (b"<principal>", None),
    ],
)
def test_inside_an_acl_nothing_else_may_begin(text: bytes, expected: str | None) -> None:
    assert kind(FEED.inside["acl"], text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"</record>", "end"),
        (b"<record>", "other"),
        (b'<acl url="a"/>', "other"),
        (b'<acl inherit-from="b" url = "a"/>', "other"),
        (b"<acl>", "opened"),
        (b'<acl curl="a"/>', "opened"),
        (b"</acl>", "closed"),
        (b"<note>", None),
    ],
)
def test_an_acl_with_a_url_ends_a_stretch(text: bytes, expected: str | None) -> None:
    assert kind(FEED.recover, text) == expected


@pytest.mark.parametrize(
    "text", [b"<group>", b"</>", b"<>", b"<header>", b"</group>", b"<!DOCTYPE"]
)
def test_a_format_without_groups_and_headers_finds_none(text: bytes) -> None:
    assert kind(LIST.inside["card"], text) is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", False),
        (b"</record>", False),
        (b"</record><record/>", False),
        (b"</record><record><![CDATA[a", True),
        (b"text</record>\n</group>\n<group>\n<record><![CDATA[a", True),
        (b"</record><acl></acl><record><content><![CDATA[a", True),
        (b"</record><record></record><record><!-- ]] --><![CDATA[a", True),
        (b"</record><record><!-- <![CDATA[a", False),
        (b"</record>text<record><![CDATA[a", False),
        (b"</record><record><record><![CDATA[a", False),
        (b"</record><record><![CDATA[a]]", False),
        (b"<record><![CDATA[a", False),
    ],
)
def test_a_cdata_section_is_doubted_if_it_reads_as_records(content: bytes, expected: bool) -> None:
    data = b"<record><![CDATA[" + content + b"]]></record>"
    assert FEED.reads_as_records(data, 17, 17 + len(content)) is expected


@pytest.mark.parametrize("kind", ["comment", "instruction"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", False),
        (b"</record>", False),
        (b"</record><record/>", False),
        (b"</record><record></record>", False),
        (b"</record><record>", False),
        (b"</record><record/><record>a", True),
        (b"</record><record></record><record>a", True),
        (b"</record><record/>text<record>a", True),
        (b"</record><record/><record><record>a", True),
        (b"a</record>\n</group>\n<group>\n<record/><acl>a", True),
        (b"</record></group></feed><feed a='>'><header>h</header><group><record/><acl>a", False),
        (b"</record></group></feed><feed><header>h</header><group><record/><acl>a", True),
        (b"</record><record><![CDATA[</record>]]></record><record><![CDATA[</record>", True),
        (b"</record>text<record/><record>a", False),
        (b"</record><record <record/><record>a", False),
        (b"</record><record/><record ", False),
        (b"<record/><record>a", False),
    ],
)
def test_a_section_in_a_record_is_doubted_if_it_swallows_records(
    text: bytes, expected: bool, kind: str
) -> None:
    assert FEED.swallows_records(text, 0, len(text), kind=kind, is_inside=True) is expected


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        (b"", "comment", False),
        (b"a<record/>", "comment", False),
        (b"a<record></record><acl></acl>", "comment", False),
        (b"a<record>b", "comment", False),
        (b"a<record/><record>b", "comment", True),
        (b"a<record/><record>b", "instruction", True),
        (b"a<record/><?b", "comment", False),
        (b"a<record/><?b", "instruction", True),
        (b"a<?b<record/>", "instruction", False),
        (b"<feed><group><record/></group></feed>", "comment", False),
    ],
)
def test_a_section_between_records_is_doubted_if_it_swallows_records(
    text: bytes, kind: str, expected: bool
) -> None:
    assert FEED.swallows_records(text, 0, len(text), kind=kind, is_inside=False) is expected
