"""Rows as records: URLs, metadata, ACLs, deletions, and rejects of rows without a record."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.errors import ConfigError, RecordError
from feedferry.schemas.record import Action, Arrival, Content, Crawl, Meta, Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.sources.database.mapping.columns import (
    ColumnIndex,
    ColumnReference,
    Key,
    Row,
    parse_template,
    url_getter,
)
from feedferry.transforms.sources.database.mapping.row_mapping import (
    ALL_COLUMNS,
    AclSource,
    ActionColumn,
    ContentSource,
    DateColumn,
    IncrementalReading,
    MetadataColumn,
    RowMapping,
)
from feedferry.transforms.sources.database.records.record_maker import (
    RecordMaker,
    metadata_getter,
    used_columns,
)
from feedferry.transforms.sources.database.records.row_acl import AclGetter, split_principals

INDEX = ColumnIndex(names=("id", "name", "body", "link", "at", "op", "users"), key=("id",))
NO_TEXT = "bytes that are not UTF-8; expected text, a number or a date"
URL_7 = "http://x.example.com/7"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ANNA = (7, "Anna", "text", "http://x.example.com/l", NOON, "I", "anna,ben")
SPAN = Span(source="people.yaml", ordinal=3)
PLACE = Provenance(source="people.yaml", span=3)


USUAL = RowMapping(
    connection="sqlite://",
    table="people",
    url="http://x.example.com/{id}",
    content=ContentSource(column="body"),
)


def mapping(**keys: Any) -> RowMapping:
    return replace(USUAL, **keys)


def no_rows(query: str, key: Key) -> Sequence[Row]:
    raise AssertionError(f"{query!r} was run for {key!r}")


def outcome_of(
    row: Row = ANNA, *, options: ReadOptions = ReadOptions(), **keys: Any
) -> Record | Reject:
    return RecordMaker(mapping(**keys), INDEX, no_rows, span=SPAN, options=options).make(row)


def record(row: Row = ANNA, **keys: Any) -> Record:
    outcome = outcome_of(row, **keys)
    assert isinstance(outcome, Record)
    return outcome


def reject(row: Row = ANNA, **keys: Any) -> Reject:
    outcome = outcome_of(row, **keys)
    assert isinstance(outcome, Reject)
    return outcome


def changed(**values: object) -> Row:
    """Anna's row with other values."""
    return tuple(values.get(name, value) for name, value in zip(INDEX.names, ANNA, strict=True))


def refusal(make: Any, *args: object) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        make(*args)
    return caught.value.code, caught.value.reason


def test_all_fields_of_a_record_can_be_mapped() -> None:
    assert outcome_of(
        title="name",
        description="op",
        keywords="id",
        metadata=(MetadataColumn(name="Name", column="name"),),
        modified="at",
        mimetype="text/markdown",
        display_url=ColumnReference(column="link"),
        acl=AclSource(users="users"),
        action=ActionColumn(column="op"),
    ) == Record(
        url="http://x.example.com/7",
        action=Action.ADD,
        arrival=Arrival.PUSHED,
        content=Content(b"text"),
        mimetype="text/markdown",
        charset="utf-8",
        title="Anna",
        description="I",
        keywords="7",
        metadata=(Meta("Name", "Anna"),),
        modified=NOON,
        acl=Acl(principals=(user("anna"), user("ben"))),
        crawl=Crawl(display_url="http://x.example.com/l"),
        provenance=PLACE,
    )


def test_columns_of_content_acl_and_deletion_are_no_metadata_and_not_in_a_page() -> None:
    acl, action = AclSource(users="users"), ActionColumn(column="op")
    names = [meta.name for meta in record(metadata="all", acl=acl, action=action).metadata]
    assert names == ["id", "name", "link", "at"]
    deleted_at = record(changed(at=None), deleted_at="at", metadata="all")
    assert [meta.name for meta in deleted_at.metadata] == ["id", "name", "link", "op", "users"]
    page = record(content=ContentSource(), acl=acl, action=action).content
    assert page is not None
    assert page.data.count(b"<th>") == 5


