"""Records in batches are converted to the same bytes, rejects, losses and counts as single ones."""

import io
import logging
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from html import unescape
from typing import Any
from zlib import compress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.avro import text
from feedferry.schemas.record import Action, Content, Crawl, Encoding, Extra, Meta, Record
from feedferry.schemas.span import Span
from feedferry.transforms.compare.events import encoded_batch
from feedferry.transforms.compare.history import FeedHistory
from feedferry.transforms.formats import ContentOptions, ReadOptions, WriteOptions, by_name
from feedferry.transforms.formats.canonical.avro import AvroEncoder
from feedferry.transforms.formats.fast_path.columns.column_kinds import (
    CONTENT_KINDS,
    Column,
    ColumnKind,
)
from feedferry.transforms.formats.fast_path.columns.holes import InspectedError, TextHole, UrlHole
from feedferry.transforms.formats.fast_path.columns.marks import hole
from feedferry.transforms.formats.fast_path.columns.neutrality import are_neutral, find_not_neutral
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.columns.shape_columns import Columns
from feedferry.transforms.formats.fast_path.plans import batch_plan
from feedferry.transforms.formats.fast_path.plans.batch_plan import BatchPlan
from feedferry.transforms.formats.gsa.gsa_formats import FeedOptions
from feedferry.transforms.formats.xml.bulk import element_runs
from feedferry.transforms.rules.adapt import Target
from support.batches import SIZES, Conversion, by_parser, conversion
from support.dataload_items import dataloads, document

_NEUTRAL = (
    *("a", "two words", "Z\u00fcrich", "\u6771\u4eac", "a &amp; b", "&lt;b&gt;", "&quot;x&quot;"),
    *("it's", "0"),
)
_HOSTILE = (
    *("", " ", " a", "a ", "&apos;", "&#65;", "&#x41;", "&foo;", "&", "<", ">", "\t", "\n", "a\nb"),
    *("\r", "\x00", "\x07", "\x7f", "\x85", "\u00a0", "a\u00a0", "\u2028", "\ufffd", "\ufffe"),
    *("\uffff", "\u200f", "\u202e", "]]>", "&amp;lt;", "&amp", "&amp;amp;", "\U0001f600"),
    *("~hole-0001~", "true"),
)
_NEUTRAL_URLS = (
    *("http://www.example.com/a", "https://docs.example.org:8443/a%20b?x=1&amp;y=2#f"),
    *("smb://server/share/\u00fc.pdf", "googleconnector://c.localhost/doc?docid=1"),
)
_HOSTILE_URLS = (
    *("http://intranet/a", "http://10.0.0.1/", "http:///a", "file:///etc", "doc-7", "//host/a", ""),
    *(" http://www.example.com/a", "http://www.example.com/a b", "HTTP://WWW.EXAMPLE.COM/", "a:b"),
    *("http://", "http://hole-0000.example.com/~", "http://www.example.com/&#9;", "http://[::1]/"),
)
_NEUTRAL_DATES = ("Tue, 06 Nov 2007 12:45:26 GMT", "Sat, 29 Feb 2020 00:00:00 GMT")
_HOSTILE_DATES = (
    *("Mon, 06 Nov 2007 12:45:26 GMT", "Tue, 6 Nov 2007 12:45:26 GMT", "2007-11-06", "yesterday"),
    *("Tue, 06 Nov 2007 12:45:26 +0100", "Tue, 30 Feb 2007 12:45:26 GMT", "", "1194353126"),
    "Tue, 06 Nov 2007 12:45:26.5 GMT",
    "Sun, 31 Dec 0000 00:00:00 GMT",
    " Tue, 06 Nov 2007 12:45:26 GMT",
)
_TYPES = ("text/html", "text/plain", "TEXT/HTML; charset=UTF-8", "", "application/pdf")
_PACKED = "in base64"
_NAMES = ("author", "Title", "category", "google:aclusers", "a&amp;b", "", "description", "DT: x")
_OTHERS = ('lock="true"', 'pagerank="90"', 'pagerank="999"', 'action="delete"', 'action="oops"')
_MORE = ('foo="1"', 'authmethod="httpbasic"', 'authmethod="magic"', "feedrank='3'", 'lock=""')


