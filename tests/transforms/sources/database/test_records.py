"""Rows as records: what a mapping names, and what becomes of rows that are none."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.acl import Access, Acl, Principal, Scope
from schemas.errors import ConfigError
from schemas.record import Action, Arrival, Content, Crawl, Meta, Provenance, Record
from schemas.reject import Reject
from schemas.span import Span
from transforms.formats.base import ReadOptions
from transforms.sources.database.column_index import Key, Row, Rows
from transforms.sources.database.mapping import (
    AclFrom,
    ActionFrom,
    Columns,
    ContentFrom,
    Incremental,
    Mapping,
)
from transforms.sources.database.records import check_columns, record_maker

ROWS = Rows(names=("id", "name", "body", "link", "at", "op", "users"), key=("id",))
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ANNA = (7, "Anna", "text", "http://x.example.com/l", NOON, "I", "anna,ben")
SPAN = Span(source="people.yaml", ordinal=3)
PLACE = Provenance(source="people.yaml", span=3)


def mapping(**said: Any) -> Mapping:
    usual: dict[str, Any] = {
        "url": "http://x.example.com/{id}",
        "content": ContentFrom(column="body"),
    }
    return Mapping(connection="sqlite://", table="people", **(usual | said))


def no_sides(query: str, key: Key) -> Sequence[Row]:
    raise AssertionError(f"{query!r} was asked for {key!r}")


def made(row: Row = ANNA, *, options: ReadOptions = ReadOptions(), **said: Any) -> Record | Reject:
    return record_maker(mapping(**said), ROWS, no_sides, span=SPAN, options=options)(row)


def record(row: Row = ANNA, **said: Any) -> Record:
    found = made(row, **said)
    assert isinstance(found, Record)
    return found


def reject(row: Row = ANNA, *, options: ReadOptions = ReadOptions(), **said: Any) -> Reject:
    found = made(row, options=options, **said)
    assert isinstance(found, Reject)
    return found


def changed(**values: object) -> Row:
    """Anna's row with other values."""
    return tuple(values.get(name, value) for name, value in zip(ROWS.names, ANNA, strict=True))


def test_a_row_is_a_record() -> None:
    assert made() == Record(
        url="http://x.example.com/7",
        action=Action.ADD,
        arrival=Arrival.PUSHED,
        content=Content(b"text"),
        mimetype="text/plain",
        charset="utf-8",
        provenance=PLACE,
    )


