"""HTTP listener with a thread per connection; requests are answered by a callback.

h11 parses heads and chunked bodies, as strictly as RFC 9112 requires. A body with a Content-Length
is read from the socket directly: events of h11 take twice as long. Bodies are read block by block.

At most `max_connections` are served at once, and more wait in the backlog of the listening socket.
Untrusted addresses have at most a quarter of them; their other connections are closed at once, so
that idle connections of strangers do not keep clients waiting.
"""

import errno
import logging
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from email.utils import formatdate
from http import HTTPStatus
from typing import IO

import h11
import msgspec

from feedferry.pipelines.serve.http.trusted_addresses import Trust
from feedferry.pipelines.serve.settings import ServeSettings
from feedferry.schemas.errors import ConfigError

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

DRAIN_SECONDS = 30.0
"""How long running requests may take when the receiver stops."""

KEEP_ALIVE_SECONDS = 15.0
"""How long an idle connection may occupy a place."""

INTERNAL_ERROR = "Internal Error"

_LINGER_BYTES = 64 << 20
_BACKLOG = 128
_PAUSE_SECONDS = 0.1
_LOOK_SECONDS = 0.2
_UNTRUSTED_SHARE = 4
_RESET = struct.pack("ii", 1, 0)
_A_HOST = "expected an address of this machine"
_log = logging.getLogger(__name__)


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


Answer = Callable[[Request], Reply]
"""Answers a request; may raise RefusedError or ConnectionDroppedError."""


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
        self._waited = 0.0
        self._received = 0
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
        yield from self._read_chunks() if length is None else self._read_length(length)
        self.is_whole = True

    def _read_length(self, length: int) -> Iterator[bytes]:
        block, self.ahead = self.ahead[:length], self.ahead[length:]
        missing = length - len(block)
        if block:
            yield block
        while missing:
            block = self._receive(min(missing, BLOCK_BYTES))
            missing -= len(block)
            yield block

    def _read_chunks(self) -> Iterator[bytes]:
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
                self._feed(self._receive(BLOCK_BYTES))
        self.ahead = self._http.trailing_data[0]

    def _receive(self, most: int) -> bytes:
        """Return the next bytes of the body.

        The whole body has `grace_seconds`, plus the time for its bytes at `min_rate`. Only the time
        spent waiting counts.
        """
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