def texts(neutral: tuple[str, ...], hostile: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Neutral texts, and a hostile one now and then: most batches have none."""
    return st.sampled_from(neutral * 80 + hostile)


_VALUES = {
    "mimetype": texts(_TYPES[:2], _TYPES),
    "last-modified": texts(_NEUTRAL_DATES, _HOSTILE_DATES),
    "displayurl": texts(_NEUTRAL, _HOSTILE),
}


_NEUTRAL_CONTENTS = (
    *("a", "Z\u00fcrich", "&lt;p>a &amp;amp; b&lt;/p>", "&lt;a href=&quot;x&quot;&gt;\n\t'\u6771'"),
    " a\n",
    *('"quoted"', "&apos;", "&amp;lt;", "a]]b", "\U0001f600" * 40, "x" * 700),
)
_HOSTILE_CONTENTS = (
    *("", "&#65;", "&foo;", "&", "]]>", "\r", "a\r\nb", "\x00", "\x07", "\ufffe", "\uffff", "<b/>"),
    *("<![CDATA[a]]>", "<!-- a -->", "</record>", "<record", "&lt;/record&gt;", "<acl/>"),
    "~hole-0002~",
)
_PRINCIPALS = (
    '<principal scope="user" access="permit">ann</principal>',
    '\n<principal scope="group" access="deny" namespace="n">b &amp; c</principal>\n',
    '<principal scope="user" access="permit"> </principal>',
    '<principal scope="robot" access="permit">a</principal>',
    "<principal scope='user' access='permit'>a</principal>",
)
_ACLS = (
    '<acl inheritance-type="child-overrides" inherit-from="http://www.example.com/?a">@</acl>\n',
    *("<acl>@</acl>", "<acl>@</acl >", "<acl/>", '<acl foo="1">@</acl>', "<acl>@<!-- --></acl>"),
)


@st.composite
def acls(draw: st.DrawFn) -> str:
    principals = draw(st.lists(st.sampled_from(_PRINCIPALS[:2] * 8 + _PRINCIPALS), max_size=2))
    acl: str = draw(st.sampled_from(_ACLS[:2] * 8 + _ACLS))
    return acl.replace("@", "".join(principals))


@st.composite
def contents(draw: st.DrawFn) -> str:
    text = draw(texts(_NEUTRAL_CONTENTS, _HOSTILE_CONTENTS))
    form = draw(st.sampled_from(("text", "text", "cdata", "base64", "zlib")))
    if form == "cdata":
        return f"<content><![CDATA[{unescape(text)}]]></content>"
    if form != "text":
        data = text.encode("utf-8", "surrogatepass")
        packed = b64encode(data if form == "base64" else compress(data)).decode()
        damage = draw(st.sampled_from(("",) * 20 + ("\n", " ", "=", "*", "QQ")))
        encoding = "base64binary" if form == "base64" else "base64compressed"
        return f'<content encoding="{encoding}">{packed}{damage}</content>'
    tag = draw(
        st.sampled_from(("<content>",) * 20 + ('<content encoding="base64binary">', "<content >"))
    )
    return f"{tag}{text}</content>"


def meta(name: str, content: str) -> str:
    """Return metadata, in base64 if their name says so."""
    if name != _PACKED:
        return f'<meta name="{name}" content="{content}"/>\n'
    packed = [b64encode(text.encode("utf-8", "surrogatepass")).decode() for text in (name, content)]
    return '<meta encoding="base64binary" name="{}" content="{}"/>\n'.format(*packed)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The attributes and children of a record besides its url, and the names of its metadata."""
    optional = ("mimetype", "last-modified", "displayurl", "other", "acl", "content", "content")
    chosen = draw(st.lists(st.sampled_from(optional), max_size=5, unique=True))
    attributes = tuple(
        draw(st.sampled_from(_OTHERS + _MORE)) if name == "other" else name for name in chosen
    )
    return attributes, tuple(draw(st.lists(st.sampled_from((*_NAMES, _PACKED)), max_size=3)))


@st.composite
def similar_records(draw: st.DrawFn) -> str:
    """Records of few shapes, with neutral and hostile values in every column."""
    chosen = draw(st.lists(shapes(), min_size=1, max_size=3))
    gap = draw(st.sampled_from(("\n", "", " \n ")))
    same_acl, records = draw(acls()), []
    for number in range(draw(st.integers(2, 14))):
        attributes, names = draw(st.sampled_from(chosen))
        markup = [f'<record url="{draw(texts(_NEUTRAL_URLS, _HOSTILE_URLS))}"']
        for name in attributes:
            if name in ("acl", "content"):
                continue
            values = f'{name}="{draw(_VALUES[name])}"' if name in _VALUES else name
            markup.append(f" {values}")
        markup.append(">")
        if names:
            metas = [meta(name, draw(texts(_NEUTRAL, _HOSTILE))) for name in names]
            markup += ["\n<metadata>\n", *metas, "</metadata>\n"]
        if "acl" in attributes:
            markup.append(same_acl if draw(st.integers(0, 5)) else draw(acls()))
        if "content" in attributes:
            markup.append(draw(contents()))
        records.append("".join((*markup, "</record>")))
        if number == 7 and draw(st.booleans()):
            records.append('</group>\n<group action="delete">')
    return gap.join(records)


def feed_of(records: str, *, feedtype: str = "metadata-and-url") -> bytes:
    head = (
        f"<gsafeed>\n<header><datasource>d</datasource><feedtype>{feedtype}</feedtype></header>\n"
    )
    return f"{head}<group>\n{records}\n</group>\n</gsafeed>\n".encode("utf-8", "surrogatepass")


_COPIED = (
    *("&amp;lt;", "&amp;amp;", "\u200f", "\u202e", "]]>", "\x7f", "\U0001f600", "~hole-0001~"),
    "true",
)
"""Hostile texts that are neutral: they have nothing that a writer changes."""

CELLS = AvroEncoder.cells
TARGETS: dict[str, dict[str, Any]] = {
    "gsa-feed": {},
    "gsa-feed 5.0": {"own": (FeedOptions(dialect="5.0"),)},
    "gsa-feed, placeholders": {"own": (FeedOptions(empty_metadata="placeholder"),)},
    "gsa-feed, base64": {"own": (ContentOptions(content_encoding="base64"),)},
    "gsa-feed, types": {"default_mimetype": "text/html", "feedtype": "incremental"},
    "gsa-feed, strict": {"urls": "strict", "datasource": "web", "feedtype": "incremental"},
    "thunderstone": {"feedtype": None},
    "gsa-feed, zlib": {"own": (ContentOptions(content_encoding="zlib"),)},
    "avro": {},
    "avro, renamed": {"datasource": "other", "feedtype": "full"},
    "jsonl": {},
}


def target_of(name: str) -> Target:
    return Target(format=name.partition(",")[0].partition(" ")[0], **TARGETS[name])


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60)
@given(
    records=similar_records(),
    feedtype=st.sampled_from(("metadata-and-url", "full", "incremental")),
    size=st.sampled_from(SIZES),
    chunk=st.sampled_from((900, 5000, 1 << 20)),
)
def test_batches_of_any_size_give_the_result_of_single_records(
    name: str, records: str, feedtype: str, size: int, chunk: int
) -> None:
    target = target_of(name)
    data = feed_of(records, feedtype=feedtype)
    single, batched = (
        conversion(data, target, batch_records=records, max_chunk_bytes=chunk)
        for records in (0, size)
    )
    assert batched == single


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60)
@given(data=dataloads(), size=st.sampled_from(SIZES), chunk=st.sampled_from((900, 5000, 1 << 20)))
def test_items_in_batches_give_the_result_of_single_items(
    name: str, data: bytes, size: int, chunk: int
) -> None:
    target = replace(target_of(name), **{"datasource": "d", "feedtype": "incremental"})
    if name.startswith("thunderstone"):
        target = target_of(name)
    with by_parser():
        single = conversion(
            data, target, batch_records=0, max_chunk_bytes=chunk, format_="thunderstone"
        )
    batched = conversion(
        data, target, batch_records=size, max_chunk_bytes=chunk, format_="thunderstone"
    )
    assert batched == single


