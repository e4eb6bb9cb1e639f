"""HTTP client of an appliance: one connection for each request.

Nothing in the environment has an effect: no proxy but the named one, no `.netrc`, no cookies.
Certificates are verified and redirects are not followed, so a feed goes only to the stated address.

A feedergate closes the connection after its response anyway. A connection that is kept, and was
closed meanwhile, would look like a refused feed. If the appliance responds before the whole request
was sent, that response is read.
"""

import math
import socket
import ssl
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from typing import Self
from urllib.parse import urljoin

import httpx2
from msgspec.structs import replace

from feedferry.schemas.errors import SourceError
from feedferry.schemas.feed import CLEANUP
from feedferry.transforms.net.redaction import Mask
from feedferry.transforms.net.response_deadline import ResponseDeadline
from feedferry.transforms.sinks.push.model import ApplianceResponse, ChunkPart, ResponseMeaning
from feedferry.transforms.sinks.push.wire.address import trusted_certificates
from feedferry.transforms.sinks.push.wire.body import RequestBody, compressed
from feedferry.transforms.sinks.push.wire.protocol import Appliance, SendContext
from feedferry.transforms.sinks.push.wire.responses import MAX_RESPONSE_BYTES, judge_response, quote

BACKLOG_SECONDS = 30.0
"""The time limit of a request for the backlog, which an appliance knows at once."""

_WRONG_NAME = "expected one for this host: give its name as ⟦url⟧, or issue it for this host"
_CERTIFICATE_FIXES = {  # by the error of OpenSSL
    10: "expected a valid one: renew it at the appliance",  # X509_V_ERR_CERT_HAS_EXPIRED
    62: _WRONG_NAME,  # X509_V_ERR_HOSTNAME_MISMATCH
    64: _WRONG_NAME,  # X509_V_ERR_IP_ADDRESS_MISMATCH
}
_SERVER_ERROR = 500
_HEADERS = {
    "User-Agent": "feedferry",
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "Connection": "close",
}


