"""Hypothesis strategies for records and memberships; small, and as awkward as allowed.

Every part takes the strategy of its texts, so that a format can ask for what it holds:
`records(text=xml_texts(), extras=st.just(()))`.
"""

import zlib
from datetime import UTC, datetime
from typing import Any, Literal

import pybase64
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.feed import FEEDTYPES
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import (
    Action,
    Anchor,
    Arrival,
    Authmethod,
    Content,
    Crawl,
    Encoding,
    Extra,
    Field,
    History,
    Meta,
    Provenance,
    Record,
    Scoring,
)
from feedferry.transforms.formats import Holds
from feedferry.transforms.formats.base import FIELDS

_XML_AWKWARD = "&<>\"' \t\n\r\x7f\x85\xa0\u2028\ufeff\ufffd\U0001f600\U0010ffff]"
_AWKWARD = _XML_AWKWARD + "\x00\x01\x0b\x0c\x1b\x1f\ufffe\uffff"
_HOSTS = ("example.com", "intranet.example.com", "www.example.co.uk")
_PATHS = "abcXYZ019/._~-%!$'()+,;=:@&"
_EXTRA_PLACES = ("record/@foo", "record/foo", "group/@foo", "acl/@foo", "Item/@foo", "Item/{u:x}y")
_MEMBER_NAMES = (
    "EXAMPLE\\joe",
    "joe@example.com",
    "abc.com/group1",
    "cn=a,dc=b",
    "]]>",
    "a  b",
    "é\nè",
)
_SCOPES = st.sampled_from(Scope)
_FLAGS = st.none() | st.booleans()
_MEMBERSHIP_EXTRAS = (
    Extra("membership/@foo", "1 & 2"),
    Extra("membership/@{urn:example:x}foo", ""),
    Extra("membership/foo", "<foo>text</foo>"),
    Extra("membership/members/@foo", '"'),
    Extra("membership/principal/@foo", "\t"),
)


def texts(*, min_size: int = 0, max_size: int = 12) -> SearchStrategy[str]:
    """Any Unicode text without lone surrogates, rich in what formats stumble over."""
    alphabet = st.one_of(st.sampled_from(_AWKWARD), st.characters(exclude_categories=["Cs"]))
    return st.text(alphabet, min_size=min_size, max_size=max_size)


def xml_texts(*, min_size: int = 0, max_size: int = 12) -> SearchStrategy[str]:
    """Texts that XML 1.0 can hold; a carriage return is among them."""
    plain = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
    alphabet = st.one_of(st.sampled_from(_XML_AWKWARD), plain)
    return st.text(alphabet, min_size=min_size, max_size=max_size)


TEXTS = texts()


def names() -> SearchStrategy[str]:
    """Names that XML and a Thunderstone profile take: a letter or _, then letters, digits, - _."""
    return st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,7}", fullmatch=True)


@st.composite
def urls(draw: st.DrawFn) -> str:
    """Absolute urls of a fully qualified host."""
    scheme = draw(st.sampled_from(("http", "https")))
    port = draw(st.sampled_from(("", "", ":8080")))
    path = draw(st.text(_PATHS, max_size=8))
    query = draw(st.sampled_from(("", "", "?q=1&lang=en")))
    return f"{scheme}://{draw(st.sampled_from(_HOSTS))}{port}/{path}{query}"


def moments(*, resolution: Literal["seconds", "micros"] = "micros") -> SearchStrategy[datetime]:
    """Aware times in UTC, before 1970 too."""
    times = st.datetimes(datetime(1902, 1, 1), datetime(2199, 12, 31), timezones=st.just(UTC))
    if resolution == "micros":
        return times
    return times.map(lambda moment: moment.replace(microsecond=0))


def contents() -> SearchStrategy[Content]:
    """Contents in each encoding; `schemas.content.decode` takes all of them."""
    return st.builds(_wrap, st.one_of(st.binary(max_size=24), _utf8()), st.sampled_from(Encoding))


def metas(*, text: SearchStrategy[str] = TEXTS) -> SearchStrategy[tuple[Meta, ...]]:
    """Metadata with duplicates, empty values and values that are no text."""
    name = st.one_of(st.sampled_from(("author", "author", "date")), text.filter(bool))
    plain = st.builds(Meta, name, st.one_of(st.just(""), text))
    binary = st.binary(max_size=6).map(lambda data: b"\xff" + data)
    return _tuples(st.one_of(plain, st.builds(Meta, name, st.just(""), binary)), max_size=4)


