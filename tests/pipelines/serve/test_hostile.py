"""What no client should send: the receiver lives, serves the next one, and its spool is clean."""

import gzip
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feedferry.pipelines.serve.receiver import Receiver
from support.receivers import deliveries, kept, receiving
from support.served import wait_until
from support.talk import PATIENCE_SECONDS, Heard, Talk, get, post, say

pytestmark = pytest.mark.slow

FEED = b"<gsafeed/>"
PAIRS = b"datasource=s&feedtype=full&data=%3Cgsafeed%2F%3E"
GOOD = post("/xmlfeed", PAIRS, kind="application/x-www-form-urlencoded")
KIND = "multipart/form-data; boundary=<<"
PARTS = (
    b'--<<\r\nContent-Disposition: form-data; name="datasource"\r\n\r\ns\r\n'
    b'--<<\r\nContent-Disposition: form-data; name="feedtype"\r\n\r\nfull\r\n'
    b'--<<\r\nContent-Disposition: form-data; name="data"\r\n\r\n<gsafeed/>\r\n'
    b"--<<--\r\n"
)
CHUNKED = b"POST /xmlfeed HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Receiver, Path]]:
    """A receiver that is to survive all that is sent to it, one behind the other, and its spool."""
    spool = tmp_path_factory.mktemp("shared")
    with receiving(spool) as receiver:
        yield receiver, spool


def files(spool: Path) -> list[str]:
    """What stands in a spool, but for its lock and its indexes."""
    paths = (path.relative_to(spool).as_posix() for path in spool.rglob("*") if path.is_file())
    made = ("lock", "index", "cluster")
    return sorted(path for path in paths if not path.startswith(made))


def answer(port: int, raw: bytes) -> bytes:
    """Return all that is heard until the other side closes."""
    with Talk(port) as talk:
        with suppress(ConnectionError):
            talk.send(raw)
            talk.socket.shutdown(socket.SHUT_WR)
        heard = b""
        with suppress(ConnectionError):
            while block := talk.socket.recv(65536):
                heard += block
        return heard


def send_to_all(talks: Iterable[Talk], raw: bytes) -> None:
    for talk in talks:
        talk.send(raw)


def last_words(talk: Talk) -> bytes:
    """Return what a client hears, which then leaves."""
    with talk:
        return talk.hear().body


def serves(receiver: Receiver, spool: Path) -> bool:
    """Whether the next good client is served, and nothing of those before is left."""
    before = len(deliveries(spool))
    is_answered = say(receiver.port, GOOD).body == b"Success"
    is_one_more = len(deliveries(spool)) == before + 1
    return is_answered and is_one_more and list((spool / "incoming").iterdir()) == []


BAD_LENGTHS = (
    *(b"-1\r\n\r\n", b"+5\r\n\r\nabcde", b"0x5\r\n\r\nabcde", b"1_0\r\n\r\nabcdeabcde"),
    *(b"9" * 5000 + b"\r\n\r\n", b"5, 6\r\n\r\nabcde"),
)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\r\n\r\n",
        b"\0" * 5000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xff" * 500,
        b"A" * 20_000,
        b"POST",
        b"POST /xmlfeed",
        b"POST /xmlfeed HTTP/1.1\r\n",
        *(
            b"POST /xmlfeed HTTP/1.1\r\nHost" + text
            for text in (
                *(b": h\r\nHost: g\r\n\r\n", b" : h\r\n\r\n", b": h\r\nX: \0\r\n\r\n"),
                *(b": h\r\nContent-Length: " + length for length in BAD_LENGTHS),
            )
        ),
        b"POST /xmlfeed HTTP/9.9\r\nHost: h\r\n\r\n",
        b"POST /xmlfeed HTTP/1.1\r\n Host: h\r\n\r\n",
        b"CONNECT /xmlfeed HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /xmlfeed HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        CHUNKED + b"-1\r\n",
        CHUNKED + b"f" * 30 + b"\r\n",
        CHUNKED + b"5\r\nabcdeXX0\r\n\r\n",
        CHUNKED + b"5;" + b"x" * 20_000,
        CHUNKED + b"0\r\n" + b"x: y\r\n" * 5000,
        CHUNKED + b"ffffffffffffffff\r\nabc",
    ],
)
def test_garbage_is_refused_and_forgotten(raw: bytes, shared: tuple[Receiver, Path]) -> None:
    receiver, spool = shared
    assert b"Success" not in answer(receiver.port, raw)
    assert serves(receiver, spool)


