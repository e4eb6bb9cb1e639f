"""The file with the ACLs that a job keeps: its tables and its versions.

Each URL that ACLs inherit from is in it only once. The view `acls` has the columns of the table in
the database of a run.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

import msgspec

from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.steps.stated.acl_bytes import NO_ACL, packed, packed_before
from feedferry.transforms.steps.stated.stated_store import ACLS_TABLE, STATED_SCHEMA, TABLES
from feedferry.transforms.storage.files.scratch import (
    has_table,
    pack_rows,
    read_scratch,
    whole_scratch,
)

_ACLS_TABLE = """TABLE acls (
    url TEXT, datasource TEXT, acl BLOB, alone INTEGER, is_parent INTEGER, number INTEGER,
    is_incremental INTEGER, origin TEXT, parent TEXT, feed INTEGER, place INTEGER,
    PRIMARY KEY (url, datasource)
) WITHOUT ROWID
"""
_OTHER_TABLES = """
CREATE TABLE feeds (number INTEGER PRIMARY KEY, run TEXT, source TEXT, UNIQUE (run, source));
CREATE TABLE doubts (number INTEGER, reject BLOB);
CREATE TABLE job_datasources (name TEXT PRIMARY KEY) WITHOUT ROWID
"""
ACLS_SCHEMA = f"CREATE {_ACLS_TABLE}; {_OTHER_TABLES}"
"""An ACL without a value is unknown. `number` counts ACLs, `origin` is the URL before all steps.
The number is 0 if `clear_kept` has made the ACL unknown, and `NOT_HIDDEN` if a run has: no document
is hidden by that, but by a change of an ACL above it. It is `UNSURE` where the target may have the
ACL of an abandoned run: the next run hides the document, and those below.

A datasource has one ACL for a URL; a datasource that is not stated is an empty text. The ACL of a
document that states none is nil, `x'C0'`. A doubt is a reject that may be a newer version of any
ACL up to its number. `feed` and `place` are where the ACL was read, or the reject that makes it
unknown: a place is a line, or an offset below 0. An abandoned run has no source.
"""

NOT_HIDDEN = -1
UNSURE = -2

_VERSION, _VERSION_BEFORE = 3, 2
_FILE_SCHEMA = f"""
PRAGMA user_version = {_VERSION};
{_OTHER_TABLES};
CREATE TABLE kept (
    url TEXT, datasource TEXT, acl BLOB, alone INTEGER, is_parent INTEGER, number INTEGER,
    origin TEXT, parent INTEGER, feed INTEGER, place INTEGER, PRIMARY KEY (url, datasource)
) WITHOUT ROWID;
CREATE TABLE parents (number INTEGER PRIMARY KEY, url TEXT, is_end INTEGER, UNIQUE (url, is_end));
CREATE VIEW acls AS SELECT
    kept.url, datasource,
    CASE WHEN is_end THEN CAST(acl || parents.url AS BLOB) ELSE acl END AS acl,
    alone, is_parent, kept.number AS number, FALSE AS is_incremental, origin,
    parents.url AS parent, feed, place
FROM kept LEFT JOIN parents ON kept.parent = parents.number
"""
"""Where a parent `is_end` of the bytes of ACLs, these are kept without it."""

_ENDS = "ifnull(substr(acl, -length(CAST(parent AS BLOB))) = CAST(parent AS BLOB), FALSE)"
_KEEP = (
    "INSERT OR IGNORE INTO {0}.parents (url, is_end)"
    f" SELECT DISTINCT parent, {_ENDS} FROM acls WHERE parent NOT NULL AND ({{1}})",
    "INSERT INTO {0}.kept SELECT acls.url, datasource,"
    " CASE WHEN is_end THEN substr(acl, 1, length(acl) - length(CAST(parent AS BLOB)))"
    " ELSE acl END,"
    " alone, is_parent, acls.number, origin, parents.number, feed, place"
    f" FROM acls LEFT JOIN {{0}}.parents ON parents.url = parent AND is_end = {_ENDS}"
    " WHERE {1} ORDER BY acls.url, datasource",
)
_UPGRADE = (
    "INSERT INTO acls SELECT url, datasource, packed(acl), alone, is_parent, number,"
    " is_incremental, origin, parent, feed, place FROM before.acls",
    *(
        f"INSERT INTO {table} SELECT * FROM before.{table}"
        for table in ("feeds", "doubts", "job_datasources")
    ),
)


def keep(
    database: sqlite3.Connection, condition: str, values: Mapping[str, object], *, into: str
) -> None:
    """Keep ACLs of the table `acls` in the file of a job, which the database has as `into`."""
    for statement in _KEEP:
        database.execute(statement.format(into, condition), values)


@contextmanager
def whole_kept(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a new file of a job, which keeps what its temporary table `acls` has at the end."""
    with whole_scratch(_FILE_SCHEMA, path) as kept:
        kept.execute(f"CREATE TEMP {_ACLS_TABLE}")
        yield kept
        keep(kept, "TRUE", {}, into="main")
        remove_unused_feeds(kept)


