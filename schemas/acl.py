"""Who may see a document: an ACL, its principals and where it inherits from.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Per-URL ACLs and ACL Inheritance".
"""

import enum

import msgspec


class Scope(enum.Enum):
    """What a principal is."""

    USER = "USER"
    GROUP = "GROUP"


class Access(enum.Enum):
    """What a principal may do."""

    PERMIT = "PERMIT"
    DENY = "DENY"


class Inheritance(enum.Enum):
    """How the decision of this ACL and that of the one it inherits to are combined."""

    PARENT_OVERRIDES = "PARENT_OVERRIDES"
    CHILD_OVERRIDES = "CHILD_OVERRIDES"
    AND_BOTH_PERMIT = "AND_BOTH_PERMIT"
    LEAF_NODE = "LEAF_NODE"


class Principal(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user or group in a namespace; `None` where its source does not say."""

    name: str
    scope: Scope
    access: Access
    namespace: str | None = None
    case_sensitive: bool | None = None
    unqualified: bool = False


class Acl(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The principals of one url, in source order.

    `alone` marks an ACL that travels without a document: the url of a folder, or the new ACL of
    a document that was sent before.
    """

    inheritance: Inheritance | None = None
    inherit_from: str | None = None
    inherit_fragment: str | None = None
    principals: tuple[Principal, ...] = ()
    alone: bool = False
