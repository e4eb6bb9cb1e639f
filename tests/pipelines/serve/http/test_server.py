import hashlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from email.utils import parsedate_to_datetime

import msgspec
import pytest

from feedferry.pipelines.serve.http.server import (
    Answer,
    ConnectionDroppedError,
    HttpServer,
    RefusedError,
    Reply,
    Request,
)
from feedferry.pipelines.serve.settings import ServeSettings
from feedferry.schemas.errors import ConfigError
from support import appliance_sockets
from support.served import wait_until
from support.talk import PATIENCE_SECONDS, Talk, get, is_reset, post, say

pytestmark = pytest.mark.slow

SETTINGS = ServeSettings(spool="unused", port=0)
CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


def echo(request: Request) -> Reply:
    return Reply(body=b"".join(request.blocks))


def digest(request: Request) -> Reply:
    total = hashlib.sha256()
    list(map(total.update, request.blocks))
    return Reply(body=total.hexdigest().encode())


def refuse(request: Request) -> Reply:
    raise RefusedError(413, "too much")


@contextmanager
def serving(
    answer: Answer = echo, settings: ServeSettings = SETTINGS, **changes: object
) -> Iterator[HttpServer]:
    server = HttpServer(msgspec.structs.replace(settings, **changes), answer)
    with started(server):
        yield server


