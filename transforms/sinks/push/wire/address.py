"""Parse the address of an appliance; the kinds of appliances."""

import re
import ssl
from collections.abc import Iterator
from operator import attrgetter
from urllib.parse import urlsplit

import msgspec

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.registry import Registry
from feedferry.transforms.sinks.push.wire.auth import Auth, is_loopback
from feedferry.transforms.sinks.push.wire.discovery_engine.data_store import DATA_STORE
from feedferry.transforms.sinks.push.wire.feedergate import FEEDERGATE
from feedferry.transforms.sinks.push.wire.opensearch.opensearch import OPENSEARCH_CLUSTER
from feedferry.transforms.sinks.push.wire.protocol import Address, Appliance, ApplianceProtocol
from feedferry.transforms.sinks.push.wire.recvdata import RECVDATA
from feedferry.transforms.sinks.push.wire.solr.solr import SOLR_COLLECTION

_ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[^?#@\x00-\x20\x7f]*)?",
    re.ASCII | re.IGNORECASE,
)


APPLIANCES = Registry(
    "feedferry.appliances",
    ApplianceProtocol,
    FEEDERGATE,
    RECVDATA,
    DATA_STORE,
    OPENSEARCH_CLUSTER,
    SOLR_COLLECTION,
)
"""The kinds of appliances."""


def parse_target(
    url: str,
    *,
    profile: str | None = None,
    ca_file: str | None = None,
    proxy: str | None = None,
    auth: Auth | None = None,
) -> Appliance:
    """Return the appliance at an address; raise ConfigError unless feeds can be sent there.

    >>> parse_target("http://gsa.example.com/xmlfeed").url
    'http://gsa.example.com:19900'
    """
    appliance = appliance_at(url, ca_file=ca_file, proxy=proxy, auth=auth)
    has_profiles = appliance.protocol.has_profiles
    if profile is not None and not has_profiles:
        raise ConfigError(f"⟦profile⟧: {profile!r}; expected none: {appliance.url} has no profiles")
    if has_profiles and not profile:
        raise ConfigError(
            f"⟦profile⟧: not given; expected the profile of {appliance.url} that receives the data"
        )
    return msgspec.structs.replace(appliance, profile=profile or "")


def appliance_at(
    url: str,
    *,
    setting: str = "url",
    ca_file: str | None = None,
    proxy: str | None = None,
    auth: Auth | None = None,
) -> Appliance:
    """Return the appliance at an address, without a profile; raise ConfigError if there is none.

    `setting` is the name of the setting that has the address.
    """
    protocol, found = find_kind(url, setting=setting)
    proxy = None if proxy is None else _parse_proxy(proxy)
    route = [found] if proxy is None else [found, proxy]
    is_local = all(is_loopback(urlsplit(hop).hostname or "") for hop in route)
    if auth is not None and found.startswith("http://") and not is_local:
        raise ConfigError(
            f"⟦auth⟧: {auth.kind.value} for {' through '.join(route)}: everybody on the way could"
            " read it; expected https://"
        )
    if ca_file is not None:
        trusted_certificates(ca_file)
    return Appliance(protocol=protocol, url=found, ca_file=ca_file, proxy=proxy, auth=auth)


def find_kind(url: str, *, setting: str = "url") -> tuple[ApplianceProtocol, str]:
    """Return the kind of the appliance at an address, and its URL; raise ConfigError for none."""
    expected = f"expected {' or '.join(protocol.addresses for protocol in APPLIANCES)}"
    address = _split(f"⟦{setting}⟧", url, expected)
    for protocol in sorted(APPLIANCES, key=attrgetter("takes_any_path")):
        if found := protocol.find_url(address):
            return protocol, found
    raise ConfigError(f"⟦{setting}⟧: {url!r}: path {address.path!r}; {expected}")


def kinds_for(format: str) -> Iterator[ApplianceProtocol]:
    """Yield the kinds of appliances that take a format."""
    return (kind for kind in APPLIANCES if kind.endpoint_of(format) is not None)


def trusted_certificates(ca_file: str | None) -> ssl.SSLContext:
    """Return the certificate authorities of a file, or those of the system."""
    expected = "expected certificates in PEM"
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as exc:
        raise ConfigError(f"⟦ca_file⟧: {ca_file}: no certificates; {expected}") from exc
    except OSError as exc:
        raise ConfigError(f"⟦ca_file⟧: {ca_file}: {exc.strerror}; {expected}") from exc


def _parse_proxy(proxy: str) -> str:
    expected = "expected http://HOST:PORT or https://HOST:PORT"
    address = _split("⟦proxy⟧", proxy, expected)
    if address.path.rstrip("/"):
        raise ConfigError(f"⟦proxy⟧: {proxy!r}: path {address.path!r}; {expected}")
    return f"{address.scheme}://{address.host}{address.port}"


def _split(flag: str, url: str, expected: str) -> Address:
    """Return the parts of a URL that may only have these."""
    if "@" in url:  # not shown: it may be a password
        raise ConfigError(f"{flag}: a user or password in the address; {expected}")
    match = _ADDRESS.fullmatch(url)
    if not match or (match["port"] and not 0 < int(match["port"]) < 1 << 16):
        raise ConfigError(f"{flag}: {url!r}; {expected}")
    port = f":{int(match['port'])}" if match["port"] else ""
    return Address(match["scheme"].lower(), match["host"].lower(), port, match["path"] or "")
