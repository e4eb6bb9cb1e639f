"""Rows as records: all parts of a mapping, metadata, and rejects of rows without a record."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import pytest

from schemas.acl import Access, Acl, Principal, Scope
from schemas.errors import ConfigError, RecordError
from schemas.record import Action, Arrival, Content, Crawl, Meta, Provenance, Record
from schemas.reject import Reject
from schemas.span import Span
from transforms.formats.base import ReadOptions
from transforms.sources.database.columns import ColumnIndex, ColumnReference, Key, Row
from transforms.sources.database.mapping import (
    ALL_COLUMNS,
    AclSource,
    ActionColumn,
    ContentSource,
    IncrementalReading,
    MetadataColumn,
    RowMapping,
)
from transforms.sources.database.records import RecordMaker, metadata_getter, used_columns

INDEX = ColumnIndex(names=("id", "name", "body", "link", "at", "op", "users"), key=("id",))
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ANNA = (7, "Anna", "text", "http://x.example.com/l", NOON, "I", "anna,ben")
SPAN = Span(source="people.yaml", ordinal=3)
PLACE = Provenance(source="people.yaml", span=3)


def mapping(**said: Any) -> RowMapping:
    usual: dict[str, Any] = {
        "url": "http://x.example.com/{id}",
        "content": ContentSource(column="body"),
    }
    return RowMapping(connection="sqlite://", table="people", **(usual | said))


def no_rows(query: str, key: Key) -> Sequence[Row]:
    raise AssertionError(f"{query!r} was asked for {key!r}")


def outcome_of(
    row: Row = ANNA, *, options: ReadOptions = ReadOptions(), **said: Any
) -> Record | Reject:
    return RecordMaker(mapping(**said), INDEX, no_rows, span=SPAN, options=options).make(row)


def record(row: Row = ANNA, **said: Any) -> Record:
    found = outcome_of(row, **said)
    assert isinstance(found, Record)
    return found


def reject(row: Row = ANNA, *, options: ReadOptions = ReadOptions(), **said: Any) -> Reject:
    found = outcome_of(row, options=options, **said)
    assert isinstance(found, Reject)
    return found


def changed(**values: object) -> Row:
    """Anna's row with other values."""
    return tuple(values.get(name, value) for name, value in zip(INDEX.names, ANNA, strict=True))


def test_all_fields_of_a_record_can_be_mapped() -> None:
    said: dict[str, Any] = {
        "title": "name",
        "description": "op",
        "keywords": "id",
        "metadata": (MetadataColumn(name="Name", column="name"),),
        "language": "op",
        "modified": "at",
        "mimetype": "text/markdown",
        "display_url": ColumnReference(column="link"),
        "acl": AclSource(users="users"),
        "action": ActionColumn(column="op"),
    }
    assert outcome_of(**said) == Record(
        url="http://x.example.com/7",
        action=Action.ADD,
        arrival=Arrival.PUSHED,
        content=Content(b"text"),
        mimetype="text/markdown",
        charset="utf-8",
        title="Anna",
        description="I",
        keywords="7",
        metadata=(Meta("Name", "Anna"), Meta("language", "I")),
        modified=NOON,
        acl=Acl(
            principals=(
                Principal(name="anna", scope=Scope.USER, access=Access.PERMIT),
                Principal(name="ben", scope=Scope.USER, access=Access.PERMIT),
            )
        ),
        crawl=Crawl(display_url="http://x.example.com/l"),
        provenance=PLACE,
    )


def test_all_columns_are_metadata_but_those_of_content_acl_and_action() -> None:
    found = record(metadata="all", acl=AclSource(users="users"), action=ActionColumn(column="op"))
    assert [meta.name for meta in found.metadata] == ["id", "name", "link", "at"]


def test_a_page_of_a_row_shows_no_principals_and_no_action() -> None:
    found = record(
        content=ContentSource(), acl=AclSource(users="users"), action=ActionColumn(column="op")
    )
    assert found.content is not None
    assert found.content.data.count(b"<th>") == 5


def test_a_record_without_content_is_crawled() -> None:
    found = record(content=ContentSource(is_none=True))
    assert (found.arrival, found.content) == (Arrival.CRAWLED, None)


@pytest.mark.parametrize(
    "said",
    [
        {"display_url": "http://x.example.com/{name}"},
        {"display_url": ColumnReference(column="name")},
    ],
    ids=["template", "column"],
)
def test_a_display_url_that_is_null_is_not_stated(said: dict[str, str]) -> None:
    assert record(changed(name=None), **said).crawl is None


def test_a_display_url_that_cannot_be_is_a_reject() -> None:
    assert reject(changed(name=".."), display_url="http://x.example.com/{name}").code == "bad-url"


def test_a_time_without_a_zone_is_in_that_of_the_user() -> None:
    row = changed(at=datetime(2026, 1, 31, 13))
    options = ReadOptions(zone="Europe/Zurich")
    assert record(row, options=options, modified="at").modified == NOON


