"""Feeds of records that a gsafeed can hold, so that it reads them back as they were."""

import io
from collections.abc import Iterable, Iterator
from typing import IO, Any

import msgspec
import pybase64
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from feedferry.schemas.acl import Acl
from feedferry.schemas.feed import FEEDTYPES, Feed, is_web
from feedferry.schemas.record import (
    Action,
    Arrival,
    Authmethod,
    Content,
    Crawl,
    Encoding,
    Extra,
    Provenance,
    Record,
)
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span, SpanEnd
from feedferry.testing.strategies import (
    acls,
    contents,
    crawls,
    metas,
    moments,
    names,
    records,
    urls,
    xml_texts,
)
from feedferry.transforms.formats import GSA_FEED, ReadOptions, WriteOptions, write_all

XML = xml_texts()
_FEEDS = st.builds(
    Feed,
    datasource=st.sampled_from(("web", "default", "_docs-2")),
    feedtype=st.sampled_from(FEEDTYPES),
)
_ALONE = (Action.UPDATE, Action.DELETE)
_EMPTY = st.just(())
_FRAGMENTS = ("allFilesAcl", "", "a b", "100%", "für", "\u2028")
_ELEMENTS = (
    Extra("record/note", "<note/>"),
    Extra("record/note", '<note x="1">a &amp; b<br/></note>'),
    Extra("record/metadata/note", '<x:note xmlns:x="urn:example:x">text</x:note>'),
)
_HELD_FIELDS: dict[str, SearchStrategy[Any]] = {
    **dict.fromkeys(("charset", "size", "title", "description", "keywords", "body"), st.none()),
    **dict.fromkeys(("visited", "next_check", "history", "arrival"), st.none()),
    **dict.fromkeys(("categories", "fields", "extras"), _EMPTY),
    "provenance": st.just(Provenance()),
}
"""What a gsafeed has no place for."""


