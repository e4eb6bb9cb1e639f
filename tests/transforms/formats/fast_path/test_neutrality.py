"""Columns whose values are checked together are neutral if each value is."""

from base64 import b64encode
from datetime import UTC, datetime
from typing import Any
from zlib import compress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.transforms.formats.fast_path.columns.cells import escaped
from feedferry.transforms.formats.fast_path.columns.column_kinds import (
    CONTENT_KINDS,
    TEXT_KINDS,
    ColumnKind,
)
from feedferry.transforms.formats.fast_path.columns.marks import variants
from feedferry.transforms.formats.fast_path.columns.neutrality import are_neutral, find_not_neutral
from feedferry.transforms.formats.text.xml_text import holds, holds_bytes


@given(st.integers(0, 0x20), st.integers(0, 1), st.sampled_from(["\r\n", "", "\ufffe"]))
def test_a_long_text_with_any_control_character_is_checked_as_a_short_one(
    code: int, count: int, end: str
) -> None:
    text = chr(code) * count + end
    assert holds_bytes(("x" * 70_000 + text).encode()) is holds(text)


HOSTS = ("http://a.example.com/", "https://10.0.0.1/", "http://1.2.example/", "http://a/", "x://h/")
SHORT = st.text("ab/ \t\r\n<&\u00a0\ufffe\ud800'\"?#é.:", max_size=5)
TEXTS = SHORT | st.builds("{}{}".format, st.sampled_from(HOSTS), SHORT)
CONTENTS = st.binary(max_size=3) | TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass"))
DATES = st.sampled_from(
    [
        "Tue, 06 Nov 2007 12:45:26 GMT",
        "Thu, 29 Feb 2024 00:00:00 GMT",
        "Mon, 06 Nov 2007 12:45:26 GMT",  # it was a Tuesday
        "Tue, 6 Nov 2007 12:45:26 GMT",
        "2007-11-06",
    ]
)
VALUES: dict[ColumnKind, st.SearchStrategy[Any]] = {
    **dict.fromkeys(TEXT_KINDS, TEXTS.map(lambda text: escaped([text])[0])),
    ColumnKind.PARENT: TEXTS.map(lambda text: escaped([text])[0]),
    ColumnKind.DATE: DATES,
    ColumnKind.INTEGER: st.sampled_from(["0", "1", "-1", "01", "1" * 18, "1" * 19, "٣", ""]),
    **dict.fromkeys(CONTENT_KINDS, CONTENTS),
    ColumnKind.DOCUMENT: TEXTS,
    ColumnKind.BASE64: st.binary(max_size=5).map(b64encode) | CONTENTS,
    ColumnKind.ZLIB: st.sampled_from([b64encode(compress(b"a")), b"", b"YQ==", b"Y Q="]),
    ColumnKind.TIME: st.just(datetime(2020, 1, 1, tzinfo=UTC)),
    ColumnKind.NUMBER: st.integers(),
}


@pytest.mark.parametrize("kind", ColumnKind)
@given(data=st.data())
def test_a_column_is_neutral_if_each_value_is_and_others_are_found(
    kind: ColumnKind, data: st.DataObject
) -> None:
    column = data.draw(st.lists(VALUES[kind], min_size=1, max_size=20))
    others = {row for row, value in enumerate(column) if not are_neutral((kind,), ([value],))}
    columns = [["a"] * len(column), column]

    assert are_neutral((kind,), (column,)) == (not others)
    assert are_neutral((ColumnKind.TEXT, kind), columns) == (not others)
    assert find_not_neutral((ColumnKind.TEXT, kind), columns, most=len(column)) == others
    some = find_not_neutral((ColumnKind.TEXT, kind), columns, most=0)
    assert some <= others
    assert len(some) == bool(others)


@pytest.mark.parametrize("kind", [*TEXT_KINDS, ColumnKind.PARENT])
@pytest.mark.parametrize(
    "text", ["", " a", "a ", "a\tb", "a<", "&#9;", "\u00a0", "\uffff", "\ud800"]
)
def test_no_text_is_neutral_that_a_writer_changes(kind: ColumnKind, text: str) -> None:
    assert not are_neutral((kind,), ([text],))
    assert not are_neutral((ColumnKind.TEXT, kind), (["a"], [text]))
    assert not are_neutral((kind, ColumnKind.TEXT), ([text], ["a"]))


@pytest.mark.parametrize(
    ("kind", "neutral", "other"),
    [
        (ColumnKind.NAME, "ACME\\a 'b' &amp;", "a &quot;b&quot;"),
        (ColumnKind.URL, "http://a.example.com/?x=1#f", "http://a/"),
        (ColumnKind.DOCID, "a/b?c", "x://h/"),
        (ColumnKind.PARENT, "smb://h/a b", "http://h.example.com/?a"),
        (ColumnKind.DATE, "Tue, 06 Nov 2007 12:45:26 GMT", "Mon, 06 Nov 2007 12:45:26 GMT"),
        (ColumnKind.INTEGER, "10", "010"),
        (ColumnKind.CONTENT, b"&lt;a>\n", b"<a>"),
        (ColumnKind.CDATA, b"<a>\n", b"<a>\r\n"),
        (ColumnKind.FILE, b"<a>\r\n", b"a\0"),
        (ColumnKind.DOCUMENT, "<a>\r\n", "a\0"),
        (ColumnKind.BASE64, b"YQ==", b"YQ"),
        (ColumnKind.ZLIB, b64encode(compress(b"a")), b64encode(compress(b"a")[:-1])),
    ],
)
def test_each_kind_has_neutral_values(kind: ColumnKind, neutral: Any, other: Any) -> None:
    assert are_neutral((kind,), ([neutral],))
    assert not are_neutral((kind,), ([neutral, other],))


@pytest.mark.parametrize("kind", CONTENT_KINDS)
def test_no_large_content_is_neutral(kind: ColumnKind) -> None:
    [content] = [row[0] for row, _ in variants((kind,))][:1]

    assert are_neutral((kind,), ([content],), max_content_bytes=1)
    assert not are_neutral((kind,), ([content],), max_content_bytes=0)
