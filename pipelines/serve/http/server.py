"""HTTP listener with a thread per connection; requests are answered by a callback.

At most `max_connections` are served at once, and more wait in the backlog of the listening socket.
Untrusted addresses have at most a quarter of them; their other connections are closed at once, so
that idle connections of strangers do not keep clients waiting.
"""

import errno
import logging
import selectors
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

from pipelines.serve.http.exchange import (
    ClientSocket,
    ConnectionDroppedError,
    Exchange,
    RefusedError,
    Reply,
    Request,
)
from pipelines.serve.http.trusted_addresses import Trust
from pipelines.serve.settings import ServeSettings
from schemas.errors import ConfigError

Answer = Callable[[Request], Reply]
"""Answers a request; may raise RefusedError or ConnectionDroppedError."""

DRAIN_SECONDS = 30.0
"""How long running requests may take when the receiver stops."""

KEEP_ALIVE_SECONDS = 15.0
"""How long an idle connection may occupy a place."""

INTERNAL_ERROR = "Internal Error"

_LINGER_BYTES = 64 << 20
_BACKLOG = 128
_MAX_PORT = 65535
_PAUSE_SECONDS = 0.1
_UNTRUSTED_SHARE = 4
_RESET = struct.pack("ii", 1, 0)
_A_HOST = "expected an address of this machine"
_log = logging.getLogger(__name__)


class HttpServer:
    """Serves between `start` and `stop`; raises ConfigError if it cannot listen."""

    def __init__(self, settings: ServeSettings, answer: Answer) -> None:
        self._settings = settings
        self._answer = answer
        self._tls = _load_tls(settings)
        self._listener = _listen(settings)
        self._listener.setblocking(False)
        self._trust = Trust(settings.trusted)
        self._slots = threading.Semaphore(settings.max_connections)
        untrusted = max(1, settings.max_connections // _UNTRUSTED_SHARE)
        self._untrusted_slots = threading.Semaphore(untrusted)
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, socket.socket] = {}
        self._busy: set[threading.Thread] = set()  # those that answer a request
        self._stopping = threading.Event()
        self._waker, self._woken = socket.socketpair()
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
        self._waker.close()
        self._slots.release()
        if self._thread.ident is not None:
            self._thread.join()
        self._listener.close()
        self._drain(drain_seconds)
        self._woken.close()

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
        with selectors.DefaultSelector() as ready:
            ready.register(self._listener, selectors.EVENT_READ)
            ready.register(self._woken, selectors.EVENT_READ)
            while True:
                self._slots.acquire()
                ready.select()
                if self._stopping.is_set():
                    return
                self._take()

    def _take(self) -> None:
        """Accept a connection and start its thread; the stack gives its places back."""
        with ExitStack() as place:
            place.callback(self._slots.release)
            try:
                connection, address = self._listener.accept()
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


def _shut(connection: socket.socket) -> None:
    """Make a thread that reads or writes the socket see its end."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _listen(settings: ServeSettings) -> socket.socket:
    host, port = settings.host, settings.port
    if not 0 <= port <= _MAX_PORT:
        raise ConfigError(f"--port {port}; expected 0 to {_MAX_PORT}")
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
