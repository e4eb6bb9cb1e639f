"""Sections that may have lost their end mark, because they also read as records."""

import pytest

from transforms.formats.xml.ambiguous_sections import AmbiguityRule
from transforms.formats.xml.element_names import ElementNames

FEED = ElementNames(root="feed", records=("record", "acl"), group="group", header="header")
RULE = AmbiguityRule(FEED)


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
    assert RULE.reads_as_records(data, 17, 17 + len(content)) is expected


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
    assert RULE.swallows_records(text, 0, len(text), kind=kind, is_inside=True) is expected


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        (b"</record><record/><?b", "comment", False),
        (b"</record><record/><?b", "instruction", True),
        (b"</record><?b<record/>", "instruction", False),
        (b"<record/><?b", "instruction", False),
    ],
)
def test_an_instruction_in_a_record_is_doubted_if_another_follows_the_records_in_it(
    text: bytes, kind: str, expected: bool
) -> None:
    assert RULE.swallows_records(text, 0, len(text), kind=kind, is_inside=True) is expected


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
    assert RULE.swallows_records(text, 0, len(text), kind=kind, is_inside=False) is expected
