"""Mapping files: their keys, their errors, their page of documentation, and their drafts."""

import re
from pathlib import Path

import msgspec
import pytest

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.source_options import SourceOptions
from feedferry.schemas.span import Span
from feedferry.transforms.sources.database.database_source import ROWS
from feedferry.transforms.sources.database.mapping.columns import ColumnReference
from feedferry.transforms.sources.database.mapping.mapping_draft import TableColumn, draft_mapping
from feedferry.transforms.sources.database.mapping.row_mapping import (
    ALL_COLUMNS,
    AclSource,
    ActionColumn,
    ContentSource,
    IncrementalReading,
    MetadataColumn,
    RowMapping,
)
from support.pages import read_page

CONNECTION = "connection: sqlite:///people.db\n"
LEAST = CONNECTION + "table: people\nurl: https://x.example.com/{id}\n"
STRUCTS = (RowMapping, ContentSource, MetadataColumn, ActionColumn, AclSource, IncrementalReading)
KEYS = [
    field.encode_name
    for struct in STRUCTS
    for field in msgspec.structs.fields(struct)
    if not field.encode_name.startswith("_")
]
PAGE = read_page("docs/formats/database.md")
EXAMPLES = dict(re.findall(r'```yaml title="(.*?)"\n(.*?)```', PAGE, re.DOTALL))


def loaded(folder: Path, text: str) -> RowMapping:
    path = folder / "people.yaml"
    path.write_text(text, "utf-8")
    span, options = Span(path=str(path)), SourceOptions(to_format="gsa-feed")
    return ROWS.load(span, options)


def errors(folder: Path, text: str) -> str:
    """The errors of a file, without its name."""
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text)
    return str(caught.value).replace(f"{folder / 'people.yaml'}:", "")


def test_values_of_several_kinds_are_decoded(tmp_path: Path) -> None:
    text = """
query: " SELECT id, link FROM people ; "
key: [dept, id]
content: none
mimetype: {column: type}
metadata:
  - all
  - title
  - {column: tags, name: tag, separator: ";"}
  - {name: phone, query: "SELECT id, phone FROM phones;"}
action: {column: op, delete: [D, 1, true]}
acl: {users: permit, delimiter: "|", namespace: corp, case_sensitive: false}
incremental: {timestamp: updated_at, lag: 0s, deletes: "SELECT id FROM gone"}
"""
    url = "${file:/run/secrets/url}"
    assert loaded(tmp_path, f"connection: {url}\nurl: {{column: link}}{text}") == RowMapping(
        connection=url,
        query="SELECT id, link FROM people",
        key=("dept", "id"),
        url=ColumnReference(column="link"),
        content=ContentSource(is_none=True),
        mimetype=ColumnReference(column="type"),
        metadata=(
            ALL_COLUMNS,
            MetadataColumn(column="title"),
            MetadataColumn(name="tag", column="tags", separator=";"),
            MetadataColumn(name="phone", query="SELECT id, phone FROM phones"),
        ),
        action=ActionColumn(column="op", delete=("D", "1", "true")),
        acl=AclSource(users="permit", delimiter="|", namespace="corp", case_sensitive=False),
        incremental=IncrementalReading(
            timestamp="updated_at", lag_seconds=0, deletes="SELECT id FROM gone"
        ),
        folder=str(tmp_path),
    )


def test_a_template_is_checked_when_a_mapping_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "page.j2").write_text("{{ id }}")
    text = LEAST + "content: {template: page.j2}"
    assert loaded(tmp_path, text).resolve("page.j2") == tmp_path / "page.j2"
    (tmp_path / "page.j2").write_text("{{ id")
    assert errors(tmp_path, text).startswith(f"content: template: {tmp_path}/page.j2:1: unexpected")


ERRORS = {
    CONNECTION: "1:1: neither table nor query; expected one of them",
    LEAST + "query: SELECT 1": "1:1: table and query; expected one of them",
    CONNECTION + "query: SELECT 1\nschema: hr": (
        "1:1: schema without table; expected table: NAME, or no schema"
    ),
    CONNECTION + "query: SELECT 1\nurl: {column: link}": (
        "1:1: query without key; expected key: [COLUMN], unique for each row"
    ),
    CONNECTION + "table: people": (
        "1:1: no url; expected a template such as https://x.example.com/{id}, or {column: NAME}"
    ),
    CONNECTION + "query: ' ; '": "2:8: query: ' ; '; expected a query, SELECT …",
    CONNECTION + "url: https://x.example.com/": (
        "2:6: url: 'https://x.example.com/'; expected columns in braces, otherwise all rows have "
        "the same URL"
    ),
    "connection: postgresql://reader:hunter2@db.example.com/people": (
        "1:13: connection: a password in plain text; expected ${env:NAME} or ${file:PATH} instead"
    ),
}
KEY_ERRORS = {
    "action: {column: a}\ndeleted_at: b": "1:1: action and deleted_at; expected one of them",
    "key: id": "4:6: key: 'id'; expected a list of different columns",
    "key: [id, id]": "4:6: key: ['id', 'id']; expected a list of different columns",
    "mimetype: html": "4:11: mimetype: 'html'; expected a MIME type or keys and values: column",
    "content: body": "4:10: content: 'body'; expected {column: body}, or none",
    "content: {column: a, fetch: b}": "4:10: content: column, fetch; expected one of them",
    "content: {column: a, folder: b}": "4:10: content: folder without path; expected path: COLUMN",
    "metadata: [a, {name: b}]": "4:15: metadata[1]: expected a column or a query, and not both",
    "metadata: [{query: b}]": "4:12: metadata[0]: a query without a name; expected name: NAME",
    "metadata: [{name: a, query: b, separator: ;}]": (
        "4:12: metadata[0]: separator with query; expected it with column only"
    ),
    "action: {column: op, delete: []}": (
        "4:30: action.delete: []; expected the values that mean deleted, such as [D, delete]"
    ),
    "acl: {namespace: corp}": (
        "4:6: acl: no principals; expected users, groups, deny_users, deny_groups, query or "
        "inherit_from"
    ),
    "acl: {query: SELECT 1, users: a}": (
        "4:6: acl: query with columns of principals; expected one of both"
    ),
    "acl: {users: a, delimiter: \\}": (
        "4:28: acl.delimiter: '\\\\'; expected a delimiter such as \",\""
    ),
    "modified: {column: a, format: '%H:%M'}": (
        "4:31: modified.format: '%H:%M'; expected a format of whole dates such as %Y%m%d%H%M%S"
    ),
    "modified: {column: a, format: '%s'}": (
        "4:31: modified.format: '%s'; expected a format of whole dates such as %Y%m%d%H%M%S"
    ),
    "incremental: {lag: 1m}": (
        "4:14: incremental: neither timestamp nor deletes; expected at least one of them"
    ),
}


