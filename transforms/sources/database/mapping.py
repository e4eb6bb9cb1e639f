"""How the rows of a table or query become records: the keys of a mapping file, as structs."""

import msgspec

DATABASE = "database"
"""The format of a source that a mapping is of, and of a span that is a range of its rows."""


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """One metadata name and where its values come from: a `column`, or a `query` of its own.

    A `separator` parts the values of a column. The query selects the key columns, then one value,
    and may give any number of rows for a key.
    """

    name: str
    column: str | None = None
    separator: str | None = None
    query: str | None = None


class ContentFrom(msgspec.Struct, frozen=True, kw_only=True):
    """Where the content of a document comes from: one of these; with none of them, from its row.

    `column` holds it; `path` is a column of paths below `folder`; `fetch` is a column of urls;
    `template` is the path of a Jinja2 template that renders the row, instead of a plain table.
    """

    column: str | None = None
    path: str | None = None
    folder: str | None = None
    fetch: str | None = None
    timeout_seconds: float = 30
    template: str | None = None
    is_none: bool = False


class ActionFrom(msgspec.Struct, frozen=True, kw_only=True):
    """The column that says `delete`, or one of these `delete` values, in any case."""

    column: str
    delete: tuple[str, ...] = ("delete",)


class AclFrom(msgspec.Struct, frozen=True, kw_only=True):
    r"""Columns of principals, parted by `delimiter`, which a `\` before it makes a character.

    Or a `query` that selects the key columns, then name, scope (user, group), access (permit,
    deny) and, if it likes, a namespace. `inherit_from` is a url template, which may name no column;
    `inheritance` is spelled as in a feed. `case_sensitive` of `None` is not stated.
    """

    users: str | None = None
    groups: str | None = None
    deny_users: str | None = None
    deny_groups: str | None = None
    delimiter: str = ","
    query: str | None = None
    namespace: str | None = None
    case_sensitive: bool | None = None
    inherit_from: str | None = None
    inherit_from_column: str | None = None
    inheritance: str | None = None


class Incremental(msgspec.Struct, frozen=True, kw_only=True):
    """How a run finds what changed since the last: by a `timestamp` column that only grows.

    Rows up to `lag_seconds` before the mark are read again, for those that were committed late.
    Deletions are the rows of the `deletes` query, which selects the key columns, or, with
    `compares_keys`, the keys that the last run had and this one has not.
    """

    timestamp: str | None = None
    lag_seconds: float = 600
    deletes: str | None = None
    compares_keys: bool = False


class Mapping(msgspec.Struct, frozen=True, kw_only=True):
    """A database, the rows that are read of it, and what their records are made of.

    `connection` is a SQLAlchemy url whose secrets are references. Either `table` (in `schema`) or
    `query` names the rows, `key` the columns that order them and that no two rows share; empty, it
    is the primary key of the table. Urls come from `url`, a template with column names in braces,
    or from `url_column`; so do display urls. With `all_metadata` each column is metadata by its own
    name, but for those that `metadata` says otherwise. `folder` is where the mapping file stands.
    """

    connection: str
    table: str | None = None
    schema: str | None = None
    query: str | None = None
    key: tuple[str, ...] = ()
    url: str | None = None
    url_column: str | None = None
    content: ContentFrom = ContentFrom()
    mimetype: str | None = None
    mimetype_column: str | None = None
    charset: str | None = None
    metadata: tuple[Columns, ...] = ()
    all_metadata: bool = False
    title: str | None = None
    description: str | None = None
    keywords: str | None = None
    language: str | None = None
    display_url: str | None = None
    display_url_column: str | None = None
    modified: str | None = None
    action: ActionFrom | None = None
    acl: AclFrom | None = None
    incremental: Incremental | None = None
    page_rows: int = 1000
    retries: int = 5
    backoff_seconds: float = 1
    folder: str = "."
