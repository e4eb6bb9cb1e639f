"""The ACLs that a job keeps: those of its earlier runs that documents of later runs may need.

These are ACLs that arrived alone, and ACLs from which others may inherit. An ACL that arrived alone
and was set aside is kept as unknown. For a target that needs decisions, ACLs that inherit are kept,
too: where an ACL above them changes, the run sends their new decisions. In a job of several
datasources, a document without an ACL is such an heir of the ACLs that arrive alone for its URL in
the others. Each run writes all that is kept after it into its folder, and `remember_acls` replaces
the file of the job when the run has succeeded. A job without such ACLs has no file.

Each ACL has the run and the feed that brought it; an ACL that is stated again keeps those of its
first statement. What a run has replaced or removed stays in its folder, so that the ACLs as of an
earlier run are known.
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
from feedferry.schemas.feed import INCREMENTAL
from feedferry.schemas.record import Action, Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats import JSONL, WriteOptions
from feedferry.transforms.formats.holding.acl_metadata import join_parent
from feedferry.transforms.steps.stated.acl_bytes import NO_ACL, packed, unpacked_if_any
from feedferry.transforms.steps.stated.acl_mapping import AclMapping
from feedferry.transforms.steps.stated.group_log import GroupLine
from feedferry.transforms.steps.stated.group_store import remember_groups
from feedferry.transforms.steps.stated.kept_file import (
    NOT_HIDDEN,
    UNSURE,
    filled_kept,
    keep,
    opened,
    remove_unused_feeds,
    upgraded,
    upgraded_kept,
    whole_kept,
)
from feedferry.transforms.steps.stated.stated_store import (
    DOCUMENTS_TABLE,
    STATED_SCHEMA,
    clear_stated,
    copy_part,
    copy_stated,
    has_stated,
    map_again,
    move_stated,
    replace_by,
)
from feedferry.transforms.storage.atomic import link_or_copy, read_lines, whole_file
from feedferry.transforms.storage.files.scratch import has_table, scratch_database

CHANGED_ACLS = "changed.acls"
"""The file in the folder of a run with the ACLs of earlier runs whose decisions have changed."""

SENT_ACLS = "sent.acls"
"""The file in the folder of a run with the changed ACLs of a run in whose place it is made.

The target may have any of these decisions, so that the run sends those of the same documents.
"""

KEPT_ACLS = "kept.acls"
"""The file in the folder of a run with all that its job keeps after it."""

UPGRADED_ACLS = "upgraded.acls"
"""The file in the folder of a run with the ACLs of its job, if those are of an older version."""

REPLACED_ACLS = "replaced.acls"
"""The file in the folder of a run with the ACLs of its job that it has replaced or removed."""

_INSERT = "INSERT INTO acls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_IS_KEPT = """
alone OR is_parent OR (:has_heirs AND parent NOT NULL)
OR (:has_heirs AND acl = x'C0' AND (SELECT count(*) FROM job_datasources) > 1
    AND EXISTS (SELECT 1 FROM acls WHERE alone OR is_parent))
