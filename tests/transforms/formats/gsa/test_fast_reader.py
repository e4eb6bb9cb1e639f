"""The quick way through a feed gives what the parser gives, and is taken where it should be."""

import io
import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import FormatError
from schemas.record import Record
from schemas.reject import Reject
from schemas.span import Span
from support.damage import Damaged, MadeFeed, damaged, feeds
from support.gsa_records import Held, held
from transforms.formats.base import ReadOptions, WriteOptions
from transforms.formats.gsa import feed as gsa_feed
from transforms.formats.gsa.record_reader import FeedRecordBuilder
from transforms.formats.xml.elements import Build, ElementReader, Grammar, ParsedElement

USUAL = ReadOptions()
HEAD = b"<gsafeed>\n<header><datasource>d</datasource><feedtype>full</feedtype></header>\n<group>\n"
TAIL = b"\n</group>\n</gsafeed>\n"
URL = 'url="http://www.example.com/a"'


def by_either(markup: bytes) -> list[Record | Reject]:
    """As feeds are read: the quick way first."""
    return list(gsa_feed.read(io.BytesIO(markup)))


def by_parser(markup: bytes) -> list[Record | Reject]:
    builder = FeedRecordBuilder(Span(), USUAL)
    return list(units(markup, _grammar(builder.build)))


def by_express(markup: bytes) -> list[Record | Reject]:
    """Without a parser: a unit for which one is needed ends the test."""
    builder = FeedRecordBuilder(Span(), USUAL)
    return list(units(markup, _grammar(refuse)._replace(quick=builder.quick)))


def units(markup: bytes, grammar: Grammar[Record]) -> Iterator[Record | Reject]:
    return ElementReader(io.BytesIO(markup), grammar, span=Span(), options=USUAL).read()


def refuse(parsed: ParsedElement) -> Record:
    raise FormatError(f"parsed: {parsed.raw.text!r}")


def feed(*records: str) -> bytes:
    return HEAD + "\n".join(records).encode("utf-8", "surrogateescape") + TAIL


def written(case: Held) -> bytes:
    stream = io.BytesIO()
    gsa_feed.write(case.records, stream, options=WriteOptions(feed=case.feed))
    return stream.getvalue()


def _grammar(build: Build[Record]) -> Grammar[Record]:
    return Grammar(gsa_feed.ELEMENT_NAMES, gsa_feed._PAYLOAD, "content", build)


# A shape is a record with @ where a value goes; feeds have several records of each.
_AWKWARD = (
    *("", " ", "a b", "&amp;", "&lt;a&gt;", "&quot;", "&apos;", "&#65;", "&#x41;", "&foo;", "&"),
    *("<", ">", "\t", "\n", "\r", "\r\n", "\x00", "\x07", "\udcff", "\ufffd", "\ufffe", "é", "😀"),
    *("'", "]]>", "&amp;lt;", "&amp", "<content>", "<acl></acl>", "<!--", "0", "1", "\xa0"),
)
_KNOWN = ("a", "true", "base64binary", "base64compressed", "http://e.com/?a&amp;b", "90", "delete")
_values = st.sampled_from(_KNOWN) | st.sampled_from(_AWKWARD)
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
    return [one if isinstance(one, Record) else (one.line, one.offset, one.data) for one in results]


@pytest.mark.slow
@settings(max_examples=600)
@given(awkward_feeds())
def test_an_awkward_feed_reads_as_by_the_parser(markup: bytes) -> None:
    assert kinds(by_either(markup)) == kinds(by_parser(markup))


@pytest.mark.slow
@settings(max_examples=80)
@given(held())
def test_a_feed_that_we_wrote_reads_as_by_the_parser(case: Held) -> None:
    assert by_either(written(case)) == by_parser(written(case))


@pytest.mark.slow
@settings(max_examples=100)
@given(feeds())
def test_a_feed_with_comments_and_groups_reads_as_by_the_parser(case: MadeFeed) -> None:
    assert by_either(case.markup) == by_parser(case.markup)


