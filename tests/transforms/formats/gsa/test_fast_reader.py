"""The quick way through a feed gives what the parser gives, and is taken where it should be."""

import io
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from feedferry.schemas.errors import FormatError
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import ReadOptions, WriteOptions
from feedferry.transforms.formats.gsa.gsa_formats import FEED_NAMES
from feedferry.transforms.formats.gsa.record_reader import FeedRecordBuilder
from feedferry.transforms.formats.xml.elements import ElementReader, Grammar, ParsedElement
from support.damage import damaged, feeds
from support.gsa_records import held, read_feed, write_feed

USUAL = ReadOptions()
HEAD = b"<gsafeed>\n<header><datasource>d</datasource><feedtype>full</feedtype></header>\n<group>\n"
TAIL = b"\n</group>\n</gsafeed>\n"
URL = 'url="http://www.example.com/a"'


def by_either(markup: bytes) -> list[Record | Reject]:
    """As feeds are read: the quick way first."""
    return list(read_feed(io.BytesIO(markup)))


def by_parser(markup: bytes) -> list[Record | Reject]:
    builder = FeedRecordBuilder(Span(), USUAL)
    return elements(markup, Grammar(FEED_NAMES, builder.build, header=builder.header))


def by_templates(markup: bytes) -> list[Record | Reject]:
    """Without a parser: an element for which one is needed ends the test."""
    bulk = FeedRecordBuilder(Span(), USUAL).bulk
    return elements(markup, Grammar(FEED_NAMES, refuse, bulk))


def elements(markup: bytes, grammar: Grammar[Record]) -> list[Record | Reject]:
    reader = ElementReader(io.BytesIO(markup), grammar, span=Span(), options=USUAL)
    return [item for item in reader.read() if isinstance(item, Record | Reject)]


def refuse(parsed: ParsedElement) -> Record:
    raise FormatError(f"parsed: {parsed.raw.text!r}")


def feed(*records: str) -> bytes:
    return HEAD + "\n".join(records).encode("utf-8", "surrogateescape") + TAIL


# A shape is a record with @ where a value goes; feeds have several records of each.
_AWKWARD = (
    *("", " ", "a b", "&amp;", "&lt;a&gt;", "&quot;", "&apos;", "&#65;", "&#x41;", "&foo;", "&"),
    *("<", ">", "\t", "\n", "\r", "\r\n", "\x00", "\x07", "\udcff", "\ufffd", "\ufffe", "é", "😀"),
    *("'", "]]>", "&amp;lt;", "&amp", "<content>", "<acl></acl>", "<!--", "0", "1", "\xa0"),
)
_KNOWN = ("a", "true", "base64binary", "base64compressed", "http://e.com/?a&amp;b", "90", "delete")
_IN_BASE64 = ("YQ==", "YQ", "Y Q", "IGE=", "PGI+JiI=", "YQo=", "AQ==", "AA==", "gA==", "7b6A")
_values = st.sampled_from(_KNOWN) | st.sampled_from(_IN_BASE64) | st.sampled_from(_AWKWARD)
_NAMES = ("action", "mimetype", "last-modified", "lock", "pagerank", "foo", "xml:lang", "xml:id")
_MORE_NAMES = ("x:y", "xml:space", "URL", "é")
_attributes = st.builds(
    "{}{}{}{}".format,
    st.sampled_from((" ", " ", " ", "\n", "  ", "")),
    st.sampled_from(_NAMES) | st.sampled_from(_MORE_NAMES),
    st.sampled_from(("=", "=", "=", " = ", "")),
    st.sampled_from(('"@"', '"@"', '"@"', "'@'", "'a'", '"a', "a")),
)
_PRINCIPAL = '<principal scope="user" access="permit">@</principal>'
_CHILDREN = (
    f"<acl>{_PRINCIPAL}</acl>",
    f'<acl inheritance-type="leaf-node">\n{_PRINCIPAL}\n{_PRINCIPAL}\n</acl>\n',
    "<acl/>",
    "<acl></acl >",
    '<acl foo="@"></acl>',
    "<acl>stray</acl>",
    "<metadata/>",
    '<metadata>\n<meta name="@" content="@"/>\n<meta name="a" content="@"/></metadata>\n',
    '<metadata overwrite-acls="@"><meta name="@" content="@"></meta></metadata>',
    '<metadata><meta content="@" name="@"/></metadata>',
    "<metadata><meta name='a' content=\"@\"/></metadata>",
    '<metadata><meta name="a" content="@" encoding="@"/></metadata>',
    '<metadata><meta encoding="base64binary" name="YQ==" content="@"/></metadata>',
    '<metadata><meta name="@" encoding="base64binary" content="YQ=="/></metadata>',
    '<metadata><meta name="a" content="@">@</meta>@</metadata>',
    '<metadata foo="@">@<meta name="a" content="@"/></metadata>',
    "<metadata overwrite-acls='@'/>",
    '<metadata><acl></acl><meta name="a" content="b"/></metadata>',
    "<content>@</content>",
    "<content>a@b</content >",
    '<content encoding="base64binary">YQ==</content>',
    '<content encoding="base64binary">Y Q\n</content>',
    '<content encoding="base64binary">@</content>',
    '<content encoding="base64binary"><![CDATA[@]]></content>',
    '<content encoding="base64compressed">eJxLBAAAYgBi</content>',
    '<content encoding="@">YQ==</content>',
    "<content encoding='base64binary'>YQ==</content>",
    '<content encoding = "base64binary" >YQ==</content>',
    "<content/>",
    "<content></content>",
    '<content encoding="base64binary"/>',
    "<content><![CDATA[@]]></content>",
    '<content><![CDATA[<content>"a"</content>@]]></content>\n',
    "<content>a<![CDATA[@]]>b</content>",
    "<content><b/></content>",
    '<content foo="@">a</content>',
    "<contents>a</contents>",
    "<note/>",
    '<note a="@"/>',
    "stray",
    ' "@" ',
    " ",
    "<!-- @ -->",
    "<?pi @?>",
    "<![CDATA[@]]>",
    "</content>",
    "<acl>",
)
_GAPS = ("", "", "\n", "  \r\n", "stray", "\xa0", "<!-- -->", '<acl url="a"/>', "</group><group>")
_shapes = st.builds(
    "<record{}{}>{}</record>".format,
    st.sampled_from((' url="@"', ' url="http://e.com/"', " url='a'", "")),
    st.lists(_attributes, max_size=3).map("".join),
    st.lists(st.sampled_from(_CHILDREN), max_size=3).map("".join),
)


