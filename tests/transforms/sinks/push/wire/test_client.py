"""Requests over real sockets, their responses, and the errors in their place."""

import gzip
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.transforms.sinks.push.model import ApplianceResponse, ChunkPart
from feedferry.transforms.sinks.push.wire.client import ApplianceClient
from feedferry.transforms.sinks.push.wire.feedergate import FEEDERGATE
from feedferry.transforms.sinks.push.wire.protocol import Appliance
from support.appliance_sockets import (
    LARGE,
    Listener,
    Talk,
    certificate,
    deaf,
    dripping,
    hasty,
    listening,
    reply,
    saying,
    torn,
    whole,
)
from support.fake_appliance import GSA, THUNDERSTONE
from support.ports import kept_port
from support.served import wait_until

FEED = b"<gsafeed/>"
SUCCESS = reply("Success")
TOO_LARGE = reply("too large", status="413 Request Entity Too Large")
GROUPS = {"format": "gsa-groups", "datasource": "ldap"}
DATA = {"format": "thunderstone", "datasource": None, "feedtype": None}
FEEDERGATE_PORTS = "a feedergate listens on port 19900, with TLS on 19902"
HEAD_SECONDS = 2.5
"""The time for a head that is sent at once and a body that never ends."""
BUSY = "if the appliance is busy, raise ⟦reply_timeout⟧"
pytestmark = pytest.mark.slow  # sockets, and requests of 24 MiB


@pytest.fixture
def feed(tmp_path: Path) -> ChunkPart:
    return whole(tmp_path / "feed.xml", FEED)


