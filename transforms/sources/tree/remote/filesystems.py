"""Remote file systems by the scheme of a URI, all of them through fsspec.

The library for a scheme is an optional dependency, an extra of feedferry, and is imported when the
first URI of that scheme is used. URIs appear in reports, so a URI that may contain a secret is
refused, and the message does not show it.
"""

import errno
import importlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote

from schemas.errors import ConfigError, FeedferryError


class RemoteReader(Protocol):
    """An open file of fsspec."""

    def read(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, /) -> object: ...

    def close(self) -> object: ...


class _Scheme(NamedTuple):
    """`authority` matches what may follow `://`; a URI with anything else is not shown."""

    extra: str
    package: str
    authority: re.Pattern[str]
    expected: str


_HOST = r"(?:\[[^\[\]@]+\]|[^\[\]@:]+)(?::[0-9]{1,5})?"
_BUCKET = re.compile("[^:@]+")
_S3 = _Scheme("s3", "s3fs", _BUCKET, "s3://BUCKET/PREFIX, and credentials as for the AWS CLI")
_GOOGLE = _Scheme("gcs", "gcsfs", _BUCKET, "gs://BUCKET/PREFIX, and Google's default credentials")
_AZURE = _Scheme(
    "azure", "adlfs", _BUCKET, "az://CONTAINER/PREFIX, and AZURE_STORAGE_CONNECTION_STRING"
)
_SFTP = _Scheme(
    "sftp",
    "paramiko",
    re.compile(f"(?:[^:@]+@)?{_HOST}"),
    "sftp://USER@HOST:PORT/PATH, and a password only in FEEDFERRY_SFTP_PASSWORD",
)
_HTTP = _Scheme(
    "http", "aiohttp", re.compile(_HOST), "http://HOST:PORT/PATH, and user and password in ~/.netrc"
)
_SCHEMES = {
    "s3": _S3,
    "gs": _GOOGLE,
    "az": _AZURE,
    "sftp": _SFTP,
    "ssh": _SFTP,
    "http": _HTTP,
    "https": _HTTP,
}

REMOTE_SCHEMES = frozenset(_SCHEMES)

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)", re.DOTALL)
_CONNECT_SECONDS = 30
_READ_SECONDS = 60
_MAX_ERROR_CHARS = 300
_URL_CHARS = "%/:?#[]@!$&'()*+,;=~"  # a URL that is encoded already stays as it is


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI in lower case, or "" for the path of a local file."""
    return _split(uri)[0]


def check_remote(root: str) -> None:
    """Raise ConfigError unless the root is the URI of a folder that can be read and shown."""
    known = _known(root)
    scheme, authority, path = _split(root)
    if known is _HTTP and not {"?", "#"}.isdisjoint(path):
        shown = f"{scheme}://{authority}{re.split('[?#]', path)[0]}"
        raise ConfigError(f"{shown}: has a query or a fragment; expected the URI of a folder")


def connect(uri: str, *, lists_pages: bool = False) -> tuple[Any, str]:
    """Return the file system of a URI, and the path of the URI in it.

    File systems are cached by fsspec, which has no types. `lists_pages` is for folders of web
    servers: a redirect is not followed there, as it often leads to a login page.
    """
    known = _known(uri)
    scheme, authority, path = _split(uri)
    if known is _SFTP:
        sftp = importlib.import_module("transforms.sources.tree.remote.sftp")
        is_home = path == "/~" or path.startswith("/~/")
        return sftp.connect(authority), unquote(f".{path[2:]}" if is_home else path or "/")
    fsspec = importlib.import_module("fsspec")
    options: dict[str, Any] = {"use_listings_cache": False}
    if known is _HTTP:
        options |= _http_options(lists_pages=lists_pages)
        path_there = quote(uri, safe=_URL_CHARS)
    else:
        path_there = authority + path
    return fsspec.filesystem(scheme, **options), path_there


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Raise OSError for every error of a remote file system: the libraries share no base class."""
    try:
        yield
    except FeedferryError:
        raise
    except Exception as exc:
        raise _os_error(path, exc) from exc


def error_text(exc: OSError) -> str:
    """Return what went wrong, without the number and the path."""
    return exc.strerror or str(exc) or type(exc).__name__


def _http_options(*, lists_pages: bool) -> dict[str, Any]:
    aiohttp = importlib.import_module("aiohttp")
    timeout = aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS, sock_read=_READ_SECONDS)
    client = {
        "headers": {"User-Agent": "feedferry", "Accept-Encoding": "identity"},
        "timeout": timeout,
        "trust_env": True,  # ~/.netrc and proxies
        "auto_decompress": lists_pages,
    }
    options: dict[str, Any] = {"simple_links": False, "encoded": True, "client_kwargs": client}
    return options | {"allow_redirects": False} if lists_pages else options


def _os_error(path: str, exc: Exception) -> OSError:
    # For any answer to a request for information, fsspec's HTTP raises FileNotFoundError.
    cause = exc.__cause__ if isinstance(exc, FileNotFoundError) and exc.__cause__ else exc
    status = getattr(cause, "status", None)
    if isinstance(status, int):
        text = f"{status} {getattr(cause, 'message', '')}".strip()
        number = _HTTP_ERRORS.get(status, errno.EIO)
    else:
        text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        number = _number_of(cause)
    if number == errno.ENOENT:
        text = os.strerror(number)
    text = text.partition("\n")[0][:_MAX_ERROR_CHARS]  # libraries may quote what they received
    return OSError(number, text, path)  # of the subclass that the number has


def _number_of(exc: BaseException) -> int:
    if isinstance(exc, FileNotFoundError):
        return errno.ENOENT
    return errno.EACCES if isinstance(exc, PermissionError) else errno.EIO


_HTTP_ERRORS: Mapping[int, int] = {
    401: errno.EACCES,
    403: errno.EACCES,
    404: errno.ENOENT,
    410: errno.ENOENT,
}


def _split(uri: str) -> tuple[str, str, str]:
    """Return scheme, authority, and the remainder with its slash."""
    match = _URI.fullmatch(uri)
    return (match[1].lower(), match[2], match[3]) if match else ("", "", "")


def _known(uri: str) -> _Scheme:
    scheme, authority, _ = _split(uri)
    known = _SCHEMES.get(scheme)
    if known is None:
        raise ConfigError(f"unknown scheme {scheme!r}; expected one of {', '.join(_SCHEMES)}")
    if not known.authority.fullmatch(authority):
        raise ConfigError(
            f"{scheme}://…: not shown, because it may contain a secret; expected {known.expected}"
        )
    if find_spec(known.package) is None:
        raise ConfigError(
            f"{scheme}: {known.package} is not installed; expected it:"
            f" pip install 'feedferry[{known.extra}]'"
        )
    return known
