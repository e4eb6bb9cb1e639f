"""The decision of a chain of ACLs: parts that must all permit, each with layers in order.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Specifying ACL Inheritance".

The decision of any chain has this form. One ACL permits a user if a permit names the user or one of
the groups, and no denial does. Not every decision can be written like that, as the members of
groups are not known. The ACL then denies more than the chain, and never permits more.
"""

from collections.abc import Collection, Iterable, Sequence, Set
from functools import lru_cache, partial, reduce
from itertools import combinations, groupby
from operator import attrgetter
from typing import Final

import msgspec
from msgspec.structs import asdict

from feedferry.schemas.acl import (
    DEFAULT_NAMESPACE,
    Access,
    Acl,
    AclLayer,
    Inheritance,
    Principal,
    Scope,
)
from feedferry.schemas.membership import Member

PARTS: Final = 3
LAYERS: Final = 3
"""The most parts of a decision that a target holds, and the most layers of a part."""

_CACHED = 32_768

Entries = dict[Member, Principal]
"""Members in order, each with the principal that one ACL names it by. They are not changed."""


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of one ACL: a denial counts before a permit."""

    denies: Entries = {}
    permits: Entries = {}


class DecisionPart(msgspec.Struct, frozen=True, kw_only=True):
    """Layers in order: the first one with a member that stands for the user decides.

    Without such a layer, the user is denied if the part `is_closed`, and otherwise not decided
    about, which denies as well unless another ACL decides. If the part is not `is_exact`, it denies
    users whom the chain permits.

    There is at least one layer. A member has one entry, and layers that can be one are one.
    """

    layers: tuple[Layer, ...] = (Layer(),)
    is_closed: bool = False
    is_exact: bool = True


class ChainDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What a chain decides: the user is permitted if each part permits the user.

    There is at least one part. Several parts are all closed: users whom one of them does not permit
    are denied, whatever other ACLs decide.
    """

    parts: tuple[DecisionPart, ...]

    @property
    def is_exact(self) -> bool:
        """Whether all users whom the chain permits are permitted."""
        return all(map(attrgetter("is_exact"), self.parts))

    @property
    def size(self) -> int:
        """The number of entries of all layers."""
        layers = (layer for part in self.parts for layer in part.layers)
        return sum(len(layer.denies) + len(layer.permits) for layer in layers)


def decide(denies: Entries, permits: Entries) -> ChainDecision:
    """Return what one ACL decides alone."""
    return ChainDecision(parts=(_part(denies, permits),))


def inherit(child: ChainDecision, parent: ChainDecision, rule: Inheritance) -> ChainDecision:
    """Return the decision of a child and of its parent, by the inheritance type of the parent."""
    if rule is Inheritance.AND_BOTH_PERMIT:
        return _together([*map(_close, (*child.parts, *parent.parts))])
    first, then = (child, parent) if rule is Inheritance.CHILD_OVERRIDES else (parent, child)
    if first.parts[0].is_closed:
        return first
    [begin] = first.parts
    return _together([*map(partial(_join, begin), then.parts)])


@lru_cache(maxsize=_CACHED)
def member_of(principal: Principal) -> Member:
    """Return the user or group that a principal names, whatever its access is."""
    fields = asdict(principal)
    del fields["access"]
    return Member(**fields)


def layers_of(decision: ChainDecision) -> tuple[AclLayer, ...]:
    """Return the layers of a decision, as an ACL states them."""
    return tuple(
        AclLayer(part=number, principals=(*layer.denies.values(), *layer.permits.values()))
        for number, part in enumerate(decision.parts)
        for layer in part.layers
    )


def decision_of(acl: Acl) -> ChainDecision:
    """Return the decision of an ACL: the one that it states, or that of its own principals."""
    if not acl.decision:
        return ChainDecision(parts=(_part_of(acl.principals),))
    by_part = groupby(acl.decision, attrgetter("part"))
    parts = (
        _close(reduce(_join, [_part_of(layer.principals) for layer in layers]))
        for _, layers in by_part
    )
    return ChainDecision(parts=tuple(parts))


def flatten(decision: ChainDecision) -> ChainDecision:
    """Return the decision in one layer, as one ACL has it; it may be less exact."""
    flat = map(partial(_shorten, count=1, only_exact=False), decision.parts)
    return ChainDecision(parts=(reduce(_both_permit, flat),))


def fit(
    decision: ChainDecision, *, parts: int = PARTS, layers: int = LAYERS
) -> ChainDecision | None:
    """Return the decision in so many parts at most, each of so many layers at most.

    The result decides the same; it is None if no such decision is known.
    """
    found = [*map(partial(_shorten, count=layers, only_exact=True), decision.parts)]
    while len(found) > parts:
        united = _unite_two(found)
        if united is None:
            return None
        found = united
    is_narrow = all(len(part.layers) <= layers for part in found)
    return ChainDecision(parts=tuple(found)) if is_narrow else None


