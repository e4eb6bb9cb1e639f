"""Write bodies of `_bulk` requests.

**Spec:** OpenSearch "Bulk" and Elasticsearch "Bulk API": an action on a line, and for all but
deletions its document on the next one.

**Keeps:** text, metadata, fields, dates, and who may see the document: the decision of its ACL and
all above it, in the fields of `access.index_fields`. Each document has `version`, which the push
replaces by a number of its run (see `opensearch_format`).

**Drops:** hints for crawling but the display URL, statistics, extras.

An ACL alone is an update by a script, which changes the fields of the decision and nothing else.
It does not change a document with a newer version, or one that is withheld.
"""

import codecs
from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from feedferry.schemas.content import CHECKED, decode
from feedferry.schemas.errors import not_unicode_error
from feedferry.schemas.record import Action, Content, Meta, Record
from feedferry.transforms.access.index_fields import (
    AccessFields,
    withheld_fields,
)
from feedferry.transforms.content_types.document_text import is_plain_text
from feedferry.transforms.formats.base import WriteOptions
from feedferry.transforms.formats.fast_path.columns.cells import Cells, EncodeColumn, plain
from feedferry.transforms.formats.fast_path.columns.column_kinds import (
    CONTENT_KINDS,
    ENCODINGS,
    Column,
    ColumnKind,
)
from feedferry.transforms.formats.fast_path.columns.holes import InspectedError
from feedferry.transforms.formats.fast_path.columns.json_cells import (
    in_base64,
    json_dates,
    json_texts,
    json_times,
)
from feedferry.transforms.formats.fast_path.columns.marks import stated
from feedferry.transforms.formats.fast_path.elements.element_codes import ACL, CONTENT, META, RECORD
from feedferry.transforms.formats.fast_path.plans.element_plan import Pieces
from feedferry.transforms.formats.opensearch.opensearch_format import (
    PLACE_OF_VERSION,
    OpensearchOptions,
)
from feedferry.transforms.formats.search_document.document_encoder import (
    TEXTS,
    DocumentEncoder,
    id_of,
)
from feedferry.transforms.formats.search_document.document_holds import (
    MAX_COLUMN_CHARS,
    MAX_ID_BYTES,
)

ACL_SCRIPT = (
    "if (ctx._source.version != null && ctx._source.version >= params.version"
    " || ctx._source.acl_1_deny_1 != null && ctx._source.acl_1_deny_1.contains('*'))"
    " { ctx.op = 'none' } else { ctx._source.keySet().removeIf(name -> name.startsWith('acl_'));"
    " ctx._source.putAll(params.fields); ctx._source.version = params.version }"
)
"""Replaces the fields of the decision, unless the document has a newer version or is withheld.

A document that is withheld is an older version of one that was rejected or refused.
An update cannot set the version by which the server compares documents, so that requests of an
older run are refused by their alias.
"""

_MARKS = (codecs.BOM_UTF8, b"<?xml")
"""Begin texts that may state a charset."""

_HEAD_BYTES = 4096
_MARK_BYTES = max(map(len, _MARKS))
_DELETE = Action.DELETE  # a look-up in the enum costs ten times as much
_VERSION = {"version": PLACE_OF_VERSION, "version_type": "external_gte"}
_NAMES = (
    *("version", "url", "datasource", "display_url", *TEXTS, "categories", "size", "modified"),
    "meta",
)
"""The fields of a document without `data`, in their order; those of the decision follow."""

_encoder = msgspec.json.Encoder(enc_hook=stated)
_encode = _encoder.encode


def _texts(values: Column) -> Column:
    """Return texts that are certainly not cut by the adapter; raise InspectedError for others."""
    if max(map(len, values)) > MAX_COLUMN_CHARS:
        raise InspectedError
    return json_texts(values)


def _urls(key: str) -> EncodeColumn:
    """Return the function that encodes URLs after their key, which distinguishes their places.

    It raises InspectedError for a URL that may be too long for an id.
    """

    def encode(values: Column) -> Column:
        if max(map(len, values)) * 4 > MAX_ID_BYTES and (
            max(len(value.encode()) for value in values) > MAX_ID_BYTES
        ):
            raise InspectedError
        return [key + text for text in json_texts(values)]

    return encode


def _bodies(kind: ColumnKind) -> EncodeColumn:
    """Return the function that encodes texts in UTF-8 that state no charset themselves.

    It raises InspectedError for other documents.
    """

    def encode(document: bytes) -> bytes:
        if document[:_HEAD_BYTES].lstrip()[:_MARK_BYTES].startswith(_MARKS):
            raise InspectedError
        try:
            return _encode(document.decode())[1:-1]
        except UnicodeDecodeError as exc:
            raise InspectedError from exc

    return lambda values: [*map(encode, _documents(kind, values))]


