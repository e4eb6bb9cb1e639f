"""The keys of a mapping file: how the rows of a table or query become records.

Each field of a struct is one key; its type has the rules for values, see `yaml_structs`. The keys
are documented in docs/formats/database.md.
"""

import hashlib
import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from feedferry.transforms.config.yaml_structs import (
    Duration,
    Positive,
    PositiveDuration,
    Text,
    Value,
    parse_text,
    several,
    text_where,
)
from feedferry.transforms.sources.database.mapping.columns import ColumnReference, parse_template

DATABASE = "database"
"""The format of spans that are key ranges of a database."""

TIMESTAMP = "incremental: timestamp"
"""The key of the timestamp column, in messages."""

ESCAPE = "\\"
"""Before a delimiter of a list of principals, it makes the delimiter a part of a name."""

_LOGIN = re.compile(r"(?<=://).*@")  # greedy: a reference in it can hold slashes


def _parse_connection(value: object) -> str:
    # SQLAlchemy loads slowly
    from feedferry.transforms.sources.database.mapping.connection_url import check_connection  # noqa: PLC0415

    return check_connection(parse_text(value))


def _parse_query(value: object) -> str:
    """Return a query without its semicolon, since it may become a subquery."""
    return parse_text(parse_text(value).strip().rstrip(";").rstrip())


