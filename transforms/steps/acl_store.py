"""The ACLs and groups of a run, stored in an SQLite file before records are converted.

The last ACL of a URL counts, and the members of all memberships of a group. What is set aside on
the way makes others unknown, so that no document is opened by an older or incomplete statement:

- A record with a URL, rejected or filtered: the ACL of that URL, until it is stated again.
- A part of the inputs without a URL: it may be any ACL, so that all ACLs before it are doubtful.
- A membership: its group, in any namespace, by each name that a step may have given it. One
  without a name makes all groups doubtful.

A run stops where an ACL inherits from a doubtful one, or where groups are doubtful.
"""

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import msgspec

from feedferry.schemas.acl import Acl, Inheritance, identity
from feedferry.schemas.errors import ConfigError, RecordError, StoppedError
from feedferry.schemas.feed import FULL
from feedferry.schemas.membership import Member, Membership, MembershipAction
from feedferry.schemas.patterns import sqlite_glob
from feedferry.schemas.record import Action, Record
from feedferry.schemas.reject import Filtered, Reject
from feedferry.transforms.formats.base import ReadResult
from feedferry.transforms.formats.fast_path.elements.singly import singly
from feedferry.transforms.formats.holding.acl_metadata import join_parent
from feedferry.transforms.steps.step import AppliedSteps
from feedferry.transforms.storage.atomic import RejectFile
from feedferry.transforms.storage.files.scratch import read_scratch, whole_scratch
from feedferry.transforms.storage.storage import LocalStorage

_SCHEMA = """
CREATE TABLE acls (
    url TEXT PRIMARY KEY, acl BLOB, alone INTEGER, number INTEGER, is_incremental INTEGER,
    origin TEXT
) WITHOUT ROWID;
CREATE INDEX by_origin ON acls (origin) WHERE origin NOT NULL;
CREATE TABLE memberships (namespace TEXT, folded TEXT, name TEXT, members BLOB);
CREATE INDEX by_group ON memberships (namespace, folded);
CREATE TABLE unknown_groups (folded TEXT PRIMARY KEY) WITHOUT ROWID
"""
_REPLACE = "INSERT OR REPLACE INTO acls VALUES (?, ?, ?, ?, ?, ?)"


class AclStore:
    """Looks up the ACLs and groups that `store_acls` has stored."""

    def __init__(self, path: Path) -> None:
        self._stored = read_scratch(path)
        query = "SELECT EXISTS (SELECT 1 FROM acls WHERE alone)"
        [self.has_alone] = self._stored.execute(query).fetchone()

    def acl_of_document(self, url: str) -> Acl | None:
        """Return the ACL that arrived alone for a document without one, None without such an ACL.

        Raise RecordError if it is not known.
        """
        query = "SELECT acl FROM acls WHERE url = ? AND alone"
        row = self._stored.execute(query, (url,)).fetchone()
        if row is not None and row[0] is None:
            reason = f"the newest ACL of {url!r} is set aside; expected it, or an ACL in the record"
            raise RecordError("acl-unknown", reason)
        return None if row is None else msgspec.msgpack.decode(row[0], type=Acl)

    def acl(self, url: str) -> Acl:
        """Return the ACL of a URL; raise RecordError if there is none, or if it is not known."""
        row = self._stored.execute("SELECT acl FROM acls WHERE url = ?", (url,)).fetchone()
        if row is None or row[0] is None:
            found = "the inputs have no ACL" if row is None else "the newest ACL is set aside"
            reason = f"an ACL inherits from {url!r}, of which {found}; expected it in the inputs"
            raise RecordError("acl-chain-broken", reason)
        return msgspec.msgpack.decode(row[0], type=Acl)

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


def parent_url(acl: Acl) -> str | None:
    """Return the URL that an ACL inherits from, with its fragment; None without a usable one."""
    return join_parent(acl.inherit_from and acl.inherit_from.strip(), acl.inherit_fragment)


def count_parents(path: Path) -> tuple[int, str]:
    """Return the number of ACLs of feeds that are not full from which others may inherit.

    Documents of earlier runs may be below them. The first URL is an example.
    """
    query = "SELECT url, acl FROM acls WHERE is_incremental AND acl NOT NULL"
    decode = msgspec.msgpack.Decoder(Acl).decode
    count, first = 0, ""
    with closing(read_scratch(path)) as stored:
        for url, acl in stored.execute(query):
            if decode(acl).inheritance in _INHERITED:
                count, first = count + 1, first or url
    return count, first


_INHERITED = set(Inheritance) - {Inheritance.LEAF_NODE}


