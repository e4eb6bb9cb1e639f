"""What came instead of an answer, in words: what happened, and what to look at."""

import socket
import ssl
from collections.abc import Iterator

import httpx2
import msgspec

from transforms.sinks.push.model import Appliance, ApplianceProtocol

_SHOWN_LETTERS = 200
_PORTS = {
    ApplianceProtocol.FEEDERGATE: "a feedergate listens on 19900, with TLS on 19902",
    ApplianceProtocol.RECVDATA: "expected the appliance's web server there",
}


class Progress(msgspec.Struct, kw_only=True):
    """How far a request came: bytes of its body that were sent, and whether an answer began."""

    length: int
    sent: int = 0
    is_answering: bool = False

    @property
    def is_unsent(self) -> bool:
        return self.sent < self.length

    def words(self) -> str:
        if self.is_answering:
            return "in the middle of the answer"
        if self.is_unsent:
            return f"after {self.sent} of {self.length} bytes"
        return "before the answer"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Words for its user; `is_final` if another attempt would meet it again."""

    words: str
    is_final: bool = False


def fault(exc: httpx2.HTTPError, appliance: Appliance, progress: Progress) -> Fault:
    """Return what an exception means to who pushes."""
    match exc:
        case httpx2.TimeoutException():
            return Fault(words=_too_slow(exc, appliance, progress))
        case httpx2.ConnectError():
            return _unconnected(exc, appliance)
        case httpx2.ProxyError():
            return Fault(
                words=f"the proxy {appliance.proxy} said {_shown(exc)}; "
                "expected a way through: check --proxy, or leave it out",
                is_final=str(exc).startswith("4"),
            )
        case httpx2.RemoteProtocolError() | httpx2.DecodingError() if not _is_torn(exc):
            return Fault(words=f"what came is not HTTP: {_shown(exc)}; {_there(appliance)}")
    return Fault(words=f"the connection was torn {progress.words()}{_reason(exc)}")


def _too_slow(exc: httpx2.TimeoutException, appliance: Appliance, progress: Progress) -> str:
    if isinstance(exc, httpx2.WriteTimeout):
        seconds = appliance.write_seconds
        return f"took no bytes for {seconds:g} s, {progress.words()}; expected it to read on"
    if isinstance(exc, httpx2.ReadTimeout):
        found = "the answer did not end" if progress.is_answering else "no answer"
        seconds = appliance.reply_seconds
        return f"{found} within {seconds:g} s; expected one: give it more time if it is busy"
    seconds = appliance.connect_seconds
    return (
        f"no connection within {seconds:g} s; {_there(appliance)}: check host, port and firewalls"
    )


def _unconnected(exc: httpx2.ConnectError, appliance: Appliance) -> Fault:
    host = httpx2.URL(appliance.proxy or appliance.url).host
    for cause in _causes(exc):
        match cause:
            case socket.gaierror():
                return Fault(
                    words=f"no address for {host!r} ({cause.strerror}); "
                    "expected a name that this machine can look up"
                )
            case ConnectionRefusedError():
                return Fault(words=f"connection refused; {_there(appliance)}")
            case ssl.SSLCertVerificationError():
                return Fault(
                    words=f"its certificate is not trusted ({cause.verify_message}); expected one "
                    "that the system knows: name the authority's by --ca-file",
                    is_final=True,
                )
            case ssl.SSLError():
                return Fault(
                    words=f"TLS: {_ssl_words(cause)}; expected TLS at this port: "
                    "is it one for http://?",
                    is_final=not isinstance(cause, ssl.SSLEOFError),
                )
    return Fault(words=f"no connection{_reason(exc)}; {_there(appliance)}")


def _there(appliance: Appliance) -> str:
    if appliance.proxy:
        return f"expected the proxy {appliance.proxy} to lead there"
    return _PORTS[appliance.protocol]


def _is_torn(exc: httpx2.HTTPError) -> bool:
    """Whether it tells of an end that came too early, and not of garbage."""
    return "peer closed connection" in str(exc) or "Server disconnected" in str(exc)


def _ssl_words(exc: ssl.SSLError) -> str:
    reason: str | None = getattr(exc, "reason", None)  # only OpenSSL gives one
    return (reason or "handshake broken off").lower().replace("_", " ")


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


def _shown(exc: httpx2.HTTPError) -> str:
    return repr(str(exc)[:_SHOWN_LETTERS])
