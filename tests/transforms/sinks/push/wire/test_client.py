"""Requests over real sockets, and what comes back or instead."""

import gzip
import re
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from schemas.errors import ConfigError
from support.appliance_sockets import (
    BOUND_SECONDS,
    LARGE,
    Listener,
    Talk,
    certificate,
    chunk,
    deaf,
    dripping,
    hasty,
    listening,
    reply,
    saying,
    silent,
    torn,
    whole,
)
from support.ports import kept_port
from support.served import wait_until
from transforms.sinks.push.model import Appliance, ApplianceProtocol, ApplianceResponse, ChunkPart
from transforms.sinks.push.wire.client import ApplianceClient, check

pytestmark = pytest.mark.slow

FEED = b"<gsafeed/>"
SUCCESS = reply("Success")
CHUNKED_REPLY = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
GROUPS = {"format": "gsa-groups", "datasource": "ldap"}
DATA = {"format": "thunderstone", "datasource": None, "feedtype": None}
NOBODY = "http://127.0.0.1:9"
FEEDERGATE = Appliance(protocol=ApplianceProtocol.FEEDERGATE, url="http://gsa.example.com:19900")
RECVDATA = Appliance(
    protocol=ApplianceProtocol.RECVDATA, url="http://search/recvdata.xml", profile="intranet"
)


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
    """A port on which nobody listens, and nobody will."""
    with kept_port() as port:
        yield port


def appliance(listener: Listener, **fields: object) -> Appliance:
    stated: dict[str, object] = {"protocol": ApplianceProtocol.FEEDERGATE, "url": listener.url}
    return Appliance(**{**stated, **fields})  # type: ignore[arg-type]  # the fields of Appliance


def send(part: ChunkPart, to: Appliance, feedtype: str | None = None) -> ApplianceResponse:
    with ApplianceClient(to) as wire:
        return wire.send(part, feedtype=feedtype)


def request_bytes(part: ChunkPart, to: Appliance) -> int:
    with ApplianceClient(to) as wire:
        return wire.request_bytes(part)


def fault(answer: ApplianceResponse) -> str:
    """What came instead of an answer, without the port, which differs."""
    assert answer.status is None
    return re.sub(r"127\.0\.0\.1:\d+", "HOST", answer.fault)


def names(body: bytes) -> list[bytes]:
    return re.findall(rb'name="(.*?)"', body)


def refusal(**fields: object) -> str:
    with pytest.raises(ConfigError) as caught:
        check(chunk(FEED, **fields), FEEDERGATE)
    return str(caught.value)


# What is sent.


def test_a_feed_is_posted_to_xmlfeed(feed: ChunkPart) -> None:
    with listening(saying(SUCCESS)) as listener:
        send(feed, appliance(listener))
    assert listener.heard[0].startswith(b"POST /xmlfeed HTTP/1.1\r\n")


def test_a_feed_has_datasource_feedtype_and_data(feed: ChunkPart) -> None:
    with listening(saying(SUCCESS)) as listener:
        send(feed, appliance(listener))
    assert names(listener.body()) == [b"datasource", b"feedtype", b"data"]


def test_the_feedtype_that_is_asked_for_is_sent(feed: ChunkPart) -> None:
    with listening(saying(SUCCESS)) as listener:
        send(feed, appliance(listener), "full")
    assert b'name="feedtype"\r\nContent-Type: text/plain\r\n\r\nfull\r\n' in listener.body()


def test_the_feedtype_of_the_chunk_is_sent_if_none_is_asked_for(feed: ChunkPart) -> None:
    with listening(saying(SUCCESS)) as listener:
        send(feed, appliance(listener))
    assert b'name="feedtype"\r\nContent-Type: text/plain\r\n\r\nincremental\r\n' in listener.body()


def test_a_web_feed_without_a_feedtype_is_metadata_and_url(tmp_path: Path) -> None:
    part = whole(tmp_path / "feed.xml", FEED, datasource="web", feedtype=None)
    with listening(saying(SUCCESS)) as listener:
        send(part, appliance(listener))
    assert b"\r\n\r\nmetadata-and-url\r\n" in listener.body()


def test_nothing_is_chunked_or_compressed(feed: ChunkPart) -> None:
    with listening(saying(SUCCESS)) as listener:
        send(feed, appliance(listener))
    head = listener.heard[0].partition(b"\r\n\r\n")[0]
    names = [line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]]
    assert sorted(names) == [
        b"accept",
        b"accept-encoding",
        b"connection",
        b"content-length",
        b"content-type",
        b"host",
        b"user-agent",
    ]