def principals(*, text: SearchStrategy[str] = TEXTS) -> SearchStrategy[Principal]:
    """Principals with names of any text, padded and empty ones too."""
    return st.builds(
        Principal,
        name=st.one_of(st.sampled_from(("", " padded ", "EXAMPLE\\joe", "joe@example.com")), text),
        scope=_SCOPES,
        access=st.sampled_from(Access),
        namespace=st.none() | st.sampled_from(("Default", "")) | text,
        case_sensitive=_FLAGS,
        unqualified=st.booleans(),
    )


def acls(*, text: SearchStrategy[str] = TEXTS) -> SearchStrategy[Acl]:
    """ACLs with any number of principals, with and without a parent."""
    return st.builds(
        Acl,
        inheritance=st.none() | st.sampled_from(Inheritance),
        inherit_from=st.none() | urls(),
        inherit_fragment=st.none() | text,
        principals=_tuples(principals(text=text), max_size=3),
        alone=st.booleans(),
    )


def crawls(*, text: SearchStrategy[str] = TEXTS) -> SearchStrategy[Crawl]:
    """Crawl hints, each stated or not."""
    return st.builds(
        Crawl,
        lock=_FLAGS,
        crawl_immediately=_FLAGS,
        crawl_once=_FLAGS,
        authmethod=st.none() | st.sampled_from(Authmethod),
        pagerank=st.none() | st.integers(0, 100),
        feedrank=st.none() | st.integers(0, 100),
        scoring=st.none() | st.sampled_from(Scoring),
        secure=_FLAGS,
        no_index=_FLAGS,
        no_follow=_FLAGS,
        no_archive=_FLAGS,
        display_url=st.none() | urls(),
        anchors=_tuples(st.builds(Anchor, urls(), st.none() | text), max_size=2),
    )


def histories(*, text: SearchStrategy[str] = TEXTS) -> SearchStrategy[History]:
    """Histories, each figure stated or not; lists may be empty without being unstated."""
    return st.builds(
        History,
        download_seconds=st.none() | _figures(),
        depth=st.none() | _counts(),
        views=st.none() | _counts(),
        clicks=st.none() | _counts(),
        click_ratio=st.none() | _figures(),
        popularity=st.none() | _counts(),
        references=st.none() | _tuples(urls(), max_size=2),
        errors=st.none() | _tuples(text, max_size=2),
    )


def fields(*, text: SearchStrategy[str] = TEXTS) -> SearchStrategy[Field]:
    """Additional fields: one value, or a set of any size."""
    space = st.none() | st.just("urn:example:fields")
    single = st.builds(Field, names(), st.tuples(text), st.just(False), space)
    return st.one_of(
        single, st.builds(Field, names(), _tuples(text, max_size=3), st.just(True), space)
    )


def extras(*, text: SearchStrategy[str] = TEXTS) -> SearchStrategy[tuple[Extra, ...]]:
    """What no field holds, in no format's true form."""
    return _tuples(st.builds(Extra, st.sampled_from(_EXTRA_PLACES), text), max_size=2)


def declarations() -> SearchStrategy[Holds]:
    """What a format may hold: any fields and actions, encoded contents or not."""
    return st.builds(
        Holds,
        fields=st.frozensets(st.sampled_from(sorted(FIELDS))),
        extras=st.sampled_from(((), ("record/", "Item/"), ("",))),
        encodings=st.booleans(),
        actions=st.frozensets(st.sampled_from(Action)).map(frozenset({Action.ADD}).union),
        acls_alone=st.booleans(),
    )


def provenances() -> SearchStrategy[Provenance]:
    """Provenances of any source and feed."""
    return st.builds(
        Provenance,
        source=st.sampled_from(("", "feed.xml", "archive/f\u00fcr.xml.gz")),
        span=st.integers(0, 2**31 - 1),
        line=_counts(),
        offset=_counts(),
        datasource=st.none() | names(),
        feedtype=st.none() | st.sampled_from(FEEDTYPES),
    )


def records(
    *, text: SearchStrategy[str] = TEXTS, **parts: SearchStrategy[Any]
) -> SearchStrategy[Record]:
    """Any canonical record; `parts` replace the strategies of fields by their names."""
    return st.fixed_dictionaries(_identity() | _document(text) | _about(text) | parts).map(_record)


