"""The groups of a user, and the users of a group: groups in groups, and those in each other."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from feedferry.schemas.acl import Scope, identity
from feedferry.schemas.membership import Member, Membership

MembersOf = Callable[[Member], tuple[Member, ...] | None]
"""Returns the members of a group, None without a membership."""

_Key = tuple[Scope, str, str]


class GroupGraph:
    """The groups that have users and groups as members, at any depth.

    A member whose case does not count is found in any case. Groups may contain each other.
    """

    def __init__(self, memberships: Iterable[Membership]) -> None:
        self._exact: dict[_Key, list[Member]] = defaultdict(list)
        self._folded: dict[_Key, list[Member]] = defaultdict(list)
        for membership in memberships:
            for member in membership.members:
                by_key = self._folded if member.case_sensitive is False else self._exact
                key = _key(member, is_folded=by_key is self._folded)
                by_key[key].append(membership.group)

    def with_groups(self, members: Iterable[Member]) -> tuple[Member, ...]:
        """Return users and groups, and all their groups."""
        found: dict[_Key, Member] = {}
        pending = [*members]
        while pending:
            member = pending.pop(0)
            key = _key(member, is_folded=False)
            if key not in found:
                found[key] = member
                pending += self._exact.get(key, ())
                pending += self._folded.get(_key(member, is_folded=True), ())
        return tuple(found.values())

    def groups_of_members(self) -> Iterator[tuple[Member, tuple[Member, ...]]]:
        """Yield each member as it is stated, with all its groups."""
        for by_key in (self._exact, self._folded):
            for (scope, namespace, name), groups in by_key.items():
                member = Member(
                    name=name,
                    scope=scope,
                    namespace=namespace,
                    case_sensitive=by_key is self._exact,
                )
                yield member, self.with_groups(groups)


def with_groups(members: Iterable[Member], memberships: Iterable[Membership]) -> tuple[Member, ...]:
    """Return users and groups, and all groups that have one of them as a member."""
    return GroupGraph(memberships).with_groups(members)


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
