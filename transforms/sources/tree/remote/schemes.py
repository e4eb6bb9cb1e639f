"""Trees that are not local, by the scheme of their uri.

What a scheme needs is loaded when a tree of it is met: boto3 alone takes longer than `--help` may.
Secrets stand elsewhere than in uris, which all reports show.
"""

import importlib
import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import IO, Any, NamedTuple, Protocol

from schemas.errors import ConfigError
from transforms.sources.listing import Listed
from transforms.sources.tree.tree import Tree

PACKAGE = "transforms.sources.tree.remote"


class _Scheme(NamedTuple):
    """The module that knows a scheme, the one that it needs, and what is installed to have that.

    `authority` is what may stand behind `://`; a uri with anything else there is not shown.
    """

    module: str
    needed: str
    install: str
    authority: re.Pattern[str]
    expected: str


_HOST = r"(?:\[[^\[\]@]+\]|[^\[\]@:]+)(?::[0-9]{1,5})?"
_S3 = _Scheme(
    module="s3",
    needed="boto3",
    install="smart-open[s3]",
    authority=re.compile("[^:@]+"),
    expected="s3://BUCKET/PREFIX, and credentials where boto3 finds them",
)
_SFTP = _Scheme(
    module="sftp",
    needed="paramiko",
    install="paramiko",
    authority=re.compile(f"(?:[^:@]+@)?{_HOST}"),
    expected="sftp://USER@HOST:PORT/PATH, and a password only in FEEDFERRY_SFTP_PASSWORD",
)
_WEB = _Scheme(
    module="web",
    needed="requests",
    install="requests",
    authority=re.compile(_HOST),
    expected="http://HOST:PORT/PATH, and who has to log in in ~/.netrc",
)
_GS = _Scheme(
    module="clouds",
    needed="google.cloud.storage",
    install="apache-beam[gcp]",
    authority=_S3.authority,
    expected="gs://BUCKET/PREFIX, and credentials where Google's library finds them",
)
_AZURE = _Scheme(
    module="clouds",
    needed="azure.storage.blob",
    install="apache-beam[azure]",
    authority=_S3.authority,
    expected="azfs://ACCOUNT/CONTAINER/PREFIX, and AZURE_STORAGE_CONNECTION_STRING",
)
_HDFS = _Scheme(
    module="clouds",
    needed="hdfs",
    install="hdfs",
    authority=re.compile(f"(?:{_HOST})?"),
    expected="hdfs://HOST:PORT/PATH",
)
_SCHEMES = {
    "s3": _S3,
    "sftp": _SFTP,
    "ssh": _SFTP,
    "scp": _SFTP,
    "http": _WEB,
    "https": _WEB,
    "gs": _GS,
    "azfs": _AZURE,
    "hdfs": _HDFS,
}
_NAMES = ", ".join(_SCHEMES)

LISTED = frozenset(scheme for scheme, known in _SCHEMES.items() if known.module != "clouds")
"""The schemes of trees that are listed here; Beam lists others."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)", re.DOTALL)


class Place(Protocol):
    """A tree on a server; `find` asks for one file by its key."""

    def list(self) -> Iterator[Any]: ...

    def find(self, key: str) -> Any: ...


def scheme_of(uri: str) -> str:
    """Return the scheme of a uri, nothing for the path of a local file."""
    return _split(uri)[0]


def check_remote(root: str) -> None:
    """Raise ConfigError unless trees like this can be read, and everybody may see their uris."""
    known = _known(root)
    scheme, authority, path = _split(root)
    if known is _WEB and not {"?", "#"}.isdisjoint(path):
        shown = f"{scheme}://{authority}{re.split('[?#]', path)[0]}"
        raise ConfigError(f"{shown}: a query or a fragment behind it; expected the uri of a folder")


def list_remote(tree: Tree) -> Iterator[Listed]:
    """Yield what stands in a tree, in the order of the UTF-8 bytes of its keys.

    What cannot be read, or is not to be, is a line as well. Raise SourceError where the root cannot
    be listed, ConfigError where no tree of its kind can.
    """
    check_remote(tree.root)
    if tree.acl is not None and tree.acl.table is None:
        raise ConfigError(
            f"{tree.root}: nobody tells the owners of its files; expected a table of ACLs"
        )
    place: Place = _module(tree.root).connect(tree)
    listing = importlib.import_module(f"{PACKAGE}.listing")
    lines: Iterator[Listed] = listing.list_files(tree, place.list(), find=place.find)
    return lines


def open_remote(path: str) -> IO[bytes]:
    """Open a remote file; it raises OSError rather than end before its end.

    Raise FileNotFoundError where it is gone, another OSError where it cannot be opened, SourceError
    where its server cannot be talked to.
    """
    stream: IO[bytes] = _module(path).open_file(path)
    return stream


def _split(uri: str) -> tuple[str, str, str]:
    """Return scheme, authority, and what stands behind it."""
    match = _URI.fullmatch(uri)
    return (match[1].lower(), match[2], match[3]) if match else ("", "", "")


def _module(uri: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{_known(uri).module}")


def _known(uri: str) -> _Scheme:
    """Return what is known of a scheme; raise ConfigError where such a uri cannot be used."""
    scheme, authority, _ = _split(uri)
    known = _SCHEMES.get(scheme)
    if known is None:
        raise ConfigError(f"{scheme!r} is no scheme that is known; expected one of {_NAMES}")
    if not known.authority.fullmatch(authority):
        raise ConfigError(
            f"{scheme}://…: not shown, as there may be a secret in it; expected {known.expected}"
        )
    if not _is_installed(known.needed):
        raise ConfigError(
            f"{scheme}: {known.needed} is not installed; expected it: pip install '{known.install}'"
        )
    return known


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of a package that it would be in
        return False
