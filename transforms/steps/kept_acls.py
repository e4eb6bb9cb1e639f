"""The ACLs that a job keeps: those of its earlier runs that documents of later runs may need.

These are ACLs that arrived alone, and ACLs from which others may inherit. An ACL that arrived alone
and was set aside is kept as unknown. For a target that needs decisions, ACLs that inherit are kept,
too: where an ACL above them changes, the run sends their new decisions. Each run writes all that is
kept after it into its folder, and `remember_acls` replaces the file of the job when the run has
succeeded. A job without such ACLs has no file.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import FatalError
from feedferry.schemas.feed import INCREMENTAL
from feedferry.schemas.record import Action, Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats import JSONL, WriteOptions
from feedferry.transforms.formats.holding.acl_metadata import join_parent
from feedferry.transforms.storage.atomic import whole_file
from feedferry.transforms.storage.files.scratch import read_scratch, whole_scratch

CHANGED_ACLS = "changed.acls"
"""The file in the folder of a run with the ACLs of earlier runs whose decisions have changed."""

KEPT_ACLS = "kept.acls"
"""The file in the folder of a run with all that its job keeps after it."""

ACLS_SCHEMA = """
CREATE TABLE acls (
    url TEXT, datasource TEXT, acl BLOB, alone INTEGER, is_parent INTEGER, number INTEGER,
    is_incremental INTEGER, origin TEXT, parent TEXT, PRIMARY KEY (url, datasource)
) WITHOUT ROWID;
CREATE TABLE doubts (number INTEGER, reject BLOB)
"""
"""An ACL without a value is unknown. `number` counts ACLs, `origin` is the URL before all steps.

A datasource has one ACL for a URL; a datasource that is not stated is an empty text. A doubt is a
reject that may be a newer version of any ACL up to its number.
"""

_VERSION = 1
_FILE_SCHEMA = f"PRAGMA user_version = {_VERSION}; {ACLS_SCHEMA}"
_INSERT = "INSERT INTO acls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_IS_KEPT = "(alone OR is_parent OR (? AND acl NOT NULL AND parent NOT NULL))"
_EARLIER = """
INSERT INTO earlier SELECT url, datasource, acl FROM acls
WHERE url IN (SELECT url FROM acls WHERE is_parent)
"""
_CHANGED = """
WITH RECURSIVE changed (url) AS (
    SELECT url FROM earlier LEFT JOIN acls USING (url, datasource)
    WHERE acls.acl IS NOT earlier.acl OR acls.number IS NULL
    UNION SELECT url FROM acls WHERE url IN (SELECT url FROM earlier) AND NOT EXISTS (
        SELECT 1 FROM earlier WHERE url = acls.url AND datasource = acls.datasource
    )
    UNION SELECT acls.url FROM acls JOIN changed ON acls.parent = changed.url
)
SELECT url, acl, datasource FROM acls JOIN changed USING (url)
WHERE acl NOT NULL AND parent NOT NULL AND number <= ? ORDER BY datasource, url
"""
_FORGET_SENT = (
    "INSERT INTO acls SELECT * FROM before.acls AS old WHERE EXISTS (SELECT 1 FROM sent.acls AS new"
    " WHERE new.url = old.url AND new.datasource = old.datasource"
    " AND new.acl IS old.acl AND new.alone = old.alone)",
    "INSERT INTO acls"
    " SELECT url, datasource, NULL, alone, is_parent, number, FALSE, origin, NULL"
    " FROM (SELECT * FROM before.acls UNION ALL SELECT * FROM sent.acls) WHERE alone OR is_parent"
    " ON CONFLICT DO UPDATE SET alone = alone OR excluded.alone",
    "INSERT INTO doubts SELECT * FROM before.doubts UNION SELECT * FROM sent.doubts",
)
_COPY_BYTES = 1 << 20


class KeptAcl(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An ACL of a job as it is exported; `acl` is None if it is unknown."""

    url: str
    acl: Acl | None = None
    alone: bool = False
    is_parent: bool = False
    number: int = 0
    origin: str | None = None
    datasource: str | None = None


def has_changed_acls(span: Span) -> bool:
    """Whether the records of a span are ACLs of earlier runs, as the steps before have made them.

    No step before the step `acl` may be applied to them again, in a replay neither.
    """
    return Path(span.path).name == CHANGED_ACLS


def parent_url(acl: Acl) -> str | None:
    """Return the URL that an ACL inherits from, with its fragment; None without a usable one."""
    return join_parent(acl.inherit_from and acl.inherit_from.strip(), acl.inherit_fragment)


def load_kept(path: Path, database: sqlite3.Connection) -> None:
    """Copy the ACLs of a job, if it has any, into the database of a run."""
    if not path.exists():
        return
    with _opened(path) as kept:
        fields = "url, datasource, acl, alone, is_parent, number, FALSE, origin, parent"
        database.executemany(_INSERT, kept.execute(f"SELECT {fields} FROM acls"))
        _copy_doubts(kept, database)
    database.execute(_EARLIER)