class ApplianceClient:
    """Sends requests to one appliance; safe from several threads.

    `begun` is what the current run has begun with. `has_failures` is set by a request without a
    reply, or with one of an error that passes: it may still be carried out.
    """

    def __init__(
        self, appliance: Appliance, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._appliance = appliance
        self._clock = clock
        auth = appliance.auth
        self._headers = {} if auth is None else {"Authorization": auth.header()}
        self._mask = Mask(() if auth is None else auth.secrets())
        self.begun: object = None
        self.has_failures = False
        self._transport = httpx2.HTTPTransport(
            verify=trusted_certificates(appliance.ca_file),
            proxy=appliance.proxy,
            trust_env=False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._transport.close()

    def send(self, part: ChunkPart, *, feedtype: str | None) -> ApplianceResponse:
        """Send a part of a planned chunk; return the response, or the error in its place."""
        if (feedtype or part.chunk.feedtype) == CLEANUP:
            response = self._cleanup_before(part)
            if response is not None:
                return response
        try:
            path, body = self._make_request(part, feedtype)
            if self._appliance.gzip and body.length < self._appliance.protocol.gzip_bytes:
                body = compressed(body)
        except SourceError as exc:
            return ApplianceResponse(error=str(exc), is_unsent=True, is_permanent=True)
        return self.request("POST", path, body)

    def request(
        self,
        method: str,
        path: str,
        body: RequestBody | None,
        *,
        max_seconds: float = math.inf,
        is_below_address: bool = True,
    ) -> ApplianceResponse:
        """Send a request to a path below the address, or of its host; return response or error."""
        seconds = min(self._appliance.reply_seconds, max_seconds)
        url = self._appliance.url if is_below_address else urljoin(self._appliance.url, "/")[:-1]
        appliance = replace(self._appliance, reply_seconds=seconds, url=url)
        exchange = _HttpExchange(self._transport, appliance, self._clock)
        response = exchange.run(method, path, body, self._headers)
        if response.status is None or response.status >= _SERVER_ERROR:
            self.has_failures = True
        return response if self._appliance.auth is None else self._masked(response)

    def request_bytes(self, part: ChunkPart, *, feedtype: str | None) -> int:
        """Return the length of the request body before gzip; reads a file that is URL-encoded."""
        return self._make_request(part, feedtype)[1].length

    def cleanup(self, groupsource: str) -> ApplianceResponse:
        """Remove all groups of a groupsource; only for an appliance that has groups."""
        make_cleanup = self._appliance.protocol.make_cleanup
        if make_cleanup is None:
            raise TypeError(f"{self._appliance.url}: expected an appliance with groups")
        return self.request("POST", *make_cleanup(groupsource))

    def _cleanup_before(self, part: ChunkPart) -> ApplianceResponse | None:
        """Remove the groups of a part's groupsource; return the response unless it is accepted.

        A refusal is permanent: no record of the part is the cause.
        """
        response = self.cleanup(part.chunk.datasource or "")
        verdict = judge_response(self._appliance.protocol, response)
        if verdict.meaning is ResponseMeaning.ACCEPTED:
            return None
        if verdict.meaning is ResponseMeaning.REFUSED:
            error = f"the cleanup of {part.chunk.datasource!r} was refused: {verdict.message}"
            return replace(response, status=None, error=error, is_permanent=True)
        return response

    def backlog(self) -> ApplianceResponse:
        """Request the number of feeds that wait to be digested."""
        return self.probe(max_seconds=BACKLOG_SECONDS)

    def probe(self, *, max_seconds: float) -> ApplianceResponse:
        """Request the page of the appliance that changes nothing."""
        path = self._appliance.protocol.probe_path
        return self.request("GET", path, None, max_seconds=max_seconds)

    def _make_request(self, part: ChunkPart, feedtype: str | None) -> tuple[str, RequestBody]:
        context = SendContext(self._appliance.profile, feedtype, self.begun)
        return self._appliance.protocol.make_request(part, context)

    def _masked(self, response: ApplianceResponse) -> ApplianceResponse:
        """Return a response without the credentials, which a page of errors may repeat."""
        text = response.body.decode("utf-8", "surrogateescape")
        masked = self._mask.text(text).encode("utf-8", "surrogateescape")
        shown = ("content_type", "location", "retry_after", "date", "error")
        texts = {name: self._mask.text(getattr(response, name)) for name in shown}
        return replace(response, body=masked, **texts)


class _HttpExchange:
    """One request and its response; counts the bytes of the body that were sent."""

    def __init__(
        self, transport: httpx2.HTTPTransport, appliance: Appliance, clock: Callable[[], float]
    ) -> None:
        self._transport = transport
        self._appliance = appliance
        self._clock = clock
        self._length = self._sent = 0
        self._is_answering = False
        self._deadline = ResponseDeadline(appliance.reply_seconds)

    def run(
        self, method: str, path: str, body: RequestBody | None, own: Mapping[str, str]
    ) -> ApplianceResponse:
        """Send a request; return the response or the error in its place.

        `own` are headers of the appliance.
        """
        started, url = self._clock(), self._appliance.url + path
        try:
            if body is None:
                response = self._respond(method, url, own)
            else:
                self._length = body.length
                headers = {
                    **own,
                    "Content-Type": body.content_type,
                    "Content-Length": str(body.length),
                }
                if body.content_encoding:
                    headers["Content-Encoding"] = body.content_encoding
                with closing(self._counted(body)) as blocks:
                    response = self._respond(method, url, headers, blocks)
        except SourceError as exc:
            response = ApplianceResponse(error=str(exc), is_permanent=True)
        except httpx2.HTTPError as exc:
            cause = httpx2.ReadTimeout("") if self._deadline.is_exceeded else exc
            message, is_permanent = self._explain(cause)
            response = ApplianceResponse(
                error=f"{url.partition('?')[0]}: {message}",
                is_permanent=is_permanent,
                is_unsent=isinstance(exc, (httpx2.ConnectError, httpx2.ConnectTimeout))
                or (body is None and self._is_closed_at_once(cause)),
            )
        return replace(
            response,
            url=url.partition("?")[0],
            is_unsent=response.is_unsent or self._sent < self._length,
            sent_bytes=self._sent,
            seconds=self._clock() - started,
        )

    def _counted(self, body: RequestBody) -> Generator[bytes, None, None]:
        """Yield the body; a block was sent when the next one is requested."""
        with closing(body.blocks()) as blocks:
            for block in blocks:
                yield block
                self._sent += len(block)

    def _respond(
        self, method: str, url: str, headers: Mapping[str, str], body: Iterator[bytes] | None = None
    ) -> ApplianceResponse:
        timeout = httpx2.Timeout(
            connect=self._appliance.connect_seconds,
            write=self._appliance.write_seconds,
            read=self._appliance.reply_seconds,
            pool=None,
        )
        request = httpx2.Request(
            method,
            url,
            headers={**_HEADERS, **headers},
            content=body,
            extensions={"timeout": timeout.as_dict(), "trace": self._deadline.trace},
        )
        with self._deadline, closing(self._transport.handle_request(request)) as response:
            self._is_answering = True
            certificate_ends = _certificate_ends(response)  # known until the body is read
            received = bytearray()
            try:
                self._read_body(response, received)
            except httpx2.HTTPError:
                if response.is_success:  # any other status says enough
                    raise
            received_headers = response.headers
            return ApplianceResponse(
                status=response.status_code,
                content_type=received_headers.get("content-type", ""),
                body=bytes(received),
                location=received_headers.get("location", ""),
                retry_after=received_headers.get("retry-after", ""),
                date=received_headers.get("date", ""),
                certificate_ends=certificate_ends,
            )

    def _read_body(self, response: httpx2.Response, body: bytearray) -> None:
        """Read the body up to its limit; raise ReadTimeout if the deadline has ended it."""
        for block in response.iter_bytes():
            body += block[: MAX_RESPONSE_BYTES - len(body)]
            if len(body) == MAX_RESPONSE_BYTES:
                return
        if self._deadline.is_exceeded:  # a body without a length ends with its connection
            raise httpx2.ReadTimeout("")

    def _is_closed_at_once(self, exc: httpx2.HTTPError) -> bool:
        """Whether there was an end, or no HTTP, in place of a response; a time-out may be long."""
        return not (self._is_answering or isinstance(exc, httpx2.TimeoutException))

    def _explain(self, exc: httpx2.HTTPError) -> tuple[str, bool]:
        """Say why there is no response and how to fix that, and whether another attempt is vain."""
        appliance = self._appliance
        expected = appliance.protocol.fix_server
        if appliance.proxy:
            expected = f"expected a connection through the proxy {appliance.proxy}"
        progress = "before the response"
        if self._is_answering:
            progress = "within the response"
        elif self._sent < self._length:
            progress = f"after {self._sent} of {self._length} bytes"
        found, is_permanent = quote(str(exc)), False
        match exc:
            case httpx2.WriteTimeout():
                message = f"no bytes read for {appliance.write_seconds:g} s, {progress}"
                message += "; expected it to read on"
            case httpx2.ReadTimeout():
                message = "incomplete response" if self._is_answering else "no response"
                message += f" within {appliance.reply_seconds:g} s"
                message += "; if the appliance is busy, raise ⟦reply_timeout⟧"
            case httpx2.TimeoutException():
                message = f"no connection within {appliance.connect_seconds:g} s; {expected}"
                message += ": check host, port and firewalls"
            case httpx2.ConnectError():
                return _explain_connection(exc, appliance, expected)
            case httpx2.ProxyError():
                is_permanent = str(exc).startswith("4")
                message = f"the proxy {appliance.proxy} responded {found}"
                message += "; expected a connection: check ⟦proxy⟧, or leave it out"
            case httpx2.RemoteProtocolError() | httpx2.DecodingError() if not _is_closed(exc):
                message = f"the response is not HTTP: {found}; {expected}"
            case _:
                message = f"connection closed {progress}{_reason(exc)}"
                if appliance.url.startswith("http://") and not (self._length or self._is_answering):
                    message += "; expected HTTP on this port: is it one for https://?"
        return message, is_permanent


def _explain_connection(
    exc: httpx2.ConnectError, appliance: Appliance, expected: str
) -> tuple[str, bool]:
    for cause in _causes(exc):
        match cause:
            case socket.gaierror():
                host = httpx2.URL(appliance.proxy or appliance.url).host
                message = f"no address for {host!r} ({cause.strerror})"
                return f"{message}; expected a name that this machine can look up", False
            case ConnectionRefusedError():
                return f"connection refused; {expected}", False
            case ssl.SSLCertVerificationError():
                message = f"its certificate is not trusted ({cause.verify_message})"
                fix = "expected one that the system trusts: name its authority by ⟦ca_file⟧"
                return f"{message}; {_CERTIFICATE_FIXES.get(cause.verify_code, fix)}", True
            case ssl.SSLError():
                reason: str | None = getattr(cause, "reason", None)  # only OpenSSL gives one
                reason = (reason or "handshake broken off").lower().replace("_", " ")
                message = f"TLS: {reason}; expected TLS on this port: is it one for http://?"
                return message, not isinstance(cause, ssl.SSLEOFError)
    return f"no connection{_reason(exc)}; {expected}", False


def _certificate_ends(response: httpx2.Response) -> float | None:
    """Return the last moment of the certificate of the server, None without TLS."""
    stream = response.extensions.get("network_stream")
    tls = stream.get_extra_info("ssl_object") if stream is not None else None
    ends = (tls.getpeercert() or {}).get("notAfter") if tls is not None else None
    return ssl.cert_time_to_seconds(ends) if ends else None


def _is_closed(exc: httpx2.HTTPError) -> bool:
    """Whether the connection ended too early, as opposed to bytes that are not HTTP."""
    return "peer closed connection" in str(exc) or "Server disconnected" in str(exc)


def _reason(exc: httpx2.HTTPError) -> str:
    for cause in _causes(exc):
        if isinstance(cause, OSError) and cause.strerror:
            return f" ({cause.strerror})"
    return ""


def _causes(exc: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = exc
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
