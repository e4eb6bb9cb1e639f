"""The fields of a collection: made by the Schema API where they are missing, and checked.

Tokens are strings that are indexed as they are: in a text, a denial would not count. A field that a
collection has already is used as it is, or refused: its type is never guessed.
"""

from collections.abc import Iterator, Set

import msgspec

from feedferry.schemas.errors import TargetError
from feedferry.transforms.access.index_fields import field_names
from feedferry.transforms.access.solr_filter import WITHHELD_FIELD
from feedferry.transforms.formats.solr.solr_format import ALLOW, DENY, FIELD, META, SolrOptions
from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.wire.search_index.json_request import json_body
from feedferry.transforms.sinks.push.wire.solr.replies import Requests, failure, read_reply

_TOKENS, _STRING, _TEXT, _LONG, _DATE = (
    f"feedferry_{name}" for name in ("tokens", "string", "text", "long", "date")
)
_ANALYZER = {"tokenizer": {"name": "standard"}, "filters": [{"name": "lowercase"}]}
_TYPES: list[dict[str, object]] = [
    {"name": _TOKENS, "class": "solr.StrField", "docValues": True, "multiValued": True},
    {"name": _STRING, "class": "solr.StrField", "docValues": True},
    {"name": _TEXT, "class": "solr.TextField", "analyzer": _ANALYZER},
    {"name": _LONG, "class": "solr.LongPointField", "docValues": True},
    {"name": _DATE, "class": "solr.DatePointField", "docValues": True},
]
_DECISION = (*field_names(), WITHHELD_FIELD)
_FIELDS = {
    **dict.fromkeys(("id", "url", "datasource", "mimetype", "display_url"), _STRING),
    **dict.fromkeys(("title", "description", "keywords", "body"), _TEXT),
    **{"run": _LONG, "size": _LONG, "modified": _DATE, "categories": _TOKENS},
    **dict.fromkeys(_DECISION, _TOKENS),
}
_KEYS = {
    **dict.fromkeys(("id", "url", "datasource"), "StrField"),
    "run": "LongPointField",
}
_DYNAMIC = [f"{META}*", f"{FIELD}*"]
_EXPECTED = "a schema that the Schema API shows and changes, of `ManagedIndexSchemaFactory`"


class _Properties(msgspec.Struct, kw_only=True, rename="camel"):
    name: str
    type: str = ""
    class_: str = msgspec.field(name="class", default="")
    indexed: bool | None = None
    stored: bool | None = None
    doc_values: bool | None = None
    multi_valued: bool | None = None
    default: object = None


class _Copy(msgspec.Struct):
    dest: str = ""


class HeldSchema(msgspec.Struct, rename="camel"):
    """The schema of a collection, as Solr states it."""

    unique_key: str = ""
    field_types: list[_Properties] = []
    fields: list[_Properties] = []
    dynamic_fields: list[_Properties] = []
    copy_fields: list[_Copy] = []


class _SchemaReply(msgspec.Struct):
    schema: HeldSchema


class _Held(msgspec.Struct, frozen=True):
    """A field with the properties that it has itself or by its type."""

    name: str
    type: str
    kind: str
    is_indexed: bool
    is_stored: bool
    is_multiple: bool
    has_default: bool


def make_schema(requests: Requests, options: SolrOptions) -> str:
    """Make the fields that are missing; raise TargetError for those that are wrong."""
    response = requests.request("/schema")
    additions = _additions(_right_schema(response, options), options)
    if not any(additions.values()):
        return "no field was missing"
    made = {name: values for name, values in additions.items() if values}
    changed = requests.request("/schema", json_body(made), method="POST")
    if not changed.is_success:
        raise failure(changed, _EXPECTED)
    if any(_additions(_right_schema(requests.request("/schema"), options), options).values()):
        raise failure(changed, _EXPECTED)
    return f"{sum(map(len, made.values()))} fields and types were made"


def read_schema(response: ApplianceResponse) -> HeldSchema:
    return read_reply(response, _SchemaReply, _EXPECTED).schema


def missing_fields(held: HeldSchema, options: SolrOptions) -> list[str]:
    """Return the names of the fields that a run makes."""
    additions = _additions(held, options)
    keys = ("add-field", "add-dynamic-field")
    return [str(field["name"]) for key in keys for field in additions[key]]


def faults(held: HeldSchema, options: SolrOptions) -> Iterator[str]:
    """Yield what would show documents to the wrong people, or lose fields of documents."""
    if held.unique_key != "id":
        yield f"the unique key {held.unique_key!r}; expected `id`"
    copied = {copy.dest for copy in held.copy_fields}
    decision = {*_DECISION, *((ALLOW, DENY) if options.is_manifoldcf else ())}
    for field in _held_fields(held, {*_wanted(options), *_DYNAMIC}):
        kind = "StrField" if field.name in decision else _KEYS.get(field.name)
        where = f"the field {field.name!r} of the type {field.type!r}"
        if kind is not None and (field.kind != kind or not field.is_indexed):
            yield f"{where}; expected an indexed {kind}"
        elif not field.is_stored:
            yield f"{where}; expected a stored field, as a change of an ACL loses others"
        elif field.name in decision and not field.is_multiple:
            yield f"{where}; expected a field of several values"
        elif field.name in _DECISION and (field.has_default or field.name in copied):
            yield f"{where} with a default or copies, which may permit users; expected none"


def _right_schema(response: ApplianceResponse, options: SolrOptions) -> HeldSchema:
    """Return a schema; raise TargetError for one with a fault."""
    held = read_schema(response)
    for fault in faults(held, options):
        raise TargetError(f"{response.url}: {fault}: correct it, or give another collection")
    return held


def _held_fields(held: HeldSchema, names: Set[str]) -> Iterator[_Held]:
    types = {kind.name: kind for kind in held.field_types}
    for field in (*held.fields, *held.dynamic_fields):
        if field.name not in names:
            continue
        kind = types.get(field.type) or _Properties(name=field.type)
        values = _stated(field.doc_values, kind.doc_values, default=False)
        yield _Held(
            name=field.name,
            type=field.type,
            kind=kind.class_.rpartition(".")[2],
            is_indexed=_stated(field.indexed, kind.indexed, default=True),
            is_stored=_stated(field.stored, kind.stored, default=True) or values,
            is_multiple=_stated(field.multi_valued, kind.multi_valued, default=False),
            has_default=field.default is not None,
        )


def _stated(own: bool | None, of_type: bool | None, *, default: bool) -> bool:
    stated = of_type if own is None else own
    return default if stated is None else stated


def _wanted(options: SolrOptions) -> dict[str, str]:
    """Return the types of the fields that a collection must have."""
    own = dict.fromkeys((name for _, name in options.fields), _TOKENS)
    others = dict.fromkeys((ALLOW, DENY), _TOKENS) if options.is_manifoldcf else {}
    return {**_FIELDS, **own, **others}


def _additions(held: HeldSchema, options: SolrOptions) -> dict[str, list[dict[str, object]]]:
    """Return the commands of the Schema API that make the missing fields."""
    types, fields, dynamic = (
        {each.name for each in of} for of in (held.field_types, held.fields, held.dynamic_fields)
    )
    wanted = _wanted(options).items()
    return {
        "add-field-type": [kind for kind in _TYPES if kind["name"] not in types],
        "add-field": [{"name": name, "type": of} for name, of in wanted if name not in fields],
        "add-dynamic-field": [
            {"name": name, "type": _TOKENS} for name in _DYNAMIC if name not in dynamic
        ],
    }