FORMS = (
    "<content>{}</content>",
    "<content><![CDATA[{}]]></content>",
    '<content encoding="base64binary">{}</content>',
)
SIMILAR = "\n".join(
    f'<record url="http://www.example.com/{number}" mimetype="text/html"'
    f' last-modified="Tue, 06 Nov 2007 12:45:{number:02} GMT">'
    f'<metadata><meta name="a" content="{number} &amp; {number}"/></metadata></record>'
    for number in range(20)
)


def stored(data: bytes, format_: str, *, batch_records: int) -> tuple[object, ...]:
    """What a comparison stores of a stream, and what it counts."""
    options, history = ReadOptions(batch_records=batch_records), FeedHistory()
    results = by_name(format_).read(io.BytesIO(data), span=Span(source="f"), options=options)
    rows = [*history.stored(results)]
    return rows, history.records, history.rejects, history.has_full_feed("d", memberships=False)


@settings(max_examples=300)
@given(
    records=similar_records(),
    feedtype=st.sampled_from(("metadata-and-url", "full", "incremental")),
    size=st.sampled_from(SIZES),
)
def test_batches_of_any_size_are_compared_as_single_records(
    records: str, feedtype: str, size: int
) -> None:
    data = feed_of(records, feedtype=feedtype)
    single = stored(data, "gsa-feed", batch_records=0)
    assert stored(data, "gsa-feed", batch_records=size) == single