def test_a_record_without_content_is_crawled() -> None:
    outcome = record(content=ContentSource(is_none=True))
    assert (outcome.arrival, outcome.content) == (Arrival.CRAWLED, None)


@pytest.mark.parametrize(
    "display_url", ["http://x.example.com/{name}", ColumnReference(column="name")]
)
def test_a_display_url_that_is_null_is_not_stated(display_url: object) -> None:
    assert record(changed(name=None), display_url=display_url).crawl is None


def test_a_display_url_with_dots_is_a_reject() -> None:
    assert reject(changed(name=".."), display_url="http://x.example.com/{name}").code == "bad-url"


def test_a_time_without_a_zone_is_in_the_zone_of_the_options() -> None:
    row, options = changed(at=datetime(2026, 1, 31, 13)), ReadOptions(zone="Europe/Zurich")
    assert record(row, options=options, modified="at").modified == NOON


@pytest.mark.parametrize(
    ("op", "delete", "action"),
    [
        ("delete", ("delete",), Action.DELETE),
        (" DELETE ", ("delete",), Action.DELETE),
        ("D", ("d", "x"), Action.DELETE),
        (1, ("1",), Action.DELETE),
        (True, ("true",), Action.DELETE),
        ("", ("",), Action.DELETE),
        (None, ("delete",), Action.ADD),
        ("", ("delete",), Action.ADD),
        ("deleted", ("delete",), Action.ADD),
    ],
)
def test_a_value_marks_a_deletion(op: object, delete: tuple[str, ...], action: Action) -> None:
    column = ActionColumn(column="op", delete=delete)
    assert record(changed(op=op), action=column).action is action


@pytest.mark.parametrize(
    ("value", "action"), [(None, Action.ADD), (NOON, Action.DELETE), ("", Action.DELETE)]
)
def test_a_time_of_deletion_marks_a_deletion(value: object, action: Action) -> None:
    assert record(changed(at=value), deleted_at="at").action is action


@pytest.mark.parametrize("value", ["infinity", "-infinity"])
def test_an_infinite_time_of_deletion_is_a_reject(value: str) -> None:
    outcome = reject(changed(at=value), deleted_at="at")
    assert (outcome.code, outcome.reason) == (
        "bad-date",
        f"at='{value}'; expected a date, or NULL",
    )


def test_a_column_of_dates_may_have_a_format() -> None:
    modified = DateColumn(column="at", format="%Y%m%d")
    assert record(changed(at="20260131"), modified=modified).modified == datetime(
        2026, 1, 31, tzinfo=UTC
    )


def test_a_deletion_has_its_url_only() -> None:
    row, column = changed(op="delete"), ActionColumn(column="op")
    expected = Record(url="http://x.example.com/7", action=Action.DELETE, provenance=PLACE)
    assert outcome_of(row, action=column, metadata="all", modified="at") == expected


