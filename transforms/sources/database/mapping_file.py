"""Mapping files: YAML that says which rows of a database are read, and what is made of them.

::

    connection: postgresql://reader:${env:PEOPLE_PASSWORD}@db.example.com/people
    table: people                         # or query: SELECT …; schema: hr
    key: [id]                             # orders the rows; of a table, its primary key
    url: https://people.example.com/{dept}/{id}       # or {column: link}
    content: {column: body}               # or path, fetch, template, none; else the row as a page
    mimetype: text/html                   # or {column: type}; else as the content shows
    title: name
    metadata: [all, {column: tags, separator: ";"}, {name: phone, query: SELECT …}]
    modified: updated_at
    action: {column: op, delete: [D]}
    acl: {users: permit_users, groups: permit_groups, namespace: corp}    # or query: SELECT …
    incremental: {timestamp: updated_at, lag: 10m, deletes: compare}

The same keys stand under `source:` of a job file. A path is relative to the folder of the file. A
secret is named, never written down: `${env:NAME}` and `${file:PATH}` are looked up on connecting.
"""

import re
from pathlib import Path
from typing import Any

import msgspec

from schemas.errors import ConfigError
from transforms.sources.database.connection_url import parse_connection
from transforms.sources.database.html import check_page_template
from transforms.sources.database.mapping import Columns, ContentFrom, Mapping
from transforms.sources.database.mapping_keys import (
    Of,
    parse_acl,
    parse_action,
    parse_column,
    parse_content,
    parse_incremental,
    parse_metadata,
    parse_name,
    parse_query,
    parse_template_or_column,
)
from transforms.sources.database.url_templates import template_columns
from transforms.sources.yaml_keys import (
    Parser,
    load_yaml,
    parse_count,
    parse_duration,
    parse_keys,
    parse_retries,
    parse_text,
    parse_words,
)

_MIMETYPE = re.compile(r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*(?:\s*;.*)?", re.IGNORECASE)
_CHARSET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")


def load_mapping(path: Path) -> Mapping:
    """Return what a YAML file says; raise ConfigError at the first that cannot be used."""
    said = load_yaml(path)
    try:
        return parse_mapping(said, folder=path.absolute().parent)
    except ConfigError as exc:
        raise ConfigError(f"{path}: {exc}") from exc


def parse_mapping(said: Any, *, folder: Path) -> Mapping:
    """Return what the keys of a file in `folder` say; raise ConfigError, which shows no secret."""
    if not isinstance(said, dict):
        raise ConfigError(f"{type(said).__name__}; expected keys and values, connection among them")
    keys = parse_keys(said, _PARSERS, required="connection")
    for field in ("url", "mimetype", "display_url"):
        if isinstance(keys.get(field), Of):
            keys[f"{field}_column"] = keys.pop(field).column
    mapping = Mapping(**_spread_metadata(keys), folder=str(folder))
    _check_rows(mapping)
    return msgspec.structs.replace(mapping, content=_placed(mapping.content, folder))


def _spread_metadata(keys: dict[str, Any]) -> dict[str, Any]:
    listed = keys.pop("metadata", ())
    columns = tuple(one for one in listed if isinstance(one, Columns))
    return {**keys, "metadata": columns, "all_metadata": len(columns) < len(listed)}


def _check_rows(mapping: Mapping) -> None:
    if (mapping.table is None) == (mapping.query is None):
        found = "neither of them" if mapping.table is None else "both"
        raise ConfigError(f"table, query: {found}; expected one of them, to tell which rows")
    if mapping.schema is not None and mapping.table is None:
        raise ConfigError("schema: no table to find in it; expected table beside it, or no schema")
    if mapping.query is not None and not mapping.key:
        raise ConfigError(
            "key: not given; expected the columns that order the rows of a query, and that no two "
            "of them share"
        )
    if mapping.url is None and mapping.url_column is None:
        raise ConfigError(
            "url: not given; expected a url with columns in braces, such as "
            "https://x.example.com/{id}, or {column: NAME}"
        )


def _placed(content: ContentFrom, folder: Path) -> ContentFrom:
    """The content with its paths where they lead; raise ConfigError where nothing is."""
    if content.template is not None:
        template = folder / content.template
        check_page_template(template)
        return msgspec.structs.replace(content, template=str(template))
    if content.path is None:
        return content
    files = folder / (content.folder or ".")
    if not files.is_dir():
        raise ConfigError(f"content: folder: {str(files)!r}; expected a folder that is there")
    return msgspec.structs.replace(content, folder=str(files))


def _parse_names(key: str, value: Any) -> tuple[str, ...]:
    names = parse_words(key, value)
    if not names or len(set(names)) < len(names) or not all(map(str.strip, names)):
        raise ConfigError(f"{key}: {value!r}; expected names of columns, each of them once")
    return names


def _parse_url(key: str, value: Any) -> str | Of:
    template = parse_template_or_column(key, value)
    if isinstance(template, str) and not template_columns(template):
        raise ConfigError(
            f"{key}: {template!r}; expected columns in braces, or all rows have the same url"
        )
    return template


def _parse_mimetype(key: str, value: Any) -> str | Of:
    if isinstance(value, dict):
        return parse_column(key, value)
    text = parse_text(key, value)
    if not _MIMETYPE.fullmatch(text):
        raise ConfigError(
            f"{key}: {text!r}; expected a type such as text/html, or {{column: NAME}}"
        )
    return text


def _parse_charset(key: str, value: Any) -> str:
    text = parse_text(key, value)
    if not _CHARSET.fullmatch(text):
        raise ConfigError(f"{key}: {text!r}; expected a charset such as utf-8")
    return text


# Last, for they name what stands above.
_PARSERS: dict[str, tuple[str, Parser]] = {
    "connection": ("connection", parse_connection),
    "table": ("table", parse_name),
    "schema": ("schema", parse_name),
    "query": ("query", parse_query),
    "key": ("key", _parse_names),
    "url": ("url", _parse_url),
    "content": ("content", parse_content),
    "mimetype": ("mimetype", _parse_mimetype),
    "charset": ("charset", _parse_charset),
    "title": ("title", parse_name),
    "description": ("description", parse_name),
    "keywords": ("keywords", parse_name),
    "language": ("language", parse_name),
    "metadata": ("metadata", parse_metadata),
    "display_url": ("display_url", parse_template_or_column),
    "modified": ("modified", parse_name),
    "action": ("action", parse_action),
    "acl": ("acl", parse_acl),
    "incremental": ("incremental", parse_incremental),
    "page_rows": ("page_rows", parse_count),
    "retries": ("retries", parse_retries),
    "backoff": ("backoff_seconds", parse_duration),
}
