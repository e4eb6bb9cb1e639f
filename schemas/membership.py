"""Groups and their members, as in groups feeds.

`membership.avsc` is the source of truth; the structs here have the same fields in the same order.
`None` means "not stated", never a default.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Feeding Groups to the Search Appliance".
"""

import enum

import msgspec

from feedferry.schemas.acl import Scope
from feedferry.schemas.record import Extra, Provenance, Record


class MembershipAction(enum.Enum):
    """The key of memberships in an account, in place of an action."""

    MEMBERSHIP = "MEMBERSHIP"


class Member(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user or group in a namespace; `None` if the source does not state the value."""

    name: str
    scope: Scope
    namespace: str | None = None
    case_sensitive: bool | None = None
    unqualified: bool = False


class Membership(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group with its members in source order; a group may have no members.

    `origin` is the origin of a group that was exported by an appliance (`source` in groups feeds).
    """

    group: Member
    members: tuple[Member, ...] = ()
    origin: str | None = None
    extras: tuple[Extra, ...] = ()
    provenance: Provenance = Provenance()

    @property
    def url(self) -> str:
        """The name of the group, which reports show in place of a URL."""
        return self.group.name

    @property
    def action(self) -> MembershipAction:
        """The key of the membership in an account."""
        return MembershipAction.MEMBERSHIP


RecordOrMembership = Record | Membership
"""An item of a chunk: a document or a group."""