def test_a_row_without_a_url_is_a_reject_that_shows_its_key() -> None:
    assert reject(changed(name=None), url="http://x.example.com/{name}") == Reject(
        code="null-url",
        key="id=7",
        reason="name is NULL or empty; expected a value for url",
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


def test_a_row_without_content_is_a_reject_with_its_url() -> None:
    outcome = reject(changed(body=None))
    assert (outcome.code, outcome.url, outcome.action) == ("null-content", URL_7, "ADD")
    assert outcome.reason == (
        "body is NULL; expected a document, or a query that leaves such rows out"
    )


def test_a_deletion_without_a_url_is_a_reject_of_a_deletion() -> None:
    row, column = changed(name=None, op="delete"), ActionColumn(column="op")
    outcome = reject(row, url="http://x.example.com/{name}", action=column)
    assert (outcome.code, outcome.action) == ("null-url", "DELETE")


def test_a_reject_keeps_the_beginning_of_the_row_without_its_document() -> None:
    outcome = reject(changed(body="secret"), options=ReadOptions(max_content_bytes=3))
    assert outcome.code == "content-too-large"
    assert list(json.loads(outcome.data)) == ["id", "name", "link", "at", "op", "users"]
    long = reject(changed(name="x" * (1 << 20), body=None))
    assert (len(long.data), long.length, long.truncated) == (1_048_576, 1_048_693, True)


@pytest.mark.parametrize(
    ("keys", "setting"),
    [
        ({"url": "http://x.example.com/{nme}"}, "url"),
        ({"url": ColumnReference(column="nme")}, "url"),
        ({"content": ContentSource(column="nme")}, "content: column"),
        ({"content": ContentSource(path="nme")}, "content: path"),
        ({"content": ContentSource(fetch="nme")}, "content: fetch"),
        ({"mimetype": ColumnReference(column="nme")}, "mimetype"),
        ({"title": "nme"}, "title"),
        ({"metadata": (MetadataColumn(name="a", column="nme"),)}, "metadata"),
        ({"deleted_at": "nme"}, "deleted_at"),
        ({"modified": "nme"}, "modified"),
        ({"display_url": "http://x.example.com/{nme}"}, "display_url"),
        ({"action": ActionColumn(column="nme")}, "action"),
        ({"acl": AclSource(deny_groups="nme")}, "acl: deny_groups"),
        ({"incremental": IncrementalReading(timestamp="nme")}, "incremental: timestamp"),
    ],
)
def test_a_missing_column_is_an_error_with_the_columns(keys: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as caught:
        used_columns(mapping(**keys), INDEX)
    assert str(caught.value) == (
        f"{setting}: 'nme'; expected a column: id, name, body, link, at, op, users; "
        "did you mean 'name'?"
    )


def test_an_exception_while_a_record_is_made_costs_that_row() -> None:
    def broken_rows(query: str, key: Key) -> Sequence[Row]:
        raise KeyError(query)

    keys = mapping(acl=AclSource(query="SELECT id, name FROM acls"))
    outcome = RecordMaker(keys, INDEX, broken_rows, span=SPAN).make(ANNA)
    assert isinstance(outcome, Reject)
    assert (outcome.code, outcome.url, outcome.action) == ("defect", URL_7, "ADD")
    assert outcome.reason.startswith("a defect of feedferry: KeyError in ")
    assert json.loads(outcome.data)["name"] == "Anna"


PERSON = ColumnIndex(names=("id", "title", "tags", "born"), key=("id",))
CHIEF = (7, "Chief", "a; b;;a", date(1990, 1, 31))
PHONES = MetadataColumn(name="phone", query="SELECT id, number FROM phones")
TAGS = MetadataColumn(name="tag", column="tags", separator=";")
ID, TITLE = MetadataColumn(column="id"), MetadataColumn(column="title")


def metas(
    *columns: MetadataColumn,
    row: Row = CHIEF,
    phones: Sequence[Row] = (),
    without: tuple[int, ...] = (),
    **keys: Any,
) -> list[tuple[str, str]]:
    def load_rows(query: str, key: Key) -> Sequence[Row]:
        assert (query, key) == (PHONES.query, (7,))
        return phones

    rows = RowMapping(connection="sqlite://", metadata=columns, **keys)
    result = metadata_getter(rows, PERSON, load_rows, without=without)(row)
    return [(meta.name, meta.value) for meta in result]


def test_metadata_is_in_the_order_of_the_list_without_null() -> None:
    assert metas(TITLE, ID) == [("title", "Chief"), ("id", "7")]
    assert metas(TITLE, ID, row=(7, None, None, None)) == [("id", "7")]


def test_a_separator_splits_texts_and_bytes() -> None:
    assert metas(TAGS) == [("tag", "a"), ("tag", "b"), ("tag", "a")]
    assert metas(TAGS, row=(7, None, b"a;b", None)) == [("tag", "a"), ("tag", "b")]


def test_all_means_the_columns_that_the_list_does_not_mention() -> None:
    job = MetadataColumn(name="Job", column="title")
    born = ("born", "1990-01-31")
    assert metas(PHONES, job, ALL_COLUMNS, TAGS, phones=[("+41",)]) == [
        *(("phone", "+41"), ("Job", "Chief"), ("id", "7"), born),
        *(("tag", "a"), ("tag", "b"), ("tag", "a")),
    ]
    assert metas(TITLE, ALL_COLUMNS, without=(0, 1, 2)) == [("title", "Chief"), born]


def test_of_all_columns_the_title_is_not_there_twice() -> None:
    assert [name for name, _ in metas(ALL_COLUMNS, title="title")] == ["id", "tags", "born"]


def test_a_query_has_several_values_at_its_place_in_the_list() -> None:
    assert metas(ID, PHONES, TITLE, phones=[("+41",), (None,), (42,)]) == [
        *(("id", "7"), ("phone", "+41"), ("phone", "42"), ("title", "Chief"))
    ]


def test_a_query_of_two_values_is_rejected() -> None:
    assert refusal(lambda: metas(PHONES, phones=[("+41", "home")])) == (
        "bad-query",
        "phone: 2 columns after the key; expected one value",
    )


LISTS = AclSource(users="users", groups="groups", deny_users="no_users", deny_groups="no_groups")
QUERY = AclSource(query="SELECT id, name, scope, access FROM acl")
LISTED = ColumnIndex(names=("id", "users", "groups", "no_users", "no_groups"), key=("id",))
BY_COLUMN = AclSource(inherit_from=ColumnReference(column="groups"))
BY_TEMPLATE = AclSource(inherit_from="http://x.example.com/{groups}/")


def acl_of(acl: AclSource, *values: object) -> Acl:
    """The ACL of a row that is filled up with NULL."""
    return AclGetter(acl, LISTED, no_rows)((7, *values, *(None,) * (4 - len(values))))


def acl_of_query(acl: AclSource, *answers: Row) -> Acl:
    """The ACL that a query gives for the row 7."""

    def load_rows(query: str, key: Key) -> Sequence[Row]:
        assert (query, key) == (acl.query, (7,))
        return answers

    return AclGetter(acl, LISTED, load_rows)((7, None, None, None, None))


def user(name: str, **fields: Any) -> Principal:
    usual: dict[str, Any] = {"scope": Scope.USER, "access": Access.PERMIT}
    return Principal(name=name, **(usual | fields))


def names(acl: Acl) -> list[str]:
    return [principal.name for principal in acl.principals]


@pytest.mark.parametrize(
    ("acl", "values", "expected"),
    [
        (
            replace(BY_COLUMN, users="users", inheritance="child-overrides"),
            ("anna", " http://x.example.com/ "),
            Acl(
                inheritance=Inheritance.CHILD_OVERRIDES,
                inherit_from="http://x.example.com/",
                principals=(user("anna"),),
            ),
        ),
        (BY_COLUMN, (), Acl()),
        (BY_TEMPLATE, (None, "r d"), Acl(inherit_from="http://x.example.com/r%20d/")),
    ],
    ids=["column", "null", "template"],
)
def test_an_acl_inherits_from_a_url(
    acl: AclSource, values: tuple[str | None, ...], expected: Acl
) -> None:
    assert acl_of(acl, *values) == expected


def test_a_parent_without_a_url_is_rejected() -> None:
    expected = "groups is NULL or empty; expected a value for acl: inherit_from"
    assert refusal(lambda: acl_of(BY_TEMPLATE)) == ("null-url", expected)


def test_each_list_has_its_scope_and_access() -> None:
    assert acl_of(LISTS, "anna", "staff", "tim", "guests") == Acl(
        principals=(
            user("anna"),
            user("staff", scope=Scope.GROUP),
            user("tim", access=Access.DENY),
            user("guests", scope=Scope.GROUP, access=Access.DENY),
        )
    )


def test_a_row_without_principals_permits_no_user() -> None:
    assert acl_of(LISTS) == Acl()
    assert acl_of(LISTS, "", " , ,", "", "") == Acl()
    assert acl_of_query(QUERY) == Acl()
    assert acl_of_query(QUERY, (None, "user", "permit"), (" ", "user", "permit")) == Acl()


def test_the_namespace_and_the_case_are_those_of_the_mapping() -> None:
    acl = AclSource(users="users", namespace="corp", case_sensitive=False)
    expected = user("anna", namespace="corp", case_sensitive=False)
    assert acl_of(acl, "anna") == Acl(principals=(expected,))


@pytest.mark.parametrize(
    ("text", "delimiter", "expected"),
    [
        ("anna,ben", ",", ["anna", "ben"]),
        (" anna ,\tben\n", ",", ["anna", "ben"]),
        ("anna,,ben,", ",", ["anna", "ben"]),
        (r"Smith\, Tim,anna", ",", ["Smith, Tim", "anna"]),
        (r"CORP\anna,CORP\ben", ",", ["CORP\\anna", "CORP\\ben"]),
        (r"CORP\anna,Smith\, Tim", ",", ["CORP\\anna", "Smith, Tim"]),
        (r"a\\,b", ",", ["a\\,b"]),
        ("a.b|c", "|", ["a.b", "c"]),
        ("a.b", ".", ["a", "b"]),
        ("a::b:c", "::", ["a", "b:c"]),
        ("anna\nben", "\n", ["anna", "ben"]),
        ("", ",", []),
    ],
)
def test_a_list_is_split(text: str, delimiter: str, expected: list[str]) -> None:
    assert split_principals(text, delimiter) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["Smith, Tim", " anna ", None, ""], ["Smith, Tim", "anna"]),
        (' ["Smith, Tim", "CORP\\\\ben", ""]', ["Smith, Tim", "CORP\\ben"]),
        ("[all] staff,{ben}", ["[all] staff", "{ben}"]),
    ],
)
def test_items_of_arrays_and_json_lists_are_not_split(value: object, expected: list[str]) -> None:
    """JSON columns of all databases are texts: quotes are not a part of the names."""
    assert names(acl_of(LISTS, value)) == expected


