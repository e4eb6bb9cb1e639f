"""The groups that a rehearsal appliance holds, by groupsource: two tables, and how they change.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Creating a Groups Feed Client": a full feed
overwrites the groups, of its groupsource as we take it, an incremental one appends. Deployed
clients send `cleanup` and `replace` too: the first removes the groups of a source, the second is a
full feed. A feed without a feedtype, as the guide's own client sends it, is incremental.

A group is one by its source, namespace and name, a member by namespace, name and scope; what is not
stated has the defaults of the DTD. A member that comes again may differ in its case sensitivity.
"""

import sqlite3
from collections.abc import Iterator

from pipelines.serve.rehearsal.documents import Change
from pipelines.serve.rehearsal.paging import Row, read_page
from pipelines.serve.rehearsal.views import Group
from schemas.acl import Scope
from schemas.delivery import Delivery
from schemas.membership import Member, Membership
from transforms.group_references import DEFAULT_NAMESPACE

CAPACITY_BYTES = 1_000_000_000
"""Most bytes that an appliance has for groups, those of the request among them."""


SCHEMA = (
    "CREATE TABLE groups (id INTEGER PRIMARY KEY, groupsource TEXT NOT NULL, name TEXT NOT NULL,"
    " namespace TEXT NOT NULL)",
    "CREATE UNIQUE INDEX groups_name ON groups (name, namespace, groupsource)",
    "CREATE INDEX groups_of ON groups (groupsource)",
    "CREATE TABLE members (of INTEGER NOT NULL, name TEXT NOT NULL, namespace TEXT NOT NULL,"
    " scope TEXT NOT NULL, case_sensitive INTEGER NOT NULL, unqualified INTEGER NOT NULL,"
    " PRIMARY KEY (of, name, namespace, scope)) WITHOUT ROWID",
)

_PRINCIPAL_BYTES = 16
"""What a name takes beside its own bytes; a guess, for nothing is documented of the appliance's."""

_NAMES = "length(CAST(name AS BLOB)) + length(CAST(namespace AS BLOB))"
BYTES = (
    f"SELECT (SELECT coalesce(sum({_NAMES} + {_PRINCIPAL_BYTES}), 0) FROM groups)"
    f" + (SELECT coalesce(sum({_NAMES} + {_PRINCIPAL_BYTES}), 0) FROM members)"
)

_ADD = "INSERT INTO groups (name, namespace, groupsource) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_ADD_MEMBER = (
    "INSERT OR REPLACE INTO members SELECT id, ?, ?, ?, ?, ? FROM groups"
    " WHERE name = ? AND namespace = ? AND groupsource = ?"
)
_FORGET_MEMBERS = "DELETE FROM members WHERE of IN (SELECT id FROM groups WHERE groupsource = ?)"
_FORGET = "DELETE FROM groups WHERE groupsource = ?"
_SELECT = "SELECT name, namespace, groupsource, id FROM groups"
_ORDER = ("name", "namespace", "groupsource")
_COUNT = "SELECT count(*) FROM members WHERE of = ?"
_MEMBERS = (
    "SELECT name, namespace, scope, case_sensitive, unqualified FROM members"
    " WHERE of = ? ORDER BY name, namespace, scope LIMIT ?"
)


def forget(delivery: Delivery) -> tuple[Change, ...]:
    """Return the changes that remove all groups of a source."""
    return (_FORGET_MEMBERS, (delivery.datasource,)), (_FORGET, (delivery.datasource,))


def changes(membership: Membership, *, groupsource: str) -> Iterator[Change]:
    """Yield the change that adds a group, and one for each member."""
    name, namespace = membership.group.name, _namespace(membership.group)
    key = (name, namespace, groupsource)
    yield _ADD, key
    for member in membership.members:
        yield _ADD_MEMBER, (*_columns(member), *key)


def read_groups(
    connection: sqlite3.Connection,
    *,
    groupsource: str | None,
    after: str | None,
    limit: int,
    members: int,
) -> list[Group]:
    """Return groups in the order of their names; `members` is how many of each are told."""
    conditions = (("groupsource = ?", groupsource), ("name > ?", after))
    rows = read_page(connection, _SELECT, conditions, order=_ORDER, limit=limit)
    return [_read_group(connection, row, members) for row in rows]


def count(connection: sqlite3.Connection) -> int:
    """Return how many groups there are."""
    return int(connection.execute("SELECT count(*) FROM groups").fetchone()[0])


def _columns(member: Member) -> tuple[object, ...]:
    sensitive = member.case_sensitive is not False
    return member.name, _namespace(member), member.scope.value, sensitive, member.unqualified


def _namespace(member: Member) -> str:
    return DEFAULT_NAMESPACE if member.namespace is None else member.namespace


def _read_group(connection: sqlite3.Connection, row: Row, members: int) -> Group:
    name, namespace, groupsource, key = row
    (count,) = connection.execute(_COUNT, (key,)).fetchone()
    return Group(
        groupsource=groupsource,
        name=name,
        namespace=namespace,
        count=count,
        members=tuple(map(_read_member, connection.execute(_MEMBERS, (key, members)))),
    )


def _read_member(row: Row) -> Member:
    name, namespace, scope, case_sensitive, unqualified = row
    return Member(
        name=name,
        namespace=namespace,
        scope=Scope(scope),
        case_sensitive=bool(case_sensitive),
        unqualified=bool(unqualified),
    )
