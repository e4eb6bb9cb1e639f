"""Items that are read without a parser are read as by the parser."""

import io

import pytest
from hypothesis import given, settings

from feedferry.schemas.record import Record
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.thunderstone import dataload
from support.batches import by_parser
from support.dataload_items import HOSTILE, NEUTRAL, dataloads, document

COUNT = 12
KINDS = {
    "Title": "text",
    "u:Price": "text",
    "Category": "text",
    "Modified": "date",
    "Size": "number",
    "Body": "content",
    "Url": "url",
}


def read(data: bytes, *, batch_records: int = 0) -> list[ReadResult]:
    options = ReadOptions(batch_records=batch_records)
    return list(dataload.read(io.BytesIO(data), options=options))


def items(*children: str) -> bytes:
    return document(
        "\n".join(
            f"<Item><Type>I</Type><Url>http://www.example.com/{number}</Url>{child}</Item>"
            for number, child in enumerate(children)
        )
    )


@pytest.mark.slow
@settings(max_examples=600)
@given(dataloads())
def test_a_dataload_is_read_as_by_the_parser(data: bytes) -> None:
    with by_parser():
        expected = read(data)
    assert read(data) == expected


@pytest.mark.parametrize("name", KINDS)
def test_a_value_of_any_kind_is_read_as_by_the_parser(name: str) -> None:
    kind = KINDS[name]
    for value in (*NEUTRAL[kind], *HOSTILE[kind]):
        children = [f"<{name}>{NEUTRAL[kind][0]}</{name}>"] * COUNT
        children[9] = f"<{name}>{value}</{name}>"
        data = document("\n".join(f"<Item><Type>I</Type>{child}</Item>" for child in children))
        with by_parser():
            expected = read(data)
        assert read(data) == expected, value


USUAL = (
    *(
        "<Title>@</Title>",
        "<Keywords>a, @</Keywords>",
        "<Category>@</Category><Category>b</Category>",
    ),
    *(
        *("<Meta>Author: @</Meta>", "<Meta>Author: @\nPhone: x</Meta>", "<Meta>@</Meta>"),
        "<Size>@</Size>",
    ),
    *("<u:Price>@</u:Price>", "<u:Set><value>@</value><value>b</value></u:Set>", "<Body>@</Body>"),
    *('<RawData dt:dt="bin.base64">QUJ@</RawData>', "<Body><![CDATA[<b> & @]]></Body>"),
    *('<Body>a\n@</Body><RawData dt:dt="bin.base64">QUJ@</RawData>', "<MimeType>a/b</MimeType>"),
    *("<Modified>2007-11-06 12:45:0@</Modified>", "\n<Depth>2</Depth>\n<Pop>@</Pop>\n", "<Title/>"),
    *(
        *('<Title>"@"</Title>', "<Title>&lt;@&gt; &amp; &quot;</Title>", "<rid>7</rid>", ""),
        "<Title>@ > 0</Title>",
    ),
)


@pytest.mark.parametrize("child", USUAL)
def test_usual_items_are_in_batches(child: str) -> None:
    data = items(*(child.replace("@", str(number % 10)) for number in range(COUNT)))
    with by_parser():
        expected = read(data)
    [batch] = read(data, batch_records=1024)
    assert isinstance(batch, RecordBatch)
    assert [*batch] == expected


@pytest.mark.parametrize(
    "child",
    [
        *(
            *("<Title>&#65;</Title>", "<Title>a]]>b</Title>", "<Title> a</Title>"),
            "<Title>@<b/></Title>",
        ),
        *(
            *("<Modified>yesterday</Modified>", "<Size>007</Size>", "<Body>a\r</Body>"),
            "<Body></Body>",
        ),
        *('<RawData dt:dt="bin.base64">QU JD</RawData>', "<RawData>QUJD</RawData>", "<Refs/>"),
        *("<Title>a</Title><Title>@</Title>", "<rid>@</rid>", "<!-- @ -->"),
    ],
)
def test_unusual_items_are_not_in_batches(child: str) -> None:
    data = items(*(child.replace("@", str(number)) for number in range(COUNT)))
    assert not any(isinstance(result, RecordBatch) for result in read(data, batch_records=1024))


@pytest.mark.parametrize(
    "stray", ["stray", "<!-- -->", "<Item>", "</Item>", "<Title>", "<Item/>", "&", "\ufffe", "\0"]
)
def test_what_is_between_items_is_not_lost(stray: str) -> None:
    usual = items(*["<Title>a</Title>"] * COUNT)
    for at in (0, 5, COUNT):
        begin = -1
        for _ in range(at):
            begin = usual.index(b"</Item>", begin + 1)
        begin = usual.index(b"\n<Item>") if begin < 0 else begin + len("</Item>")
        data = usual[:begin] + stray.encode() + usual[begin:]
        with by_parser():
            expected = read(data)
        assert read(data) == expected


def test_items_depend_on_the_prefixes_of_their_root() -> None:
    usual = items(*['<RawData dt:dt="bin.base64">QUJD</RawData>'] * COUNT)
    data = usual + usual.replace(b"urn:schemas-microsoft-com:datatypes", b"urn:other")
    with by_parser():
        expected = read(data)
    results = read(data)
    assert results == expected
    contents = {
        record.content and record.content.data for record in results if isinstance(record, Record)
    }
    assert len(contents) == 2
