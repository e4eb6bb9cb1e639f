"""Access control lists of documents: principals and inheritance.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Per-URL ACLs and ACL Inheritance".
"""

import enum

import msgspec

DEFAULT_NAMESPACE = "Default"
"""The namespace of a principal that states none, as the appliance has it."""

_BLANKS = " \t\r\n"


def identity(namespace: str | None, name: str) -> tuple[str, str]:
    """Return the namespace and the name of a principal as an appliance compares them.

    >>> identity(None, " staff ")
    ('Default', 'staff')
    """
    return namespace or DEFAULT_NAMESPACE, name.strip(_BLANKS)


class Scope(enum.Enum):
    """The kind of a principal."""

    __hash__ = object.__hash__  # written in C; members are keys of caches

    USER = "USER"
    GROUP = "GROUP"


class Access(enum.Enum):
    """The access that an entry grants or denies."""

    __hash__ = object.__hash__

    PERMIT = "PERMIT"
    DENY = "DENY"


SCOPES = {scope.value.lower(): scope for scope in Scope}
ACCESSES = {access.value.lower(): access for access in Access}
"""The words of feeds and tables."""


class Inheritance(enum.Enum):
    """The rule that combines the decision of an ACL with the decision of its child."""

    __hash__ = object.__hash__

    PARENT_OVERRIDES = "PARENT_OVERRIDES"
    CHILD_OVERRIDES = "CHILD_OVERRIDES"
    AND_BOTH_PERMIT = "AND_BOTH_PERMIT"
    LEAF_NODE = "LEAF_NODE"


class Principal(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user or group in a namespace; `None` if the source does not state the value."""

    name: str
    scope: Scope
    access: Access
    namespace: str | None = None
    case_sensitive: bool | None = None
    unqualified: bool = False


class AclLayer(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entries of a decision that count together, a denial before a permit.

    `part` is the number of its part, from 0.
    """

    part: int
    principals: tuple[Principal, ...] = ()


WAITING = (AclLayer(part=0), AclLayer(part=0))
"""The decision about a document that inherits from a URL without an ACL yet: it permits no user."""


class Acl(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The principals of one URL, in source order.

    `alone` marks an ACL without a document: the ACL of a folder, or a new ACL of a document that
    was sent before. One that `withholds` permits no user, and no later ACL alone replaces it.

    `decision` is what the ACL and all above it decide, in order, if that was resolved; the layers
    of a part are neighbours. In each part, the first layer that names the user decides, and without
    one, the user is denied. A user whom all parts permit may see the document. Without layers, the
    decision is not resolved.
    """

    inheritance: Inheritance | None = None
    inherit_from: str | None = None
    inherit_fragment: str | None = None
    principals: tuple[Principal, ...] = ()
    alone: bool = False
    decision: tuple[AclLayer, ...] = ()
    withholds: bool = False

    @property
    def inherits(self) -> bool:
        """Whether other ACLs have a part in the decision about its document."""
        return self.inherit_from is not None or self.inherit_fragment is not None

    @property
    def is_waiting(self) -> bool:
        """Whether its decision waits for the ACL of `inherit_from`."""
        return self.decision == WAITING

    @property
    def permits_nobody(self) -> bool:
        """Whether no principal is permitted, and there is no other ACL to inherit from."""
        if self.decision:
            return not any(
                principal.access is Access.PERMIT
                for layer in self.decision
                for principal in layer.principals
            )
        return self.inherit_from is None and all(p.access is Access.DENY for p in self.principals)
