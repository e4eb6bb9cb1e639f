"""Mapping files: what they say, and what they cannot say."""

from pathlib import Path

import pytest

from schemas.errors import ConfigError
from transforms.sources.database.mapping import (
    AclFrom,
    ActionFrom,
    Columns,
    ContentFrom,
    Incremental,
    Mapping,
)
from transforms.sources.database.mapping_file import load_mapping, parse_mapping

LEAST = "connection: sqlite:///people.db\ntable: people\nurl: https://x.example.com/{id}\n"
KEYS = (
    "connection, table, schema, query, key, url, content, mimetype, charset, title, description, "
    "keywords, language, metadata, display_url, modified, action, acl, incremental, page_rows, "
    "retries, backoff"
)


def loaded(folder: Path, text: str) -> Mapping:
    path = folder / "people.yaml"
    path.write_text(text, "utf-8")
    return load_mapping(path)


def refusal(folder: Path, text: str) -> str:
    """What is said of a file, behind its name."""
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text)
    name, _, reason = str(caught.value).partition(": ")
    assert name == str(folder / "people.yaml")
    return reason


def test_little_is_enough_and_the_rest_is_as_usual(tmp_path: Path) -> None:
    assert loaded(tmp_path, LEAST) == Mapping(
        connection="sqlite:///people.db",
        table="people",
        schema=None,
        query=None,
        key=(),
        url="https://x.example.com/{id}",
        url_column=None,
        content=ContentFrom(),
        mimetype=None,
        mimetype_column=None,
        charset=None,
        metadata=(),
        all_metadata=False,
        title=None,
        description=None,
        keywords=None,
        language=None,
        display_url=None,
        display_url_column=None,
        modified=None,
        action=None,
        acl=None,
        incremental=None,
        page_rows=1000,
        retries=5,
        backoff_seconds=1,
        folder=str(tmp_path),
    )


def test_all_can_be_said_of_a_table(tmp_path: Path) -> None:
    text = """
connection: postgresql+psycopg://reader:${env:PEOPLE_PASSWORD}@db.example.com/people
table: people
schema: hr
key: [dept, id]
url: https://people.example.com/{dept}/{id}
content: {column: body}
mimetype: text/html
charset: utf-8
title: name
description: about
keywords: words
language: lang
metadata:
  - all
  - title
  - {column: dept, name: Department}
  - {column: tags, separator: ";"}
  - {name: phone, query: "SELECT id, phone FROM phones;"}
display_url: https://www.example.com/{id}
modified: updated_at
action: {column: op, delete: [D, 1, true]}
acl:
  users: permit_users
  groups: permit_groups
  deny_users: no_users
  deny_groups: no_groups
  delimiter: "|"
  namespace: corp
  case_sensitive: false
  inherit_from: https://people.example.com/{dept}/
  inheritance: child-overrides
incremental: {timestamp: updated_at, lag: 10m, deletes: "SELECT id FROM gone"}
page_rows: 500
retries: 0
backoff: 200ms
"""
    assert loaded(tmp_path, text) == Mapping(
        connection="postgresql+psycopg://reader:${env:PEOPLE_PASSWORD}@db.example.com/people",
        table="people",
        schema="hr",
        key=("dept", "id"),
        url="https://people.example.com/{dept}/{id}",
        content=ContentFrom(column="body"),
        mimetype="text/html",
        charset="utf-8",
        title="name",
        description="about",
        keywords="words",
        language="lang",
        metadata=(
            Columns(name="title", column="title"),
            Columns(name="Department", column="dept"),
            Columns(name="tags", column="tags", separator=";"),
            Columns(name="phone", query="SELECT id, phone FROM phones"),
        ),
        all_metadata=True,
        display_url="https://www.example.com/{id}",
        modified="updated_at",
        action=ActionFrom(column="op", delete=("D", "1", "true")),
        acl=AclFrom(
            users="permit_users",
            groups="permit_groups",
            deny_users="no_users",
            deny_groups="no_groups",
            delimiter="|",
            namespace="corp",
            case_sensitive=False,
            inherit_from="https://people.example.com/{dept}/",
            inheritance="child-overrides",
        ),
        incremental=Incremental(
            timestamp="updated_at", lag_seconds=600, deletes="SELECT id FROM gone"
        ),
        page_rows=500,
        retries=0,
        backoff_seconds=0.2,
        folder=str(tmp_path),
    )


def test_columns_can_be_named_in_place_of_texts(tmp_path: Path) -> None:
    text = """
connection: ${file:/run/secrets/url}
query: " SELECT id, link FROM people ; "
key: [id]
url: {column: link}
mimetype: {column: type}
display_url: {column: shown}
acl: {query: SELECT id FROM acl, inherit_from: {column: parent}}
incremental: {deletes: compare}
metadata: all
content: none
"""
    assert loaded(tmp_path, text) == Mapping(
        connection="${file:/run/secrets/url}",
        query="SELECT id, link FROM people",
        key=("id",),
        url_column="link",
        content=ContentFrom(is_none=True),
        mimetype_column="type",
        all_metadata=True,
        display_url_column="shown",
        acl=AclFrom(query="SELECT id FROM acl", inherit_from_column="parent"),
        incremental=Incremental(compares_keys=True),
        folder=str(tmp_path),
    )