@pytest.mark.parametrize("length", [1, 60, 150, len(GOOD) - 1])
def test_a_request_that_ends_too_early_is_forgotten(
    length: int, shared: tuple[Receiver, Path]
) -> None:
    receiver, spool = shared
    assert b"Success" not in answer(receiver.port, GOOD[:length])
    assert serves(receiver, spool)


def test_a_length_that_is_too_large_is_waited_for_and_given_up(tmp_path: Path) -> None:
    raw = GOOD.replace(b"Length: 48", b"Length: 49")
    with receiving(tmp_path, grace_seconds=0.2) as receiver:
        assert say(receiver.port, raw).status == 408
        assert serves(receiver, tmp_path)


@pytest.mark.parametrize(
    "encoding",
    [
        *("chunked, chunked", "identity, chunked", "xchunked", "\x0bchunked"),
        "chunked\r\nContent-Length: 4",
    ],
)
def test_a_request_after_an_ambiguous_length_is_not_served(
    encoding: str, shared: tuple[Receiver, Path]
) -> None:
    receiver, spool = shared
    head = CHUNKED.replace(b"chunked", encoding.encode())
    heard = answer(receiver.port, head + b"0\r\n\r\n" + GOOD)
    assert (heard[:10], heard.count(b"Server: ")) in {(b"HTTP/1.1 5", 1), (b"HTTP/1.1 4", 1)}
    assert serves(receiver, spool)


@pytest.mark.parametrize(
    "name",
    [
        *("../../etc/passwd", "/etc/passwd", "..\\..\\x", "a/b", "a\0b", ".", "", "-rf", "a b"),
        *("a\r\nX-Header: y", "%2e%2e", "ä", "a" * 251),
    ],
)
def test_no_name_from_outside_names_a_file(name: str, tmp_path: Path) -> None:
    parts = PARTS.replace(b"\r\n\r\ns\r\n", b"\r\n\r\n" + name.encode() + b"\r\n")
    parts = parts.replace(b'name="data"', b'name="data"; filename="../../../evil.xml"')
    with receiving(tmp_path / "spool") as receiver:
        heard = say(receiver.port, post("/xmlfeed", parts, kind=KIND))
        assert (heard.status, heard.body[:11]) == (400, b"datasource:")
    assert files(tmp_path / "spool") == ["deliveries.jsonl"]
    assert [path.name for path in tmp_path.iterdir()] == ["spool"]


def test_no_profile_names_a_file(tmp_path: Path) -> None:
    body = (
        b"profile=../../evil%00&data=%3CThunderstoneReplication%3E%3CItem%3E%3CType%3EUI"
        b"%3C/Type%3E%3C/Item%3E%3C/ThunderstoneReplication%3E"
    )
    with receiving(tmp_path / "spool") as receiver:
        assert b"<Status>OK<" in say(receiver.port, post("/../../x/recvdata.xml", body)).body
    assert files(tmp_path / "spool") == ["deliveries.jsonl", "feeds/000000000/000000000001.xml"]
    assert deliveries(tmp_path / "spool")[0].profile == "../../evil\0"


def test_no_header_breaks_a_line_of_the_journal(tmp_path: Path) -> None:
    agent = 'User-Agent: {"ordinal":7}\xff\x80 \t' + "x" * 5000 + "\r\n"
    with receiving(tmp_path) as receiver:
        say(receiver.port, post("/xmlfeed", PARTS, kind=KIND, headers=agent))
        assert say(receiver.port, GOOD).body == b"Success"
    assert [delivery.ordinal for delivery in deliveries(tmp_path)] == [1, 2]
    assert len(deliveries(tmp_path)[0].user_agent) == 200


def test_a_bomb_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    bomb = gzip.compress(PARTS.replace(FEED, bytes(8 << 20)))
    raw = post("/xmlfeed", bomb, kind=KIND, headers="Content-Encoding: gzip\r\n")
    with receiving(tmp_path, max_request_bytes=1 << 20) as receiver:
        assert say(receiver.port, raw).status == 413
        assert serves(receiver, tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        PARTS.partition(b"--<<--")[0] * 8,
        b"--<<\r\n" + b"X: y\r\n" * 100 + PARTS,
        b"--<<\r\n" + b"X" * 10_000 + PARTS,
        PARTS.replace(b"data", b"x" * 5000),
        b"--<<\r\nContent-Disposition: form-data" + b'; a="' * 1000 + b"\r\n\r\n",
        *(b"--<<" * 5000, b"\r\n" * 50_000, b"&" * 100_000, b"a" * 100_000, b"%" * 100_000),
        b"datasource=" + b"%41" * 5000,
    ],
)
def test_a_form_that_is_none_is_refused(body: bytes, shared: tuple[Receiver, Path]) -> None:
    receiver, spool = shared
    assert say(receiver.port, post("/xmlfeed", body, kind=KIND)).status == 400
    assert say(receiver.port, post("/xmlfeed", body)).status == 400
    assert serves(receiver, spool)


