"""One element of a gsafeed as a record.

Whatever is not understood is kept where it stood, as an `Extra`; only what decides over the
document (its url, its action, who may see it, how its content is encoded) is refused instead.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple, TypeVar

import pybase64
from lxml import etree

from schemas.acl import Acl
from schemas.content import check, clean_base64
from schemas.errors import RecordError
from schemas.feed import is_web
from schemas.record import (
    Action,
    Arrival,
    Authmethod,
    Content,
    Crawl,
    Encoding,
    Extra,
    Meta,
    Provenance,
    Record,
    Scoring,
)
from schemas.span import Span
from transforms.formats._dates import parse_date
from transforms.formats._elements import Parsed, parse_markup
from transforms.formats._gsa_acl import Attributes, Extras, bad_acl, read_acl, tag_of
from transforms.formats._legacy_acl import acl_of
from transforms.formats._options import ReadOptions
from transforms.formats._units import Context

ACTIONS = {"add": Action.ADD, "delete": Action.DELETE}
BOOLEANS = {"true": True, "false": False}
AUTHMETHODS = {method.value.lower(): method for method in Authmethod}
SCORINGS = {scoring.value.lower(): scoring for scoring in Scoring}
ENCODINGS = {
    None: Encoding.NONE,
    "base64binary": Encoding.BASE64,
    "base64compressed": Encoding.ZLIB_BASE64,
}
_RANK_DIGITS = 9
_PLAIN_META = 2

Value = TypeVar("Value")


class Around(NamedTuple):
    """What a record inherits from its feed and its group."""

    datasource: str | None
    feedtype: str | None
    action: Action | None
    pagerank: str | None
    feedrank: str | None
    unknown: tuple[Extra, ...]
    readable: bool


class Builder:
    """Builds the records of one stream; `build` raises RecordError for one that is refused."""

    def __init__(self, span: Span, options: ReadOptions) -> None:
        self._span = span
        self._options = options
        self._context: Context | None = None

    def build(self, parsed: Parsed) -> Record:
        unit = parsed.unit
        if unit.context is not self._context:
            self._context = unit.context
            self._around = _around(unit.context)
        provenance = Provenance(
            source=self._span.source,
            span=self._span.ordinal,
            line=unit.line,
            offset=unit.offset,
            datasource=self._around.datasource,
            feedtype=self._around.feedtype,
        )
        if unit.name == "acl":
            return self._acl_alone(parsed, provenance)
        return self._record(parsed, provenance)

    def _record(self, parsed: Parsed, provenance: Provenance) -> Record:
        attributes = dict(parsed.element.items())
        extras: Extras = list(self._around.unknown)
        url = _required_url(attributes.pop("url", ""))
        action = self._action(attributes.pop("action", None))
        mimetype = attributes.pop("mimetype", None) or None
        modified = attributes.pop("last-modified", None)
        moment = None if modified is None else self._moment(modified)
        if modified is not None and moment is None:
            extras.append(Extra("record/@last-modified", modified))
        children = _Children(parsed, extras, self._options.max_content_bytes)
        acl, metadata = children.acl, tuple(children.metadata)
        if acl is None and metadata:
            acl, metadata = acl_of(metadata)
        return Record(
            url=url,
            action=self._settle(action, children.content),
            arrival=self._arrival(action),
            content=children.content,
            mimetype=mimetype,
            metadata=metadata,
            modified=moment,
            acl=acl,
            overwrite_acls=children.overwrite_acls,
            crawl=self._crawl(attributes, extras),
            extras=_sorted(extras),
            provenance=provenance,
        )

    def _moment(self, text: str) -> datetime | None:
        moment = parse_date(text, zone=self._options.zone)
        return moment.replace(microsecond=0) if moment and moment.microsecond else moment

    def _acl_alone(self, parsed: Parsed, provenance: Provenance) -> Record:
        extras: Extras = list(self._around.unknown)
        attributes = dict(parsed.element.items())
        url = attributes.pop("url", "")
        if not url.strip():
            reason = "an acl in a group without a url; expected the url that it is for"
            raise RecordError("acl-without-url", reason)
        action = self._action(None)
        return Record(
            url=url,
            action=Action.UPDATE if action is Action.ADD else action,
            acl=read_acl(parsed.element, attributes, extras, "acl", alone=True),
            extras=tuple(extras),
            provenance=provenance,
        )

    def _action(self, stated: str | None) -> Action:
        """The record's own action wins; a group that cannot be read leaves no doubtful deletion."""
        if stated is not None:
            action = ACTIONS.get(stated)
            if action is None:
                raise RecordError("bad-action", f"action={stated!r}; expected add or delete")
            return action
        if not self._around.readable:
            reason = "a record in a group whose tag cannot be read; expected an action of its own"
            raise RecordError("group-unreadable", reason)
        return self._around.action or Action.ADD

    def _settle(self, action: Action, content: Content | None) -> Action:
        """A content feed changes what is given: without content, the rest of the document stays."""
        if action is Action.ADD and content is None and not self._is_web():
            return Action.UPDATE
        return action

    def _arrival(self, action: Action) -> Arrival | None:
        if action is Action.DELETE:
            return None
        return Arrival.CRAWLED if self._is_web() else Arrival.PUSHED

    def _is_web(self) -> bool:
        return is_web(self._around.datasource, self._around.feedtype)

    def _crawl(self, attributes: Attributes, extras: Extras) -> Crawl | None:
        """The hints that are stated; what remains of the attributes becomes extras."""
        around = self._around
        if around.pagerank is not None:
            attributes.setdefault("pagerank", around.pagerank)
        if around.feedrank is not None:
            attributes.setdefault("feedrank", around.feedrank)
        if not attributes:
            return None
        take = _Take(attributes)
        crawl = Crawl(
            lock=take.one_of("lock", BOOLEANS),
            crawl_immediately=take.one_of("crawl-immediately", BOOLEANS),
            crawl_once=take.one_of("crawl-once", BOOLEANS),
            authmethod=take.one_of("authmethod", AUTHMETHODS),
            pagerank=take.rank("pagerank"),
            feedrank=take.rank("feedrank"),
            scoring=take.one_of("scoring", SCORINGS),
            display_url=attributes.pop("displayurl", None),
        )
        extras.extend(Extra(f"record/@{name}", value) for name, value in attributes.items())
        return crawl if crawl != _NO_HINTS else None


