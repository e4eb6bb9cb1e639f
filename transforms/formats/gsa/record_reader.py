"""One element of a gsafeed as a record.

Whatever is not understood is kept where it stood, as an `Extra`; only what decides over the
document (its url, its action, who may see it, how its content is encoded) is refused instead.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from functools import partial
from typing import TypeVar

import pybase64
from lxml import etree

from schemas.acl import Acl
from schemas.content import check, clean_base64
from schemas.errors import RecordError
from schemas.feed import FeedHeader, is_web
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
from schemas.span import ElementContext, Span
from transforms.formats.base import ReadOptions
from transforms.formats.dates import parse_date
from transforms.formats.gsa.acl import (
    Attributes,
    Extras,
    bad_acl,
    read_acl,
    require_no_text,
    tag_of,
)
from transforms.formats.gsa.fast_reader import TemplateCache, UniformBatch
from transforms.formats.gsa.feed_context import ACTIONS, FeedContext, feed_context
from transforms.formats.gsa.legacy_acl import acl_of
from transforms.formats.xml.elements import ParsedElement
from transforms.formats.xml.raw_element import RawElement

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


class FeedRecordBuilder:
    """Builds the records of one stream; `build` raises RecordError for one that is refused."""

    def __init__(self, span: Span, options: ReadOptions) -> None:
        self._span = span
        self._options = options
        self._context: ElementContext | None = None
        self._express = TemplateCache()
        self._runs = UniformBatch(self._express)

    def build(self, parsed: ParsedElement) -> Record:
        """The record of an element."""
        around = self._enter(parsed.raw.context)
        extras: Extras = list(around.unknown)
        if parsed.raw.name == "acl":
            return self._acl_alone(parsed, extras)
        attributes = dict(parsed.element.items())
        children = _Children(extras)
        children.take(parsed)
        return self._record(attributes, children, self._provenance(parsed.raw))

    def quick(self, unit: RawElement) -> Record | None:
        """The record of a unit whose shape is known, None where it must be parsed."""
        parts = self._express.take(unit)
        if parts is None:
            return None
        around = self._enter(unit.context)
        children = _Children(list(around.unknown))
        children.acl = parts.acl
        children.metadata = parts.metadata
        if parts.overwrite_acls is not None:
            children.take_overwrite_acls("overwrite-acls", parts.overwrite_acls)
        if parts.payload is not None:
            children.content = make_content(parts.encoding, parts.payload)
        return self._record(parts.attributes, children, self._provenance(unit))

    def bulk(
        self, run: bytes, offset: int, line: int, context: ElementContext
    ) -> list[Record] | None:
        """The records of units that are all of one shape; None where one is not, or is refused.

        Why it is refused is then told by `quick` or `build`, which take them one by one.
        """
        columns = self._runs.take(run)
        if columns is None:
            return None
        around = self._enter(context)
        make = partial(
            Provenance,
            source=self._span.source,
            span=self._span.ordinal,
            datasource=around.datasource,
            feedtype=around.feedtype,
        )
        records = []
        rows = zip(columns.rows, columns.metadata, columns.offsets, columns.lines, strict=True)
        try:
            for values, metadata, begin, row in rows:
                children = _Children(list(around.unknown))
                children.metadata = metadata
                attributes = dict(zip(columns.names, values, strict=True))
                provenance = make(line=line + row, offset=offset + begin)
                records.append(self._record(attributes, children, provenance))
        except RecordError:
            return None
        return records

    def header(self, context: ElementContext) -> FeedHeader:
        """Return what the header of a feed says, or what the feed was posted as."""
        around = self._as_posted(feed_context(context))
        return FeedHeader(
            source=self._span.source, datasource=around.datasource, feedtype=around.feedtype
        )

    def _enter(self, context: ElementContext) -> FeedContext:
        if context is not self._context:
            self._around = self._as_posted(feed_context(context))
            self._is_ranked = self._around.pagerank or self._around.feedrank
            self._is_web = is_web(self._around.datasource, self._around.feedtype)
            self._context = context  # last: if this fails, the next record must not skip it
        return self._around

    def _as_posted(self, around: FeedContext) -> FeedContext:
        """What a feed was posted as; an appliance takes nothing else."""
        feed = self._span.feed
        if feed is None:
            return around
        return around._replace(
            datasource=feed.datasource or around.datasource,
            feedtype=feed.feedtype or around.feedtype,
        )

    def _provenance(self, unit: RawElement) -> Provenance:
        return Provenance(
            source=self._span.source,
            span=self._span.ordinal,
            line=unit.line,
            offset=unit.offset,
            datasource=self._around.datasource,
            feedtype=self._around.feedtype,
        )

    def _record(
        self, attributes: Attributes, children: "_Children", provenance: Provenance
    ) -> Record:
        extras = children.extras
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
        content, acl, metadata = children.content, children.acl, tuple(children.metadata)
        if content is not None:
            check(content, max_bytes=self._options.max_content_bytes)
        if acl is None and metadata:
            acl, metadata = acl_of(metadata)
        if action is Action.ADD and content is None and not self._is_web:
            action = Action.UPDATE  # without content, the rest of the document stays
        return Record(
            url=url,
            action=action,
            arrival=self._arrival(action),
            content=content,
            mimetype=mimetype,
            metadata=metadata,
            modified=moment,
            acl=acl,
            overwrite_acls=children.overwrite_acls,
            crawl=self._crawl(attributes, extras) if attributes or self._is_ranked else None,
            extras=_sorted(extras) if extras else (),
            provenance=provenance,
        )

    def _moment(self, text: str) -> datetime | None:
        moment = parse_date(text, zone=self._options.zone)
        return moment.replace(microsecond=0) if moment and moment.microsecond else moment

    def _acl_alone(self, parsed: ParsedElement, extras: Extras) -> Record:
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
            provenance=self._provenance(parsed.raw),
        )

    def _action(self, stated: str | None) -> Action:
        """The record's own action wins; a group that cannot be read leaves no doubtful deletion."""
        if stated is not None:
            action = ACTIONS.get(stated)
            if action is None:
                raise RecordError("bad-action", f"action={stated!r}; expected add or delete")
            return action
        if self._around.doubt:
            reason = f"a record in {self._around.doubt}; expected an action of its own"
            raise RecordError("group-unreadable", reason)
        return self._around.action or Action.ADD

    def _arrival(self, action: Action) -> Arrival | None:
        if action is Action.DELETE:
            return None
        return Arrival.CRAWLED if self._is_web else Arrival.PUSHED

    def _crawl(self, attributes: Attributes, extras: Extras) -> Crawl | None:
        """The hints that are stated; what remains of the attributes becomes extras."""
        around = self._around
        if around.pagerank is not None:
            attributes.setdefault("pagerank", around.pagerank)
        if around.feedrank is not None:
            attributes.setdefault("feedrank", around.feedrank)
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

    __slots__ = ("acl", "content", "extras", "metadata", "overwrite_acls")

    def __init__(self, extras: Extras) -> None:
        self.acl: Acl | None = None
        self.content: Content | None = None
        self.metadata: Sequence[Meta] = ()
        self.overwrite_acls: bool | None = None
        self.extras = extras

    def take_overwrite_acls(self, name: str, value: str) -> None:
        if name == "overwrite-acls" and value in BOOLEANS:
            self.overwrite_acls = BOOLEANS[value]
        else:
            self.extras.append(Extra(f"record/metadata/@{name}", value))

    def take(self, parsed: ParsedElement) -> None:
        """Take what the children of an element hold."""
        require_no_text(parsed.element)
        for child in parsed.element:
            tag = child.tag
            if tag == "metadata":
                self._metadata(child)
            elif tag == "content" and self.content is None:
                self.content = _content(child, parsed.payload, self.extras)
            elif tag == "acl":
                self._acl(child)
            else:
                self.extras.append(_markup("record", child))

    def _acl(self, child: etree._Element) -> None:
        if self.acl is not None:
            raise bad_acl("a second acl in a record; expected one")
        self.acl = read_acl(child, dict(child.items()), self.extras, "record/acl", alone=False)

    def _metadata(self, element: etree._Element) -> None:
        for name, value in element.items():
            self.take_overwrite_acls(name, value)
        require_no_text(element)
        metadata = [*self.metadata]
        self.metadata = metadata
        for meta in element:
            pairs = meta.items()
            if len(pairs) == _PLAIN_META and pairs[0][0] == "name" and pairs[1][0] == "content":
                metadata.append(Meta(pairs[0][1], pairs[1][1]))
            elif meta.tag == "meta":
                metadata.append(self._meta(dict(pairs)))
            else:
                self.extras.append(_markup("record/metadata", meta))

    def _meta(self, attributes: Attributes) -> Meta:
        name, content = attributes.pop("name", None), attributes.pop("content", None)
        if name is None or content is None:
            found = "name" if content is None else "content"
            what = f"a meta with {found} only" if name or content else "a meta without both"
            raise RecordError("bad-meta", f"{what}; expected name and content")
        encoding = attributes.pop("encoding", None)
        place = f"record/metadata/meta[{len(self.metadata)}]"
        self.extras.extend(Extra(f"{place}/@{key}", value) for key, value in attributes.items())
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
    encoding = attributes.pop("encoding", None)
    if len(element):
        reason = f"<{tag_of(element[0])}> inside <content>; expected text: escape it or use CDATA"
        raise RecordError("content-with-elements", reason)
    extras.extend(Extra(f"record/content/@{key}", value) for key, value in attributes.items())
    return make_content(encoding, (element.text or "").encode() if payload is None else payload)


def make_content(stated: str | None, text: bytes) -> Content:
    """The content of a text in its stated encoding; base64 is checked and mended."""
    if stated not in ENCODINGS:
        expected = "base64binary, base64compressed or no encoding"
        raise RecordError("bad-encoding", f"encoding={stated!r} of a content; expected {expected}")
    encoding = ENCODINGS[stated]
    return Content(text if encoding is Encoding.NONE else clean_base64(text), encoding)


def _sorted(extras: Extras) -> tuple[Extra, ...]:
    """In an order that does not depend on where the writer puts them."""
    return tuple(sorted(extras, key=lambda extra: extra.place))


def _markup(parent: str, element: etree._Element) -> Extra:
    place = f"{parent}/{tag_of(element)}"
    alone = deepcopy(element)  # with the prefixes that it uses, and not those around it
    etree.cleanup_namespaces(alone)
    return Extra(place, etree.tostring(alone, encoding="unicode", with_tail=False))
