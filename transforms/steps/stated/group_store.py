"""The groups of a job, in a table of the file with the ACLs that it keeps.

A groups feed replaces the groups that it names, and a full one all groups of its source. A group in
several sources has the members of all of them. A group of which a membership is set aside is
unknown until it is stated again.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import msgspec

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.membership import Membership
from feedferry.transforms.steps.stated.acl_mapping import AclMapping
from feedferry.transforms.steps.stated.group_log import GroupLine, GroupMembers
from feedferry.transforms.storage.files.scratch import has_rows, read_scratch

GROUPS_TABLE = "groups"
GROUPS_SCHEMA = """
CREATE TABLE IF NOT EXISTS groups (
    source TEXT, namespace TEXT, name TEXT, stated BLOB, mapped BLOB,
    PRIMARY KEY (source, namespace, name)
) WITHOUT ROWID
"""
"""`stated` is a group as it was stated, `mapped` after the steps, each with its members."""

_STAGED_SCHEMA = """
CREATE TEMP TABLE lines (source TEXT, namespace TEXT, name TEXT, stated BLOB, mapped BLOB)
"""
_FORGET_UNKNOWN = """
DELETE FROM groups WHERE stated IS NULL AND EXISTS (
    SELECT 1 FROM lines WHERE lines.source = groups.source AND lines.name = groups.name
)
"""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(GroupMembers).decode


def remember_groups(lines: Iterable[GroupLine], kept: sqlite3.Connection) -> None:
    """Take the groups of a run into the file of its job."""
    kept.execute(_STAGED_SCHEMA)
    for line in lines:
        if line.is_full:
            kept.execute("DELETE FROM groups WHERE source = ?", (line.source,))
            continue
        row = (line.source, line.namespace, line.name, _data(line.stated), _data(line.mapped))
        kept.execute("INSERT INTO lines VALUES (?, ?, ?, ?, ?)", row)
    kept.execute(_FORGET_UNKNOWN)
    rows = kept.execute("SELECT * FROM lines ORDER BY source, namespace, name, rowid")
    joined = [
        (*key, _joined(row[3] for row in same), _joined(row[4] for row in same))
        for key, group in groupby(rows, itemgetter(0, 1, 2))
        for same in (list(group),)
    ]
    kept.executemany("INSERT OR REPLACE INTO groups VALUES (?, ?, ?, ?, ?)", joined)
    kept.execute("DROP TABLE lines")


def map_groups(kept: sqlite3.Connection, mapping: AclMapping) -> None:
    """Map the groups of a job again, with the steps of a run."""
    rows = kept.execute("SELECT source, namespace, name, stated FROM groups").fetchall()
    for source, namespace, name, stated in rows:
        if stated is not None:
            members = mapping.mapped_group(_decode(stated))
            kept.execute(
                "UPDATE groups SET mapped = ? WHERE source = ? AND namespace = ? AND name = ?",
                (_data(members), source, namespace, name),
            )


def count_groups(path: Path) -> int:
    """Return the number of groups that a job keeps."""
    if not path.exists():
        return 0
    with closing(read_scratch(path)) as kept:
        if not has_rows(kept, GROUPS_TABLE):
            return 0
        [count] = kept.execute("SELECT count(*) FROM groups").fetchone()
    return int(count)


def export_groups(path: Path) -> Iterator[GroupLine]:
    """Yield the groups of a job, in the order of their sources and names."""
    if not path.exists():
        return
    with closing(read_scratch(path)) as kept:
        if not has_rows(kept, GROUPS_TABLE):
            return
        for source, namespace, name, *values in kept.execute("SELECT * FROM groups"):
            stated, mapped = (None if data is None else _decode(data) for data in values)
            yield GroupLine(source, namespace, name, stated, mapped)


def kept_groups(path: Path) -> Iterator[Membership]:
    """Yield the groups of a job after its steps; raise ConfigError if one is not known.

    Without one of its groups, a user would find documents that the group is denied.
    """
    groups = known_groups(path)
    if groups.unknown is not None:
        raise ConfigError(f"{path}: {groups.unknown}")
    if not groups.memberships:
        raise ConfigError(f"{path}: no groups; expected a job whose source has groups feeds")
    yield from groups.memberships


class KeptGroups(NamedTuple):
    """The groups of a job after its steps; `unknown` states which group is not known."""

    memberships: list[Membership]
    unknown: str | None = None


def known_groups(path: Path) -> KeptGroups:
    """Return the groups of a job; without all of them, none can be relied upon."""
    memberships = []
    for line in export_groups(path):
        if line.mapped is None:
            found = f"the group {line.name!r}" if line.name else "a group without a name"
            return KeptGroups(
                [],
                f"{found}, of which a membership was set aside; expected whole groups:"
                " correct the groups feed, and send it again",
            )
        memberships.append(Membership(group=line.mapped.group, members=line.mapped.members))
    return KeptGroups(memberships)


def _data(members: GroupMembers | None) -> bytes | None:
    return None if members is None else _encode(members)


def _joined(rows: Iterable[bytes | None]) -> bytes | None:
    """Return a group with the members of all its memberships, None if one is not known."""
    known = [None if data is None else _decode(data) for data in rows]
    groups = [members for members in known if members is not None]
    if len(groups) < len(known):
        return None
    members = dict.fromkeys(member for group in groups for member in group.members)
    return _encode(GroupMembers(groups[0].group, tuple(members)))
