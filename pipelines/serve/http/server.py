"""Listens, and has a thread for each connection; what a request is answered with, others know.

At most `max_connections` are served at once. More wait in the backlog of the listening socket. Of
those that are not trusted at most a quarter are served, and more are let go without a word: whoever
says nothing holds no client up.
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
from http import HTTPStatus

from pipelines.serve.appliance_replies import INTERNAL_ERROR
from pipelines.serve.http.exchange import Exchange, Line, RefusedError, Reply, Request, TornError
from pipelines.serve.http.trusted_addresses import Trust
from pipelines.serve.settings import ServeSettings
from schemas.errors import ConfigError

Answer = Callable[[Request], Reply]
"""Answers a request; may raise RefusedError or TornError."""

DRAIN_SECONDS = 30.0
"""How long running requests may take when the receiver stops."""

KEEP_ALIVE_SECONDS = 15.0
"""How long a connection may rest between two requests, and keep others from being served."""

LINGER_SECONDS = 10.0
LINGER_IDLE_SECONDS = 1.0
LINGER_BYTES = 64 << 20

_BACKLOG = 128
_MOST_PORT = 65535
_REST_SECONDS = 0.1
_STRANGERS = 4  # one connection in so many may be of an address that is not trusted
_AT_ONCE = struct.pack("ii", 1, 0)
_log = logging.getLogger(__name__)


class Server:
    """Serves between its start and its stop; raises ConfigError if it cannot listen."""

    def __init__(self, settings: ServeSettings, answer: Answer) -> None:
        self._settings = settings
        self._answer = answer
        self._tls = _load_tls(settings)
        self._listener = _listen(settings)
        self._listener.setblocking(False)
        self._slots = threading.Semaphore(settings.max_connections)
        self._trust = Trust(settings.trusted)
        self._strangers = threading.Semaphore(max(1, settings.max_connections // _STRANGERS))
        self._connections = _Connections()
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
        """Take no more connections; return once running requests have ended, or had their time."""
        self._connections.stop()
        self._waker.close()
        self._slots.release()
        if self._thread.ident is not None:
            self._thread.join()
        self._listener.close()
        self._connections.drain(drain_seconds)
        self._woken.close()

    def _accept(self) -> None:
        with selectors.DefaultSelector() as ready:
            ready.register(self._listener, selectors.EVENT_READ)
            ready.register(self._woken, selectors.EVENT_READ)
            while True:
                self._slots.acquire()
                ready.select()
                if self._connections.is_stopping:
                    return
                self._take()

    def _take(self) -> None:
        with ExitStack() as left:
            left.callback(self._slots.release)
            try:
                connection, address = self._listener.accept()
            except OSError as exc:  # it has left already, or there are no more handles
                self._rest(exc)
                return
            left.callback(connection.close)
            client = str(address[0])
            if not self._admit(client, left):
                return
            place = left.pop_all()
        try:
            self._connections.serve(connection, lambda: self._serve(connection, client, place))
        except RuntimeError as exc:  # there are no more threads
            place.close()
            self._rest(exc)

    def _admit(self, client: str, left: ExitStack) -> bool:
        """Whether there is a place for a client; `left` gives it back."""
        if self._trust.allows(client):
            return True
        is_free = self._strangers.acquire(blocking=False)
        if is_free:
            left.callback(self._strangers.release)
        return is_free

    def _rest(self, exc: Exception) -> None:
        _log.debug("no connection: %s", exc)
        self._connections.rest(_REST_SECONDS)

    def _serve(self, connection: socket.socket, address: str, place: ExitStack) -> None:
        """Serve a connection to its end; whatever happens, it is only that one's."""
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                connection.settimeout(self._settings.head_seconds)
                connection = self._tls.wrap_socket(connection, server_side=True)
                self._connections.replace(connection)
            self._converse(connection, Line(connection, address))
        except TornError as exc:
            _log.debug("%s: %s", address, exc)
            with suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        except OSError as exc:
            _log.debug("%s: %s", address, exc)
        finally:
            connection.close()
            place.close()

    def _converse(self, connection: socket.socket, line: Line) -> None:
        """Answer one request after the other."""
        seconds, ahead = self._settings.head_seconds, b""
        while not self._connections.is_stopping:
            exchange = Exchange(line, self._settings, ahead=ahead)
            reply = self._answer_next(exchange, seconds)
            if reply is None:
                return
            exchange.answer(reply)
            self._connections.rested()
            if exchange.is_over:
                if reply.status != HTTPStatus.REQUEST_TIMEOUT:
                    _linger(connection, line)
                return
            ahead = exchange.ahead
            seconds = min(self._settings.idle_seconds, KEEP_ALIVE_SECONDS)

    def _answer_next(self, exchange: Exchange, seconds: float) -> Reply | None:
        """Return what the next request is answered with; None if none comes."""
        try:
            request = exchange.read(seconds)
            if request is None:
                return None
            self._connections.busy()
            return self._answer(request)
        except RefusedError as exc:
            return Reply(status=exc.status, body=exc.words.encode())
        except TornError:
            raise
        except Exception:
            # Whatever it is, a defect or a disk that fails: the other clients are to be served.
            _log.exception("a request from %s cannot be answered", exchange.address)
            return Reply(status=500, body=INTERNAL_ERROR.encode())


