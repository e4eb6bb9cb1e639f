"""A group and its members, as groups feeds carry them.

`membership.avsc` is the source of truth; the structs here have the same fields in the same order.
`None` means "not stated", never a default.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Feeding Groups to the Search Appliance".
"""

import enum

import msgspec

from schemas.acl import Scope
from schemas.record import Extra, Provenance, Record


class Kind(enum.Enum):
    """What an account counts memberships by, where records have their action."""

    MEMBERSHIP = "MEMBERSHIP"


class Member(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user or group in a namespace; `None` where its source does not say."""

    name: str
    scope: Scope
    namespace: str | None = None
    case_sensitive: bool | None = None
    unqualified: bool = False


class Membership(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One group, with its members in source order; a group may have none.

    `origin` is the appliance's word for where it has a group from, in a database that was
    downloaded from it (`source` in groups feeds).
    """

    group: Member
    members: tuple[Member, ...] = ()
    origin: str | None = None
    extras: tuple[Extra, ...] = ()
    provenance: Provenance = Provenance()

    @property
    def url(self) -> str:
        """What reports call it by: the name of the group."""
        return self.group.name

    @property
    def action(self) -> Kind:
        """What an account counts it by."""
        return Kind.MEMBERSHIP


RecordOrMembership = Record | Membership
"""An item of a chunk: a document or a group."""

Carried = RecordOrMembership  # the former name, until all callers have the new one