def test_the_keys_can_stand_in_another_file(tmp_path: Path) -> None:
    said = {"connection": "sqlite://", "table": "people", "url": {"column": "link"}}
    assert parse_mapping(said, folder=tmp_path) == Mapping(
        connection="sqlite://", table="people", url_column="link", folder=str(tmp_path)
    )


def test_the_folder_of_a_file_is_known_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "people.yaml").write_text(LEAST)
    monkeypatch.chdir(tmp_path)
    assert load_mapping(Path("people.yaml")).folder == str(tmp_path)


def test_files_are_below_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    found = loaded(tmp_path, LEAST + "content: {path: file, folder: files}")
    assert found.content == ContentFrom(path="file", folder=str(tmp_path / "files"))


def test_files_are_in_the_folder_of_the_file_unless_another_is_said(tmp_path: Path) -> None:
    found = loaded(tmp_path, LEAST + "content: {path: file}")
    assert found.content == ContentFrom(path="file", folder=str(tmp_path))


def test_a_template_is_in_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "page.j2").write_text("{{ id }}")
    found = loaded(tmp_path, LEAST + "content: {template: page.j2}")
    assert found.content == ContentFrom(template=str(tmp_path / "page.j2"))


def test_a_template_that_does_not_parse_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.j2").write_text("{{ id")
    expected = (
        f"{tmp_path / 'page.j2'}:1: unexpected end of template, expected 'end of print "
        "statement'.; expected a Jinja2 template"
    )
    assert refusal(tmp_path, LEAST + "content: {template: page.j2}") == expected


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    expected = f"content: folder: '{tmp_path / 'none'}'; expected a folder that is there"
    assert refusal(tmp_path, LEAST + "content: {path: file, folder: none}") == expected


def test_a_url_may_be_fetched_for_a_while(tmp_path: Path) -> None:
    found = loaded(tmp_path, LEAST + "content: {fetch: link, timeout: 2m}")
    assert found.content == ContentFrom(fetch="link", timeout_seconds=120)


def test_a_lag_may_be_none(tmp_path: Path) -> None:
    found = loaded(tmp_path, LEAST + "incremental: {timestamp: at, lag: 0s}")
    assert found.incremental == Incremental(timestamp="at", lag_seconds=0)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    with pytest.raises(ConfigError) as caught:
        load_mapping(path)

    assert str(caught.value) == (
        f"{path}: No such file or directory; expected a file that can be read"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "NoneType; expected keys and values, connection among them"),
        (
            "postgresql//reader:hunter2@db.example.com/people",
            "str; expected keys and values, connection among them",
        ),
        (
            "[{connection: hunter2}]",
            "list; expected keys and values, connection among them",
        ),
        ("table: people", "connection: not given; expected it beside table"),
        (
            "connection: sqlite://\ntabel: people",
            f"'tabel'; expected one of {KEYS}; did you mean 'table'?",
        ),
        (
            "connection: postgresql://reader:hunter2@db.example.com/people",
            "connection: a password as it is; expected ${env:NAME} or ${file:PATH} in its place",
        ),
        (
            "connection: sqlite://\nurl: https://x.example.com/{id}",
            "table, query: neither of them; expected one of them, to tell which rows",
        ),
        (
            LEAST + "query: SELECT 1",
            "table, query: both; expected one of them, to tell which rows",
        ),
        (
            "connection: sqlite://\nquery: SELECT 1\nschema: hr",
            "schema: no table to find in it; expected table beside it, or no schema",
        ),
        (
            "connection: sqlite://\nquery: SELECT 1\nurl: {column: link}",
            "key: not given; expected the columns that order the rows of a query, and that no two "
            "of them share",
        ),
        (
            "connection: sqlite://\ntable: people",
            "url: not given; expected a url with columns in braces, such as "
            "https://x.example.com/{id}, or {column: NAME}",
        ),
        (LEAST + "key: id", "key: 'id'; expected a list: [id]"),
        (LEAST + "key: []", "key: []; expected names of columns, each of them once"),
        (
            LEAST + "key: [id, id]",
            "key: ['id', 'id']; expected names of columns, each of them once",
        ),
        (LEAST + "schema: ' '", "schema: ' '; expected a name"),
        (LEAST + "schema: 7", "schema: 7; expected a text, so put it in quotes"),
        (
            "connection: sqlite://\nquery: ' ; '",
            "query: ' ; '; expected a query, SELECT …",
        ),
        (
            "connection: sqlite://\nurl: https://x.example.com/",
            "url: 'https://x.example.com/'; expected columns in braces, or all rows have the same "
            "url",
        ),
        (
            "connection: sqlite://\nurl: /{id}",
            "url: '/{id}'; expected an absolute url, such as https://x.example.com/{id}",
        ),
        (
            "connection: sqlite://\nurl: {colum: link}",
            "url: 'colum'; expected one of column; did you mean 'column'?",
        ),
        (LEAST + "display_url: {}", "display_url: column: not given; expected it"),
        (
            LEAST + "mimetype: html",
            "mimetype: 'html'; expected a type such as text/html, or {column: NAME}",
        ),
        (LEAST + "charset: 'ü'", "charset: 'ü'; expected a charset such as utf-8"),
        (LEAST + "page_rows: 0", "page_rows: 0; expected a number, 1 or more"),
        (LEAST + "retries: -1", "retries: -1; expected a number, 0 or more"),
        (
            LEAST + "backoff: 1",
            "backoff: 1; expected a duration such as 200ms, 90s or 2h",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    assert refusal(tmp_path, text) == expected