@pytest.mark.parametrize("op", ["delete", " DELETE "])
def test_a_row_can_be_a_deletion(op: str) -> None:
    found = outcome_of(
        changed(op=op), action=ActionColumn(column="op"), metadata="all", modified="at"
    )
    assert found == Record(url="http://x.example.com/7", action=Action.DELETE, provenance=PLACE)


@pytest.mark.parametrize(
    ("op", "delete"), [("D", ("d", "x")), (1, ("1",)), (True, ("true",)), ("", ("",))]
)
def test_the_values_that_mark_deletions_can_be_chosen(op: object, delete: tuple[str, ...]) -> None:
    found = record(changed(op=op), action=ActionColumn(column="op", delete=delete))
    assert found.action is Action.DELETE


@pytest.mark.parametrize("op", [None, "", "insert", "deleted"])
def test_a_row_with_another_value_is_no_deletion(op: object) -> None:
    assert record(changed(op=op), action=ActionColumn(column="op")).action is Action.ADD


def test_queries_are_asked_for_the_key_of_a_row() -> None:
    asked: list[tuple[str, Key]] = []

    def load_rows(query: str, key: Key) -> Sequence[Row]:
        asked.append((query, key))
        return [("anna", "user", "permit")] if "acl" in query else [("+41",)]

    said = mapping(
        metadata=(MetadataColumn(name="phone", query="SELECT id, number FROM phones"),),
        acl=AclSource(query="SELECT id, name, scope, access FROM acl"),
    )
    RecordMaker(said, INDEX, load_rows).make(ANNA)
    assert asked == [
        ("SELECT id, number FROM phones", (7,)),
        ("SELECT id, name, scope, access FROM acl", (7,)),
    ]


def test_a_row_without_a_url_is_a_reject_that_shows_its_key() -> None:
    row = changed(name=None)
    assert reject(row, url="http://x.example.com/{name}") == Reject(
        code="null-url",
        reason="id=7: name is NULL or empty; expected a value for url",
        stage="read",
        source="people.yaml",
        span=3,
        length=119,
        action="ADD",
        data=(
            b'{"id": 7, "name": null, "link": "http://x.example.com/l", '
            b'"at": "2026-01-31T12:00:00Z", "op": "I", "users": "anna,ben"}'
        ),
    )


def test_a_row_without_content_is_a_reject_that_has_its_url() -> None:
    found = reject(changed(body=None))
    assert (found.code, found.url, found.action) == (
        "null-content",
        "http://x.example.com/7",
        "ADD",
    )
    assert found.reason == (
        "id=7: body is NULL; expected a document, or a query that leaves such rows out"
    )


def test_a_deletion_without_a_url_is_a_reject_of_a_deletion() -> None:
    row = changed(name=None, op="delete")
    found = reject(row, url="http://x.example.com/{name}", action=ActionColumn(column="op"))
    assert (found.code, found.action) == ("null-url", "DELETE")


def test_a_reject_keeps_the_row_without_its_document() -> None:
    found = reject(changed(body="secret"), options=ReadOptions(max_content_bytes=3))
    assert found.code == "content-too-large"
    assert list(json.loads(found.data)) == ["id", "name", "link", "at", "op", "users"]