class HttpServer:
    """Serves between `start` and `stop`; raises ConfigError if it cannot listen."""

    def __init__(self, settings: ServeSettings, answer: Answer) -> None:
        self._settings = settings
        self._answer = answer
        self._tls = _load_tls(settings)
        self._listener = _listen(settings)
        self._listener.settimeout(_LOOK_SECONDS)
        self._trust = Trust(settings.trusted)
        self._slots = threading.Semaphore(settings.max_connections)
        untrusted = max(1, settings.max_connections // _UNTRUSTED_SHARE)
        self._untrusted_slots = threading.Semaphore(untrusted)
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, socket.socket] = {}
        self._busy: set[threading.Thread] = set()  # those that answer a request
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="receiver", daemon=True)
        self.port = int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        scheme = "https" if self._tls else "http"
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        return f"{scheme}://{host}:{self.port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Accept no more connections; return when running requests are done, or out of time."""
        self._stopping.set()
        with self._lock:
            for thread in self._open.keys() - self._busy:
                _shut(self._open[thread])
        self._slots.release()
        if self._thread.ident is not None:
            self._thread.join()
        self._listener.close()
        self._drain(drain_seconds)

    def _drain(self, seconds: float) -> None:
        """Wait for the open connections; close them when the time is over."""
        due = time.monotonic() + seconds
        with self._lock:
            running = tuple(self._open)
        for thread in running:
            thread.join(max(due - time.monotonic(), 0))
        with self._lock:
            late = dict(self._open)
        for thread, connection in late.items():
            _shut(connection)
            thread.join(_PAUSE_SECONDS)

    def _accept(self) -> None:
        while True:
            self._slots.acquire()
            if self._stopping.is_set():
                return
            self._take()

    def _take(self) -> None:
        with ExitStack() as place:
            place.callback(self._slots.release)
            try:
                try:
                    connection, address = self._listener.accept()
                except TimeoutError:
                    return
                place.callback(connection.close)
                client = str(address[0])
                if not self._trust.allows(client):
                    if not self._untrusted_slots.acquire(blocking=False):
                        return
                    place.callback(self._untrusted_slots.release)
                self._start(connection, client, place.pop_all())
            except (OSError, RuntimeError) as exc:  # the client has left; no more files or threads
                _log.debug("no connection: %s", exc)
                self._stopping.wait(_PAUSE_SECONDS)

    def _start(self, connection: socket.socket, client: str, place: ExitStack) -> None:
        """Start a thread that serves a connection, and then closes `place`."""
        thread = threading.Thread(
            target=self._serve, args=(connection, client, place), name="connection", daemon=True
        )
        with self._lock:
            try:
                thread.start()
            except RuntimeError:
                place.close()
                raise
            self._open[thread] = connection

    def _serve(self, connection: socket.socket, address: str, place: ExitStack) -> None:
        """Serve a connection to its end; an error ends this connection only."""
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                connection.settimeout(self._settings.head_seconds)
                connection = self._tls.wrap_socket(connection, server_side=True)
                with self._lock:
                    self._open[threading.current_thread()] = connection
            self._converse(connection, ClientSocket(connection, address))
        except ConnectionDroppedError as exc:
            _log.debug("%s: %s", address, exc)
            with suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        except OSError as exc:
            _log.debug("%s: %s", address, exc)
        finally:
            connection.close()
            place.close()
            with self._lock:
                self._open.pop(threading.current_thread(), None)
                self._busy.discard(threading.current_thread())

    def _converse(self, connection: socket.socket, client: ClientSocket) -> None:
        seconds, ahead = self._settings.head_seconds, b""
        while not self._stopping.is_set():
            exchange = Exchange(client, self._settings, ahead=ahead)
            reply = self._answer_next(exchange, seconds, client.address)
            if reply is None:
                return
            exchange.reply(reply)
            with self._lock:
                self._busy.discard(threading.current_thread())
            if exchange.is_last:
                if reply.status != 408:
                    self._linger(connection, client)
                return
            ahead = exchange.ahead
            seconds = min(self._settings.idle_seconds, KEEP_ALIVE_SECONDS)

    def _answer_next(self, exchange: Exchange, seconds: float, address: str) -> Reply | None:
        """Return the reply to the next request; None if there is none."""
        try:
            request = exchange.read(seconds)
            if request is None:
                return None
            with self._lock:
                self._busy.add(threading.current_thread())
            return self._answer(request)
        except RefusedError as exc:
            return Reply(status=exc.status, body=exc.words.encode())
        except ConnectionDroppedError:
            raise
        except Exception:  # a defect, or a disk that fails: other clients must still be served
            _log.exception("a request from %s cannot be answered", address)
            return Reply(status=500, body=INTERNAL_ERROR.encode())

    def _linger(self, connection: socket.socket, client: ClientSocket) -> None:
        """Read a little more of the request, such as the unread body or a superfluous line end.

        Closing a socket with unread bytes is a reset, and a reset may discard the reply before the
        client has read it.
        """
        with suppress(OSError, ConnectionDroppedError):
            connection.shutdown(socket.SHUT_WR)
            due, left = time.monotonic() + self._settings.linger_seconds, _LINGER_BYTES
            while time.monotonic() < due and left > 0:
                block = client.receive(self._settings.linger_idle_seconds)
                if not block:
                    return
                left -= len(block)


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


def _shut(connection: socket.socket) -> None:
    """Make a thread that reads or writes the socket see its end."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _listen(settings: ServeSettings) -> socket.socket:
    host, port = settings.host, settings.port
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        both = host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(
            (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both
        )
    except socket.gaierror as exc:
        raise ConfigError(f"--host {host}: {exc.strerror}; {_A_HOST}") from exc
    except OSError as exc:
        cause = (exc.strerror or "").split(" (")[0]  # create_server adds the address
        message = {
            errno.EADDRINUSE: f"--port {port}: in use; expected a free port, 0 for any",
            errno.EACCES: f"--port {port}: {cause}; expected one above 1023, or more rights",
        }.get(exc.errno or 0, f"--host {host}: {cause}; {_A_HOST}")
        raise ConfigError(message) from exc


def _load_tls(settings: ServeSettings) -> ssl.SSLContext | None:
    if settings.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # An empty password, as a prompt would block the command.
        context.load_cert_chain(settings.certificate, settings.key, password=b"")
    except OSError as exc:
        is_tls = isinstance(exc, ssl.SSLError)
        cause = "no certificate with its key" if is_tls else exc.strerror or str(exc)
        raise ConfigError(
            f"--tls-cert {settings.certificate}: {cause}; expected a PEM file with a certificate,"
            " and its key in it or in that of --tls-key"
        ) from exc
    return context
