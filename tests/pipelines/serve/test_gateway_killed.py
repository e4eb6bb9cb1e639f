"""A gateway that is killed at any instant loses nothing, and keeps the order of each datasource."""

import random
import signal
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from feedferry.schemas.delivery import JOURNAL
from feedferry.transforms.sources.spool import read_deliveries
from support.archives import gsa_feed
from support.forks import run
from support.ports import kept_port
from support.served import BOUND_SECONDS, Served, post_form, serving, start, wait_until

pytestmark = pytest.mark.slow

FEEDS = 100
KILLS = 10
DATASOURCES = ("crm", "wiki")
HOST = "http://www.example.com"
SEED = 20261121


def feed(number: int) -> bytes:
    """One document of its own, and one that each feed of the datasource changes."""
    return gsa_feed(
        f'<record url="{HOST}/{number:03d}" mimetype="text/plain"><content>{number}</content>'
        "</record>",
        f'<record url="{HOST}/last-{number % 2}" mimetype="text/plain"><content>{number:03d}'
        "</content></record>",
    )


def post(url: str, number: int) -> bool:
    """Whether a gateway has a feed."""
    source = DATASOURCES[number % 2]
    feedtype = "full" if number < len(DATASOURCES) else "incremental"
    fields = (f"datasource={source}", f"feedtype={feedtype}", "data=<-")
    return post_form(f"{url}/xmlfeed", *fields, text=feed(number)) == b"Success"


class Client(threading.Thread):
    """Posts all feeds, each again until it is taken, whoever listens at the moment."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url

    def run(self) -> None:
        for number in range(FEEDS):
            wait_until(lambda number=number: post(self.url, number))  # type: ignore[misc]  # bound


class Killed:
    """A gateway that is started and killed, always at the same port."""

    def __init__(self, spool: Path, target: Served, port: int) -> None:
        self._journal = target.spool / JOURNAL
        self._words = ("serve", "--spool", str(spool), "--port", str(port), "--min-free", "0")
        self._flags = ("--forward", target.url, "--backlog-interval", "50ms")

    def run_for(self, feeds: int) -> None:
        """Run until more than so many have arrived behind it, or as many as there are."""
        enough = min(self._arrived() + feeds, FEEDS - 1)
        self.run_until(lambda _: self._arrived() > enough)

    def run_until(self, is_so: Callable[[int], bool]) -> None:
        process = start(*self._words, *self._flags)
        wait_until(lambda: process.poll() is not None or is_so(process.pid))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=BOUND_SECONDS)

    def _arrived(self) -> int:
        return self._journal.read_bytes().count(b"\n")


def arrivals(target: Served, *datasources: str) -> list[int]:
    """Which feeds of the datasources arrived, in order."""
    return [
        int((target.spool / (delivery.path or "")).read_text().split(f"{HOST}/", 1)[1][:3])
        for delivery in read_deliveries(target.spool)
        if delivery.datasource in datasources
    ]


def numbers(target: Served, datasource: str) -> list[int]:
    """Which feeds of a datasource arrived, in order; one that came twice in a row once."""
    arrived = arrivals(target, datasource)
    return arrived[:1] + [later for before, later in pairwise(arrived) if later != before]


def test_killed_ten_times_it_forwards_all_in_order(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    old = tmp_path / "old"
    with kept_port() as port, serving(tmp_path / "new") as new:
        client = Client(f"http://127.0.0.1:{port}")
        client.start()
        killed = Killed(old, new, port)
        for _ in range(KILLS):
            killed.run_for(chance.randint(0, 8))
        flags = ("--port", str(port), "--forward", new.url, "--backlog-interval", "50ms")
        with serving(old, *flags) as gateway:
            client.join(FEEDS * BOUND_SECONDS)
            wait_until(lambda: gateway.get("/getbacklogcount") == b"0", seconds=5 * BOUND_SECONDS)
        urls = new.urls()
        last = {document["url"] for document in new.documents() if "/last-" in document["url"]}
        arrived = {name: numbers(new, name) for name in DATASOURCES}

    assert not client.is_alive()
    assert urls == [*(f"{HOST}/{number:03d}" for number in range(FEEDS)), *sorted(last)]
    assert arrived == {"crm": list(range(0, FEEDS, 2)), "wiki": list(range(1, FEEDS, 2))}
    assert sorted(path.name for path in (old / "forward").iterdir()) == ["forwarded.jsonl"]


def has_children(pid: int) -> bool:
    """Whether a process has started others: with all feeds digested, one that converts."""
    return any(path.read_bytes() for path in Path(f"/proc/{pid}/task").glob("*/children"))


def test_a_gateway_killed_three_times_in_a_conversion_forwards_each_feed_once(
    tmp_path: Path,
) -> None:
    old = tmp_path / "old"
    with serving(old) as receiver:
        assert all(post(receiver.url, number) for number in range(4))
        receiver.settle()
    with serving(tmp_path / "new") as new:
        for _ in range(3):
            Killed(old, new, 0).run_until(has_children)
            assert arrivals(new, *DATASOURCES) == []
        retried = run("serve", "--spool", str(old), "--retry", "all")
        assert (retried.returncode, retried.stdout) == (0, f"nothing is set aside in {old}\n")
        with serving(old, "--forward", new.url, "--backlog-interval", "50ms") as gateway:
            wait_until(lambda: gateway.get("/getbacklogcount") == b"0")
        assert arrivals(new, *DATASOURCES) == [0, 1, 2, 3]
