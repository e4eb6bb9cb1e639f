"""Raw elements as parsed elements; spans, end to end."""

import io

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import RecordError
from schemas.record import Action, Content, Extra, Provenance, Record
from schemas.reject import Reject
from schemas.span import Span
from support.damage import damaged, feeds, torn
from support.gsa_records import read_feed, read_feed_in_spans
from support.streams import read_both_ways
from transforms.formats.base import ReadOptions
from transforms.formats.element_names import ElementNames
from transforms.formats.xml.elements import (
    ElementReader,
    Grammar,
    ParsedElement,
    cut_spans,
    parse_markup,
)

VOCABULARY = ElementNames(
    root="list",
    records=("card", "note"),
    group="group",
    header="header",
    prefixes=(("x", "urn:example:x"),),
)
GOOD = b'<card url="a"/>'


def build(parsed: ParsedElement) -> Record:
    """A card as a record: its text is the content, its other attributes are extras."""
    element = parsed.element
    if element.get("bad"):
        raise RecordError("bad-card", f"bad={element.get('bad')!r}; expected none")
    text = (element.findtext("scan") or "").encode()
    return Record(
        url=element.get("url", ""),
        action=Action.ADD,
        content=Content(text) if text else None,
        extras=tuple(Extra(str(key), str(value)) for key, value in element.attrib.items()),
        provenance=Provenance(line=parsed.raw.line, offset=parsed.raw.offset),
    )


PARSED = Grammar(VOCABULARY, build)


def read(
    inner: bytes, *, root: bytes = b"<list>", grammar: Grammar[Record] = PARSED
) -> list[Record | Reject]:
    span = Span(source="cards.xml")
    results = read_both_ways(
        lambda stream: ElementReader(stream, grammar, span=span, options=ReadOptions()).read(),
        root + inner + b"</list>",
    )
    return [item for item in results if isinstance(item, Record | Reject)]


def only_record(inner: bytes, *, root: bytes = b"<list>") -> Record:
    (record,) = read(inner, root=root)
    assert isinstance(record, Record), record
    return record


def refusal(inner: bytes) -> tuple[str, str]:
    (reject,) = read(inner)
    assert isinstance(reject, Reject), reject
    return reject.code, reject.reason


def outcomes(results: list[Record | Reject]) -> list[str]:
    """The urls of records and the codes of rejects."""
    return [item.url if isinstance(item, Record) else item.code for item in results]


# Records


def test_a_record_that_cannot_be_built_is_a_reject() -> None:
    assert read(b'\n<card url="a" bad="1"/>') == [
        Reject(
            code="bad-card",
            reason="bad='1'; expected none",
            stage="read",
            source="cards.xml",
            line=2,
            offset=7,
            length=23,
            url="a",
            data=b'<card url="a" bad="1"/>',
        )
    ]


def test_elements_that_are_not_well_formed_take_no_other_with_them() -> None:
    bad, prefix = b"<card><b></card>", b'<card q:a="1"/>'
    results = read(bad + b'<card url="0"/>' + bad + prefix + b'<card url="1"/>' + bad)
    assert outcomes(results) == ["malformed", "0", "malformed", "malformed", "1", "malformed"]


# Namespaces


@pytest.mark.parametrize(
    ("root", "attribute", "name"),
    [
        (b'<list xmlns:y="urn:example:y">', b"y:z", "{urn:example:y}z"),
        (b"<list>", b"x:z", "{urn:example:x}z"),  # a prefix of the format, which is not declared
        (b'<list xmlns:x="urn:example:other">', b"x:z", "{urn:example:other}z"),
        (b'<list xmlns="urn:example:d">', b"z", "z"),
        (b"<list\nxmlns = 'urn:example:d' b='1'>", b"z", "z"),
        (b'<list a="1" a="2">', b"z", "z"),  # a root that cannot be read
    ],
)
def test_a_prefix_of_the_root_is_known_and_a_default_namespace_is_not_heeded(
    root: bytes, attribute: bytes, name: str
) -> None:
    assert only_record(b'<card %b="1"/>' % attribute, root=root).extras == (Extra(name, "1"),)


# What is not well-formed


@pytest.mark.parametrize(
    ("inner", "code", "reason"),
    [
        (b"<card>a & b</card>", "malformed", "an & that is not escaped; expected &amp;"),
        (b'<card url="a&b"/>', "malformed", "an & that is not escaped; expected &amp;"),
        (
            b"<card>\n\na &amp b</card>",
            "malformed",
            "an & that is not escaped in line 3 of the record; expected &amp;",
        ),
        (b"<card>&nbsp;</card>", "entity", "Entity 'nbsp' not defined; expected well-formed XML"),
        (
            b"<card>\n<b>\n</card>",
            "malformed",
            "Opening and ending tag mismatch: b line 2 and card in line 3 of the record; "
            "expected well-formed XML",
        ),
        (
            b'<card a="1"b="2"/>',
            "malformed",
            "attributes construct error; expected well-formed XML",
        ),
        (b'<card a="1" a="2"/>', "malformed", "Attribute a redefined; expected well-formed XML"),
        (b"<card>\x07</card>", "malformed", "invalid Char value 7; expected well-formed XML"),
        (
            b"<card>]]></card>",
            "malformed",
            "Sequence ']]>' not allowed in content; expected well-formed XML",
        ),
    ],
)
def test_a_syntax_error_names_its_line_and_its_reason(inner: bytes, code: str, reason: str) -> None:
    assert refusal(inner) == (code, reason)