def read_feed(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[Record | Reject]:
    """Yield the records and rejects of a feed, without headers and notices."""
    for result in GSA_FEED.read(stream, span=span, options=options):
        if isinstance(result, Record | Reject):
            yield result


def read_feed_in_spans(markup: bytes, span_bytes: int) -> list[Record | Reject]:
    """Return what is read of the spans of a feed, each alone.

    Assert that it is also read of spans that begin where the one before has ended.
    """
    cut = list(GSA_FEED.split(io.BytesIO(markup), source="", span_bytes=span_bytes))
    alone = [
        result
        for span in cut
        for result in read_feed(io.BytesIO(markup[span.offset :][: span.length]), span=span)
    ]
    spans, in_turn = read_feed_in_turn(markup, span_bytes)
    assert [replace(span, length=None) for span in cut] == spans
    assert in_turn == alone
    return alone


def read_feed_in_turn(
    markup: bytes, span_bytes: int, options: ReadOptions = ReadOptions()
) -> tuple[list[Span], list[Record | Reject]]:
    """Return the spans of a grid, without it, and what is read of them."""
    spans: list[Span] = []
    results: list[Record | Reject] = []
    span: Span | None = Span(grid=span_bytes)
    while span is not None:
        spans.append(replace(span, grid=0))
        begun, span = span, None
        for item in GSA_FEED.read(io.BytesIO(markup[begun.offset :]), span=begun, options=options):
            if isinstance(item, Record | Reject):
                results.append(item)
            elif isinstance(item, SpanEnd):
                span = begun.next(item)
    return spans, results


def write_feed(records: Iterable[Record], options: WriteOptions | None = None) -> bytes:
    stream = io.BytesIO()
    write_all(GSA_FEED.make_encoder(options or WriteOptions()), records, stream)
    return stream.getvalue()


class Held(msgspec.Struct, frozen=True):
    """A feed and its records, with the provenance that reading gives them."""

    feed: Feed
    records: list[Record]


def held(*, extras: bool = True, most: int = 3) -> SearchStrategy[Held]:
    """Feeds of the 7.x dialect; without `extras` they hold nothing that its DTD does not know."""
    kinds = _of_7_x() if not extras else st.builds(_with_extras, _of_7_x(), _extras())
    return st.builds(_held, _FEEDS, st.lists(kinds, max_size=most))


def held_by_5_0(*, most: int = 3) -> SearchStrategy[Held]:
    """Feeds of what the 5.0 dialect can say."""
    return st.builds(_held, _FEEDS, st.lists(_of_5_0(), max_size=most))


def is_alone(record: Record) -> bool:
    """Whether the record is nothing but an acl."""
    return record.acl is not None and record.acl.alone


def unplaced(record: Record) -> Record:
    """Return the record without line and byte."""
    provenance = replace(record.provenance, line=0, offset=0)
    return replace(record, provenance=provenance)


def _held(feed: Feed, drawn: list[Record]) -> Held:
    provenance = Provenance(datasource=feed.datasource, feedtype=feed.feedtype)
    read = (_as_read(record, feed) for record in drawn)
    return Held(feed, [replace(item, provenance=provenance) for item in read])


def _of_7_x() -> SearchStrategy[Record]:
    document = {
        "metadata": metas(text=XML) | metas(),
        "acl": st.none() | _acls(),
        "overwrite_acls": st.none() | st.booleans(),
        "crawl": st.none() | crawls(text=XML).map(_held_crawl),
        "content": st.none() | _contents(),
    }
    documents = records(text=XML, **_HELD_FIELDS, **_identity(), **document)
    return documents | st.builds(_alone, _urls(), _acls(), st.sampled_from(_ALONE))


def _of_5_0() -> SearchStrategy[Record]:
    document = {
        "metadata": metas(text=XML).map(
            lambda drawn: tuple(item for item in drawn if not item.data)
        ),
        "acl": st.none() | _acls().map(_acl_of_5_0).filter(_says_something),
        "overwrite_acls": st.none(),
        "crawl": st.none() | crawls(text=XML).map(_crawl_of_5_0),
        "content": st.none() | _contents().filter(_is_of_5_0),
    }
    return records(text=XML, **_HELD_FIELDS, **_identity(), **document)


def _identity() -> dict[str, SearchStrategy[Any]]:
    return {
        "url": _urls(),
        "action": st.sampled_from((Action.ADD, Action.ADD, Action.ADD, Action.DELETE)),
        "mimetype": st.none() | st.sampled_from(("text/html", 'text/html; charset="UTF-8"')),
        "modified": st.none() | moments(resolution="seconds"),
    }


def _urls() -> SearchStrategy[str]:
    return urls() | XML.filter(lambda text: text.strip() != "")


def _as_read(record: Record, feed: Feed) -> Record:
    """The action and arrival that a record of such a feed has."""
    if is_alone(record):
        return record
    if record.action is Action.DELETE:
        return replace(record, arrival=None)
    if is_web(feed.datasource, feed.feedtype):
        return replace(record, arrival=Arrival.CRAWLED)
    action = Action.UPDATE if record.content is None else Action.ADD
    return replace(record, arrival=Arrival.PUSHED, action=action)


def _alone(url: str, acl: Acl, action: Action) -> Record:
    return Record(url=url, action=action, acl=replace(acl, alone=True))


def _acls() -> SearchStrategy[Acl]:
    """ACLs that inherit from a url, or from a fragment of a url without a query."""
    return st.builds(_with_fragment, acls(text=XML), st.none() | st.sampled_from(_FRAGMENTS))


def _with_fragment(acl: Acl, fragment: str | None) -> Acl:
    is_named = acl.inherit_from is not None and "?" not in acl.inherit_from
    stated = fragment if is_named else None
    return replace(acl, inherit_fragment=stated, alone=False)


def _acl_of_5_0(acl: Acl) -> Acl:
    plain = tuple(
        replace(item, namespace=None, case_sensitive=None, unqualified=False)
        for item in acl.principals
    )
    return replace(acl, principals=plain)


def _says_something(acl: Acl) -> bool:
    return acl != Acl()


def _contents() -> SearchStrategy[Content]:
    """Contents of which the plain ones are text, and some are too long for the parser."""
    text = XML.map(lambda text: Content(text.encode()))
    long = st.just(Content(pybase64.b64encode(bytes(600)), Encoding.BASE64))
    return text | long | contents().filter(lambda content: content.encoding is not Encoding.NONE)


def _is_of_5_0(content: Content) -> bool:
    return content.encoding is not Encoding.ZLIB_BASE64


def _held_crawl(crawl: Crawl) -> Crawl | None:
    stated = replace(crawl, secure=None, no_index=None, no_follow=None, no_archive=None, anchors=())
    return None if stated == Crawl() else stated


def _crawl_of_5_0(crawl: Crawl) -> Crawl | None:
    known = crawl.authmethod is not Authmethod.NEGOTIATE
    stated = Crawl(
        lock=crawl.lock,
        authmethod=crawl.authmethod if known else None,
        pagerank=crawl.pagerank,
        display_url=crawl.display_url,
    )
    return None if stated == Crawl() else stated


def _extras() -> SearchStrategy[list[Extra]]:
    places = st.sampled_from(
        (
            *("record/@x-{}", "record/metadata/@x-{}", "group/@x-{}"),
            *("record/content/@x-{}", "record/acl/@x-{}", "record/acl/principal[0]/@x-{}"),
            "record/metadata/meta[0]/@x-{}",
        )
    )
    named = st.builds(str.format, places, names())
    return st.lists(st.builds(Extra, named, XML) | st.sampled_from(_ELEMENTS), max_size=3)


def _with_extras(record: Record, extras: list[Extra]) -> Record:
    """Those that have their place in the record, each attribute once, in the order of reading."""
    placed = {
        extra.place if "@" in extra.place else str(extra): extra
        for extra in extras
        if _has_place(record, extra.place)
    }
    ordered = sorted(placed.values(), key=lambda extra: extra.place)
    return replace(record, extras=tuple(ordered))


def _has_place(record: Record, place: str) -> bool:
    if is_alone(record):
        return place.startswith("group/")
    if place.startswith("record/content/"):
        return record.content is not None
    if place.startswith("record/acl/principal"):
        return record.acl is not None and record.acl.principals != ()
    if place.startswith("record/acl/"):
        return record.acl is not None
    return not place.startswith("record/metadata/meta[") or record.metadata != ()
