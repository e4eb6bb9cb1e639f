"""Talks to a receiver over a socket, byte by byte."""

import socket
from http.client import parse_headers
from typing import NamedTuple, Self

PATIENCE_SECONDS = 300.0


class Heard(NamedTuple):
    """A reply; the names of its headers are in lower case."""

    status: int
    body: bytes
    headers: dict[str, str]


class Talk:
    """A connection to a port of this machine."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        self._stream = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stream.close()
        self.socket.close()

    def send(self, raw: bytes) -> None:
        self.socket.sendall(raw)

    def hear(self, *, method: str = "POST") -> Heard:
        """Return the next reply that is final; it says how long it is."""
        status = 100
        while status == 100:
            line = self._stream.readline()
            if not line:
                raise ConnectionResetError("no reply")
            status = int(line.split()[1])
            headers = {name.lower(): value for name, value in parse_headers(self._stream).items()}
        length = 0 if method == "HEAD" else int(headers["content-length"])
        return Heard(status, self._stream.read(length), headers)

    def ends(self) -> bool:
        """Whether the other side has closed in order, and has said nothing more."""
        return self._stream.read(1) == b""

    def breaks(self) -> bool:
        """Whether the connection is torn, without a word."""
        try:
            self._stream.read(1)
        except ConnectionError:
            return True
        return False


def say(port: int, raw: bytes, *, method: str = "POST") -> Heard:
    """Send a request on a connection of its own; return the reply."""
    with Talk(port) as talk:
        talk.send(raw)
        return talk.hear(method=method)


def is_reset(port: int, raw: bytes) -> bool:
    """Whether a request meets a connection that is torn, without a word."""
    with Talk(port) as talk:
        try:
            talk.send(raw)
        except ConnectionError:
            return True
        return talk.breaks()


def post(path: str, body: bytes, *, kind: str = "", headers: str = "") -> bytes:
    """Return a request as a client of today would send it."""
    type_ = f"Content-Type: {kind}\r\n" if kind else ""
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\n{type_}{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode("latin-1") + body


def get(path: str, *, headers: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: h\r\n{headers}\r\n".encode("latin-1")
