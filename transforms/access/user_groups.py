"""The groups of a user, from memberships: groups in groups, and groups that contain each other."""

from collections import defaultdict
from collections.abc import Iterable

from feedferry.schemas.acl import Scope, identity
from feedferry.schemas.membership import Member, Membership

_Key = tuple[Scope, str, str]


def with_groups(members: Iterable[Member], memberships: Iterable[Membership]) -> tuple[Member, ...]:
    """Return users and groups, and all groups that have one of them as a member.

    A member whose case does not count is found in any case.
    """
    exact: dict[_Key, list[Member]] = defaultdict(list)
    folded: dict[_Key, list[Member]] = defaultdict(list)
    for membership in memberships:
        for member in membership.members:
            by_key = folded if member.case_sensitive is False else exact
            by_key[_key(member, is_folded=by_key is folded)].append(membership.group)
    found: dict[_Key, Member] = {}
    pending = [*members]
    while pending:
        member = pending.pop(0)
        key = _key(member, is_folded=False)
        if key not in found:
            found[key] = member
            pending += exact.get(key, ())
            pending += folded.get(_key(member, is_folded=True), ())
    return tuple(found.values())


def _key(member: Member, *, is_folded: bool) -> _Key:
    namespace, name = identity(member.namespace, member.name)
    return member.scope, namespace, name.casefold() if is_folded else name
