"""The feeds of a Google Search Appliance: gsafeed XML, in its 7.x and 5.0 dialects.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Designing an XML Feed" and "Google Search Appliance
Feed DTD", with the `feedrank` of its prose; the same of release 5.0.

**Keeps:** every element and attribute of the DTD, and unknown ones of a record as extras, which are
written again. A group's action, pagerank and feedrank become its records' own. A record of a
content feed without content is an UPDATE, because the appliance leaves what is not given. An acl
beside the records of a group is a record of its own, with nothing but the acl. Legacy google:acl*
metadata is an acl, unless the record has one. What an acl inherits from is a url, or a url with a
fragment as its query; see `_acl_parent`.

**Reads beyond the guide,** because feeds in the wild need it: no DOCTYPE or any; any encoding
with a declaration or a byte order mark; base64 without padding or with white space; records
without a mimetype; dates in other forms than RFC 822; several feeds end to end in one stream.

**Drops:** comments, processing instructions, the boundaries between groups and between the metadata
elements of a record, the order of a record's children, fractions of seconds; on writing, what
`transforms.adapt` names.
"""

import enum
import re
from collections.abc import Iterable, Iterator
from typing import IO

import pybase64

from schemas.acl import Acl, Principal
from schemas.content import CHECKED, decode
from schemas.errors import RecordError
from schemas.record import Action, Content, Crawl, Encoding, Extra, Meta, Record
from schemas.reject import Reject
from schemas.span import Span
from transforms.formats.base import DIALECT_5_0, ReadOptions, ReadResult, WriteOptions, write_all
from transforms.formats.dates import rfc1123
from transforms.formats.gsa.acl_parent import join_parent
from transforms.formats.gsa.legacy_acl import metadata_of
from transforms.formats.gsa.record_reader import FeedRecordBuilder
from transforms.formats.xml.element_names import ElementNames
from transforms.formats.xml.elements import ElementReader, Grammar, cut_spans
from transforms.formats.xml.serializer import (
    attributes,
    count_marks,
    element,
    escape_bytes,
    escape_text,
    holds,
    holds_bytes,
    is_plain_text,
)

ELEMENT_NAMES = ElementNames(
    root="gsafeed", records=("record", "acl"), group="group", header="header"
)
_PAYLOAD = re.compile(rb"""<content\s+encoding\s*=\s*["']base64(?:binary|compressed)["']\s*>""")
_ENCODING_NAMES = {Encoding.BASE64: b"base64binary", Encoding.ZLIB_BASE64: b"base64compressed"}
_ACTION_NAMES = {Action.ADD: None, Action.UPDATE: None, Action.DELETE: "delete"}
# Looked up in their enums they cost ten times as much.
_ADD, _UPDATE, _BARE = Action.ADD, Action.UPDATE, Encoding.NONE
_BOOLEAN_NAMES = {None: None, True: "true", False: "false"}
_NO_HINTS = Crawl()
_RECORD_MARKS, _DATE_MARKS, _METADATA_MARKS, _META_MARKS = 7, 2, 6, 7  # those of the markup itself
_SENSITIVITY_NAMES = {
    None: None,
    True: "everything-case-sensitive",
    False: "everything-case-insensitive",
}


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[Record | Reject]:
    """Yield the records of a feed in its order, and a Reject for each that cannot be understood."""
    return _begin(stream, FeedRecordBuilder(span, options), span, options).read()


