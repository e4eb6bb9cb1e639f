"""The table of groups of a rehearsal appliance: their number and the capacity that they use.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Creating a Groups Feed Client": a full feed
overwrites the groups, in our reading those of its groupsource, and an incremental feed appends.
Deployed clients also send `cleanup`, which removes the groups of a source, and `replace`, which is
a full feed. A feed without a feedtype, as the guide's own client sends it, is incremental.

A group is identified by source, namespace and name. Members are not stored, only their size.
"""

from pipelines.serve.rehearsal.documents import Change
from schemas.delivery import Delivery
from schemas.membership import Member, Membership
from transforms.group_references import DEFAULT_NAMESPACE

CAPACITY_BYTES = 1_000_000_000
"""The capacity of an appliance for groups, including the request that is being posted."""

SCHEMA = (
    "CREATE TABLE groups (groupsource TEXT NOT NULL, name TEXT NOT NULL, namespace TEXT NOT NULL,"
    " bytes INTEGER NOT NULL, PRIMARY KEY (groupsource, name, namespace)) WITHOUT ROWID",
)
BYTES = "SELECT coalesce(sum(bytes), 0) FROM groups"

_PRINCIPAL_BYTES = 16
"""The overhead of a name. A guess: the appliance's own is undocumented."""

_ADD = (
    "INSERT INTO groups VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes"
)
_FORGET = "DELETE FROM groups WHERE groupsource = ?"


def forget(delivery: Delivery) -> Change:
    """Return the change that removes all groups of a source."""
    return _FORGET, (delivery.datasource,)


def add(membership: Membership, *, groupsource: str) -> Change:
    """Return the change that adds a group, or adds the size of more members to it."""
    group = membership.group
    size = sum(map(_size, (group, *membership.members)))
    return _ADD, (groupsource, group.name, _namespace(group), size)


def _size(member: Member) -> int:
    return len(member.name.encode()) + len(_namespace(member).encode()) + _PRINCIPAL_BYTES


def _namespace(member: Member) -> str:
    return DEFAULT_NAMESPACE if member.namespace is None else member.namespace
