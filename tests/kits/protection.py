"""What protects a document of one of our formats, read without the code under test.

Documents are read with lxml, json, fastavro and a splitter of tokens.
"""

import base64
import io
import json
import re
from typing import Any

import fastavro
from lxml import etree

from feedferry.schemas.record import Meta
from feedferry.testing.protection import (
    CONTROLS,
    ComparedPrincipal,
    Protection,
    acl_names,
    of_metadata,
    of_plain,
)


def of_gsa_feed(text: bytes) -> Protection:
    """The protection of the one record, or ACL alone, of a feed."""
    root = etree.fromstring(text)
    [(group, unit)] = [(group, child) for group in root.iter("group") for child in group]
    attributes = (*group.items(), *unit.items())
    is_secure = any(name.lower() == "authmethod" and value != "none" for name, value in attributes)
    metas = tuple(map(_meta, unit.iter("meta")))
    acl = unit if unit.tag == "acl" else unit.find("acl")
    if acl is None:
        return of_metadata(metas)._replace(is_secure=is_secure)
    people = [(part.get("access"), _principal(part)) for part in acl.iter("principal")]
    parent = acl.get("inherit-from", "")
    return Protection(
        has_acl=bool(people or parent),  # an appliance takes an empty acl for none
        permits=frozenset(who for access, who in people if access == "permit"),
        denies=frozenset(who for access, who in people if access == "deny"),
        parent=parent,
        kind=acl.get("inheritance-type", ""),
        is_secure=is_secure,
        unread=acl_names(metas),
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
        return of_metadata(metas)._replace(is_secure=is_secure)
    return Protection(
        has_acl=True,
        permits=frozenset(who._replace(any_case=any_case) for who in collected["permit"]),
        denies=frozenset(who._replace(any_case=any_case) for who in collected["deny"]),
        parent=flags.get("acl-inherit-from", "") + ("" if fragment is None else f"?{fragment}"),
        kind=flags.get("acl-inheritance-type", ""),
        is_secure=is_secure,
        unread=acl_names(metas),
    )


def of_jsonl(text: bytes) -> Protection:
    return of_plain(json.loads(text))


def of_avro(text: bytes) -> Protection:
    [record] = fastavro.reader(io.BytesIO(text))
    assert isinstance(record, dict)
    return of_plain(record)


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
        (element.text or "").strip(CONTROLS),
        element.get("namespace", "Default"),
        element.get("case-sensitivity-type") == "everything-case-insensitive",
        element.get("principal-type") == "unqualified",
    )