def test_clients_that_drip_their_heads_do_not_keep_the_others_out(tmp_path: Path) -> None:
    with receiving(tmp_path, max_connections=2, head_seconds=1) as receiver, ExitStack() as opened:
        slow = [opened.enter_context(Talk(receiver.port)) for _ in range(4)]
        send_to_all(slow, b"POST /xmlfeed HTTP/1.1\r\nX: y\r\n")
        assert say(receiver.port, GOOD).body == b"Success"
        assert [talk.hear().status for talk in slow[2:]] == [408, 408]


def test_a_client_that_drips_its_body_does_not_keep_the_others_out(tmp_path: Path) -> None:
    bounds = {"max_connections": 1, "grace_seconds": 0.2, "min_rate": 1 << 20}
    with receiving(tmp_path, **bounds) as receiver, Talk(receiver.port) as slow:
        slow.send(GOOD[:-5])
        assert say(receiver.port, GOOD).body == b"Success"
        assert slow.hear().status == 408
    assert len(deliveries(tmp_path)) == 1


def test_a_flood_of_connections_is_served_one_by_one(tmp_path: Path) -> None:
    with receiving(tmp_path, max_connections=3) as receiver, ExitStack() as opened:
        talks = [opened.enter_context(Talk(receiver.port)) for _ in range(60)]
        raw = GOOD.replace(b"Host: h\r\n", b"Host: h\r\nConnection: close\r\n")
        send_to_all(talks, raw)
        assert set(map(last_words, talks)) == {b"Success"}
    assert len(deliveries(tmp_path)) == 60


def test_a_client_that_does_not_read_its_answers_is_let_go(tmp_path: Path) -> None:
    with receiving(tmp_path, idle_seconds=0.2, max_connections=1) as receiver:
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.connect(("127.0.0.1", receiver.port))
        deaf.settimeout(PATIENCE_SECONDS)
        with suppress(OSError), deaf:
            deaf.sendall(get("/getdtd") * 20_000)
        assert say(receiver.port, GOOD).body == b"Success"


def test_a_client_that_resets_its_connection_leaves_nothing(tmp_path: Path) -> None:
    reset_at_once = b"\1\0\0\0\0\0\0\0"
    with receiving(tmp_path) as receiver:
        with Talk(receiver.port) as talk:
            talk.send(post("/xmlfeed", PARTS, kind=KIND)[:-20])
            wait_until(lambda: any((tmp_path / "incoming").iterdir()))
            talk.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset_at_once)
        wait_until(lambda: not any((tmp_path / "incoming").iterdir()))
        assert serves(receiver, tmp_path)


def heard_of(port: int, raw: bytes) -> list[Heard]:
    """Return the replies to what may be several requests, or none."""
    with Talk(port) as talk:
        replies = []
        with suppress(ConnectionError, TimeoutError):
            talk.send(raw)
            talk.socket.shutdown(socket.SHUT_WR)
            while True:
                replies.append(talk.hear())
        return replies


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from([b"POST ", b"GET ", b"/xmlfeed", b"/", b" HTTP/1.1\r\n", b"\r\n", b":"])
        | st.sampled_from([b"Host: h\r\n", b"Content-Length: 5\r\n", b"a=b&", b"5\r\nabcde\r\n"])
        | st.sampled_from([b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n"])
        | st.sampled_from([b"0\r\n\r\n", b"\0", b"\xff"])
    ).map(b"".join)
)
def test_no_bytes_bring_it_down(shared: tuple[Receiver, Path], raw: bytes) -> None:
    receiver, spool = shared
    statuses = {heard.status for heard in heard_of(receiver.port, raw)}
    assert statuses <= {200, 400, 404, 405, 408, 411, 413, 415, 431, 501, 505}
    assert list((spool / "incoming").iterdir()) == []


def test_the_good_ones_among_them_were_all_kept_as_they_came(shared: tuple[Receiver, Path]) -> None:
    _, spool = shared
    assert {(name, feed) for name, _, feed in kept(spool)} <= {("s", FEED)}
