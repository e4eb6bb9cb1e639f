"""`acl`: resolve what ACLs inherit into ACLs without a parent.

The ACLs of all inputs are stored in an SQLite file before records are converted. Workers look the
parents up there, so that memory does not depend on their number.
"""

from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.errors import RecordError
from feedferry.schemas.membership import Member
from feedferry.schemas.record import DELETIONS, Record
from feedferry.transforms.config.yaml_structs import Text
from feedferry.transforms.steps.acl_store import AclStore, parent_url
from feedferry.transforms.steps.effective_acl import (
    ChainDecision,
    Entries,
    decide,
    flatten,
    inherit,
)
from feedferry.transforms.steps.step import TransformStep

MAX_CHAIN = 100
MAX_PRINCIPALS = 100_000
_CACHED = 4096
_KEPT_PRINCIPALS = 100_000
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class AclRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How ACLs are resolved: with the groups of a file replaced by their users, if it is given.

    `inexact` says what happens where one ACL would deny users whom the chain permits.
    """

    mode: Literal["effective"] = "effective"
    groups: Text | None = None
    inexact: Literal["reject", "deny"] = "reject"

    @classmethod
    def from_scalar(cls, value: object) -> "AclRules":
        if value != "effective":
            raise ValueError(f"{value!r}; expected effective")
        return cls()


class _Decided(dict[_Key, _Value]):
    """What was decided before; it begins again when it has too many principals."""

    _principals = 0

    def keep(self, key: _Key, value: _Value, principals: int) -> _Value:
        self._principals += principals + 1
        if self._principals > _KEPT_PRINCIPALS:
            self.clear()
            self._principals = principals + 1
        self[key] = value
        return value


class AclStep(TransformStep):
    """Gives each record the ACL that its chain comes to, without a parent.

    `stored` is the file with the ACLs of the run; without it, the step cannot be applied. The file
    is complete and never changes, so that each ACL, chain and group is resolved once.
    """

    def __init__(self, rules: AclRules, *, stored: Path | None) -> None:
        self._rules = rules
        if stored is not None:
            self._stored = AclStore(stored)
            self._acl = lru_cache(maxsize=_CACHED)(self._stored.acl)
        self._effective = _Decided[Acl, Acl]()
        self._inherited = _Decided[str, tuple[ChainDecision, Inheritance]]()
        self._entries = _Decided[Principal, Entries]()

    def apply(self, record: Record) -> Record:
        if record.acl is None or record.action in DELETIONS:
            return record
        acl = self._effective.get(record.acl) or self._resolve(record.acl)
        return record if acl == record.acl else replace(record, acl=acl)

    def _resolve(self, acl: Acl) -> Acl:
        """Return the ACL that an ACL and its chain come to."""
        parent = _parent_of(acl)
        if parent is None and self._rules.groups is None:
            return replace(acl, inheritance=None)
        decision = self._decide(acl)
        if parent is not None:
            decision = inherit(
                decision, *self._inherited.get(parent) or self._resolve_chain(parent)
            )
        decision = flatten(decision)
        if not decision.is_exact and self._rules.inexact == "reject":
            raise RecordError(
                "acl-inexact",
                f"the chain of {parent!r} permits users that one ACL without a parent would deny;"
                " expected groups to expand, or inexact: deny",
            )
        principals = tuple(entry for _, each in decision.layers for entry in each.values())
        effective = Acl(principals=principals, alone=acl.alone)
        return self._effective.keep(acl, effective, len(acl.principals) + len(principals))

    def _resolve_chain(self, url: str) -> tuple[ChainDecision, Inheritance]:
        """Return the decision of an ACL and its chain, and how its children inherit it."""
        chain: list[tuple[Acl, Inheritance]] = []
        urls: dict[str, None] = {}
        following: str | None = url
        while following is not None:
            if following in urls:
                found = f"the acl of {following!r} inherits from itself"
                raise RecordError("acl-chain-cycle", f"{found}; expected a chain that ends")
            if len(urls) == MAX_CHAIN:
                found = f"more than {MAX_CHAIN} ACLs above {url!r}"
                raise RecordError("acl-chain-too-long", f"{found}; expected a shorter chain")
            urls[following] = None
            acl = self._acl(following)
            chain.append((acl, _rule_of(acl, following)))
            following = _parent_of(acl)
        (top, rule), *others = reversed(chain)
        decision = self._decide(top)
        for acl, next_rule in others:
            decision, rule = inherit(self._decide(acl), decision, rule), next_rule
        principals = sum(len(entries) for _, entries in decision.layers)
        return self._inherited.keep(url, (decision, rule), principals)

    def _decide(self, acl: Acl) -> ChainDecision:
        """Return the decision of an ACL without its parents."""
        denies: Entries = {}
        permits: Entries = {}
        for principal in acl.principals:
            entries = denies if principal.access is Access.DENY else permits
            known = self._entries.get(principal)
            entries.update(self._find_entries(principal) if known is None else known)
            if len(entries) > MAX_PRINCIPALS:
                found = f"more than {MAX_PRINCIPALS:,} users of the groups of an ACL"
                raise RecordError("acl-too-large", f"{found}; expected smaller groups")
        return decide(denies, permits)

    def _find_entries(self, principal: Principal) -> Entries:
        """Return the users of a group and of its groups; a group that is not known, as it is."""
        fields = asdict(principal)
        access = fields.pop("access")
        stated = Member(**fields)
        if stated.scope is Scope.USER or self._rules.groups is None:
            return self._entries.keep(principal, {stated: principal}, 1)
        seen, waiting = {stated}, [stated]
        users: Entries = {}
        while waiting:
            group = waiting.pop()
            known = self._stored.members(group)
            for item in (group,) if known is None else known:
                if item.scope is Scope.USER or item is group:
                    users[item] = Principal(access=access, **asdict(item))
                elif item not in seen:
                    seen.add(item)
                    waiting.append(item)
            if len(users) > MAX_PRINCIPALS:
                break  # the caller rejects the record
        return self._entries.keep(principal, users, len(users))


def _parent_of(acl: Acl) -> str | None:
    """Return the URL that an ACL inherits from, with its fragment."""
    if acl.inherit_from is None and acl.inherit_fragment is None:
        return None
    parent = parent_url(acl)
    if not parent:
        found = f"inherits from the fragment {acl.inherit_fragment!r} of {acl.inherit_from!r}"
        raise RecordError("acl-chain-broken", f"{found}; expected a URL without a query")
    return parent


def _rule_of(acl: Acl, url: str) -> Inheritance:
    """Return the inheritance type of a parent."""
    if acl.inheritance in (None, Inheritance.LEAF_NODE):
        found = f"{url!r} is a leaf node, and an ACL inherits from it"
        raise RecordError("acl-chain-leaf", f"{found}; expected another type")
    return acl.inheritance
