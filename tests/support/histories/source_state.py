"""The state of a source, and who may see its documents by the words of the guide.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Per-URL ACLs and ACL Inheritance". Nothing of
feedferry is used here.
"""

from collections.abc import Iterator
from enum import Enum

import msgspec
from msgspec.structs import replace

Key = tuple[str, str]
"""The datasource and the path of a document or a folder."""

Pair = tuple[str, Key]
"""A log-in and a document."""


class Permission(Enum):
    PERMIT = "permit"
    DENY = "deny"
    INDETERMINATE = "indeterminate"


class Rule(Enum):
    CHILD = "child-overrides"
    PARENT = "parent-overrides"
    BOTH = "and-both-permit"
    LEAF = "leaf-node"


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A principal as an ACL of the source names it."""

    name: str
    is_group: bool = False
    denies: bool = False
    namespace: str = "Default"
    any_case: bool = False


class StatedAcl(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL; `parent` is the path from which it inherits."""

    rule: Rule = Rule.LEAF
    parent: str | None = None
    principals: tuple[Named, ...] = ()


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A folder, or a document without an ACL or with one, which may be sent alone.

    An ACL that is not known was damaged on its way. A document without a content is an ACL whose
    document has not been sent.
    """

    acl: StatedAcl | None
    is_folder: bool = False
    is_alone: bool = False
    is_known: bool = True
    has_content: bool = True
    version: int = 1


Group = tuple[str, str]
"""The namespace and the name of a group."""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """A user; each name and group has a namespace."""

    names: tuple[tuple[str, str], ...]
    groups: frozenset[Group] = frozenset()


class SourceState(msgspec.Struct, frozen=True, kw_only=True):
    """All items; log-ins by their names; the new names of users that a table states.

    The `groups` of groups feeds have members. If one of them is not known, no user can search. A
    job that `replaces_groups` does so where a decision has too many parts otherwise.
    """

    items: dict[Key, Item] = {}
    logins: dict[str, Login] = {}
    table: dict[str, str] = {}
    groups: dict[Group, tuple[Named, ...]] = {}
    unknown_groups: frozenset[Group] = frozenset()
    replaces_groups: bool = False

    def with_item(self, key: Key, item: Item | None) -> "SourceState":
        items = {**self.items}
        items.pop(key, None)
        if item is not None:
            items[key] = item
        return replace(self, items=items)

    def documents(self) -> Iterator[Key]:
        for key, item in self.items.items():
            if not item.is_folder and item.has_content:
                yield key

    def permitted(self, *, groups_of: "SourceState | None" = None) -> set[Pair]:
        """Return the log-ins and documents of which the source permits one to see the other.

        The groups of groups feeds may be those of another state.
        """
        held = groups_of or self
        if held.unknown_groups:
            return set()
        logins = {name: held._with_groups(login) for name, login in self.logins.items()}
        return {
            (name, key)
            for key in self.documents()
            for name, login in logins.items()
            if self._permits(login, key)
        }

    def _with_groups(self, login: Login) -> Login:
        """Return a log-in with the groups that have it, or one of its groups, as a member."""
        while True:
            more = {
                group
                for group, members in self.groups.items()
                if any(self._names(member, login) for member in members)
            }
            if more <= login.groups:
                return login
            login = replace(login, groups=login.groups | more)

    def _permits(self, login: Login, key: Key) -> bool:
        item = self.items[key]
        if not item.is_known:
            return False
        if item.acl is None:
            return True
        return self._decide(item.acl, login, key[0], ()) is Permission.PERMIT

    def _decide(
        self, acl: StatedAcl, login: Login, datasource: str, above: tuple[str, ...]
    ) -> Permission | None:
        """Return what an ACL and its chain come to, None for a chain that is broken."""
        own = self._own(acl, login)
        if acl.parent is None:
            return own
        if acl.parent in above:
            return None
        parent = self._acl_at(acl.parent, datasource)
        if parent is None or parent.rule is Rule.LEAF:
            return None
        inherited = self._decide(parent, login, datasource, (*above, acl.parent))
        return None if inherited is None else _together(own, inherited, parent.rule)

    def _own(self, acl: StatedAcl, login: Login) -> Permission:
        named = [each for each in acl.principals if self._names(each, login)]
        if any(each.denies for each in named):
            return Permission.DENY
        return Permission.PERMIT if named else Permission.INDETERMINATE

    def _names(self, principal: Named, login: Login) -> bool:
        held = login.groups if principal.is_group else login.names
        name = (
            principal.name if principal.is_group else self.table.get(principal.name, principal.name)
        )
        return any(
            namespace == principal.namespace
            and (own == name or (principal.any_case and own.lower() == name.lower()))
            for namespace, own in held
        )

    def _acl_at(self, path: str, datasource: str) -> StatedAcl | None:
        """Return the ACL of a path: that of the datasource, or else the only one of all others."""
        held = self.items.get((datasource, path))
        if held is not None and held.acl is not None:
            return held.acl if held.is_known else None
        others = [
            item for (of, at), item in self.items.items() if at == path and item.acl is not None
        ]
        stated = {item.acl for item in others}
        return stated.pop() if len(stated) == 1 and all(item.is_known for item in others) else None


def _together(child: Permission, parent: Permission, rule: Rule) -> Permission:
    if rule is Rule.BOTH:
        both = child is Permission.PERMIT and parent is Permission.PERMIT
        return Permission.PERMIT if both else Permission.DENY
    first, then = (child, parent) if rule is Rule.CHILD else (parent, child)
    return then if first is Permission.INDETERMINATE else first
