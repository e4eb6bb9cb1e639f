"""The groups feeds of a night, and the file with all groups."""

import json
from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape, quoteattr

from support.histories.changes import Night, Regroup, applied
from support.histories.source_state import Group, Named, SourceState

DIRECTORY = "ldap"
"""The source of groups whose feed may be full; that of others has none, and is never full."""


def regroups(night: Night) -> list[Regroup]:
    """Return the changes of groups of a night."""
    return [change for change in night.changes if isinstance(change, Regroup)]


def in_directory(group: Group) -> bool:
    """Whether a group is of the directory, whose groups feed may be full."""
    return group[1].startswith("team")


def groups_feeds(
    before: SourceState, night: Night, *, is_corrected: bool
) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each groups feed of a night."""
    after = applied(before, night, is_corrected=is_corrected)
    changed = {change.group for change in regroups(night)} & after.groups.keys()
    if night.has_full_groups:
        changed |= {group for group in after.groups if in_directory(group)}
    parts: list[list[Group]] = [[], []]
    for group in sorted(changed):
        parts[in_directory(group)].append(group)
    others, directory = parts
    if others:
        yield "8-groups.xml", groups_text(after, others)
    if directory:
        feedtype = "full" if night.has_full_groups else "incremental"
        lines = (_membership_line(after, group, feedtype) for group in directory)
        yield "9-groups.jsonl", "".join(lines)


def groups_text(state: SourceState, groups: Iterable[Group]) -> str:
    """Return a groups feed; a group that is not known has a damage."""
    return f"<xmlgroups>\n{''.join(_membership(state, group) for group in groups)}</xmlgroups>\n"


def _membership(state: SourceState, group: Group) -> str:
    members = "".join(map(_member, state.groups[group]))
    damage = '<principal scope="USR">alice</principal>' * (group in state.unknown_groups)
    head = _member(Named(name=group[1], namespace=group[0], is_group=True))
    return f"<membership>{head}<members>{members}{damage}</members></membership>\n"


def _member(member: Named) -> str:
    scope = "GROUP" if member.is_group else "USER"
    case = f"everything-case-{'in' if member.any_case else ''}sensitive"
    words = f'namespace={quoteattr(member.namespace)} case-sensitivity-type="{case}"'
    return f'<principal scope="{scope}" {words}>{escape(member.name)}</principal>'


def _membership_line(state: SourceState, group: Group, feedtype: str) -> str:
    line = {
        "group": _member_fields(Named(name=group[1], namespace=group[0], is_group=True)),
        "members": [_member_fields(member) for member in state.groups[group]],
        "provenance": {"datasource": DIRECTORY, "feedtype": feedtype},
    }
    return json.dumps(line) + "\n"


def _member_fields(member: Named) -> dict[str, object]:
    return {
        "name": member.name,
        "scope": "GROUP" if member.is_group else "USER",
        "namespace": member.namespace,
        "case_sensitive": not member.any_case,
    }
