"""`acl`: resolve what ACLs inherit into ACLs without a parent, or into a decision.

The ACLs of all inputs are stored in an SQLite file before records are converted. Workers look the
parents up there, so that memory does not depend on their number.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from feedferry.schemas.acl import WAITING, Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import DELETIONS, Action, Record
from feedferry.transforms.access.decision import (
    LAYERS,
    PARTS,
    ChainDecision,
    Entries,
    decide,
    fit,
    flatten,
    inherit,
    layers_of,
    member_of,
)
from feedferry.transforms.access.user_groups import MembersOf, users_of
from feedferry.transforms.config.yaml_structs import Text
from feedferry.transforms.formats.fast_path.columns.holes import inspected
from feedferry.transforms.steps.acl_store import AclStore, MissingParentError
from feedferry.transforms.steps.kept_acls import CHANGED_ACLS, parent_url
from feedferry.transforms.steps.step import TransformStep

MAX_CHAIN = 100
MAX_PRINCIPALS = 100_000
UNDECIDED = ("acl-chain-", "acl-complex", "acl-group-unknown", "acl-inexact", "acl-too-large")
"""Begin the codes of records whose stated ACL is known, but not the decision of its chain."""

_CACHED = 4096
_KEPT_PRINCIPALS = 100_000
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class AclRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How ACLs are resolved: with the groups of a file replaced by their users, if it is given.

    `inexact` says what happens where one ACL would deny users whom the chain permits. The mode
    `decision` keeps the layers of a chain, for targets that hold them, and replaces groups only
    where there would be too many.
    """

    mode: Literal["effective", "decision"] = "effective"
    groups: Text | None = None
    inexact: Literal["reject", "deny"] = "reject"

    @classmethod
    def from_scalar(cls, value: object) -> "AclRules":
        if value == "effective":
            return cls()
        if value == "decision":
            return cls(mode="decision")
        raise ValueError(f"{value!r}; expected effective or decision")


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
    """Gives each record the ACL that its chain comes to, without a parent, or its decision.

    `stored` is the file with the ACLs of the run; without it, the step cannot be applied. The file
    is complete and never changes, so that each ACL, chain and group is resolved once.
    """

    def __init__(self, rules: AclRules, *, stored: Path | None) -> None:
        self._rules = rules
        self._has_decisions = rules.mode == "decision"
        self.is_of_model = self.is_of_elements = self._has_decisions and rules.groups is None
        self._effective = _Decided[tuple[Acl, str | None], Acl]()
        if stored is not None:
            store = self._store = AclStore.open(stored)
            acl_of = lru_cache(maxsize=_CACHED)(store.acl)
            self._chains = _Chains(acl_of, members_of=None)
            self._expanded = self._chains
            if rules.groups is not None:
                self._expanded = _Chains(acl_of, members_of=store.members)

    def apply(self, record: Record) -> Record:
        if record.action in DELETIONS:
            return record
        if record.acl is None:
            return self._with_acl_alone(record)
        if self._has_decisions and not record.acl.inherits:
            return record
        datasource = record.provenance.datasource
        known = self._effective.get((record.acl, datasource))
        try:
            acl = known or self._resolve(record.acl, datasource)
        except MissingParentError as exc:
            acl = self._wait(record, record.acl, exc)
        return record if acl == record.acl else replace(record, acl=acl)

    def _with_acl_alone(self, record: Record) -> Record:
        """Return a document without an ACL with the one that arrived alone for its URL.

        An index has whole documents: it would show a new version without the ACL to everyone. A
        document of an earlier run is given it again, and rejected if it is gone.
        """
        is_changed = record.provenance.source == CHANGED_ACLS
        is_document = record.action is Action.ADD and self._store.has_alone
        if not self._has_decisions or not (is_document or is_changed):
            return record
        url = inspected(record.url.strip())
        acl = self._store.acl_of_document(url, record.provenance.datasource)
        if acl is not None:
            return self.apply(replace(record, acl=replace(acl, alone=is_changed)))
        if is_changed:
            reason = f"another datasource has no ACL of {url!r} any more; expected a new version"
            raise RecordError("acl-unknown", reason)
        return record

    def _wait(self, record: Record, acl: Acl, missing: MissingParentError) -> Acl:
        """Return an ACL that waits for a parent; raise the error if no later run would send it."""
        url, datasource = inspected(record.url.strip()), record.provenance.datasource
        may_wait = self._has_decisions and missing.parent != url
        if not (may_wait and self._store.may_wait(url, datasource)):
            raise missing
        return Acl(inherit_from=missing.parent, alone=acl.alone, decision=WAITING)

    def _resolve(self, acl: Acl, datasource: str | None) -> Acl:
        """Return the ACL with what it and its chain come to for a datasource."""
        if self._has_decisions:
            return self._with_decision(acl, datasource)
        if not acl.inherits and self._rules.groups is None:
            return replace(acl, inheritance=None)
        decision = flatten(self._expanded.resolve(acl, datasource))
        if not decision.is_exact and self._rules.inexact == "reject":
            raise RecordError(
                "acl-inexact",
                f"the chain of {_parent_of(acl)!r} permits users that one ACL without a parent"
                " would deny; expected groups to expand, or inexact: deny",
            )
        [layer] = decision.parts[0].layers
        principals = (*layer.denies.values(), *layer.permits.values())
        effective = Acl(principals=principals, alone=acl.alone)
        size = len(acl.principals) + len(principals)
        return self._effective.keep((acl, datasource), effective, size)

    def _with_decision(self, acl: Acl, datasource: str | None) -> Acl:
        decision = fit(self._chains.resolve(acl, datasource))
        decision = decision or fit(self._expanded.resolve(acl, datasource))
        if decision is None:
            raise RecordError(
                "acl-complex",
                f"the chain of {_parent_of(acl)!r} takes more than {PARTS} parts of {LAYERS}"
                " layers; expected a shorter chain, or groups to expand",
            )
        decided = replace(acl, decision=layers_of(decision))
        size = len(acl.principals) + decision.size
        return self._effective.keep((acl, datasource), decided, size)