def test_a_query_gives_principals_with_or_without_namespaces() -> None:
    rows = ("anna", "user", "permit"), (" Smith, Tim ", "GROUP", "Deny ")
    tim = user("Smith, Tim", scope=Scope.GROUP, access=Access.DENY)
    assert acl_of_query(QUERY, *rows) == Acl(principals=(user("anna"), tim))
    acl = AclSource(query=QUERY.query, namespace="corp")
    rows_with_namespaces = ("anna", "user", "permit", "lab"), ("ben", "user", "permit", None)
    assert acl_of_query(acl, *rows_with_namespaces) == Acl(
        principals=(user("anna", namespace="lab"), user("ben", namespace="corp"))
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (("anna", "usr", "permit"), "scope 'usr' of a principal; expected user or group"),
        (("anna", "user", "allow"), "access 'allow' of a principal; expected permit or deny"),
        (("anna", "user", None), "access '' of a principal; expected permit or deny"),
        (
            ("anna", "user"),
            "2 columns after the key in the query for ACLs; expected name, scope, access and "
            "optionally namespace",
        ),
    ],
)
def test_a_row_of_a_query_without_a_principal_is_rejected(answer: Row, expected: str) -> None:
    assert refusal(acl_of_query, QUERY, answer) == ("bad-acl", expected)


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        (b"\xff", ("bad-value", f"users: {NO_TEXT}")),
        (
            '{"anna": true}',
            ("bad-acl", "users: JSON of keys and values; expected a list of principals"),
        ),
    ],
)
def test_a_value_that_is_no_list_is_rejected(value: object, refused: tuple[str, str]) -> None:
    assert refusal(acl_of, LISTS, value) == refused


