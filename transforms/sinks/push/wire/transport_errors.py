"""Explain why a request had no response, and how to fix that."""

import socket
import ssl
from collections.abc import Iterator

import httpx2
import msgspec

from transforms.sinks.push.model import Appliance, ApplianceProtocol

_MAX_QUOTED_LETTERS = 200
_EXPECTED_SERVER = {
    ApplianceProtocol.FEEDERGATE: "a feedergate listens on port 19900, with TLS on 19902",
    ApplianceProtocol.RECVDATA: "expected the appliance's web server there",
}


class RequestProgress(msgspec.Struct, kw_only=True):
    """How many bytes of a request body were sent, and whether the response has begun."""

    length: int
    sent: int = 0
    is_answering: bool = False

    @property
    def is_unsent(self) -> bool:
        return self.sent < self.length

    def describe(self) -> str:
        if self.is_answering:
            return "within the response"
        if self.is_unsent:
            return f"after {self.sent} of {self.length} bytes"
        return "before the response"


class TransportError(msgspec.Struct, frozen=True, kw_only=True):
    """A message for the operator; another attempt would meet a permanent error again."""

    message: str
    is_permanent: bool = False


def explain_error(
    exc: httpx2.HTTPError, appliance: Appliance, progress: RequestProgress
) -> TransportError:
    match exc:
        case httpx2.TimeoutException():
            return TransportError(message=_timeout(exc, appliance, progress))
        case httpx2.ConnectError():
            return _connect_error(exc, appliance)
        case httpx2.ProxyError():
            return TransportError(
                message=f"the proxy {appliance.proxy} responded {_quote(exc)}; "
                "expected a connection: check --proxy, or leave it out",
                is_permanent=str(exc).startswith("4"),
            )
        case httpx2.RemoteProtocolError() | httpx2.DecodingError() if not _is_closed(exc):
            message = f"the response is not HTTP: {_quote(exc)}; {_expected_server(appliance)}"
            return TransportError(message=message)
    return TransportError(message=f"connection closed {progress.describe()}{_reason(exc)}")


def _timeout(exc: httpx2.TimeoutException, appliance: Appliance, progress: RequestProgress) -> str:
    if isinstance(exc, httpx2.WriteTimeout):
        seconds = appliance.write_seconds
        return f"no bytes read for {seconds:g} s, {progress.describe()}; expected it to read on"
    if isinstance(exc, httpx2.ReadTimeout):
        found = "incomplete response" if progress.is_answering else "no response"
        seconds = appliance.reply_seconds
        return f"{found} within {seconds:g} s; if the appliance is busy, raise --reply-timeout"
    seconds = appliance.connect_seconds
    expected = _expected_server(appliance)
    return f"no connection within {seconds:g} s; {expected}: check host, port and firewalls"


def _connect_error(exc: httpx2.ConnectError, appliance: Appliance) -> TransportError:
    host = httpx2.URL(appliance.proxy or appliance.url).host
    for cause in _causes(exc):
        match cause:
            case socket.gaierror():
                return TransportError(
                    message=f"no address for {host!r} ({cause.strerror}); "
                    "expected a name that this machine can look up"
                )
            case ConnectionRefusedError():
                return TransportError(message=f"connection refused; {_expected_server(appliance)}")
            case ssl.SSLCertVerificationError():
                return TransportError(
                    message=f"its certificate is not trusted ({cause.verify_message}); expected "
                    "one that the system trusts: name its authority by --ca-file",
                    is_permanent=True,
                )
            case ssl.SSLError():
                reason: str | None = getattr(cause, "reason", None)  # only OpenSSL gives one
                reason = (reason or "handshake broken off").lower().replace("_", " ")
                return TransportError(
                    message=f"TLS: {reason}; expected TLS on this port: is it one for http://?",
                    is_permanent=not isinstance(cause, ssl.SSLEOFError),
                )
    return TransportError(message=f"no connection{_reason(exc)}; {_expected_server(appliance)}")


def _expected_server(appliance: Appliance) -> str:
    if appliance.proxy:
        return f"expected a connection through the proxy {appliance.proxy}"
    return _EXPECTED_SERVER[appliance.protocol]


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


def _quote(exc: httpx2.HTTPError) -> str:
    return repr(str(exc)[:_MAX_QUOTED_LETTERS])
