"""One element of a gsafeed as a record, with the values of its header and its group.

Markup that is not understood is kept as an `Extra`. Only the parts that decide over the document
(its url, its action, its ACL, the encoding of its content) are refused instead.
"""

import re
from collections.abc import Callable, Sequence
from copy import copy
from datetime import datetime
from functools import lru_cache
from typing import IO, NamedTuple

import pybase64
from lxml import etree
from msgspec import Struct

from feedferry.schemas.acl import Acl
from feedferry.schemas.content import check, clean_base64
from feedferry.schemas.errors import RecordError
from feedferry.schemas.feed import FeedHeader, check_header, is_web, read_feedtype
from feedferry.schemas.record import (
    Action,
    Arrival,
    Content,
    Crawl,
    Extra,
    Meta,
    Provenance,
    Record,
)
from feedferry.schemas.span import ElementContext, Span
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.gsa.acl import Extras, bad_acl, read_acl, require_no_text, tag_of
from feedferry.transforms.formats.gsa.feed_runs import FeedRuns
from feedferry.transforms.formats.gsa.gsa_formats import FEED_NAMES
from feedferry.transforms.formats.gsa.rows import ACTION, CONTENT, GROUP, HINTS, META, METADATA
from feedferry.transforms.formats.holding.acl_metadata import acl_of
from feedferry.transforms.formats.text.dates import parse_date
from feedferry.transforms.formats.xml.elements import ParsedElement, parse_markup
from feedferry.transforms.formats.xml.places import XmlPlaces
from feedferry.transforms.formats.xml.scanning.document_state import NESTED, UNKNOWN
from feedferry.transforms.formats.xml.serializer import extra_element

CONTEXT_UNKNOWN = "context-unknown"
_HIDDEN_GROUP = "a group after damage that may hide its tag"

Attributes = dict[str, str]


class FeedContext(NamedTuple):
    """The header and the group of a record.

    `fault` describes a group that cannot be relied on, so that only records with an action of their
    own are read. `is_unknown` says that no record can be read, as it may belong to another feed.
    `hints` are the attributes of the group that apply to its records.
    """

    datasource: str | None
    feedtype: str | None
    repair: str
    action: Action | None
    hints: Attributes
    extras: tuple[Extra, ...]
    fault: str
    is_unknown: bool = False


@lru_cache(maxsize=64)
def feed_context(context: ElementContext) -> FeedContext:
    """Read the start tags and the header before an element."""
    datasource, feedtype, repair = _header(context.header)
    attributes, fault = _group(context)
    stated = attributes.pop("action", "add")
    action: Action | None = ACTION.decode(stated)
    if action is None:
        fault = f"a group with action={stated!r}"
    names = [row.name for row in GROUP.rows if row.name in attributes]
    hints = {name: attributes.pop(name) for name in names}
    return FeedContext(
        datasource=datasource,
        feedtype=feedtype,
        repair=repair,
        action=action,
        hints=hints,
        extras=tuple(Extra(f"group/@{name}", value) for name, value in attributes.items()),
        fault=fault,
        is_unknown=context.header == UNKNOWN,
    )


def places(stream: IO[bytes], *, source: str = "") -> XmlPlaces:
    """Return the places of the records of a feed."""
    return XmlPlaces(FEED_NAMES, stream, source=source, feed_of=lambda header: _header(header)[:2])


@lru_cache(maxsize=4)
def _header(header: bytes) -> tuple[str | None, str | None, str]:
    """Return datasource and feedtype, and what was repaired in them: case, and blanks around them.

    An appliance takes both from the push, so they are optional. Both decide what records mean, so
    they are also searched in a header that is not well-formed.
    """
    if not header:
        return None, None, ""
    try:
        element = parse_markup(header)
    except RecordError:
        datasource, feedtype = _search(header, "datasource"), _search(header, "feedtype")
    else:
        datasource, feedtype = element.findtext("datasource"), element.findtext("feedtype")
    stated = datasource or "", feedtype or ""
    name, kind = stated[0].strip(), read_feedtype(stated[1])
    repair = f"datasource and feedtype {stated}; read as {name!r} and {kind!r}"
    return name or None, kind or None, "" if (name, kind) == stated else repair


def _search(header: bytes, name: str) -> str | None:
    value = re.search(rf"<{name}>\s*([\w-]+)\s*<".encode(), header)
    return value[1].decode() if value else None