@contextmanager
def started(server: HttpServer) -> Iterator[None]:
    server.start()
    try:
        yield
    finally:
        server.stop(drain_seconds=0.1)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the paths of a certificate of 127.0.0.1 and of its key."""
    path, key = appliance_sockets.certificate(tmp_path_factory.mktemp("tls"))
    return str(path), str(key)


def test_a_large_body_is_read_byte_for_byte() -> None:
    body = bytes(range(256)) * 40_000
    with serving(digest) as server:
        assert say(server.port, post("/", body)).body == hashlib.sha256(body).hexdigest().encode()


def test_a_head_in_single_bytes_is_read() -> None:
    with serving() as server, Talk(server.port) as talk:
        talk.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        list(map(talk.send, (bytes([byte]) for byte in post("/", b"<a/>"))))
        assert talk.hear().body == b"<a/>"


def test_the_answer_has_the_headers_of_a_feedergate() -> None:
    with serving(lambda request: Reply(body=b"Success")) as server:
        heard = say(server.port, post("/xmlfeed", b""))
    date = parsedate_to_datetime(heard.headers.pop("date"))
    assert heard.headers == {
        "server": "feedergate_1.0",
        "content-type": "text/plain",
        "content-length": "7",
    }
    assert abs(date.timestamp() - time.time()) < 60


def test_a_connection_serves_one_request_after_the_other() -> None:
    with serving() as server, Talk(server.port) as talk:
        talk.send(post("/", b"<a/>"))
        first = talk.hear().body
        talk.send(CHUNKED + b"4\r\n<b/>\r\n0\r\n\r\n")
        second = talk.hear().body
        talk.send(post("/", b"<c/>"))
        assert [first, second, talk.hear().body] == [b"<a/>", b"<b/>", b"<c/>"]


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.0\r\nContent-length: 4\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 4\r\n\r\n",
    ],
)
def test_the_connection_closes_after_a_last_request(head: bytes) -> None:
    with serving() as server, Talk(server.port) as talk:
        talk.send(head + b"<a/>")
        heard = talk.hear()
        assert (heard.body, heard.headers["connection"], talk.ends()) == (b"<a/>", "close", True)


def test_line_ends_before_a_request_are_passed_over() -> None:
    with serving() as server, Talk(server.port) as talk:
        talk.send(b"\r\n" + post("/", b"<a/>") + b"\r\n")
        first = talk.hear().body
        talk.send(b"\r\n" + post("/", b"<b/>"))
        assert [first, talk.hear().body] == [b"<a/>", b"<b/>"]


def test_superfluous_line_end_does_not_cost_the_reply() -> None:
    with serving() as server, Talk(server.port) as talk:
        talk.send(b"POST / HTTP/1.0\r\nContent-Length: 4\r\n\r\n<a/>\r\n")
        assert (talk.hear().body, talk.ends()) == (b"<a/>", True)


def test_a_client_that_waits_and_is_refused_gets_no_100_continue() -> None:
    with serving(refuse) as server, Talk(server.port) as talk:
        talk.send(post("/", b"<a/>", headers="Expect: 100-continue\r\n").removesuffix(b"<a/>"))
        assert talk.socket.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_refusal_is_seen_by_a_client_that_first_sends_all() -> None:
    patience = PATIENCE_SECONDS
    with (
        serving(refuse, linger_seconds=patience, linger_idle_seconds=patience) as server,
        Talk(server.port) as talk,
    ):
        talk.send(post("/", bytes(8 << 20)))
        heard = talk.hear()
        assert (heard.status, heard.body) == (413, b"too much")
        assert (heard.headers["connection"], talk.ends()) == ("close", True)


def test_a_refusal_of_a_request_that_was_read_keeps_the_connection() -> None:
    def refuse_late(request: Request) -> Reply:
        raise RefusedError(400, b"".join(request.blocks).decode())

    with serving(refuse_late) as server, Talk(server.port) as talk:
        talk.send(post("/", b"a"))
        first = talk.hear()
        talk.send(post("/", b"b"))
        assert (first.status, first.body, talk.hear().body) == (400, b"a", b"b")


def test_a_defect_is_an_internal_error_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: Request) -> Reply:
        raise ZeroDivisionError("a defect")

    with serving(fail) as server:
        heard = say(server.port, post("/", b""))
    assert (heard.status, heard.body) == (500, b"Internal Error")
    assert caplog.messages == ["a request from 127.0.0.1 cannot be answered"]


def test_head_request_gets_the_length_of_the_body() -> None:
    with serving(lambda request: Reply(body=b"page")) as server, Talk(server.port) as talk:
        talk.send(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n" + get("/"))
        first = talk.hear(method="HEAD")
        assert (first.body, first.headers["content-length"]) == (b"", "4")
        assert talk.hear().body == b"page"


def test_a_dropped_connection_is_a_reset() -> None:
    def tear(request: Request) -> Reply:
        raise ConnectionDroppedError("a reset")

    with serving(tear) as server:
        assert is_reset(server.port, post("/", b"<a/>"))


@pytest.mark.parametrize(
    ("raw", "status", "words"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", 400, b"illegal request line"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, b"Missing mandatory Host: header"),
        (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505, b"HTTP/2.0"),
        (
            CHUNKED.replace(b": chunked", b": gzip, chunked"),
            501,
            b"Only Transfer-Encoding: chunked is supported",
        ),
        (
            CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 4\r\n\r\n"),
            400,
            b"Transfer-Encoding and Content-Length",
        ),
        (
            CHUNKED.replace(b"HTTP/1.1\r\nHost: h", b"HTTP/1.0"),
            400,
            b"Transfer-Encoding in HTTP/1.0",
        ),
        (CHUNKED + b"zz\r\n", 400, b"illegal chunk header: bytearray(b'zz\\r\\n')"),
    ],
)
def test_malformed_request_is_refused_and_ends_the_connection(
    raw: bytes, status: int, words: bytes
) -> None:
    with serving() as server, Talk(server.port) as talk:
        talk.send(raw)
        heard = talk.hear()
        head, _, expected = heard.body.partition(b"; ")
        assert (heard.status, head, talk.ends()) == (status, words, True)
        assert expected.startswith(b"expected ")


@pytest.mark.parametrize(
    "raw", [b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000, get("/", headers=f"X: {'a' * 16_400}\r\n")]
)
def test_a_head_that_is_too_long_is_refused(raw: bytes) -> None:
    with serving() as server:
        heard = say(server.port, raw)
    words = b"a head of more than 16384 bytes; expected a shorter one"
    assert (heard.status, heard.body) == (431, words)


def test_a_silent_client_is_disconnected_without_a_reply() -> None:
    with serving(head_seconds=0.1) as server, Talk(server.port) as talk:
        assert talk.ends()


def test_an_idle_connection_is_closed_without_a_reply() -> None:
    with serving(idle_seconds=0.1) as server, Talk(server.port) as talk:
        talk.send(get("/"))
        assert (talk.hear().status, talk.ends()) == (200, True)


def test_more_clients_than_are_served_wait_for_their_turn() -> None:
    with serving(max_connections=1) as server, Talk(server.port) as first:
        first.send(get("/"))
        first.hear()
        with Talk(server.port) as second:
            second.send(get("/"))
            second.socket.settimeout(0.1)
            with pytest.raises(TimeoutError):
                second.socket.recv(1)
            first.socket.shutdown(socket.SHUT_RDWR)
            second.socket.settimeout(PATIENCE_SECONDS)
            assert second.hear().status == 200


def test_untrusted_clients_have_a_quarter_of_the_connections() -> None:
    with serving(max_connections=8, trusted=()) as server, ExitStack() as opened:
        first, second, third = (opened.enter_context(Talk(server.port)) for _ in range(3))
        first.send(get("/"))
        second.send(get("/"))
        assert (first.hear().status, second.hear().status) == (200, 200)
        assert third.ends()


def test_untrusted_clients_cannot_keep_a_trusted_client_waiting() -> None:
    with serving(max_connections=4, trusted=("127.0.0.1",)) as server, ExitStack() as opened:
        for _ in range(20):
            stranger = socket.create_connection(
                ("127.0.0.1", server.port), source_address=("127.0.0.2", 0)
            )
            opened.enter_context(stranger)
        assert say(server.port, get("/")).status == 200


def test_a_connection_is_free_again_when_an_untrusted_client_has_left() -> None:
    with serving(max_connections=4, trusted=()) as server:
        assert answers(server.port)
        wait_until(lambda: answers(server.port))


def answers(port: int) -> bool:
    """Whether there is a place for a client, which leaves it."""
    with Talk(port) as talk:
        try:
            talk.send(get("/"))
            return talk.hear().status == 200
        except ConnectionError:
            return False


def test_a_stop_lets_a_request_end_and_takes_no_more() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def wait(request: Request) -> Reply:
        begun.set()
        assert may_end.wait(PATIENCE_SECONDS)
        return Reply(body=b"".join(request.blocks))

    server = HttpServer(SETTINGS, wait)
    server.start()
    with Talk(server.port) as talk:
        talk.send(post("/", b"<a/>"))
        assert begun.wait(PATIENCE_SECONDS)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        may_end.set()
        assert (talk.hear().body, talk.ends()) == (b"<a/>", True)
        stopping.join(PATIENCE_SECONDS)
    with pytest.raises(ConnectionRefusedError):
        Talk(server.port)


def test_a_stop_waits_no_longer_than_its_drain_time() -> None:
    server = HttpServer(SETTINGS, echo)
    server.start()
    with Talk(server.port) as talk:
        talk.send(post("/", b"<gsafeed/>", headers="Expect: 100-continue\r\n")[:-10])
        talk.socket.recv(100)
        server.stop(drain_seconds=0.1)
        assert talk.ends()


def test_a_server_that_never_started_can_be_stopped() -> None:
    server = HttpServer(SETTINGS, echo)
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        Talk(server.port)


def test_ipv6_address_is_in_brackets() -> None:
    with serving(host="::1") as server:
        assert server.url == f"http://[::1]:{server.port}"
        with socket.create_connection(("::1", server.port), PATIENCE_SECONDS) as connection:
            connection.sendall(get("/"))
            assert connection.recv(12) == b"HTTP/1.1 200"


def test_a_port_in_use_is_refused() -> None:
    with serving() as server, pytest.raises(ConfigError) as caught:
        HttpServer(msgspec.structs.replace(SETTINGS, port=server.port), echo)
    assert str(caught.value) == f"--port {server.port}: in use; expected a free port, 0 for any"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"host": "192.0.2.1"},
            "--host 192.0.2.1: Cannot assign requested address; "
            "expected an address of this machine",
        ),
        (
            {"certificate": "/nowhere/a.pem"},
            "--tls-cert /nowhere/a.pem: No such file or directory; expected a PEM file with a "
            "certificate, and its key in it or in that of --tls-key",
        ),
        (
            {"certificate": __file__},
            f"--tls-cert {__file__}: no certificate with its key; expected a PEM file with a "
            "certificate, and its key in it or in that of --tls-key",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HttpServer(msgspec.structs.replace(SETTINGS, **changes), echo)
    assert str(caught.value) == words


def test_a_client_can_use_tls(certificate: tuple[str, str]) -> None:
    context = ssl.create_default_context(cafile=certificate[0])
    with serving(certificate=certificate[0], key=certificate[1]) as server:
        assert server.url == f"https://127.0.0.1:{server.port}"
        with (
            socket.create_connection(("127.0.0.1", server.port), PATIENCE_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            connection.sendall(post("/", b"<gsafeed/>"))
            assert connection.recv(400).endswith(b"\r\n\r\n<gsafeed/>")


def test_a_client_without_tls_or_a_handshake_is_disconnected(certificate: tuple[str, str]) -> None:
    path, key = certificate
    with serving(certificate=path, key=key, head_seconds=0.1) as server:
        with Talk(server.port) as talk:
            assert talk.ends()
        with Talk(server.port) as talk, suppress(ConnectionResetError):
            talk.send(get("/"))
            assert talk.ends()


def test_stop_closes_idle_tls_connections(certificate: tuple[str, str]) -> None:
    context = ssl.create_default_context(cafile=certificate[0])
    with serving(certificate=certificate[0], key=certificate[1]) as server:
        plain = socket.create_connection(("127.0.0.1", server.port), PATIENCE_SECONDS)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            connection.sendall(get("/"))
            connection.recv(400)
            server.stop(drain_seconds=0)
            assert connection.recv(1) == b""