def test_attributes_without_end_are_refused() -> None:
    attributes = b"".join(b' a%d="%b"' % (number, b"b" * 100) for number in range(1001))
    assert refusal(b"<card" + attributes + b"/>") == (
        "too-many-attributes",
        "an element with 1001 attributes; expected at most 1000",
    )


@pytest.mark.parametrize(
    ("markup", "reason"),
    [
        (b"", "Document is empty; expected well-formed XML"),
        (b"<a>", "Premature end of data in tag a line 1; expected well-formed XML"),
        (b"<a/>b", "Extra content at the end of the document; expected well-formed XML"),
    ],
)
def test_markup_that_is_no_element_is_a_record_error(markup: bytes, reason: str) -> None:
    with pytest.raises(RecordError) as caught:
        parse_markup(markup)
    assert (caught.value.code, caught.value.reason) == ("malformed", reason)


# Spans


def spans_of(markup: bytes, span_bytes: int) -> list[Span]:
    return list(cut_spans(VOCABULARY, io.BytesIO(markup), source="c.xml", span_bytes=span_bytes))


def whole(markup: bytes) -> list[Record | Reject]:
    return [without_span(item) for item in read_feed(io.BytesIO(markup))]


def in_spans(markup: bytes, span_bytes: int) -> list[Record | Reject]:
    return [without_span(item) for item in read_feed_in_spans(markup, span_bytes)]


def without_span(item: Record | Reject) -> Record | Reject:
    if isinstance(item, Reject):
        return msgspec.structs.replace(item, span=0)
    provenance = msgspec.structs.replace(item.provenance, span=0)
    return msgspec.structs.replace(item, provenance=provenance)


@pytest.mark.slow
@settings(max_examples=280)
@given((feeds() | damaged() | torn()).map(lambda case: case.markup), st.integers(1, 1500))
def test_the_spans_of_a_feed_read_as_the_feed(markup: bytes, span_bytes: int) -> None:
    assert in_spans(markup, span_bytes) == whole(markup)


@pytest.mark.parametrize("span_bytes", [1, 30, 100, 300])
@pytest.mark.parametrize(
    "groups",
    [
        '<group action="delete">@@</group><group>@@</group>',
        '<group action="delete" pagerank="90">@<group feedrank="3">@@</group>@@</group>@@',
        '<group action="delete">@</group>@</group>@@',
        '@@<group action="Delete">@@<group>@</group>@</group>@',
        '<group action="delete" action="delete">@@</group>@@',
        '<group>@<acl url="a"/><acl url="b"></acl>@@<acl url="c"/></group>',
        "<group>@stray@<record>@</record>@<!-- @ -->@</group>",
    ],
)
def test_groups_reach_every_span(groups: str, span_bytes: int) -> None:
    header = "<header><datasource>web</datasource><feedtype>full</feedtype></header>\n"
    markup = f"<gsafeed>\n{header}{groups}\n</gsafeed>".replace("@", '\n<record url="u"/>\n')
    assert in_spans(markup.encode(), span_bytes) == whole(markup.encode())


@pytest.mark.parametrize("span_bytes", [1, 50, 200])
@pytest.mark.parametrize(
    "between",
    [
        b"</group></gsafeed>",
        b"</group></gsafeed><record url='a'/><gsafeed><group>",
        b"</group></gsafeed><?xml version='1.0'?><!DOCTYPE gsafeed><gsafeed><header><datasource>"
        b"web</datasource></header><group action='delete'>",
        b"</group><header><datasource>other</datasource></header><group>",
        b"<gsafeed><group>",
        b"</group><group",
    ],
)
def test_feeds_end_to_end_read_the_same_in_spans(between: bytes, span_bytes: int) -> None:
    records = b'<record url="u"/>\n' * 3
    feed = b"<gsafeed xmlns:p='urn:example:p'><group>" + records + between + records
    markup = feed + b"</group></gsafeed>"
    assert in_spans(markup, span_bytes) == whole(markup)


@pytest.mark.parametrize("span_bytes", [1000, 50_000, 200_000])
@pytest.mark.parametrize(
    "between",
    [
        b"",
        b"stray",
        b"<record>",
        b'<acl url="a"/>',
        b"</group><group action='delete'>",
        b"<!-- -->",
    ],
)
def test_runs_of_alike_records_read_the_same_in_spans(between: bytes, span_bytes: int) -> None:
    run = b'<record url="u" mimetype="text/html">\n</record>\n' * 4000
    markup = b"<gsafeed><group>" + run + between + run + b"</group></gsafeed>"
    assert in_spans(markup, span_bytes) == whole(markup)


def test_spans_are_end_to_end() -> None:
    markup = b"<list>" + GOOD * 10 + b"</list>"
    assert [(span.ordinal, span.offset, span.length) for span in spans_of(markup, 40)] == [
        (0, 0, 51),
        (1, 51, 30),
        (2, 81, 45),
        (3, 126, None),
    ]


def test_a_document_in_another_encoding_is_one_span() -> None:
    markup = ("<list>" + '<card url="ü"/>' * 10 + "</list>").encode("utf-16")
    assert spans_of(markup, 1) == [Span(source="c.xml")]