class _Connections:
    """The connections that are open, each with its thread, and whether it has a request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._open: dict[threading.Thread, socket.socket] = {}
        self._busy: set[threading.Thread] = set()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def rest(self, seconds: float) -> None:
        self._stopping.wait(seconds)

    def serve(self, connection: socket.socket, serve: Callable[[], None]) -> None:
        """Start a thread that serves a connection."""

        def run() -> None:
            try:
                serve()
            finally:
                self._forget()

        thread = threading.Thread(target=run, name="connection", daemon=True)
        with self._lock:
            thread.start()
            self._open[thread] = connection

    def replace(self, connection: socket.socket) -> None:
        """Take another socket for the connection of this thread: the one in TLS."""
        with self._lock:
            self._open[threading.current_thread()] = connection

    def busy(self) -> None:
        """Note that this thread has a request."""
        with self._lock:
            self._busy.add(threading.current_thread())

    def rested(self) -> None:
        with self._lock:
            self._busy.discard(threading.current_thread())

    def stop(self) -> None:
        """Close what has no request."""
        self._stopping.set()
        with self._lock:
            for thread in self._open.keys() - self._busy:
                _shut(self._open[thread])

    def drain(self, seconds: float) -> None:
        """Wait for what has one, so long; then close it too."""
        due = time.monotonic() + seconds
        with self._lock:
            running = tuple(self._open)
        for thread in running:
            thread.join(max(due - time.monotonic(), 0))
        with self._lock:
            late = dict(self._open)
        for thread, connection in late.items():
            _shut(connection)
            thread.join(_REST_SECONDS)

    def _forget(self) -> None:
        with self._lock:
            self._open.pop(threading.current_thread(), None)
            self._busy.discard(threading.current_thread())


def _shut(connection: socket.socket) -> None:
    """Let whoever reads or writes it see its end."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _linger(connection: socket.socket, line: Line) -> None:
    """Take a little more of what the client still sends: the rest, or a line end too many.

    With unread bytes a close is a reset, and a reset may take the reply from the client before
    that has read it.
    """
    with suppress(OSError, TornError):
        connection.shutdown(socket.SHUT_WR)
        due, left = time.monotonic() + LINGER_SECONDS, LINGER_BYTES
        while time.monotonic() < due and left > 0 and (block := line.receive(LINGER_IDLE_SECONDS)):
            left -= len(block)


def _listen(settings: ServeSettings) -> socket.socket:
    host, port = settings.host, settings.port
    if not 0 <= port <= _MOST_PORT:
        raise ConfigError(f"--port {port}; expected 0 to {_MOST_PORT}")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        both = host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(
            (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both
        )
    except socket.gaierror as exc:
        raise ConfigError(f"--host {host}: {exc.strerror}; {_A_HOST}") from exc
    except OSError as exc:
        raise _unusable(settings, exc) from exc


_A_HOST = "expected an address of this machine"


def _unusable(settings: ServeSettings, exc: OSError) -> ConfigError:
    cause = (exc.strerror or "").split(" (")[0]  # create_server adds the address to it
    match exc.errno:
        case errno.EADDRINUSE:
            return ConfigError(f"--port {settings.port}: in use; expected a free port, 0 for any")
        case errno.EACCES:
            return ConfigError(
                f"--port {settings.port}: {cause}; expected one above 1023, or more rights"
            )
    return ConfigError(f"--host {settings.host}: {cause}; {_A_HOST}")


def _load_tls(settings: ServeSettings) -> ssl.SSLContext | None:
    if settings.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Nobody is there to be asked for a password.
        context.load_cert_chain(settings.certificate, settings.key, password=b"")
    except ssl.SSLError as exc:
        raise _no_certificate(settings, "no certificate with its key") from exc
    except OSError as exc:
        raise _no_certificate(settings, exc.strerror or str(exc)) from exc
    return context


def _no_certificate(settings: ServeSettings, cause: str) -> ConfigError:
    return ConfigError(
        f"--tls-cert {settings.certificate}: {cause}; expected a PEM file with a certificate, and "
        "its key in it or in that of --tls-key"
    )
