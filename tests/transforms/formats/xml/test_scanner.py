"""Where units begin and end, what stands between them, and that blocks make no difference."""

import io
from functools import partial
from typing import IO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import ElementContext, Span
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.gsa.gsa_formats import FEED_NAMES
from feedferry.transforms.formats.xml.scanning.buffer import BLOCK_BYTES
from feedferry.transforms.formats.xml.scanning.document_state import UNKNOWN
from feedferry.transforms.formats.xml.scanning.raw_elements import RawElement, Run
from feedferry.transforms.formats.xml.scanning.rejected_ranges import find_url
from feedferry.transforms.formats.xml.scanning.scanner import RecordScanner
from support.damage import damaged, feeds, torn
from support.gsa_records import read_feed
from support.streams import read_both_ways, slow

VOCABULARY = ElementNames(root="feed", records=("record", "acl"), group="group", header="header")
HEAD = b"<feed>\n<header>h</header>\n<group a='1'>\n"
TAIL = b"\n</group>\n</feed>\n"
AROUND = ElementContext(
    root=b"<feed>", header=b"<header>h</header>", group=b"<group a='1'>", depth=1
)
A, B = b'<record url="a"/>', b'<record url="b">b</record>'
BLOCKS = st.sampled_from((1, 2, 3, 10, 64, 200, 1000))
TRAPS = pytest.mark.parametrize(
    "trap", [b"<record>", b"<record ", b"</record>", b"<acl ", b"</group>", b"</feed>"]
)
INSIDE = Span(offset=1)
"""A span that does not begin a stream: its head is not read at once to find the encoding."""


def scan(
    markup: bytes, *, span: Span | None = None, most: int = 1 << 20
) -> list[RawElement | Reject]:
    stream = io.BytesIO(markup)
    scanner = RecordScanner(stream, VOCABULARY, span or Span(source="f.xml"), max_unit_bytes=most)
    return [item for item in scanner if not isinstance(item, list)]


def scan_slowly(
    markup: bytes, block_bytes: int, *, most: int = 1 << 20
) -> list[RawElement | Reject]:
    scanner = RecordScanner(slow(markup, block_bytes), VOCABULARY, INSIDE, max_unit_bytes=most)
    return [item for item in scanner if not isinstance(item, list)]


def between(stretch: bytes) -> list[RawElement | Reject]:
    """What is found of a stretch between two records, and of these."""
    return scan(HEAD + A + stretch + B + TAIL)


def texts(results: list[RawElement | Reject]) -> list[bytes | tuple[str, bytes]]:
    """The units, and of rejects their code too."""
    return [
        item.text if isinstance(item, RawElement) else (item.code, item.data) for item in results
    ]


def reject_in(results: list[RawElement | Reject]) -> Reject:
    (reject,) = [item for item in results if isinstance(item, Reject)]
    return reject


def element(text: bytes) -> RawElement:
    (item,) = scan(HEAD + text + TAIL)
    assert isinstance(item, RawElement), item
    return item


def contexts(markup: bytes) -> list[ElementContext]:
    return [item.context for item in scan(markup) if isinstance(item, RawElement)]


# Elements


def test_an_element_is_one_element_with_its_place() -> None:
    assert places(scan(HEAD + A + b"\n\n " + B + TAIL)) == [
        ("record", A, 40, 4),
        ("record", B, 60, 6),
    ]


def places(results: list[RawElement | Reject]) -> list[tuple[str, bytes, int, int]]:
    units = [
        (item.name, item.text) if isinstance(item, RawElement) else (item.code, item.data)
        for item in results
    ]
    return [(*unit, item.offset, item.line) for unit, item in zip(units, results, strict=True)]


@pytest.mark.parametrize(
    "text",
    [
        *(b"<record/>", b"<record />", b"<record></record>", b"<record\n></record\n>"),
        b"<record\turl='a>b' foo=\"'\"/>",
        b'<record url="/>"></record>',
        b'<record url="&lt;/record>"></record>',
        b"<record><records/><recordset></recordset></record>",
        b"<record><acl/></record>",
        b"<record><acl><principal>a</principal></acl></record>",
        b'<acl url="a"/>',
        b'<acl url="a"><principal>a</principal></acl>',
        b"<record><content>a > b</content></record>",
    ],
)
def test_an_element_is_found_whole(text: bytes) -> None:
    assert element(text).text == text


@TRAPS
@pytest.mark.parametrize("around", [b"<![CDATA[@]]>", b"<!-- @ -->", b"<?pi @?>"])
def test_markup_in_a_section_of_a_element_is_none(trap: bytes, around: bytes) -> None:
    text = b"<record><content>" + around.replace(b"@", trap) + b"</content></record>"
    assert texts(scan(HEAD + text + B + TAIL)) == [text, B]


