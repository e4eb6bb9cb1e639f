"""Draft a mapping file for a table from the names of its columns, for a person to edit."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from feedferry.transforms.config.yaml_structs import PLACEHOLDER, quote_text

_TITLES = ("title", "name", "subject", "headline")
_DOCUMENTS = ("body", "content", "text", "document", "html", "article", "message")
_LINKS = ("url", "uri", "link", "href")
_DELETIONS = ("deleted_at", "deleted_on", "removed_at")
_TIMES = ("updated_at", "modified_at", "modified", "updated", "last_modified", "changed_at")
_TIME_TYPE = re.compile("DATE|TIMESTAMP|TEXT$", re.IGNORECASE)
_DRAFT = """\
# How rows become records: see docs/formats/database.md. Lines with a # are examples.

# The database. Secrets are references: ${{env:NAME}} or ${{file:PATH}}.
connection: {connection}

table: {table}
{schema}
# {key_note}
key: [{key}]

# {url_note}
url: {url}

# The document: a column of text or bytes, {{path: COLUMN}}, {{fetch: COLUMN}},
# {{template: FILE}} or none. Without this key, the row is rendered as an HTML page.
{content}

# Columns for fields of the record.
{fields}

# The other columns are metadata. A list selects, renames and splits columns:
# metadata: [dept, {{column: tags, separator: ";"}}, {{name: phone, query: SELECT …}}]
# The columns are:
{columns}
metadata: all

# Later runs read changes by a timestamp column, and find deletions by comparing all keys.
{incremental}incremental: {{timestamp: {timestamp}, lag: 10m, deletes: compare}}

# Columns of principals, or a query. Without this key, documents have no ACL: all users of the
# appliance can see them.
# acl: {{users: permit_users, groups: permit_groups, delimiter: ",", namespace: corp}}

# The column that marks deleted rows: by a value, or by not being NULL.
# action: {{column: op, delete: [delete]}}
{deletion}deleted_at: {deleted_at}
"""


class TableColumn(NamedTuple):
    """A column of a table, as its database describes it."""

    name: str
    type_name: str
    is_nullable: bool = True


def draft_mapping(
    columns: Sequence[TableColumn],
    *,
    connection: str,
    table: str,
    schema: str | None = None,
    key: Sequence[str] = (),
) -> str:
    """Return the text of a mapping file, which can be loaded."""
    link, document = _find(columns, _LINKS), _find(columns, _DOCUMENTS)
    times = [column for column in columns if _TIME_TYPE.match(column.type_name)]
    timestamp = _find(times, _TIMES)
    deleted_at = _find((column for column in times if column.is_nullable), _DELETIONS)
    key_note = "The columns that order the rows and are unique: the primary key."
    if not key:
        key = [columns[0].name]
        key_note = "There is no primary key. Name the columns that order the rows and are unique."
    host = re.sub(r"[^a-z0-9]+", "-", table.lower()).strip("-") or "rows"
    template = f"https://{host}.{PLACEHOLDER}.com/" + "/".join(f"{{{name}}}" for name in key)
    return _DRAFT.format(
        connection=quote_text(connection),
        table=quote_text(table),
        schema="" if schema is None else f"schema: {quote_text(schema)}\n",
        key_note=key_note,
        key=", ".join(map(quote_text, key)),
        url_note="The column with the URL of each document."
        if link
        else "The URL of each document: replace the host. Values are percent-encoded.",
        url=f"{{column: {quote_text(link)}}}" if link else quote_text(template),
        content=f"content: {{column: {quote_text(document)}}}"
        if document
        else "# content: {column: body}",
        fields="\n".join(
            f"{field}: {quote_text(name)}" if name else f"# {field}: column"
            for field, names in (("title", _TITLES), ("modified", _TIMES))
            for name in [_find(columns, names)]
        ),
        columns="\n".join(map(_describe, columns)),
        incremental="" if timestamp else "# ",
        timestamp=quote_text(timestamp or "updated_at"),
        deletion="" if deleted_at else "# ",
        deleted_at=quote_text(deleted_at or "deleted_at"),
    )


def _describe(column: TableColumn) -> str:
    nullable = "" if column.is_nullable else ", not NULL"
    return f"#   {' '.join(column.name.split())}: {' '.join(column.type_name.split())}{nullable}"


def _find(columns: Iterable[TableColumn], names: Sequence[str]) -> str | None:
    """Return the column with the first of these names."""
    by_name = {column.name.lower(): column.name for column in columns}
    return next((by_name[name] for name in names if name in by_name), None)