def _part_of(principals: Iterable[Principal]) -> DecisionPart:
    denies: Entries = {}
    permits: Entries = {}
    for principal in principals:
        entries = denies if principal.access is Access.DENY else permits
        entries[member_of(principal)] = principal
    return _part(denies, permits)


def _part(denies: Entries, permits: Entries) -> DecisionPart:
    layer = Layer(denies=denies, permits=_without(permits, denies.keys()))
    return DecisionPart(layers=(layer,))


def _together(parts: Sequence[DecisionPart]) -> ChainDecision:
    """Return the decision of parts, without those that permit all whom another one permits."""
    if len(parts) == 1:
        return ChainDecision(parts=(parts[0],))
    kept: list[DecisionPart] = []
    for part in parts:
        if not any(_is_implied(part, other) for other in kept):
            kept = [other for other in kept if not _is_implied(other, part)]
            kept.append(part)
    return ChainDecision(parts=tuple(kept))


def _join(first: DecisionPart, then: DecisionPart) -> DecisionPart:
    """Return one part of the layers of two, in order."""
    layers = [*first.layers]
    named = set[Member]()
    for layer in layers:
        named.update(layer.denies, layer.permits)
    for layer in then.layers:
        denies, permits = _without(layer.denies, named), _without(layer.permits, named)
        last = layers[-1]
        if not last.permits:
            layers[-1] = Layer(denies=last.denies | denies, permits=permits)
        elif not denies:
            layers[-1] = Layer(denies=last.denies, permits=last.permits | permits)
        else:
            layers.append(Layer(denies=denies, permits=permits))
    joined = DecisionPart(layers=tuple(layers), is_exact=first.is_exact and then.is_exact)
    return _close(joined) if then.is_closed else joined


def _close(part: DecisionPart) -> DecisionPart:
    """Return a part that denies users of no layer, without a last layer of denials."""
    has_more = len(part.layers) == 1 or part.layers[-1].permits
    layers = part.layers if has_more else part.layers[:-1]
    return msgspec.structs.replace(part, layers=layers, is_closed=True)


def _is_implied(part: DecisionPart, other: DecisionPart) -> bool:
    """Whether a part is known to permit all whom another one permits."""
    if part.layers == other.layers:
        return True
    if len(part.layers) > 1 or len(other.layers) > 1:
        return False
    [layer], [of_other] = part.layers, other.layers
    return (
        layer.denies.keys() <= of_other.denies.keys()
        and of_other.permits.keys() <= layer.permits.keys()
    )


def _shorten(part: DecisionPart, count: int, *, only_exact: bool) -> DecisionPart:
    """Return a part of so many layers at most, by joining neighbours from the end.

    The denials of the later layer are then counted before the permits of the earlier one. That
    denies users of both, unless the two are the same. With `only_exact`, the part stays longer
    where it would do that.
    """
    if len(part.layers) <= count:
        return part
    layers, is_exact = [*part.layers], part.is_exact
    for at in range(len(layers) - 2, -1, -1):
        if len(layers) <= count:
            break
        earlier, later = layers[at], layers[at + 1]
        is_equal = not may_share_users(earlier.permits, later.denies)
        if is_equal or not only_exact:
            is_exact = is_exact and is_equal
            layers[at : at + 2] = [
                Layer(denies=earlier.denies | later.denies, permits=earlier.permits | later.permits)
            ]
    return DecisionPart(layers=tuple(layers), is_closed=part.is_closed, is_exact=is_exact)


def _both_permit(first: DecisionPart, second: DecisionPart) -> DecisionPart:
    """Permit the members that two parts of one layer permit; users of two others are denied."""
    [one], [two] = first.layers, second.layers
    denies = one.denies | two.denies
    of_one = _without(one.permits, denies.keys())
    of_two = _without(two.permits, denies.keys())
    only_one = _without(of_one, of_two.keys())
    only_two = _without(of_two, of_one.keys())
    layer = Layer(denies=denies, permits=_without(of_one, only_one.keys()))
    is_exact = first.is_exact and second.is_exact and not may_share_users(only_one, only_two)
    return DecisionPart(layers=(layer,), is_closed=True, is_exact=is_exact)


def _unite_two(parts: list[DecisionPart]) -> list[DecisionPart] | None:
    """Return parts of which two are one that decides the same, if there are such two."""
    for one, two in combinations(parts, 2):
        if len(one.layers) == len(two.layers) == 1:
            both = _both_permit(one, two)
            if both.is_exact:
                return [both, *(part for part in parts if part is not one and part is not two)]
    return None


def _without(entries: Entries, others: Set[Member]) -> Entries:
    """Return the entries of members that are not among others."""
    if not entries or not others or others.isdisjoint(entries):
        return entries
    return {member: entry for member, entry in entries.items() if member not in others}


def may_share_users(first: Collection[Member], second: Collection[Member]) -> bool:
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