def members(
    *,
    name: SearchStrategy[str] = TEXTS,
    text: SearchStrategy[str] = TEXTS,
    scope: SearchStrategy[Scope] = _SCOPES,
    case_sensitive: SearchStrategy[bool | None] = _FLAGS,
) -> SearchStrategy[Member]:
    """Users and groups with names of any text."""
    return st.builds(
        Member,
        name=st.sampled_from(_MEMBER_NAMES) | name,
        scope=scope,
        namespace=st.none() | st.sampled_from(("Default", "")) | text,
        case_sensitive=case_sensitive,
        unqualified=st.booleans(),
    )


def memberships() -> SearchStrategy[Membership]:
    """Any canonical membership, what no appliance takes among them."""
    return st.builds(
        Membership,
        group=members(),
        members=_tuples(members(), max_size=4),
        origin=st.none() | TEXTS,
        extras=_tuples(st.builds(Extra, TEXTS, TEXTS), max_size=2),
        provenance=provenances(),
    )


def held_memberships() -> SearchStrategy[Membership]:
    """Memberships that a groups feed holds to the last character, without a provenance."""
    member_names = xml_texts().map(lambda text: text.strip(" \t\r\n")).filter(bool)
    text = xml_texts()
    return st.builds(
        Membership,
        group=members(
            name=member_names,
            text=text,
            scope=st.just(Scope.GROUP),
            case_sensitive=st.sampled_from((None, True)),
        ),
        members=_tuples(members(name=member_names, text=text), max_size=4),
        origin=st.none() | text,
        extras=st.lists(st.sampled_from(_MEMBERSHIP_EXTRAS), max_size=3, unique=True).map(
            _sort_extras
        ),
        provenance=st.just(Provenance()),
    )


def _identity() -> dict[str, SearchStrategy[Any]]:
    return {
        "url": urls(),
        "action": st.sampled_from(Action),
        "arrival": st.none() | st.sampled_from(Arrival),
        "provenance": provenances(),
    }


def _document(text: SearchStrategy[str]) -> dict[str, SearchStrategy[Any]]:
    return {
        "content": st.none() | contents(),
        "mimetype": st.none() | st.sampled_from(("text/html", "application/pdf")),
        "charset": st.none() | st.sampled_from(("UTF-8", "ISO-8859-1")),
        "size": st.none() | _counts(),
        "title": st.none() | text,
        "description": st.none() | text,
        "keywords": st.none() | text,
        "body": st.none() | text,
        "categories": _tuples(text, max_size=2),
    }


def _about(text: SearchStrategy[str]) -> dict[str, SearchStrategy[Any]]:
    return {
        "metadata": metas(text=text),
        "fields": _tuples(fields(text=text), max_size=2),
        "modified": st.none() | moments(),
        "visited": st.none() | moments(),
        "next_check": st.none() | moments(),
        "acl": st.none() | acls(text=text),
        "overwrite_acls": _FLAGS,
        "crawl": st.none() | crawls(text=text),
        "history": st.none() | histories(text=text),
        "extras": extras(text=text),
    }


def _record(parts: dict[str, Any]) -> Record:
    if parts["action"] is Action.UPDATE_INDEX:
        parts = parts | {"url": ""}
    if parts["action"] is Action.DELETE_PATTERN:
        parts = parts | {"url": parts["url"] + "*"}
    return Record(**parts)


def _wrap(data: bytes, encoding: Encoding) -> Content:
    if encoding is Encoding.BASE64:
        data = pybase64.b64encode(data)
    elif encoding is Encoding.ZLIB_BASE64:
        data = pybase64.b64encode(zlib.compress(data))
    return Content(data, encoding)


def _utf8() -> SearchStrategy[bytes]:
    return texts().map(lambda text: text.encode())


def _counts() -> SearchStrategy[int]:
    return st.integers(0, 2**40)


def _figures() -> SearchStrategy[float]:
    return st.floats(0, 1e9, allow_nan=False)


def _tuples(parts: SearchStrategy[Any], *, max_size: int) -> SearchStrategy[tuple[Any, ...]]:
    return st.lists(parts, max_size=max_size).map(tuple)


def _sort_extras(extras: list[Extra]) -> tuple[Extra, ...]:
    return tuple(sorted(extras, key=lambda extra: extra.place))
