"""`acl`: resolve what ACLs inherit into ACLs without a parent.

The ACLs of all inputs are stored in an SQLite file before records are converted. Workers look the
parents up there, so that memory does not depend on their number.
"""

import sqlite3
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import asdict, replace

from schemas.acl import Access, Acl, Inheritance, Scope, identity
from schemas.errors import ConfigError, RecordError
from schemas.feed import FULL
from schemas.membership import Member, Membership
from schemas.record import DELETIONS, Action, Record
from schemas.url_pattern import sqlite_glob
from transforms.config.yaml_structs import Text
from transforms.formats.acl_metadata import join_parent
from transforms.formats.base import ReadResult
from transforms.steps.effective_acl import ChainDecision, decide, flatten, inherit
from transforms.steps.step import AppliedSteps, TransformStep
from transforms.storage.scratch import read_scratch, whole_scratch

MAX_CHAIN = 100
MAX_PRINCIPALS = 100_000
_CACHED = 4096
_SCHEMA = """
CREATE TABLE acls (url TEXT PRIMARY KEY, acl BLOB NOT NULL, alone INTEGER) WITHOUT ROWID;
CREATE TABLE memberships (
    namespace TEXT, name TEXT, members BLOB NOT NULL, PRIMARY KEY (namespace, name)
)
"""


class AclRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How ACLs are resolved: with the groups of a file replaced by their users, if it is given.

    `inexact` says what happens where one ACL would deny users whom the chain permits.
    """

    mode: Literal["effective"] = "effective"
    groups: Text | None = None
    inexact: Literal["reject", "deny"] = "reject"

    @classmethod
    def from_scalar(cls, value: object) -> "AclRules":
        if value != "effective":
            raise ValueError(f"{value!r}; expected effective")
        return cls()


class AclStep(TransformStep):
    """Gives each record the ACL that its chain comes to, without a parent.

    `stored` is the file with the ACLs of the run; without it, the step cannot be applied.
    """

    def __init__(self, rules: AclRules, *, stored: Path | None) -> None:
        self._rules = rules
        if stored is not None:
            self._stored = read_scratch(stored)
        self._acl = lru_cache(maxsize=_CACHED)(self._find_acl)
        self._users = lru_cache(maxsize=_CACHED)(self._find_users)
        self._inherited = lru_cache(maxsize=_CACHED)(self._resolve_chain)

    def apply(self, record: Record) -> Record:
        if record.acl is None or record.action in DELETIONS:
            return record
        acl = self._effective(record.acl)
        return record if acl == record.acl else replace(record, acl=acl)

    def _effective(self, acl: Acl) -> Acl:
        parent = _parent_of(acl)
        if parent is None and self._rules.groups is None:
            return replace(acl, inheritance=None)
        decision = self._decide(acl)
        if parent is not None:
            decision = inherit(decision, *self._inherited(parent))
        lists = flatten(decision)
        if not lists.is_exact and self._rules.inexact == "reject":
            raise RecordError(
                "acl-inexact",
                f"the chain of {parent!r} permits users that one ACL without a parent would deny;"
                " expected groups to expand, or inexact: deny",
            )
        return Acl(principals=lists.principals(), alone=acl.alone)

    def _resolve_chain(self, url: str) -> tuple[ChainDecision, Inheritance]:
        """Return the decision of an ACL and its chain, and how its children inherit it."""
        chain: list[tuple[Acl, Inheritance]] = []
        urls: dict[str, None] = {}
        following: str | None = url
        while following is not None:
            if following in urls:
                found = f"the acl of {following!r} inherits from itself"
                raise RecordError("acl-chain-cycle", f"{found}; expected a chain that ends")
            if len(urls) == MAX_CHAIN:
                found = f"more than {MAX_CHAIN} ACLs above {url!r}"
                raise RecordError("acl-chain-too-long", f"{found}; expected a shorter chain")
            urls[following] = None
            acl = self._acl(following)
            chain.append((acl, _rule_of(acl, following)))
            following = _parent_of(acl)
        (top, rule), *others = reversed(chain)
        decision = self._decide(top)
        for acl, next_rule in others:
            decision, rule = inherit(self._decide(acl), decision, rule), next_rule
        return decision, rule

    def _decide(self, acl: Acl) -> ChainDecision:
        """Return the decision of an ACL without its parents."""
        members: dict[Access, dict[Member, None]] = {Access.DENY: {}, Access.PERMIT: {}}
        for principal in acl.principals:
            named = members[principal.access]
            fields = asdict(principal)
            del fields["access"]
            named.update(dict.fromkeys(self._users(Member(**fields))))
            if len(named) > MAX_PRINCIPALS:
                found = f"more than {MAX_PRINCIPALS:,} users of the groups of an ACL"
                raise RecordError("acl-too-large", f"{found}; expected smaller groups")
        return decide(members[Access.DENY], members[Access.PERMIT])

    def _find_acl(self, url: str) -> Acl:
        query = "SELECT acl FROM acls WHERE url = ?"
        row = self._stored.execute(query, (url,)).fetchone()
        if row is None:
            found = f"an ACL inherits from {url!r}, of which the inputs have no ACL"
            raise RecordError("acl-chain-broken", f"{found}; expected it in the inputs")
        return msgspec.msgpack.decode(row[0], type=Acl)

    def _find_users(self, member: Member) -> tuple[Member, ...]:
        """Return the users of a group and of its groups; a group that is not known, as it is."""
        if member.scope is Scope.USER or self._rules.groups is None:
            return (member,)
        seen, waiting = {member}, [member]
        users: dict[Member, None] = {}
        while waiting:
            group = waiting.pop()
            known = self._members_of(group)
            for item in (group,) if known is None else known:
                if item.scope is Scope.USER or item is group:
                    users[item] = None
                elif item not in seen:
                    seen.add(item)
                    waiting.append(item)
            if len(users) > MAX_PRINCIPALS:
                break  # the caller rejects the record
        return tuple(users)

    def _members_of(self, group: Member) -> tuple[Member, ...] | None:
        query = "SELECT members FROM memberships WHERE namespace = ? AND name = ?"
        row = self._stored.execute(query, identity(group.namespace, group.name)).fetchone()
        return None if row is None else msgspec.msgpack.decode(row[0], type=tuple[Member, ...])


def store_acls(
    path: Path,
    steps: AppliedSteps,
    records: Iterable[ReadResult],
    groups: Iterable[ReadResult],
) -> None:
    """Store the last ACL of each URL, and the groups, after the steps before this one."""
    with whole_scratch(_SCHEMA, path) as database:
        sources: dict[str | None, str] = {}
        for item in steps.results(records):
            if isinstance(item, Record):
                _check_feed(item, sources)
                _store_acl(database, item)
        for item in steps.results(groups):
            if isinstance(item, Membership):
                members = msgspec.msgpack.encode(item.members)
                row = (*identity(item.group.namespace, item.group.name), members)
                database.execute("INSERT OR REPLACE INTO memberships VALUES (?, ?, ?)", row)


def _check_feed(record: Record, sources: dict[str | None, str]) -> None:
    """Raise ConfigError for a full feed after others of its datasource: it removes their ACLs."""
    at = record.provenance
    earlier = sources.setdefault(at.datasource, at.source)
    if earlier != at.source and at.feedtype == FULL:
        raise ConfigError(
            f"acl: {at.source}: a full feed of {at.datasource!r} after {earlier}, whose ACLs it"
            " removes; expected one full feed first: feedferry compact makes it of a history"
        )
    sources[at.datasource] = at.source


def _store_acl(database: sqlite3.Connection, record: Record) -> None:
    """Store the ACL of a record, which replaces an earlier one.

    A deletion removes it, and so does a document without an ACL, unless it arrived alone. All
    that inherit from a removed ACL are rejected: no user would find them.
    """
    url = record.url.strip()
    if record.action is Action.DELETE:
        database.execute("DELETE FROM acls WHERE url = ?", (url,))
    elif record.action is Action.DELETE_PATTERN:
        database.execute("DELETE FROM acls WHERE url GLOB ?", (sqlite_glob(url),))
    elif record.acl is not None:
        row = (url, msgspec.msgpack.encode(record.acl), record.acl.alone)
        database.execute("INSERT OR REPLACE INTO acls VALUES (?, ?, ?)", row)
    elif record.action is Action.ADD:
        database.execute("DELETE FROM acls WHERE url = ? AND NOT alone", (url,))


def _parent_of(acl: Acl) -> str | None:
    """Return the URL that an ACL inherits from, with its fragment."""
    if acl.inherit_from is None and acl.inherit_fragment is None:
        return None
    parent = join_parent(acl.inherit_from and acl.inherit_from.strip(), acl.inherit_fragment)
    if not parent:
        found = f"inherits from the fragment {acl.inherit_fragment!r} of {acl.inherit_from!r}"
        raise RecordError("acl-chain-broken", f"{found}; expected a URL without a query")
    return parent


def _rule_of(acl: Acl, url: str) -> Inheritance:
    """Return the inheritance type of a parent."""
    if acl.inheritance in (None, Inheritance.LEAF_NODE):
        found = f"{url!r} is a leaf node, and an ACL inherits from it"
        raise RecordError("acl-chain-leaf", f"{found}; expected another type")
    return acl.inheritance