_NO_HINTS = Crawl()


class _Take:
    """Takes attributes that are understood out of a mapping, and leaves the others in it."""

    def __init__(self, attributes: Attributes) -> None:
        self._attributes = attributes

    def one_of(self, name: str, values: Mapping[str, Value]) -> Value | None:
        found = values.get(self._attributes.get(name, ""))
        if found is not None:
            del self._attributes[name]
        return found

    def rank(self, name: str) -> int | None:
        text = self._attributes.get(name, "").strip()
        if not (text.isascii() and text.isdecimal() and len(text) <= _RANK_DIGITS):
            return None
        del self._attributes[name]
        return int(text)


class _Children:
    """The child elements of a record, taken in one pass."""

    def __init__(self, parsed: Parsed, extras: Extras, max_content_bytes: int) -> None:
        self.acl: Acl | None = None
        self.content: Content | None = None
        self.metadata: list[Meta] = []
        self.overwrite_acls: bool | None = None
        self._extras = extras
        for child in parsed.element:
            tag = child.tag
            if tag == "metadata":
                self._metadata(child)
            elif tag == "content" and self.content is None:
                self.content = _content(child, parsed.payload, extras)
                check(self.content, max_bytes=max_content_bytes)
            elif tag == "acl":
                self._acl(child)
            else:
                extras.append(_markup("record", child))

    def _acl(self, child: etree._Element) -> None:
        if self.acl is not None:
            raise bad_acl("a second acl in a record; expected one")
        self.acl = read_acl(child, dict(child.items()), self._extras, "record/acl", alone=False)

    def _metadata(self, element: etree._Element) -> None:
        for name, value in element.items():
            if name == "overwrite-acls" and value in BOOLEANS:
                self.overwrite_acls = BOOLEANS[value]
            else:
                self._extras.append(Extra(f"record/metadata/@{name}", value))
        metadata = self.metadata
        for meta in element:
            pairs = meta.items()
            if len(pairs) == _PLAIN_META and pairs[0][0] == "name" and pairs[1][0] == "content":
                metadata.append(Meta(pairs[0][1], pairs[1][1]))
            elif meta.tag == "meta":
                metadata.append(self._meta(dict(pairs)))
            else:
                self._extras.append(_markup("record/metadata", meta))

    def _meta(self, attributes: Attributes) -> Meta:
        name, content = attributes.pop("name", None), attributes.pop("content", None)
        if name is None or content is None:
            found = "name" if content is None else "content"
            what = f"a meta with {found} only" if name or content else "a meta without both"
            raise RecordError("bad-meta", f"{what}; expected name and content")
        encoding = attributes.pop("encoding", None)
        place = f"record/metadata/meta[{len(self.metadata)}]"
        self._extras.extend(Extra(f"{place}/@{key}", value) for key, value in attributes.items())
        if encoding is None:
            return Meta(name, content)
        if encoding != "base64binary":
            raise RecordError("bad-meta", f"encoding={encoding!r} of a meta; expected base64binary")
        return _decoded_meta(name, content)


