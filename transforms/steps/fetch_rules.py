"""The rules of `fetch`, without the HTTP client."""

from ipaddress import ip_network
from typing import Annotated, Literal

import msgspec

from feedferry.schemas.content import MAX_CONTENT_BYTES
from feedferry.transforms.config.secrets import REFERENCE
from feedferry.transforms.config.yaml_structs import (
    Duration,
    Positive,
    PositiveDuration,
    Size,
    Value,
    parse_text,
)
from feedferry.transforms.steps.patterns import Patterns

BEARER = "Bearer "


def _parse_networks(value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    try:
        return tuple(str(ip_network(parse_text(text))) for text in values)
    except ValueError:
        raise ValueError from None


def _parse_credentials(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not value:
        raise ValueError
    for host, text in value.items():
        if not isinstance(host, str) or not isinstance(text, str) or not _has_reference(text):
            raise ValueError("credentials without a reference; expected HOST: USER:${env:NAME}")
    return {host.lower(): text for host, text in value.items()}


def _has_reference(text: str) -> bool:
    """Whether the secret is a reference: all but the user."""
    user, separator, secret = text.partition(":")
    if text.startswith(BEARER):
        return REFERENCE.fullmatch(text.removeprefix(BEARER)) is not None
    return bool(user and separator) and REFERENCE.fullmatch(secret) is not None


_Networks = Annotated[
    tuple[str, ...], Value(_parse_networks, "a network such as 10.0.0.0/8, or a list of networks")
]
_Credentials = Annotated[
    dict[str, str], Value(_parse_credentials, "a mapping of hosts to USER:${env:NAME}")
]


class FetchRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which hosts may be contacted, how, and what becomes of URLs without a document.

    Without `hosts`, a redirect stays at the host of its URL. `networks` are private networks that
    may be contacted. `parallel` and `per_host` are the most requests at a time of one worker, with
    a `pause` between those to a host. With `conditional`, a document is only fetched if it has
    changed since the date of its record.
    """

    hosts: Patterns | None = None
    networks: _Networks = ()
    credentials: _Credentials = {}
    parallel: Positive = 8
    per_host: Positive = 2
    pause: Duration = 0.0
    timeout: PositiveDuration = 60.0
    max_bytes: Size = MAX_CONTENT_BYTES
    attempts: Positive = 3
    robots: Literal["obey", "ignore"] = "obey"
    conditional: bool = False
    gone: Literal["reject", "delete"] = "reject"
