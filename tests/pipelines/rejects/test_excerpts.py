"""A reject as text: the place is marked, and a terminal is safe from the bytes."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.pipelines.rejects.excerpts import excerpt, show
from feedferry.pipelines.rejects.run_rejects import RunReject
from feedferry.schemas.avro import carried_bytes
from feedferry.schemas.record import Action, Content, Provenance, Record
from feedferry.schemas.reject import Reject

FRAGMENTS = (
    *(b"<record ", b"url='a'", b">", b"&", b"&amp;", b"<![CDATA[", b"]]>", b"</record>", b"\n"),
    *(b"\r", b"\xff", b"\0", b"<?xml version='1.0' encoding='utf-16'?>", b"a" * 300, b"\x1b[2J"),
    *(b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;", "é😀\u202e".encode()),
)
REJECT = Reject(
    code="malformed",
    reason="an & that is not escaped in line 2 of the record; expected &amp;",
    stage="read",
    source="feed.xml",
    line=7,
    offset=313,
    length=60,
    url="http://www.example.com/a",
    data=b'<record url="http://www.example.com/a">\n<content>fish & chips</content>\n</record>',
)


def test_a_reject_is_shown_with_its_place_its_cure_and_its_bytes() -> None:
    assert list(show(RunReject(Path("out"), 3, REJECT))) == [
        *("reject    3 of out", "code      malformed: A record that is not well-formed XML."),
        *("place     feed.xml, line 7, byte 313, 60 bytes", "url       http://www.example.com/a"),
        *("stage     read", "found     an & that is not escaped in line 2 of the record"),
        *("expected  &amp;", "cause     `&` or `<` that is not escaped, or bytes that were lost."),
        *("cure      Correct the place that `rejects show` marks; escape `&` as `&amp;`.", ""),
        *('7 | <record url="http://www.example.com/a">', "8 | <content>fish & chips</content>"),
        *("  |               ^", "9 | </record>"),
    ]


@pytest.mark.parametrize(
    ("reason", "data", "shown"),
    [
        (
            "action='ad'; expected add or delete",
            '<record url="http://h/ad" action="ad"/>',
            ['7 | <record url="http://h/ad" action="ad"/>', f"  | {' ' * 32}^"],
        ),
        (
            "Entity 'nbsp' not defined; expected well-formed XML",
            "<content>a&nbsp;b</content>",
            ["7 | <content>a&nbsp;b</content>", f"  | {' ' * 10}^"],
        ),
        ("x (byte 4); expected a record in JSON", "{'a': 1}", ["7 | {'a': 1}", "  |     ^"]),
        ("no url", "a\x1b[2Jb\x07", [r"7 | a\x1b[2Jb\x07", "  | ^"]),
        (
            "'end'; expected more",
            "x" * 300 + "end" + "y" * 300,
            [f"7 | …{'x' * 34}end{'y' * 31}…", f"  | {' ' * 35}^"],
        ),
    ],
    ids=["value", "entity", "byte", "control-characters", "long-line"],
)
def test_the_place_that_a_reason_names_is_marked(reason: str, data: str, shown: list[str]) -> None:
    assert list(excerpt(replace(REJECT, reason=reason, data=data.encode()))) == shown


def test_other_lines_are_a_window_around_the_mark() -> None:
    lines = [f"line {number}" for number in range(100)]
    reject = replace(
        REJECT, line=1, reason="'line 50'; expected 'x'", data="\n".join(lines).encode()
    )

    shown = list(excerpt(reject))
    assert (len(shown), shown[0], shown[1], shown[-2]) == (
        *(14, " … |", "46 | line 45", "56 | line 55"),
    )


@pytest.mark.parametrize(
    ("data", "reason", "shown"),
    [
        ("<a>grün & x</a>".encode("latin-1"), "x", [r"7 | <a>gr\xfcn & x</a>", f"  | {' ' * 11}^"]),
        ("<a>grün & x</a>".encode("utf-16-le"), "x", ["7 | <a>grün & x</a>", f"  | {' ' * 8}^"]),
        (b"<a>a long text \xff</a>", "x", [r"7 | <a>a long text \xff</a>", f"  | {' ' * 15}^"]),
    ],
    ids=["latin-1", "utf-16", "a-bad-byte"],
)
def test_text_in_another_encoding_is_shown_as_text(
    data: bytes, reason: str, shown: list[str]
) -> None:
    assert list(excerpt(replace(REJECT, reason=reason, data=data))) == shown


def test_bytes_that_are_no_text_are_hexadecimal_numbers_with_a_mark() -> None:
    reject = replace(REJECT, offset=0x100, data=b"GSA Adaptor Data\xff\xfe\0\x1b[2J")

    assert list(excerpt(reject)) == [
        "00000100  47 53 41 20 41 64 61 70 74 6f 72 20 44 61 74 61  GSA Adaptor Data",
        "00000110  ff fe 00 1b 5b 32 4a                             ....[2J",
        "          ^^",
    ]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.one_of(st.lists(st.sampled_from(FRAGMENTS)).map(b"".join), st.binary()),
    st.sampled_from(("read", "adapt", "push")),
    st.sampled_from(("x", "a 'b'; expected <c>", "y (byte 5); expected z", "a=b; expected c")),
)
def test_any_bytes_are_shown_and_a_terminal_is_safe_from_them(
    data: bytes, stage: str, reason: str
) -> None:
    reject = replace(REJECT, data=data, stage=stage, reason=reason)

    lines = list(show(RunReject(Path("out"), 1, reject)))
    assert [line for line in lines if not line.isprintable()] == []


def test_a_record_is_shown_as_json_without_its_content() -> None:
    record = Record(
        url="relative",
        action=Action.ADD,
        content=Content(b"secret"),
        provenance=Provenance(source="feed.xml"),
    )
    reject = replace(REJECT, stage="adapt", data=carried_bytes(record))

    shown = "\n".join(excerpt(reject))
    assert ('"data": "6 bytes"' in shown, "secret" in shown) == (True, False)
