"""The groups of a user, and the users of a group: groups in groups, and those in each other."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from feedferry.schemas.acl import Scope, identity
from feedferry.schemas.membership import Member, Membership

MembersOf = Callable[[Member], tuple[Member, ...] | None]
"""Returns the members of a group, None without a membership."""

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


def users_of(group: Member, members_of: MembersOf) -> Iterator[Member]:
    """Yield the users of a group and of its groups; a group that is not known, as it is."""
    seen, waiting = {group}, [group]
    while waiting:
        current = waiting.pop()
        known = members_of(current)
        for item in (current,) if known is None else known:
            if item.scope is Scope.USER or item is current:
                yield item
            elif item not in seen:
                seen.add(item)
                waiting.append(item)


def _key(member: Member, *, is_folded: bool) -> _Key:
    namespace, name = identity(member.namespace, member.name)
    return member.scope, namespace, name.casefold() if is_folded else name
