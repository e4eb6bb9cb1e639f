"""The stated ACLs of all documents of a job, in tables of the file with the ACLs that it keeps.

They are kept for a target that holds decisions if the job maps principals. Where a name is mapped
to another one, the run sends the new ACLs of documents of earlier runs.

A document has the key of its ACL: few ACLs are those of many documents. Each is kept with the
digest of what the steps had made of it when documents were sent.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import repeat
from pathlib import Path

import msgspec

from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import FatalError
from feedferry.schemas.patterns import sqlite_glob
from feedferry.transforms.steps.stated.acl_bytes import packed, unpacked
from feedferry.transforms.steps.stated.acl_mapping import AclMapping
from feedferry.transforms.steps.stated.group_log import GroupLine
from feedferry.transforms.steps.stated.group_store import (
    GROUPS_SCHEMA,
    GROUPS_TABLE,
    map_groups,
    remember_groups,
)
from feedferry.transforms.steps.stated.stated_log import (
    GONE,
    PATTERN,
    UNKNOWN,
    UNSURE_DIGEST,
    StatedBlock,
    stated_row,
)
from feedferry.transforms.storage.files.scratch import (
    has_rows,
    has_table,
    pack_rows,
    read_scratch,
    scratch_database,
)

DOCUMENTS_TABLE = "documents"
STATED_SCHEMA = f"""
{GROUPS_SCHEMA};
CREATE TABLE IF NOT EXISTS stated_acls (key INTEGER PRIMARY KEY, acl BLOB, mapped BLOB);
CREATE TABLE IF NOT EXISTS documents (
    url TEXT, datasource TEXT, stated INTEGER, PRIMARY KEY (url, datasource)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS mappings (digest BLOB)
"""
"""`mapped` is the digest of a mapped ACL, `digest` that of the steps which map all of them."""

ACLS_TABLE = "stated_acls"
TABLES = (ACLS_TABLE, "documents", "mappings", "groups")
_STAGED_SCHEMA = """
ATTACH '' AS staged;
PRAGMA staged.journal_mode = OFF;
PRAGMA cache_size = -32768;
CREATE TABLE staged.acls (key INTEGER, acl BLOB, mapped BLOB);
CREATE TABLE staged.documents (url TEXT, datasource TEXT, stated INTEGER)
"""
_STAGE = "INSERT INTO staged.documents VALUES (?, ?, ?)"
_TAKE_STAGED = (
    "INSERT OR IGNORE INTO stated_acls SELECT * FROM staged.acls ORDER BY key",
    "INSERT OR REPLACE INTO documents"
    " SELECT url, datasource, stated FROM staged.documents ORDER BY url, datasource, rowid",
    f"DELETE FROM documents WHERE stated = {GONE}",
    "DELETE FROM staged.documents",
)
_SAME_KEY = "FROM staged.acls AS new JOIN stated_acls AS old USING (key)"
_DIFFERENT = (
    f"SELECT total(new.acl <> old.acl), count(*) {_SAME_KEY}"
    " WHERE new.acl <> old.acl OR new.mapped <> old.mapped"
)
_MAPPED_TWICE = (
    "UPDATE stated_acls SET mapped = ? WHERE key IN"
    f" (SELECT key {_SAME_KEY} WHERE new.mapped <> old.mapped)"
)
_BATCH = 10_000
_COPY_BYTES = 1 << 20
_UNUSED = "DELETE FROM stated_acls WHERE key NOT IN (SELECT stated FROM documents)"
_CLEAR = (
    f"UPDATE documents SET stated = {UNKNOWN}",
    "DELETE FROM stated_acls",
    f"INSERT INTO stated_acls SELECT {UNKNOWN}, NULL, x'3F' WHERE EXISTS (SELECT 1 FROM documents)",
    "UPDATE groups SET stated = NULL, mapped = NULL",
)


class MappedDocument(msgspec.Struct, frozen=True):
    """A document whose mapped ACL has changed; without an ACL, it is to be hidden.

    It `was_hidden` if the mapping before this one has set it aside.
    """

    url: str
    datasource: str
    acl: Acl | None
    was_hidden: bool


class StatedDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document of a job as it is exported; `mapped` is the digest of its mapped ACL.

    Without an ACL, it is not known.
    """

    url: str
    datasource: str
    acl: Acl | None
    mapped: bytes


def count_stated(path: Path) -> tuple[int, bytes]:
    """Return the number of documents whose stated ACLs a job keeps, and the digest of its steps."""
    if not has_stated(path):
        return 0, b""
    with closing(read_scratch(path)) as kept:
        [count] = kept.execute("SELECT count(*) FROM documents").fetchone()
        [digest] = kept.execute("SELECT digest FROM mappings").fetchone() or [b""]
    return count, digest


def export_stated(path: Path) -> Iterator[StatedDocument]:
    """Yield the documents of a job in the order of their URLs."""
    if not has_stated(path):
        return
    query = (
        "SELECT url, datasource, acl, mapped FROM documents JOIN stated_acls ON stated = key"
        " ORDER BY url, datasource"
    )
    with closing(read_scratch(path)) as kept:
        for url, datasource, acl, mapped in kept.execute(query):
            stated = None if acl is None else unpacked(acl)
            yield StatedDocument(url=url, datasource=datasource, acl=stated, mapped=mapped)


def import_stated(
    path: Path, documents: Iterable[StatedDocument], groups: Iterable[GroupLine], digest: bytes
) -> None:
    """Add documents and groups that were exported to the ACLs of a job, which has none.

    The groups are read after all documents.
    """
    blocks = (
        StatedBlock(item.datasource, [item.url], [row.key], [row])
        for item in documents
        for row in (stated_row(item.acl, item.mapped),)
    )
    remember_stated(blocks, groups, path, digest)


def has_stated(path: Path) -> bool:
    """Whether a job keeps the stated ACLs of documents, or groups."""
    if not path.exists():
        return False
    with closing(read_scratch(path)) as kept:
        return has_rows(kept, DOCUMENTS_TABLE) or has_rows(kept, GROUPS_TABLE)


def has_mapping(path: Path) -> bool:
    """Whether a job has kept the stated ACLs of documents that were sent with other principals."""
    if not path.exists():
        return False
    with closing(read_scratch(path)) as kept:
        if not has_rows(kept, "mappings"):
            return False
        [digest] = kept.execute("SELECT digest FROM mappings").fetchone()
    return bool(digest)


def is_mapping_changed(path: Path, mapping: AclMapping | None) -> bool:
    """Whether documents of a job were sent with another mapping of principals."""
    if mapping is None or not has_stated(path):
        return False
    with closing(read_scratch(path)) as kept:
        [before] = kept.execute("SELECT digest FROM mappings").fetchone() or [b""]
    return bool(before != mapping.digest)


def copy_stated(path: Path, kept: sqlite3.Connection) -> None:
    """Copy the tables of a job into another file, which has none."""
    if not has_stated(path):
        return
    kept.executescript(STATED_SCHEMA)
    kept.execute("ATTACH ? AS job", (str(path),))
    for table in TABLES:
        kept.execute(f"INSERT INTO {table} SELECT * FROM job.{table}")
    kept.commit()
    kept.execute("DETACH job")


def move_stated(source: sqlite3.Connection, kept: sqlite3.Connection) -> None:
    """Copy the tables of the database of a run in which ACLs were mapped again."""
    kept.executescript(STATED_SCHEMA)
    for table in TABLES:
        rows = source.execute(f"SELECT * FROM {table}")
        places = ", ".join("?" * len(rows.description))
        kept.executemany(f"INSERT INTO {table} VALUES ({places})", rows)


def map_again(kept: sqlite3.Connection, mapping: AclMapping) -> Iterator[MappedDocument]:
    """Yield the documents whose mapped ACL has changed, and keep the mapping as that of all.

    Raise ConfigError if the steps cannot be repeated for these documents.
    """
    kept.execute("CREATE TEMP TABLE changed (key INTEGER PRIMARY KEY, acl BLOB, hidden)")
    rows = kept.execute("SELECT key, acl, mapped FROM stated_acls")
    while batch := rows.fetchmany(_BATCH):
        changed = []
        for key, data, before in batch:
            acl = None if data is None else mapping.mapped(unpacked(data))
            if mapping.digest_of(acl) != before:
                changed.append((key, acl and packed(acl), before == b""))
        if any(key != UNKNOWN for key, *_ in changed):
            mapping.check_repeatable()
        kept.executemany("INSERT INTO changed VALUES (?, ?, ?)", changed)
    query = (
        "SELECT url, datasource, changed.acl, hidden FROM documents JOIN changed ON stated = key"
        " ORDER BY datasource, url"
    )
    for url, datasource, data, was_hidden in kept.execute(query):
        acl = None if data is None else unpacked(data)
        yield MappedDocument(url, datasource, acl, bool(was_hidden))
    changed_acls = kept.execute("SELECT acl, key FROM changed").fetchall()
    kept.executemany(
        "UPDATE stated_acls SET mapped = ? WHERE key = ?",
        ((mapping.digest_of(acl and unpacked(acl)), key) for acl, key in changed_acls),
    )
    map_groups(kept, mapping)
    _set_mapping(kept, mapping.digest)


def remember_stated(
    blocks: Iterable[StatedBlock],
    groups: Iterable[GroupLine],
    path: Path,
    digest: bytes,
    *,
    is_unsure: bool = False,
) -> None:
    """Take what a run has stated into the file of its job; this may be repeated.

    A run that `is_unsure` was abandoned: the target may have its documents, or those before it. All
    of them are kept, and the next run sends their ACLs again.
    """
    part = copy_part(path, path)
    with closing(scratch_database(STATED_SCHEMA, part)) as kept, kept:
        _Remembering(kept, is_unsure=is_unsure).add(blocks)
        remember_groups(groups, kept)
        if not digest:  # later runs do not list their documents
            kept.execute("DELETE FROM documents")
            kept.execute("DELETE FROM stated_acls")
        if is_unsure:
            _set_mapping(kept, UNSURE_DIGEST)
        elif kept.execute("SELECT 1 FROM mappings").fetchone() is None:
            _set_mapping(kept, digest)
        pack_rows(kept)
    replace_by(part, path)


def clear_stated(kept: sqlite3.Connection) -> None:
    """Make the stated ACLs of all documents unknown, and all groups, until they come again.

    The documents are hidden when names are mapped to others.
    """
    if has_table(kept, DOCUMENTS_TABLE):
        for statement in _CLEAR:
            kept.execute(statement)


def copy_part(before: Path, path: Path) -> Path:
    """Copy the ACLs of a job, if there are any, to a file that may replace those at `path`."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    if before.exists():
        with before.open("rb") as source, part.open("wb") as target:
            shutil.copyfileobj(source, target, _COPY_BYTES)
    return part


def replace_by(part: Path, path: Path) -> None:
    """Replace the ACLs of a job by a changed copy, which is on the disk before."""
    with part.open("rb") as written:
        os.fsync(written.fileno())
    os.replace(part, path)


class _Remembering:
    """Adds the blocks of spans to the tables of a job.

    They are staged first: rows that are added in the order of their keys take half the space.
    """

    def __init__(self, kept: sqlite3.Connection, *, is_unsure: bool) -> None:
        self._kept = kept
        self._is_unsure = is_unsure
        self._begun = set[str]()
        self._has_earlier = has_rows(kept, DOCUMENTS_TABLE)
        kept.executescript(_STAGED_SCHEMA)

    def add(self, blocks: Iterable[StatedBlock]) -> None:
        kept = self._kept
        for block in blocks:
            mapped = UNSURE_DIGEST if self._is_unsure else None
            acls = ((row.key, row.acl, mapped or row.mapped) for row in block.acls)
            kept.executemany("INSERT INTO staged.acls VALUES (?, ?, ?)", acls)
            is_plain = all(key >= GONE for key in block.keys) and not self._is_unsure
            rows = zip(block.urls, repeat(block.datasource), block.keys, strict=False)
            for row in () if is_plain else rows:
                self._add(*row)
            kept.executemany(_STAGE, rows)
            self._begun.add(block.datasource)
        self._take_staged()
        if self._has_earlier:
            kept.execute(_UNUSED)

    def _add(self, url: str, datasource: str, key: int) -> None:
        """Add one document; an abandoned run may not have sent deletions."""
        if key > GONE or key == UNKNOWN or (not self._is_unsure and key == GONE):
            self._kept.execute(_STAGE, (url, datasource, key))
        elif not self._is_unsure and (key == PATTERN or datasource not in self._begun):
            self._take_staged()
            pattern = sqlite_glob(url) if key == PATTERN else "*"
            delete = "DELETE FROM documents WHERE datasource = ? AND url GLOB ?"
            self._kept.execute(delete, (datasource, pattern))

    def _take_staged(self) -> None:
        for statement in _TAKE_STAGED:
            self._kept.execute(statement)
        collisions, different = self._kept.execute(_DIFFERENT).fetchone()
        if collisions:
            raise FatalError("two different ACLs have one hash, so that they cannot be kept")
        if different:
            self._kept.execute(_MAPPED_TWICE, (UNSURE_DIGEST,))
            _set_mapping(self._kept, UNSURE_DIGEST)
        self._kept.execute("DELETE FROM staged.acls")


def _set_mapping(kept: sqlite3.Connection, digest: bytes) -> None:
    kept.execute("DELETE FROM mappings")
    kept.execute("INSERT INTO mappings VALUES (?)", (digest,))
