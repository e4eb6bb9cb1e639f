"""Fetch documents over HTTP, for tables that hold only links to them.

At most five redirects are followed, to http and https only. A response counts only if it has the
status 200 and is complete within the timeout and the size limit. Messages show no user, password or
query of a URL.
"""

import ssl
import time
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

import httpx2

from schemas.errors import RecordError
from transforms.response_deadline import ResponseDeadline
from transforms.sources.database.values import check_size

MAX_REDIRECTS = 5

_HEADERS = {"User-Agent": "feedferry", "Accept": "*/*", "Accept-Encoding": "identity"}
_GENERIC_TYPES = ("application/octet-stream", "binary/octet-stream")


class FetchedDocument(NamedTuple):
    """A document with the mimetype and the charset that its server states."""

    content: bytes
    mimetype: str | None
    charset: str | None


def fetch(
    url: str,
    *,
    timeout_seconds: float,
    max_bytes: int,
    clock: Callable[[], float] = time.monotonic,
) -> FetchedDocument:
    """Return the document at a URL; raise RecordError unless it is complete in time."""
    outcome: FetchedDocument | str | None
    end = clock() + timeout_seconds
    with httpx2.Client(headers=_HEADERS, verify=_trusted()) as client:
        for _ in range(MAX_REDIRECTS + 1):
            _check_url(url)
            seconds = max(end - clock(), 0.001)
            deadline = ResponseDeadline(seconds)
            options: dict[str, Any] = {"timeout": seconds, "extensions": {"trace": deadline.trace}}
            try:
                with deadline, client.stream("GET", url, **options) as response:
                    outcome = _read(url, response, max_bytes=max_bytes)
            except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as exc:
                if not deadline.is_exceeded and not isinstance(exc, httpx2.TimeoutException):
                    raise _error(url, _cause(exc), expected="200 OK") from exc
                outcome = None
            if outcome is None or deadline.is_exceeded or clock() > end:
                found = f"not complete within {timeout_seconds:g} s"
                raise _error(url, found, expected="200 OK")
            if isinstance(outcome, FetchedDocument):
                return outcome
            url = urljoin(url, outcome)
    raise _error(url, f"more than {MAX_REDIRECTS} redirects", expected="200 OK")


@cache
def _trusted() -> ssl.SSLContext:
    """Certificates load more slowly than most documents."""
    return ssl.create_default_context()


def _read(url: str, response: httpx2.Response, *, max_bytes: int) -> FetchedDocument | str:
    """Return the document, or the location of a redirect."""
    if response.is_redirect and "location" in response.headers:
        return str(response.headers["location"])
    if response.status_code != HTTPStatus.OK:
        status = f"{response.status_code} {response.reason_phrase}".rstrip()
        raise _error(url, status, expected="200 OK")
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise _error(url, f"Content-Encoding: {encoding}", expected="none")
    length = response.headers.get("content-length", "")
    check_size(int(length) if length.isdecimal() else 0, max_bytes)
    content = bytearray()
    for block in response.iter_raw():
        content += block
        check_size(len(content), max_bytes)
    stated = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    mimetype = stated if "/" in stated and stated not in _GENERIC_TYPES else None
    charset = response.charset_encoding
    return FetchedDocument(bytes(content), mimetype, charset and charset.lower())


def _cause(exc: Exception) -> str:
    """Return the error of the operating system, if there is one below the classes of httpx2."""
    inner: BaseException | None = exc
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        inner = inner.__cause__ or inner.__context__
    return str(exc) or type(exc).__name__


def _check_url(url: str) -> None:
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise _error(url, "not an http or https URL", expected="one")
    if "@" in parts.netloc:
        raise _error(url, "a user in the URL", expected="none, as others may see it")


def _error(url: str, found: str, *, expected: str) -> RecordError:
    return RecordError("fetch-failed", f"{_show(url)}: {found}; expected {expected}")


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _show(url: str) -> str:
    parts = _split(url)
    if parts is None or not parts.hostname:
        return "a URL that cannot be parsed"
    netloc = parts.netloc.rpartition("@")[2]
    return repr(parts._replace(netloc=netloc, query="", fragment="").geturl())
