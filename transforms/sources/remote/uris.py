"""URIs of remote files: their schemes, and which of them can be read and shown.

URIs appear in reports, so a URI that may contain a secret is refused, and the message does not show
it. References to secrets in a URI are resolved here.
"""

import re
from importlib.util import find_spec
from typing import NamedTuple
from urllib.parse import quote

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.config.secrets import resolve


class Scheme(NamedTuple):
    """`authority` matches what may follow `://`; a URI with anything else is not shown.

    Without a package, it is object storage, whose library is no extra.
    """

    extra: str
    package: str
    authority: str
    expected: str


_HOST = r"(?:\[[^\[\]@]+\]|[^\[\]@:]+)(?::[0-9]{1,5})?"
SFTP = Scheme("sftp", "paramiko", f"(?:[^:@]+@)?{_HOST}", "USER@HOST:PORT/PATH")
_HTTP = Scheme("http", "aiohttp", _HOST, "HOST:PORT/PATH")
_BUCKET = Scheme("", "", "[^:@]+", "BUCKET/PREFIX")
_CONTAINER = Scheme("", "", "[^:@]+", "CONTAINER/PREFIX")
_SCHEMES = {
    "s3": _BUCKET,
    "gs": _BUCKET,
    "az": _CONTAINER,
    "abfs": _CONTAINER,
    "sftp": SFTP,
    "ssh": SFTP,
    "http": _HTTP,
    "https": _HTTP,
}
_CREDENTIALS = "and credentials as in docs/formats/files.md, Remote trees"

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)", re.DOTALL)
_PATH_CHARS = "/!$&'()*+,;=:@"


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI in lower case, or "" for the path of a local file."""
    return split_uri(uri)[0]


def check_remote(root: str) -> None:
    """Raise ConfigError unless the root is the URI of a folder that can be read and shown."""
    if known_scheme(root) is _HTTP:
        raise ConfigError(
            f"{scheme_of(root)}: folders of web servers are not listed; expected a local copy, as"
            " by wget --mirror, or a feed of URLs that the appliance crawls"
        )


def locate_object(uri: str) -> tuple[str, str]:
    """Return the URI of a bucket or container, and the name of an object or a folder in it."""
    known_scheme(uri)
    scheme, authority, path = split_uri(uri)
    return f"{scheme}://{authority}", path.removeprefix("/")


def join_uri(folder: str, name: str) -> str:
    """Return the URI of a file or a folder below a folder; those of SFTP are percent-encoded."""
    if scheme_of(folder) in ("sftp", "ssh"):
        name = quote(name, safe=_PATH_CHARS).replace("~", "%7E")  # a ~ would be the home folder
    return f"{folder}/{name}"


def known_scheme(uri: str) -> Scheme:
    """Return the scheme of a URI; raise ConfigError if the URI cannot be read or shown."""
    scheme, authority, _ = split_uri(uri)
    known = _SCHEMES.get(scheme)
    if known is None:
        raise ConfigError(f"unknown scheme {scheme!r}; expected one of {', '.join(_SCHEMES)}")
    if not re.fullmatch(known.authority, authority):
        raise ConfigError(
            f"{scheme}://…: not shown, because it may contain a secret; expected"
            f" {scheme}://{known.expected}, {_CREDENTIALS}"
        )
    if known.package and find_spec(known.package) is None:
        raise ConfigError(
            f"{scheme}: {known.package} is not installed; expected it:"
            f" pip install 'feedferry[{known.extra}]'"
        )
    return known


def split_uri(uri: str) -> tuple[str, str, str]:
    """Return scheme, authority, and the remainder with its slash."""
    match = _URI.fullmatch(resolve(uri))
    return (match[1].lower(), match[2], match[3]) if match else ("", "", "")