def test_all_can_be_said_of_a_record() -> None:
    said: dict[str, Any] = {
        "title": "name",
        "description": "op",
        "keywords": "id",
        "metadata": (Columns(name="Name", column="name"),),
        "language": "op",
        "modified": "at",
        "mimetype": "text/markdown",
        "display_url_column": "link",
        "acl": AclFrom(users="users"),
        "action": ActionFrom(column="op"),
    }
    assert made(**said) == Record(
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
    found = record(all_metadata=True, acl=AclFrom(users="users"), action=ActionFrom(column="op"))
    assert [meta.name for meta in found.metadata] == ["id", "name", "link", "at"]


def test_a_column_of_paths_or_links_to_the_content_is_no_metadata() -> None:
    found = record(all_metadata=True, content=ContentFrom(is_none=True))
    assert [meta.name for meta in found.metadata] == list(ROWS.names)


def test_a_page_of_a_row_shows_no_principals_and_no_action() -> None:
    found = record(
        content=ContentFrom(), acl=AclFrom(users="users"), action=ActionFrom(column="op")
    )
    assert found.content is not None
    assert found.content.data.count(b"<th>") == 5


def test_a_record_without_content_is_crawled() -> None:
    found = record(content=ContentFrom(is_none=True))
    assert (found.arrival, found.content) == (Arrival.CRAWLED, None)


def test_the_url_may_stand_in_a_column() -> None:
    assert record(url=None, url_column="link").url == "http://x.example.com/l"


def test_a_text_that_is_null_is_not_stated() -> None:
    assert record(changed(name=None), title="name").title is None


def test_a_display_url_is_made_by_a_template() -> None:
    found = record(display_url="http://x.example.com/{name}")
    assert found.crawl == Crawl(display_url="http://x.example.com/Anna")


@pytest.mark.parametrize(
    "said",
    [{"display_url": "http://x.example.com/{name}"}, {"display_url_column": "name"}],
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
def test_a_row_may_be_a_deletion(op: str) -> None:
    found = made(changed(op=op), action=ActionFrom(column="op"), all_metadata=True, modified="at")
    assert found == Record(url="http://x.example.com/7", action=Action.DELETE, provenance=PLACE)


@pytest.mark.parametrize(
    ("op", "delete"), [("D", ("d", "x")), (1, ("1",)), (True, ("true",)), ("", ("",))]
)
def test_what_says_that_it_is_a_deletion_can_be_said(op: object, delete: tuple[str, ...]) -> None:
    found = record(changed(op=op), action=ActionFrom(column="op", delete=delete))
    assert found.action is Action.DELETE


@pytest.mark.parametrize("op", [None, "", "insert", "deleted"])
def test_any_other_row_is_none(op: object) -> None:
    assert record(changed(op=op), action=ActionFrom(column="op")).action is Action.ADD


def test_a_deletion_needs_no_content() -> None:
    found = record(changed(op="delete", body=None), action=ActionFrom(column="op"))
    assert found.action is Action.DELETE


def test_queries_are_asked_for_the_key_of_a_row() -> None:
    asked: list[tuple[str, Key]] = []

    def sides(query: str, key: Key) -> Sequence[Row]:
        asked.append((query, key))
        return [("anna", "user", "permit")] if "acl" in query else [("+41",)]

    said = mapping(
        metadata=(Columns(name="phone", query="SELECT id, number FROM phones"),),
        acl=AclFrom(query="SELECT id, name, scope, access FROM acl"),
    )
    record_maker(said, ROWS, sides)(ANNA)
    assert asked == [
        ("SELECT id, number FROM phones", (7,)),
        ("SELECT id, name, scope, access FROM acl", (7,)),
    ]


def test_a_row_without_a_url_is_a_reject_that_shows_its_key() -> None:
    row = changed(name=None)
    assert reject(row, url="http://x.example.com/{name}") == Reject(
        code="null-url",
        reason="id=7: name is NULL or empty; expected a value, as the url is made of it",
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
    found = reject(row, url="http://x.example.com/{name}", action=ActionFrom(column="op"))
    assert (found.code, found.action) == ("null-url", "DELETE")


def test_a_reject_keeps_the_row_without_its_document() -> None:
    found = reject(changed(body="secret"), options=ReadOptions(max_content_bytes=3))
    assert found.code == "content-too-large"
    assert list(json.loads(found.data)) == ["id", "name", "link", "at", "op", "users"]


def test_a_reject_of_a_row_that_is_long_keeps_its_beginning() -> None:
    found = reject(changed(name="x" * (1 << 20), body=None))
    assert (len(found.data), found.length, found.truncated) == (1_048_576, 1_048_693, True)


def test_a_bad_time_is_a_reject() -> None:
    found = reject(changed(at="soon"), modified="at")
    assert found.reason == "id=7: at='soon'; expected a date, a time or seconds since 1970"


def test_a_bad_value_is_a_reject() -> None:
    assert reject(changed(name=b"\xff"), title="name").reason == (
        "id=7: name: bytes that are not UTF-8; expected text, a number or a date"
    )


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ({"url": "http://x.example.com/{nme}"}, "url"),
        ({"url": None, "url_column": "nme"}, "url"),
        ({"content": ContentFrom(column="nme")}, "content"),
        ({"mimetype_column": "nme"}, "mimetype"),
        ({"title": "nme"}, "title"),
        ({"description": "nme"}, "description"),
        ({"keywords": "nme"}, "keywords"),
        ({"language": "nme"}, "language"),
        ({"metadata": (Columns(name="a", column="nme"),)}, "metadata: a"),
        ({"modified": "nme"}, "modified"),
        ({"display_url": "http://x.example.com/{nme}"}, "display_url"),
        ({"display_url_column": "nme"}, "display_url"),
        ({"action": ActionFrom(column="nme")}, "action"),
        ({"acl": AclFrom(users="nme")}, "acl"),
        ({"incremental": Incremental(timestamp="nme")}, "incremental: timestamp"),
    ],
)
def test_a_column_that_is_not_there_is_told_with_those_that_are(
    said: dict[str, Any], key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_columns(mapping(**said), ROWS)

    expected = (
        f"{key}: 'nme'; expected a column: id, name, body, link, at, op, users; "
        "did you mean 'name'?"
    )
    assert str(caught.value) == expected


def test_columns_that_are_there_are_not_refused() -> None:
    said: dict[str, Any] = {"title": "NAME", "incremental": Incremental(timestamp="at")}
    check_columns(mapping(**said), ROWS)


def test_an_exception_while_a_record_is_made_costs_that_row() -> None:
    def broken_sides(query: str, key: Key) -> Sequence[Row]:
        raise KeyError(query)

    said = mapping(acl=AclFrom(query="SELECT id, name FROM acls"))
    found = record_maker(said, ROWS, broken_sides, span=SPAN)(ANNA)
    assert isinstance(found, Reject)
    assert (found.code, found.url, found.action) == ("defect", "http://x.example.com/7", "ADD")
    assert found.reason.startswith("id=7: a defect of feedferry: KeyError in ")
    assert json.loads(found.data)["name"] == "Anna"
