"""Parse the address of an appliance."""

import re
import ssl

from schemas.errors import ConfigError
from transforms.sinks.push.wire.feedergate import BACKLOG_PATH, FEEDERGATE
from transforms.sinks.push.wire.protocol import REQUEST_FORMS, Appliance
from transforms.sinks.push.wire.recvdata import RECVDATA

RECVDATA_PATH = "/recvdata.xml"
_DEFAULT_PORTS = {"http": ":19900", "https": ":19902"}
_FEEDERGATE_PATHS = {"", BACKLOG_PATH, *(form.path for form in REQUEST_FORMS.values())}
_ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[^?#@\x00-\x20\x7f]*)?",
    re.ASCII | re.IGNORECASE,
)
_EXPECTED = (
    "expected http://HOST[:19900], https://HOST[:19902] or the whole address of a "
    f"{RECVDATA_PATH.lstrip('/')}"
)


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
    scheme, host, port, path = _split("--to", url, _EXPECTED)
    protocol, address = RECVDATA, f"{scheme}://{host}{port}{path}"
    if path.rstrip("/") in _FEEDERGATE_PATHS:
        protocol, address = FEEDERGATE, f"{scheme}://{host}{port or _DEFAULT_PORTS[scheme]}"
    elif not path.endswith(RECVDATA_PATH):
        raise ConfigError(f"--to: {url!r}: path {path!r}; {_EXPECTED}")
    if profile is not None and not protocol.has_profiles:
        raise ConfigError(f"--profile: {profile!r}; expected none: only Thunderstone has profiles")
    if protocol.has_profiles and not profile:
        raise ConfigError(
            "--profile: not given; expected the profile that receives, because the address ends in "
            "recvdata.xml"
        )
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


def _parse_proxy(proxy: str) -> str:
    expected = "expected http://HOST:PORT or https://HOST:PORT"
    scheme, host, port, path = _split("--proxy", proxy, expected)
    if path.rstrip("/"):
        raise ConfigError(f"--proxy: {proxy!r}: path {path!r}; {expected}")
    return f"{scheme}://{host}{port}"


def _split(flag: str, url: str, expected: str) -> tuple[str, str, str, str]:
    """Return scheme, host, `:PORT` if it is stated, and path; nothing else is allowed."""
    if "@" in url:  # not shown: it may be a password
        raise ConfigError(f"{flag}: a user or password in the address; {expected}")
    match = _ADDRESS.fullmatch(url)
    if not match or (match["port"] and not 0 < int(match["port"]) < 1 << 16):
        raise ConfigError(f"{flag}: {url!r}; {expected}")
    port = f":{int(match['port'])}" if match["port"] else ""
    return match["scheme"].lower(), match["host"].lower(), port, match["path"] or ""