"""
_EARLIER = """
INSERT INTO earlier SELECT url, datasource, acl FROM acls
WHERE acl IS NOT x'C0' AND (url IN (SELECT url FROM acls WHERE is_parent) OR alone AND EXISTS (
    SELECT 1 FROM acls AS other WHERE other.url = acls.url AND other.acl = x'C0'
))
"""
_CHANGED = f"""
WITH RECURSIVE changed (url) AS (
    SELECT url FROM earlier LEFT JOIN acls USING (url, datasource)
    WHERE acls.acl IS NOT earlier.acl OR acls.number IS NULL
    UNION SELECT url FROM acls
    WHERE number > :after AND acl IS NOT x'C0'
    AND (alone OR is_parent OR url IN (SELECT url FROM earlier)) AND NOT EXISTS (
        SELECT 1 FROM earlier WHERE url = acls.url AND datasource = acls.datasource
    )
    UNION SELECT url FROM acls
    WHERE acl IS NULL AND parent IS NULL AND NOT (alone OR is_parent) OR number = {UNSURE}
    UNION SELECT url FROM remapped
    UNION SELECT acls.url FROM acls JOIN changed ON acls.parent = changed.url
)
SELECT url, acl, datasource FROM acls JOIN changed USING (url)
WHERE number <= :after AND NOT (alone AND acl IS NULL AND number > 0) AND (
    parent NOT NULL OR (acl IS NULL AND (NOT is_parent OR number = {UNSURE})) OR acl = x'C0' AND (
        EXISTS (SELECT 1 FROM acls AS other WHERE other.url = acls.url AND other.alone)
        OR EXISTS (SELECT 1 FROM earlier WHERE earlier.url = acls.url)
        OR (url, datasource) IN (SELECT * FROM resent)
    )
)
ORDER BY datasource, url
"""
"""An heir that is unknown itself is selected, too: its decision is not known any more. So is, once,
the ACL of a document that an abandoned run may have sent.
"""

_REMAPPED = """
SELECT url, acl, datasource FROM acls JOIN remapped USING (url, datasource)
WHERE number <= :after AND parent IS NULL AND acl IS NOT x'C0'
AND (acl NOT NULL OR is_parent OR alone) ORDER BY datasource, url
"""
"""ACLs whose principals have other names now, and that are not among the changed ones."""

_FORGET_SENT = (
    "INSERT INTO feeds SELECT * FROM before.feeds",
    "INSERT OR IGNORE INTO feeds (run, source) VALUES (:run, '')",
    "INSERT INTO acls SELECT * FROM before.acls AS old WHERE EXISTS (SELECT 1 FROM sent.acls AS new"
    " WHERE new.url = old.url AND new.datasource = old.datasource"
    " AND new.acl IS old.acl AND new.alone = old.alone)",
    "INSERT INTO acls"
    f" SELECT url, datasource, NULL, alone, is_parent, {UNSURE}, FALSE, origin, NULL,"
    " (SELECT number FROM feeds WHERE run = :run AND source = ''), 0"
    " FROM (SELECT * FROM before.acls UNION ALL SELECT * FROM sent.acls) WHERE alone OR is_parent"
    " ON CONFLICT DO UPDATE SET alone = alone OR excluded.alone",
    "INSERT OR IGNORE INTO acls"
    " SELECT url, datasource, NULL, FALSE, FALSE, number, FALSE, origin, NULL,"
    " (SELECT number FROM feeds WHERE run = :run AND source = ''), 0"
    " FROM (SELECT * FROM before.acls UNION ALL SELECT * FROM sent.acls)",
    "INSERT INTO doubts SELECT * FROM before.doubts UNION SELECT * FROM sent.doubts",
    "INSERT INTO job_datasources"
    " SELECT * FROM before.job_datasources UNION SELECT * FROM sent.job_datasources",
)
_RESTATED = """
UPDATE acls SET feed = old.feed, place = old.place FROM before.acls AS old
WHERE old.url = acls.url AND old.datasource = acls.datasource
AND old.acl IS acls.acl AND old.alone = acls.alone
AND (old.feed <> acls.feed OR old.place <> acls.place)
"""
_REPLACED = """
SELECT old.* FROM before.acls AS old LEFT JOIN acls USING (url, datasource)
LEFT JOIN {0} AS kept USING (url, datasource)
WHERE kept.number IS NULL OR acls.acl IS NOT old.acl OR acls.alone <> old.alone
"""
_MAP = """
INSERT INTO acls VALUES (
    :url, :datasource, :acl, FALSE, FALSE, 0, FALSE, NULL, :parent, :feed, 0
)
ON CONFLICT DO UPDATE SET acl = excluded.acl, parent = excluded.parent
WHERE acl <> x'C0' OR :was_hidden
"""
_LAST_DOUBT = f"ifnull(max(number), {UNSURE - 1})"
SETTLE_DOUBTS = f"""
UPDATE {{0}} SET acl = NULL, number = {NOT_HIDDEN}
WHERE acl NOT NULL AND is_parent AND number <= (SELECT {_LAST_DOUBT} FROM doubts)
"""
"""Makes doubtful ACLs of a table unknown."""

_DOUBT_ALL = "UPDATE kept SET acl = NULL WHERE is_parent"
_CLEAR = "UPDATE kept SET acl = NULL, number = 0 WHERE acl IS NOT x'C0'"
_COPY_BYTES = 1 << 20


class _SentFeed(msgspec.Struct, frozen=True):
    datasource: str = ""


class _SentAcl(msgspec.Struct, frozen=True):
    """The document of a changed ACL."""

    url: str
    provenance: _SentFeed


class KeptAcl(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An ACL of a job as it is exported; `acl` is None if it is unknown.

    It is None, too, if its document `states_none`. `run` and `source` are those of the feed in
    which it was read, at `line` and `offset`.
    """

    url: str
    acl: Acl | None = None
    states_none: bool = False
    alone: bool = False
    is_parent: bool = False
    number: int = 0
    origin: str | None = None
    datasource: str | None = None
    run: str = ""
    source: str = ""
    line: int = 0
    offset: int = 0


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
    with opened(path) as kept:
        fields = (
            "url, datasource, acl, alone, is_parent, number, FALSE, origin, parent, feed, place"
        )
        database.commit()  # no database can be attached within a transaction
        database.execute("ATTACH ? AS job", (str(path),))
        database.execute(f"INSERT INTO acls SELECT {fields} FROM job.acls")
        database.commit()
        database.execute("DETACH job")
        _copy_feeds(kept, database)
        _copy_others(kept, database)
    database.execute(_EARLIER)


