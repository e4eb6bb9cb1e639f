"""What protects a document, read without the formats and adapters under test.

Records and documents are read with lxml, json, fastavro and a splitter of tokens.
"""

import base64
import io
import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import fastavro
import msgspec
from lxml import etree

from feedferry.schemas.record import Meta, Record

_CONTROLS = "".join(map(chr, range(0x21)))
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
    sight = _of_plain(plain)
    if sight.has_acl:  # next to an ACL, no appliance needs an unknown authmethod
        sight = sight._replace(is_secure=_of_plain(plain | {"extras": ()}).is_secure)
    return sight


def of_gsa_feed(text: bytes) -> Protection:
    """The protection of the one record, or ACL alone, of a feed."""
    root = etree.fromstring(text)
    [(group, unit)] = [(group, child) for group in root.iter("group") for child in group]
    attributes = (*group.items(), *unit.items())
    is_secure = any(name.lower() == "authmethod" and value != "none" for name, value in attributes)
    metas = tuple(map(_meta, unit.iter("meta")))
    acl = unit if unit.tag == "acl" else unit.find("acl")
    if acl is None:
        return _of_metadata(metas)._replace(is_secure=is_secure)
    people = [(part.get("access"), _principal(part)) for part in acl.iter("principal")]
    parent = acl.get("inherit-from", "")
    return Protection(
        has_acl=bool(people or parent),  # an appliance takes an empty acl for none
        permits=frozenset(who for access, who in people if access == "permit"),
        denies=frozenset(who for access, who in people if access == "deny"),
        parent=parent,
        kind=acl.get("inheritance-type", ""),
        is_secure=is_secure,
        unread=_acl_names(metas),
    )


def of_retriever_stream(text: bytes) -> Protection:
    """The protection that the commands of one document state."""
    collected: dict[str, Any] = {"permit": set(), "deny": set(), "metas": []}
    namespace, name, flags = "Default", "", dict[str, str]()
    head = text.partition(b"\0content\0")[0].split(b"\0")[1:]
    for coded in head:
        token = coded.replace(b"\xc0\x80", b"\0").replace(b"\xc0\x8a", b"\n")
        command, _, value = token.decode().partition("=")
        people = re.fullmatch("acl-(permit|deny)-(user|group)", command)
        if people:
            collected[people[1]].add(ComparedPrincipal(people[2], value, namespace))
        elif command == "namespace":
            namespace = value
        elif command == "meta-name":
            name = value
        elif command == "meta-value":
            collected["metas"].append(Meta(name, value))
        else:
            flags[command] = value
    any_case = "acl-case-insensitive" in flags
    fragment = flags.get("acl-inherit-fragment")
    metas = tuple(collected["metas"])
    is_secure = flags.get("secure") == "true"
    if "acl" not in flags:
        return _of_metadata(metas)._replace(is_secure=is_secure)
    return Protection(
        has_acl=True,
        permits=frozenset(who._replace(any_case=any_case) for who in collected["permit"]),
        denies=frozenset(who._replace(any_case=any_case) for who in collected["deny"]),
        parent=flags.get("acl-inherit-from", "") + ("" if fragment is None else f"?{fragment}"),
        kind=flags.get("acl-inheritance-type", ""),
        is_secure=is_secure,
        unread=_acl_names(metas),
    )


def of_jsonl(text: bytes) -> Protection:
    return _of_plain(json.loads(text))


def of_avro(text: bytes) -> Protection:
    [record] = fastavro.reader(io.BytesIO(text))
    assert isinstance(record, dict)
    return _of_plain(record)


def _of_plain(record: dict[str, Any]) -> Protection:
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
        return _of_metadata(metas)._replace(is_secure=is_secure)
    people = [
        (
            part["access"].lower(),
            ComparedPrincipal(
                part["scope"].lower(),
                part["name"].strip(_CONTROLS),
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
        unread=_acl_names(metas),
    )


def _of_metadata(metas: Iterable[Meta]) -> Protection:
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
                collected[access].add(ComparedPrincipal(scope, who.strip(_CONTROLS)))
        elif name == "google:aclinheritfrom" and meta.data is None and meta.value and not parent:
            has_acl, parent = True, meta.value
        elif name == "google:aclinheritancetype" and meta.value in _TYPES and not kind:
            has_acl, kind = True, meta.value
        elif name.startswith("google:acl"):
            unread.add(name)
    permits, denies = frozenset(collected["permit"]), frozenset(collected["deny"])
    return Protection(has_acl, permits, denies, parent, kind, unread=frozenset(unread))


def _acl_names(metas: Iterable[Meta]) -> frozenset[str]:
    """Return the names of ACL metadata next to an ACL, which an appliance may read or not."""
    names = (meta.name.strip(" \t\r\n").lower() for meta in metas)
    return frozenset(name for name in names if name.startswith("google:acl"))


def _meta(element: etree._Element) -> Meta:
    name, value = element.get("name", ""), element.get("content", "")
    if element.get("encoding") is None:
        return Meta(name, value)
    data = base64.b64decode(value)
    try:
        return Meta(base64.b64decode(name).decode(), data.decode())
    except UnicodeDecodeError:
        return Meta(base64.b64decode(name).decode(), "", data)


def _principal(element: etree._Element) -> ComparedPrincipal:
    return ComparedPrincipal(
        element.get("scope", ""),
        (element.text or "").strip(_CONTROLS),
        element.get("namespace", "Default"),
        element.get("case-sensitivity-type") == "everything-case-insensitive",
        element.get("principal-type") == "unqualified",
    )
