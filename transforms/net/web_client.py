"""Gets documents by HTTP, within limits of time, size, redirects, hosts and addresses.

The address is that of the connection, so that a host whose name changes its address between a look
up and the connection is refused, too. Messages show no user, password or query of a URL.
"""

import os
import ssl
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import httpx2

from feedferry.schemas.errors import RecordError
from feedferry.transforms.net.response_deadline import ResponseDeadline

AGENT = "feedferry"
MAX_REDIRECTS = 5
SCHEMES = ("http", "https")
GONE = (404, 410)
TEMPORARY = (408, 425, 429, 500, 502, 503, 504)
"""Statuses of servers that may answer otherwise when they are asked again."""

_HEADERS = {"User-Agent": AGENT, "Accept": "*/*", "Accept-Encoding": "identity"}
_GENERIC_TYPES = ("application/octet-stream", "binary/octet-stream")
_CREDENTIALS = "authorization"
_FIRST_URL = "first_url"
_CONNECTED = ".connect_tcp.complete"
_NAT64 = IPv6Network("64:ff9b::/96")

Address = IPv4Address | IPv6Address


class FetchError(RecordError):
    """A document that cannot be fetched.

    If the error `is_temporary`, another attempt may succeed, after `retry_seconds` if the server
    says so. `status` is that of a response.
    """

    status = 0
    is_temporary = False
    retry_seconds: float | None = None

    def __init__(
        self,
        url: httpx2.URL,
        problem: str,
        *,
        code: str = "fetch-failed",
        expected: str = "expected a document, with 200 OK",
    ) -> None:
        super().__init__(code, f"{public_url(url)!r}: {problem}; {expected}")

    @classmethod
    def of_response(cls, url: httpx2.URL, response: httpx2.Response) -> Self:
        error = cls(url, f"{response.status_code} {response.reason_phrase}".rstrip())
        error.status = response.status_code
        error.is_temporary = error.status in TEMPORARY
        after = response.headers.get("retry-after", "")
        error.retry_seconds = float(after) if after.isdecimal() else None
        return error

    @classmethod
    def of_connection(cls, url: httpx2.URL, problem: str) -> Self:
        error = cls(url, problem)
        error.is_temporary = True
        return error


class WebLimits(NamedTuple):
    """Limits of one document, with its redirects; `size_setting` is the limit in messages."""

    timeout_seconds: float
    max_bytes: int
    size_setting: str


class LinkedDocument(NamedTuple):
    """A document, with its name in a URL or a folder, and the statements of its server."""

    data: bytes
    file_name: str = ""
    mimetype: str | None = None
    charset: str | None = None
    modified: str | None = None
    needs_login: bool = False  # credentials were sent for it, or on the way to it


