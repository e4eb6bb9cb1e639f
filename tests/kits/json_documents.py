"""The kit of JSON documents, with the fields of decisions."""

import json
from urllib.parse import unquote

from feedferry.testing.protection import CONTROLS, ComparedPrincipal, Protection
from feedferry.transforms.formats import JSON_DOCUMENTS
from kits.base import Kit

_KINDS = {"u": "user", "g": "group"}


def _protection_of(text: bytes) -> Protection:
    """Return what protects the one document of a line."""
    [line] = map(json.loads, text.splitlines())
    if line["action"] == "delete":
        return Protection()
    if all("*" in line[f"acl_{part}_permit_1"] for part in (1, 2, 3)):
        return Protection()
    assert line["acl_2_permit_1"] == line["acl_3_permit_1"] == ["*"], line
    return Protection(
        has_acl=True,
        permits=frozenset(map(_principal, line["acl_1_permit_1"])),
        denies=frozenset(map(_principal, line["acl_1_deny_1"])),
        is_secure=True,
    )


def _principal(token: str) -> ComparedPrincipal:
    kind, namespace, name = token.split(":")
    return ComparedPrincipal(
        _KINDS[kind[0]],
        unquote(name).strip(CONTROLS),
        unquote(namespace),
        any_case=kind[1] == "i",
    )


JSON_DOCUMENTS_KIT = Kit(
    format=JSON_DOCUMENTS,
    reads_record="",
    protection_of=_protection_of,
    rare_losses=frozenset({"charset"}),
)