def read_feed(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield what `read` does, the FeedHeader of each feed without records, and notices."""
    builder = FeedRecordBuilder(span, options)
    units = _begin(stream, builder, span, options)
    yield from units.read()
    yield from map(builder.header, units.contexts_without_records())
    yield from units.notices()


def _begin(
    stream: IO[bytes], builder: FeedRecordBuilder, span: Span, options: ReadOptions
) -> ElementReader[Record]:
    grammar = Grammar(
        ELEMENT_NAMES, _PAYLOAD, "content", builder.build, builder.quick, builder.bulk
    )
    return ElementReader(stream, grammar, span=span, options=options)


def cut(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield spans of about `span_bytes` that together read as the stream does."""
    return cut_spans(stream, ELEMENT_NAMES, source=source, span_bytes=span_bytes, options=options)


def write(
    records: Iterable[Record], stream: IO[bytes], *, options: WriteOptions = WriteOptions()
) -> None:
    """Write one feed; raise RecordError for a record that no gsafeed can hold."""
    write_all(encoder(options), records, stream)


class GsaFeedEncoder:
    """Writes records as elements of a feed; valid by the DTD of its dialect."""

    extension = "xml"
    frame_bytes = 0

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def prolog(self) -> bytes:
        feed = self._options.feed
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<!DOCTYPE gsafeed PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
            f"<gsafeed>\n<header>\n<datasource>{escape_text(feed.datasource)}</datasource>\n"
            f"<feedtype>{escape_text(feed.feedtype)}</feedtype>\n</header>\n<group>\n"
        ).encode()

    def encode(self, record: Record) -> bytes:
        try:
            return self._element(record)
        except ValueError as exc:  # what XML or UTF-8 cannot hold
            raise _not_xml(exc) from exc

    def frame(self, records: list[bytes]) -> bytes:
        return b"".join(records)

    def epilog(self) -> bytes:
        return b"</group>\n</gsafeed>\n"

    def _element(self, record: Record) -> bytes:
        if not record.extras and record.acl is None and (plain := _plain_head(record)):
            return self._with_content(record, plain)
        if record.action not in _ACTION_NAMES:
            found = record.action.value
            raise RecordError("bad-action", f"action {found}; expected ADD, UPDATE or DELETE")
        more = _More(record.extras)
        element = self._alone(record, more) if _is_alone(record) else self._record(record, more)
        group = more.attributes("group")
        if record.action is Action.DELETE and _is_alone(record):
            group += ' action="delete"'
        if group:
            return b"</group>\n<group%b>\n%b</group>\n<group>\n" % (group.encode(), element)
        return element

    def _alone(self, record: Record, more: "_More") -> bytes:
        assert record.acl is not None  # noqa: S101 - `_is_alone` says so
        return _acl(record.acl, more, "acl", url=record.url).encode()

    def _record(self, record: Record, more: "_More") -> bytes:
        is_5_0 = self._options.dialect == DIALECT_5_0
        metadata, acl = record.metadata, record.acl
        if is_5_0 and acl is not None:
            metadata, acl = metadata + metadata_of(acl), None
        stated = _record_attributes(record, is_5_0=is_5_0)
        pieces = [
            f"<record{more.attributes('record', beside=stated)}>\n",
            "" if acl is None else _acl(acl, more, "record/acl", url=None),
            _metadata(record, metadata, more, is_5_0=is_5_0),
        ]
        head = "".join(pieces).encode()
        if record.content is None:
            return b"%b%b</record>\n" % (head, more.markup("record").encode())
        content = _content(record.content, more.attributes("record/content"), is_5_0=is_5_0)
        return b"".join((head, *content, more.markup("record").encode(), b"</record>\n"))

    def _with_content(self, record: Record, head: bytes) -> bytes:
        content = record.content
        if content is None:
            return head + b"</record>\n"
        if content.encoding is _BARE and is_plain_text(content.data):
            return b"".join((head, b"<content>", content.data, b"</content>\n</record>\n"))
        is_5_0 = self._options.dialect == DIALECT_5_0
        return b"".join((head, *_content(content, "", is_5_0=is_5_0), b"</record>\n"))