@TRAPS
@pytest.mark.parametrize("around", [b"<!-- @ -->", b"<?pi @?>"])
def test_markup_in_a_section_between_elements_is_none(trap: bytes, around: bytes) -> None:
    assert texts(between(around.replace(b"@", trap))) == [A, B]


# Contexts


def test_a_group_ends() -> None:
    groups = contexts(b'<feed><group a="1">' + A + b"</group>" + A + b"<group/>" + A + b"</feed>")
    assert [context.group for context in groups] == [b'<group a="1">', b"", b""]


def test_a_header_applies_until_the_root_ends() -> None:
    groups = contexts(HEAD + A + TAIL + b"<feed><group>" + A + TAIL)
    assert [context.header for context in groups] == [b"<header>h</header>", b""]


def test_elements_of_one_group_share_its_context() -> None:
    groups, other = contexts(HEAD + A + B + TAIL)
    assert groups is other


def test_a_span_has_the_context_of_its_beginning() -> None:
    span = Span(offset=40, length=17, line=4, position=AROUND)
    (item,) = scan(A, span=span)
    assert isinstance(item, RawElement)
    assert (item.offset, item.line, item.context) == (40, 4, AROUND)


# Ranges that are no record


@pytest.mark.parametrize(
    ("stretch", "code", "reason"),
    [
        (b"stray", "stray", "text between records; expected a record"),
        (b"</content>", "stray", "text between records; expected a record"),
        (b"<note/>", "stray", "<note> between records; expected a record"),
        (b"<records/>", "stray", "<records> between records; expected a record"),
        (b"</record>", "stray", "text between records; expected a record"),
        (b"<record>", "torn-record", "'<record' inside <record>; expected </record> before it"),
        (b"<acl url='a'>", "torn-record", "'<record' inside <acl>; expected </acl> before it"),
        (b'<record url="a', "malformed", "a tag that does not end; expected '>'"),
        (b"<record url='a'<b>c</record>", "malformed", "a tag that does not end; expected '>'"),
        (b"<record><!-- </record>", "malformed", "'<!--' without its end; expected '-->'"),
        (b"<record><?pi </record>", "malformed", "'<?' without its end; expected '?>'"),
        (
            b"<record><![CDATA[ </record>",
            "malformed",
            "'<![CDATA[' without its end; expected ']]>'",
        ),
        (b"<!-- ", "malformed", "'<!--' without its end; expected '-->'"),
        (b"<!DOCTYPE ", "malformed", "a DOCTYPE without its end"),
    ],
)
def test_a_range_that_is_no_element_says_why(stretch: bytes, code: str, reason: str) -> None:
    reject = reject_in(between(stretch))
    assert (reject.code, reject.reason) == (code, reason)


@pytest.mark.parametrize("name", ["record", "acl"])
@pytest.mark.parametrize(
    ("opener", "closer", "code"),
    [
        (b"<![CDATA[", b"]]>", "ambiguous-cdata"),
        (b"<![CDATA[", b"]]]]><![CDATA[> d]]>", "ambiguous-cdata"),
        (b"<!-- todo", b"-->", "ambiguous-comment"),
        (b"<?php echo 1;", b"?>", "ambiguous-instruction"),
    ],
)
def test_a_section_from_one_record_into_another_is_set_aside_with_both(
    opener: bytes, closer: bytes, code: str, name: str
) -> None:
    torn = b"<%b url='c'>%b</%b>" % (name.encode(), opener, name.encode())
    for between_them in (b"", b"\n", b"</group>\n<group>\n", B * 199):
        stretch = torn + between_them + b'<record url="d">d' + closer + b"</record>"
        assert texts(between(stretch)) == [A, (code, stretch), B]


def test_a_section_from_one_acl_into_another_is_set_aside_with_both() -> None:
    stretch = b"<acl url='c'><![CDATA[</acl><acl url='d'>]]></acl>"
    results = between(stretch)
    assert [item.code for item in results if isinstance(item, Reject)] == ["ambiguous-cdata"]
    assert texts(results)[0] == A


def test_a_section_that_is_closed_in_another_section_is_set_aside_with_that_section() -> None:
    stretch = (
        b'<record url="c"><!-- todo</record><record url="d"><![CDATA[-->'
        b'</record><record url="fake"/>]]></record>'
    )
    assert texts(between(stretch)) == [A, ("ambiguous-comment", stretch), B]


