"""Sections that may have lost their end mark, because they also read as records."""

import pytest

from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.xml.scanning.ambiguous_sections import (
    CROSSES,
    ENDED,
    AmbiguityRule,
    find_certain_end,
)
from feedferry.transforms.formats.xml.scanning.record_markup import markup_of

FEED = ElementNames(root="feed", records=("record", "acl"), group="group", header="header")
MARKUP = markup_of(FEED)
RULE = AmbiguityRule(FEED)


NEXT = b'<record url="b">'


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        (b"", 0),
        (b"<record>", 1),
        (b'<record url="b"/>', 0),
        (NEXT + b"</record>" + NEXT + b"</record>", 0),
        (b"</record>", ENDED),
        (b"</record><record>", ENDED),
        (NEXT + b"</record></record>", ENDED),
        (b"</record>" + NEXT, CROSSES),
        (b"</record>\n</group>\n<group>\n" + NEXT, CROSSES),
        (b"</record> any text <acl></acl>" + NEXT, CROSSES),
        (b"</record ><record\nurl = 'b", CROSSES),
        (NEXT + b"</record></record>" + NEXT, CROSSES),
        (b"</records><records url='b'>", 0),
    ],
)
def test_a_section_that_holds_an_end_and_then_a_start_crosses_records(
    text: bytes, depth: int
) -> None:
    assert RULE.depth_after("record", text, 0, len(text)) == depth


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (b"a]]></record>", 1),
        (b"<record></acl>]]>", 14),
        (b"a</record>]]>", -1),
        (b"a</record >]]>", -1),
        (b"a</records]]>", -1),  # it costs time, and no record
        (b"a", -1),
    ],
)
def test_a_section_with_an_end_tag_of_a_record_has_no_certain_end(text: bytes, end: int) -> None:
    assert find_certain_end(text, 0, MARKUP) == end
    assert find_certain_end(b"]]>" + text, 3, MARKUP) == (end if end < 0 else end + 3)
    assert find_certain_end(text, 0, MARKUP, searched=len(text)) == -1


def test_a_start_without_an_attribute_for_its_url_is_a_start() -> None:
    rule = AmbiguityRule(ElementNames(root="feed", records=("item",)))
    text = b"</item><item><url><![CDATA[a"
    assert rule.depth_after("item", text, 0, len(text)) == CROSSES


def test_sections_without_markup_between_them_are_one_text() -> None:
    quoted, more = NEXT + b"text", b"</record>" + NEXT
    opened = RULE.depth_after("record", quoted, 0, len(quoted))
    assert RULE.depth_after("record", more, 0, len(more), depth=opened) == 1
    assert RULE.depth_after("record", more, 0, len(more)) == CROSSES
    assert RULE.depth_after("record", b"", 0, 0, depth=CROSSES) == CROSSES


def test_a_section_in_an_acl_crosses_where_the_acl_ends() -> None:
    text = b"</acl>" + NEXT
    assert [RULE.depth_after(name, text, 0, len(text)) for name in ("acl", "record")] == [
        CROSSES,
        1,
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"", ""),
        (b"<![CDATA[a]]><!-- b -->", ""),
        (b"<![CDATA[a", "cdata"),
        (b"<!-- a --><?b <!--", "instruction"),
        (b"<![CDATA[ <!-- ]]><!-- a", "comment"),
    ],
)
def test_the_section_that_is_open_at_the_end_is_named(text: bytes, kind: str) -> None:
    assert RULE.open_section(text, 0, len(text)) == kind
    assert RULE.open_section(b"<!-- a-->", 0, 6) == ""  # ends there


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
    assert RULE.swallows_records(text, 0, len(text), kind=kind) is expected