@st.composite
def awkward_feeds(draw: st.DrawFn) -> bytes:
    """Feeds whose records have few shapes and awkward values; some are not quite well-formed."""
    shapes = draw(st.lists(_shapes, min_size=1, max_size=2))
    chosen = draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=5))
    gaps = draw(st.sampled_from(_GAPS))
    return feed(*(gaps + re.sub("@", lambda _: draw(_values), shape) for shape in chosen))


def kinds(results: list[Record | Reject]) -> list[Record | tuple[int, int, bytes]]:
    """The records in full, and of the rejects what they hold: of two faults, either is told."""
    return [
        item if isinstance(item, Record) else (item.line, item.offset, item.data)
        for item in results
    ]


@pytest.mark.slow
@settings(max_examples=600)
@given(awkward_feeds())
def test_an_awkward_feed_reads_as_by_the_parser(markup: bytes) -> None:
    assert kinds(by_either(markup)) == kinds(by_parser(markup))


@pytest.mark.slow
@settings(max_examples=300)
@given(
    held().map(lambda case: write_feed(case.records, WriteOptions(feed=case.feed)))
    | feeds().map(lambda case: case.markup)
    | damaged().map(lambda case: case.markup)
)
@example(feed(f'<record {URL}><content encoding="base64binary">\x07AAAA</content></record>'))
def test_a_written_or_damaged_feed_reads_as_by_the_parser(markup: bytes) -> None:
    assert by_either(markup) == by_parser(markup)


@pytest.mark.parametrize("value", _AWKWARD)
def test_an_awkward_value_reads_as_by_the_parser(value: str) -> None:
    record = f'<record {URL} mimetype="{value}"></record>'
    content = f"<record {URL}><content>a{value}b</content></record>"
    cdata = f"<record {URL}><content><![CDATA[a{value}b]]></content></record>"
    for markup in (
        feed(f'<record {URL} mimetype="a"></record>', record, record),
        feed(content),
        feed(cdata),
    ):
        assert by_either(markup) == by_parser(markup)


@pytest.mark.parametrize("value", _IN_BASE64 + _AWKWARD)
def test_awkward_metadata_in_base64_reads_as_by_the_parser(value: str) -> None:
    record = f'<record {URL}><metadata><meta encoding="base64binary" {{}}/></metadata></record>'
    usual = record.format('name="YQ==" content="Yg=="')
    for pair in (f'name="YQ==" content="{value}"', f'content="Yg==" name="{value}"'):
        markup = feed(usual, record.format(pair), usual, record.format(pair))
        assert by_either(markup) == by_parser(markup)


@pytest.mark.parametrize("child", _CHILDREN)
def test_a_child_of_any_kind_reads_as_by_the_parser(child: str) -> None:
    record = f"<record {URL}>{child}</record>".replace("@", "a")
    markup = feed(record, record, record.replace('"a"', '"b"'))
    assert by_either(markup) == by_parser(markup)


# Which records are spared the parser


