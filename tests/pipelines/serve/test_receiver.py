import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from feedferry.pipelines.serve.gateway import Gateway
from feedferry.pipelines.serve.receiver import Receiver
from feedferry.pipelines.serve.rehearsal.delivery_table import SetAsideDelivery
from feedferry.pipelines.serve.settings import ServeSettings
from feedferry.pipelines.serve.spool_consumer import BacklogHistory
from feedferry.schemas.errors import ConfigError
from support.receivers import deliveries, kept, receiving, wait_until_idle
from support.served import wait_until
from support.talk import PATIENCE_SECONDS, Talk, get, is_reset, post, say

pytestmark = pytest.mark.slow

HEAD = b"<gsafeed><header><datasource>s</datasource><feedtype>full</feedtype></header><group>"
TAIL = b"</group></gsafeed>"
ITEM = b"<Item><Type>I</Type><Url>http://h/1</Url><Title>a</Title></Item>"
KIND = "multipart/form-data; boundary=<<"


def feed(*numbers: int) -> bytes:
    records = (
        b'<record url="http://h/%d" mimetype="text/plain"><content>a</content></record>' % number
        for number in numbers
    )
    return HEAD + b"".join(records) + TAIL


def part(name: bytes, value: bytes) -> bytes:
    return b'--<<\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (name, value)


def push(content: bytes, *, feedtype: bytes = b"full", headers: str = "") -> bytes:
    parts = (part(b"datasource", b"s"), part(b"feedtype", feedtype), part(b"data", content))
    return post("/xmlfeed", b"".join(parts) + b"--<<--\r\n", kind=KIND, headers=headers)


def urls(receiver: Receiver) -> list[str]:
    """The urls of the documents that are held, once all is digested."""
    wait_until_idle(receiver)
    held = json.loads(say(receiver.port, get("/documents"), method="GET").body)
    return [document["url"] for document in held["documents"]]


class TwelveWaiting(Gateway):
    """A gateway with a backlog."""

    def __init__(self) -> None:
        self.history = BacklogHistory(self.backlog)

    def backlog(self) -> int:
        return 12

    def set_aside(self) -> list[SetAsideDelivery]:
        return []


def scenario_file(path: Path, rules: str) -> str:
    path.write_text(rules)
    return str(path)


def test_restarted_receiver_keeps_its_documents(tmp_path: Path) -> None:
    with receiving(tmp_path) as receiver:
        say(receiver.port, push(feed(1)))
    with receiving(tmp_path) as receiver:
        say(receiver.port, push(feed(2), feedtype=b"incremental"))
        assert urls(receiver) == ["http://h/1", "http://h/2"]
    assert [delivery.ordinal for delivery in deliveries(tmp_path)] == [1, 2]


def test_several_clients_deliver_at_once(tmp_path: Path) -> None:
    def deliver(number: int) -> bytes:
        return say(receiver.port, push(feed(number), feedtype=b"incremental")).body

    with receiving(tmp_path) as receiver, ThreadPoolExecutor(8) as clients:
        assert set(clients.map(deliver, range(10, 50))) == {b"Success"}
        assert urls(receiver) == [f"http://h/{number}" for number in range(10, 50)]


def test_the_page_has_the_client_of_a_feed_and_the_scenario(tmp_path: Path) -> None:
    path = scenario_file(tmp_path / "late.yaml", "- {requests: 9, disk_full: true}")
    with receiving(tmp_path / "spool", scenario=path) as receiver:
        say(receiver.port, push(feed(1), headers="User-Agent: Java/1.8\r\n"))
        wait_until_idle(receiver)
        heard = say(receiver.port, get("/"), method="GET")
    assert heard.headers["content-type"] == "text/html; charset=utf-8"
    assert b"Java/1.8" in heard.body
    assert b"This receiver follows the scenario late.yaml." in heard.body


def test_the_backlog_is_that_of_the_gateway_and_the_page_has_a_notice(tmp_path: Path) -> None:
    settings = ServeSettings(spool=str(tmp_path), port=0, min_free_bytes=0)
    with Receiver(settings, gateway=TwelveWaiting()) as receiver:
        assert say(receiver.port, get("/getbacklogcount"), method="GET").body == b"12"
        page = say(receiver.port, get("/"), method="GET").body
    assert b"This receiver forwards: the backlog counts feeds that are not forwarded yet." in page