@pytest.mark.parametrize(
    "content",
    [
        b"</record><record/> a feed in words",
        b"</record> without another record",
        b"<record url='d'><![CDATA[d",
        b"<record url='d'/><record url='e'>e</record>",
        b"<record url='d'><content><![CDATA[d]]]]><![CDATA[></content></record><record url='e'>",
    ],
)
def test_a_record_that_quotes_records_from_their_beginning_is_content(content: bytes) -> None:
    text = b"<record><![CDATA[" + content + b"]]></record>"
    assert texts(scan(HEAD + text + B + TAIL)) == [text, B]


DELETING = b'<group action="delete">'
FRAMES = (
    *(b"<feed>", b"</feed>", b"</group>", DELETING, b"</group>" + DELETING),
    b"<header>other</header>",
    b"<feed><header>other</header>" + DELETING,
    b"</group></feed><feed><header>other</header>" + DELETING,
)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize(
    "record",
    [
        b"<record><c>text %b text</c></record>",
        b"<record>%b<c>text</c></record>",
        b"<record <c>text %b text</c></record>",
        b"<recor><c>text %b text</c></record>",
        b"<record><c>text %b text</record>",
    ],
)
def test_markup_of_the_frame_in_an_unfinished_record_is_not_obeyed(
    frame: bytes, record: bytes
) -> None:
    stretch = record % frame
    results = between(stretch)
    assert [texts([item])[0] for item in results][0::2] == [A, B]
    assert reject_in(results).data == stretch
    assert {item.context for item in results if isinstance(item, RawElement)} == {AROUND}


@pytest.mark.parametrize(
    ("frame", "context"),
    [
        (b"</group>\n<group>\n", replace(AROUND, group=b"<group>")),
        (b"</group>\n" + DELETING, replace(AROUND, group=DELETING)),
        (b"</group></feed><feed>" + DELETING, ElementContext(b"<feed>", b"", DELETING, 1)),
    ],
)
def test_a_record_that_lacks_only_its_end_tag_is_followed_by_the_frame(
    frame: bytes, context: ElementContext
) -> None:
    torn_record = b"<record><c>text</c>" + frame
    assert reject_in(between(torn_record)).code == "torn-record"
    assert contexts(HEAD + A + torn_record + B + TAIL) == [AROUND, context]


@pytest.mark.parametrize(
    ("frame", "header"),
    [
        (b"</group>" + DELETING, AROUND.header),
        (DELETING, AROUND.header),
        (b"</group></feed><feed><header>other</header>" + DELETING, UNKNOWN),
        (b"<feed>", UNKNOWN),
    ],
)
def test_a_torn_text_before_the_frame_makes_the_context_unknown(
    frame: bytes, header: bytes
) -> None:
    torn_record = b"<record><c>text" + frame
    unknown = ElementContext(root=AROUND.root, header=header, group=UNKNOWN, depth=1)
    assert reject_in(between(torn_record)).code == "torn-record"
    assert contexts(HEAD + torn_record + B + b"</group><group>" + A + TAIL) == [
        unknown,
        replace(unknown, group=b"<group>"),
    ]


def test_a_record_after_the_end_of_its_feed_has_an_unknown_header() -> None:
    assert contexts(HEAD + A + TAIL + B)[-1].header == UNKNOWN


@pytest.mark.parametrize(
    "header",
    [
        b"<header>text",
        b"<header>text</heade><grou><recor>c</record>",
        b"<header>text<recor>c</record></header>",
    ],
)
def test_a_damaged_header_is_set_aside_and_the_records_after_it_are_read(header: bytes) -> None:
    markup = b"<feed>" + header + A + B + TAIL
    assert texts(scan(markup)) == [("header-damaged", header), A, B]
    assert contexts(markup)[-1].header == header


def test_a_second_header_is_set_aside() -> None:
    second = b"<header>other</header>"
    markup = b"<feed><header>h</header>" + second + A + TAIL
    assert texts(scan(markup)) == [("stray", second), A]
    assert contexts(markup)[-1].header == b"<header>h</header>"


SWALLOWERS = pytest.mark.parametrize(
    ("opener", "closer", "code", "reason"),
    [
        (
            *(b"<!--", b"-->", "ambiguous-comment"),
            "a comment that holds a part of a record; "
            "expected '-->' before it, or a comment that holds whole records",
        ),
        (
            *(b"<?pi", b"?>", "ambiguous-instruction"),
            "a processing instruction that holds a part of a record; "
            "expected '?>' before it, or no records in it",
        ),
    ],
)


