"""What protects a document, read without the formats and adapters under test."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from feedferry.schemas.record import Meta, Record

CONTROLS = "".join(map(chr, range(0x21)))
_ROLE = re.compile(r"=(owner|writer|reader|peeker)\s*\Z")
_LISTS = {
    "google:aclusers": ("user", "permit"),
    "google:aclgroups": ("group", "permit"),
    "google:acldenyusers": ("user", "deny"),
    "google:acldenygroups": ("group", "deny"),
}
_TYPES = ("parent-overrides", "child-overrides", "and-both-permit", "leaf-node")


class ComparedPrincipal(NamedTuple):
    """A principal as an appliance compares it."""

    scope: str
    name: str
    namespace: str = "Default"
    any_case: bool = False
    unqualified: bool = False


class Protection(NamedTuple):
    """What protects a document; `unread` is ACL metadata that is not the ACL."""

    has_acl: bool = False
    permits: frozenset[ComparedPrincipal] = frozenset()
    denies: frozenset[ComparedPrincipal] = frozenset()
    parent: str = ""
    kind: str = ""
    is_secure: bool = False
    unread: frozenset[str] = frozenset()

    def shows_no_more_than(self, other: "Protection") -> bool:
        """Whether a document that is protected like this has no new readers."""
        if other.is_secure and not self.is_secure:
            return False
        if not other.unread <= self.unread:
            return False
        if not other.has_acl:
            return True
        return (
            self.has_acl
            and self.permits <= other.permits
            and self.denies >= other.denies
            and (self.parent, self.kind) == (other.parent, other.kind)
        )


def of_record(record: Record) -> Protection:
    """Return the protection that a record states, in any of the known ways."""
    plain = msgspec.to_builtins(record)
    sight = of_plain(plain)
    if sight.has_acl:  # next to an ACL, no appliance needs an unknown authmethod
        sight = sight._replace(is_secure=of_plain(plain | {"extras": ()}).is_secure)
    return sight


def of_plain(record: dict[str, Any]) -> Protection:
    crawl, acl = record.get("crawl") or {}, record.get("acl")
    is_secure = (crawl.get("authmethod") or "NONE") != "NONE" or bool(crawl.get("secure"))
    is_secure |= any(
        part["place"].lower().endswith("/@authmethod") for part in record.get("extras") or ()
    )
    metas = tuple(
        Meta(part["name"], part.get("value") or "", part.get("data") and b"?")
        for part in record.get("metadata") or ()
    )
    if acl is None:
        return of_metadata(metas)._replace(is_secure=is_secure)
    people = [
        (
            part["access"].lower(),
            ComparedPrincipal(
                part["scope"].lower(),
                part["name"].strip(CONTROLS),
                "Default" if part.get("namespace") is None else part["namespace"],
                part.get("case_sensitive") is False,
                bool(part.get("unqualified")),
            ),
        )
        for part in acl.get("principals") or ()
        if part["name"].strip(" \t\r\n")
    ]
    fragment = acl.get("inherit_fragment")
    return Protection(
        has_acl=True,
        permits=frozenset(who for access, who in people if access == "permit"),
        denies=frozenset(who for access, who in people if access == "deny"),
        parent=(acl.get("inherit_from") or "") + ("" if fragment is None else f"?{fragment}"),
        kind=(acl.get("inheritance") or "").lower().replace("_", "-"),
        is_secure=is_secure,
        unread=acl_names(metas),
    )


def of_metadata(metas: Iterable[Meta]) -> Protection:
    """What `google:acl*` metadata says, in any case of letters and with blanks around."""
    collected: dict[str, set[ComparedPrincipal]] = {"permit": set(), "deny": set()}
    parent = kind = ""
    has_acl, unread = False, set()
    for meta in metas:
        name = meta.name.strip(" \t\r\n").lower()
        if name in _LISTS and meta.data is None:
            has_acl = True
            scope, access = _LISTS[name]
            role = _ROLE.search(meta.value)
            who = _ROLE.sub("", meta.value)
            is_ignored = role is not None and role[1] == "peeker" and access == "permit"
            if who.strip(" \t\r\n") and not is_ignored:
                collected[access].add(ComparedPrincipal(scope, who.strip(CONTROLS)))
        elif name == "google:aclinheritfrom" and meta.data is None and meta.value and not parent:
            has_acl, parent = True, meta.value
        elif name == "google:aclinheritancetype" and meta.value in _TYPES and not kind:
            has_acl, kind = True, meta.value
        elif name.startswith("google:acl"):
            unread.add(name)
    permits, denies = frozenset(collected["permit"]), frozenset(collected["deny"])
    return Protection(has_acl, permits, denies, parent, kind, unread=frozenset(unread))


def acl_names(metas: Iterable[Meta]) -> frozenset[str]:
    """Return the names of ACL metadata next to an ACL, which an appliance may read or not."""
    names = (meta.name.strip(" \t\r\n").lower() for meta in metas)
    return frozenset(name for name in names if name.startswith("google:acl"))
