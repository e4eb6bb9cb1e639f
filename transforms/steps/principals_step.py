"""`principals`: map the names, namespaces and case of principals, in ACLs and in groups."""

from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from feedferry.schemas.acl import DEFAULT_NAMESPACE, Access, Acl, Principal, Scope
from feedferry.schemas.errors import RecordError
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import Record
from feedferry.transforms.config.yaml_structs import Text
from feedferry.transforms.steps.patterns import Pairs, Rewriter, Rules
from feedferry.transforms.steps.step import TransformStep, Unmapped, changed_group
from feedferry.transforms.steps.tables import load_table

_CACHED = 65_536
_Named = TypeVar("_Named", Principal, Member)


class PrincipalRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New names by a CSV table, then by patterns; new namespaces; the case of names.

    `unmapped` says what happens to a principal that no rule names. Without `users` or `groups`,
    those stay as they are.
    """

    table: Text | None = None
    rewrite: Rules = ()
    namespaces: Pairs = {}
    case: Literal["keep", "lower"] = "keep"
    unmapped: Literal["keep", "deny", "reject"] = "keep"
    users: bool = True
    groups: bool = True

    @property
    def patterns(self) -> list[str]:
        return [old for old, _ in self.rewrite]

    def check(self) -> None:
        is_mapping = self.table is not None or bool(self.rewrite)
        if not (is_mapping or self.namespaces or self.case != "keep"):
            raise ValueError("no rule; expected one, such as rewrite or table")
        if self.unmapped != "keep" and not is_mapping:
            raise ValueError("unmapped without rewrite and table; expected one of both")


class PrincipalsStep(TransformStep):
    """Maps principals. A document never becomes more visible by a principal that is not mapped.

    With `deny`, a permit of an unmapped principal is left out, and an ACL that has no other
    permits no user. A denial cannot be left out, so its record is rejected; nor can a member of a
    group, which an ACL may deny. A principal without a namespace is in the default one.
    """

    def __init__(self, rules: PrincipalRules, *, base: Path) -> None:
        self._rules = rules
        self._rewriter = Rewriter(rules.rewrite)
        self.used = self._rewriter.used
        self._table = None if rules.table is None else load_table(base / rules.table)
        self._has_names = rules.table is not None or bool(rules.rewrite)
        self.unmapped: Unmapped = Unmapped()
        self._name = lru_cache(maxsize=_CACHED)(self._find_name)

    def apply(self, record: Record) -> Record:
        if record.acl is None:
            return record
        acl = self._acl(record.acl)
        return record if acl == record.acl else replace(record, acl=acl)

    def apply_to_group(self, membership: Membership) -> Membership | None:
        return changed_group(membership, self._mapped)

    def _acl(self, acl: Acl) -> Acl:
        principals = []
        for principal in acl.principals:
            mapped = self._mapped(principal)
            if mapped is None and principal.access is Access.DENY:
                raise RecordError(
                    "principal-unmapped",
                    f"a denial of {principal.name!r}, which is not mapped; expected it in the"
                    " table: without it, the document would be open to that principal",
                )
            if mapped is not None:
                principals.append(mapped)
        return replace(acl, principals=tuple(principals))

    def _mapped(self, principal: _Named) -> _Named | None:
        """Return a principal with its new name, None if an unmapped one is to be left out."""
        rules = self._rules
        is_mapped = rules.users if principal.scope is Scope.USER else rules.groups
        if not is_mapped or not principal.name.strip():  # an appliance skips one without a name
            return principal
        name = self._name(principal.name) if self._has_names else principal.name
        if name is None:
            self.unmapped[principal.scope, principal.name] += 1
            if rules.unmapped == "reject":
                reason = f"principal {principal.name!r} is not mapped; expected it in the table"
                raise RecordError("principal-unmapped", reason)
            if rules.unmapped == "deny":
                return None
            name = principal.name
        if rules.case == "lower":
            name = name.lower()
        stated = principal.namespace
        namespace = rules.namespaces.get(stated or DEFAULT_NAMESPACE, stated)
        if name == principal.name and namespace == principal.namespace:
            return principal
        return replace(principal, name=name, namespace=namespace)

    def _find_name(self, name: str) -> str | None:
        stripped = name.strip()
        found = None if self._table is None else self._table.find(stripped)
        return self._rewriter(stripped) if found is None else found
