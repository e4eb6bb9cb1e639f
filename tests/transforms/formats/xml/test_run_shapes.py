"""A shape has nothing but its element, and its constants are never taken for marks."""

import io
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ReadOptions, by_name
from feedferry.transforms.formats.fast_path.columns.column_kinds import ColumnKind
from feedferry.transforms.formats.fast_path.columns.marks import hole, stated
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.singly import singly
from feedferry.transforms.formats.xml.bulk import run_shapes
from feedferry.transforms.rules.adapt import Target
from support.batches import SIZES, by_parser, conversion

ROOT, WITH_PREFIX = "<gsafeed>", '<gsafeed xmlns:q="u">'
_ROOTS = (ROOT, WITH_PREFIX, WITH_PREFIX, '<gsafeed xmlns="u">', "<gsafeed xmlns:q='u' xmlns='v'>")
_BETWEEN = (
    *("text", " text ", "\ufeff", "\ufeff\n", "\n\ufeff", "&#32;", "&amp;", "]]>", '"', "\xa0"),
    *(
        "<content>a</content>",
        "<q:a/>",
        "<!-- a -->",
        "<?a?>",
        "<![CDATA[a]]>",
        "\x00",
        "</record>",
    ),
)
_KINDS = (ColumnKind.TEXT, ColumnKind.URL, ColumnKind.DATE, ColumnKind.INTEGER)
_NONCHARACTER = "\ufdd0"
_MARKS = [
    f"{begin}{stated(hole(kind, number))}"
    for begin in ("", _NONCHARACTER)
    for kind in _KINDS
    for number in range(6)
]

TARGETS = (
    Target(format="gsa-feed", datasource="d", feedtype="incremental"),
    Target(format="thunderstone"),
    Target(format="avro"),
    Target(format="jsonl"),
)


def feed_of(root: str, records: str, *, feedtype: str = "incremental", mark: str = "") -> bytes:
    header = f"<header><datasource>d</datasource><feedtype>{feedtype}</feedtype></header>"
    return f"{mark}{root}\n{header}<group>\n{records}\n</group></gsafeed>\n".encode()


def read(data: bytes, *, batch_records: int = 1024, format_: str = "gsa-feed") -> list[Any]:
    options = ReadOptions(batch_records=batch_records)
    return [*singly(by_name(format_).read(io.BytesIO(data), span=Span(), options=options))]


def plain_records(count: int = 20) -> list[str]:
    return [f'<record url="http://e.com/{n}" mimetype="text/plain"></record>' for n in range(count)]


@pytest.mark.parametrize("root", [ROOT, WITH_PREFIX])
@pytest.mark.parametrize("text", ["text", "\ufeff", "\ufeff\n", "&#32;"])
@pytest.mark.parametrize("size", [0, *SIZES])
def test_text_between_records_that_are_alike_is_rejected(root: str, text: str, size: int) -> None:
    data = feed_of(root, text.join(plain_records(4)))
    results = read(data, batch_records=size)
    kinds = [type(result) for result in results]
    assert kinds == [Record, Reject, Record, Reject, Record, Reject, Record]
    assert {result.data.rstrip() for result in results[1::2]} == {text.strip("\n").encode()}
    assert {result.code for result in results[1::2]} == {"stray"}


@pytest.mark.parametrize(
    "inside", ["<header/>", "<group></group>", "<gsafeed/>", '"', 'a="b"', '"">']
)
@pytest.mark.parametrize("size", SIZES)
def test_markup_that_ends_a_record_and_quotes_in_its_text_are_rejected(
    inside: str, size: int
) -> None:
    odd = [
        record.replace("></record>", f">{inside}</record>") if number % 4 else record
        for number, record in enumerate(plain_records())
    ]
    data = feed_of(ROOT, "\n".join(odd))
    with by_parser():
        singles = read(data, batch_records=0)
    assert read(data, batch_records=size) == singles
    assert sum(isinstance(single, Reject) for single in singles) >= 15


@pytest.mark.parametrize("inside", ["", "<recordings/>", "<recordings></recordings>"])
def test_records_that_are_alike_have_their_own_places(inside: str) -> None:
    records = [record.replace("></", f">{inside}</") for record in plain_records()]
    data = feed_of(ROOT, "\n".join(records))
    places = [record.provenance.offset for record in read(data)]
    assert places == [data.index(record.encode()) for record in records]


@pytest.mark.parametrize("begin", ["", _NONCHARACTER, "&#xFDD0;", "&#64976;"])
@pytest.mark.parametrize("text", ["~hole-0001~", "~hole-0002~", "http://hole-0000.example.com/~"])
@pytest.mark.parametrize("number", range(4))
def test_a_constant_that_equals_a_mark_keeps_its_value(begin: str, text: str, number: int) -> None:
    mark, constant = begin + text, f"{_NONCHARACTER if begin else ''}{text}"
    constants = ["a", "b", "http://e.com/", "c"]
    constants[number] = mark
    name, namespace, parent, mimetype = constants
    records = [
        f'<record url="http://e.com/{n}" mimetype="{mimetype}"><acl inherit-from="{parent}">'
        f'<principal scope="user" access="permit" namespace="{namespace}">n{n}</principal></acl>'
        f'<metadata><meta name="{name}" content="v{n}"/></metadata></record>'
        for n in range(20)
    ]
    for n, record in enumerate(read(feed_of(ROOT, "".join(records)))):
        [meta], [principal] = record.metadata, record.acl.principals
        stated_constants = (meta.name, principal.namespace, record.acl.inherit_from)
        expected = [constant if text == mark else text for text in constants]
        assert [*stated_constants, record.mimetype] == expected
        assert (record.url, meta.value, principal.name) == (f"http://e.com/{n}", f"v{n}", f"n{n}")