def write_changed(database: sqlite3.Connection, path: Path, *, after: int) -> None:
    """Write the ACLs up to a number that inherit from one that has changed, as JSON lines.

    Each is an ACL alone. Without such ACLs, there is no file.
    """
    decode = msgspec.msgpack.Decoder(Acl).decode
    encoder = JSONL.make_encoder(WriteOptions())
    rows = database.execute(_CHANGED, (after,))
    first = next(rows, None)
    if first is None:
        return
    with whole_file(path) as stream:
        for url, data, datasource in chain([first], rows):
            record = Record(
                url=url,
                action=Action.UPDATE,
                acl=replace(decode(data), alone=True),
                provenance=Provenance(
                    source=path.name, datasource=datasource or None, feedtype=INCREMENTAL
                ),
            )
            stream.write(encoder.encode(record))


def write_kept(database: sqlite3.Connection, path: Path, *, has_heirs: bool) -> None:
    """Write what a job keeps of the database of a run, with the ACLs that inherit, or without."""
    with whole_scratch(_FILE_SCHEMA, path) as kept:
        query = f"SELECT * FROM acls WHERE {_IS_KEPT}"
        kept.executemany(_INSERT, database.execute(query, (has_heirs,)))
        _copy_doubts(database, kept)
        kept.execute("DELETE FROM doubts WHERE number < (SELECT min(number) FROM acls)")


def read_doubts(database: sqlite3.Connection) -> Iterator[tuple[int, Reject]]:
    """Yield the doubts of a run with their numbers, the last first."""
    decode = msgspec.msgpack.Decoder(Reject).decode
    for number, data in database.execute("SELECT * FROM doubts ORDER BY number DESC"):
        yield number, decode(data)


def remember_acls(written: Path, path: Path) -> None:
    """Replace the ACLs of a job by those that a run has written; this may be repeated.

    A run that has read no ACLs has written no file, and changes nothing.
    """
    if not written.exists():
        return
    if sum(count_kept(written)):
        with written.open("rb") as source, whole_file(path) as stream:
            shutil.copyfileobj(source, stream, _COPY_BYTES)
            stream.flush()
            os.fsync(stream.fileno())
    else:
        path.unlink(missing_ok=True)


def forget_sent(written: Path, path: Path) -> None:
    """Make the ACLs of a job unknown that an abandoned run has changed and may have sent.

    The target may have those before the run or those of the run; this may be repeated.
    """
    if not written.exists():
        return
    if not path.exists():
        replace_kept(path, ())
    with whole_scratch(_FILE_SCHEMA, path) as kept:
        kept.execute("ATTACH ? AS before", (str(path),))
        kept.execute("ATTACH ? AS sent", (str(written),))
        for statement in _FORGET_SENT:
            kept.execute(statement)


def count_kept(path: Path) -> tuple[int, int]:
    """Return the number of ACLs that are known, and of those that are unknown."""
    if not path.exists():
        return 0, 0
    with _opened(path) as kept:
        known, total = kept.execute("SELECT count(acl), count(*) FROM acls").fetchone()
    return known, total - known


def has_doubts(path: Path) -> bool:
    """Whether ACLs of a job are doubtful."""
    if not path.exists():
        return False
    with _opened(path) as kept:
        [found] = kept.execute("SELECT EXISTS (SELECT 1 FROM doubts)").fetchone()
    return bool(found)


def read_kept(path: Path) -> Iterator[KeptAcl]:
    """Yield all ACLs of a job in the order of their URLs; a doubtful parent is unknown."""
    if not path.exists():
        return
    decode = msgspec.msgpack.Decoder(Acl).decode
    fields = "url, acl, alone, is_parent, number, origin, datasource"
    query = f"SELECT {fields} FROM acls ORDER BY url, datasource"
    with _opened(path) as kept:
        [doubt] = kept.execute("SELECT ifnull(max(number), -1) FROM doubts").fetchone()
        for url, acl, alone, is_parent, number, origin, datasource in kept.execute(query):
            is_unknown = acl is None or (is_parent and number <= doubt)
            yield KeptAcl(
                url=url,
                acl=None if is_unknown else decode(acl),
                alone=bool(alone),
                is_parent=bool(is_parent),
                number=number,
                origin=origin,
                datasource=datasource or None,
            )


def replace_kept(path: Path, acls: Iterable[KeptAcl]) -> None:
    """Replace the ACLs of a job."""
    encode = msgspec.msgpack.Encoder().encode
    with whole_scratch(_FILE_SCHEMA, path) as kept:
        kept.executemany(
            _INSERT,
            (
                (
                    *(acl.url, acl.datasource or ""),
                    None if acl.acl is None else encode(acl.acl),
                    *(acl.alone, acl.is_parent, acl.number, False, acl.origin),
                    None if acl.acl is None else parent_url(acl.acl),
                )
                for acl in acls
            ),
        )


def _copy_doubts(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    target.executemany("INSERT INTO doubts VALUES (?, ?)", source.execute("SELECT * FROM doubts"))


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the ACLs of a job to be read; raise FatalError for a file that has none."""
    cure = "expected the ACLs that runs of the job have kept: feedferry state clear removes them"
    try:
        with closing(read_scratch(path)) as kept:
            [version] = kept.execute("PRAGMA user_version").fetchone()
            if version != _VERSION:
                raise FatalError(f"{path}: version {version}; {cure}")
            yield kept
    except sqlite3.DatabaseError as exc:
        raise FatalError(f"{path}: {exc}; {cure}") from exc
