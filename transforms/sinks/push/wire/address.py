"""Parse the address of an appliance."""

import re
import ssl
from urllib.parse import SplitResult, urlsplit

from schemas.errors import ConfigError
from transforms.sinks.push.wire.feedergate import BACKLOG_PATH, FEEDERGATE
from transforms.sinks.push.wire.protocol import REQUEST_FORMS, Appliance, ApplianceProtocol
from transforms.sinks.push.wire.recvdata import RECVDATA

RECVDATA_PATH = "/recvdata.xml"
_DEFAULT_PORTS = {"http": 19900, "https": 19902}
_FEEDERGATE_PATHS = {"", BACKLOG_PATH, *(form.path for form in REQUEST_FORMS.values())}
_EXPECTED = (
    "expected http://HOST[:19900], https://HOST[:19902] or the whole address of a "
    f"{RECVDATA_PATH.lstrip('/')}"
)
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x20\x7f]")


def parse_target(
    url: str,
    *,
    profile: str | None = None,
    ca_file: str | None = None,
    proxy: str | None = None,
) -> Appliance:
    """Return the appliance at an address; raise ConfigError unless feeds can be sent there.

    >>> parse_target("http://gsa.example.com/xmlfeed").url
    'http://gsa.example.com:19900'
    """
    parts = _split("--to", url, _EXPECTED)
    if parts.path.endswith(RECVDATA_PATH):
        protocol, address = RECVDATA, _origin(parts) + parts.path
    elif parts.path.rstrip("/") in _FEEDERGATE_PATHS:
        protocol, address = FEEDERGATE, _origin(parts, _DEFAULT_PORTS)
    else:
        raise ConfigError(f"--to: {url!r}: path {parts.path!r}; {_EXPECTED}")
    _check_profile(protocol, profile)
    if ca_file is not None:
        trusted_certificates(ca_file)
    return Appliance(
        protocol=protocol,
        url=address,
        profile=profile or "",
        ca_file=ca_file,
        proxy=None if proxy is None else _parse_proxy(proxy),
    )


def trusted_certificates(ca_file: str | None) -> ssl.SSLContext:
    """Return the certificate authorities of a file, or those of the system."""
    expected = "expected certificates in PEM"
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as exc:
        raise ConfigError(f"--ca-file: {ca_file}: no certificates; {expected}") from exc
    except OSError as exc:
        raise ConfigError(f"--ca-file: {ca_file}: {exc.strerror}; {expected}") from exc


def _split(flag: str, url: str, expected: str) -> SplitResult:
    """Return the parts of an address that has a scheme, a host and a path only."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise ConfigError(f"{flag}: {url!r}; {expected}") from exc
    if "@" in parts.netloc:  # not shown: it may be a password
        raise ConfigError(f"{flag}: a user or password in the address; {expected}")
    if parts.query or parts.fragment or url.endswith(("?", "#")):
        raise ConfigError(f"{flag}: {url!r}: a query or fragment; {expected}")
    is_http = parts.scheme in _DEFAULT_PORTS
    if not is_http or not _HOST.fullmatch(_host(parts)) or port == 0 or _CONTROL.search(url):
        raise ConfigError(f"{flag}: {url!r}; {expected}")
    return parts


def _origin(parts: SplitResult, default_ports: dict[str, int] | None = None) -> str:
    port = parts.port or (default_ports or {}).get(parts.scheme)
    return f"{parts.scheme}://{_host(parts)}" + (f":{port}" if port else "")


def _host(parts: SplitResult) -> str:
    name = parts.hostname or ""
    return f"[{name}]" if ":" in name else name


def _check_profile(protocol: ApplianceProtocol, profile: str | None) -> None:
    if profile is not None and not protocol.has_profiles:
        raise ConfigError(f"--profile: {profile!r}; expected none: only Thunderstone has profiles")
    if protocol.has_profiles and not profile:
        raise ConfigError(
            "--profile: not given; expected the profile that receives, because the address ends in "
            "recvdata.xml"
        )
    if profile and not profile.isprintable():
        raise ConfigError(f"--profile: {profile!r}; expected a name without control characters")


def _parse_proxy(proxy: str) -> str:
    expected = "expected http://HOST:PORT or https://HOST:PORT"
    parts = _split("--proxy", proxy, expected)
    if parts.path.rstrip("/"):
        raise ConfigError(f"--proxy: {proxy!r}: path {parts.path!r}; {expected}")
    return _origin(parts)