@pytest.fixture
def large_feed(tmp_path: Path) -> ChunkPart:
    return whole(tmp_path / "feed.xml", b"x" * LARGE)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def context(pair: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*pair)
    return context


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port without a listener."""
    with kept_port() as port:
        yield port


def send(part: ChunkPart, to: Appliance, feedtype: str | None = None) -> ApplianceResponse:
    with ApplianceClient(to) as client:
        return client.send(part, feedtype=feedtype)


def send_to(
    talk: Callable[[Listener], Talk],
    part: ChunkPart,
    *,
    context: ssl.SSLContext | None = None,
    feedtype: str | None = None,
    **fields: object,
) -> tuple[ApplianceResponse, Listener]:
    """Send a part to a listener that speaks so; return the response and what was heard."""
    with listening(talk, context=context) as listener:
        url = listener.url if context is None else f"https://127.0.0.1:{listener.port}"
        stated: dict[str, object] = {"protocol": FEEDERGATE, "url": url, **fields}
        return send(part, Appliance(**stated), feedtype), listener  # type: ignore[arg-type]


def error_of(response: ApplianceResponse) -> str:
    """Return the error without the port, which differs."""
    assert response.status is None
    return re.sub(r"127\.0\.0\.1:\d+", "HOST", response.error)


def fields_of(body: bytes) -> dict[str, str]:
    """Return the text fields of a form."""
    pairs = re.findall(rb'name="(.*?)"\r\nContent-Type: text/plain\r\n\r\n(.*?)\r\n', body)
    return {name.decode(): value.decode() for name, value in pairs}


# Requests


@pytest.mark.parametrize(
    ("stated", "feedtype", "path", "fields"),
    [
        ({}, None, "/xmlfeed", {"datasource": "sample", "feedtype": "incremental"}),
        ({}, "full", "/xmlfeed", {"datasource": "sample", "feedtype": "full"}),
        (
            {"datasource": "web", "feedtype": None},
            None,
            "/xmlfeed",
            {"datasource": "web", "feedtype": "metadata-and-url"},
        ),
        (GROUPS, None, "/xmlgroups", {"groupsource": "ldap", "feedtype": "incremental"}),
        (GROUPS, "replace", "/xmlgroups", {"replace": "ldap"}),
    ],
)
def test_a_feed_is_posted_as_a_form(
    tmp_path: Path,
    stated: dict[str, object],
    feedtype: str | None,
    path: str,
    fields: dict[str, str],
) -> None:
    part = whole(tmp_path / "feed.xml", FEED, **stated)
    _, listener = send_to(saying(SUCCESS), part, feedtype=feedtype)
    head, _, body = listener.heard[0].partition(b"\r\n\r\n")

    assert head.startswith(f"POST {path} HTTP/1.1\r\n".encode())
    assert fields_of(body) == fields
    assert b'name="data"\r\nContent-Type: text/xml\r\n\r\n<gsafeed/>\r\n' in body
    assert f"\r\nContent-Length: {len(body)}".encode() in head
    names = [line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]]
    assert sorted(names) == [
        *(b"accept", b"accept-encoding", b"connection", b"content-length", b"content-type"),
        *(b"host", b"user-agent"),
    ]


def test_thunderstone_data_is_posted_as_an_encoded_form(tmp_path: Path) -> None:
    part = whole(tmp_path / "data.xml", b"<a b='c'/>", **DATA)
    with listening(saying(SUCCESS)) as listener:
        url = listener.url + "/texis/dowalk/recvdata.xml"
        with ApplianceClient(replace(THUNDERSTONE, url=url, profile="intra net")) as client:
            client.send(part, feedtype=None)
            length = client.request_bytes(part, feedtype=None)

    assert listener.heard[0].startswith(b"POST /texis/dowalk/recvdata.xml HTTP/1.1\r\n")
    assert listener.body() == b"profile=intra+net&data=%3Ca+b%3D%27c%27%2F%3E"
    assert length == len(listener.body())


def test_a_proxy_is_used_only_if_it_is_named(
    feed: ChunkPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    response, _ = send_to(saying(SUCCESS), feed)
    with listening(saying(SUCCESS)) as proxy:
        send(feed, replace(GSA, proxy=proxy.url))

    assert response.body == b"Success"
    assert proxy.heard[0].startswith(b"POST http://gsa.example.com:19900/xmlfeed HTTP/1.1\r\n")


def test_requests_are_independent_and_may_come_from_threads(feed: ChunkPart) -> None:
    kept = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: keep-alive\r\n"
        b"Set-Cookie: a=b\r\n\r\nSuccess"
    )
    with (
        listening(saying(kept)) as listener,
        ApplianceClient(replace(GSA, url=listener.url)) as client,
        ThreadPoolExecutor(4) as threads,
    ):
        sent = [threads.submit(client.send, feed, feedtype=None) for _ in range(8)]
        assert [future.result().body for future in sent] == [b"Success"] * 8
    assert not any(b"ookie" in request for request in listener.heard)


def test_a_small_request_is_compressed_on_demand(tmp_path: Path) -> None:
    part = whole(tmp_path / "feed.xml", b"<gsafeed>" + b" " * 100_000 + b"</gsafeed>")
    _, plain = send_to(saying(SUCCESS), part)
    (response, first), (_, second) = (send_to(saying(SUCCESS), part, gzip=True) for _ in range(2))
    mebibyte = whole(tmp_path / "large.xml", b"x" * (1 << 20))
    _, large = send_to(saying(SUCCESS), mebibyte, gzip=True)
    head, _, body = first.heard[0].partition(b"\r\n\r\n")

    assert first.body() == second.body()
    assert b"\r\nContent-Encoding: gzip\r\n" in head + b"\r\n"
    assert f"\r\nContent-Length: {len(body)}\r\n".encode() in head + b"\r\n"
    assert gzip.decompress(body) == plain.body()
    assert response.sent_bytes == len(body) < 2000
    assert b"Content-Encoding" not in large.heard[0]


def test_the_backlog_is_requested_and_groups_are_removed() -> None:
    with (
        listening(saying(reply("17"), SUCCESS)) as listener,
        ApplianceClient(replace(GSA, url=listener.url)) as client,
    ):
        assert (client.backlog().body, client.cleanup("ldap").body) == (b"17", b"Success")
    backlog, cleanup = listener.heard
    assert backlog.startswith(b"GET /getbacklogcount HTTP/1.1\r\n")
    assert cleanup.startswith(b"POST /xmlgroups HTTP/1.1\r\n")
    assert fields_of(cleanup) == {"cleanup": "ldap"}


# Responses


def test_a_response_says_what_was_received_and_sent(feed: ChunkPart) -> None:
    ticks = iter([100.0, 103.5])
    with (
        listening(saying(reply("Success", headers="Retry-After: 120\r\n"))) as listener,
        ApplianceClient(replace(GSA, url=listener.url), clock=lambda: next(ticks)) as client,
    ):
        response = client.send(feed, feedtype=None)

    assert response == ApplianceResponse(
        status=200,
        content_type="text/plain",
        body=b"Success",
        retry_after="120",
        sent_bytes=len(listener.body()),
        seconds=3.5,
        url=f"{listener.url}/xmlfeed",
    )


@pytest.mark.parametrize("location", ["http://elsewhere/xmlfeed", "http://[x"])
def test_a_redirect_is_not_followed(feed: ChunkPart, location: str) -> None:
    moved = reply("", status="302 Found", headers=f"Location: {location}\r\n")
    response, listener = send_to(saying(moved), feed)

    assert (response.status, response.location, len(listener.heard)) == (302, location, 1)


def test_an_endless_response_is_cut_off(feed: ChunkPart) -> None:
    def talk_of(listener: Listener) -> Talk:
        def talk(connection: socket.socket) -> None:
            saying(b"HTTP/1.0 200 OK\r\n\r\n")(listener)(connection)
            while not listener.is_over.is_set():
                connection.sendall(b"x" * (1 << 20))

        return talk

    assert len(send_to(talk_of, feed)[0].body) == 16 << 20


@pytest.mark.parametrize("round", range(3))
def test_a_response_before_the_end_of_the_feed_is_read(large_feed: ChunkPart, round: int) -> None:
    response, _ = send_to(torn(TOO_LARGE, read_bytes=1 << 16), large_feed)

    assert (response.status, response.body, response.is_unsent) == (413, b"too large", True)


@pytest.mark.parametrize(
    "talk",
    [
        torn(b"HTTP/1.0 500 X\r\nContent-Length: 99\r\n\r\nsome"),
        dripping(b"HTTP/1.1 500 Busy\r\n\r\n", b"x"),
    ],
)
def test_an_incomplete_response_counts_if_its_status_says_enough(
    feed: ChunkPart, talk: Callable[[Listener], Talk]
) -> None:
    response, _ = send_to(talk, feed, reply_seconds=HEAD_SECONDS)

    assert (response.status, response.error) == (500, "")


# Errors in place of a response


@pytest.mark.parametrize(
    ("reply_bytes", "expected"),
    [
        (
            b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\nSucc",
            "connection closed within the response",
        ),
        (b"", "connection closed before the response"),
        (b"HTTP/1.0 200 OK\r\nContent-", "connection closed before the response"),
        (
            b"220 mail.example.com ESMTP\r\n\r\n",
            "the response is not HTTP: \"illegal status line: bytearray(b'220 mail.example.com "
            f"ESMTP')\"; {FEEDERGATE_PORTS}",
        ),
        (
            reply("Success", headers="Content-Encoding: gzip\r\n"),
            "the response is not HTTP: "
            f"'Error -3 while decompressing data: incorrect header check'; {FEEDERGATE_PORTS}",
        ),
    ],
)
def test_a_feed_without_a_whole_response_was_sent(
    feed: ChunkPart, reply_bytes: bytes, expected: str
) -> None:
    response, _ = send_to(torn(reply_bytes), feed)

    assert error_of(response) == f"http://HOST/xmlfeed: {expected}"
    assert not response.is_unsent


@pytest.mark.parametrize("read_bytes", [0, 100, 1 << 20])
def test_a_feed_is_unsent_if_the_connection_closes_within_it(
    large_feed: ChunkPart, read_bytes: int
) -> None:
    response, _ = send_to(torn(read_bytes=read_bytes), large_feed)

    assert re.fullmatch(
        r"http://HOST/xmlfeed: connection closed after \d+ of 25166324 bytes"
        r"( \((Connection reset by peer|Broken pipe)\))?",
        error_of(response),
    )
    assert response.is_unsent


@pytest.mark.parametrize(
    ("head", "drop", "finding"),
    [
        (b"", b"", "no response"),
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n", "no response"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x", "no response"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x", "incomplete response"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;", b"x", "incomplete response"),
        (b"HTTP/1.0 200 OK\r\n\r\nSucc", b"", "incomplete response"),
    ],
    ids=["silence", "informational", "head", "body", "chunk", "silent body"],
)
def test_a_response_that_never_ends_is_given_up(
    feed: ChunkPart, head: bytes, drop: bytes, finding: str
) -> None:
    seconds = HEAD_SECONDS if finding == "incomplete response" else 0.5
    response, _ = send_to(dripping(head, drop), feed, reply_seconds=seconds)

    assert error_of(response) == f"http://HOST/xmlfeed: {finding} within {seconds} s; {BUSY}"
    assert not response.is_unsent


def test_a_response_that_never_ends_in_tls_is_given_up(
    feed: ChunkPart, context: ssl.SSLContext, pair: tuple[Path, Path]
) -> None:
    endless = dripping(b"", b"H")
    response, _ = send_to(endless, feed, context=context, ca_file=str(pair[0]), reply_seconds=0.2)

    assert error_of(response) == f"https://HOST/xmlfeed: no response within 0.2 s; {BUSY}"


def test_an_appliance_that_reads_nothing_is_given_up(large_feed: ChunkPart) -> None:
    response, _ = send_to(deaf, large_feed, write_seconds=0.1)

    assert re.fullmatch(
        r"http://HOST/xmlfeed: no bytes read for 0\.1 s, after \d+ of 25166324 bytes; "
        r"expected it to read on",
        error_of(response),
    )
    assert response.is_unsent


@pytest.mark.parametrize(
    ("talk", "seconds", "expected"),
    [
        (
            deaf,
            0.5,
            f"no connection within 0.5 s; {FEEDERGATE_PORTS}: check host, port and firewalls",
        ),
        (
            torn(b"HTTP/1.0 400 Bad Request\r\n\r\n", read_bytes=1),
            60.0,
            "TLS: wrong version number; expected TLS on this port: is it one for http://?",
        ),
    ],
)
def test_a_port_without_tls_is_named(
    feed: ChunkPart, talk: Callable[[Listener], Talk], seconds: float, expected: str
) -> None:
    with listening(talk) as listener:
        url = f"https://127.0.0.1:{listener.port}"
        response = send(feed, replace(GSA, url=url, connect_seconds=seconds))

    assert error_of(response) == f"https://HOST/xmlfeed: {expected}"


def test_a_port_without_a_listener_is_named(tmp_path: Path, closed_port: int) -> None:
    url = f"http://127.0.0.1:{closed_port}"
    feed, data = whole(tmp_path / "f.xml", FEED), whole(tmp_path / "d.xml", FEED, **DATA)
    response = send(feed, replace(GSA, url=url))

    assert error_of(response) == f"http://HOST/xmlfeed: connection refused; {FEEDERGATE_PORTS}"
    assert (response.is_unsent, response.is_permanent, response.sent_bytes) == (True, False, 0)
    assert error_of(send(data, replace(THUNDERSTONE, url=f"{url}/recvdata.xml"))) == (
        "http://HOST/recvdata.xml: connection refused; expected the appliance's web server there"
    )
    assert error_of(send(feed, replace(GSA, proxy=url))) == (
        "http://gsa.example.com:19900/xmlfeed: connection refused; expected a connection through "
        "the proxy http://HOST"
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            socket.gaierror(-2, "Name or service not known"),
            "no address for 'gsa.example.com' (Name or service not known); expected a name that "
            "this machine can look up",
        ),
        (OSError(113, "No route to host"), f"no connection (No route to host); {FEEDERGATE_PORTS}"),
        (
            ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
            "TLS: handshake broken off; expected TLS on this port: is it one for http://?",
        ),
    ],
)
def test_an_error_of_the_network_is_explained(
    feed: ChunkPart, monkeypatch: pytest.MonkeyPatch, error: OSError, expected: str
) -> None:
    def connect(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(socket, "create_connection", connect)
    response = send(feed, GSA)

    assert response.error == f"{GSA.url}/xmlfeed: {expected}"
    assert not response.is_permanent


def test_a_proxy_that_asks_for_a_user_is_a_permanent_error(feed: ChunkPart) -> None:
    with listening(saying(reply("", status="407 Proxy Authentication Required"))) as proxy:
        to = replace(GSA, url="https://gsa.example.com:19902", proxy=proxy.url)
        response = send(feed, to)

    assert error_of(response) == (
        "https://gsa.example.com:19902/xmlfeed: the proxy http://HOST responded '407 Proxy "
        "Authentication Required'; expected a connection: check ⟦proxy⟧, or leave it out"
    )
    assert response.is_permanent


@pytest.mark.parametrize("gzip", [False, True])
def test_a_changed_file_is_never_sent_to_its_end(tmp_path: Path, gzip: bool) -> None:
    part = whole(tmp_path / "feed.xml", b"before")
    part.path.write_bytes(b"behind")
    with listening(saying(SUCCESS)) as listener:
        response = send(part, replace(GSA, url=listener.url, gzip=gzip))
        if not gzip:  # the client may have left before the connection is accepted
            wait_until(lambda: bool(listener.heard))

    assert not any(b"behind" in request for request in listener.heard)
    assert response.error.startswith(f"{tmp_path}/feed.xml: SHA-256 ")
    assert (response.is_unsent, response.is_permanent) == (True, True)


def test_a_missing_file_is_reported_before_anything_is_sent(tmp_path: Path) -> None:
    part = whole(tmp_path / "data.xml", FEED, **DATA)
    part.path.unlink()

    assert send(part, THUNDERSTONE) == ApplianceResponse(
        error=f"{tmp_path}/data.xml: No such file or directory; expected a readable chunk file",
        is_unsent=True,
        is_permanent=True,
    )


# TLS


def test_a_certificate_of_a_named_authority_is_trusted(
    feed: ChunkPart, pair: tuple[Path, Path], context: ssl.SSLContext
) -> None:
    response, _ = send_to(saying(SUCCESS), feed, context=context, ca_file=str(pair[0]))

    assert response.body == b"Success"


@pytest.mark.parametrize(
    "case",
    [
        (
            *("127.0.0.1", False, "self-signed certificate"),
            "expected one that the system trusts: name its authority by ⟦ca_file⟧",
        ),
        (
            *("localhost", True, "Hostname mismatch, certificate is not valid for 'localhost'."),
            "expected one for this host: give its name as ⟦url⟧, or issue it for this host",
        ),
    ],
)
def test_another_certificate_is_a_permanent_error(
    feed: ChunkPart, pair: tuple[Path, Path], context: ssl.SSLContext, case: tuple[str, ...]
) -> None:
    host, is_named, reason, fix = case
    with listening(saying(SUCCESS), context=context) as listener:
        url = f"https://{host}:{listener.port}"
        ca_file = str(pair[0]) if is_named else None
        response = send(feed, replace(GSA, url=url, ca_file=ca_file))

    assert response.error == (f"{url}/xmlfeed: its certificate is not trusted ({reason}); {fix}")
    assert (response.is_permanent, response.is_unsent) == (True, True)


@pytest.mark.parametrize(
    ("talk", "expected"),
    [
        (hasty(TOO_LARGE), (413, b"too large", False, False)),
        (torn(read_bytes=1 << 10), (None, b"", True, False)),
    ],
    ids=["an early response", "a closed connection"],
)
def test_the_end_of_a_request_in_tls_is_known(
    large_feed: ChunkPart,
    pair: tuple[Path, Path],
    context: ssl.SSLContext,
    talk: Callable[[Listener], Talk],
    expected: tuple[object, ...],
) -> None:
    response, _ = send_to(talk, large_feed, context=context, ca_file=str(pair[0]))
    results = (response.status, response.body, response.is_unsent, response.is_permanent)

    assert results == expected


@pytest.mark.parametrize(
    ("reply_bytes", "requests", "error"),
    [
        (SUCCESS, 2, ""),
        (reply("Internal Error"), 1, ""),
        (reply("what?", status="400 Bad Request"), 1, "the cleanup of 'ldap' was refused: "),
    ],
)
def test_groups_are_added_only_after_an_accepted_cleanup(
    tmp_path: Path, reply_bytes: bytes, requests: int, error: str
) -> None:
    groups = whole(tmp_path / "groups.xml", b"<xmlgroups/>", **GROUPS, feedtype="cleanup")
    response, listener = send_to(saying(reply_bytes), groups)
    forms = [{"cleanup": "ldap"}, {"groupsource": "ldap", "feedtype": "incremental"}]

    assert list(map(fields_of, listener.heard)) == forms[:requests]
    assert response.error.startswith(error)
    assert response.is_permanent is bool(error)


@pytest.mark.parametrize(
    ("reply_bytes", "expected"),
    [
        (b"", "connection closed before the response; expected HTTP on this port: is it one for h"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "the response is not HTTP: "),
    ],
)
def test_a_port_that_speaks_tls_has_no_connection(reply_bytes: bytes, expected: str) -> None:
    with (
        listening(torn(reply_bytes)) as listener,
        ApplianceClient(replace(GSA, url=listener.url)) as client,
    ):
        response = client.backlog()
    assert f"{listener.url}/getbacklogcount: {expected}" in response.error
    assert (response.is_unsent, response.is_permanent) == (True, False)