def test_index_of_another_spool_is_refused(tmp_path: Path) -> None:
    with receiving(tmp_path / "a") as receiver:
        say(receiver.port, push(feed(1)))
        wait_until_idle(receiver)
    (tmp_path / "b").mkdir()
    path = (tmp_path / "a" / "index.db").rename(tmp_path / "b" / "index.db")
    with pytest.raises(ConfigError) as caught:
        Receiver(ServeSettings(spool=str(tmp_path / "b"), port=0)).__enter__()
    assert str(caught.value) == (
        f"{path}: made from 1 deliveries, but deliveries.jsonl has 0: remove the file, and it is"
        " made again from the deliveries"
    )


def test_an_index_that_was_removed_is_made_again(tmp_path: Path) -> None:
    with receiving(tmp_path) as receiver:
        say(receiver.port, push(feed(1)))
    (tmp_path / "index.db").unlink()
    with receiving(tmp_path) as receiver:
        assert urls(receiver) == ["http://h/1"]


def test_a_scenario_is_played(tmp_path: Path) -> None:
    rules = "- {requests: 1, disk_full: true}\n- {requests: 2, reset: before-reply}\n"
    with receiving(
        tmp_path / "spool", scenario=scenario_file(tmp_path / "a.yaml", rules)
    ) as receiver:
        first = say(receiver.port, push(feed(1)))
        assert first.body.startswith(b"Feed not accepted due to insufficient disk space.")
        assert is_reset(receiver.port, push(feed(2)))
        assert say(receiver.port, push(feed(3), feedtype=b"incremental")).body == b"Success"
        assert urls(receiver) == ["http://h/2", "http://h/3"]


def test_a_delay_of_a_scenario_ends_when_the_receiver_does(tmp_path: Path) -> None:
    path = scenario_file(tmp_path / "slow.yaml", "- {delay: 2h}")
    with receiving(tmp_path / "spool", scenario=path) as receiver:
        talk = Talk(receiver.port)
        talk.send(push(feed(1)))
        wait_until(lambda: len(deliveries(tmp_path / "spool")) == 1)
    with talk:
        assert talk.hear().body == b"Success"


def test_a_receiver_that_cannot_listen_lets_go_of_its_spool(tmp_path: Path) -> None:
    with receiving(tmp_path / "a") as first:
        second = Receiver(ServeSettings(spool=str(tmp_path / "b"), port=first.port))
        with pytest.raises(ConfigError, match="in use"):
            second.__enter__()
    with receiving(tmp_path / "b") as third:
        assert say(third.port, push(feed(1))).body == b"Success"


def test_missing_scenario_creates_no_spool(tmp_path: Path) -> None:
    settings = ServeSettings(spool=str(tmp_path / "spool"), scenario=str(tmp_path / "none.yaml"))
    with pytest.raises(ConfigError, match="No such file"):
        Receiver(settings).__enter__()
    assert not (tmp_path / "spool").exists()


def test_wait_ends_with_stop(tmp_path: Path) -> None:
    with receiving(tmp_path) as receiver:
        assert not receiver.wait(0)
        threading.Thread(target=receiver.stop).start()
        assert receiver.wait(PATIENCE_SECONDS)
        assert receiver.wait(0), "once told, always told"


def test_running_request_is_finished_at_the_end(tmp_path: Path) -> None:
    raw = push(feed(1), headers="Expect: 100-continue\r\n")
    head, _, body = raw.partition(b"\r\n\r\n")
    with receiving(tmp_path) as receiver:
        talk = Talk(receiver.port)
        talk.send(head + b"\r\n\r\n")
        assert talk.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        finishing = threading.Thread(target=talk.send, args=(body,))
        receiver.stop()
        finishing.start()
    with talk:
        assert talk.hear().body == b"Success"
    finishing.join()
    assert kept(tmp_path) == [("s", "full", feed(1))]