class WebClient:
    """Gets documents; safe from several threads.

    `check_hop` is called with the request of a document and of each redirect, and the first URL;
    it raises RecordError for one that must not be sent. `is_allowed` says which addresses may be
    connected to.
    """

    def __init__(
        self,
        limits: WebLimits,
        *,
        check_hop: Callable[[httpx2.Request, httpx2.URL], None] = lambda request, first: None,
        is_allowed: Callable[[Address], bool] = lambda address: True,
        trust_env: bool = False,
    ) -> None:
        self._limits = limits
        self._check_hop = check_hop
        self._is_allowed = is_allowed
        self._client = httpx2.Client(
            headers=_HEADERS,
            verify=_trusted(),
            event_hooks={"request": [self._check_request]},
            trust_env=trust_env,
        )
        self._client.max_redirects = MAX_REDIRECTS

    def close(self) -> None:
        self._client.close()

    def get(self, url: str, headers: Mapping[str, str] = {}) -> LinkedDocument | None:
        """Return the document at a URL, None if it is as the headers say that it is known.

        At most five redirects are followed. Any other response is a FetchError.
        """
        end = time.monotonic() + self._limits.timeout_seconds
        deadline = ResponseDeadline(self._limits.timeout_seconds)
        place = _parse_url(url)
        trace = partial(self._trace, deadline=deadline, url=place)
        request = self._client.stream(
            "GET",
            place,
            headers=headers,
            timeout=self._limits.timeout_seconds,
            follow_redirects=True,
            extensions={"trace": trace, _FIRST_URL: place},
        )
        try:
            with deadline, request as got:
                document = self._document(place, got, is_conditional=bool(headers))
        except (httpx2.HTTPError, OSError) as exc:
            if not deadline.is_exceeded and not isinstance(exc, httpx2.TimeoutException):
                raise FetchError.of_connection(place, str(exc) or type(exc).__name__) from exc
            raise self._too_slow(place) from exc
        if deadline.is_exceeded or time.monotonic() > end:
            raise self._too_slow(place)
        return document

    def _too_slow(self, url: httpx2.URL) -> FetchError:
        problem = f"not complete within {self._limits.timeout_seconds:g} s"
        return FetchError.of_connection(url, problem)

    def _trace(
        self, event: str, info: Mapping[str, Any], *, deadline: ResponseDeadline, url: httpx2.URL
    ) -> None:
        if event.endswith(_CONNECTED):
            stream = info["return_value"]
            peer = stream.get_extra_info("server_addr")
            if not self._is_allowed(ip_address(peer[0])):
                stream.close()
                raise FetchError(
                    url,
                    f"its host has the address {peer[0]}",
                    code="fetch-refused",
                    expected="expected a public address, or one that networks of the step has",
                )
        deadline.trace(event, info)

    def _check_request(self, request: httpx2.Request) -> None:
        url = request.url
        if url.scheme not in SCHEMES or not url.host:
            raise FetchError(url, "not an http or https URL")
        if url.username or url.password:
            raise FetchError(url, "a user in the URL, which others may see")
        self._check_hop(request, request.extensions[_FIRST_URL])

    def _document(
        self, url: httpx2.URL, response: httpx2.Response, *, is_conditional: bool
    ) -> LinkedDocument | None:
        if response.status_code == HTTPStatus.NOT_MODIFIED and is_conditional:
            return None
        if response.status_code != HTTPStatus.OK:
            raise FetchError.of_response(url, response)
        encoding = response.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            raise FetchError(url, f"Content-Encoding: {encoding}")
        length = response.headers.get("content-length", "")
        self._check_size(int(length) if length.isdecimal() else 0)
        content = bytearray()
        for block in response.iter_raw():
            content += block
            self._check_size(len(content))
        stated = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        mimetype = stated if "/" in stated and stated not in _GENERIC_TYPES else None
        charset, hops = response.charset_encoding, (*response.history, response)
        return LinkedDocument(
            data=bytes(content),
            file_name=os.path.basename(urlsplit(str(url)).path),
            mimetype=mimetype,
            charset=charset and charset.lower(),
            modified=response.headers.get("last-modified"),
            needs_login=any(_CREDENTIALS in hop.request.headers for hop in hops),
        )

    def _check_size(self, size: int) -> None:
        _, max_bytes, setting = self._limits
        if size > max_bytes:
            reason = f"{size} bytes or more; expected at most {max_bytes} bytes"
            raise RecordError("content-too-large", f"{reason}; raise {setting} to read it")


def is_public(address: Address) -> bool:
    """Whether an address is one of the Internet, as opposed to one of a private network or host.

    >>> [is_public(ip_address(text)) for text in ("1.1.1.1", "10.1.1.1", "::ffff:127.0.0.1")]
    [True, False, False]
    """
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast


def public_url(url: httpx2.URL) -> str:
    """Return a URL without its user, password, query and fragment."""
    return str(url.copy_with(username=None, password=None, query=None, fragment=None))


@cache
def _trusted() -> ssl.SSLContext:
    """Certificates load more slowly than most documents."""
    return ssl.create_default_context()


def _parse_url(text: str) -> httpx2.URL:
    try:
        return httpx2.URL(text.strip())
    except httpx2.InvalidURL:
        raise RecordError(
            "fetch-failed", "a URL that cannot be parsed; expected an http or https URL"
        ) from None