def _group(context: ElementContext) -> tuple[Attributes, str]:
    if not context.group:
        return {}, ""
    if context.group == UNKNOWN:
        return {}, _HIDDEN_GROUP
    if context.group == NESTED:
        return {}, "a group after the end of a group inside it"
    try:
        return dict(parse_markup(context.group + b"</group>").items()), ""
    except RecordError:
        return {}, "a group whose tag cannot be read"


class FeedRecordBuilder:
    """Builds the records of one stream; `build` raises RecordError for one that is refused."""

    def __init__(self, span: Span, options: ReadOptions) -> None:
        self._span = span
        self._options = options
        self._element_context: ElementContext | None = None
        self.bulk = FeedRuns(options, _parts_of, self._in_context).bulk

    def build(self, parsed: ParsedElement) -> Record:
        """Return the record of a parsed element."""
        self._enter(parsed.raw.context, parsed.raw.line)
        if parsed.raw.name == "acl":
            return self._acl_alone(parsed)
        return self._record(_parts_of(parsed))

    def _in_context(self, context: ElementContext, line: int) -> Callable[["RecordParts"], Record]:
        """Return what builds records in a context, also after others have begun."""
        self._enter(context, line)
        return copy(self)._record

    def header(self, context: ElementContext) -> FeedHeader:
        """Return the header of a feed, or how it was posted."""
        posted = self._as_posted(feed_context(context), "")
        return FeedHeader(
            source=self._span.source,
            datasource=posted.datasource,
            feedtype=posted.feedtype,
            repair=posted.repair,
        )

    def _enter(self, context: ElementContext, line: int) -> FeedContext:
        if context is not self._element_context:
            self._context = self._as_posted(feed_context(context), f":{line}")
            self._is_ranked = any(self._context.hints.values())
            self._is_web = is_web(self._context.datasource, self._context.feedtype)
            self._element_context = context  # last: if this fails, the next record tries again
        if self._context.is_unknown:
            reason = (
                "a record after the end of a feed, or after damage; expected a header before it"
            )
            raise RecordError(CONTEXT_UNKNOWN, reason)
        return self._context

    def _as_posted(self, context: FeedContext, line: str) -> FeedContext:
        """Return the context as the feed was posted; raise FormatError for a wrong value."""
        feed = self._span.feed
        if feed is not None:
            context = context._replace(
                datasource=feed.datasource or context.datasource,
                feedtype=feed.feedtype or context.feedtype,
                repair="",
            )
        where, used = f"{self._span.source}{line}", self._options.used_header
        check_header(context.datasource, context.feedtype, where=where, used=used)
        return context

    def _provenance(self, line: int, offset: int) -> Provenance:
        return Provenance(
            source=self._span.source,
            span=self._span.ordinal,
            line=line,
            offset=offset,
            datasource=self._context.datasource,
            feedtype=self._context.feedtype,
        )

    def _record(self, parts: "RecordParts") -> Record:
        attributes, extras = parts.attributes, [*self._context.extras, *parts.extras]
        url = attributes.pop("url", "")
        if not url or url.isspace():
            reason = "a record without a url; expected the url of its document"
            raise RecordError("url-missing", reason)
        action = self._action(attributes.pop("action", None))
        mimetype = attributes.pop("mimetype", None) or None
        modified = attributes.pop("last-modified", None)
        moment = None if modified is None else self._moment(modified)
        if modified is not None and moment is None:
            extras.append(Extra("record/@last-modified", modified))
        content, acl, metadata = parts.content, parts.acl, tuple(parts.metadata)
        if content is not None:
            check(content, max_bytes=self._options.max_content_bytes)
        if acl is None and metadata:
            acl, metadata = acl_of(metadata)
        if action is Action.ADD and content is None and not self._is_web:
            action = Action.UPDATE  # the appliance keeps the content that it has
        return Record(
            url=url,
            action=action,
            arrival=self._arrival(action),
            content=content,
            mimetype=mimetype,
            metadata=metadata,
            modified=moment,
            acl=acl,
            overwrite_acls=parts.overwrite_acls,
            crawl=self._crawl(attributes, extras) if attributes or self._is_ranked else None,
            # In an order that does not depend on where the writer puts them.
            extras=tuple(sorted(extras, key=lambda extra: extra.place)) if extras else (),
            provenance=self._provenance(parts.line, parts.offset),
        )

    def _moment(self, text: str) -> datetime | None:
        moment = parse_date(text, zone=self._options.zone)
        return moment.replace(microsecond=0) if moment and moment.microsecond else moment

    def _acl_alone(self, parsed: ParsedElement) -> Record:
        element, extras = parsed.element, [*self._context.extras]
        url = element.get("url", "")
        if not url.strip():
            reason = "an acl in a group without a url; expected the url that it is for"
            raise RecordError("acl-without-url", reason)
        action = self._action(None)
        return Record(
            url=url,
            action=Action.UPDATE if action is Action.ADD else action,
            acl=read_acl(element, extras, alone=True),
            extras=tuple(extras),
            provenance=self._provenance(parsed.raw.line, parsed.raw.offset),
        )

    def _action(self, stated: str | None) -> Action:
        """Return the record's own action, or else that of its group, if the group can be read."""
        if stated is not None:
            action: Action | None = ACTION.decode(stated)
            if action is None:
                raise RecordError("bad-action", f"action={stated!r}; expected {ACTION.expected}")
            return action
        if fault := self._context.fault:
            code = CONTEXT_UNKNOWN if fault == _HIDDEN_GROUP else "group-unreadable"
            raise RecordError(code, f"a record in {fault}; expected an action of its own")
        return self._context.action or Action.ADD

    def _arrival(self, action: Action) -> Arrival | None:
        if action is Action.DELETE:
            return None
        return Arrival.CRAWLED if self._is_web else Arrival.PUSHED

    def _crawl(self, attributes: Attributes, extras: Extras) -> Crawl | None:
        """Return the hints of a record and its group; other attributes become extras."""
        if self._context.hints:
            attributes = self._context.hints | attributes
        hints = HINTS.take(attributes.items(), extras)
        return Crawl(**hints) if hints else None


