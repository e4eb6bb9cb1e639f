"""Count the groups that memberships define, and those that ACLs and other groups refer to.

Two references are to the same group if their namespaces are equal, and their names are equal too:
without regard to case if any reference to that name is case-insensitive. All distinct references
are in memory.
"""

from collections import Counter
from typing import NamedTuple

import msgspec

from feedferry.schemas.acl import Principal, Scope, identity
from feedferry.schemas.membership import Member, Membership


class GroupCount(msgspec.Struct, frozen=True, kw_only=True):
    """A group, and how often ACLs and other groups name it."""

    namespace: str
    name: str
    named: int


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of distinct groups.

    `defined` groups have a membership; `named` groups occur in an ACL or as a member. `unnamed`
    counts groups that are only defined. `undefined` are groups that are only named, the most
    frequent first.
    """

    memberships: int = 0
    defined: int = 0
    named: int = 0
    unnamed: int = 0
    undefined: tuple[GroupCount, ...] = ()


class _GroupName(NamedTuple):
    namespace: str
    name: str


class GroupReferences:
    """Counts how often each group is defined, and how often it is named."""

    def __init__(self) -> None:
        self._defined: Counter[_GroupName] = Counter()
        self._named: Counter[_GroupName] = Counter()
        self._case_insensitive: dict[_GroupName, _GroupName] = {}

    def define(self, membership: Membership) -> None:
        self._defined[self._name_of(membership.group)] += 1
        for member in membership.members:
            self.name(member)

    def name(self, principal: Principal | Member) -> None:
        """Count a principal if it is a group."""
        if principal.scope is Scope.GROUP:
            self._named[self._name_of(principal)] += 1

    def close(self) -> Groups:
        defined, named = self._merge(self._defined), self._merge(self._named)
        undefined = [(group, count) for group, count in named.items() if group not in defined]
        return Groups(
            memberships=self._defined.total(),
            defined=len(defined),
            named=len(named),
            unnamed=len(defined.keys() - named.keys()),
            undefined=tuple(
                GroupCount(namespace=group.namespace, name=group.name, named=count)
                for group, count in sorted(undefined, key=lambda item: (-item[1], item[0]))
            ),
        )

    def _name_of(self, principal: Principal | Member) -> _GroupName:
        """Return the name as the appliance sees it: it trims names."""
        group = _GroupName(*identity(principal.namespace, principal.name))
        if principal.case_sensitive is False:
            self._case_insensitive.setdefault(_folded(group), group)
        return group

    def _merge(self, counts: Counter[_GroupName]) -> Counter[_GroupName]:
        """Add up the spellings of each group, under the first one that is case-insensitive."""
        merged: Counter[_GroupName] = Counter()
        for group, count in counts.items():
            merged[self._case_insensitive.get(_folded(group), group)] += count
        return merged


def _folded(group: _GroupName) -> _GroupName:
    return _GroupName(group.namespace, group.name.casefold())