LINKS = ColumnIndex(names=("id", "dept", "link"), key=("id",))
TEMPLATE = "https://people.example.com/{dept}/{id}"
LINK = ColumnReference(column="link")
IS_EMPTY = "is NULL or empty; expected a value for url"
NO_DOTS = "no . or .. segment, which clients remove"


def url_of(source: str | ColumnReference, *row: object) -> str:
    return url_getter("url", source, LINKS)(row)


@pytest.mark.parametrize(
    ("row", "url"),
    [
        ((7, "hr"), "https://people.example.com/hr/7"),
        (("a/b", "r d"), "https://people.example.com/r%20d/a%2Fb"),
        (("50%", "a?b#c&d"), "https://people.example.com/a%3Fb%23c%26d/50%25"),
        (("Zürich", "٣"), "https://people.example.com/%D9%A3/Z%C3%BCrich"),
        (("{id}", "}"), "https://people.example.com/%7D/%7Bid%7D"),
        (("a-b", "x_y.z~"), "https://people.example.com/x_y.z~/a-b"),
        (("\ud800", "hr"), "https://people.example.com/hr/%ED%A0%80"),
        ((-7, True), "https://people.example.com/true/-7"),
        ((UUID(int=7), "hr"), f"https://people.example.com/hr/{UUID(int=7)}"),
        ((b"caf\xc3\xa9", "hr"), "https://people.example.com/hr/caf%C3%A9"),
        ((".hidden", "..."), "https://people.example.com/.../.hidden"),
    ],
    ids=repr,
)
def test_values_in_a_url_are_percent_encoded(row: tuple[object, ...], url: str) -> None:
    assert url_of(TEMPLATE, *row, None) == url


