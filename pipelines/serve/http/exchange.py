"""One HTTP exchange: a request whose body is read block by block, and the reply to it.

h11 parses heads and chunked bodies, as strictly as RFC 9112 requires. A body with a Content-Length
is read from the socket directly: events of h11 take twice as long.
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

MAX_HEAD_BYTES = 16 << 10
BLOCK_BYTES = 1 << 20
"""How much is read at a time; with smaller blocks, threads wait more often for each other."""

SERVER = "feedergate_1.0"
_VERSIONS = (b"1.0", b"1.1")
_ABSOLUTE = re.compile("^https?://[^/?]*", re.IGNORECASE)
"""The beginning of a target for a proxy, which RFC 9112 requires a server to accept."""

_LINE_ENDS = b"\r\n"
"""Some clients send line ends after a body; RFC 9112 allows them before a request."""

_LEAST_TIMEOUT = 0.001  # 0 would make the socket non-blocking
_LONG_HEAD = f"a head of more than {MAX_HEAD_BYTES} bytes; expected a shorter one"
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class RefusedError(Exception):
    """A request is answered with this status and text, and nothing of it is kept."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


class ConnectionDroppedError(Exception):
    """The connection ends without a reply: its client has left, or a scenario resets it."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply; a stream is sent from its start, and closed."""

    status: int = 200
    body: bytes | IO[bytes] = b""
    content_type: str = "text/plain"
    headers: tuple[tuple[str, str], ...] = ()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request; the names of headers are in lower case.

    `length` is the size of the body, None if it is chunked. `blocks` yields the body once, as it
    arrives; it raises RefusedError if the body is too slow or violates HTTP.
    """

    method: str
    path: str
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    client: str
    length: int | None = 0
    blocks: Iterator[bytes] = iter(())

    def header(self, name: str) -> str:
        """Return the values of all headers of a name, joined; "" if there is none."""
        return ", ".join(value for header, value in self.headers if header == name)


class ClientSocket:
    """The socket of a connection; its errors are ConnectionDroppedErrors."""

    def __init__(self, connection: socket.socket, address: str) -> None:
        self.address = address
        self._socket = connection

    def receive(self, seconds: float, *, most: int = BLOCK_BYTES) -> bytes:
        """Return the next bytes, b"" at the end; raise TimeoutError if none arrive in time."""
        self._socket.settimeout(max(seconds, _LEAST_TIMEOUT))
        try:
            return self._socket.recv(most)
        except TimeoutError:
            raise
        except OSError as exc:
            raise ConnectionDroppedError(str(exc)) from exc

    def send(self, block: bytes, seconds: float) -> None:
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(block)
        except OSError as exc:  # also a TimeoutError
            raise ConnectionDroppedError(str(exc)) from exc


class Exchange:
    """One request on a connection and its reply.

    `ahead` are the bytes received after the previous request. `is_whole` is whether the request was
    read to its end.
    """

    def __init__(
        self,
        client: ClientSocket,
        settings: ServeSettings,
        *,
        ahead: bytes = b"",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._is_head = False
        self.ahead = ahead
        self.is_whole = False

    @property
    def is_last(self) -> bool:
        """Whether the connection has to be closed after the reply."""
        return self._http.our_state is not h11.DONE

    def read(self, first_seconds: float) -> Request | None:
        """Return the request, whose body is still to be read; None if there is none.

        Waits `first_seconds` for its first byte, then `head_seconds` for the head. Raises
        RefusedError.
        """
        head = self._read_head(first_seconds)
        if head is None:
            return None
        if head.http_version not in _VERSIONS:
            raise RefusedError(505, f"HTTP/{head.http_version.decode()}; expected HTTP/1.1")
        headers = tuple((_decode(name), _decode(value)) for name, value in head.headers)
        length = _length_of(headers, head.http_version)
        self._is_head = head.method == b"HEAD"
        self.is_whole = length == 0
        path, _, query = _ABSOLUTE.sub("", _decode(head.target)).partition("?")
        return Request(
            method=_decode(head.method),
            path=path,
            query=query,
            headers=headers,
            client=self._client.address,
            length=length,
            blocks=self._read_body(length),
        )

    def reply(self, reply: Reply) -> None:
        """Send a reply; it is the last one if the body of the request was not read to its end."""
        body = reply.body
        size = len(body) if isinstance(body, bytes) else body.seek(0, 2)
        headers = [
            ("Server", SERVER),
            ("Date", formatdate(usegmt=True)),
            ("Content-Type", reply.content_type),
            ("Content-Length", str(size)),
            *reply.headers,
            *([] if self.is_whole else [("Connection", "close")]),
        ]
        reason = _PHRASES.get(reply.status, "")
        response = h11.Response(status_code=reply.status, headers=headers, reason=reason)
        pending = self._http.send(response) or b""  # sent in one packet with a small body
        for block in _blocks_of(body):
            if not self._is_head:
                self._send(pending + (self._http.send(h11.Data(data=block)) or b""))
                pending = b""
        self._send(pending + (self._http.send(h11.EndOfMessage()) or b""))

    def _send(self, block: bytes | None) -> None:
        if block:
            self._client.send(block, self._settings.idle_seconds)

    def _read_head(self, first_seconds: float) -> h11.Request | None:
        """Return the head, and keep the bytes after it; None if not even a byte arrives."""
        received, self.ahead = self._feed(self.ahead.lstrip(_LINE_ENDS)), b""
        due = self._clock() + (self._settings.head_seconds if received else first_seconds)
        while (event := self._next_event()) is h11.NEED_DATA:
            try:
                block = self._client.receive(due - self._clock(), most=MAX_HEAD_BYTES)
            except TimeoutError as exc:
                if not received:
                    return None
                raise RefusedError(408, "an incomplete head; expected it at once") from exc
            if not block:
                return None
            if not received and (block := block.lstrip(_LINE_ENDS)):
                due = self._clock() + self._settings.head_seconds
            received += self._feed(block)
        if not isinstance(event, h11.Request):
            return None
        self.ahead = self._http.trailing_data[0]
        if received - len(self.ahead) > MAX_HEAD_BYTES:
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

    def _read_body(self, length: int | None) -> Iterator[bytes]:
        if self._http.they_are_waiting_for_100_continue and not self.ahead:
            proceed = h11.InformationalResponse(status_code=100, headers=[], reason="Continue")
            self._send(self._http.send(proceed))
        deadline = BodyDeadline(self._client, self._settings, self._clock)
        yield from (
            self._read_chunks(deadline) if length is None else self._read_length(length, deadline)
        )
        self.is_whole = True

    def _read_length(self, length: int, deadline: "BodyDeadline") -> Iterator[bytes]:
        block, self.ahead = self.ahead[:length], self.ahead[length:]
        missing = length - len(block)
        if block:
            yield block
        while missing:
            block = deadline.receive(min(missing, BLOCK_BYTES))
            missing -= len(block)
            yield block

    def _read_chunks(self, deadline: "BodyDeadline") -> Iterator[bytes]:
        """Yield the chunks; those that were received together are joined."""
        self.ahead = b""  # h11 has a copy
        is_end = False
        while not is_end:
            parts = []
            while isinstance(event := self._next_event(), h11.Data):
                parts.append(bytes(event.data))
            is_end = isinstance(event, h11.EndOfMessage)
            if parts:
                yield b"".join(parts)
            if not is_end:
                self._feed(deadline.receive(BLOCK_BYTES))
        self.ahead = self._http.trailing_data[0]


class BodyDeadline:
    """Receives a body within `grace_seconds`, plus the time for its bytes at `min_rate`.

    Only the time spent waiting counts.
    """

    def __init__(
        self, client: ClientSocket, settings: ServeSettings, clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._waited = 0.0
        self._received = 0

    def receive(self, most: int) -> bytes:
        settings = self._settings
        earned = self._received / settings.min_rate if settings.min_rate else float("inf")
        left = settings.grace_seconds + earned - self._waited
        begin = self._clock()
        try:
            block = self._client.receive(min(left, settings.idle_seconds), most=most)
        except TimeoutError as exc:
            words = f"{self._received} bytes of the body; expected the remaining bytes sooner"
            raise RefusedError(408, words) from exc
        self._waited += self._clock() - begin
        self._received += len(block)
        if not block:
            raise ConnectionDroppedError("the client left in the middle of its request")
        return block


def _length_of(headers: tuple[tuple[str, str], ...], version: bytes) -> int | None:
    """Return the length of the body, None if it is chunked; raise RefusedError at a conflict.

    h11 prefers a Transfer-Encoding to a Content-Length. A proxy in front may do the opposite, and
    then a part of the body would be the next request.
    """
    values = dict(headers)
    if "transfer-encoding" not in values:
        return int(values.get("content-length", "0").split(",")[0])
    if "content-length" in values:
        raise RefusedError(400, "Transfer-Encoding and Content-Length; expected one of them")
    if version == b"1.0":
        raise RefusedError(400, "Transfer-Encoding in HTTP/1.0; expected Content-Length")
    return None


def _decode(value: bytes) -> str:
    return value.decode("latin-1")


def _blocks_of(body: bytes | IO[bytes]) -> Iterator[bytes]:
    if isinstance(body, bytes):
        yield body
        return
    with body:
        body.seek(0)
        while block := body.read(BLOCK_BYTES):
            yield block