def _parse_key(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or len(set(map(str, value))) < len(value):
        raise ValueError
    return tuple(map(parse_text, value))


def _parse_url(value: object) -> str:
    template = parse_text(value)
    if not any(column for _, column in parse_template(template)):
        raise ValueError(
            f"{template!r}; expected columns in braces, otherwise all rows have the same URL"
        )
    return template


def _is_date_format(text: str) -> bool:
    """Whether a format of `strptime` states a whole date."""
    sample = datetime(2001, 12, 31)
    with suppress(ValueError):  # an unknown directive
        return datetime.strptime(f"{sample:{text}}", text).date() == sample.date()
    return False


def _parse_delete_value(value: object) -> str:
    if not isinstance(value, str | int):
        raise ValueError
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse_delimiter(value: object) -> str:
    if not isinstance(value, str) or value in ("", ESCAPE):
        raise ValueError
    return value


_Column = Annotated[str, Value(parse_text, "the name of a column")]
_Query = Annotated[str, Value(_parse_query, "a query, SELECT …")]
_MimeType = Annotated[str, Value(text_where(lambda text: "/" in text), "a MIME type")]
_Template = Annotated[str, Value(text_where(parse_template), "an absolute URL with columns")]


class MetadataColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A metadata name and its values: a `column`, split at a `separator`, or a `query` of its own.

    `all` means the columns that the list does not mention.
    """

    column: _Column | None = None
    name: Text = ""
    separator: Annotated[str, Value(_parse_delimiter, 'a separator such as ";"')] | None = None
    query: _Query | None = None
    is_all: bool = msgspec.field(default=False, name="_is_all")

    @classmethod
    def from_scalar(cls, value: object) -> "MetadataColumn":
        text = parse_text(value)
        return ALL_COLUMNS if text == "all" else cls(column=text)

    @property
    def label(self) -> str:
        """The metadata name: that of the column unless another is given."""
        return self.name or self.column or ""

    def check(self) -> None:
        if (self.column is None) == (self.query is None):
            raise ValueError("expected a column or a query, and not both")
        if self.query is not None and not self.name:
            raise ValueError("a query without a name; expected name: NAME")
        if self.query is not None and self.separator is not None:
            raise ValueError("separator with query; expected it with column only")


ALL_COLUMNS = MetadataColumn(is_all=True)


class DateColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of texts or integers that are dates in a `format` of `strptime`."""

    column: _Column
    format: Annotated[
        str, Value(text_where(_is_date_format), "a format of whole dates such as %Y%m%d%H%M%S")
    ]


class ContentSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where the content of a document is; without any key, the row is rendered as an HTML page.

    `column` holds it; `path` is a column of paths below `folder`; `fetch` is a column of URLs;
    `template` is the path of a Jinja2 template for the page.
    """

    column: _Column | None = None
    path: _Column | None = None
    folder: Text | None = None
    fetch: _Column | None = None
    timeout_seconds: PositiveDuration = msgspec.field(default=30.0, name="timeout")
    template: Text | None = None
    is_none: bool = msgspec.field(default=False, name="_is_none")

    @classmethod
    def from_scalar(cls, value: object) -> "ContentSource":
        if value != "none":
            raise ValueError(f"{value!r}; expected {{column: {value}}}, or none")
        return cls(is_none=True)

    @property
    def columns(self) -> dict[str, str]:
        """The column that holds the document or its place, by its key of the mapping."""
        columns = {"column": self.column, "path": self.path, "fetch": self.fetch}
        return {key: name for key, name in columns.items() if name is not None}

    @property
    def is_page(self) -> bool:
        """Whether a page is rendered from all columns of the row."""
        return not (self.is_none or self.columns)

    def check(self) -> None:
        places = [name for name in ("column", "path", "fetch", "template") if getattr(self, name)]
        if len(places) > 1:
            raise ValueError(f"{', '.join(places)}; expected one of them")
        if self.folder is not None and self.path is None:
            raise ValueError("folder without path; expected path: COLUMN")


class ActionColumn(msgspec.Struct, frozen=True, kw_only=True):
    """The column that marks deletions by one of the `delete` values; their case does not matter."""

    column: _Column
    delete: Annotated[
        tuple[str, ...],
        Value(several(_parse_delete_value), "the values that mean deleted, such as [D, delete]"),
    ] = ("delete",)


class AclSource(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of principals, split at `delimiter`, or a `query` for them.

    The query selects the key columns, then name, scope (user, group), access (permit, deny) and
    optionally a namespace. `inherit_from` is a URL template or a column. A `case_sensitive` of
    `None` is not stated.
    """

    users: _Column | None = None
    groups: _Column | None = None
    deny_users: _Column | None = None
    deny_groups: _Column | None = None
    delimiter: Annotated[str, Value(_parse_delimiter, 'a delimiter such as ","')] = ","
    query: _Query | None = None
    namespace: Text | None = None
    case_sensitive: bool | None = None
    inherit_from: _Template | ColumnReference | None = None
    inheritance: (
        Literal["parent-overrides", "child-overrides", "and-both-permit", "leaf-node"] | None
    ) = None

    @property
    def columns(self) -> dict[str, str]:
        """The columns that hold principals or the parent, by their key of the mapping."""
        keys = ("users", "groups", "deny_users", "deny_groups")
        columns = {key: name for key in keys if (name := getattr(self, key)) is not None}
        if isinstance(self.inherit_from, ColumnReference):
            columns["inherit_from"] = self.inherit_from.column
        return columns

    def check(self) -> None:
        has_lists = bool(self.columns.keys() - {"inherit_from"})
        if self.query is not None and has_lists:
            raise ValueError("query with columns of principals; expected one of both")
        if self.query is None and self.inherit_from is None and not has_lists:
            raise ValueError(
                "no principals; expected users, groups, deny_users, deny_groups, query or "
                "inherit_from"
            )


class IncrementalReading(msgspec.Struct, frozen=True, kw_only=True):
    """How later runs find changes and deletions.

    Rows above the highest `timestamp` of the last run, less the lag, are read. `deletes` is a query
    for the keys of deleted rows, or `compare`, to compare all keys with those of the last run.
    """

    timestamp: _Column | None = None
    lag_seconds: Duration = msgspec.field(default=600.0, name="lag")
    deletes: _Query | None = None

    @property
    def compares_keys(self) -> bool:
        return self.deletes == "compare"

    @property
    def deletes_query(self) -> str | None:
        return None if self.compares_keys else self.deletes

    def check(self) -> None:
        if self.timestamp is None and self.deletes is None:
            raise ValueError("neither timestamp nor deletes; expected at least one of them")


class RowMapping(msgspec.Struct, frozen=True, kw_only=True):
    """A database, the rows that are read from it, and the parts of their records.

    `connection` is a SQLAlchemy URL with references in place of secrets. `key` names the columns
    that order the rows and that are unique; empty, it is the primary key of the table. `folder` is
    the folder of the mapping file.
    """

    connection: Annotated[str, Value(_parse_connection, "the URL of a database")]
    table: Text | None = None
    schema: Text | None = None
    query: _Query | None = None
    key: Annotated[tuple[str, ...], Value(_parse_key, "a list of different columns")] = ()
    url: Annotated[str, Value(_parse_url, "a URL template")] | ColumnReference | None = None
    content: ContentSource = ContentSource()
    mimetype: _MimeType | ColumnReference | None = None
    charset: Text | None = None
    title: _Column | None = None
    description: _Column | None = None
    keywords: _Column | None = None
    metadata: Literal["all"] | tuple[MetadataColumn, ...] = ()
    display_url: _Template | ColumnReference | None = None
    modified: _Column | DateColumn | None = None
    action: ActionColumn | None = None
    deleted_at: _Column | None = None
    acl: AclSource | None = None
    incremental: IncrementalReading | None = None
    page_rows: Positive = 1000
    folder: str = msgspec.field(default=".", name="_folder")

    @property
    def rows_name(self) -> str:
        """The name of the rows in messages."""
        return f"table {self.table!r}" if self.table else "the query"

    @property
    def metadata_columns(self) -> tuple[MetadataColumn, ...]:
        return (ALL_COLUMNS,) if isinstance(self.metadata, str) else self.metadata

    @property
    def reading(self) -> IncrementalReading:
        return self.incremental or IncrementalReading()

    @property
    def timestamp(self) -> str | None:
        return self.reading.timestamp

    def resolve(self, path: str) -> Path:
        """Return a path of the mapping, which is relative to the folder of its file."""
        return Path(self.folder) / path

    def check(self) -> None:
        if (self.table is None) == (self.query is None):
            problem = "neither table nor query" if self.table is None else "table and query"
            raise ValueError(f"{problem}; expected one of them")
        if self.schema is not None and self.table is None:
            raise ValueError("schema without table; expected table: NAME, or no schema")
        if self.query is not None and not self.key:
            raise ValueError("query without key; expected key: [COLUMN], unique for each row")
        if self.url is None:
            raise ValueError(
                "no url; expected a template such as https://x.example.com/{id}, or {column: NAME}"
            )
        if self.action is not None and self.deleted_at is not None:
            raise ValueError("action and deleted_at; expected one of them")


def rules_of(mapping: RowMapping) -> str:
    """Return a fingerprint of the settings that decide about records.

    It leaves out login, the folder of the mapping file, paging, the lag and the query for deletes:
    records do not depend on them. It contains the text of a template.
    """
    template, defaults = mapping.content.template, RowMapping(connection="")
    deletes = "compare" if mapping.reading.compares_keys else None
    rules = replace(
        mapping,
        connection=_LOGIN.sub("", mapping.connection),
        incremental=replace(mapping.reading, lag_seconds=0, deletes=deletes),
        page_rows=defaults.page_rows,
        folder=defaults.folder,
    )
    text = b"" if template is None else mapping.resolve(template).read_bytes()
    return hashlib.sha256(msgspec.json.encode(rules, order="sorted") + text).hexdigest()