@settings(max_examples=100)
@given(data=dataloads(), size=st.sampled_from(SIZES))
def test_items_in_batches_are_compared_as_single_items(data: bytes, size: int) -> None:
    with by_parser():
        single = stored(data, "thunderstone", batch_records=0)
    assert stored(data, "thunderstone", batch_records=size) == single


@pytest.mark.parametrize("content", ["", *(form.format("QQ==") for form in FORMS)])
def test_records_that_are_alike_are_stored_by_a_plan(content: str) -> None:
    records = SIMILAR.replace("</record>", f"{content}</record>")
    options = ReadOptions(batch_records=4)
    for feedtype in ("full", "incremental") if content else ("metadata-and-url", "incremental"):
        data = feed_of(records, feedtype=feedtype)
        results = by_name("gsa-feed").read(io.BytesIO(data), options=options)
        batches = [result for result in results if isinstance(result, RecordBatch)]
        assert batches
        assert all(encoded_batch(batch, 0) is not None for batch in batches)


@pytest.mark.parametrize("name", TARGETS)
def test_records_that_are_alike_are_written_by_a_plan(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    encode_each = BatchPlan.encode_each

    def count(plan: BatchPlan, columns: Columns) -> list[bytes]:
        written.append(columns.count)
        return encode_each(plan, columns)

    monkeypatch.setattr(BatchPlan, "encode", lambda _plan, _columns: None)
    monkeypatch.setattr(BatchPlan, "encode_each", count)
    is_crawled = name in ("gsa-feed 5.0", "gsa-feed, strict")
    feedtype = "metadata-and-url" if is_crawled else "incremental"
    conversion(feed_of(SIMILAR, feedtype=feedtype), target_of(name), batch_records=4)
    single = 8 if name == "gsa-feed, strict" else 4  # the first of a feed; the examples of losses
    assert sum(size for size in written if size > 1) == 20 - single


def test_a_comparison_with_a_plan_costs_no_batch(caplog: pytest.LogCaptureFixture) -> None:
    """Not even where a number is left out of the output if it is 0."""
    caplog.set_level(logging.DEBUG, "feedferry.transforms.conversion.convert")
    many = "".join(f'<record url="http://www.example.com/{number}"/>\n' for number in range(1000))
    conversion(feed_of(many, feedtype="incremental"), target_of("jsonl"), batch_records=10)
    assert "990 of 1000 records by a plan, in 99 batches" in caplog.text


_PLACES = (0, 30, 59)
"""The places of a hostile record among 60."""


def planned(place: int, single: Conversion) -> str:
    """How many of 60 records have a plan; the first part with a record begins a feed."""
    is_rejected = bool(msgspec.json.decode(single.account).get("rejected"))
    count = 55 if place else 56 if is_rejected else 59
    return f": {count} of 60 records by a plan, "


def varied(values: dict[str, str]) -> str:
    """A record with the given values in place of neutral ones, of each kind of column."""
    neutral = {
        "url": "http://www.example.com/a?b=1&amp;c=2",
        "date": "Tue, 06 Nov 2007 12:45:26 GMT",
        "text": "a &amp; b",
        "name": "ann",
        "content": "<content>a &lt;b></content>",
    }
    of_record = {**neutral, **values}
    return (
        '<record url="{url}" last-modified="{date}" displayurl="a"><acl>'
        '<principal scope="user" access="permit">{name}</principal></acl>'
        '<metadata><meta name="a" content="{text}"/></metadata>{content}</record>'
    ).format(**of_record)


_CONTENT_FORMS = {
    "<content>{}</content>": ("a", "&#65;", "&foo;", "a\r\nb", "]]>", "\x07", "\ufffe", ""),
    "<content><![CDATA[{}]]></content>": ("a", "a\r\nb", "\x07", "\ufffe", ""),
    '<content encoding="base64binary">{}</content>': ("QQ==", "QQ", "Q Q", "*", ""),
    '<content encoding="base64compressed">{}</content>': ("eJxLBAAAYgBi", "eJxL", "*", ""),
}
_ONE_HOSTILE = [
    *(("url", {}, url) for url in _HOSTILE_URLS if url != "file:///etc" and "hole" not in url),
    *(("date", {}, date) for date in _HOSTILE_DATES),
    *(
        (name, {}, value)
        for name in ("text", "name")
        for value in ("", " a", "&apos;", "&#65;", "&foo;", "a\nb", "\x07", "\u00a0", "\ufffe")
    ),
    *(
        ("content", {"content": form.format(values[0])}, form.format(value))
        for form, values in _CONTENT_FORMS.items()
        for value in values[1:]
    ),
]


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize(("column", "others", "value"), _ONE_HOSTILE)
def test_a_hostile_value_costs_no_plan_but_that_of_its_record(
    column: str, others: dict[str, str], value: str, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    records = [varied(others)] * 60
    records[place] = varied({**others, column: value})
    data = feed_of("\n".join(records), feedtype="incremental")
    single = conversion(data, target_of("avro"), batch_records=0)
    caplog.set_level(logging.DEBUG, "feedferry.transforms.conversion.convert")
    assert conversion(data, target_of("avro"), batch_records=4) == single
    assert planned(place, single) in caplog.text


_HOSTILE_ELEMENTS = [
    *(("Url", url) for url in ("", "doc-7", "http://intranet/a", "http://e.com/&#9;")),
    *(("Title", text) for text in ("", " a", "&apos;", "&#65;", "&foo;", "a\nb", "\x07", "]]>")),
    *(("Modified", date) for date in ("", "yesterday")),
    *(("Size", size) for size in ("", "-1", "007", "a")),
    *(("Body", body) for body in ("", "&#65;", "a\r\nb", "\x07", "\ufffe", "]]>")),
]


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize(("name", "value"), _HOSTILE_ELEMENTS)
def test_a_hostile_value_costs_no_plan_but_that_of_its_item(
    name: str, value: str, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    neutral = {
        "Type": "I",
        "Size": "7",
        "Url": "http://www.example.com/a",
        "Title": "a",
        "Modified": "2007-11-06 12:45:26",
        "MimeType": "text/plain",
        "Body": "a &lt;b&gt;",
    }
    items = [neutral] * 60
    items[place] = {**neutral, name: value}
    data = document(
        "\n".join(
            f"<Item>{''.join(f'<{name}>{text}</{name}>' for name, text in item.items())}</Item>"
            for item in items
        )
    )
    with by_parser():
        single = conversion(data, target_of("avro"), batch_records=0, format_="thunderstone")
    caplog.set_level(logging.DEBUG, "feedferry.transforms.conversion.convert")
    batched = conversion(data, target_of("avro"), batch_records=4, format_="thunderstone")
    assert batched == single
    assert planned(place, single) in caplog.text


@given(st.lists(texts(_NEUTRAL, _HOSTILE), min_size=1, max_size=100))
def test_the_values_of_a_column_that_are_not_neutral_are_found(values: list[str]) -> None:
    escaped = [value.replace('"', "") for value in values]
    kinds = [ColumnKind.TEXT]
    others = {row for row, value in enumerate(escaped) if not are_neutral(kinds, [[value]])}
    assert find_not_neutral(kinds, [escaped], most=len(escaped)) == others


ITEMS = "\n".join(
    f"""<Item><Type>I</Type><Size>{number}</Size><Url>http://www.example.com/{number}</Url>
<Title>"{number}" &gt; 0</Title><Body>a &lt;b&gt;
{number}</Body><Keywords>k{number}</Keywords><Meta>Author: {number}
Phone: x</Meta><Category>c{number}</Category><Category>d</Category>
<Modified>2007-11-06 12:45:{number:02}</Modified><MimeType>text/plain</MimeType>
<u:Price>{number}</u:Price><u:Set><value>{number}</value><value>b</value></u:Set></Item>"""
    for number in range(40)
)


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "gsa-feed, zlib"])
def test_items_that_are_alike_are_written_by_a_plan(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    own = {} if name == "thunderstone" else {"datasource": "d", "feedtype": "incremental"}
    target = replace(target_of(name), **own)
    with caplog.at_level("DEBUG", "feedferry.transforms.conversion.convert"):
        conversion(document(ITEMS), target, batch_records=4, format_="thunderstone")
    [planned] = [message for message in caplog.messages if " by a plan, " in message]
    single = 8 if name.startswith("gsa-feed") else 4  # the first of a feed; the examples of losses
    assert planned.startswith(f"span 00000-00000: {40 - single} of 40 records by a plan, ")


WHOLE = SIMILAR.replace(
    "<metadata>",
    '<acl><principal scope="user" access="permit">a &amp; b</principal></acl><metadata>',
).replace("</record>", "<content>a &amp; &lt;b></content></record>")


@pytest.mark.parametrize("name", ["gsa-feed", "thunderstone", "avro"])
def test_documents_with_an_acl_are_written_by_a_plan_and_compared_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    encode_each = BatchPlan.encode_each

    def count(plan: BatchPlan, columns: Columns) -> list[bytes]:
        written.append(columns.count)
        return encode_each(plan, columns)

    monkeypatch.setattr(BatchPlan, "encode_each", count)
    conversion(feed_of(WHOLE, feedtype="incremental"), target_of(name), batch_records=4)
    examples = 4 if name == "thunderstone" else 0  # of losses
    assert (written[0], sum(written[1:])) == (1, 16 - examples)


def test_places_are_not_computed_for_a_target_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    lines = element_runs.RunPositions.lines

    def count(positions: Any, places: Sequence[int]) -> list[int]:
        asked.append(places)
        return lines(positions, places)

    monkeypatch.setattr(element_runs.RunPositions, "lines", count)
    data = feed_of(f"{SIMILAR}\n" * 20, feedtype="incremental")
    conversion(data, target_of("avro"), batch_records=1024)
    of_avro = len(asked)
    conversion(data, target_of("gsa-feed"), batch_records=1024)
    assert (of_avro > 0, len(asked) - of_avro) == (True, 1)  # the first records go one by one


def test_a_plan_that_does_not_predict_a_record_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    right = conversion(feed_of(SIMILAR, feedtype="full"), target_of("avro"), batch_records=0)
    monkeypatch.setattr(batch_plan, "_predicts", lambda *_arguments: True)
    monkeypatch.setattr(AvroEncoder, "cells", {**CELLS, ColumnKind.TEXT: (short_texts,)})
    wrong = conversion(feed_of(SIMILAR, feedtype="full"), target_of("avro"), batch_records=4)
    assert wrong.files == right.files
    notices = msgspec.json.decode(wrong.account)["notices"]
    assert notices["plan-refuted"]["count"] == 1


def test_a_defect_in_a_column_costs_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    right = conversion(feed_of(SIMILAR, feedtype="full"), target_of("avro"), batch_records=0)
    monkeypatch.setattr(AvroEncoder, "cells", {**CELLS, ColumnKind.DATE: (no_dates,)})
    wrong = conversion(feed_of(SIMILAR, feedtype="full"), target_of("avro"), batch_records=4)
    assert wrong.files == right.files
    [notice] = msgspec.json.decode(wrong.account)["notices"].values()
    assert notice["count"] == 4
    assert "KeyError" in notice["first"]["detail"]


def no_dates(values: Column) -> Column:
    if "2007" in values[0]:
        raise KeyError(values[0])
    [encode] = CELLS[ColumnKind.DATE]
    return encode(values)


def short_texts(values: Column) -> list[bytes]:
    is_hole = isinstance(values[0], TextHole)
    return [text(value) if is_hole else b"\x06abc" for value in values]


def test_a_plan_must_predict_real_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hole that comes out with another length than its values would be lost without them."""
    monkeypatch.setattr(AvroEncoder, "cells", {ColumnKind.URL: CELLS[ColumnKind.URL]})
    data = feed_of(SIMILAR, feedtype="full")
    single, batched = (
        conversion(data, target_of("avro"), batch_records=records) for records in (0, 4)
    )
    assert single == batched


@pytest.mark.parametrize("name", [name for name in dir(str) if name not in dir(object)])
def test_a_hole_answers_nothing_that_depends_on_its_value(name: str) -> None:
    answers = {"__getnewargs__", "__rmod__", "__rmul__", "maketrans"}  # not asked of the hole
    answers |= {"encode", "strip", "isspace", "__contains__"}
    if name not in answers:
        with pytest.raises(InspectedError):
            getattr(TextHole("a"), name)("a", "a")


def test_a_hole_knows_what_is_true_of_all_neutral_texts() -> None:
    text_hole, url_hole = TextHole("~a~"), UrlHole("http://a.b/~")
    assert text_hole
    assert text_hole.strip() is text_hole.strip(" \t") is text_hole
    assert not text_hole.isspace()
    assert "\n" not in text_hole
    assert text_hole not in ("", None)
    assert (text_hole,) == (text_hole,)
    assert "://" in url_hole
    assert f"{text_hole}" == str.__str__(text_hole)
    for ask in (
        lambda: text_hole == "~a~",
        lambda: text_hole != url_hole,
        lambda: "a" in text_hole,
        lambda: "://" in text_hole,
        lambda: "example" in url_hole,
        lambda: text_hole.strip("~"),
        lambda: {text_hole},
        lambda: f"{text_hole:>9}",
    ):
        with pytest.raises(InspectedError):
            ask()


PRINCIPAL = Principal(name="user", scope=Scope.USER, access=Access.PERMIT)
META, CONTENT = Meta("name", "value"), Content(b"content")
RECORD = Record(
    url="http://www.example.com/a",
    action=Action.ADD,
    mimetype="text/plain",
    metadata=(META,),
    content=CONTENT,
    acl=Acl(principals=(PRINCIPAL,)),
    crawl=Crawl(),
)
TEXT_FIELDS: dict[str, Callable[[str], Record]] = {
    "url": lambda hole: replace(RECORD, url=hole),
    "mimetype": lambda hole: replace(RECORD, mimetype=hole),
    "displayurl": lambda hole: replace(RECORD, crawl=Crawl(display_url=hole)),
    "meta/name": lambda hole: replace(RECORD, metadata=(replace(META, name=hole),)),
    "meta/content": lambda hole: replace(RECORD, metadata=(replace(META, value=hole),)),
    "inherit-from": lambda hole: replace(RECORD, acl=Acl(inherit_from=hole)),
    "principal": lambda hole: with_principal(replace(PRINCIPAL, name=hole)),
    "principal/namespace": lambda hole: with_principal(replace(PRINCIPAL, namespace=hole)),
    "extra": lambda hole: replace(RECORD, extras=(Extra("record/@foo", hole),)),
}
"""The fields of a feed that hold any text; all others are choices, numbers and moments."""


def with_principal(principal: Principal) -> Record:
    return replace(RECORD, acl=Acl(principals=(principal,)))


@pytest.mark.parametrize("dialect", ["7.x", "5.0"])
@pytest.mark.parametrize("field", TEXT_FIELDS)
@pytest.mark.parametrize("kind", [ColumnKind.TEXT, ColumnKind.URL])
def test_a_hole_in_any_field_of_a_feed_comes_out_once_or_refuses(
    field: str, kind: ColumnKind, dialect: str
) -> None:
    encoder = by_name("gsa-feed").make_encoder(WriteOptions(own=(FeedOptions(dialect=dialect),)))
    mark = hole(kind, 7)
    assert isinstance(mark, str)
    with suppress(InspectedError):
        data = encoder.encode(TEXT_FIELDS[field](mark))
        is_lost = (field, dialect) == ("principal/namespace", "5.0")  # the adapter reports it
        assert data.count(str.encode(mark)) == (0 if is_lost else 1)


@pytest.mark.parametrize("kind", CONTENT_KINDS)
def test_a_hole_in_a_content_comes_out_once(kind: ColumnKind) -> None:
    encodings = {ColumnKind.BASE64: Encoding.BASE64, ColumnKind.ZLIB: Encoding.ZLIB_BASE64}
    data = hole(kind, 7)
    assert isinstance(data, bytes)
    content = Content(data, encodings.get(kind, Encoding.NONE))
    written = (
        by_name("gsa-feed").make_encoder(WriteOptions()).encode(replace(RECORD, content=content))
    )
    assert written.count(bytes(data)) == 1


@pytest.mark.parametrize("values", [["a"], ["a b", "\u00fc"], ["a &amp; b", "&lt;&gt;&quot;"]])
def test_texts_that_every_writer_copies_are_neutral(values: list[str]) -> None:
    assert are_neutral([ColumnKind.TEXT], [values])


@pytest.mark.parametrize("value", [value for value in _HOSTILE if value not in _COPIED])
@pytest.mark.parametrize("place", range(3))
def test_other_texts_are_not_neutral_wherever_they_are(value: str, place: int) -> None:
    values = ["a", "b"]
    values.insert(place, value)
    assert not are_neutral([ColumnKind.TEXT], [values])


def test_no_column_of_urls_or_dates_has_another_form() -> None:
    kinds = [ColumnKind.URL, ColumnKind.DATE]
    assert are_neutral(kinds, [_NEUTRAL_URLS, _NEUTRAL_DATES])
    others = [url for url in _HOSTILE_URLS if url and "hole" not in url and url != "file:///etc"]
    assert [url for url in others if are_neutral(kinds[:1], [[url]])] == []
    assert [date for date in _HOSTILE_DATES if are_neutral(kinds[1:], [[date]])] == []


def test_a_batch_is_its_records_in_the_order_of_the_source() -> None:
    mixed = SIMILAR.replace('<meta name="a" content="4', '<meta name="b" content="4')
    data = feed_of(mixed, feedtype="full")
    singles = list(read_records(data, batch_records=0))
    for size in SIZES:
        items = list(read_records(data, batch_records=size))
        assert all(isinstance(item, RecordBatch) and len(item.order) <= size for item in items)
        assert [record for batch in items for record in batch] == singles


@pytest.mark.parametrize("inside", ["<content></content>", "<content>a</content>", "<acl/>"])
def test_children_that_are_the_same_in_all_records_are_read(inside: str) -> None:
    data = feed_of(SIMILAR.replace("</metadata>", f"</metadata>{inside}"), feedtype="full")
    single, batched = (
        conversion(data, target_of("avro"), batch_records=records) for records in (0, 1024)
    )
    assert single == batched
    assert msgspec.json.decode(single.account)["read"] != {}


def test_a_batch_stays_in_its_feed_when_the_reader_has_gone_on() -> None:
    first, second = (feed_of(SIMILAR, feedtype=feedtype) for feedtype in ("full", "incremental"))
    batches = list(read_records(first + second, batch_records=1024))
    assert [{record.provenance.feedtype for record in batch} for batch in batches] == [
        {"full"},
        {"incremental"},
    ]


def read_records(data: bytes, *, batch_records: int) -> Iterator[Any]:
    options = ReadOptions(batch_records=batch_records)
    return iter(by_name("gsa-feed").read(io.BytesIO(data), span=Span(source="f"), options=options))
