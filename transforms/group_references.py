"""Count the groups that memberships define, and those that ACLs and other groups refer to.

Two references are to the same group if their namespaces are equal, and their names are equal too:
without regard to case if at least one of them is case-insensitive. All distinct references are in
memory.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from schemas.acl import Principal, Scope
from schemas.membership import Member, Membership

DEFAULT_NAMESPACE = "Default"
"""The namespace of a principal that states none, as the appliance has it."""

_BLANKS = " \t\r\n"


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
    """A group as one reference spells it."""

    namespace: str
    name: str
    ignores_case: bool

    @property
    def folded(self) -> tuple[str, str]:
        return self.namespace, self.name.casefold()


class GroupReferences:
    """Counts how often each group is defined, and how often it is named."""

    def __init__(self) -> None:
        self._memberships = 0
        self._defined: Counter[_GroupName] = Counter()
        self._named: Counter[_GroupName] = Counter()

    def define(self, membership: Membership) -> None:
        self._memberships += 1
        self._defined[_group_name(membership.group)] += 1
        for member in membership.members:
            self.name(member)

    def name(self, principal: Principal | Member) -> None:
        """Count a principal if it is a group."""
        if principal.scope is Scope.GROUP:
            self._named[_group_name(principal)] += 1

    def close(self) -> Groups:
        undefined = _merge(_difference(self._named, self._defined))
        return Groups(
            memberships=self._memberships,
            defined=len(_merge(self._defined)),
            named=len(_merge(self._named)),
            unnamed=len(_merge(_difference(self._defined, self._named))),
            undefined=tuple(
                GroupCount(namespace=group.namespace, name=group.name, named=count)
                for group, count in sorted(undefined.items(), key=lambda item: (-item[1], item[0]))
            ),
        )


def _group_name(principal: Principal | Member) -> _GroupName:
    """Return the name as the appliance sees it: it trims names."""
    return _GroupName(
        principal.namespace or DEFAULT_NAMESPACE,
        principal.name.strip(_BLANKS),
        principal.case_sensitive is False,
    )


def _difference(
    counts: Mapping[_GroupName, int], others: Mapping[_GroupName, int]
) -> dict[_GroupName, int]:
    """Return the groups of `counts` that are not in `others` in any spelling."""
    exact = {other[:2] for other in others}
    folded = {other.folded for other in others}
    case_insensitive = {other.folded for other in others if other.ignores_case}
    return {
        group: count
        for group, count in counts.items()
        if group[:2] not in exact
        and group.folded not in (folded if group.ignores_case else case_insensitive)
    }


def _merge(counts: Mapping[_GroupName, int]) -> Counter[_GroupName]:
    """Add up the spellings of each group, under the first one that is case-insensitive."""
    firsts: dict[tuple[str, str], _GroupName] = {}
    for group in counts:
        if group.ignores_case:
            firsts.setdefault(group.folded, group)
    merged: Counter[_GroupName] = Counter()
    for group, count in counts.items():
        merged[firsts.get(group.folded, group)] += count
    return merged
