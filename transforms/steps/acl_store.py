"""The ACLs and groups of a run, stored in an SQLite file before records are converted.

The last ACL of a URL in each datasource counts, and the members of all memberships of a group. What
is set aside on the way makes others unknown, so that no document is opened by an older or
incomplete statement:

- A record with a URL, rejected or filtered: the ACL of that URL, until it is stated again.
- A part of the inputs without a URL: it may be any ACL, so that all ACLs before it are doubtful.
- A membership: its group, in any namespace, by each name that a step may have given it. One
  without a name makes all groups doubtful.

A run stops where an ACL inherits from a doubtful one, or where groups are doubtful. Inputs may
settle the doubts about ACLs instead: doubtful ones from which others may inherit become unknown.

The file of a run of a job begins with the ACLs that the job keeps (see `kept_acls`).
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from feedferry.schemas.acl import Acl, Inheritance, identity
from feedferry.schemas.errors import ConfigError, RecordError, StoppedError
from feedferry.schemas.feed import FULL, FeedHeader
from feedferry.schemas.membership import Member, Membership, MembershipAction
from feedferry.schemas.patterns import sqlite_glob
from feedferry.schemas.record import DELETIONS, Action, Provenance, Record
from feedferry.schemas.reject import Filtered, Reject, is_until_acl
from feedferry.transforms.formats.base import ReadResult
from feedferry.transforms.formats.fast_path.elements.singly import singly
from feedferry.transforms.formats.holding.acl_metadata import is_acl_name
from feedferry.transforms.steps.kept_acls import (
    CHANGED_ACLS,
    KEPT_ACLS,
    SENT_ACLS,
    SETTLE_DOUBTS,
    UPGRADED_ACLS,
    KeptAcl,
    feed_number,
    insert_kept,
    load_kept,
    load_sent,
    map_documents,
    parent_url,
    read_doubts,
    write_changed,
    write_kept,
)
from feedferry.transforms.steps.stated.acl_bytes import packed, unpacked
from feedferry.transforms.steps.stated.acl_mapping import AclMapping
from feedferry.transforms.steps.stated.kept_file import ACLS_SCHEMA, NOT_HIDDEN, upgraded
from feedferry.transforms.steps.step import AppliedSteps, StepInputs
from feedferry.transforms.storage.atomic import RejectFile
from feedferry.transforms.storage.files.scratch import has_rows, read_scratch, whole_scratch
from feedferry.transforms.storage.storage import LocalStorage

_SCHEMA = f"""
PRAGMA cache_size = -32768;
{ACLS_SCHEMA};
CREATE TABLE earlier (
    url TEXT, datasource TEXT, acl BLOB, PRIMARY KEY (url, datasource)
) WITHOUT ROWID;
CREATE TABLE datasources (stated TEXT PRIMARY KEY, datasource TEXT) WITHOUT ROWID;
CREATE INDEX by_origin ON acls (origin) WHERE origin NOT NULL;
CREATE TABLE memberships (namespace TEXT, folded TEXT, name TEXT, members BLOB);
CREATE INDEX by_group ON memberships (namespace, folded);
CREATE TABLE unknown_groups (folded TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE remapped (url TEXT, datasource TEXT, PRIMARY KEY (url, datasource)) WITHOUT ROWID;
CREATE TABLE resent (url TEXT, datasource TEXT, PRIMARY KEY (url, datasource)) WITHOUT ROWID
"""
_STORE = "INSERT OR REPLACE INTO acls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INDEX = "CREATE INDEX by_parent ON acls (parent) WHERE parent NOT NULL"
_BATCH = 10_000
_STORE_NONE = """
INSERT INTO acls VALUES (?, ?, x'C0', FALSE, FALSE, ?, FALSE, ?, NULL, ?, ?)
ON CONFLICT DO UPDATE SET
acl = x'C0', is_parent = FALSE, number = excluded.number, origin = excluded.origin, parent = NULL,
feed = excluded.feed, place = excluded.place
WHERE NOT alone
"""
_HIDE_ALONE = f"""
INSERT INTO acls VALUES (?, ?, NULL, TRUE, FALSE, ?, FALSE, NULL, NULL, ?, ?)
ON CONFLICT DO UPDATE SET alone = TRUE, acl = NULL, feed = excluded.feed, place = excluded.place,
number = iif(?, number, {NOT_HIDDEN})
WHERE acl IS NULL OR acl = x'C0'
"""
_MAY_BE_PARENT = "(is_parent OR alone)"
"""The condition of ACLs that are parents of others. An ACL of a document only is not kept."""
_IS_DOUBTFUL = f"""
SELECT 1 FROM acls WHERE url = :url AND acl <> x'C0' AND number <= :number AND (
    datasource = :datasource
    OR NOT EXISTS (
        SELECT 1 FROM acls WHERE url = :url AND datasource = :datasource AND {_MAY_BE_PARENT}
    )
)
"""
_IS_CLEARED = "SELECT 1 FROM acls WHERE url = ? AND acl IS NULL AND number = 0"
_LAST_NUMBER = """
SELECT max(
    (SELECT ifnull(max(number), 0) FROM acls), (SELECT ifnull(max(number), 0) FROM doubts)
)
"""
"""The numbers of a run follow those of doubts, too: the last ACLs before one may not be kept."""

_KEEPS_HEIRS = 1
"""The version of a file whose job keeps the ACLs that inherit."""

_UNPLACED = "\0"
"""Begins the datasource of an ACL whose feed is not known yet; the name of its source follows."""


class MissingParentError(RecordError):
    """An ACL inherits from a URL that has none; it may arrive later."""

    def __init__(self, parent: str) -> None:
        found = f"an ACL inherits from {parent!r}, of which the inputs have no ACL"
        super().__init__("acl-chain-broken", f"{found}; expected it in the inputs")
        self.parent = parent


class AclStore:
    """Looks up the ACLs and groups that `store_acls` has stored.

    For a document, the ACL of a URL in its own datasource counts. Without such an ACL, those of all
    other datasources count, and must be the same: it is not known which of them is right.
    """

    def __init__(self, stored: sqlite3.Connection) -> None:
        self._stored = stored
        query = "SELECT EXISTS (SELECT 1 FROM acls WHERE alone)"
        [self.has_alone] = self._stored.execute(query).fetchone()
        self._datasources = dict(self._stored.execute("SELECT * FROM datasources"))

    @classmethod
    def open(cls, path: Path) -> "AclStore":
        return cls(read_scratch(path))

    def acl_of_document(self, url: str, datasource: str | None) -> Acl | None:
        """Return the ACL that arrived alone for a document without one, None without such an ACL.

        Raise RecordError if it is not known.
        """
        acls = self._find("alone", url, datasource)
        if fault := _fault_of(acls):
            reason = f"the newest ACL of {url!r} {fault}; expected it, or an ACL in the record"
            raise RecordError("acl-unknown", reason)
        return unpacked(acls[0][1]) if acls else None

    def acl(self, url: str, datasource: str | None) -> Acl:
        """Return the ACL that documents of a datasource inherit from a URL.

        Raise RecordError if there is none, or if it is not known.
        """
        acls = self._find(_MAY_BE_PARENT, url, datasource)
        acls = acls or self._find("acl IS NOT x'C0'", url, datasource)
        if not acls:
            raise MissingParentError(url)
        if fault := _fault_of(acls):
            if self._stored.execute(_IS_CLEARED, (url,)).fetchone() is not None:
                raise MissingParentError(url)
            found = f"an ACL inherits from {url!r}, of which the newest ACL {fault}"
            raise RecordError("acl-chain-broken", f"{found}; expected it in the inputs")
        return unpacked(acls[0][1])

    def may_wait(self, url: str, datasource: str | None) -> bool:
        """Whether a later run sends the decision of a document when the ACL above it arrives."""
        place = self._datasources.get(datasource or "", datasource or "")
        query = "SELECT 1 FROM acls WHERE url = ? AND datasource = ? AND parent NOT NULL"
        is_kept = self._stored.execute(query, (url, place)).fetchone() is not None
        return is_kept and self._stored.execute("PRAGMA user_version").fetchone() == (_KEEPS_HEIRS,)

    def _find(self, condition: str, url: str, datasource: str | None) -> list[tuple[str, bytes]]:
        """Return the ACL of a URL in a datasource, or else those of others; each with a name."""
        stated = datasource or ""
        own = self._datasources.get(stated, stated)
        query = f"SELECT datasource, acl FROM acls WHERE url = ? AND {condition}"
        acls = self._stored.execute(query, (url,)).fetchall()
        return [acl for acl in acls if acl[0] == own] or acls

    def members(self, group: Member) -> tuple[Member, ...] | None:
        """Return the members of a group, None without a membership.

        Raise RecordError if one of its memberships is set aside.
        """
        namespace, name = identity(group.namespace, group.name)
        folded = name.casefold()
        query = "SELECT 1 FROM unknown_groups WHERE folded = ?"
        if self._stored.execute(query, (folded,)).fetchone() is not None:
            reason = f"the group {name!r}, of which a membership is set aside; expected all of them"
            raise RecordError("acl-group-unknown", reason)
        query = "SELECT name, members FROM memberships WHERE namespace = ? AND folded = ?"
        rows = self._stored.execute(f"{query} ORDER BY rowid", (namespace, folded))
        is_folded = group.case_sensitive is False
        memberships = [members for stated, members in rows if is_folded or stated == name]
        if not memberships:
            return None
        decode = msgspec.msgpack.Decoder(tuple[Member, ...]).decode
        return tuple(dict.fromkeys(member for data in memberships for member in decode(data)))


def _fault_of(acls: Sequence[tuple[str, bytes | None]]) -> str:
    """Return why it is not known which of the ACLs of a URL counts; an empty text if it is."""
    if any(data is None for _, data in acls):
        return "is set aside"
    different = [name for name, data in acls if data != acls[0][1]]
    return f"differs between {acls[0][0]!r} and {different[0]!r}" if different else ""


def count_parents(path: Path) -> tuple[int, str]:
    """Return the number of ACLs of feeds that are not full from which others may inherit.

    Documents of earlier runs may be below them. The first URL is an example.
    """
    return _count(path, "is_incremental AND is_parent AND acl NOT NULL")


def count_alone(path: Path) -> tuple[int, str]:
    """Return the number of ACLs that arrived alone, and the first URL as an example."""
    return _count(path, "alone AND NOT is_parent")


def _count(path: Path, condition: str) -> tuple[int, str]:
    query = f"SELECT count(*), ifnull(min(url), '') FROM acls WHERE {condition}"
    with closing(read_scratch(path)) as stored:
        count, first = stored.execute(query).fetchone()
    return count, first


_INHERITED = set(Inheritance) - {Inheritance.LEAF_NODE}


def store_kept(path: Path, acls: Iterable[KeptAcl]) -> None:
    """Store ACLs that a job has kept, without groups, as the file of a run has them."""
    with whole_scratch(_SCHEMA, path) as database:
        insert_kept(database, acls)


class AclSources(NamedTuple):
    """Where ACLs and groups are from, besides the inputs, which are read only if `is_read`.

    With a `mapping`, the documents of a job are mapped again.
    """

    groups: Iterable[ReadResult]
    is_read: bool
    mapping: AclMapping | None = None


def store_acls(path: Path, steps: AppliedSteps, inputs: StepInputs, sources: AclSources) -> None:
    """Store the last ACLs of URLs, and the groups, after the steps before this one.

    The rejects of groups, without bytes to be replayed, are in a file for the account of the run.
    Rejects that the operator accepts make nothing doubtful. Raise StoppedError for what is
    doubtful.
    """
    with whole_scratch(_SCHEMA, path) as database:
        _store_groups(database, path, steps, inputs, sources.groups)
        if sources.is_read or sources.mapping is not None:
            _store_records(database, path, steps, inputs, sources)


def _store_groups(
    database: sqlite3.Connection,
    path: Path,
    steps: AppliedSteps,
    inputs: StepInputs,
    groups: Iterable[ReadResult],
) -> None:
    rejects = RejectFile(LocalStorage(path.parent), rejects_path(path).name)
    is_whole = False
    try:
        for item in steps.results(groups):
            if isinstance(item, Membership):
                _store_membership(database, item)
            elif isinstance(item, Reject | Filtered):
                _forget_group(database, steps.renamed(item.url or "", is_group=True))
            if isinstance(item, Reject):
                rejects.add(replace(item, data=b""))
                if not item.url and not inputs.is_accepted(item):
                    raise _doubtful(item, "a membership of any group of the ACLs")
        is_whole = True
    finally:
        rejects.close(whole=is_whole)


def _store_records(
    database: sqlite3.Connection,
    path: Path,
    steps: AppliedSteps,
    inputs: StepInputs,
    sources: AclSources,
) -> None:
    """Store the ACLs of the inputs after those of the job, and write what the job keeps."""
    before = inputs.kept_acls and upgraded(inputs.kept_acls, path.with_name(UPGRADED_ACLS))
    if before is not None:
        load_kept(before, database)
        load_sent(path.with_name(SENT_ACLS), database)
        if sources.mapping is not None:
            mapping = sources.mapping.with_groups(AclStore(database).members)
            map_documents(database, before, mapping)
    acls = _Acls(database, steps, inputs)
    outlined = None if steps.has_any else is_acl_name  # a step may look at all of a record
    stated: Iterable[ReadResult] = ()
    if sources.is_read:
        stated = singly(inputs.records(), outlined=outlined)
    for item in stated:
        for result in steps.results([item]):
            acls.add(result, item)
    is_doubtful = acls.check()
    if before is not None:
        if inputs.sends_decisions:
            database.execute(f"PRAGMA user_version = {_KEEPS_HEIRS}")
        if inputs.sends_decisions and acls.has_earlier:
            database.execute(_INDEX)
            write_changed(database, path.with_name(CHANGED_ACLS), after=acls.begin)
        if is_doubtful:
            database.execute(SETTLE_DOUBTS.format("acls"))
        kept = path.with_name(KEPT_ACLS)
        write_kept(database, kept, before=before, has_heirs=inputs.sends_decisions)


def _store_membership(database: sqlite3.Connection, membership: Membership) -> None:
    namespace, name = identity(membership.group.namespace, membership.group.name)
    row = namespace, name.casefold(), name, msgspec.msgpack.encode(membership.members)
    database.execute("INSERT INTO memberships VALUES (?, ?, ?, ?)", row)


def _forget_group(database: sqlite3.Connection, names: Iterable[str]) -> None:
    rows = ((identity(None, name)[1].casefold(),) for name in names)
    database.executemany("INSERT OR IGNORE INTO unknown_groups VALUES (?)", rows)


def rejects_path(prepared: Path) -> Path:
    """Return the file with the rejects of the groups that were stored in another."""
    return prepared.with_suffix(".rejects.avro")


class _Acls:
    """Stores ACLs in the order of the inputs; `begin` is the number of the last one before them.

    ACLs of records are stored in batches, in the order of their URLs, which takes half the time. A
    batch is stored before any other statement.
    """

    def __init__(
        self, database: sqlite3.Connection, steps: AppliedSteps, inputs: StepInputs
    ) -> None:
        self._database = database
        self._steps = steps
        self._inputs = inputs
        self._feed: tuple[str, str | None, str | None] | None = None
        self._sources: dict[str | None, str] = {}
        self._datasources: dict[str, str] = {}
        self._begun: set[str] = set()
        self._feeds: dict[str, int] = {}
        self.has_earlier = has_rows(database, "acls")
        self._batch: list[tuple[object, ...]] = []
        [self.begin] = database.execute(_LAST_NUMBER).fetchone()
        self._number: int = self.begin

    def add(self, result: ReadResult, item: ReadResult) -> None:
        """Store the ACL of a result of the steps; that of an item that is set aside is unknown."""
        if isinstance(item, Record):
            self._enter(item.provenance)
        elif isinstance(item, FeedHeader) and not item.memberships:
            self._enter(item)
        if isinstance(result, Record):
            self._store(result, item.url.strip() if isinstance(item, Record) else "")
        elif isinstance(result, Reject | Filtered) and result.action != _MEMBERSHIP:
            if result.url:
                self._forget(result, item)
            elif isinstance(result, Reject) and not self._inputs.is_accepted(result):
                row = self._number, msgspec.msgpack.encode(replace(result, data=b""))
                self._database.execute("INSERT INTO doubts VALUES (?, ?)", row)

    def check(self) -> bool:
        """Store the last ACLs; raise StoppedError if one inherits from an ACL that is doubtful.

        If the inputs settle doubts, return whether one does.
        """
        self._store_batch()
        doubts = read_doubts(self._database)
        last = next((each for each in doubts if not self._inputs.is_accepted(each[1])), None)
        if last is None:
            return False
        number, reject = last
        heirs = "FROM acls WHERE acl NOT NULL AND parent NOT NULL AND number > ?"
        query = f"SELECT DISTINCT parent, datasource {heirs}"
        for parent, datasource in self._database.execute(query, (self.begin,)):
            place = {"url": parent, "datasource": datasource, "number": number}
            if self._database.execute(_IS_DOUBTFUL, place).fetchone():
                if self._inputs.settles_doubts:
                    return True
                raise _doubtful(reject, f"a newer ACL of {parent!r}, from which others inherit")
        return False

    def _enter(self, feed: Provenance | FeedHeader) -> None:
        """Begin a feed; a full one removes the ACLs that the job has kept of its datasource.

        Raise ConfigError for a full feed after others of its datasource: it removes their ACLs.
        """
        source, stated = feed.source, feed.datasource
        if self._feed == (source, stated, feed.feedtype):
            return
        self._feed = source, stated, feed.feedtype
        earlier = self._sources.get(stated, source)
        named, feedtype = self._inputs.feed_of(feed)
        datasource = named or ""
        if earlier != source and feed.feedtype == feedtype == FULL:
            raise ConfigError(
                f"acl: {source}: a full feed of {stated!r} after {earlier}, whose ACLs it"
                " removes; expected one full feed first: feedferry compact makes it of a history"
            )
        self._sources[stated] = source
        if feedtype == FULL and datasource not in self._begun:
            self._delete("TRUE", datasource)
        self._begun.add(datasource)
        if self._datasources.get(source) != datasource:
            query = "DELETE FROM acls WHERE datasource = ?"
            query = f"{query} RETURNING url, number, feed, place"
            unplaced = self._execute(query, (f"{_UNPLACED}{source}",)).fetchall()
            is_hidden = self._inputs.withholds
            rows = ((url, datasource, *others, is_hidden) for url, *others in unplaced)
            self._database.executemany(_HIDE_ALONE, rows)
        self._datasources[source] = datasource
        row = stated or "", datasource
        self._database.execute("INSERT OR REPLACE INTO datasources VALUES (?, ?)", row)
        known = "INSERT OR IGNORE INTO job_datasources VALUES (?)"
        self._database.execute(known, (datasource,))

    def _store(self, record: Record, origin: str) -> None:
        """Store the ACL of a record, which replaces an earlier one of its datasource.

        A deletion removes it, and so does a document without an ACL, unless it arrived alone; a
        job keeps that the document states none. All that inherit from a removed ACL are rejected:
        no user would find them.
        """
        url = record.url.strip()
        datasource = self._datasources.get(record.provenance.source, "")
        of_step = None if origin == url else origin
        if record.action is Action.DELETE:
            self._delete("url = ?", datasource, url)
        elif record.action is Action.DELETE_PATTERN:
            self._delete("url GLOB ?", datasource, sqlite_glob(url))
        elif record.acl is not None:
            self._number += 1
            is_parent = record.acl.inheritance in _INHERITED
            is_incremental = record.provenance.feedtype != FULL
            data = packed(record.acl)
            state = record.acl.alone, is_parent, self._number, is_incremental
            above, place = parent_url(record.acl), self._place_of(record.provenance)
            self._batch.append((url, datasource, data, *state, of_step, above, *place))
            if len(self._batch) == _BATCH:
                self._store_batch()
        elif record.action is Action.ADD and self._inputs.kept_acls is not None:
            self._number += 1
            place = self._place_of(record.provenance)
            self._execute(_STORE_NONE, (url, datasource, self._number, of_step, *place))
        elif record.action is Action.ADD:
            self._delete("url = ? AND NOT alone", datasource, url)

    def _delete(self, condition: str, datasource: str, *values: str) -> None:
        """Remove the ACLs of a datasource."""
        statement = f"DELETE FROM acls WHERE datasource = ? AND {condition}"
        self._execute(statement, (datasource, *values))

    def _execute(
        self, statement: str, values: Sequence[object] | Mapping[str, object]
    ) -> sqlite3.Cursor:
        self._store_batch()
        return self._database.execute(statement, values)

    def _store_batch(self) -> None:
        if self._batch:
            self._batch.sort(key=itemgetter(0, 1))
            self._database.executemany(_STORE, self._batch)
            self._batch.clear()

    def _forget(self, result: Reject | Filtered, item: ReadResult) -> None:
        """Make the ACLs unknown that an item may have replaced.

        One that may be an ACL alone counts for its URL and datasource even if there was none before
        it; until its datasource is known, it counts for all. Any other counts for all from which
        others may inherit. The ACL of a document only stays: the target has it, and needs its new
        decision where one above it changes. If an ACL alone shows the document again, that is
        unknown, too: a new decision would show the document by it. If the run does not hide the
        document, a later change of an ACL above it does.
        """
        is_pattern = result.action == Action.DELETE_PATTERN.value
        may_be_alone = not is_pattern and self._may_be_alone(item)
        own = self._datasource_of(item)
        is_own = "TRUE" if own.startswith(_UNPLACED) else "datasource = :own"
        is_replaced = f"acl <> x'C0' AND {is_own}" if may_be_alone else "is_parent"
        origin = item if isinstance(item, Record) else None
        is_shown_by_acl = isinstance(result, Reject) and is_until_acl(result, origin)
        if is_shown_by_acl and not may_be_alone:
            is_replaced = f"(is_parent OR (parent NOT NULL OR acl = x'C0') AND {is_own})"
        is_hidden = self._inputs.withholds and isinstance(result, Reject)
        number = "number" if is_hidden else NOT_HIDDEN
        feed, place = self._place_of(item.provenance if isinstance(item, Record) else item)
        for name in self._steps.renamed(result.url or ""):
            url = name.strip()
            compared, text = ("GLOB", sqlite_glob(url)) if is_pattern else ("=", url)
            for column in ("url", "origin"):
                condition = f"{column} {compared} :text AND {is_replaced}"
                query = (
                    f"UPDATE acls SET acl = NULL, number = {number}, feed = :feed, place = :place"
                    f" WHERE {condition}"
                )
                values = {"text": text, "own": own, "feed": feed, "place": place}
                self._execute(query, values)
            if may_be_alone:
                self._number += 1
                alone = url, own, self._number, feed, place, is_hidden
                self._execute(_HIDE_ALONE, alone)

    def _place_of(self, item: ReadResult | Provenance) -> tuple[int, int]:
        """Return the number of the feed of an item, and its place in it."""
        at = item if isinstance(item, Provenance | Reject) else Provenance()
        if (feed := self._feeds.get(at.source)) is None:
            feed = feed_number(self._database, self._inputs.run, at.source)
            self._feeds[at.source] = feed
        return feed, at.line or -at.offset

    def _may_be_alone(self, item: ReadResult) -> bool:
        if isinstance(item, Record):
            return item.acl is not None and item.acl.alone and item.action not in DELETIONS
        return isinstance(item, Reject) and item.action is None and self._inputs.may_be_acl(item)

    def _datasource_of(self, item: ReadResult) -> str:
        """Return the datasource of a record or a reject, or a name in its place.

        The feed of a reject begins with its first record, which may remove the ACLs before it.
        """
        source = item.provenance.source if isinstance(item, Record) else getattr(item, "source", "")
        current, unplaced = self._datasources.get(source), f"{_UNPLACED}{source}"
        if isinstance(item, Reject) and item.datasource is not None:
            stated = Provenance(source=source, datasource=item.datasource)
            return unplaced if self._inputs.feed_of(stated)[0] != current else current or ""
        return unplaced if current is None else current


_MEMBERSHIP = MembershipAction.MEMBERSHIP.value


def _doubtful(reject: Reject, found: str) -> StoppedError:
    return StoppedError(
        f"acl: {reject.message}; it has no URL and may be {found}; expected parts that can be read,"
        " as it is not known who may see documents: correct this one, or accept its reject"
        f" ({reject.code}) with ⟦accepted_rejects⟧"
    )