def load_sent(path: Path, database: sqlite3.Connection) -> None:
    """Have the decisions sent again that a run may have sent in whose place this one is made."""
    if not path.exists():
        return
    for sent in read_lines([path], _SentAcl):
        place = sent.url, sent.provenance.datasource
        database.execute("INSERT OR IGNORE INTO resent VALUES (?, ?)", place)
    database.execute("INSERT OR IGNORE INTO remapped SELECT * FROM resent")


def write_changed(database: sqlite3.Connection, path: Path, *, after: int) -> None:
    """Write the ACLs up to a number that inherit from one that has changed, as JSON lines.

    Each is an ACL alone, or none where the document takes that of another datasource. An unknown
    ACL inherits from itself, so that it is rejected. Without such ACLs, there is no file.
    """
    encoder = JSONL.make_encoder(WriteOptions())
    values = {"after": after}
    rows = chain(database.execute(_CHANGED, values), database.execute(_REMAPPED, values))
    first = next(rows, None)
    if first is None:
        return
    with whole_file(path) as stream:
        for url, data, datasource in chain([first], rows):
            acl = Acl(inherit_from=url) if data is None else unpacked_if_any(data)
            record = Record(
                url=url,
                action=Action.UPDATE,
                acl=acl and replace(acl, alone=True),
                provenance=Provenance(
                    source=path.name, datasource=datasource or None, feedtype=INCREMENTAL
                ),
            )
            stream.write(encoder.encode(record))
    database.execute(f"UPDATE acls SET number = {NOT_HIDDEN} WHERE number = {UNSURE}")


def map_documents(database: sqlite3.Connection, path: Path, mapping: AclMapping) -> None:
    """Load the ACLs of documents of a job whose principals have other names now.

    Those that the database has already are replaced, but for unknown ones. The feeds of others are
    not known.
    """
    copy_stated(path, database)
    feed = feed_number(database, "", "")
    for document in map_again(database, mapping):
        acl, place = document.acl, (document.url, document.datasource)
        data = None if acl is None else packed(acl)
        parent = None if acl is None else parent_url(acl)
        values = {"url": place[0], "datasource": place[1], "acl": data, "parent": parent}
        database.execute(_MAP, {**values, "feed": feed, "was_hidden": document.was_hidden})
        database.execute("INSERT OR IGNORE INTO remapped VALUES (?, ?)", place)


