"""The feeds of a Google Search Appliance: gsafeed XML, in its 7.x and 5.0 dialects.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Designing an XML Feed" and "Google Search Appliance
Feed DTD", with the `feedrank` of its prose; the same sections of release 5.0.

**Keeps:** every element and attribute of the DTD, and unknown ones of a record as extras, which are
written again. The action, pagerank and feedrank of a group apply to its records. A record of a
content feed without content is an UPDATE, because the appliance keeps the content that it has. An
acl next to the records of a group is a record of its own, with nothing but the ACL. Legacy
google:acl* metadata is an ACL, unless the record has one. An ACL inherits from a URL, or from a URL
with a fragment as its query; see `join_parent`.

**Reads beyond the guide,** because feeds in the field need it: any DOCTYPE or none; any encoding
with a declaration or a byte order mark; base64 without padding or with white space; records
without a mimetype; dates in other forms than RFC 822; several feeds one after another in a stream.

**Drops:** comments, processing instructions, the boundaries between groups and between the metadata
elements of a record, the order of a record's children, fractions of seconds; on writing, the losses
that `transforms.rules.adapt` reports.
"""

import re
from collections.abc import Iterator, Sequence
from typing import IO, ClassVar

import pybase64
from msgspec.structs import replace

from feedferry.schemas.acl import Acl
from feedferry.schemas.choices import DIALECT_5_0
from feedferry.schemas.content import CHECKED, decode
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Action, Content, Encoding, Meta, Record
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import Encoder, ReadOptions, ReadResult, WriteOptions
from feedferry.transforms.formats.fast_path.columns.cells import (
    CONTENT_CELLS,
    Cells,
    as_stated,
    escaped,
)
from feedferry.transforms.formats.fast_path.columns.column_kinds import ColumnKind
from feedferry.transforms.formats.fast_path.plans.element_plan import Pieces
from feedferry.transforms.formats.gsa.acl import write_principal
from feedferry.transforms.formats.gsa.gsa_formats import FEED_NAMES, FeedOptions
from feedferry.transforms.formats.gsa.record_reader import FeedRecordBuilder
from feedferry.transforms.formats.gsa.rows import ACL, ENCODING, METADATA, PRINCIPAL, RECORD
from feedferry.transforms.formats.holding.acl_metadata import join_parent, metadata_of
from feedferry.transforms.formats.text.dates import rfc1123
from feedferry.transforms.formats.text.xml_text import (
    escape_bytes,
    escape_text,
    holds,
    holds_bytes,
    is_plain,
)
from feedferry.transforms.formats.xml.elements import ElementReader, Grammar
from feedferry.transforms.formats.xml.serializer import (
    NO_EXTRAS,
    ExtraMarkup,
    attributes,
    attributes_of,
    not_xml,
    similar_attributes,
)

_WRITTEN = (Action.ADD, Action.UPDATE, Action.DELETE)
_NUL = "\0"
_NO_ENCODING = Encoding.NONE  # a look-up in the enum costs ten times as much


