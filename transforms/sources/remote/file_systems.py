"""Remote file systems: folders and files by their paths, and errors in one form.

SFTP and the web are read through fsspec. The library of a scheme is imported when the first URI of
that scheme is used; those of SFTP and the web are optional, extras of feedferry.
"""

import errno
import importlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from msgspec.structs import replace

from feedferry.schemas.errors import FeedferryError
from feedferry.schemas.span import FileSignature
from feedferry.transforms.config.secrets import resolve, secrets_in
from feedferry.transforms.net.redaction import Mask
from feedferry.transforms.net.retry import RetryPolicy, retry
from feedferry.transforms.sources.remote.uris import (
    SFTP,
    check_remote,
    join_uri,
    known_scheme,
    locate_object,
    split_uri,
)
from feedferry.transforms.storage.storage import is_object

_CONNECT_SECONDS = 30
_READ_SECONDS = 60
_MAX_ERROR_CHARS = 300
_URL_CHARS = "%/:?#[]@!$&'()*+,;=~"  # a URL that is encoded already stays as it is
_TIMES = ("mtime", "Last-Modified")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Result = TypeVar("_Result")


def connect(uri: str) -> tuple[Any, str]:
    """Return the file system of a URI of SFTP or the web, and the path of the URI in it.

    File systems are cached by fsspec, which has no types.
    """
    known = known_scheme(uri)
    scheme, authority, path = split_uri(uri)
    if known is SFTP:
        sftp = importlib.import_module("feedferry.transforms.sources.remote.sftp")
        is_home = path == "/~" or path.startswith("/~/")
        with translate_errors(uri):
            return sftp.connect(authority), unquote(f".{path[2:]}" if is_home else path or "/")
    fsspec = importlib.import_module("fsspec")
    return fsspec.filesystem(scheme, **_http_options()), quote(resolve(uri), safe=_URL_CHARS)


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Raise OSError for every error of a remote file system: the libraries share no base class."""
    try:
        yield
    except FeedferryError:
        raise
    except Exception as exc:
        if getattr(exc, "filename", None) == path:  # it is translated
            raise
        raise _os_error(path, exc) from exc


def again(operation: Callable[[], _Result]) -> _Result:
    """Return the result of an operation, which is repeated once after EIO.

    The connection may have ended since the last file or folder.
    """
    policy = RetryPolicy(first_seconds=0.0, max_attempts=2)
    return retry(operation, policy, is_temporary=lambda exc: getattr(exc, "errno", 0) == errno.EIO)


def error_text(exc: BaseException) -> str:
    """Return what went wrong, without the number and the path of an OSError."""
    return getattr(exc, "strerror", None) or str(exc) or type(exc).__name__


def match_remote(pattern: str) -> dict[str, FileSignature | None]:
    """Return the files that match the glob of a URI, sorted; object storage lists size and time.

    Raise ConfigError for an unknown scheme and for a web server, OSError if the files cannot be
    listed.
    """
    check_remote(pattern)
    if not is_object(pattern):
        root = _folder_of(pattern)
        with translate_errors(pattern):
            files, path = connect(pattern)
            begin = len(connect(root)[1].rstrip("/")) + 1
            return {join_uri(root, name[begin:]): None for name in sorted(files.glob(path))}
    from fsspec.utils import glob_translate

    from feedferry.transforms.storage.objects.requests import list_objects

    bucket, key = locate_object(pattern)
    folder = _folder_of(key)
    is_match = re.compile(glob_translate(key)).match
    is_deep = "**" in key or "/" in key.removeprefix(f"{folder}/")
    found = list_objects(bucket, folder, uri=pattern, is_deep=is_deep)
    prefix = pattern.removesuffix(key)
    # Not every server has the same ETag in a list and in the response with the object.
    files = {f"{prefix}{name}": replace(sign, version="") for name, sign in found if is_match(name)}
    return dict(sorted(files.items()))


def _folder_of(pattern: str) -> str:
    """Return the folder whose files a glob matches, without its final `/`."""
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0]


def read_info(info: Mapping[str, object]) -> FileSignature:
    """Return what an info of fsspec states; each file system has its own names."""
    size = info.get("size")
    modified = next((info[name] for name in _TIMES if info.get(name)), None)
    return FileSignature(
        size=size if isinstance(size, int) else None,
        modified_ns=_modified_ns(modified),
        version=str(info.get("ETag") or "").strip('"'),
    )


def _modified_ns(value: object) -> int | None:
    if isinstance(value, str):
        try:
            value = parsedate_to_datetime(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * 1000


def _http_options() -> dict[str, object]:
    aiohttp = importlib.import_module("aiohttp")
    timeout = aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS, sock_read=_READ_SECONDS)
    client = {
        "headers": {"User-Agent": "feedferry", "Accept-Encoding": "identity"},
        "timeout": timeout,
        "trust_env": True,  # ~/.netrc and proxies
        "auto_decompress": False,
    }
    links = {"simple_links": False, "use_listings_cache": False}
    return {**links, "encoded": True, "client_kwargs": client}


def _os_error(path: str, exc: Exception) -> OSError:
    # For any answer to a request for information, fsspec's HTTP raises FileNotFoundError.
    cause = exc.__cause__ if isinstance(exc, FileNotFoundError) and exc.__cause__ else exc
    status = getattr(cause, "status", None)
    if isinstance(cause, FileNotFoundError) or status in (404, 410):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    is_denied = isinstance(cause, PermissionError) or status in (401, 403)
    text = error_text(cause)
    if isinstance(status, int):
        text = f"{status} {getattr(cause, 'message', '')}".strip()
    text = Mask(secrets_in([path])).text(text)
    text = text.partition("\n")[0][:_MAX_ERROR_CHARS]  # libraries may quote what they received
    return OSError(errno.EACCES if is_denied else errno.EIO, text, path)  # the number's subclass
