import socket
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from feedferry.pipelines.serve.http.server import (
    ClientSocket,
    ConnectionDroppedError,
    Exchange,
    RefusedError,
    Request,
)
from feedferry.pipelines.serve.settings import ServeSettings

SETTINGS = ServeSettings(
    spool="unused", head_seconds=20, idle_seconds=60, grace_seconds=30, min_rate=10
)
HEAD = (
    b"POST /xmlfeed?x=%20 HTTP/1.1\r\n"
    b"Host: h\r\n"
    b"X-Two: a\r\n"
    b"X-TWO: b\r\n"
    b"Content-Length: 1000\r\n"
    b"\r\n"
)


class Scripted(ClientSocket):
    """A line on which blocks come after a while each; the clock of the test goes with them."""

    def __init__(self, *coming: tuple[float, bytes]) -> None:
        self.address = "192.0.2.1"
        self.now = 0.0
        self.allowed: list[float] = []
        self.sent = b""
        self._coming = list(coming)

    def receive(self, seconds: float, *, most: int = 0) -> bytes:
        self.allowed.append(seconds)
        after, block = self._coming.pop(0)
        if after > seconds:
            self.now += seconds
            raise TimeoutError
        self.now += after
        return block

    def send(self, block: bytes, seconds: float) -> None:
        self.sent += block

    def exchange(self, **options: object) -> Exchange:
        return Exchange(self, msgspec.structs.replace(SETTINGS, **options), clock=lambda: self.now)


def request_of(exchange: Exchange) -> Request:
    request = exchange.read(20)
    assert request is not None
    return request


def status_of(exchange: Exchange) -> int:
    """Read a request and its body, to the refusal."""
    with pytest.raises(RefusedError) as caught:
        list(request_of(exchange).blocks)
    return caught.value.status


@contextmanager
def pair() -> Iterator[tuple[ClientSocket, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        yield ClientSocket(here, "192.0.2.1"), there


@pytest.mark.parametrize("before", [b"http://gsa:19900", b"HTTPS://gsa", b"http://u@[::1]:1"])
def test_a_target_may_be_a_whole_url(before: bytes) -> None:
    head = HEAD.replace(b" /xmlfeed", b" " + before + b"/xmlfeed")
    request = request_of(Scripted((0, head)).exchange())
    assert (request.method, request.path, request.query) == ("POST", "/xmlfeed", "x=%20")
    assert (request.client, request.length) == ("192.0.2.1", 1000)
    assert (request.header("x-two"), request.header("x-none")) == ("a, b", "")


def test_a_head_may_be_waited_for_and_then_take_its_time() -> None:
    line = Scripted((19, HEAD[:5]), (15, HEAD[5:9]), (4, HEAD[9:]))
    request_of(line.exchange())
    assert line.allowed == [20, 20, 5]


def test_a_head_that_takes_too_long_is_refused() -> None:
    line = Scripted((1, HEAD[:5]), (15, HEAD[5:9]), (6, HEAD[9:]))
    assert status_of(line.exchange()) == 408


def test_a_client_that_leaves_in_its_body_drops_the_connection() -> None:
    request = request_of(Scripted((0, HEAD), (0, b"a"), (0, b"")).exchange())
    with pytest.raises(ConnectionDroppedError) as caught:
        list(request.blocks)
    assert str(caught.value) == "the client left in the middle of its request"


def test_a_body_that_is_too_slow_is_refused_as_soon_as_that_is_certain() -> None:
    line = Scripted((0, HEAD), (20, b"a" * 50), (20, b"a" * 50))
    assert status_of(line.exchange()) == 408
    assert (line.allowed[1:], line.now) == ([30, 15], 35)


def test_a_body_with_a_long_pause_is_refused() -> None:
    line = Scripted((0, HEAD), (1, b"a" * 900), (61, b"a" * 100))
    assert status_of(line.exchange()) == 408
    assert line.allowed[1:] == [30, 60]


def test_the_time_of_the_receiver_does_not_count() -> None:
    line = Scripted((0, HEAD), (1, b"a" * 10), (1, b"a" * 990))
    blocks = request_of(line.exchange()).blocks
    next(blocks)
    line.now += 10_000
    assert next(blocks) == b"a" * 990


def test_100_continue_is_sent_when_the_body_is_read() -> None:
    head = HEAD.replace(b"Host: h", b"Host: h\r\nExpect: 100-continue")
    line = Scripted((0, head), (0, b"a" * 1000))
    request = request_of(line.exchange())
    before = line.sent
    list(request.blocks)
    assert (before, line.sent) == (b"", b"HTTP/1.1 100 Continue\r\n\r\n")


def test_client_that_does_not_wait_gets_no_100_continue() -> None:
    head = HEAD.replace(b"Host: h", b"Host: h\r\nExpect: 100-continue")
    line = Scripted((0, head + b"a" * 1000))
    list(request_of(line.exchange()).blocks)
    assert line.sent == b""


def test_a_connection_that_takes_no_bytes_is_dropped() -> None:
    with pair() as (line, _), pytest.raises(ConnectionDroppedError, match="timed out"):
        line.send(bytes(10 << 20), 0.1)