class _More:
    """What a record holds of unknown attributes and elements, by the place where they go."""

    def __init__(self, extras: tuple[Extra, ...]) -> None:
        self._attributes: dict[str, list[tuple[str, str, int]]] = {}
        self._markup: dict[str, list[str]] = {}
        for number, extra in enumerate(extras):
            place, at, name = extra.place.partition("/@")
            if at:
                self._attributes.setdefault(place, []).append((name, extra.value, number))
            elif "@" not in place:
                self._markup.setdefault(place.rpartition("/")[0], []).append(extra.value + "\n")

    def attributes(self, place: str, *, beside: str = "") -> str:
        """Return the unknown attributes of an element, which has those `beside` them already.

        Raises RecordError for an attribute that would be there twice: that is no XML.
        """
        for name, value, number in self._attributes.get(place, ()):
            if f' {name}="' in beside:
                reason = f"a second {name} at {place}/@{name}; expected one value"
                raise RecordError("bad-extra", reason)
            beside += _attribute(name, value, number)
        return beside

    def markup(self, place: str) -> str:
        return "".join(self._markup.get(place, ()))


def _attribute(name: str, value: str, number: int) -> str:
    uri, brace, local = name.removeprefix("{").rpartition("}")
    if not brace:
        return attributes([(name, value)])
    return attributes([(f"xmlns:n{number}", uri), (f"n{number}:{local}", value)])


def _plain_head(record: Record) -> bytes | None:
    """The record up to its content, if nothing in it needs more than `&amp;`: most are so.

    The same bytes as piece by piece, in a third of the time.
    """
    if record.crawl is not None or record.overwrite_acls is not None:
        return None
    if record.action is not _ADD and record.action is not _UPDATE:
        return None
    metas, modified = record.metadata, record.modified
    date = "" if modified is None else f' last-modified="{rfc1123(modified)}"'
    text = f'<record url="{record.url}" mimetype="{record.mimetype or ""}"{date}>\n'
    marks = _RECORD_MARKS + (_DATE_MARKS if date else 0)
    if metas:
        marks += _METADATA_MARKS + _META_MARKS * len(metas)
        text += "<metadata>\n"
        for meta in metas:
            if meta.data is not None:
                return None
            text += f'<meta name="{meta.name}" content="{meta.value}"/>\n'
        text += "</metadata>\n"
    try:
        head = text.encode()
    except UnicodeEncodeError:
        return None
    return head.replace(b"&", b"&amp;") if count_marks(head) == marks else None


def _is_alone(record: Record) -> bool:
    return record.acl is not None and record.acl.alone


def _record_attributes(record: Record, *, is_5_0: bool) -> str:
    """In the order in which the guide lists them; a mimetype is required, so it may be empty."""
    crawl = record.crawl or _NO_HINTS
    modified = None if record.modified is None else rfc1123(record.modified)
    pairs = [
        ("url", record.url),
        ("displayurl", crawl.display_url),
        ("action", _ACTION_NAMES[record.action]),
        ("lock", _BOOLEAN_NAMES[crawl.lock]),
        ("mimetype", record.mimetype or ""),
        ("last-modified", modified),
    ]
    if record.crawl is not None:
        pairs += _hints(crawl, is_5_0=is_5_0)
    return attributes(pairs)


def _hints(crawl: Crawl, *, is_5_0: bool) -> list[tuple[str, str | None]]:
    method = _name(crawl.authmethod)
    pairs = [("authmethod", method), ("pagerank", _number(crawl.pagerank))]
    if is_5_0:
        return [pair for pair in pairs if pair[1] != "negotiate"]
    return [
        *pairs,
        ("feedrank", _number(crawl.feedrank)),
        ("crawl-immediately", _BOOLEAN_NAMES[crawl.crawl_immediately]),
        ("crawl-once", _BOOLEAN_NAMES[crawl.crawl_once]),
        ("scoring", _name(crawl.scoring)),
    ]


def _metadata(record: Record, metas: tuple[Meta, ...], more: _More, *, is_5_0: bool) -> str:
    attrs = more.attributes("record/metadata")
    if not is_5_0:
        attrs += attributes([("overwrite-acls", _BOOLEAN_NAMES[record.overwrite_acls])])
    markup = more.markup("record/metadata") if record.extras else ""
    if not (metas or attrs or markup):
        return ""
    numbered = enumerate(metas)
    lines = [_meta(meta, more, number, is_5_0=is_5_0) for number, meta in numbered]
    return f"<metadata{attrs}>\n{''.join(lines)}{markup}</metadata>\n"