@SWALLOWERS
def test_a_section_between_records_that_swallows_records_is_set_aside(
    opener: bytes, closer: bytes, code: str, reason: str
) -> None:
    section = opener + b' <record url="d">d</record>\n<record url="e">e' + closer
    results = between(section + b"</record>")
    assert texts(results) == [A, (code, section), ("stray", b"</record>"), B]
    assert {item.reason for item in results if isinstance(item, Reject)} > {reason}


def test_an_element_beyond_the_limit_is_set_aside() -> None:
    large = b"<record>" + b"a" * 2_000_000 + b"</record>"
    reject = reject_in(scan(HEAD + large + B + TAIL, most=1_000_000))
    assert (reject.code, reject.reason, reject.length, reject.truncated) == (
        "record-too-large",
        "more than 1000000 bytes; expected a smaller record; raise --max-content-bytes",
        2_000_017,
        True,
    )


# The ends of the stream


def test_a_stream_that_ends_before_its_root_says_so() -> None:
    assert reject_in(scan(HEAD + A)) == Reject(
        code="torn-end",
        reason="the end of the stream; expected </feed>: more records may have followed",
        stage="read",
        source="f.xml",
        line=4,
        offset=57,
    )


def test_a_span_that_is_not_the_last_may_end_before_the_root() -> None:
    span = Span(offset=40, length=17, position=AROUND)
    assert [reject for reject in scan(A, span=span) if isinstance(reject, Reject)] == []


@pytest.mark.parametrize(
    "doctype",
    [
        b"<!DOCTYPE feed>",
        b'<!DOCTYPE feed PUBLIC "-//A//B <c>//EN" "">',
        b'<!DOCTYPE feed [<!ELEMENT record (a|b)> <!ENTITY a "]>"> <!-- ]> --> <?pi ]> ?>]>',
        b"<!DOCTYPE feed SYSTEM 'a' [\n]\n>",
    ],
)
def test_a_doctype_is_passed_over(doctype: bytes) -> None:
    assert texts(scan(doctype + HEAD + A + TAIL)) == [A]


# Blocks


@pytest.mark.slow
@settings(max_examples=200)
@given((feeds() | damaged() | torn()).map(lambda case: case.markup), BLOCKS)
def test_a_feed_is_read_the_same_in_blocks_of_any_size(markup: bytes, block_bytes: int) -> None:
    assert read_slowly(markup, block_bytes) == read_at_once(markup)


@pytest.mark.slow
@settings(max_examples=300)
@given((feeds() | damaged() | torn()).map(lambda case: case.markup), BLOCKS, st.integers(100, 3000))
def test_a_limit_does_not_depend_on_where_blocks_end(
    markup: bytes, block_bytes: int, most: int
) -> None:
    assert limited(slow(markup, block_bytes), most) == limited(io.BytesIO(markup), most)


def limited(stream: IO[bytes], most: int) -> list[RawElement | Reject]:
    scanner = RecordScanner(stream, FEED_NAMES, INSIDE, max_unit_bytes=most)
    return [item for item in scanner if not isinstance(item, list)]


@pytest.mark.parametrize("block_bytes", [1, 100, 10_000])
@pytest.mark.parametrize(("length", "code"), [(83, ""), (84, "record-too-large")])
@pytest.mark.parametrize("text", [b"<record>%b</record>", b"<record><![CDATA[%b]]></record>"])
def test_a_record_of_the_limit_is_the_largest_wherever_blocks_end(
    block_bytes: int, length: int, code: str, text: bytes
) -> None:
    record = text % (b"a" * (length + 17 - len(text % b"")))
    scanned = scan_slowly(HEAD + record + B + TAIL, block_bytes, most=100)
    assert texts(scanned) == [(code, record) if code else record, B]


def read_at_once(markup: bytes) -> list[Record | Reject]:
    return read_both_ways(partial(read_feed, span=INSIDE), markup)


def read_slowly(markup: bytes, block_bytes: int) -> list[Record | Reject]:
    return list(read_feed(slow(markup, block_bytes), span=INSIDE))


@pytest.mark.parametrize("block_bytes", [1, 2, 1000, 5000])
def test_a_long_record_is_found_in_blocks_of_any_size(block_bytes: int) -> None:
    text = b"<record><content>" + b"words <b " * 700 + b"</content></record>"
    assert texts(scan_slowly(HEAD + text + B + TAIL, block_bytes)) == [text, B]


@pytest.mark.parametrize("block_bytes", [7, 1024, 5000])
def test_an_acl_of_its_own_ends_a_range_wherever_a_block_ends(block_bytes: int) -> None:
    stretch = b'<record url="a" <' + b"x" * 1500 + b"\n"
    alone = b'<acl inherit-from="b" url="c"/>'
    assert texts(scan_slowly(HEAD + stretch + alone + B + TAIL, block_bytes)) == [
        ("malformed", stretch.rstrip()),
        alone,
        B,
    ]