def test_groups_are_posted_to_xmlgroups(tmp_path: Path) -> None:
    with listening(saying(SUCCESS)) as listener:
        send(whole(tmp_path / "groups.xml", FEED, **GROUPS), appliance(listener))
    assert listener.heard[0].startswith(b"POST /xmlgroups HTTP/1.1\r\n")


def test_groups_have_groupsource_feedtype_and_data(tmp_path: Path) -> None:
    with listening(saying(SUCCESS)) as listener:
        send(whole(tmp_path / "groups.xml", FEED, **GROUPS), appliance(listener))
    assert names(listener.body()) == [b"groupsource", b"feedtype", b"data"]


def test_groups_that_replace_name_their_source_so(tmp_path: Path) -> None:
    with listening(saying(SUCCESS)) as listener:
        send(whole(tmp_path / "groups.xml", FEED, **GROUPS), appliance(listener), "replace")
    assert names(listener.body()) == [b"replace", b"data"]


def test_a_cleanup_names_the_source_and_nothing_else() -> None:
    with listening(saying(SUCCESS)) as listener, ApplianceClient(appliance(listener)) as wire:
        wire.cleanup("ldap")
    assert re.fullmatch(
        rb'--(feedferry-[0-9a-f]{48})\r\nContent-Disposition: form-data; name="cleanup"\r\n'
        rb"Content-Type: text/plain\r\n\r\nldap\r\n--\1--\r\n",
        listener.body(),
    )


def test_a_cleanup_is_posted_to_xmlgroups() -> None:
    with listening(saying(SUCCESS)) as listener, ApplianceClient(appliance(listener)) as wire:
        wire.cleanup("ldap")
    assert listener.heard[0].startswith(b"POST /xmlgroups HTTP/1.1\r\n")


def test_dataload_is_posted_to_its_address_as_a_form(tmp_path: Path) -> None:
    part = whole(tmp_path / "data.xml", b"<a b='c'/>", **DATA)
    with listening(saying(SUCCESS)) as listener:
        to = appliance(listener, protocol=ApplianceProtocol.RECVDATA, profile="intra net")
        send(part, replace(to, url=listener.url + "/texis/dowalk/recvdata.xml"))
    head, _, body = listener.heard[0].partition(b"\r\n\r\n")
    assert (head.partition(b"\r\n")[0], body) == (
        b"POST /texis/dowalk/recvdata.xml HTTP/1.1",
        b"profile=intra+net&data=%3Ca+b%3D%27c%27%2F%3E",
    )


def test_the_backlog_is_asked_for() -> None:
    with listening(saying(reply("17"))) as listener, ApplianceClient(appliance(listener)) as wire:
        wire.backlog()
    assert listener.heard[0].startswith(b"GET /getbacklogcount HTTP/1.1\r\n")


def test_the_length_of_a_feed_is_known_beforehand(feed: ChunkPart) -> None:
    with listening(saying(SUCCESS)) as listener:
        send(feed, appliance(listener))
    assert request_bytes(feed, FEEDERGATE) == len(listener.body())


def test_the_length_of_dataload_is_known_beforehand(tmp_path: Path) -> None:
    part = whole(tmp_path / "data.xml", b"<a b='c'/>", **DATA)
    assert request_bytes(part, RECVDATA) == len(b"profile=intranet&data=%3Ca+b%3D%27c%27%2F%3E")