def _meta(meta: Meta, more: _More, number: int, *, is_5_0: bool) -> str:
    more_attributes = more.attributes(f"record/metadata/meta[{number}]")
    if meta.data is None:
        try:
            pairs = [("name", meta.name), ("content", meta.value)]
            return f"<meta{attributes(pairs)}{more_attributes}/>\n"
        except UnicodeEncodeError:
            raise
        except ValueError:
            pass  # base64 holds it
    if is_5_0:
        reason = f"metadata {meta.name!r} that XML cannot hold; expected text in the 5.0 dialect"
        raise RecordError("not-xml", reason)
    value = meta.value.encode() if meta.data is None else meta.data
    name, content = pybase64.b64encode(meta.name.encode()), pybase64.b64encode(value)
    pairs = [("encoding", "base64binary"), ("name", name.decode()), ("content", content.decode())]
    return f"<meta{attributes(pairs)}{more_attributes}/>\n"


def _content(content: Content, attrs: str, *, is_5_0: bool) -> tuple[bytes, bytes, bytes]:
    """Its element in pieces: what is large is to be copied once."""
    data, encoding = content.data, content.encoding
    if encoding is _BARE and is_plain_text(data):
        return f"<content{attrs}>".encode(), data, b"</content>\n"
    if encoding is _BARE and not _is_text(data):
        data, encoding = pybase64.b64encode(data), Encoding.BASE64
    if encoding is Encoding.ZLIB_BASE64 and is_5_0:
        data, encoding = pybase64.b64encode(decode(content, max_bytes=CHECKED)), Encoding.BASE64
    if encoding is _BARE:
        return b"<content%b>" % attrs.encode(), escape_bytes(data), b"</content>\n"
    name = _ENCODING_NAMES[encoding]
    return b'<content encoding="%b"%b>' % (name, attrs.encode()), data, b"</content>\n"


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return holds_bytes(data)


def _acl(acl: Acl, more: _More, place: str, *, url: str | None) -> str:
    pairs = [
        ("url", url),
        ("inheritance-type", _name(acl.inheritance)),
        ("inherit-from", _parent(acl)),
    ]
    principals = [
        _principal(principal, more.attributes(f"{place}/principal[{number}]"))
        for number, principal in enumerate(acl.principals)
    ]
    stated = more.attributes(place, beside=attributes(pairs))
    return f"<acl{stated}>\n{''.join(principals)}</acl>\n"


def _parent(acl: Acl) -> str | None:
    parent = join_parent(acl.inherit_from, acl.inherit_fragment)
    if parent is None and acl.inherit_fragment is not None:
        found = f"the fragment {acl.inherit_fragment!r} of {acl.inherit_from!r}"
        raise RecordError("bad-acl", f"{found}; expected a url without a query or a fragment")
    return parent


def _principal(principal: Principal, more_attributes: str) -> str:
    """`access` and `scope` in the words of the DTD; what is not stated is left to its defaults."""
    pairs = [
        ("scope", _name(principal.scope)),
        ("access", _name(principal.access)),
        ("namespace", principal.namespace),
        ("case-sensitivity-type", _SENSITIVITY_NAMES[principal.case_sensitive]),
        ("principal-type", "unqualified" if principal.unqualified else None),
    ]
    if not holds(principal.name):
        raise ValueError(f"principal {principal.name!r}")
    return element("principal", principal.name, attributes(pairs) + more_attributes) + "\n"


def _not_xml(exc: ValueError) -> RecordError:
    found = "a lone surrogate" if isinstance(exc, UnicodeError) else str(exc)
    return RecordError("not-xml", f"{found}; expected characters that XML can hold")


def _name(value: enum.Enum | None) -> str | None:
    return None if value is None else str(value.value).lower().replace("_", "-")


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)


def encoder(options: WriteOptions) -> GsaFeedEncoder:
    """The writer of feeds in `options.dialect` that are headed by `options.feed`."""
    return GsaFeedEncoder(options)
