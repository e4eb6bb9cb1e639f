"""Write bodies of `_bulk` requests.

**Spec:** OpenSearch "Bulk" and Elasticsearch "Bulk API": an action on a line, and for all but
deletions its document on the next one.

**Keeps:** text, metadata, fields, dates, and who may see the document: the decision of its ACL and
all above it, in the fields of `access.index_fields`. Each document has `version`, which the push
replaces by a number of its run (see `opensearch_format`).

**Drops:** hints for crawling but the display URL, statistics, extras.

An ACL alone is an update by a script, which changes the fields of the decision and nothing else.
It does not change a document with a newer version.
"""

import hashlib

import msgspec
import pybase64

from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Action, Record
from feedferry.transforms.access.decision import decision_of
from feedferry.transforms.access.index_fields import (
    AccessFields,
    fields_of,
    hidden_fields,
    public_fields,
)
from feedferry.transforms.formats.base import Encoder, WriteOptions
from feedferry.transforms.formats.opensearch.opensearch_format import (
    MAX_ID_BYTES,
    PLACE_OF_VERSION,
    OpensearchOptions,
)

ACL_SCRIPT = (
    "if (ctx._source.version != null && ctx._source.version >= params.version) { ctx.op = 'none' }"
    " else { ctx._source.keySet().removeIf(name -> name.startsWith('acl_'));"
    " ctx._source.putAll(params.fields);"
    " ctx._source.version = params.version; ctx._source.changed_by = params.version }"
)
"""Replaces the fields of the decision, unless the document has a newer version.

An update cannot set the version by which the server compares documents, so that requests of an
older run are refused by their alias. `changed_by` marks the document until its next version comes.
"""

_TEXTS = ("title", "description", "keywords", "body", "mimetype")
_CACHED = 4096
_VERSION = {"version": PLACE_OF_VERSION, "version_type": "external_gte"}
_encode = msgspec.json.Encoder().encode


class BulkEncoder(Encoder):
    """Encodes records as actions; there is nothing around them."""

    extension = "ndjson"

    def __init__(self, options: WriteOptions = WriteOptions()) -> None:
        self._datasource = options.feed.datasource
        own = options.of(OpensearchOptions)
        self._pipeline = own.pipeline
        self._own = frozenset(name for _, name in own.fields)
        self._access: dict[int, tuple[Acl, AccessFields]] = {}

    def encode(self, record: Record) -> bytes:
        """Return the lines of an action; raise RecordError for a text that is no Unicode."""
        try:
            return b"".join(_encode(line) + b"\n" for line in self._lines(record))
        except UnicodeEncodeError as exc:
            code = f"U+{ord(exc.object[exc.start]):04X}"
            reason = f"a lone surrogate {code}; expected Unicode text"
            raise RecordError("not-unicode", reason) from exc

    def _lines(self, record: Record) -> tuple[object, ...]:
        key = {"_id": id_of(record.url)}
        if record.action is Action.DELETE:
            return ({"delete": _VERSION | key},)
        if record.acl is not None and record.acl.alone:
            access = self._access_of(record.acl)
            return {"update": key}, {"script": acl_script(access)}
        document = self._document(record)
        if "data" in document and self._pipeline is not None:
            key["pipeline"] = self._pipeline
        return {"index": _VERSION | key}, document

    def _document(self, record: Record) -> dict[str, object]:
        content, crawl = record.content, record.crawl
        document: dict[str, object] = {
            "version": PLACE_OF_VERSION,
            "url": record.url,
            "datasource": self._datasource,
        }
        if crawl is not None and crawl.display_url is not None:
            document["display_url"] = crawl.display_url
        for name in _TEXTS:
            if (text := getattr(record, name)) is not None:
                document[name] = text
        if record.categories:
            document["categories"] = record.categories
        if content is not None:
            document["data"] = pybase64.b64encode(content.data).decode()
        if record.size is not None:
            document["size"] = record.size
        if record.modified is not None:
            document["modified"] = record.modified
        if record.metadata:
            values: dict[str, list[str]] = {}
            for meta in record.metadata:
                values.setdefault(meta.name, []).append(meta.value)
            document["meta"] = values
        others: dict[str, tuple[str, ...]] = {}
        for field in record.fields:
            (document if field.name in self._own else others)[field.name] = field.values
        if others:
            document["fields"] = others
        if record.acl is not None:
            return document | self._access_of(record.acl)
        is_hidden = crawl is not None and bool(crawl.secure)
        return document | (hidden_fields() if is_hidden else public_fields())

    def _access_of(self, acl: Acl) -> AccessFields:
        """Return the fields of an ACL; documents below one folder share the object."""
        known = self._access.get(id(acl))
        if known is not None and known[0] is acl:
            return known[1]
        fields = fields_of(decision_of(acl))
        if fields is None:
            found = f"a decision of {len(acl.decision)} layers"
            raise RecordError("acl-complex", f"{found}; expected 3 parts of 3 layers at most")
        if len(self._access) == _CACHED:
            self._access.clear()
        self._access[id(acl)] = acl, fields
        return fields


def acl_script(access: AccessFields) -> dict[str, object]:
    """Return the script of an update that changes who may see a document."""
    params = {"version": PLACE_OF_VERSION, "fields": access}
    return {"params": params, "lang": "painless", "source": ACL_SCRIPT}


def hiding_lines(url: str) -> bytes:
    """Return the action that shows a document to no user, until its next version comes."""
    action, script = {"update": {"_id": id_of(url)}}, {"script": acl_script(hidden_fields())}
    return _encode(action) + b"\n" + _encode(script) + b"\n"


def id_of(url: str) -> str:
    """Return the id of a document: its URL, or a digest of a long one.

    >>> id_of("http://example.com/"), len(id_of("http://example.com/" + "a" * 500))
    ('http://example.com/', 71)
    """
    if len(url) * 4 <= MAX_ID_BYTES:
        return url
    data = url.encode("utf-8", "surrogatepass")
    return url if len(data) <= MAX_ID_BYTES else f"sha256:{hashlib.sha256(data).hexdigest()}"
