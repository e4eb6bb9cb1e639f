"""Groups as they are mentioned: defined by memberships, named by ACLs and in other groups.

Two mentions are of one group if their namespaces are equal, and so are their names: without regard
to case if either of the two is said to be case-insensitive. All distinct mentions are in memory.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
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
    """Groups that memberships define, and those that ACLs and members of groups name.

    `unnamed` counts those that are defined and that nothing names; `undefined` has those that are
    named only, the most often named first.
    """

    memberships: int = 0
    defined: int = 0
    named: int = 0
    unnamed: int = 0
    undefined: tuple[GroupCount, ...] = ()


class GroupReferences:
    """How often each group is defined, and how often it is named."""

    def __init__(self) -> None:
        self._memberships = 0
        self._defined: Counter[_Mention] = Counter()
        self._named: Counter[_Mention] = Counter()

    def define(self, membership: Membership) -> None:
        self._memberships += 1
        self._defined[_mention(membership.group)] += 1
        for member in membership.members:
            self.name(member)

    def name(self, principal: Principal | Member) -> None:
        """Count it, if it is a group."""
        if principal.scope is Scope.GROUP:
            self._named[_mention(principal)] += 1

    def close(self) -> Groups:
        undefined = _merged(_outside(self._named, _Known(self._defined)))
        return Groups(
            memberships=self._memberships,
            defined=len(_merged(self._defined)),
            named=len(_merged(self._named)),
            unnamed=len(_merged(_outside(self._defined, _Known(self._named)))),
            undefined=tuple(
                GroupCount(namespace=mention.namespace, name=mention.name, named=number)
                for mention, number in sorted(undefined.items(), key=_by_number)
            ),
        )


class _Mention(NamedTuple):
    """A group as something names it, or defines it."""

    namespace: str
    name: str
    ignores_case: bool

    @property
    def folded(self) -> tuple[str, str]:
        """What it has in common with the same name in any case."""
        return self.namespace, self.name.casefold()


class _Known:
    """Mentions of groups, to be asked for those that are of the same group."""

    def __init__(self, mentions: Iterable[_Mention]) -> None:
        self._exact: set[tuple[str, str]] = set()
        self._folded: set[tuple[str, str]] = set()
        self._loose: set[tuple[str, str]] = set()
        for mention in mentions:
            self._exact.add(mention[:2])
            self._folded.add(mention.folded)
            if mention.ignores_case:
                self._loose.add(mention.folded)

    def __contains__(self, mention: _Mention) -> bool:
        alike = self._folded if mention.ignores_case else self._loose
        return mention[:2] in self._exact or mention.folded in alike


def _mention(principal: Principal | Member) -> _Mention:
    """The appliance trims names."""
    return _Mention(
        principal.namespace or DEFAULT_NAMESPACE,
        principal.name.strip(_BLANKS),
        principal.case_sensitive is False,
    )


def _outside(counts: Mapping[_Mention, int], known: _Known) -> dict[_Mention, int]:
    return {mention: number for mention, number in counts.items() if mention not in known}


def _merged(counts: Mapping[_Mention, int]) -> Counter[_Mention]:
    """Add up the mentions of each group, by the first of them that is case-insensitive."""
    firsts: dict[tuple[str, str], _Mention] = {}
    for mention in counts:
        if mention.ignores_case:
            firsts.setdefault(mention.folded, mention)
    merged: Counter[_Mention] = Counter()
    for mention, number in counts.items():
        merged[firsts.get(mention.folded, mention)] += number
    return merged


def _by_number(counted: tuple[_Mention, int]) -> tuple[int, _Mention]:
    """The most often named first."""
    return -counted[1], counted[0]