METADATA = '<metadata>\n<meta name="a" content="b"/>\n<meta name="c" content="d"/>\n</metadata>'
IN_BASE64 = '<meta encoding="base64binary" name="w7w=" content="PGI+JiI="/>'
ACL = '<acl inherit-from="a"><principal scope="user" access="deny">b</principal></acl>'


@pytest.mark.parametrize(
    "record",
    [
        f"<record {URL}/>",
        f'<record {URL} action="delete"></record>',
        f'<record {URL} mimetype="text/html" lock="true" foo="bar">\n{METADATA}\n</record>',
        f"<record {URL}>{ACL}{METADATA}<content>text</content></record>",
        f"<record {URL}><content>a\n&quot;</content></record>".replace("&quot;", "'"),
        f'<record {URL}><content><![CDATA[<b> & "c"]]></content></record>',
        f'<record {URL}><content encoding="base64binary">YQ==</content></record>',
        f'<record {URL}><content encoding="base64binary"><![CDATA[YQ==]]></content></record>',
        f'<record {URL}><content encoding="base64compressed">eJxLBAAAYgBi</content></record>',
        f'<record {URL}><metadata overwrite-acls="false"/></record>',
        f'<record {URL}><metadata>{IN_BASE64}<meta name="a" content="b"/></metadata></record>',
        '<record url="http://e.com/?a=1&amp;b=2" displayurl="&lt;&gt;&apos;&quot;"/>',
        f"<record {URL} mimetype='a' foo='content=\"b\"'/>",
        f'<record {URL} mimetype="&#97;"/>',
        f'<record {URL} mimetype="a\tb"/>',
        f'<record {URL}><metadata><meta content="a" name="b"/></metadata></record>',
        f'<record {URL}><note content="a"/></record>',
        f"<record {URL}>{METADATA}</record>\r\n<record {URL}>{METADATA}</record>",
    ],
)
def test_a_usual_record_is_read_without_a_parser(record: str) -> None:
    assert by_templates(feed(record)) == by_parser(feed(record))


@pytest.mark.parametrize(
    "record",
    [
        "<record url='http://www.example.com/a'/>",
        f'<record {URL} displayurl="&#97;"/>',
        f'<record {URL} displayurl="a\tb"/>',
        f"<record {URL}><metadata>{IN_BASE64.replace('PGI+JiI=', 'gA==')}</metadata></record>",
        f"<record {URL}><metadata>{IN_BASE64.replace('w7w=', '*')}</metadata></record>",
        f'<record {URL}><note url="a"/><meta content="b"/></record>',
        f"<record {URL}>stray</record>",
        f"<record {URL}><content>a<b/></content></record>",
        f'<record {URL}><!-- "a" --></record>',
        f"<record {URL}>{ACL}{ACL}</record>",
        f"<acl {URL}/>",
    ],
)
def test_an_unusual_record_is_left_to_the_parser(record: str) -> None:
    with pytest.raises(FormatError, match="parsed:"):
        by_templates(feed(record))


RUN = "\n".join(f'<record url="{number}" lock="true"></record>' for number in range(5000))


@pytest.mark.parametrize(
    "records",
    [
        [f'<record {URL} a{number}=""/>' for number in range(300)],
        [RUN, f"<record {URL}><content>text</content></record>", RUN],
        [f'<record {URL} mimetype="text/plain"><content></content></record>'] * 3,
        [f'<record {URL} mimetype="text/plain"><content> </content></record>'] * 3,
    ],
)
def test_many_records_of_one_or_of_many_shapes_read_as_by_the_parser(records: list[str]) -> None:
    assert by_either(feed(*records)) == by_parser(feed(*records))


@pytest.mark.parametrize("inside", ["/>", "></record>", "><content>a</content></record>"])
def test_a_record_after_blanks_is_placed_at_its_tag(inside: str) -> None:
    head = HEAD + f'\n \n<record {URL} action="delete"'.encode() + inside.encode()
    for markup in (head, head + TAIL):  # a span ends with the record
        record = by_either(markup)[0]
        assert isinstance(record, Record)
        assert (record.provenance.line, record.provenance.offset) == (6, len(HEAD) + 3)


@pytest.mark.parametrize(
    "section",
    [
        *("<!-- a -->", "<!-- <record> -->", "<!-- </record> -->", "<?a </record> ?>"),
        *(
            "<![CDATA[</record>]]>",
            "<![CDATA[</record >]]>",
            "<![CDATA[</record><record>]]>",
        ),
    ],
)
@pytest.mark.parametrize("place", ["<record", "<metadata>", "<content>"])
def test_a_section_in_a_run_of_records_is_read_as_by_the_parser(section: str, place: str) -> None:
    record = f"<record {URL}><metadata></metadata><content>a</content></record>"
    other = record.replace(place, section + place if place == "<record" else place + section)
    markup = feed(record, record, other, record)
    assert by_either(markup) == by_parser(markup)
