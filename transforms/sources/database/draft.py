"""A first mapping file for a table: what its columns seem to be, for its user to go through."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from transforms.sources.database.connection_url import PASSWORD, hide_password

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NOT_TEXTS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "all"))
_TITLES = ("title", "name", "subject", "headline")
_DOCUMENTS = ("body", "content", "text", "document", "html", "article", "message")
_LINKS = ("url", "uri", "link", "href")
_TIMES = ("updated_at", "modified_at", "modified", "updated", "last_modified", "changed_at")
_LANGUAGES = ("language", "lang", "locale")
_HEAD = """\
# How rows become records: see docs/formats/database.md. Whatever stands behind a # is an example.

# The database. A secret is named, never written down: ${{env:NAME}} or ${{file:PATH}}.
connection: {connection}
"""
_REST = """\
# Columns of principals, or a query. Without this key documents have no ACL, and who reaches the
# appliance may see them.
# acl: {users: permit_users, groups: permit_groups, delimiter: ",", namespace: corp}

# The column that says that a row is deleted.
# action: {column: op, delete: [delete]}
"""


class Column(NamedTuple):
    """A column of a table, as its database describes it."""

    name: str
    type_name: str
    is_nullable: bool = True


def draft_mapping(
    columns: Sequence[Column],
    *,
    connection: str,
    table: str,
    schema: str | None = None,
    key: Sequence[str] = (),
) -> str:
    """Return the text of a mapping file; it can be loaded as it is, and shows no password."""
    parts = (
        _head(connection),
        _rows(table, schema),
        _key(columns, key),
        _url(columns, table, key or [columns[0].name]),
        _content(columns),
        _fields(columns),
        _metadata(columns),
        _incremental(columns),
        _REST,
    )
    return "\n".join(parts)


def _head(connection: str) -> str:
    hidden = hide_password(connection)
    note = "" if hidden == connection else f"# {PASSWORD} stands for the password that was given.\n"
    return _HEAD.format(connection=_quoted(hidden)) + note


def _rows(table: str, schema: str | None) -> str:
    said = f"table: {_quoted(table)}\n"
    return said if schema is None else said + f"schema: {_quoted(schema)}\n"


def _key(columns: Sequence[Column], key: Sequence[str]) -> str:
    if key:
        return (
            "# The columns that order the rows, and that no two rows share: here the primary key.\n"
            f"key: {_listed(key)}\n"
        )
    return (
        "# No primary key was found. Name the columns that order the rows, and that no two share.\n"
        f"key: {_listed([columns[0].name])}\n"
    )


def _url(columns: Sequence[Column], table: str, key: Sequence[str]) -> str:
    found = _find(columns, _LINKS)
    if found is not None:
        return (
            f"# The column that has the url of each document.\nurl: {{column: {_quoted(found)}}}\n"
        )
    names = "/".join(f"{{{name}}}" for name in key)
    return (
        "# The url of each document: put your own host here. Values are percent-encoded.\n"
        f"url: {_quoted(f'https://{_host(table)}.example.com/{names}')}\n"
    )


def _content(columns: Sequence[Column]) -> str:
    found = _find(columns, _DOCUMENTS)
    said = f"content: {{column: {_quoted(found)}}}\n" if found else "# content: {column: body}\n"
    return (
        "# The document: a column of text or bytes, {path: COLUMN}, {fetch: COLUMN},\n"
        "# {template: FILE} or none. Without this key it is the row as a page of HTML.\n" + said
    )


def _fields(columns: Sequence[Column]) -> str:
    guesses = (
        ("title", _find(columns, _TITLES)),
        ("modified", _find(columns, _TIMES)),
        ("language", _find(columns, _LANGUAGES)),
    )
    lines = (
        f"{field}: {_quoted(name)}\n" if name is not None else f"# {field}: column\n"
        for field, name in guesses
    )
    return "# Columns of their own meaning.\n" + "".join(lines)


def _metadata(columns: Sequence[Column]) -> str:
    listed = "\n".join(f"#   {' '.join(one.name.split())}: {_described(one)}" for one in columns)
    return (
        "# All other columns are metadata. A list takes some, and can rename and part them:\n"
        '# metadata: [dept, {column: tags, separator: ";"}, {name: phone, query: SELECT …}]\n'
        f"# The columns are:\n{listed}\nmetadata: all\n"
    )


def _described(column: Column) -> str:
    kind = " ".join(column.type_name.split())
    return kind if column.is_nullable else f"{kind}, never NULL"


def _incremental(columns: Sequence[Column]) -> str:
    found = _find(columns, _TIMES) or "updated_at"
    return (
        "# Later runs read what changed: by a column that only grows, and by comparing keys.\n"
        f"# incremental: {{timestamp: {_quoted(found)}, lag: 10m, deletes: compare}}\n"
    )


def _find(columns: Iterable[Column], names: Sequence[str]) -> str | None:
    """The column with the first of these names that there is."""
    found = {column.name.lower(): column.name for column in columns}
    return next((found[name] for name in names if name in found), None)


def _host(table: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", table.lower()).strip("-") or "rows"


def _listed(names: Iterable[str]) -> str:
    return f"[{', '.join(map(_quoted, names))}]"


def _quoted(text: str) -> str:
    """A text as YAML that reads as a text again."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXTS:
        return text
    return json.dumps(text, ensure_ascii=False)
