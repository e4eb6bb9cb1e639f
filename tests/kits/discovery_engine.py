"""The kit of documents of Discovery Engine."""

import json

from feedferry.testing.protection import ComparedPrincipal, Protection
from feedferry.transforms.formats import DISCOVERY_ENGINE
from feedferry.transforms.rules.adapt import Target
from kits.base import Kit

_SCOPES = {"user_id": "user", "group_id": "group"}


class AnyCase(frozenset[ComparedPrincipal]):
    """Permits by name: the identity provider decides whether case counts."""

    def __le__(self, other: object) -> bool:
        assert isinstance(other, frozenset)
        names, permitted = (
            {(who.scope, who.name.casefold()) for who in each} for each in (self, other)
        )
        return names <= permitted


class AnyDenials(frozenset[ComparedPrincipal]):
    """Denials of which none is written: tests of readers compare who is permitted."""

    def __ge__(self, other: object) -> bool:
        return True


def _protection_of(text: bytes) -> Protection:
    """Return what protects the one document of a line: its own ACL, as chains are not resolved."""
    [line] = map(json.loads, text.splitlines())
    [reader] = line["acl_info"]["readers"]
    if reader.get("idp_wide"):
        return Protection()
    named = [item for principal in reader["principals"] for item in principal.items()]
    return Protection(
        has_acl=True,
        permits=AnyCase(
            ComparedPrincipal(_SCOPES[key], name)
            for key, name in named
            if name != "google:fakeUserToPreventMissingAcl"
        ),
        denies=AnyDenials(),
        is_secure=True,
    )


DISCOVERY_ENGINE_KIT = Kit(
    format=DISCOVERY_ENGINE,
    reads_record="",
    protection_of=_protection_of,
    rare_losses=frozenset({"charset", "content"}),
    targets=(
        Target(format="discovery-engine"),
        Target(format="discovery-engine", feedtype="full"),
    ),
)
