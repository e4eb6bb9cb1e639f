"""The mapping of stated ACLs by the steps: new principals, and users of groups."""

from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from feedferry.schemas.acl import Acl, Inheritance, Scope
from feedferry.schemas.errors import ConfigError, RecordError
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import Action, Record
from feedferry.transforms.access.decision import member_of
from feedferry.transforms.access.index_fields import token
from feedferry.transforms.access.user_groups import MembersOf, users_of
from feedferry.transforms.steps.stated.group_log import GroupMembers
from feedferry.transforms.steps.step import AppliedSteps

_DIGEST_BYTES = 8
_encode = msgspec.msgpack.Encoder().encode


class MappingRules(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a mapping: `digest` is that of the steps and of their files, if any map.

    `obstacle` is the name of a step that may change ACLs by other fields of a record, which are not
    kept. If the step `acl` `has_decisions`, it changes no principals, and replaces groups only in
    chains.
    """

    digest: bytes
    obstacle: str | None = None
    has_decisions: bool


class AclMapping:
    """Maps stated ACLs as the steps up to the step `acl` do.

    With `members_of`, that step replaces groups by their users.
    """

    def __init__(
        self, steps: AppliedSteps, rules: MappingRules, members_of: MembersOf | None = None
    ) -> None:
        self._steps = steps
        self._rules = rules
        self._members_of = members_of
        self._digests: dict[Member, bytes] = {}

    @property
    def digest(self) -> bytes:
        """The digest of the steps and of their files."""
        return self._rules.digest

    @property
    def is_needed(self) -> bool:
        """Whether what it makes of an ACL depends on more than the ACL."""
        return bool(self._rules.digest)

    def with_groups(self, members_of: MembersOf) -> "AclMapping":
        """Return this mapping with the members of groups."""
        return AclMapping(self._steps, self._rules, members_of)

    def mapped(self, acl: Acl, result: Record | None = None) -> Acl | None:
        """Return an ACL with its new principals, None if the steps set its record aside.

        A `result` of all steps may have it already.
        """
        if result is not None and self._rules.has_decisions:
            return result.acl
        [made] = self._steps.apply(Record(url="", action=Action.UPDATE, acl=acl))
        return made.acl if isinstance(made, Record) else None

    def mapped_group(self, stated: GroupMembers) -> GroupMembers | None:
        """Return a group and its members with their new names, None if it is set aside."""
        [made] = self._steps.apply(Membership(group=stated.group, members=stated.members))
        return GroupMembers(made.group, made.members) if isinstance(made, Membership) else None

    def digest_of(self, acl: Acl | None) -> bytes:
        """Return a digest of a mapped ACL and its users; it is empty if it was set aside."""
        if acl is None:
            return b""
        stated = replace(acl, alone=False, decision=()) if acl.alone or acl.decision else acl
        data = _encode(stated)
        if self._members_of is not None and self._replaces_groups(acl):
            groups = (of for of in acl.principals if of.scope is Scope.GROUP)
            data += b"".join(self._users(member_of(group), self._members_of) for group in groups)
        return blake2b(data, digest_size=_DIGEST_BYTES).digest()

    def check_repeatable(self) -> None:
        """Raise ConfigError if a step cannot be repeated for documents of earlier runs."""
        if self._rules.obstacle is not None:
            raise ConfigError(
                "⟦transform⟧: principals of documents that were sent before have new names, and the"
                f" step {self._rules.obstacle} may change their ACLs, too; expected all documents"
                " again: feedferry state clear lets the next run begin anew"
            )

    def _replaces_groups(self, acl: Acl) -> bool:
        is_of_chain = acl.inherits or acl.inheritance not in (None, Inheritance.LEAF_NODE)
        return is_of_chain or not self._rules.has_decisions

    def _users(self, group: Member, members_of: MembersOf) -> bytes:
        """Return a digest of the users of a group."""
        digest = self._digests.get(group)
        if digest is None:
            try:
                users = sorted({token(user) for user in users_of(group, members_of)})
            except RecordError as exc:
                users = [exc.code]
            digest = self._digests[group] = blake2b(_encode(users), digest_size=16).digest()
        return digest