_PIECES = re.compile(
    rb"(?P<R><record[ >].*\n)|(?P<B><acl[ >].*\n)|(?P<P><principal.*\n)|(?P<m><meta .*\n)"
    rb"|(?P<C><content[^>]*>(?s:.*)(?=</content>\n))|.*\n"
)
"""The elements of a record, each in a line of its own, by their codes; a content may have lines."""


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield the records of a feed in its order, and a Reject for each that cannot be understood.

    Then yield the FeedHeader of each feed without records, and notices.
    """
    builder = FeedRecordBuilder(span, options)
    grammar = Grammar(
        names=FEED_NAMES,
        build=builder.build,
        bulk=builder.bulk,
        header=builder.header,
    )
    return ElementReader(stream, grammar, span=span, options=options).read()


class GsaFeedEncoder(Encoder):
    """Writes records as elements of a feed; valid by the DTD of its dialect."""

    extension = "xml"
    elements_once = ""
    cells: ClassVar[Cells] = {
        **CONTENT_CELLS,
        ColumnKind.TEXT: (as_stated,),
        ColumnKind.NAME: (as_stated,),
        ColumnKind.URL: (as_stated,),
        ColumnKind.PARENT: (as_stated,),
        ColumnKind.DATE: (as_stated,),
        ColumnKind.TIME: (lambda values: [*map(rfc1123, values)],),
    }

    def __init__(self, options: WriteOptions = WriteOptions()) -> None:
        self._options = options
        self._is_5_0 = options.of(FeedOptions).dialect == DIALECT_5_0
        self._attributes = RECORD.of_5_0 if self._is_5_0 else RECORD

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
        except ValueError as exc:
            raise not_xml(exc) from exc

    def elements(self, record: Record) -> Pieces | None:
        """Return the elements of a record; None with an ACL in metadata, as in 5.0."""
        if self._is_5_0:
            return None
        found = _PIECES.finditer(self.encode(record))
        return [(piece.lastgroup or "", piece[0]) for piece in found]

    def epilog(self) -> bytes:
        return b"</group>\n</gsafeed>\n"

    def _element(self, record: Record) -> bytes:
        if not self._is_5_0 and (usual := _usual_record(record)) is not None:
            return usual
        if record.action not in _WRITTEN:
            found = record.action.value
            raise RecordError("bad-action", f"action {found}; expected ADD, UPDATE or DELETE")
        extras = ExtraMarkup(record.extras) if record.extras else NO_EXTRAS
        group = extras.attributes("group")
        if record.acl is not None and record.acl.alone:
            element = _acl(record.acl, extras, "acl", url=record.url).encode()
            if record.action is Action.DELETE:
                group += ' action="delete"'
        else:
            element = self._record(record, extras)
        if group:
            return b"</group>\n<group%b>\n%b</group>\n<group>\n" % (group.encode(), element)
        return element

    def _record(self, record: Record, extras: ExtraMarkup) -> bytes:
        is_5_0 = self._is_5_0
        metadata, acl = record.metadata, record.acl
        if is_5_0 and acl is not None:
            metadata, acl = metadata + metadata_of(acl), None
        if record.mimetype is None:
            record = replace(record, mimetype="")  # it is required
        stated = attributes_of(self._attributes, record)
        pieces = [
            f"<record{extras.attributes('record', stated=stated)}>\n",
            "" if acl is None else _acl(acl, extras, "record/acl", url=None),
            _metadata(record, metadata, extras, is_5_0=is_5_0),
        ]
        head = "".join(pieces).encode()
        if record.content is None:
            return b"%b%b</record>\n" % (head, extras.children("record").encode())
        content = _content(record.content, extras.attributes("record/content"), is_5_0=is_5_0)
        return b"".join((head, *content, extras.children("record").encode(), b"</record>\n"))


def _usual_record(record: Record) -> bytes | None:
    """Return a record without rare parts whose texts have no special characters but `&`.

    All texts are checked at once. Return None for others, which are written part by part.
    """
    acl, metas = record.acl, record.metadata
    if (
        record.action not in _WRITTEN
        or record.mimetype is None
        or record.extras
        or record.crawl is not None
        or record.overwrite_acls is not None
        or (acl is not None and (acl.alone or acl.inherit_fragment is not None))
    ):
        return None
    principals = () if acl is None else acl.principals
    parent = None if acl is None else acl.inherit_from
    texts = [record.url, record.mimetype, parent or "", *[entry.name for entry in principals]]
    for meta in metas:
        if meta.data is not None:
            return None
        texts += (meta.name, meta.value)
    if not is_plain(text := "".join(texts)):
        if not is_plain(text.replace("&", "")):
            return None
        texts = _NUL.join(texts).replace("&", "&amp;").split(_NUL)
    url, mimetype, parent_text, *others = texts
    action = ' action="delete"' if record.action is Action.DELETE else ""
    modified = "" if record.modified is None else f' last-modified="{rfc1123(record.modified)}"'
    lines = [f'<record url="{url}"{action} mimetype="{mimetype}"{modified}>\n']
    if acl is not None:
        attrs = similar_attributes(ACL, (acl.inheritance, None))
        attrs += "" if parent is None else f' inherit-from="{parent_text}"'
        lines.append(f"<acl{attrs}>\n")
        tags = [similar_attributes(PRINCIPAL, PRINCIPAL.values(entry)) for entry in principals]
        lines += [
            f"<principal{tag}>{name}</principal>\n" for tag, name in zip(tags, others, strict=False)
        ]
        lines.append("</acl>\n")
    if metas:
        pairs = zip(others[len(principals) :: 2], others[len(principals) + 1 :: 2], strict=True)
        lines.append("<metadata>\n")
        lines += [f'<meta name="{name}" content="{value}"/>\n' for name, value in pairs]
        lines.append("</metadata>\n")
    if record.content is None:
        lines.append("</record>\n")
        return "".join(lines).encode()
    content = _content(record.content, "", is_5_0=False)
    return b"".join(("".join(lines).encode(), *content, b"</record>\n"))


def _metadata(record: Record, metas: tuple[Meta, ...], extras: ExtraMarkup, *, is_5_0: bool) -> str:
    attrs = extras.attributes("record/metadata")
    if not is_5_0:
        attrs += similar_attributes(METADATA, METADATA.values(record))
    children = extras.children("record/metadata")
    if not (metas or attrs or children):
        return ""
    lines = "" if extras else _text_metas(metas)
    if not lines:
        each = (_meta(meta, extras, number, is_5_0=is_5_0) for number, meta in enumerate(metas))
        lines = "".join(each)
    return f"<metadata{attrs}>\n{lines}{children}</metadata>\n"


def _text_metas(metas: tuple[Meta, ...]) -> str:
    """Return metadata that are all written as text, escaped at once, "" unless all are."""
    for meta in metas:
        if meta.data is not None:
            return ""
    texts: Sequence[str] = [text for meta in metas for text in (meta.name, meta.value)]
    if not is_plain(joined := "".join(texts)):
        if not holds(joined):
            return ""
        texts = escaped(texts)
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return "".join([f'<meta name="{name}" content="{value}"/>\n' for name, value in pairs])


def _meta(meta: Meta, extras: ExtraMarkup, number: int, *, is_5_0: bool) -> str:
    more = extras.attributes(f"record/metadata/meta[{number}]")
    if meta.data is None:
        try:
            return f"<meta{attributes([('name', meta.name), ('content', meta.value)])}{more}/>\n"
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
    return f"<meta{attributes(pairs)}{more}/>\n"


def _content(content: Content, attrs: str, *, is_5_0: bool) -> tuple[bytes, bytes, bytes]:
    """Return the element in pieces, so that large data is copied once."""
    data, encoding = content.data, content.encoding
    if encoding is _NO_ENCODING and not _is_text(data):
        data, encoding = pybase64.b64encode(data), Encoding.BASE64
    if encoding is Encoding.ZLIB_BASE64 and is_5_0:
        data, encoding = pybase64.b64encode(decode(content, max_bytes=CHECKED)), Encoding.BASE64
    if encoding is _NO_ENCODING:
        return b"<content%b>" % attrs.encode(), escape_bytes(data), b"</content>\n"
    name = ENCODING.encode(encoding)
    return f'<content encoding="{name}"{attrs}>'.encode(), data, b"</content>\n"


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return holds_bytes(data)


def _acl(acl: Acl, extras: ExtraMarkup, place: str, *, url: str | None) -> str:
    parent = join_parent(acl.inherit_from, acl.inherit_fragment)
    if parent is None and acl.inherit_fragment is not None:
        found = f"the fragment {acl.inherit_fragment!r} of {acl.inherit_from!r}"
        raise RecordError("bad-acl", f"{found}; expected a url without a query or a fragment")
    if parent != acl.inherit_from:
        acl = replace(acl, inherit_from=parent)
    stated = attributes([("url", url)]) + similar_attributes(ACL, ACL.values(acl))
    principals = [
        write_principal(PRINCIPAL, principal, extras, f"{place}/principal[{number}]")
        for number, principal in enumerate(acl.principals)
    ]
    return f"<acl{extras.attributes(place, stated=stated)}>\n{''.join(principals)}</acl>\n"
