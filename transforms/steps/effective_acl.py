"""The decision of a chain of ACLs, as the permits and denies of one ACL without a parent.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Specifying ACL Inheritance".

One ACL permits a user if a permit names the user or one of the groups, and no denial does. Not
every chain can be written like that, as the members of groups are not known. The ACL then denies
more than the chain, and never permits more.
"""

from collections.abc import Collection
from functools import lru_cache

import msgspec

from feedferry.schemas.acl import DEFAULT_NAMESPACE, Access, Inheritance, Principal, Scope
from feedferry.schemas.membership import Member

_CACHED = 32_768

Entries = dict[Member, Principal]
"""Members in order, each with the principal that one ACL names it by. They are not changed."""


class ChainDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What a chain decides: of its layers, the first with a member that stands for the user.

    Without such a layer, the user is denied if `is_closed`, and otherwise not decided about. If it
    is not `is_exact`, it denies users whom the chain permits.
    """

    layers: tuple[tuple[Access, Entries], ...] = ()
    is_closed: bool = False
    is_exact: bool = True


def decide(denies: Entries, permits: Entries, *, is_exact: bool = True) -> ChainDecision:
    """Return what one ACL decides alone: a denial counts before a permit."""
    layers = ((Access.DENY, denies), (Access.PERMIT, permits))
    return ChainDecision(layers=layers, is_exact=is_exact)


def inherit(child: ChainDecision, parent: ChainDecision, rule: Inheritance) -> ChainDecision:
    """Return the decision of a child and of its parent, by the inheritance type of the parent."""
    if rule is Inheritance.AND_BOTH_PERMIT:
        return _both_permit(flatten(child), flatten(parent))
    first, then = (child, parent) if rule is Inheritance.CHILD_OVERRIDES else (parent, child)
    if first.is_closed:
        return first
    return ChainDecision(
        layers=first.layers + then.layers,
        is_closed=then.is_closed,
        is_exact=first.is_exact and then.is_exact,
    )


def flatten(decision: ChainDecision) -> ChainDecision:
    """Return a decision in two layers, as one ACL has it: a denial always counts first.

    A denial in a layer after a permit is moved before it. That denies users of both, unless the
    two are the same.
    """
    denies: Entries = {}
    permits: Entries = {}
    is_exact = decision.is_exact
    for access, entries in decision.layers:
        if access is Access.PERMIT:
            permits.update(_without(entries, denies))
        elif entries:
            later = _without(_without(entries, permits), denies)
            is_exact = is_exact and not _may_share_users(permits, later)
            denies.update(later)
    return decide(denies, permits, is_exact=is_exact)


def _both_permit(child: ChainDecision, parent: ChainDecision) -> ChainDecision:
    """Permit the members that both permit; users of two different ones are denied."""
    denies = child.layers[0][1] | parent.layers[0][1]
    of_child, of_parent = (_without(each.layers[1][1], denies) for each in (child, parent))
    only_child, only_parent = _without(of_child, of_parent), _without(of_parent, of_child)
    is_exact = child.is_exact and parent.is_exact
    is_exact = is_exact and not _may_share_users(only_child, only_parent)
    both = decide(denies, _without(of_child, only_child), is_exact=is_exact)
    return msgspec.structs.replace(both, is_closed=True)


def _without(entries: Entries, others: Entries) -> Entries:
    """Return the entries whose members have none in others."""
    if not entries or not others or others.keys().isdisjoint(entries):
        return entries
    return {member: entry for member, entry in entries.items() if member not in others}


def _may_share_users(first: Collection[Member], second: Collection[Member]) -> bool:
    """Whether a user may be meant by a member of each; the two have no member in common.

    A group may have any user. A user may have other names in other namespaces, and may be written
    with a domain or in another case.
    """
    if not first or not second:
        return False
    both = (*first, *second)
    if any(member.scope is Scope.GROUP for member in both):
        return True
    if len({member.namespace or DEFAULT_NAMESPACE for member in both}) > 1:
        return True
    return not {*map(_short_name, first)}.isdisjoint(map(_short_name, second))


@lru_cache(maxsize=_CACHED)
def _short_name(user: Member) -> str:
    r"""Return the name without its domain, for comparison.

    >>> [_short_name(Member(name=name, scope=Scope.USER)) for name in ("ACME\\Bob", "bob@acme")]
    ['bob', 'bob']
    """
    return user.name.strip().rpartition("\\")[2].partition("@")[0].casefold()
