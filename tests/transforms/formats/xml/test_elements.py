"""Raw elements as parsed elements."""

import pytest

from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Action, Content, Extra, Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.xml.elements import (
    ElementReader,
    Grammar,
    ParsedElement,
    parse_markup,
)
from support.streams import read_both_ways

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