@pytest.mark.parametrize("block_bytes", [7, 1024, 5000])
def test_an_end_tag_with_much_white_space_is_one_wherever_a_block_ends(block_bytes: int) -> None:
    text = b"<record></record" + b" " * 900 + b">"
    assert texts(scan_slowly(HEAD + text + B + TAIL, block_bytes)) == [text, B]


# Bytes of the stream


def test_original_gives_the_bytes_of_another_encoding() -> None:
    markup = (HEAD + "<record>ü</record>".encode() + TAIL).decode().encode("utf-16")
    scanner = RecordScanner(io.BytesIO(markup), VOCABULARY, Span(), max_unit_bytes=1 << 20)
    (item,) = scanner
    assert isinstance(item, RawElement)
    assert scanner.original(item.text) == "<record>ü</record>".encode("utf-16-le")


# Runs


def test_a_run_of_large_records_is_longer_than_a_block() -> None:
    runs: list[int] = []

    def take(run: bytes, _offset: int, _line: int, _context: ElementContext) -> Run | None:
        number, length = run.count(b"</record>"), run.rfind(b"</record>") + len(b"</record>")
        runs.append(number)
        return Run([], number, length) if number else None

    record = b'<record url="a">' + b"x" * 40_000 + b"</record>"
    stream = io.BytesIO(HEAD + 100 * record + TAIL)
    scanner = RecordScanner(stream, VOCABULARY, Span(), max_unit_bytes=1 << 20, bulk=take)
    assert not any(isinstance(item, RawElement | Reject) for item in scanner)
    assert sum(runs) == 100
    assert len(runs) < 100 * len(record) // BLOCK_BYTES + 2


@pytest.mark.parametrize("taken_records", [1, 5, 30, 300])
def test_runs_of_few_records_are_not_copied_again_and_again(taken_records: int) -> None:
    """An element that a run cannot have is after a number of records: an ACL, a comment."""
    passed: list[int] = []

    def take(run: bytes, _offset: int, _line: int, _context: ElementContext) -> Run | None:
        passed.append(len(run))
        before = run.partition(b"<acl")[0]
        number, length = before.count(b"</record>"), before.rfind(b"</record>") + len(b"</record>")
        return Run([], number, length) if number else None

    record = b'<record url="a">' + b"x" * 200 + b"</record>\n"
    records = (record * taken_records + b'<acl url="b"></acl>\n') * (6000 // taken_records)
    stream = io.BytesIO(HEAD + records + TAIL)
    scanner = RecordScanner(stream, VOCABULARY, Span(), max_unit_bytes=1 << 20, bulk=take)
    assert not any(isinstance(item, Reject) for item in scanner)
    assert sum(passed) < 4 * len(records)


# URLs


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (b'<record url="http://e.com/">', "http://e.com/"),
        (b"<record lock='true'\n url = 'http://e.com/'>", "http://e.com/"),
        (b'<record url="http://e.com/?a=1&amp;b=&#50;&copy=3">', "http://e.com/?a=1&b=2&copy=3"),
        (b'<record url="http://e.com/it\'s">', "http://e.com/it's"),
        (b"<record url='http://e.com/a\"b'>", 'http://e.com/a"b'),
        (b"<record lock='>' url=\"http://e.com/a>b\"><content>", "http://e.com/a>b"),
        (b"<acl url='http://e.com/a>b'/>", "http://e.com/a>b"),
        (b'<record url="http://e.com/ <content>', None),
        (b'<record url="http://e.com/>the "same" page', None),
        (b'<record url="http://e.com/> a "', None),
        (b'<record ur="http://e.com/"><content><a url="http://f.com/"/>', None),
        (b"<Item><Url>http://e.com/</Url>", "http://e.com/"),
        (b"<Item><Url>http://e.com/</Ur>", None),
        (b'<acl url="http://e.com/d/">', "http://e.com/d/"),
        (b'<record url="\xff">', "\ufffd"),
        (b'<record displayurl="a" url="b">', "b"),
        (b'<record displayurl="a">', None),
        (b'<record url="">', None),
        (b"", None),
        (b'<membership>\n<principal scope="GROUP">\nR &amp; D\n</principal><x', "R & D"),
        (b"<membership a='1'><principal>B\xe4r</principal>", "B\ufffdr"),
        (b"<membership><principal> </principal>", None),
        (b"<membership><members><principal>joe</principal>", None),
    ],
)
def test_a_url_is_taken_from_the_markup_that_states_all_of_it(text: bytes, url: str | None) -> None:
    assert find_url(text) == url
