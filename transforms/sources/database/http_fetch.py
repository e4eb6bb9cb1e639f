"""Documents behind urls, fetched over HTTP: where a table holds only links to them.

Only http and https are followed, through at most five redirects. An answer is taken whole or not
at all: with the status 200, within a time and a size that all of it must keep to. What is told of
a url shows no user, password or query in it.
"""

import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from http import HTTPStatus
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPResponse,
    HTTPSConnection,
)
from socket import SHUT_RDWR, socket
from threading import Timer
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, quote, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from schemas.errors import RecordError
from transforms.sources.database.values import check_size

USER_AGENT = "feedferry"

_MOST_REDIRECTS = 5
_BLOCK_BYTES = 1 << 16
_SAFE = "!#$%&'()*+,/:;=?@[]~"
_UNTOLD = ("application/octet-stream", "binary/octet-stream")


class Fetched(NamedTuple):
    """A document, and what its server says of it; None where it says nothing of use."""

    content: bytes
    mimetype: str | None
    charset: str | None


def fetch(url: str, *, timeout_seconds: float, max_bytes: int) -> Fetched:
    """Return the document behind a url; raise RecordError unless all of it comes in time."""
    request = Request(_checked(url), headers={"User-Agent": USER_AGENT})
    watch = _Watch(timeout_seconds)
    try:
        with watch, _opener(watch).open(request, timeout=timeout_seconds) as response:
            fetched = _read(response, max_bytes=max_bytes)
    except HTTPError as exc:
        exc.close()
        raise _failed(url, _status(exc.code)) from exc
    except (OSError, HTTPException, ValueError) as exc:
        raise _failed(url, _why(exc, watch, timeout_seconds)) from exc
    if watch.is_over:  # an answer without a length ends where the connection does
        raise _failed(url, _late(timeout_seconds))
    return fetched


class _Watch:
    """Shuts the connections of a fetch when its time is over: a server may drip for ever."""

    def __init__(self, seconds: float) -> None:
        self.is_over = False
        self._sockets: list[socket] = []
        self._timer = Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *exc: object) -> None:
        self._timer.cancel()
        self._sockets.clear()

    def connection(self, make: Callable[..., HTTPConnection], host: str, **how: Any) -> Any:
        """Return a connection that is shut when the time is over."""
        connection = make(host, **how)
        connect = connection.connect

        def connect_and_watch() -> None:
            connect()
            self._sockets.append(connection.sock)
            if self.is_over:  # whoever shuts connections came before this one
                raise TimeoutError

        connection.connect = connect_and_watch  # type: ignore[method-assign]  # of this one only
        return connection

    def _end(self) -> None:
        self.is_over = True
        for one in list(self._sockets):
            with suppress(OSError):
                one.shutdown(SHUT_RDWR)


class _Http(HTTPHandler):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(partial(self._watch.connection, HTTPConnection), req)


class _Https(HTTPSHandler):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def https_open(self, req: Request) -> HTTPResponse:
        make = partial(self._watch.connection, HTTPSConnection)
        return self.do_open(make, req, context=_trusted())


class _Redirects(HTTPRedirectHandler):
    max_redirections = _MOST_REDIRECTS

    def redirect_request(  # noqa: PLR0913, PLR0917 - as urllib calls it
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        try:
            checked = _checked(newurl)
        except RecordError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, checked)


@cache
def _trusted() -> ssl.SSLContext:
    """To load the certificates takes longer than most fetches."""
    return ssl.create_default_context()


def _opener(watch: _Watch) -> OpenerDirector:
    """No handler of files, FTP or `data:`, and none that logs in."""
    opener = OpenerDirector()
    handlers = (_Http(watch), _Https(watch), _Redirects(), ProxyHandler())
    for handler in (*handlers, HTTPErrorProcessor(), HTTPDefaultErrorHandler()):
        opener.add_handler(handler)
    return opener


def _checked(url: str) -> str:
    """The url in ASCII, but for its host; RecordError unless it is one of HTTP without a user."""
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise _failed(url, "no http or https url", expected="one")
    if "@" in parts.netloc:
        raise _failed(url, "a user in the url", expected="none, as others may see it")
    path, query = (quote(part, safe=_SAFE) for part in (parts.path, parts.query))
    return parts._replace(path=path, query=query, fragment="").geturl()


def _read(response: HTTPResponse, *, max_bytes: int) -> Fetched:
    if response.status != HTTPStatus.OK:
        raise _failed(response.url, _status(response.status))
    packed = response.headers.get("Content-Encoding", "identity")
    if packed.lower() != "identity":
        raise _failed(response.url, f"Content-Encoding: {packed}", expected="none")
    check_size(response.length or 0, max_bytes)
    content = bytearray()
    while block := response.read1(_BLOCK_BYTES):
        content += block
        if len(content) > max_bytes:
            check_size(len(content), max_bytes)
    if response.length:
        found = f"{len(content)} bytes, and {response.length} that never came"
        raise _failed(response.url, found, expected="all of them")
    return Fetched(bytes(content), *_told(response.headers))


def _told(headers: HTTPMessage) -> tuple[str | None, str | None]:
    stated = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    mimetype = stated if "/" in stated and stated not in _UNTOLD else None
    return mimetype, headers.get_content_charset()


def _status(code: int) -> str:
    """The status that an answer had; urllib's own words for it may show where it led."""
    if code in (301, 302, 303, 307, 308):
        return f"{code}, and no more redirects are followed"
    known = {status.value: f" {status.phrase}" for status in HTTPStatus}
    return f"{code}{known.get(code, '')}"


def _why(exc: Exception, watch: _Watch, seconds: float) -> str:
    cause = exc.reason if isinstance(exc, URLError) else exc
    if watch.is_over or isinstance(cause, TimeoutError):
        return _late(seconds)
    return getattr(cause, "strerror", None) or type(cause).__name__


def _late(seconds: float) -> str:
    return f"not all of it within {seconds:g} s"


def _failed(url: str, found: str, *, expected: str = "200 OK") -> RecordError:
    return RecordError("fetch-failed", f"{_shown(url)}: {found}; expected {expected}")


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _shown(url: str) -> str:
    parts = _split(url)
    if parts is None or not parts.hostname:
        return "a url that cannot be read"
    netloc = parts.netloc.rpartition("@")[2]
    return repr(parts._replace(netloc=netloc, query="", fragment="").geturl())