def write_kept(database: sqlite3.Connection, path: Path, *, before: Path, has_heirs: bool) -> None:
    """Write what a job keeps of the database of a run, with the ACLs that inherit, or without.

    `before` is the file of the job, which has the stated ACLs of its documents. What it had, and
    the job does not keep, is written into a file next to the new one.
    """
    with filled_kept(path, database) as kept:
        if before.exists():
            database.execute("ATTACH ? AS before", (str(before),))
            database.execute(_RESTATED)
        keep(database, _IS_KEPT, {"has_heirs": has_heirs}, into="job")
        if before.exists():
            _write_replaced(database, path.with_name(REPLACED_ACLS), kept="job.kept")
        database.commit()
        _copy_feeds(database, kept)
        _copy_others(database, kept)
        kept.execute("DELETE FROM doubts WHERE number < (SELECT min(number) FROM kept)")
        remove_unused_feeds(kept)
        if has_table(database, DOCUMENTS_TABLE):
            move_stated(database, kept)
        else:
            copy_stated(before, kept)


def _write_replaced(database: sqlite3.Connection, path: Path, *, kept: str) -> None:
    """Write the ACLs of the database `before` that differ or are not kept; without any, no file.

    A file that is there is complete: the database before may have been replaced since.
    """
    rows = database.execute(_REPLACED.format(kept))
    first = next(rows, None)
    if first is None or path.exists():
        return
    with whole_kept(path) as replaced:
        replaced.executemany(_INSERT, chain([first], rows))
        feeds = database.execute("SELECT * FROM before.feeds")
        replaced.executemany("INSERT INTO feeds VALUES (?, ?, ?)", feeds)


def keep_replaced(work: Path, folder: Path) -> None:
    """Keep in the folder of a run what it has replaced; this comes before `remember_acls`."""
    if (work / REPLACED_ACLS).exists() and not (folder / REPLACED_ACLS).exists():
        link_or_copy(work / REPLACED_ACLS, folder / REPLACED_ACLS)


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
    if has_kept(written) or has_stated(written):
        with written.open("rb") as source, whole_file(path) as stream:
            shutil.copyfileobj(source, stream, _COPY_BYTES)
            stream.flush()
            os.fsync(stream.fileno())
    else:
        path.unlink(missing_ok=True)


def forget_sent(written: Path, path: Path, folder: Path) -> None:
    """Make the ACLs of a job unknown that an abandoned run has changed and may have sent.

    The target may have those before the run or those of the run; this may be repeated. The next
    run hides the documents whose ACL has changed, unless they come again. The folder of the run
    keeps those before.
    """
    if not written.exists():
        return
    if not path.exists():
        replace_kept(path, ())
    before = upgraded(path, written.with_name(UPGRADED_ACLS))
    with whole_kept(path) as kept:
        kept.execute("ATTACH ? AS before", (str(before),))
        kept.execute("ATTACH ? AS sent", (str(written),))
        for statement in _FORGET_SENT:
            kept.execute(statement, {"run": folder.name})
        _write_replaced(kept, folder / REPLACED_ACLS, kept="acls")
        copy_stated(before, kept)


def has_kept(path: Path) -> bool:
    """Whether a job keeps ACLs that documents of a run may need."""
    if not path.exists():
        return False
    with opened(path) as kept:
        return kept.execute("SELECT 1 FROM acls LIMIT 1").fetchone() is not None


def count_kept(path: Path) -> tuple[int, int]:
    """Return the number of ACLs that are known, and of those that are unknown."""
    if not path.exists():
        return 0, 0
    with opened(path) as kept:
        counts = "total(acl <> x'C0'), total(acl IS NULL)"
        known, unknown = kept.execute(f"SELECT {counts} FROM acls").fetchone()
    return int(known), int(unknown)


def settle_doubts(path: Path) -> None:
    """Make ACLs unknown that are doubtful, so that a later run with documents below does not stop.

    This may be repeated.
    """
    if not path.exists():
        return
    with closing(sqlite3.connect(path)) as kept, kept:
        kept.execute(SETTLE_DOUBTS.format("kept"))
        kept.execute("DELETE FROM doubts")


def doubt_kept(path: Path) -> None:
    """Make all ACLs unknown from which others may inherit, as a whole feed was not read.

    This may be repeated. Raise ConfigError for a file that has no ACLs of a job.
    """
    if path.exists():
        with _changed_copy(path) as kept:
            kept.execute(_DOUBT_ALL)


