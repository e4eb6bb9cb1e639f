"""The canonical record and its published schema."""

import enum
from typing import Any

import msgspec
import pytest
from hypothesis import given

from feedferry.schemas.acl import Access, Acl, Inheritance, Scope
from feedferry.schemas.avro import schema_document
from feedferry.schemas.record import (
    Action,
    Arrival,
    Authmethod,
    Crawl,
    Encoding,
    History,
    Meta,
    Record,
    Scoring,
)
from feedferry.testing.strategies import records

URL = "http://www.example.com/"


def definitions(schema: Any) -> dict[str, Any]:
    """Return all types that a schema defines, by name."""
    if isinstance(schema, list):
        return {name: type_ for part in schema for name, type_ in definitions(part).items()}
    if not isinstance(schema, dict):
        return {}
    here = {schema["name"]: schema} if schema["type"] in ("record", "enum") else {}
    parts = [field["type"] for field in schema.get("fields", ())]
    return here | definitions([*parts, schema.get("items"), schema["type"]])


def test_a_record_is_an_immutable_value() -> None:
    record = Record(url=URL, action=Action.ADD)
    with pytest.raises(AttributeError):
        record.url = "http://www.example.com/other"  # type: ignore[misc]  # that is the test
    assert len({record, Record(url=URL, action=Action.ADD)}) == 1


def test_defaults_mean_not_stated() -> None:
    record = Record(url=URL, action=Action.ADD)
    stated = {name for name in record.__struct_fields__ if getattr(record, name) not in (None, ())}
    assert stated == {"url", "action", "provenance"}
    assert set(msgspec.structs.astuple(Crawl())) == {None, ()}
    assert set(msgspec.structs.astuple(History())) == {None}
    assert record != Record(url=URL, action=Action.ADD, acl=Acl())
    assert History(references=()) != History()


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Record, {"url": URL, "action": "ADD", "tittle": "x"}),
        (Acl, {"principal": []}),
        (Meta, {"name": "a", "value": "b", "content": "c"}),
    ],
)
def test_an_unknown_field_is_refused(kind: type[msgspec.Struct], fields: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert(fields, kind)


@given(records())
def test_a_record_is_encoded_by_msgspec(record: Record) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=Record) == record


@pytest.mark.parametrize(
    "symbols", [Access, Action, Arrival, Authmethod, Encoding, Inheritance, Scope, Scoring]
)
def test_an_enum_has_the_symbols_of_the_schema_in_their_order(symbols: type[enum.Enum]) -> None:
    published = definitions(schema_document("record"))[symbols.__name__]["symbols"]
    assert [symbol.value for symbol in symbols] == published
