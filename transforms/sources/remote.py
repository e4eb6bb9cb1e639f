"""Remote files: which URIs can be read, and files as streams.

Object storage is read by `transforms.storage.objects`, SFTP and the web through fsspec. The library
of a scheme is imported when the first URI of that scheme is used; those of SFTP and the web are
optional, extras of feedferry. URIs appear in reports, so a URI that may contain a secret is
refused, and the message does not show it. References to secrets in a URI are resolved here.

A stream is either read to its end or raises an error: it never ends early without one, and never
joins bytes of two versions of a file. A connection that ends is opened again once, at the beginning
and in the middle of a file.
"""

import errno
import importlib
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from typing import IO, Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError, FeedferryError, SourceError
from feedferry.schemas.span import FileSignature
from feedferry.transforms.config.secrets import resolve, secrets_in
from feedferry.transforms.net.redaction import Mask
from feedferry.transforms.net.retry import RetryPolicy, retry
from feedferry.transforms.storage.files.block_stream import RemoteStream
from feedferry.transforms.storage.storage import is_object

BUFFER_BYTES = 1 << 20
REQUEST_BYTES = 4 << 20
"""Bytes of one range request; a larger file needs several."""


class _Scheme(NamedTuple):
    """`authority` matches what may follow `://`; a URI with anything else is not shown.

    Without a package, it is object storage, whose library is no extra.
    """

    extra: str
    package: str
    authority: str
    expected: str