@pytest.mark.parametrize(
    ("text", "error"),
    [*ERRORS.items(), *((LEAST + text, error) for text, error in KEY_ERRORS.items())],
)
def test_an_error_names_the_place_and_the_fix(tmp_path: Path, text: str, error: str) -> None:
    assert errors(tmp_path, text) == error


@pytest.mark.parametrize("key", sorted(set(KEYS)))
def test_the_page_has_a_row_for_each_key(key: str) -> None:
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
    assert f"`{key}`" in rows


@pytest.mark.parametrize("name", ["mapping.yaml", "people.yaml"])
def test_the_examples_of_the_page_can_be_loaded(tmp_path: Path, name: str) -> None:
    assert loaded(tmp_path, EXAMPLES[name]).folder == str(tmp_path)


PEOPLE = (
    TableColumn("id", "INTEGER", is_nullable=False),
    TableColumn("name", "VARCHAR(80)"),
    TableColumn("body", "TEXT"),
    TableColumn("updated_at", "TIMESTAMP"),
)


def test_a_draft_describes_a_table_and_can_be_loaded(tmp_path: Path) -> None:
    draft = draft_mapping(PEOPLE, connection="sqlite:///people.db", table="people", key=["id"])
    assert "#   id: INTEGER, not NULL\n#   name: VARCHAR(80)\n" in draft
    assert loaded(tmp_path, draft) == RowMapping(
        connection="sqlite:///people.db",
        table="people",
        key=("id",),
        url="https://people.example.com/{id}",
        content=ContentSource(column="body"),
        title="name",
        modified="updated_at",
        metadata="all",
        incremental=IncrementalReading(timestamp="updated_at", deletes="compare"),
        folder=str(tmp_path),
    )


@pytest.mark.parametrize(
    ("column", "is_used"),
    [
        (TableColumn("deleted_at", "DATETIME"), True),
        (TableColumn("Deleted_At", "timestamp with time zone"), True),
        (TableColumn("deleted_at", "TIMESTAMP", is_nullable=False), False),
        (TableColumn("deleted_at", "BOOLEAN"), False),
        (TableColumn("deleted", "TIMESTAMP"), False),
    ],
)
def test_a_draft_uses_a_column_of_the_time_of_deletion(
    tmp_path: Path, column: TableColumn, is_used: bool
) -> None:
    draft = draft_mapping((*PEOPLE, column), connection="sqlite://", table="t", key=["id"])
    assert loaded(tmp_path, draft).deleted_at == (column.name if is_used else None)


def test_a_draft_leaves_a_time_of_another_type_to_its_user(tmp_path: Path) -> None:
    columns = (TableColumn("id", "INTEGER"), TableColumn("modified", "BOOLEAN"))
    draft = draft_mapping(columns, connection="sqlite://", table="t", key=["id"])
    assert loaded(tmp_path, draft).incremental is None
    assert "\n# incremental: {timestamp: updated_at, lag: 10m, deletes: compare}\n" in draft


def test_a_draft_of_any_names_can_be_loaded(tmp_path: Path) -> None:
    columns = [TableColumn("a key", "INT"), TableColumn("on", "TEXT"), TableColumn("Ö: x", "TEXT")]
    draft = draft_mapping(columns, connection="sqlite://", table="My Table", schema="null")
    assert "# There is no primary key." in draft
    assert loaded(tmp_path, draft) == RowMapping(
        connection="sqlite://",
        table="My Table",
        schema="null",
        key=("a key",),
        url="https://my-table.example.com/{a key}",
        metadata="all",
        folder=str(tmp_path),
    )


def test_a_draft_uses_a_column_of_urls_and_all_columns_of_the_key(tmp_path: Path) -> None:
    columns = (*PEOPLE, TableColumn("URL", "TEXT"))
    draft = draft_mapping(columns, connection="sqlite://", table="t", key=["name", "id"])
    assert loaded(tmp_path, draft).url == ColumnReference(column="URL")
    draft = draft_mapping(PEOPLE, connection="sqlite://", table="t", key=["name", "id"])
    assert 'url: "https://t.example.com/{name}/{id}"\n' in draft