class RecordParts(Struct):
    """The attributes and the child elements of a record, which are taken in one pass."""

    attributes: Attributes
    line: int
    offset: int
    acl: Acl | None = None
    content: Content | None = None
    metadata: Sequence[Meta] = ()
    overwrite_acls: bool | None = None
    extras: Extras = []

    def take(self, element: etree._Element) -> None:
        require_no_text(element)
        for child in element:
            tag = child.tag
            if tag == "metadata":
                self._take_metadata(child)
            elif tag == "content" and self.content is None:
                self.content = _content(child, self.extras)
            elif tag == "acl":
                if self.acl is not None:
                    raise bad_acl("a second acl in a record; expected one")
                self.acl = read_acl(child, self.extras)
            else:
                self.extras.append(extra_element(f"record/{tag_of(child)}", child))

    def _take_metadata(self, element: etree._Element) -> None:
        values = METADATA.take(element.items(), self.extras)
        self.overwrite_acls = values.get("overwrite_acls", self.overwrite_acls)
        require_no_text(element)
        metadata = [*self.metadata]
        self.metadata = metadata
        for meta in element:
            pairs = meta.items()
            if len(pairs) == 2 and pairs[0][0] == "name" and pairs[1][0] == "content":
                metadata.append(Meta(pairs[0][1], pairs[1][1]))
            elif meta.tag == "meta":
                metadata.append(self._meta(meta))
            else:
                self.extras.append(extra_element(f"record/metadata/{tag_of(meta)}", meta))

    def _meta(self, element: etree._Element) -> Meta:
        name, content = element.get("name"), element.get("content")
        if name is None or content is None:
            found = "name" if content is None else "content"
            what = f"a meta with {found} only" if name or content else "a meta without both"
            raise RecordError("bad-meta", f"{what}; expected name and content")
        place = f"{META.place}[{len(self.metadata)}]"
        values = META.take(element.items(), self.extras, place=place)
        return _decoded_meta(name, content) if "encoding" in values else Meta(name, content)


def _parts_of(parsed: ParsedElement) -> RecordParts:
    """Return the parts of a record; raise RecordError if a child is refused."""
    element, raw = parsed
    parts = RecordParts(dict(element.items()), raw.line, raw.offset)
    parts.take(element)
    return parts


def _decoded_meta(name: str, content: str) -> Meta:
    key, value = (pybase64.b64decode(clean_base64(text.encode())) for text in (name, content))
    try:
        text = key.decode()
    except UnicodeDecodeError as exc:
        raise RecordError("bad-meta", "a name that is not UTF-8; expected text") from exc
    try:
        return Meta(text, value.decode())
    except UnicodeDecodeError:  # a value may be any bytes
        return Meta(text, "", value)


def _content(element: etree._Element, extras: Extras) -> Content:
    if len(element):
        reason = f"<{tag_of(element[0])}> inside <content>; expected text: escape it or use CDATA"
        raise RecordError("content-with-elements", reason)
    encoding = CONTENT.take(element.items(), extras).get("encoding")
    text = (element.text or "").encode()
    return Content(text) if encoding is None else Content(clean_base64(text), encoding)
