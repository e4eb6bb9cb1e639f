"""The address of an appliance, as its user gives it."""

import re
import ssl
from urllib.parse import SplitResult, urlsplit

from schemas.errors import ConfigError
from transforms.sinks.push.model import Appliance, ApplianceProtocol

FEEDERGATE_PORTS = {"http": 19900, "https": 19902}
"""Where a feedergate listens, if the address does not say it."""

FEED_PATH, GROUPS_PATH, BACKLOG_PATH = "/xmlfeed", "/xmlgroups", "/getbacklogcount"
DATA_PATH = "/recvdata.xml"
_PATHS = ("", FEED_PATH, GROUPS_PATH, BACKLOG_PATH)
_FEEDERGATE = "http://HOST[:19900], https://HOST[:19902]"
_EXPECTED = f"expected {_FEEDERGATE} or the whole address of a {DATA_PATH.lstrip('/')}"
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x20\x7f]")


def parse_target(
    url: str,
    *,
    profile: str | None = None,
    ca_file: str | None = None,
    proxy: str | None = None,
) -> Appliance:
    """Return what `--to` names; raise ConfigError unless feeds can be posted there.

    >>> parse_target("http://gsa.example.com/xmlfeed").url
    'http://gsa.example.com:19900'
    """
    parts = _split("--to", url, _EXPECTED)
    if parts.path.endswith(DATA_PATH):
        kind, address = ApplianceProtocol.RECVDATA, _authority(parts) + parts.path
    elif parts.path.rstrip("/") in _PATHS:
        kind, address = ApplianceProtocol.FEEDERGATE, _authority(parts, FEEDERGATE_PORTS)
    else:
        raise ConfigError(f"--to: {url!r}: a path of {parts.path!r}; {_EXPECTED}")
    if ca_file is not None:
        trust(ca_file)
    return Appliance(
        protocol=kind,
        url=address,
        profile=_profile(kind, profile),
        ca_file=ca_file,
        proxy=None if proxy is None else _proxy(proxy),
    )


def trust(ca_file: str | None) -> ssl.SSLContext:
    """Return what certificates are checked by: those of a file, or those of the system."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as exc:
        raise ConfigError(f"--ca-file: {ca_file}: no certificates; expected some in PEM") from exc
    except OSError as exc:
        raise ConfigError(
            f"--ca-file: {ca_file}: {exc.strerror}; expected certificates in PEM"
        ) from exc


def _split(flag: str, url: str, expected: str) -> SplitResult:
    """Return the parts of an address that has scheme, host and path, and nothing beyond."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise ConfigError(f"{flag}: {url!r}; {expected}") from exc
    if "@" in parts.netloc:  # not shown: it may be a password
        raise ConfigError(f"{flag}: a user or password in the address; {expected}")
    if parts.query or parts.fragment or url.endswith(("?", "#")):
        raise ConfigError(f"{flag}: {url!r}: something behind the path; {expected}")
    if (
        parts.scheme not in FEEDERGATE_PORTS
        or not _HOST.fullmatch(_host(parts))
        or port == 0
        or _CONTROL.search(url)
    ):
        raise ConfigError(f"{flag}: {url!r}; {expected}")
    return parts


def _authority(parts: SplitResult, ports: dict[str, int] | None = None) -> str:
    port = parts.port or (ports or {}).get(parts.scheme)
    return f"{parts.scheme}://{_host(parts)}" + (f":{port}" if port else "")


def _host(parts: SplitResult) -> str:
    name = parts.hostname or ""
    return f"[{name}]" if ":" in name else name


def _profile(kind: ApplianceProtocol, profile: str | None) -> str:
    if kind is ApplianceProtocol.FEEDERGATE and profile is not None:
        raise ConfigError(f"--profile: {profile!r}; expected none, as a feedergate knows none")
    if kind is ApplianceProtocol.RECVDATA and not profile:
        raise ConfigError(
            "--profile: not given; expected the profile that receives, as the address ends in"
            " recvdata.xml"
        )
    if profile and any(not letter.isprintable() for letter in profile):
        raise ConfigError(f"--profile: {profile!r}; expected a name without control characters")
    return profile or ""


def _proxy(proxy: str) -> str:
    expected = "expected http://HOST:PORT or https://HOST:PORT"
    parts = _split("--proxy", proxy, expected)
    if parts.path.rstrip("/"):
        raise ConfigError(f"--proxy: {proxy!r}: a path of {parts.path!r}; {expected}")
    return _authority(parts)