def test_the_marks_of_a_shape_as_constants_of_another_keep_their_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[Sequence[object]] = []
    sample = run_shapes.RunShape._sample

    def note(shape: run_shapes.RunShape, row: Sequence[object]) -> object:
        rows.append(row)
        return sample(shape, row)

    monkeypatch.setattr(run_shapes.RunShape, "_sample", note)
    names = ["a", "b"]
    for _ in range(3):
        metas = "".join(f'<meta name="{name}" content="@"/>' for name in names)
        records = [
            f'<record url="http://e.com/{n}" last-modified="Tue, 06 Nov 2007 12:45:26 GMT">'
            f"<metadata>{metas.replace('@', str(n))}</metadata></record>"
            for n in range(20)
        ]
        for n, record in enumerate(read(feed_of(ROOT, "".join(records)))):
            assert [meta.name for meta in record.metadata] == names
            assert {meta.value for meta in record.metadata} == {str(n)}
        names = [mark for mark in rows[-1] if isinstance(mark, str)]


def test_records_with_a_mark_in_a_constant_are_still_in_batches() -> None:
    records = [record.replace("text/plain", "~hole-0000~") for record in plain_records(100)]
    data, options = feed_of(WITH_PREFIX, "\n".join(records)), ReadOptions(batch_records=1024)
    results = by_name("gsa-feed").read(io.BytesIO(data), options=options)
    assert [len(item.order) for item in results if isinstance(item, RecordBatch)] == [100]


@st.composite
def _constants(draw: st.DrawFn) -> str:
    """A usual text, or one that equals a mark, with and without a reference."""
    text = draw(st.sampled_from((*("a", "b c", "http://e.com/") * 8, *_MARKS)))
    return text if draw(st.integers(0, 9)) else f"&#{ord(text[0])};{text[1:]}"


@st.composite
def _shapes(draw: st.DrawFn) -> str:
    """A record with @ in place of its values."""
    name, constant = draw(st.sampled_from(("mimetype", "foo", "q:foo"))), draw(_constants())
    metas = [
        f'<meta name="{name}" content="@"/>' for name in draw(st.lists(_constants(), max_size=3))
    ]
    if not draw(st.integers(0, 4)):
        packed = [b64encode(draw(st.sampled_from(_MARKS)).encode()).decode() for _ in range(2)]
        metas.append('<meta encoding="base64binary" name="{}" content="{}"/>'.format(*packed))
    principal = f'<principal scope="user" access="permit" namespace="{draw(_constants())}">@'
    parts = (
        f"<metadata>{''.join(metas)}</metadata>",
        f'<acl inherit-from="{draw(_constants())}">{principal}</principal></acl>',
        draw(st.sampled_from(("<content>@</content>", "<content><![CDATA[@]]></content>"))),
        draw(st.sampled_from(("<acl/>", '<q:b c="@">~hole-0001~</q:b>'))),
    )
    chosen = draw(st.lists(st.sampled_from(parts[:3] * 3 + parts), max_size=3, unique=True))
    date = draw(st.sampled_from(("", ' last-modified="Tue, 06 Nov 2007 12:45:26 GMT"')))
    return f'<record url="http://e.com/@" {name}="{constant}"{date}>{"".join(chosen)}</record>'


@st.composite
def disturbed_feeds(draw: st.DrawFn) -> bytes:
    """Feeds with prefixes, text between records, byte order marks, and marks in constants."""
    shapes = st.sampled_from(draw(st.lists(_shapes(), min_size=1, max_size=2)))
    usual, share = (
        draw(st.sampled_from(("\n", "", *_BETWEEN))),
        draw(st.sampled_from((3, 12, 1000))),
    )
    records = []
    for number in range(draw(st.integers(2, 24))):
        between = usual if draw(st.integers(0, share)) else draw(st.sampled_from(_BETWEEN))
        value = str(number) if draw(st.integers(0, 30)) else draw(st.sampled_from(_MARKS))
        records.append(draw(shapes).replace("@", value) + between)
    return feed_of(
        draw(st.sampled_from(_ROOTS)),
        "".join(records),
        feedtype=draw(st.sampled_from(("full", "incremental", "metadata-and-url"))),
        mark=draw(st.sampled_from(("", "", "\ufeff"))),
    )


@pytest.mark.slow
@settings(max_examples=300)
@given(
    data=disturbed_feeds(),
    target=st.sampled_from(TARGETS),
    size=st.sampled_from((0, *SIZES)),
    chunk=st.sampled_from((900, 1 << 20)),
)
def test_texts_and_marks_change_no_result_of_a_batch(
    data: bytes, target: Target, size: int, chunk: int
) -> None:
    with by_parser():
        single = conversion(data, target, batch_records=0, max_chunk_bytes=chunk)
    assert conversion(data, target, batch_records=size, max_chunk_bytes=chunk) == single