def _decoded_meta(name: str, content: str) -> Meta:
    key, value = _decoded(name), _decoded(content)
    try:
        text = key.decode()
    except UnicodeDecodeError as exc:
        raise RecordError("bad-meta", "a name that is not UTF-8; expected text") from exc
    try:
        return Meta(text, value.decode())
    except UnicodeDecodeError:  # a value may be anything
        return Meta(text, "", value)


def _decoded(text: str) -> bytes:
    return pybase64.b64decode(clean_base64(text.encode()))


def _content(element: etree._Element, payload: bytes | None, extras: Extras) -> Content:
    attributes = dict(element.items())
    stated = attributes.pop("encoding", None)
    if stated not in ENCODINGS:
        expected = "base64binary, base64compressed or no encoding"
        raise RecordError("bad-encoding", f"encoding={stated!r} of a content; expected {expected}")
    if len(element):
        reason = f"<{tag_of(element[0])}> inside <content>; expected text: escape it or use CDATA"
        raise RecordError("content-with-elements", reason)
    extras.extend(Extra(f"record/content/@{key}", value) for key, value in attributes.items())
    encoding = ENCODINGS[stated]
    text = (element.text or "").encode() if payload is None else payload
    return Content(text if encoding is Encoding.NONE else clean_base64(text), encoding)


def _required_url(url: str) -> str:
    if not url.strip():
        raise RecordError("url-missing", "a record without a url; expected the url of its document")
    return url


def _sorted(extras: Extras) -> tuple[Extra, ...]:
    """In an order that does not depend on where the writer puts them."""
    return tuple(sorted(extras, key=lambda extra: extra.place)) if extras else ()


def _markup(parent: str, element: etree._Element) -> Extra:
    place = f"{parent}/{tag_of(element)}"
    return Extra(place, etree.tostring(element, encoding="unicode", with_tail=False))


@lru_cache(maxsize=64)
def _around(context: Context) -> Around:
    datasource, feedtype = _header(context.header)
    attributes, readable = _group(context.group)
    action = attributes.pop("action", None)
    return Around(
        datasource=datasource,
        feedtype=feedtype,
        action=ACTIONS.get(action or "add"),
        pagerank=attributes.pop("pagerank", None),
        feedrank=attributes.pop("feedrank", None),
        unknown=tuple(Extra(f"group/@{name}", value) for name, value in attributes.items()),
        readable=readable and (action or "add") in ACTIONS,
    )


def _header(header: bytes) -> tuple[str | None, str | None]:
    """Datasource and feedtype; an appliance takes both from the push, so they may be missing."""
    if not header:
        return None, None
    try:
        element = parse_markup(header)
    except RecordError:  # both decide over what records mean, so they are taken where they show
        return _salvage(header, "datasource"), _salvage(header, "feedtype")
    return _text(element, "datasource"), _text(element, "feedtype")


def _text(element: etree._Element, name: str) -> str | None:
    return (element.findtext(name) or "").strip() or None


def _salvage(header: bytes, name: str) -> str | None:
    found = re.search(rf"<{name}>\s*([\w-]+)\s*<".encode(), header)
    return found[1].decode() if found else None


def _group(tag: bytes) -> tuple[Attributes, bool]:
    if not tag:
        return {}, True
    try:
        return dict(parse_markup(tag + b"</group>").items()), True
    except RecordError:
        return {}, False