def test_proxies_of_the_environment_are_not_asked(
    feed: ChunkPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", NOBODY)
    monkeypatch.setenv("http_proxy", NOBODY)
    monkeypatch.setenv("ALL_PROXY", NOBODY)
    with listening(saying(SUCCESS)) as listener:
        assert send(feed, appliance(listener)).body == b"Success"


def test_a_proxy_that_is_named_is_asked(feed: ChunkPart) -> None:
    with listening(saying(SUCCESS)) as listener:
        send(feed, replace(FEEDERGATE, proxy=listener.url))
    first = b"POST http://gsa.example.com:19900/xmlfeed HTTP/1.1\r\n"
    assert listener.heard[0].startswith(first)


def test_no_cookie_is_kept(feed: ChunkPart) -> None:
    baked = reply("Success", headers="Set-Cookie: a=b\r\n")
    with listening(saying(baked)) as listener, ApplianceClient(appliance(listener)) as wire:
        wire.send(feed, feedtype=None)
        wire.send(feed, feedtype=None)
    assert b"ookie" not in listener.heard[1]


def test_a_kept_connection_that_was_closed_is_not_used(feed: ChunkPart) -> None:
    kept = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: keep-alive\r\n\r\nSuccess"
    with listening(saying(kept)) as listener, ApplianceClient(appliance(listener)) as wire:
        answers = [wire.send(feed, feedtype=None).body for _ in range(3)]
    assert answers == [b"Success"] * 3


def test_several_threads_may_send(feed: ChunkPart) -> None:
    with (
        listening(saying(SUCCESS)) as listener,
        ApplianceClient(appliance(listener)) as wire,
        ThreadPoolExecutor(4) as threads,
    ):
        sent = [threads.submit(wire.send, feed, feedtype=None) for _ in range(8)]
        assert [one.result().body for one in sent] == [b"Success"] * 8


# What comes back.


def test_an_answer_tells_what_came_and_how_much_went_out(feed: ChunkPart) -> None:
    ticks = iter([100.0, 103.5])
    with (
        listening(saying(reply("Success", headers="Retry-After: 120\r\n"))) as listener,
        ApplianceClient(appliance(listener), clock=lambda: next(ticks)) as wire,
    ):
        answer = wire.send(feed, feedtype=None)
    assert answer == ApplianceResponse(
        status=200,
        content_type="text/plain",
        body=b"Success",
        retry_after="120",
        sent_bytes=len(listener.body()),
        seconds=3.5,
        where=f"{listener.url}/xmlfeed",
    )


def test_a_redirect_is_told_and_not_followed(feed: ChunkPart) -> None:
    moved = reply("", status="302 Found", headers="Location: http://elsewhere/xmlfeed\r\n")
    with listening(saying(moved)) as listener:
        answer = send(feed, appliance(listener))
    found = (answer.status, answer.location, len(listener.heard))
    assert found == (302, "http://elsewhere/xmlfeed", 1)


def test_a_redirect_to_nonsense_is_told_all_the_same(feed: ChunkPart) -> None:
    moved = reply("", status="307 Temporary Redirect", headers="Location: http://[x\r\n")
    with listening(saying(moved)) as listener:
        assert send(feed, appliance(listener)).location == "http://[x"


def test_an_answer_without_a_length_ends_with_its_connection(feed: ChunkPart) -> None:
    with listening(saying(b"HTTP/1.0 200 OK\r\n\r\nSuccess")) as listener:
        assert send(feed, appliance(listener)).body == b"Success"


def test_an_endless_answer_is_cut_off(feed: ChunkPart) -> None:
    def talk_of(listener: Listener) -> Talk:
        def talk(connection: socket.socket) -> None:
            saying(b"HTTP/1.0 200 OK\r\n\r\n")(listener)(connection)
            while not listener.is_over.is_set():
                connection.sendall(b"x" * (1 << 20))

        return talk

    with listening(talk_of) as listener:
        assert len(send(feed, appliance(listener)).body) == 16 << 20


@pytest.mark.parametrize("round", range(3))
def test_an_answer_before_the_end_of_the_feed_is_heard(large_feed: ChunkPart, round: int) -> None:
    early = reply("too large", status="413 Request Entity Too Large")
    with listening(torn(early, read_bytes=1 << 16)) as listener:
        answer = send(large_feed, appliance(listener))
    assert (answer.status, answer.body, answer.is_unsent) == (413, b"too large", True)


def test_an_answer_that_is_torn_keeps_its_status_if_that_says_enough(feed: ChunkPart) -> None:
    with listening(torn(b"HTTP/1.0 500 X\r\nContent-Length: 99\r\n\r\nsome")) as listener:
        answer = send(feed, appliance(listener))
    assert (answer.status, answer.body, answer.fault) == (500, b"some", "")


# What comes instead.


def test_a_torn_acceptance_is_no_answer(feed: ChunkPart) -> None:
    with listening(torn(b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\nSucc")) as listener:
        answer = send(feed, appliance(listener))
    assert (
        fault(answer) == "http://HOST/xmlfeed: the connection was torn in the middle of the answer"
    )


def test_a_feed_whose_answer_was_torn_was_sent(feed: ChunkPart) -> None:
    with listening(torn(b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\nSucc")) as listener:
        assert not send(feed, appliance(listener)).is_unsent


def test_a_connection_that_ends_before_the_answer_is_told(feed: ChunkPart) -> None:
    with listening(torn()) as listener:
        answer = send(feed, appliance(listener))
    assert fault(answer) == "http://HOST/xmlfeed: the connection was torn before the answer"


def test_a_feed_without_an_answer_was_sent(feed: ChunkPart) -> None:
    with listening(torn()) as listener:
        assert not send(feed, appliance(listener)).is_unsent


def test_a_connection_that_ends_in_the_head_of_the_answer_is_told(feed: ChunkPart) -> None:
    with listening(torn(b"HTTP/1.0 200 OK\r\nContent-")) as listener:
        answer = send(feed, appliance(listener))
    assert fault(answer) == "http://HOST/xmlfeed: the connection was torn before the answer"


@pytest.mark.parametrize("read_bytes", [0, 100, 1 << 20])
def test_a_connection_that_ends_within_the_feed_is_told(
    large_feed: ChunkPart, read_bytes: int
) -> None:
    with listening(torn(read_bytes=read_bytes)) as listener:
        answer = send(large_feed, appliance(listener))
    assert re.fullmatch(
        r"http://HOST/xmlfeed: the connection was torn after \d+ of 25166324 bytes"
        r"( \((Connection reset by peer|Broken pipe)\))?",
        fault(answer),
    )


def test_a_feed_that_was_torn_was_not_sent(large_feed: ChunkPart) -> None:
    with listening(torn(read_bytes=1 << 20)) as listener:
        assert send(large_feed, appliance(listener)).is_unsent


def test_an_appliance_that_does_not_answer_is_given_up(feed: ChunkPart) -> None:
    with listening(silent) as listener:
        answer = send(feed, appliance(listener, reply_seconds=0.1))
    assert fault(answer) == (
        "http://HOST/xmlfeed: no answer within 0.1 s; expected one: give it more time if it is busy"
    )


def test_a_feed_that_was_given_up_was_sent(feed: ChunkPart) -> None:
    with listening(silent) as listener:
        assert not send(feed, appliance(listener, reply_seconds=0.1)).is_unsent


def test_an_answer_that_does_not_end_is_given_up(feed: ChunkPart) -> None:
    def talk_of(listener: Listener) -> Talk:
        def talk(connection: socket.socket) -> None:
            saying(b"HTTP/1.0 200 OK\r\n\r\nSucc")(listener)(connection)
            listener.is_over.wait(BOUND_SECONDS)

        return talk

    with listening(talk_of) as listener:
        answer = send(feed, appliance(listener, reply_seconds=1))  # its beginning comes in time
    assert fault(answer) == (
        "http://HOST/xmlfeed: the answer did not end within 1 s; "
        "expected one: give it more time if it is busy"
    )


@pytest.mark.parametrize(
    ("head", "drop", "found"),
    [
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n", "no answer"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x", "no answer"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x", "the answer did not end"),
        (CHUNKED_REPLY + b"5;", b"x", "the answer did not end"),
    ],
    ids=["informational", "head", "body", "chunk"],
)
def test_an_answer_that_drips_is_given_up(
    feed: ChunkPart, head: bytes, drop: bytes, found: str
) -> None:
    with listening(dripping(head, drop)) as listener:
        answer = send(feed, appliance(listener, reply_seconds=1))  # a whole head comes in time
    assert fault(answer) == (
        f"http://HOST/xmlfeed: {found} within 1 s; expected one: give it more time if it is busy"
    )


def test_an_answer_that_drips_in_tls_is_given_up(
    feed: ChunkPart, context: ssl.SSLContext, pair: tuple[Path, Path]
) -> None:
    with listening(dripping(b"", b"H"), context=context) as listener:
        url = f"https://127.0.0.1:{listener.port}"
        where = appliance(listener, url=url, ca_file=str(pair[0]), reply_seconds=0.2)
        answer = send(feed, where)
    assert fault(answer) == (
        "https://HOST/xmlfeed: no answer within 0.2 s; expected one: give it more time if it is"
        " busy"
    )


def test_a_failure_that_drips_on_is_told_by_its_status(feed: ChunkPart) -> None:
    with listening(dripping(b"HTTP/1.1 503 Busy\r\n\r\n", b"x")) as listener:
        answer = send(feed, appliance(listener, reply_seconds=1))
    assert (answer.status, answer.fault) == (503, "")


def test_an_appliance_that_takes_nothing_is_given_up(large_feed: ChunkPart) -> None:
    with listening(deaf) as listener:
        answer = send(large_feed, appliance(listener, write_seconds=0.1))
    assert re.fullmatch(
        r"http://HOST/xmlfeed: took no bytes for 0\.1 s, after \d+ of 25166324 bytes; "
        r"expected it to read on",
        fault(answer),
    )


def test_what_nothing_was_taken_of_was_not_sent(large_feed: ChunkPart) -> None:
    with listening(deaf) as listener:
        assert send(large_feed, appliance(listener, write_seconds=0.1)).is_unsent


def test_a_handshake_that_hangs_is_given_up(feed: ChunkPart) -> None:
    with listening(deaf) as listener:
        url = f"https://127.0.0.1:{listener.port}"
        answer = send(feed, appliance(listener, url=url, connect_seconds=0.1))
    assert fault(answer) == (
        "https://HOST/xmlfeed: no connection within 0.1 s; "
        "a feedergate listens on 19900, with TLS on 19902: check host, port and firewalls"
    )


def test_a_port_on_which_nobody_listens_is_told(feed: ChunkPart, closed_port: int) -> None:
    answer = send(feed, replace(FEEDERGATE, url=f"http://127.0.0.1:{closed_port}"))
    assert fault(answer) == (
        "http://HOST/xmlfeed: connection refused; a feedergate listens on 19900, with TLS on 19902"
    )


def test_what_was_refused_a_connection_was_not_sent(feed: ChunkPart, closed_port: int) -> None:
    answer = send(feed, replace(FEEDERGATE, url=f"http://127.0.0.1:{closed_port}"))
    assert (answer.is_unsent, answer.is_final, answer.sent_bytes) == (True, False, 0)


def test_a_web_server_that_does_not_listen_is_told(tmp_path: Path, closed_port: int) -> None:
    part = whole(tmp_path / "data.xml", FEED, **DATA)
    url = f"http://127.0.0.1:{closed_port}/recvdata.xml"
    assert fault(send(part, replace(RECVDATA, url=url))) == (
        "http://HOST/recvdata.xml: connection refused; expected the appliance's web server there"
    )


def test_a_name_that_is_not_known_is_told(feed: ChunkPart, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert send(feed, FEEDERGATE).fault == (
        "http://gsa.example.com:19900/xmlfeed: no address for 'gsa.example.com' "
        "(Name or service not known); expected a name that this machine can look up"
    )


def test_a_host_without_a_route_is_told(feed: ChunkPart, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object, **__: object) -> None:
        raise OSError(113, "No route to host")

    monkeypatch.setattr(socket, "create_connection", connect)
    assert send(feed, FEEDERGATE).fault == (
        "http://gsa.example.com:19900/xmlfeed: no connection (No route to host); "
        "a feedergate listens on 19900, with TLS on 19902"
    )


def test_a_proxy_that_does_not_listen_is_told(feed: ChunkPart, closed_port: int) -> None:
    to = replace(FEEDERGATE, proxy=f"http://127.0.0.1:{closed_port}")
    assert fault(send(feed, to)) == (
        "http://gsa.example.com:19900/xmlfeed: connection refused; "
        "expected the proxy http://HOST to lead there"
    )


def test_a_proxy_that_refuses_is_told(feed: ChunkPart) -> None:
    shut = reply("", status="407 Proxy Authentication Required")
    with listening(saying(shut)) as listener:
        to = replace(FEEDERGATE, url="https://gsa.example.com:19902", proxy=listener.url)
        answer = send(feed, to)
    assert fault(answer) == (
        "https://gsa.example.com:19902/xmlfeed: the proxy http://HOST said "
        "'407 Proxy Authentication Required'; "
        "expected a way through: check --proxy, or leave it out"
    )


def test_a_proxy_that_asks_for_a_user_will_ask_again(feed: ChunkPart) -> None:
    shut = reply("", status="407 Proxy Authentication Required")
    with listening(saying(shut)) as listener:
        to = replace(FEEDERGATE, url="https://gsa.example.com:19902", proxy=listener.url)
        assert send(feed, to).is_final


def test_what_is_not_http_is_shown(feed: ChunkPart) -> None:
    with listening(torn(b"220 mail.example.com ESMTP\r\n\r\n")) as listener:
        answer = send(feed, appliance(listener))
    assert fault(answer) == (
        "http://HOST/xmlfeed: what came is not HTTP: "
        "\"illegal status line: bytearray(b'220 mail.example.com ESMTP')\"; "
        "a feedergate listens on 19900, with TLS on 19902"
    )


def test_what_cannot_be_decoded_is_shown(feed: ChunkPart) -> None:
    packed = reply("Success", headers="Content-Encoding: gzip\r\n")
    with listening(saying(packed)) as listener:
        answer = send(feed, appliance(listener))
    assert fault(answer) == (
        "http://HOST/xmlfeed: what came is not HTTP: "
        "'Error -3 while decompressing data: incorrect header check'; "
        "a feedergate listens on 19900, with TLS on 19902"
    )


def test_a_file_that_has_changed_is_never_sent_to_its_end(tmp_path: Path) -> None:
    part = whole(tmp_path / "feed.xml", b"before")
    part.path.write_bytes(b"behind")
    with listening(saying(SUCCESS)) as listener:
        send(part, appliance(listener))
        wait_until(lambda: bool(listener.heard))  # the client may have left before it is accepted
    assert b"behind" not in listener.body()


def test_a_file_that_has_changed_is_told(tmp_path: Path) -> None:
    part = whole(tmp_path / "feed.xml", b"before")
    part.path.write_bytes(b"behind")
    with listening(saying(SUCCESS)) as listener:
        answer = send(part, appliance(listener))
    begin = f"{tmp_path}/feed.xml: changed on disk: a SHA-256 of "
    assert (answer.fault.startswith(begin), answer.is_unsent, answer.is_final) == (True, True, True)


def test_a_file_that_is_gone_is_told_before_dataload_is_sent(tmp_path: Path) -> None:
    part = whole(tmp_path / "data.xml", FEED, **DATA)
    part.path.unlink()
    assert send(part, RECVDATA) == ApplianceResponse(
        fault=f"{tmp_path}/data.xml: No such file or directory; expected a chunk that can be read",
        is_unsent=True,
        is_final=True,
    )


# TLS.


def test_a_certificate_of_a_named_authority_is_trusted(
    feed: ChunkPart, pair: tuple[Path, Path], context: ssl.SSLContext
) -> None:
    with listening(saying(SUCCESS), context=context) as listener:
        url = f"https://127.0.0.1:{listener.port}"
        answer = send(feed, appliance(listener, url=url, ca_file=str(pair[0])))
    assert answer.body == b"Success"


def test_a_certificate_of_nobody_is_not_trusted(feed: ChunkPart, context: ssl.SSLContext) -> None:
    with listening(saying(SUCCESS), context=context) as listener:
        answer = send(feed, appliance(listener, url=f"https://127.0.0.1:{listener.port}"))
    assert fault(answer) == (
        "https://HOST/xmlfeed: its certificate is not trusted (self-signed certificate); "
        "expected one that the system knows: name the authority's by --ca-file"
    )


def test_a_certificate_that_is_not_trusted_will_not_be_later(
    feed: ChunkPart, context: ssl.SSLContext
) -> None:
    with listening(saying(SUCCESS), context=context) as listener:
        answer = send(feed, appliance(listener, url=f"https://127.0.0.1:{listener.port}"))
    assert (answer.is_final, answer.is_unsent) == (True, True)


def test_a_certificate_of_another_host_is_not_trusted(
    feed: ChunkPart, pair: tuple[Path, Path], context: ssl.SSLContext
) -> None:
    with listening(saying(SUCCESS), context=context) as listener:
        url = f"https://localhost:{listener.port}"
        answer = send(feed, appliance(listener, url=url, ca_file=str(pair[0])))
    assert answer.fault == (
        f"{url}/xmlfeed: its certificate is not trusted (Hostname mismatch, certificate is not "
        "valid for 'localhost'.); expected one that the system knows: name the authority's by "
        "--ca-file"
    )


def test_a_port_without_tls_is_told(feed: ChunkPart) -> None:
    with listening(torn(b"HTTP/1.0 400 Bad Request\r\n\r\n", read_bytes=1)) as listener:
        answer = send(feed, appliance(listener, url=f"https://127.0.0.1:{listener.port}"))
    assert fault(answer) == (
        "https://HOST/xmlfeed: TLS: wrong version number; expected TLS at this port: "
        "is it one for http://?"
    )


def test_a_handshake_that_is_broken_off_may_do_better_later(
    feed: ChunkPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object, **__: object) -> None:
        raise ssl.SSLEOFError(8, "EOF occurred in violation of protocol")

    monkeypatch.setattr(socket, "create_connection", connect)
    answer = send(feed, FEEDERGATE)
    assert (answer.fault, answer.is_final) == (
        "http://gsa.example.com:19900/xmlfeed: TLS: handshake broken off; "
        "expected TLS at this port: is it one for http://?",
        False,
    )


def test_an_early_answer_is_heard_through_tls_if_the_feed_is_read_on(
    large_feed: ChunkPart, pair: tuple[Path, Path], context: ssl.SSLContext
) -> None:
    early = reply("too large", status="413 Request Entity Too Large")
    with listening(hasty(early), context=context) as listener:
        url = f"https://127.0.0.1:{listener.port}"
        answer = send(large_feed, appliance(listener, url=url, ca_file=str(pair[0])))
    assert (answer.status, answer.body, answer.is_unsent) == (413, b"too large", False)


def test_a_feed_that_was_torn_within_tls_was_not_sent(
    large_feed: ChunkPart, pair: tuple[Path, Path], context: ssl.SSLContext
) -> None:
    with listening(torn(read_bytes=1 << 10), context=context) as listener:
        url = f"https://127.0.0.1:{listener.port}"
        answer = send(large_feed, appliance(listener, url=url, ca_file=str(pair[0])))
    assert (answer.status, answer.is_unsent, answer.is_final) == (None, True, False)


# What is refused before anything is sent.


@pytest.mark.parametrize("feedtype", ["full", "incremental", "metadata-and-url"])
def test_a_feed_may_have_any_feedtype(feedtype: str) -> None:
    check(chunk(FEED, feedtype=feedtype), FEEDERGATE)


@pytest.mark.parametrize("feedtype", ["full", "incremental", "replace"])
def test_groups_have_feedtypes_of_their_own(feedtype: str) -> None:
    check(chunk(FEED, **GROUPS, feedtype=feedtype), FEEDERGATE)


@pytest.mark.parametrize("feedtype", [None, "incremental", "metadata-and-url"])
def test_a_web_feed_adds_to_what_is_there(feedtype: str | None) -> None:
    check(chunk(FEED, datasource="web", feedtype=feedtype), FEEDERGATE)


def test_a_datasource_may_have_250_letters() -> None:
    check(chunk(FEED, datasource="a" * 250), FEEDERGATE)


def test_a_file_whose_format_is_not_stated_is_a_feed() -> None:
    check(chunk(FEED, format=None), FEEDERGATE)


def test_dataload_needs_no_names() -> None:
    check(chunk(FEED, **DATA), RECVDATA)


def test_dataload_is_not_for_a_feedergate() -> None:
    assert refusal(**DATA) == (
        "chunks/00000-000.xml: thunderstone; "
        "expected gsa-feed or gsa-groups for http://gsa.example.com:19900"
    )


def test_a_feed_is_not_for_dataload() -> None:
    with pytest.raises(ConfigError) as caught:
        check(chunk(FEED), RECVDATA)
    assert str(caught.value) == (
        "chunks/00000-000.xml: gsa-feed; expected thunderstone for http://search/recvdata.xml"
    )


def test_a_datasource_has_few_characters() -> None:
    assert refusal(datasource="my feed") == (
        "chunks/00000-000.xml: datasource 'my feed'; "
        "expected a letter or _, then letters, digits, _ and -"
    )


def test_a_groupsource_has_few_characters() -> None:
    assert refusal(format="gsa-groups", datasource="1") == (
        "chunks/00000-000.xml: groupsource '1'; "
        "expected a letter or _, then letters, digits, _ and -"
    )


def test_a_datasource_is_not_long() -> None:
    assert refusal(datasource="a" * 251) == (
        "chunks/00000-000.xml: datasource 'aaaaaaaaaaaaaaaaaaaa'… has 251 letters; "
        "expected 250 at most"
    )


def test_a_feed_has_a_datasource() -> None:
    assert refusal(datasource=None) == (
        "chunks/00000-000.xml: no datasource; expected a name, such as by --datasource"
    )


def test_a_feed_has_a_feedtype() -> None:
    assert refusal(feedtype=None) == (
        "chunks/00000-000.xml: no feedtype; expected full or incremental or metadata-and-url"
    )


def test_groups_are_not_metadata() -> None:
    assert refusal(**GROUPS, feedtype="metadata-and-url") == (
        "chunks/00000-000.xml: feedtype='metadata-and-url'; expected full or incremental or replace"
        " or cleanup"
    )


def test_a_web_feed_is_never_full() -> None:
    assert refusal(datasource="web", feedtype="full") == (
        "chunks/00000-000.xml: feedtype='full'; "
        "expected metadata-and-url or incremental for the datasource web"
    )


def test_a_refused_chunk_is_not_sent(tmp_path: Path) -> None:
    part = whole(tmp_path / "feed.xml", FEED, datasource="a\r\nb")
    with listening(saying(SUCCESS)) as listener:
        with pytest.raises(ConfigError):
            send(part, appliance(listener))
        assert listener.heard == []


def test_a_cleanup_needs_a_name() -> None:
    with ApplianceClient(FEEDERGATE) as wire, pytest.raises(ConfigError) as caught:
        wire.cleanup("a b")
    assert str(caught.value) == (
        "cleanup: groupsource 'a b'; expected a letter or _, then letters, digits, _ and -"
    )


def test_an_appliance_that_cannot_be_reached_took_nothing() -> None:
    with ApplianceClient(
        Appliance(protocol=ApplianceProtocol.FEEDERGATE, url="http://127.0.0.1:1")
    ) as wire:
        assert wire.backlog().is_unsent


# Compressed requests.


def unzipped(request: bytes) -> bytes:
    """The body of a request, after its length was compared with the one that is announced."""
    head, _, body = request.partition(b"\r\n\r\n")
    assert b"\r\nContent-Encoding: gzip\r\n" in head + b"\r\n"
    assert f"\r\nContent-Length: {len(body)}\r\n".encode() in head + b"\r\n"
    return gzip.decompress(body)


def test_a_small_request_is_compressed_when_that_is_asked_for(feed: ChunkPart) -> None:
    with listening(saying(SUCCESS)) as listener:
        send(feed, appliance(listener))
    with listening(saying(SUCCESS)) as compressing:
        send(feed, appliance(compressing, gzip=True))
    assert unzipped(compressing.heard[0]) == listener.body()


def test_nothing_is_compressed_unless_that_is_asked_for(feed: ChunkPart) -> None:
    with listening(saying(SUCCESS)) as listener:
        send(feed, appliance(listener))
    assert b"Content-Encoding" not in listener.heard[0]


def test_the_same_request_is_compressed_to_the_same_bytes(feed: ChunkPart) -> None:
    with listening(saying(SUCCESS, SUCCESS)) as listener:
        send(feed, appliance(listener, gzip=True))
        send(feed, appliance(listener, gzip=True))
    first, second = listener.heard
    assert first == second


def test_a_request_of_a_mebibyte_is_not_compressed(large_feed: ChunkPart) -> None:
    with listening(saying(SUCCESS)) as listener:
        send(large_feed, appliance(listener, gzip=True))
    assert large_feed.size >= 1 << 20
    assert b"Content-Encoding" not in listener.heard[0]
    assert f"Content-Length: {len(listener.body())}\r\n".encode() in listener.heard[0]


def test_the_bytes_that_were_sent_are_those_on_the_wire(tmp_path: Path) -> None:
    part = whole(tmp_path / "feed.xml", b"<gsafeed>" + b" " * 100_000 + b"</gsafeed>")
    with listening(saying(SUCCESS)) as listener:
        answer = send(part, appliance(listener, gzip=True))
    assert answer.sent_bytes == len(listener.body()) < 2000


def test_nothing_of_a_changed_file_is_sent_compressed(feed: ChunkPart) -> None:
    feed.path.write_bytes(b"<changed/>")
    with listening(saying(SUCCESS)) as listener:
        answer = send(feed, appliance(listener, gzip=True))
    assert listener.heard == []
    assert (answer.is_unsent, answer.is_final) == (True, True)
    assert "changed on disk" in answer.fault


# Groups that take the place of others.


def test_a_cleanup_goes_before_the_groups_which_are_then_added(tmp_path: Path) -> None:
    groups = whole(tmp_path / "groups.xml", b"<xmlgroups/>", **GROUPS, feedtype="cleanup")
    with listening(saying(SUCCESS, SUCCESS)) as listener:
        answer = send(groups, appliance(listener))
    first, second = listener.heard
    assert names(first) == [b"cleanup"]
    assert b"\r\n\r\nldap\r\n" in first
    assert names(second) == [b"groupsource", b"feedtype", b"data"]
    assert b"\r\n\r\nincremental\r\n" in second
    assert answer.body == b"Success"


def test_no_groups_follow_a_cleanup_that_is_not_accepted(tmp_path: Path) -> None:
    groups = whole(tmp_path / "groups.xml", b"<xmlgroups/>", **GROUPS, feedtype="cleanup")
    with listening(saying(reply("Internal Error"))) as listener:
        answer = send(groups, appliance(listener))
    assert len(listener.heard) == 1
    assert answer.body == b"Internal Error"


def test_a_cleanup_that_is_refused_is_the_fault_of_no_record(tmp_path: Path) -> None:
    groups = whole(tmp_path / "groups.xml", b"<xmlgroups/>", **GROUPS, feedtype="cleanup")
    with listening(saying(reply("what?", status="400 Bad Request"))) as listener:
        answer = send(groups, appliance(listener))
    assert len(listener.heard) == 1
    assert answer.is_final
    assert fault(answer).startswith("the cleanup of 'ldap' was refused: ")