def store_acls(
    path: Path,
    steps: AppliedSteps,
    records: Iterable[ReadResult],
    groups: Iterable[ReadResult],
    is_accepted: Callable[[Reject], bool],
) -> None:
    """Store the last ACL of each URL, and the groups, after the steps before this one.

    The rejects of groups, without bytes to be replayed, are in a file for the account of the run.
    Rejects that the operator `is_accepted` make nothing doubtful. Raise StoppedError for what is
    doubtful.
    """
    with whole_scratch(_SCHEMA, path) as database:
        acls = _Acls(database, steps, is_accepted)
        stated: Iterable[ReadResult] = singly(records)
        for item in stated:
            origin = item.url.strip() if isinstance(item, Record) else ""
            for result in steps.results([item]):
                acls.add(result, origin)
        acls.check()
        rejects = RejectFile(LocalStorage(path.parent), rejects_path(path).name)
        is_whole = False
        try:
            for item in steps.results(groups):
                if isinstance(item, Membership):
                    _store_membership(database, item)
                elif isinstance(item, Reject | Filtered):
                    _forget_group(database, steps.renamed(item.url or "", is_group=True))
                if isinstance(item, Reject):
                    rejects.add(msgspec.structs.replace(item, data=b""))
                    if not item.url and not is_accepted(item):
                        raise _doubtful(item, "a membership of any group of the ACLs")
            is_whole = True
        finally:
            rejects.close(whole=is_whole)


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
    """Stores ACLs in the order of the inputs; `number` counts them."""

    def __init__(
        self,
        database: sqlite3.Connection,
        steps: AppliedSteps,
        is_accepted: Callable[[Reject], bool],
    ) -> None:
        self._database = database
        self._steps = steps
        self._is_accepted = is_accepted
        self._sources: dict[str | None, str] = {}
        self._number = 0
        self._doubt: tuple[int, Reject] | None = None

    def add(self, item: ReadResult, origin: str) -> None:
        """Store the ACL of a record; the ACL of a record that is set aside is no longer known.

        `origin` is the URL of the record before all steps, which its reject may have.
        """
        if isinstance(item, Record):
            self._check_feed(item)
            self._store(item, origin)
        elif isinstance(item, Reject | Filtered) and item.action != _MEMBERSHIP:
            if item.url:
                for url in self._steps.renamed(item.url):
                    self._forget(url.strip(), item.action)
            elif isinstance(item, Reject) and not self._is_accepted(item):
                self._doubt = self._number, item

    def check(self) -> None:
        """Raise StoppedError if an ACL inherits from one that may have been replaced."""
        if self._doubt is None:
            return
        number, item = self._doubt
        decode = msgspec.msgpack.Decoder(Acl).decode
        doubtful = "SELECT 1 FROM acls WHERE url = ? AND acl NOT NULL AND number <= ?"
        for (data,) in self._database.execute("SELECT acl FROM acls WHERE acl NOT NULL"):
            parent = parent_url(decode(data))
            if parent and self._database.execute(doubtful, (parent, number)).fetchone():
                raise _doubtful(item, f"a newer ACL of {parent!r}, from which others inherit")

    def _check_feed(self, record: Record) -> None:
        """Raise ConfigError for a full feed after others of its datasource: it removes ACLs."""
        at = record.provenance
        earlier = self._sources.setdefault(at.datasource, at.source)
        if earlier != at.source and at.feedtype == FULL:
            raise ConfigError(
                f"acl: {at.source}: a full feed of {at.datasource!r} after {earlier}, whose ACLs it"
                " removes; expected one full feed first: feedferry compact makes it of a history"
            )
        self._sources[at.datasource] = at.source

    def _store(self, record: Record, origin: str) -> None:
        """Store the ACL of a record, which replaces an earlier one.

        A deletion removes it, and so does a document without an ACL, unless it arrived alone. All
        that inherit from a removed ACL are rejected: no user would find them.
        """
        database, url = self._database, record.url.strip()
        if record.action is Action.DELETE:
            database.execute("DELETE FROM acls WHERE url = ?", (url,))
        elif record.action is Action.DELETE_PATTERN:
            database.execute("DELETE FROM acls WHERE url GLOB ?", (sqlite_glob(url),))
        elif record.acl is not None:
            self._number += 1
            is_incremental = record.provenance.feedtype != FULL
            data = msgspec.msgpack.encode(record.acl)
            of_step = None if origin == url else origin
            row = (url, data, record.acl.alone, self._number, is_incremental, of_step)
            database.execute(_REPLACE, row)
        elif record.action is Action.ADD:
            database.execute("DELETE FROM acls WHERE url = ? AND NOT alone", (url,))

    def _forget(self, url: str, action: str | None) -> None:
        is_pattern = action == Action.DELETE_PATTERN.value
        compared, text = ("GLOB", sqlite_glob(url)) if is_pattern else ("=", url)
        for column in ("url", "origin"):
            query = f"UPDATE acls SET acl = NULL WHERE {column} {compared} ?"
            self._database.execute(query, (text,))


_MEMBERSHIP = MembershipAction.MEMBERSHIP.value


def _doubtful(reject: Reject, found: str) -> StoppedError:
    return StoppedError(
        f"acl: {reject.message}; it has no URL and may be {found}; expected parts that can be read,"
        " as it is not known who may see documents: correct this one, or accept its reject"
        f" ({reject.code}) with ⟦accepted_rejects⟧"
    )