_HOST = r"(?:\[[^\[\]@]+\]|[^\[\]@:]+)(?::[0-9]{1,5})?"
_SFTP = _Scheme("sftp", "paramiko", f"(?:[^:@]+@)?{_HOST}", "USER@HOST:PORT/PATH")
_HTTP = _Scheme("http", "aiohttp", _HOST, "HOST:PORT/PATH")
_BUCKET = _Scheme("", "", "[^:@]+", "BUCKET/PREFIX")
_CONTAINER = _Scheme("", "", "[^:@]+", "CONTAINER/PREFIX")
_SCHEMES = {
    "s3": _BUCKET,
    "gs": _BUCKET,
    "az": _CONTAINER,
    "abfs": _CONTAINER,
    "sftp": _SFTP,
    "ssh": _SFTP,
    "http": _HTTP,
    "https": _HTTP,
}
_CREDENTIALS = "and credentials as in docs/formats/files.md, Remote trees"

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)", re.DOTALL)
_CONNECT_SECONDS = 30
_READ_SECONDS = 60
_MAX_ERROR_CHARS = 300
_PATH_CHARS = "/!$&'()*+,;=:@"
_URL_CHARS = "%/:?#[]@!$&'()*+,;=~"  # a URL that is encoded already stays as it is
_TIMES = ("mtime", "Last-Modified")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Result = TypeVar("_Result")


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI in lower case, or "" for the path of a local file."""
    return _split(uri)[0]


def check_remote(root: str) -> None:
    """Raise ConfigError unless the root is the URI of a folder that can be read and shown."""
    if _known(root) is _HTTP:
        raise ConfigError(
            f"{scheme_of(root)}: folders of web servers are not listed; expected a local copy, as"
            " by wget --mirror, or a feed of URLs that the appliance crawls"
        )


def connect(uri: str) -> tuple[Any, str]:
    """Return the file system of a URI of SFTP or the web, and the path of the URI in it.

    File systems are cached by fsspec, which has no types.
    """
    known = _known(uri)
    scheme, authority, path = _split(uri)
    if known is _SFTP:
        sftp = importlib.import_module("feedferry.transforms.sources.remote.sftp")
        is_home = path == "/~" or path.startswith("/~/")
        with translate_errors(uri):
            return sftp.connect(authority), unquote(f".{path[2:]}" if is_home else path or "/")
    fsspec = importlib.import_module("fsspec")
    return fsspec.filesystem(scheme, **_http_options()), quote(resolve(uri), safe=_URL_CHARS)


def locate_object(uri: str) -> tuple[str, str]:
    """Return the URI of a bucket or container, and the name of an object or a folder in it."""
    _known(uri)
    scheme, authority, path = _split(uri)
    return f"{scheme}://{authority}", path.removeprefix("/")


def join_uri(folder: str, name: str) -> str:
    """Return the URI of a file or a folder below a folder; those of SFTP are percent-encoded."""
    if scheme_of(folder) in ("sftp", "ssh"):
        name = quote(name, safe=_PATH_CHARS).replace("~", "%7E")  # a ~ would be the home folder
    return f"{folder}/{name}"


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


def open_remote(path: str, offset: int = 0) -> IO[bytes]:
    """Open a remote file at an offset; the stream can be sought.

    Raise FileNotFoundError if there is no such file, another OSError if it cannot be opened, and
    SourceError if there is no connection to its server.
    """
    if is_object(path):
        from feedferry.transforms.storage.objects.object_stream import ObjectStream

        stream: RemoteStream = ObjectStream(*locate_object(path), offset, uri=path)
    else:
        stream = _FileStream(path)
        stream.seek(offset)
    return io.BufferedReader(stream, BUFFER_BYTES)


def version_of(stream: IO[bytes]) -> FileSignature | None:
    """Return the present signature of a file that `open_remote` opened, None for other streams."""
    raw = getattr(stream, "raw", None)
    return raw.signature() if isinstance(raw, RemoteStream) else None


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


def _split(uri: str) -> tuple[str, str, str]:
    """Return scheme, authority, and the remainder with its slash."""
    match = _URI.fullmatch(resolve(uri))
    return (match[1].lower(), match[2], match[3]) if match else ("", "", "")


def _known(uri: str) -> _Scheme:
    scheme, authority, _ = _split(uri)
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


class _FileStream(RemoteStream):
    """A file of SFTP or the web."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._position = 0
        self._received = 0
        self._reopened = False
        self._file: IO[bytes] | None = None
        self._signature = again(self._look)
        self._file = self._open()

    def signature(self) -> FileSignature:
        """Return the signature of the file as it is now; raise SourceError if it is removed."""
        if not self._received and not self._position:
            return self._signature
        try:
            return self._look()
        except OSError as exc:
            raise SourceError(
                f"{self._path}: {error_text(exc)} after it was opened; expected it to stay as it is"
            ) from exc

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        size = self._signature.size
        if whence == io.SEEK_END and size is None:
            raise io.UnsupportedOperation("seek from the end of a file of unknown size")
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: size or 0}[whence]
        if base + offset != self._position:
            self._drop()
            self._position = max(0, base + offset)
        return self._position

    def read_block(self, max_bytes: int) -> bytes:
        block = self._next_block(max_bytes)
        self._position += len(block)
        self._received += len(block)
        return block

    def close(self) -> None:
        if not self.closed:
            self._drop()
        super().close()

    def _next_block(self, max_bytes: int) -> bytes:
        size = self._signature.size
        if size is not None:
            max_bytes = min(max_bytes, size - self._position)
        while max_bytes > 0:
            cause = None
            try:
                with translate_errors(self._path):
                    file = self._file = self._file or self._open()
                    block = file.read(max_bytes)
                if block or size is None:
                    return block
            except OSError as exc:
                cause = exc
            self._prepare_retry(cause)
        if self._received > REQUEST_BYTES and self._look() != self._signature:
            raise self._error("changed while it was read")
        return b""

    def _look(self) -> FileSignature:
        with translate_errors(self._path):
            filesystem, path = connect(self._path)
            info = filesystem.info(path)
        if info.get("type") == "directory":
            raise IsADirectoryError(errno.EISDIR, "Is a directory", self._path)
        stated = read_info(info)
        version = f"{stated.version} {stated.modified_ns or ''}".strip()
        return FileSignature(size=stated.size, version=version)

    def _open(self) -> IO[bytes]:
        scheme, at_begin = scheme_of(self._path), not self._position
        options: dict[str, object] = {"block_size": REQUEST_BYTES}
        if scheme in ("sftp", "ssh"):
            options["offset"] = self._position
        elif scheme in ("http", "https"):
            options["size"] = self._signature.size
            if at_begin:
                options["block_size"] = 0  # one request, so no byte ranges are needed
        with translate_errors(self._path):
            filesystem, path = connect(self._path)
            file: IO[bytes] = filesystem.open(path, "rb", **options)
            if not at_begin:
                file.seek(self._position)
        return file

    def _prepare_retry(self, cause: OSError | None) -> None:
        """Let the next read open the file again; raise OSError if that was done before."""
        self._drop()
        if isinstance(cause, FileNotFoundError | PermissionError):
            raise cause
        if self._reopened or not self._signature.version:
            size = self._signature.size
            shown = "unknown" if size is None else size
            ended = f"the connection ended after {self._position} of {shown} bytes"
            raise self._error(ended) from cause
        self._reopened = True
        if _known(self._path) is _SFTP:  # the session may be broken; other schemes have none
            connect(self._path)[0].client.close()
        if self._look() != self._signature:
            raise self._error("changed while it was read") from cause

    def _drop(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _error(self, reason: str) -> OSError:
        return OSError(errno.EIO, reason, self._path)
