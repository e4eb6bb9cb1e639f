"""First mapping files: what they say of a table, and that they can be loaded as they are."""

from pathlib import Path

from transforms.sources.database.draft import Column, draft_mapping
from transforms.sources.database.mapping import ContentFrom, Mapping
from transforms.sources.database.mapping_file import load_mapping

PEOPLE = (
    Column("id", "INTEGER", is_nullable=False),
    Column("name", "VARCHAR(80)"),
    Column("body", "TEXT"),
    Column("updated_at", "TIMESTAMP"),
)


def loaded(folder: Path, text: str) -> Mapping:
    path = folder / "drafted.yaml"
    path.write_text(text, "utf-8")
    return load_mapping(path)


def test_a_draft_explains_itself() -> None:
    expected = """\
# How rows become records: see docs/formats/database.md. Whatever stands behind a # is an example.

# The database. A secret is named, never written down: ${env:NAME} or ${file:PATH}.
connection: "sqlite:///people.db"

table: people

# The columns that order the rows, and that no two rows share: here the primary key.
key: [id]

# The url of each document: put your own host here. Values are percent-encoded.
url: "https://people.example.com/{id}"

# The document: a column of text or bytes, {path: COLUMN}, {fetch: COLUMN},
# {template: FILE} or none. Without this key it is the row as a page of HTML.
content: {column: body}

# Columns of their own meaning.
title: name
modified: updated_at
# language: column

# All other columns are metadata. A list takes some, and can rename and part them:
# metadata: [dept, {column: tags, separator: ";"}, {name: phone, query: SELECT …}]
# The columns are:
#   id: INTEGER, never NULL
#   name: VARCHAR(80)
#   body: TEXT
#   updated_at: TIMESTAMP
metadata: all

# Later runs read what changed: by a column that only grows, and by comparing keys.
# incremental: {timestamp: updated_at, lag: 10m, deletes: compare}

# Columns of principals, or a query. Without this key documents have no ACL, and who reaches the
# appliance may see them.
# acl: {users: permit_users, groups: permit_groups, delimiter: ",", namespace: corp}

# The column that says that a row is deleted.
# action: {column: op, delete: [delete]}
"""
    drafted = draft_mapping(PEOPLE, connection="sqlite:///people.db", table="people", key=["id"])
    assert drafted == expected


def test_a_draft_can_be_loaded(tmp_path: Path) -> None:
    drafted = draft_mapping(PEOPLE, connection="sqlite:///people.db", table="people", key=["id"])
    assert loaded(tmp_path, drafted) == Mapping(
        connection="sqlite:///people.db",
        table="people",
        key=("id",),
        url="https://people.example.com/{id}",
        content=ContentFrom(column="body"),
        title="name",
        modified="updated_at",
        all_metadata=True,
        folder=str(tmp_path),
    )


def test_a_table_of_which_nothing_is_known_can_be_loaded(tmp_path: Path) -> None:
    columns = [Column("a key", "INT"), Column("on", "TEXT"), Column("Größe: x", "TEXT")]
    drafted = draft_mapping(columns, connection="sqlite://", table="My Table", schema="null")
    assert loaded(tmp_path, drafted) == Mapping(
        connection="sqlite://",
        table="My Table",
        schema="null",
        key=("a key",),
        url="https://my-table.example.com/{a key}",
        all_metadata=True,
        folder=str(tmp_path),
    )


def test_a_table_without_a_primary_key_is_told_so() -> None:
    drafted = draft_mapping(PEOPLE, connection="sqlite://", table="people")
    expected = (
        "# No primary key was found. Name the columns that order the rows, and that no two share.\n"
        "key: [id]\n"
    )
    assert expected in drafted


def test_a_key_of_several_columns_is_in_the_url() -> None:
    drafted = draft_mapping(PEOPLE, connection="sqlite://", table="t", key=["name", "id"])
    assert "key: [name, id]\n" in drafted
    assert 'url: "https://t.example.com/{name}/{id}"\n' in drafted


def test_a_column_of_urls_is_taken(tmp_path: Path) -> None:
    columns = (*PEOPLE, Column("URL", "TEXT"))
    drafted = draft_mapping(columns, connection="sqlite://", table="people", key=["id"])
    assert loaded(tmp_path, drafted).url_column == "URL"


def test_a_password_is_not_written_down(tmp_path: Path) -> None:
    drafted = draft_mapping(
        PEOPLE, connection="postgresql://reader:hunter2@db.example.com/x", table="people"
    )
    assert "hunter2" not in drafted
    assert loaded(tmp_path, drafted).connection == (
        "postgresql://reader:${env:DATABASE_PASSWORD}@db.example.com/x"
    )


def test_that_a_password_was_given_is_told() -> None:
    drafted = draft_mapping(
        PEOPLE, connection="postgresql://reader:hunter2@db.example.com/x", table="people"
    )
    expected = "# ${env:DATABASE_PASSWORD} stands for the password that was given.\n"
    assert expected in drafted