def test_doubled_braces_are_literal_and_a_url_in_a_column_is_kept() -> None:
    template = "https://x.example.com/{{a}}/{id}%20"
    assert url_of(template, 7, None, None) == "https://x.example.com/{a}/7%20"
    link = "http://x.example.com/a b?c=é"
    assert url_of(LINK, 7, "hr", link) == link


@pytest.mark.parametrize(
    ("source", "row", "refused"),
    [
        (TEMPLATE, (7, None), ("null-url", f"dept {IS_EMPTY}")),
        (TEMPLATE, (7, ""), ("null-url", f"dept {IS_EMPTY}")),
        (
            TEMPLATE,
            (7, ".."),
            ("bad-url", f"'https://people.example.com/../7'; expected {NO_DOTS}"),
        ),
        (TEMPLATE, (b"\xff", "hr"), ("bad-value", f"id: {NO_TEXT}")),
        (LINK, (7, "hr", None), ("null-url", f"link {IS_EMPTY}")),
        (LINK, (7, "hr", "/a/b"), ("bad-url", "link='/a/b'; expected an absolute URL")),
    ],
)
def test_values_that_make_no_url_are_rejected(
    source: str | ColumnReference, row: tuple[object, ...], refused: tuple[str, str]
) -> None:
    assert refusal(url_of, source, *row) == refused


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_two_keys_have_the_same_url(first: str, second: str) -> None:
    if {".", ".."}.isdisjoint((first, second)):
        urls = url_of(TEMPLATE, first, "hr", None), url_of(TEMPLATE, second, "hr", None)
        assert (urls[0] == urls[1]) is (first == second)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("/{id}", "an absolute URL, such as https://x.example.com/{id}"),
        ("{base}/{id}", "an absolute URL, such as https://x.example.com/{id}"),
        ("https://x.example.com/{id", "column names in braces, and {{ and }} for literal braces"),
        ("https://x.example.com/{}", "the name of a column in {}"),
        ("https://x.example.com/{id:05d}", "{id}, as values have one text form"),
        ("https://x.example.com/{id!r}", "{id}, as values have one text form"),
    ],
)
def test_a_template_that_makes_no_url_is_refused(template: str, expected: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        parse_template(template)
    assert str(caught.value) == f"{template!r}; expected {expected}"
