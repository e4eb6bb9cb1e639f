"""One request of a client: its head, its body block by block, and the reply to it.

h11 reads heads and chunked bodies, as strictly as RFC 9112 asks. A body with a Content-Length is
taken from the socket itself: events of h11 are half as fast.
"""

import re
import socket
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http import HTTPStatus
from typing import IO

import h11
import msgspec

from pipelines.serve.settings import ServeSettings

HEAD_BYTES = 16 << 10
"""A longer head is refused."""

BLOCK_BYTES = 1 << 20
"""How much is taken at a time; with less, the threads that read wait more often for one another."""

SERVER = "feedergate_1.0"
_VERSIONS = (b"1.0", b"1.1")
_ABSOLUTE = re.compile("^https?://[^/?]*", re.IGNORECASE)
"""How a target begins that was meant for a proxy; RFC 9112 wants it accepted."""

_LINE_ENDS = b"\r\n"
"""Some clients send them behind a body; RFC 9112 wants them passed over before a request."""

_NO_PATIENCE = 0.001  # 0 would mean: do not wait, and raise something else


class RefusedError(Exception):
    """A request is answered with these words, and nothing of it is kept."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


class TornError(Exception):
    """The connection is of no more use: its client has left, or is to be left."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is answered with; a stream is sent from its start, and closed."""

    status: int = 200
    body: bytes | IO[bytes] = b""
    content_type: str = "text/plain"
    headers: tuple[tuple[str, str], ...] = ()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks for; the names of headers are in lower case.

    `length` is that of the body, None if that is chunked. `blocks` yields the body as it comes
    over the wire, once; it raises RefusedError where it is too slow or not as HTTP has it.
    """

    method: str
    path: str
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    client: str
    length: int | None = 0
    blocks: Iterator[bytes] = iter(())

    def header(self, name: str) -> str:
        """Return what all headers of a name say, as one; "" if there is none."""
        return ", ".join(value for header, value in self.headers if header == name)


class Line:
    """The socket of a connection; what goes wrong on it is a TornError."""

    def __init__(self, connection: socket.socket, address: str) -> None:
        self.address = address
        self._socket = connection

    def receive(self, seconds: float, *, most: int = BLOCK_BYTES) -> bytes:
        """Return what has come, b"" at its end; raise TimeoutError if nothing comes in time."""
        self._socket.settimeout(max(seconds, _NO_PATIENCE))
        try:
            return self._socket.recv(most)
        except TimeoutError:
            raise
        except OSError as exc:
            raise TornError(str(exc)) from exc

    def send(self, block: bytes, seconds: float) -> None:
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(block)
        except OSError as exc:  # a TimeoutError is one
            raise TornError(str(exc)) from exc


class Exchange:
    """One request on a line and its reply; `ahead` is what the line gave beyond the one before.

    `is_whole` tells whether the request was read to its end.
    """

    def __init__(
        self,
        line: Line,
        settings: ServeSettings,
        *,
        ahead: bytes = b"",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._line = line
        self._settings = settings
        self._clock = clock
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._ahead = ahead
        self._is_head = False
        self.is_whole = False

    @property
    def address(self) -> str:
        return self._line.address

    @property
    def ahead(self) -> bytes:
        """What came behind the request."""
        return self._ahead

    @property
    def is_over(self) -> bool:
        """Whether nothing can follow on the line, once the reply is sent."""
        return self._http.our_state is not h11.DONE

    def read(self, first_seconds: float) -> Request | None:
        """Return the request, its body still to be read; None if none comes.

        Waits for its first byte so long, then `head_seconds` for the rest. Raises RefusedError.
        """
        head = self._await_head(first_seconds)
        if head is None:
            return None
        if head.http_version not in _VERSIONS:
            raise RefusedError(505, f"HTTP/{head.http_version.decode()}; expected HTTP/1.1")
        headers = tuple((name.decode("latin-1"), _text(value)) for name, value in head.headers)
        length = _length_of(headers, head.http_version)
        self._is_head = head.method == b"HEAD"
        self.is_whole = length == 0
        path, _, query = _ABSOLUTE.sub("", _text(head.target)).partition("?")
        return Request(
            method=_text(head.method),
            path=path,
            query=query,
            headers=headers,
            client=self._line.address,
            length=length,
            blocks=self._blocks(length),
        )

    def answer(self, reply: Reply) -> None:
        """Send a reply; if the body of the request was not read to its end, it is the last."""
        has_body = reply.status not in _BODILESS
        stream = reply.body if has_body else b""
        size = len(stream) if isinstance(stream, bytes) else stream.seek(0, 2)
        headers = [
            ("Server", SERVER),
            ("Date", formatdate(usegmt=True)),
            ("Content-Type", reply.content_type),
            *([("Content-Length", str(size))] if has_body else []),
            *reply.headers,
        ]
        headers += [] if self.is_whole else [("Connection", "close")]
        reason = HTTPStatus(reply.status).phrase if reply.status in _STATUSES else ""
        response = h11.Response(status_code=reply.status, headers=headers, reason=reason)
        pending = self._http.send(response) or b""  # one packet with the body, if that is small
        for block in _blocks_of(stream):
            if has_body and not self._is_head:
                self._send(pending + (self._http.send(h11.Data(data=block)) or b""))
                pending = b""
        self._send(pending + (self._http.send(h11.EndOfMessage()) or b""))

    def _send(self, block: bytes | None) -> None:
        if block:
            self._line.send(block, self._settings.idle_seconds)

    def _await_head(self, first_seconds: float) -> h11.Request | None:
        """Return the head, and keep what came behind it; None if not even its first byte comes."""
        fed, self._ahead = self._feed(self._ahead.lstrip(_LINE_ENDS)), b""
        due = self._clock() + (self._settings.head_seconds if fed else first_seconds)
        while (event := self._next_event()) is h11.NEED_DATA:
            try:
                block = self._line.receive(due - self._clock(), most=HEAD_BYTES)
            except TimeoutError as exc:
                if not fed:
                    return None
                raise RefusedError(408, _SLOW_HEAD) from exc
            if not block:
                return None
            if not fed and (block := block.lstrip(_LINE_ENDS)):
                due = self._clock() + self._settings.head_seconds
            fed += self._feed(block)
        if not isinstance(event, h11.Request):
            return None
        self._ahead = self._http.trailing_data[0]
        if fed - len(self._ahead) > HEAD_BYTES:
            raise RefusedError(431, _LONG_HEAD)
        return event

    def _feed(self, block: bytes) -> int:
        if block:
            self._http.receive_data(block)
        return len(block)

    def _next_event(self) -> object:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as exc:
            status = exc.error_status_hint
            words = _LONG_HEAD if status == 431 else f"{exc}; expected a request of HTTP/1.1"
            raise RefusedError(status, words) from exc

    def _blocks(self, length: int | None) -> Iterator[bytes]:
        if self._http.they_are_waiting_for_100_continue and not self._ahead:
            go_on = h11.InformationalResponse(status_code=100, headers=[], reason="Continue")
            self._send(self._http.send(go_on))
        patience = _Patience(self._settings, self._clock)
        yield from self._chunks(patience) if length is None else self._stretch(length, patience)
        self.is_whole = True

    def _stretch(self, length: int, patience: "_Patience") -> Iterator[bytes]:
        """Yield `length` bytes of the line."""
        block, self._ahead = self._ahead[:length], self._ahead[length:]
        left = length - len(block)
        if block:
            yield block
        while left:
            block = patience.wait(self._line, min(left, BLOCK_BYTES))
            left -= len(block)
            yield block

    def _chunks(self, patience: "_Patience") -> Iterator[bytes]:
        """Yield what chunks hold; those of one block of the line are put together."""
        self._ahead = b""  # h11 still has it
        is_last = False
        while not is_last:
            parts = []
            while isinstance(event := self._next_event(), h11.Data):
                parts.append(bytes(event.data))
            is_last = isinstance(event, h11.EndOfMessage)
            if parts:
                yield b"".join(parts)
            if not is_last:
                self._feed(patience.wait(self._line, BLOCK_BYTES))
        self._ahead = self._http.trailing_data[0]


class _Patience:
    """Waits for blocks of a body: `grace_seconds`, and more for what came at `min_rate` or faster.

    Only the time that is spent waiting counts.
    """

    def __init__(self, settings: ServeSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._waited = 0.0
        self._received = 0

    def wait(self, line: Line, most: int) -> bytes:
        settings = self._settings
        earned = self._received / settings.min_rate if settings.min_rate else float("inf")
        left = settings.grace_seconds + earned - self._waited
        since = self._clock()
        try:
            block = line.receive(min(left, settings.idle_seconds), most=most)
        except TimeoutError as exc:
            raise RefusedError(408, f"{self._received} bytes of the body; {_SLOW_BODY}") from exc
        self._waited += self._clock() - since
        self._received += len(block)
        if not block:
            raise TornError("the client left in the middle of its request")
        return block


_SLOW_HEAD = "a head that does not come to its end; expected it at once"
_LONG_HEAD = f"a head of more than {HEAD_BYTES} bytes; expected a shorter one"
_SLOW_BODY = "expected the rest to come faster"
_BODILESS = (204, 304)
_STATUSES = frozenset(one.value for one in HTTPStatus)


def _length_of(headers: tuple[tuple[str, str], ...], version: bytes) -> int | None:
    """Return the length of the body, None if it is chunked; raise RefusedError at a conflict.

    h11 lets a Transfer-Encoding win over a Content-Length. Proxies in front may have seen it the
    other way round, and what they took for the body could then be the next request.
    """
    said = dict(headers)
    if "transfer-encoding" not in said:
        return int(said.get("content-length", "0").split(",")[0])
    if "content-length" in said:
        raise RefusedError(400, "Transfer-Encoding and Content-Length; expected one of them")
    if version == b"1.0":
        raise RefusedError(400, "Transfer-Encoding in HTTP/1.0; expected Content-Length")
    return None


def _text(value: bytes) -> str:
    return value.decode("latin-1")


def _blocks_of(stream: bytes | IO[bytes]) -> Iterator[bytes]:
    if isinstance(stream, bytes):
        yield stream
        return
    with stream:
        stream.seek(0)
        while block := stream.read(BLOCK_BYTES):
            yield block
