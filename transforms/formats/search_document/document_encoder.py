"""The fields of documents and of their decisions, for encoders of the bodies of search servers."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

import pybase64

from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Record
from feedferry.transforms.access.decision import decision_of
from feedferry.transforms.access.index_fields import (
    AccessFields,
    fields_of,
    hidden_fields,
    public_fields,
    withheld_fields,
)
from feedferry.transforms.formats.base import Encoder
from feedferry.transforms.formats.search_document.document_holds import MAX_ID_BYTES

TEXTS = ("title", "description", "keywords", "body", "mimetype")

_CACHED = 4096
_PUBLIC, _HIDDEN = public_fields(), hidden_fields()


class DocumentEncoder(Encoder):
    """An encoder of documents of a datasource; `own` are fields that have a place of their own."""

    def __init__(self, datasource: str | None, own: Iterable[str]) -> None:
        self.datasource = datasource
        self._own = frozenset(own)
        self._access: dict[int, tuple[Acl, AccessFields]] = {}

    def stated(self, record: Record) -> dict[str, object]:
        """Return the fields of a document without those of its decision."""
        content, crawl = record.content, record.crawl
        document: dict[str, object] = {"url": record.url, "datasource": self.datasource}
        if crawl is not None and crawl.display_url is not None:
            document["display_url"] = crawl.display_url
        for name in TEXTS:
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
        return document

    def access_of(self, record: Record) -> AccessFields:
        """Return the fields of a decision; documents below one folder share the ACL object."""
        acl, crawl = record.acl, record.crawl
        if acl is None:
            return _HIDDEN if crawl is not None and crawl.secure else _PUBLIC
        known = self._access.get(id(acl))
        if known is not None and known[0] is acl:
            return known[1]
        fields = fields_of_acl(acl)
        if len(self._access) == _CACHED:
            self._access.clear()
        self._access[id(acl)] = acl, fields
        return fields


@lru_cache(maxsize=_CACHED)
def fields_of_acl(acl: Acl) -> AccessFields:
    """Return the fields of an ACL; many documents have ACLs that are equal."""
    if acl.withholds:
        return withheld_fields()
    fields = fields_of(decision_of(acl))
    if fields is None:
        found = f"a decision of {len(acl.decision)} layers"
        raise RecordError("acl-complex", f"{found}; expected 3 parts of 3 layers at most")
    return fields


def id_of(url: str) -> str:
    """Return the id of a document: its URL, or a digest of a long one.

    >>> id_of("http://example.com/"), len(id_of("http://example.com/" + "a" * 500))
    ('http://example.com/', 71)
    """
    data = url.encode("utf-8", "surrogatepass")
    return url if len(data) <= MAX_ID_BYTES else f"sha256:{hashlib.sha256(data).hexdigest()}"
