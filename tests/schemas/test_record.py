"""The canonical record and its published schema."""

import enum
from typing import Any

import msgspec
import pytest
from hypothesis import given

from schemas.acl import Access, Acl, Inheritance, Scope
from schemas.avro import schema_document
from schemas.record import (
    Action,
    Arrival,
    Authmethod,
    Content,
    Crawl,
    Encoding,
    History,
    Meta,
    Record,
    Scoring,
)
from support.strategies import records

URL = "http://www.example.com/"


def definitions(schema: Any) -> dict[str, Any]:
    """All types that a schema defines, by name."""
    if isinstance(schema, list):
        return {name: found for part in schema for name, found in definitions(part).items()}
    if not isinstance(schema, dict):
        return {}
    here = {schema["name"]: schema} if schema["type"] in ("record", "enum") else {}
    parts = [field["type"] for field in schema.get("fields", ())]
    return here | definitions([*parts, schema.get("items"), schema["type"]])


def test_a_record_cannot_be_changed() -> None:
    record = Record(url=URL, action=Action.ADD)
    with pytest.raises(AttributeError):
        record.url = "http://www.example.com/other"  # type: ignore[misc]  # that is the test


def test_a_record_can_stand_in_a_set() -> None:
    assert len({Record(url=URL, action=Action.ADD), Record(url=URL, action=Action.ADD)}) == 1


def test_nothing_is_stated_unless_somebody_states_it() -> None:
    record = Record(url=URL, action=Action.ADD)
    stated = {name for name in record.__struct_fields__ if getattr(record, name) not in (None, ())}
    assert stated == {"url", "action", "provenance"}


def test_no_crawl_hint_is_stated_unless_somebody_states_it() -> None:
    assert set(msgspec.structs.astuple(Crawl())) == {None, ()}


def test_no_figure_of_a_history_is_stated_unless_somebody_states_it() -> None:
    assert set(msgspec.structs.astuple(History())) == {None}


def test_an_acl_of_nobody_is_not_an_acl_that_is_not_stated() -> None:
    assert Record(url=URL, action=Action.ADD, acl=Acl()) != Record(url=URL, action=Action.ADD)


def test_a_document_without_references_is_not_one_whose_references_are_unknown() -> None:
    assert History(references=()) != History()


def test_a_content_is_its_own_bytes_unless_an_encoding_is_stated() -> None:
    assert Content(b"text").encoding is Encoding.NONE


def test_a_record_is_changed_by_replacement() -> None:
    record = Record(url=URL, action=Action.ADD, title="old")
    changed = msgspec.structs.replace(record, title="new")
    assert (record.title, changed.title) == ("old", "new")


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Record, {"url": URL, "action": "ADD", "tittle": "x"}),
        (Acl, {"principal": []}),
        (Meta, {"name": "a", "value": "b", "content": "c"}),
    ],
)
def test_a_misspelt_field_is_refused(kind: type[msgspec.Struct], fields: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert(fields, kind)


@given(records())
def test_a_record_survives_msgspec(record: Record) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=Record) == record


@pytest.mark.parametrize(
    "symbols", [Access, Action, Arrival, Authmethod, Encoding, Inheritance, Scope, Scoring]
)
def test_an_enum_has_the_symbols_of_the_schema_in_their_order(symbols: type[enum.Enum]) -> None:
    published = definitions(schema_document("record"))[symbols.__name__]["symbols"]
    assert [symbol.value for symbol in symbols] == published