def test_a_reject_of_a_row_that_is_long_keeps_its_beginning() -> None:
    found = reject(changed(name="x" * (1 << 20), body=None))
    assert (len(found.data), found.length, found.truncated) == (1_048_576, 1_048_693, True)


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ({"url": "http://x.example.com/{nme}"}, "url"),
        ({"url": ColumnReference(column="nme")}, "url"),
        ({"content": ContentSource(column="nme")}, "content: column"),
        ({"content": ContentSource(path="nme")}, "content: path"),
        ({"content": ContentSource(fetch="nme")}, "content: fetch"),
        ({"mimetype": ColumnReference(column="nme")}, "mimetype"),
        ({"title": "nme"}, "title"),
        ({"description": "nme"}, "description"),
        ({"keywords": "nme"}, "keywords"),
        ({"language": "nme"}, "metadata: language"),
        ({"metadata": (MetadataColumn(name="a", column="nme"),)}, "metadata"),
        ({"deleted_at": "nme"}, "deleted_at"),
        ({"modified": "nme"}, "modified"),
        ({"display_url": "http://x.example.com/{nme}"}, "display_url"),
        ({"display_url": ColumnReference(column="nme")}, "display_url"),
        ({"action": ActionColumn(column="nme")}, "action"),
        ({"acl": AclSource(users="nme")}, "acl: users"),
        ({"acl": AclSource(deny_groups="nme")}, "acl: deny_groups"),
        ({"acl": AclSource(inherit_from=ColumnReference(column="nme"))}, "acl: inherit_from"),
        ({"incremental": IncrementalReading(timestamp="nme")}, "incremental: timestamp"),
    ],
)
def test_a_missing_column_is_an_error_with_the_columns(said: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        used_columns(mapping(**said), INDEX)

    expected = (
        f"{key}: 'nme'; expected a column: id, name, body, link, at, op, users; "
        "did you mean 'name'?"
    )
    assert str(caught.value) == expected


def test_an_exception_while_a_record_is_made_costs_that_row() -> None:
    def broken_rows(query: str, key: Key) -> Sequence[Row]:
        raise KeyError(query)

    said = mapping(acl=AclSource(query="SELECT id, name FROM acls"))
    found = RecordMaker(said, INDEX, broken_rows, span=SPAN).make(ANNA)
    assert isinstance(found, Reject)
    assert (found.code, found.url, found.action) == ("defect", "http://x.example.com/7", "ADD")
    assert found.reason.startswith("id=7: a defect of feedferry: KeyError in ")
    assert json.loads(found.data)["name"] == "Anna"


PERSON = ColumnIndex(names=("id", "title", "tags", "born"), key=("id",))
CHIEF = (7, "Chief", "a; b;;a", date(1990, 1, 31))
PHONES = MetadataColumn(name="phone", query="SELECT id, number FROM phones")


def plain(name: str) -> MetadataColumn:
    return MetadataColumn(column=name)


def of(*columns: MetadataColumn, **more: Any) -> RowMapping:
    return RowMapping(connection="sqlite://", metadata=columns, **more)


def metas_of(mapping: RowMapping, row: Row = CHIEF, *, without: tuple[int, ...] = ()) -> list[Meta]:
    return list(metadata_getter(mapping, PERSON, no_rows, without=without)(row))


def with_phones(mapping: RowMapping, *numbers: Row) -> list[Meta]:
    def load_rows(query: str, key: Key) -> Sequence[Row]:
        assert (query, key) == ("SELECT id, number FROM phones", (7,))
        return numbers

    return list(metadata_getter(mapping, PERSON, load_rows)(CHIEF))


def test_metadata_is_in_the_order_of_the_list() -> None:
    assert metas_of(of(plain("title"), plain("id"))) == [Meta("title", "Chief"), Meta("id", "7")]


def test_null_is_no_metadata() -> None:
    assert metas_of(of(plain("title"), plain("id")), (7, None, None, None)) == [Meta("id", "7")]


def test_a_separator_splits_a_column() -> None:
    assert metas_of(of(MetadataColumn(name="tag", column="tags", separator=";"))) == [
        Meta("tag", "a"),
        Meta("tag", "b"),
        Meta("tag", "a"),
    ]


def test_a_separator_splits_bytes_of_text() -> None:
    tags = MetadataColumn(name="tag", column="tags", separator=";")
    assert metas_of(of(tags), (7, None, b"a;b", None)) == [Meta("tag", "a"), Meta("tag", "b")]


def test_listed_columns_replace_those_of_all() -> None:
    mapping = of(
        PHONES,
        MetadataColumn(name="tag", column="tags", separator=";"),
        MetadataColumn(name="Job", column="title"),
        ALL_COLUMNS,
    )
    assert with_phones(mapping, ("+41",)) == [
        Meta("phone", "+41"),
        Meta("tag", "a"),
        Meta("tag", "b"),
        Meta("tag", "a"),
        Meta("Job", "Chief"),
        Meta("id", "7"),
        Meta("born", "1990-01-31"),
    ]


def test_a_column_that_is_used_otherwise_can_be_named_as_well() -> None:
    mapping = of(plain("title"), ALL_COLUMNS)
    assert metas_of(mapping, without=(0, 1, 2)) == [
        Meta("title", "Chief"),
        Meta("born", "1990-01-31"),
    ]


def test_of_all_columns_the_title_is_not_there_twice() -> None:
    mapping = of(ALL_COLUMNS, title="title")
    assert [meta.name for meta in metas_of(mapping)] == ["id", "tags", "born"]


def test_the_language_is_not_there_twice() -> None:
    mapping = of(MetadataColumn(name="Language", column="title"), language="title")
    assert metas_of(mapping) == [Meta("Language", "Chief")]


def test_a_query_has_several_values_at_its_place_in_the_list() -> None:
    mapping = of(plain("id"), PHONES, plain("title"))
    assert with_phones(mapping, ("+41",), (None,), (42,)) == [
        Meta("id", "7"),
        Meta("phone", "+41"),
        Meta("phone", "42"),
        Meta("title", "Chief"),
    ]


def test_a_query_of_two_values_is_refused() -> None:
    with pytest.raises(RecordError) as caught:
        with_phones(of(PHONES), ("+41", "home"))

    expected = "phone: 2 columns after the key; expected one value"
    assert (caught.value.code, caught.value.reason) == ("bad-query", expected)


@pytest.mark.parametrize(
    ("value", "action"), [(None, Action.ADD), (NOON, Action.DELETE), ("", Action.DELETE)]
)
def test_a_row_with_a_time_of_deletion_is_a_deletion(value: object, action: Action) -> None:
    assert record(changed(at=value), deleted_at="at").action is action


def test_the_column_of_the_deletion_is_no_metadata() -> None:
    found = record(changed(at=None), deleted_at="at", metadata="all")
    assert [meta.name for meta in found.metadata] == ["id", "name", "link", "op", "users"]
