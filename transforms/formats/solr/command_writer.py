"""Write commands of Solr: a JSON object with `add` or `delete` on each line.

**Spec:** Solr Reference Guide, "Indexing with Update Handlers" and "Partial Document Updates".

**Keeps:** text, metadata, fields, dates, and who may see the document: the decision of its ACL and
all above it, in the fields of `access.index_fields`. Metadata have fields whose names begin with
`meta_`. Each document has `run`, which the push replaces by the time at which the run began. The id
is the datasource and the URL, as a collection may have several datasources.

**Drops:** hints for crawling but the display URL, statistics, extras.

An ACL alone is an atomic update of a document that exists, which sets the fields of the decision.
A document that is withheld has a further field, which only its next version removes.

In the dialect `manifoldcf`, a document also has `allow_token_document` and `deny_token_document`,
always: a schema may have a default for them that shows a document to everyone. They hold one part
of one layer; another decision is a reject. A document that is withheld is deleted, because they
have no place for that.
"""

from collections.abc import Mapping
from datetime import UTC

import msgspec

from feedferry.schemas.errors import RecordError, not_unicode_error
from feedferry.schemas.record import Action, Record
from feedferry.transforms.access.index_fields import (
    EVERYONE,
    PARTS_OF_FIELDS,
    AccessFields,
    field_names,
    withheld_fields,
)
from feedferry.transforms.access.solr_filter import WITHHELD_FIELD
from feedferry.transforms.formats.base import WriteOptions
from feedferry.transforms.formats.search_document.document_encoder import DocumentEncoder, id_of
from feedferry.transforms.formats.solr.solr_format import (
    ALLOW,
    DENY,
    FIELD,
    META,
    PLACE_OF_RUN,
    SolrOptions,
)

OPEN, NO_TOKEN = "__nosecurity__", "!"
"""The tokens of ManifoldCF for everyone, and one that no user has."""

_MUST_EXIST = {"_version_": 1}
_NAMES = field_names()
_encode = msgspec.json.Encoder().encode


class SolrEncoder(DocumentEncoder):
    """Encodes records as commands; there is nothing around them."""

    extension = "ndjson"

    def __init__(self, options: WriteOptions = WriteOptions()) -> None:
        own = options.of(SolrOptions)
        super().__init__(options.feed.datasource, (name for _, name in own.fields))
        self._is_manifoldcf = own.is_manifoldcf

    def encode(self, record: Record) -> bytes:
        """Return the line of a command; raise RecordError for what Solr cannot hold."""
        try:
            return self._line(record)
        except UnicodeEncodeError as exc:
            raise not_unicode_error(exc) from exc

    def _line(self, record: Record) -> bytes:
        id = solr_id(self.datasource or "", id_of(record.url))
        if record.action is Action.DELETE:
            return deletion_line(id)
        access = self.access_of(record)
        others = _exact_manifoldcf(access) if self._is_manifoldcf else {}
        if record.acl is not None and record.acl.alone:
            return update_line(id, access, is_manifoldcf=self._is_manifoldcf)
        if access == withheld_fields():
            others = others | {WITHHELD_FIELD: [EVERYONE]}
        document = {"id": id, "run": PLACE_OF_RUN, **_flat(self.stated(record)), **access, **others}
        if record.modified is not None:
            document["modified"] = record.modified.astimezone(UTC)
        return _encode({"add": {"doc": document}}) + b"\n"


def solr_id(datasource: str, id: str) -> str:
    """Return the id of a document in a collection of several datasources."""
    return f"{datasource} {id}"


def deletion_line(id: str) -> bytes:
    return _encode({"delete": {"id": id}}) + b"\n"


def update_line(id: str, access: AccessFields, *, is_manifoldcf: bool = False) -> bytes:
    """Return the command that changes who may see a document, or withholds it."""
    fields: dict[str, object] = {name: {"set": access.get(name)} for name in _NAMES}
    if access == withheld_fields():
        if is_manifoldcf:
            return deletion_line(id)
        fields = {name: {"set": None} for name in _NAMES} | {WITHHELD_FIELD: {"set": [EVERYONE]}}
    elif is_manifoldcf:
        fields |= {name: {"set": tokens} for name, tokens in closed_manifoldcf(access).items()}
    return _encode({"add": {"doc": {**_MUST_EXIST, "id": id, **fields}}}) + b"\n"


def closed_manifoldcf(access: AccessFields) -> AccessFields:
    """Return the fields of ManifoldCF for a decision; one that they cannot hold permits no user."""
    return _manifoldcf(access) or {ALLOW: [NO_TOKEN], DENY: [NO_TOKEN]}


def _exact_manifoldcf(access: AccessFields) -> AccessFields:
    fields = _manifoldcf(access)
    if fields is None:
        raise RecordError(
            "acl-complex",
            "a decision of several parts or layers; expected one, which the dialect manifoldcf"
            " holds: without it, Solr has a field for each",
        )
    return fields


def _manifoldcf(access: AccessFields) -> AccessFields | None:
    """Return the fields of ManifoldCF for a decision of one part of one layer, None for others."""
    used = [part for part in PARTS_OF_FIELDS if access.get(part[0][1]) != [EVERYONE]]
    if not used:
        is_denied = any(part[0][0] in access for part in PARTS_OF_FIELDS)
        return None if is_denied else {ALLOW: [OPEN], DENY: [OPEN]}
    if not all(any(permit in access for _, permit in part) for part in used):
        return {ALLOW: [NO_TOKEN], DENY: [NO_TOKEN]}
    (deny, permit), *others = used[0]
    if len(used) > 1 or any(name in access for layer in others for name in layer):
        return None
    return {ALLOW: access.get(permit, [NO_TOKEN]), DENY: access.get(deny, [NO_TOKEN])}


def _flat(stated: Mapping[str, object]) -> dict[str, object]:
    """Return fields without fields below them."""
    flat: dict[str, object] = {}
    for name, value in stated.items():
        prefix = {"meta": META, "fields": FIELD}.get(name)
        if prefix is not None and isinstance(value, dict):
            flat |= {f"{prefix}{below}": values for below, values in value.items()}
        else:
            flat[name] = value
    return flat