@pytest.mark.slow
@settings(max_examples=150)
@given(damaged())
def test_a_damaged_feed_reads_as_by_the_parser(case: Damaged) -> None:
    assert by_either(case.markup) == by_parser(case.markup)


def test_single_quotes_are_left_to_the_parser() -> None:
    markup = feed(
        f"<record {URL}><content encoding='base64binary'>YQ==</content></record>",
        f"<record {URL}><metadata overwrite-acls='true'/></record>",
        "<record url='a' mimetype='b'/>",
    )
    assert by_either(markup) == by_parser(markup)


@pytest.mark.parametrize("value", _AWKWARD)
def test_an_awkward_value_of_an_attribute_reads_as_by_the_parser(value: str) -> None:
    record = f'<record {URL} mimetype="{value}"></record>'
    markup = feed(f'<record {URL} mimetype="a"></record>', record, record)
    assert by_either(markup) == by_parser(markup)


@pytest.mark.parametrize("value", _AWKWARD)
def test_an_awkward_text_of_a_content_reads_as_by_the_parser(value: str) -> None:
    markup = feed(f"<record {URL}><content>a{value}b</content></record>")
    assert by_either(markup) == by_parser(markup)


@pytest.mark.parametrize("value", _AWKWARD)
def test_an_awkward_text_in_cdata_reads_as_by_the_parser(value: str) -> None:
    markup = feed(f"<record {URL}><content><![CDATA[a{value}b]]></content></record>")
    assert by_either(markup) == by_parser(markup)


@pytest.mark.parametrize("child", _CHILDREN)
def test_a_child_of_any_kind_reads_as_by_the_parser(child: str) -> None:
    record = f"<record {URL}>{child}</record>".replace("@", "a")
    markup = feed(record, record, record.replace('"a"', '"b"'))
    assert by_either(markup) == by_parser(markup)


# Which records are spared the parser


METADATA = '<metadata>\n<meta name="a" content="b"/>\n<meta name="c" content="d"/>\n</metadata>'
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
        '<record url="http://e.com/?a=1&amp;b=2" displayurl="&lt;&gt;&apos;&quot;"/>',
        f"<record {URL}>{METADATA}</record>\r\n<record {URL}>{METADATA}</record>",
    ],
)
def test_a_usual_record_is_read_without_a_parser(record: str) -> None:
    assert by_express(feed(record)) == by_parser(feed(record))


@pytest.mark.parametrize(
    "record",
    [
        f"<record {URL} mimetype='a'/>",
        f'<record {URL} mimetype="&#97;"/>',
        f'<record {URL} mimetype="a\tb"/>',
        f'<record {URL}><metadata><meta content="a" name="b"/></metadata></record>',
        f"<record {URL}><note/></record>",
        f"<record {URL}><content>a<b/></content></record>",
        f"<record {URL}><!-- --></record>",
        f"<record {URL}>{ACL}{ACL}</record>",
        f"<acl {URL}/>",
    ],
)
def test_an_unusual_record_is_left_to_the_parser(record: str) -> None:
    with pytest.raises(FormatError, match="parsed:"):
        by_express(feed(record))


def test_records_of_many_shapes_are_read_all_the_same() -> None:
    markup = feed(*(f'<record {URL} a{number}=""/>' for number in range(300)))
    assert len(by_either(markup)) == 300


def test_runs_of_alike_records_are_read_all_the_same() -> None:
    run = "\n".join(f'<record url="{number}" lock="true"></record>' for number in range(5000))
    markup = feed(run, f"<record {URL}><content>text</content></record>", run)
    assert by_either(markup) == by_parser(markup)


@pytest.mark.parametrize("content", ["<content></content>", "<content> </content>"])
def test_contents_that_are_all_alike_read_as_by_the_parser(content: str) -> None:
    markup = feed(*[f'<record {URL} mimetype="text/plain">{content}</record>'] * 3)
    assert by_either(markup) == by_parser(markup)
