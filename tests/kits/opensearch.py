"""The kit of `_bulk` bodies."""

import json
from collections.abc import Collection, Mapping
from urllib.parse import unquote

from feedferry.testing.protection import CONTROLS, ComparedPrincipal, Protection
from feedferry.transforms.formats.opensearch.opensearch_format import OPENSEARCH, OpensearchOptions
from feedferry.transforms.rules.adapt import Target
from kits.base import Kit, words

_KINDS = {"u": "user", "g": "group"}


def _protection_of(text: bytes) -> Protection:
    """Return what protects the one document of a body: its own ACL, as chains are not resolved."""
    *_, last = map(json.loads, text.splitlines())
    if "index" in last or "delete" in last:
        return Protection()
    return protection_of_fields(last["script"]["params"]["fields"] if "script" in last else last)


def protection_of_fields(fields: Mapping[str, Collection[str]]) -> Protection:
    """Return what the fields of a decision say."""
    if all("*" in fields.get(f"acl_{part}_permit_1", ()) for part in (1, 2, 3)):
        return Protection()
    assert fields.get("acl_2_permit_1") == fields.get("acl_3_permit_1") == ["*"], fields
    return Protection(
        has_acl=True,
        permits=frozenset(map(_principal, fields.get("acl_1_permit_1", ()))),
        denies=frozenset(map(_principal, fields.get("acl_1_deny_1", ()))),
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


OPENSEARCH_KIT = Kit(
    format=OPENSEARCH,
    reads_record="feedferry.transforms.formats.opensearch.bulk_reader._record",
    words=words(
        '{"index":{"_id":"http://h.x/1"}}\n¦{"delete":{"_id":"http://h.x/1"}}\n¦{"create":{}}\n'
        '¦{"update":{"_id":"http://h.x/1"}}\n¦{"doc":{}}\n¦{"body":"b"}\n¦{"size":1}\n¦\n¦{'
    ),
    protection_of=_protection_of,
    rare_losses=frozenset({"charset"}),
    targets=(
        Target(format="opensearch"),
        Target(
            format="opensearch",
            own=(OpensearchOptions(pipeline="attachment", fields=(("A", "own"),)),),
        ),
    ),
)