def _data(kind: ColumnKind) -> EncodeColumn:
    """Return the function that encodes documents of any kind in base64."""
    return lambda values: in_base64(_documents(kind, values))


def _documents(kind: ColumnKind, values: Column) -> Column:
    encoding = ENCODINGS.get(kind)
    if encoding is None:
        return plain(kind, values)
    return [decode(Content(value, encoding), max_bytes=CHECKED) for value in values]


class BulkEncoder(DocumentEncoder):
    """Encodes records as actions; there is nothing around them."""

    extension = "ndjson"
    elements_once = META
    cells: ClassVar[Cells] = {
        **dict.fromkeys((ColumnKind.TEXT, ColumnKind.NAME), (_texts,)),
        **dict.fromkeys((ColumnKind.URL, ColumnKind.DOCID), (_urls('"_id":"'), _urls('"url":"'))),
        **{kind: (_bodies(kind), _data(kind)) for kind in CONTENT_KINDS},
        ColumnKind.DATE: (json_dates,),
        ColumnKind.TIME: (json_times,),
    }

    def __init__(self, options: WriteOptions = WriteOptions()) -> None:
        own = options.of(OpensearchOptions)
        super().__init__(options.feed.datasource, (name for _, name in own.fields))
        self._pipeline = own.pipeline

    def encode(self, record: Record) -> bytes:
        """Return the lines of an action; raise RecordError for a text that is no Unicode."""
        try:
            return _encoder.encode_lines(self._lines(record))
        except UnicodeEncodeError as exc:
            raise not_unicode_error(exc) from exc

    def elements(self, record: Record) -> Pieces | None:
        """Return the lines of a record in pieces; None where its elements depend on each other."""
        action = self._lines(record)[0]
        pieces: list[tuple[str, bytes]] = [(RECORD, _encode(action) + b"\n")]
        if record.action is _DELETE:
            return pieces
        is_usual = record.body is None or is_plain_text(record.mimetype)
        is_alone = record.acl is not None and record.acl.alone
        if is_alone or record.content is not None or record.fields or not is_usual:
            return None
        document = self._document(record)
        comma = b"{"
        for name in dict.fromkeys((*_NAMES, *document)):
            if name == "meta" and name in document:
                pieces += [("", b',"meta":{'), *_items(record.metadata), ("", b"}")]
            elif name in document:
                element = CONTENT if name == "body" else RECORD
                pieces.append((element, comma + _encode({name: document[name]})[1:-1]))
                comma = b","
            elif name in ("body", "meta"):
                pieces.append(("", b""))
        code = "" if record.acl is None else ACL
        return [*pieces, (code, self.acl_piece(record)), ("", b"}\n")]

    def acl_piece(self, record: Record) -> bytes:
        access = self.access_of(record)
        return b"," + _encode(access)[1:-1] if access else b""

    def _lines(self, record: Record) -> tuple[object, ...]:
        key = {"_id": id_of(record.url)}
        if record.action is _DELETE:
            return ({"delete": _VERSION | key},)
        if record.acl is not None and record.acl.alone:
            access = self.access_of(record)
            return {"update": key}, {"script": acl_script(access)}
        document = self._document(record) | self.access_of(record)
        if "data" in document and self._pipeline is not None:
            key["pipeline"] = self._pipeline
        return {"index": _VERSION | key}, document

    def _document(self, record: Record) -> dict[str, object]:
        """Return the fields of a document without those of its decision."""
        return {"version": PLACE_OF_VERSION, **self.stated(record)}


def _items(metadata: Sequence[Meta]) -> Iterator[tuple[str, bytes]]:
    """Yield pairs of metadata, and the commas between them."""
    for number, meta in enumerate(metadata):
        if number:
            yield "", b","
        yield META, _encode({meta.name: [meta.value]})[1:-1]


def acl_script(access: AccessFields) -> dict[str, object]:
    """Return the script of an update that changes who may see a document."""
    params = {"version": PLACE_OF_VERSION, "fields": access}
    return {"params": params, "lang": "painless", "source": ACL_SCRIPT}


def hiding_lines(url: str) -> bytes:
    """Return the action that shows a document to no user, until its next version comes."""
    return acl_lines(id_of(url), withheld_fields())


def acl_lines(id: str, access: AccessFields) -> bytes:
    """Return the action that changes who may see a document, by its id."""
    action, script = {"update": {"_id": id}}, {"script": acl_script(access)}
    return _encode(action) + b"\n" + _encode(script) + b"\n"