def remove_unused_feeds(kept: sqlite3.Connection) -> None:
    kept.execute("DELETE FROM feeds WHERE number NOT IN (SELECT feed FROM kept)")


@contextmanager
def filled_kept(path: Path, database: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Yield a new file of a job, which the database of a run has as `job` to fill it before."""
    with whole_scratch(_FILE_SCHEMA, path) as kept:
        database.commit()
        [[_, _, part]] = kept.execute("PRAGMA database_list").fetchall()
        database.execute("ATTACH ? AS job", (part,))
        database.execute("PRAGMA job.journal_mode = OFF")
        database.execute("PRAGMA job.synchronous = OFF")
        yield kept
        pack_rows(kept)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the ACLs of a job to be read; raise ConfigError for a file that has none."""
    with (
        upgraded_kept(path) as current,
        _sqlite_errors(path),
        closing(read_scratch(current)) as kept,
    ):
        yield kept


@contextmanager
def upgraded_kept(path: Path) -> Iterator[Path]:
    """Yield a file of a job as in `upgraded`; the copy is removed."""
    with TemporaryDirectory() as folder:
        yield upgraded(path, Path(folder, path.name))


def upgraded(path: Path, copy: Path) -> Path:
    """Return a file of a job that has the present version, or else a copy of it that has it.

    Raise ConfigError for a file of another version than that before.
    """
    if not path.exists() or check_kept(path) == _VERSION:
        return path
    with whole_kept(copy) as kept:
        kept.execute("ATTACH ? AS before", (str(path),))
        kept.create_function("packed", 1, _packed, deterministic=True)
        kept.create_function("packed_stated", 1, packed_before, deterministic=True)
        for statement in _UPGRADE:
            kept.execute(statement)
        kept.executescript(STATED_SCHEMA)
        for table in filter(partial(has_table, kept, of="before"), TABLES):
            columns = "key, packed_stated(acl), mapped" if table == ACLS_TABLE else "*"
            kept.execute(f"INSERT INTO main.{table} SELECT {columns} FROM before.{table}")
    return copy


def check_kept(path: Path) -> int:
    """Return the version of the ACLs of a job; raise ConfigError if it is not one that is read."""
    with _sqlite_errors(path), closing(read_scratch(path)) as kept:
        [version] = kept.execute("PRAGMA user_version").fetchone()
    if version not in (_VERSION, _VERSION_BEFORE):
        raise ConfigError(f"{path}: version {version}; expected version {_VERSION}: {_fix(path)}")
    return int(version)


def _packed(data: bytes | None) -> bytes | None:
    """Return the bytes of an ACL of the version before, which has the names of all fields."""
    if data is None or data == NO_ACL:
        return data
    return packed(msgspec.msgpack.decode(data, type=Acl))


@contextmanager
def _sqlite_errors(path: Path) -> Iterator[None]:
    """Raise ConfigError for errors of a file that has no ACLs of a job."""
    try:
        yield
    except sqlite3.DatabaseError as exc:
        raise ConfigError(f"{path}: {exc}; expected the ACLs of a job: {_fix(path)}") from exc


def _fix(path: Path) -> str:
    command = f"feedferry state clear {quote(str(path))}"
    return f"{command} removes it; then send all ACLs and documents again"