class _Chains:
    """Decides what ACLs and all above them come to, each chain once.

    `acl_of` returns the ACL of a URL for documents of a datasource. With `members_of`, a group is
    replaced by its users, and by those of its groups.
    """

    def __init__(
        self,
        acl_of: Callable[[str, str | None], Acl],
        *,
        members_of: MembersOf | None,
    ) -> None:
        self._acl = acl_of
        self._members_of = members_of
        self._inherited = _Decided[tuple[str, str | None], tuple[ChainDecision, Inheritance]]()
        self._entries = _Decided[Principal, Entries]()

    def resolve(self, acl: Acl, datasource: str | None) -> ChainDecision:
        """Return the decision of an ACL and all above it; raise RecordError without one."""
        decision, parent = self._decide(acl), _parent_of(acl)
        if parent is None:
            return decision
        known = self._inherited.get((parent, datasource))
        return inherit(decision, *known or self._resolve_parents(parent, datasource))

    def _resolve_parents(
        self, url: str, datasource: str | None
    ) -> tuple[ChainDecision, Inheritance]:
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
            acl = self._acl(following, datasource)
            chain.append((acl, _rule_of(acl, following)))
            following = _parent_of(acl)
        (top, rule), *others = reversed(chain)
        decision = self._decide(top)
        for acl, next_rule in others:
            decision, rule = inherit(self._decide(acl), decision, rule), next_rule
        return self._inherited.keep((url, datasource), (decision, rule), decision.size)

    def _decide(self, acl: Acl) -> ChainDecision:
        """Return the decision of an ACL without its parents."""
        denies: Entries = {}
        permits: Entries = {}
        for principal in acl.principals:
            entries = denies if principal.access is Access.DENY else permits
            if principal.scope is Scope.USER or self._members_of is None:
                entries[member_of(principal)] = principal  # not kept: it is as fast to make again
            else:
                known = self._entries.get(principal)
                users = self._expand(principal, self._members_of) if known is None else known
                entries.update(users)
            if len(entries) > MAX_PRINCIPALS:
                found = f"more than {MAX_PRINCIPALS:,} users of the groups of an ACL"
                raise RecordError("acl-too-large", f"{found}; expected smaller groups")
        return decide(denies, permits)

    def _expand(self, principal: Principal, members_of: MembersOf) -> Entries:
        """Return the users of a group and of its groups; a group that is not known, as it is."""
        users: Entries = {}
        for item in users_of(member_of(principal), members_of):
            users[item] = Principal(access=principal.access, **asdict(item))
            if len(users) > MAX_PRINCIPALS:
                break  # the caller rejects the record
        return self._entries.keep(principal, users, len(users))


def _parent_of(acl: Acl) -> str | None:
    """Return the URL that an ACL inherits from, with its fragment."""
    if not acl.inherits:
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