def doubt_groups(path: Path, source: str) -> None:
    """Make all groups unknown, as a whole groups feed of a source was not read.

    This may be repeated. Raise ConfigError for a file that has no ACLs of a job.
    """
    if not path.exists():
        replace_kept(path, ())
    with _changed_copy(path) as kept:
        kept.executescript(STATED_SCHEMA)
        remember_groups([GroupLine(source)], kept)


@contextmanager
def _changed_copy(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a copy of the ACLs of a job, which replaces them at the end."""
    with upgraded_kept(path) as before:
        part = copy_part(before, path)
    with closing(scratch_database("", part)) as kept, kept:
        yield kept
    replace_by(part, path)


def clear_kept(path: Path) -> None:
    """Make all ACLs, stated ACLs and groups of a job unknown; this may be repeated.

    Documents below a folder whose ACL comes are hidden until they come again. Raise ConfigError for
    a file that has no ACLs of a job.
    """
    with _changed_copy(path) as kept:
        kept.execute(_CLEAR)
        kept.execute("DELETE FROM doubts")
        clear_stated(kept)


def read_kept(path: Path, url: str | None = None) -> Iterator[KeptAcl]:
    """Yield the ACLs of a job in the order of their URLs; a doubtful parent is unknown.

    With a URL, yield only those of it.
    """
    if not path.exists():
        return
    fields = "url, acl, alone, is_parent, acls.number, origin, datasource, run, source, place"
    where = "" if url is None else "WHERE url = :url"
    query = (
        f"SELECT {fields} FROM acls LEFT JOIN feeds ON feed = feeds.number"
        f" {where} ORDER BY url, datasource"
    )
    with opened(path) as kept:
        [doubt] = kept.execute(f"SELECT {_LAST_DOUBT} FROM doubts").fetchone()
        for row in kept.execute(query, {"url": url}):
            found, acl, alone, is_parent, number, origin, datasource, run, source, place = row
            is_unknown = acl is None or (is_parent and number <= doubt)
            yield KeptAcl(
                url=found,
                acl=None if is_unknown else unpacked_if_any(acl),
                states_none=acl == NO_ACL,
                alone=bool(alone),
                is_parent=bool(is_parent),
                number=number,
                origin=origin,
                datasource=datasource or None,
                run=run or "",
                source=source or "",
                line=max(place, 0),
                offset=max(-place, 0),
            )


def replace_kept(path: Path, acls: Iterable[KeptAcl]) -> None:
    """Replace the ACLs of a job."""
    with whole_kept(path) as kept:
        insert_kept(kept, acls)
        kept.execute("INSERT INTO job_datasources SELECT DISTINCT datasource FROM acls")


def insert_kept(database: sqlite3.Connection, acls: Iterable[KeptAcl]) -> None:
    """Insert ACLs of a job into a database that has none of the same URL and datasource."""
    for acl in acls:
        data = packed(acl.acl) if acl.acl is not None else NO_ACL if acl.states_none else None
        parent = None if acl.acl is None else parent_url(acl.acl)
        state = acl.alone, acl.is_parent, acl.number, False, acl.origin, parent
        place = feed_number(database, acl.run, acl.source), acl.line or -acl.offset
        database.execute(_INSERT, (acl.url, acl.datasource or "", data, *state, *place))


def feed_number(database: sqlite3.Connection, run: str, source: str) -> int:
    """Return the number of a feed of a run in a database; it is added if it is not there."""
    database.execute("INSERT OR IGNORE INTO feeds (run, source) VALUES (?, ?)", (run, source))
    query = "SELECT number FROM feeds WHERE run = ? AND source = ?"
    [number] = database.execute(query, (run, source)).fetchone()
    return int(number)


def _copy_feeds(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    target.executemany("INSERT INTO feeds VALUES (?, ?, ?)", source.execute("SELECT * FROM feeds"))


def _copy_others(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Copy the doubts and the datasources of a job."""
    target.executemany("INSERT INTO doubts VALUES (?, ?)", source.execute("SELECT * FROM doubts"))
    names = source.execute("SELECT * FROM job_datasources")
    target.executemany("INSERT OR IGNORE INTO job_datasources VALUES (?)", names)
