"""The feeder digests deliveries in order, and sets aside those that it cannot digest."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from feedferry.pipelines.serve.receiver import Receiver
from feedferry.pipelines.serve.rehearsal.delivery_table import DeliveryStatus, SetAsideBy
from feedferry.pipelines.serve.rehearsal.feeder import Digest, Feeder
from feedferry.pipelines.serve.settings import ServeSettings
from feedferry.pipelines.serve.worker_process import DEFAULT_LIMIT_SECONDS, WorkerProcess
from feedferry.schemas.delivery import JOURNAL, Delivery
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.formats.base import ReadOptions
from support import hostile_work as work
from support.receivers import wait_until_idle
from support.rehearsal import InlineWorker, Rehearsal, gone, gsa_feed, page
from support.served import wait_until
from support.talk import PATIENCE_SECONDS, get, say

LIMIT = 3.0
FAILED = "Internal Error: ZeroDivisionError('division by zero')"
DIED = "begun 3 times and never finished: the process ended each time"


def deliver(
    rehearsal: Rehearsal, *records: str, datasource: str = "sample", feedtype: str = "incremental"
) -> Delivery:
    delivery = rehearsal.write(gsa_feed(*records), datasource=datasource, feedtype=feedtype)
    rehearsal.deliver(delivery)
    return delivery


class InlineDigest:
    """Digests in this process; stops in the middle of the first delivery until `opened` is set."""

    def __init__(self, rehearsal: Rehearsal, *faults: Exception) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        self._rehearsal = rehearsal
        self._faults = list(faults)

    def __call__(self, index: Path, delivery: Delivery, spool: Path, reading: ReadOptions) -> None:
        self.reached.set()
        self.opened.wait(PATIENCE_SECONDS)
        if self._faults:
            raise self._faults.pop()
        if delivery.datasource == "bad" and not (spool / "fixed").exists():
            raise ZeroDivisionError("division by zero")
        self._rehearsal.index.digest(delivery, spool)


def inline(rehearsal: Rehearsal, digest: InlineDigest | None = None) -> Feeder:
    if digest is None:
        digest = InlineDigest(rehearsal)
        digest.opened.set()
    index, spool = rehearsal.index, rehearsal.spool
    return Feeder(index, spool, worker=InlineWorker(), digest=digest, pause_seconds=0.01)


@contextmanager
def feeding(
    rehearsal: Rehearsal, digest: Digest, limit: float = DEFAULT_LIMIT_SECONDS
) -> Iterator[Feeder]:
    """Run a feeder with a worker process."""
    worker = WorkerProcess(limit_seconds=limit)
    with Feeder(
        rehearsal.index, rehearsal.spool, worker=worker, digest=digest, pause_seconds=0.01
    ) as feeder:
        yield feeder


def digest_all(rehearsal: Rehearsal) -> None:
    with inline(rehearsal) as feeder:
        wait_until(lambda: feeder.backlog() == 0)


def statuses(rehearsal: Rehearsal) -> dict[int, DeliveryStatus]:
    return {row.ordinal: row.status for row in rehearsal.index.deliveries.feed_rows()}


def test_deliveries_before_and_after_the_start_are_digested_in_order(rehearsal: Rehearsal) -> None:
    deliver(rehearsal, page("a"), page("b"), feedtype="full")
    deliver(rehearsal, gone("a"), page("c"))
    with inline(rehearsal) as feeder:
        wait_until(lambda: feeder.backlog() == 0)
        deliver(rehearsal, page("d"))
        feeder.arrived()
        wait_until(lambda: feeder.backlog() == 0)
    assert rehearsal.pages() == ["b", "c", "d"]
    (rehearsal.spool / "003.xml").unlink()
    digest_all(rehearsal)
    assert rehearsal.pages() == ["b", "c", "d"], "nothing is digested twice"
    names = {path.name for path in rehearsal.spool.iterdir() if path.suffix not in {".xml", ""}}
    assert {name.partition("-")[0] for name in names} == {"deliveries.jsonl", "index.db"}


def test_the_backlog_counts_deliveries_that_are_not_digested(rehearsal: Rehearsal) -> None:
    digest = InlineDigest(rehearsal)
    feeder = inline(rehearsal, digest)
    assert feeder.backlog() == 0
    deliver(rehearsal, page("a"))
    with feeder:
        digest.reached.wait(PATIENCE_SECONDS)
        deliver(rehearsal, page("b"))
        assert feeder.backlog() == 2
        digest.opened.set()
        wait_until(lambda: feeder.backlog() == 0)


def test_an_unreadable_delivery_does_not_stop_later_ones(rehearsal: Rehearsal) -> None:
    rehearsal.deliver(rehearsal.write("<html/>", datasource="sample", feedtype="full"))
    deliver(rehearsal, page("a"))
    (rehearsal.spool / "002.xml").unlink()
    deliver(rehearsal, page("b"))
    digest_all(rehearsal)
    failed, completed = DeliveryStatus.FAILED, DeliveryStatus.COMPLETED
    assert statuses(rehearsal) == {1: failed, 2: failed, 3: completed}


def test_an_incomplete_last_line_is_not_read_yet(rehearsal: Rehearsal) -> None:
    deliver(rehearsal, page("a"))
    line = (rehearsal.spool / JOURNAL).read_bytes()
    (rehearsal.spool / JOURNAL).write_bytes(line[:-1])
    feeder = inline(rehearsal)
    before = feeder.backlog()
    (rehearsal.spool / JOURNAL).write_bytes(line)
    assert (before, feeder.backlog()) == (0, 1)


def test_deliveries_before_a_damaged_line_are_digested(
    rehearsal: Rehearsal, caplog: pytest.LogCaptureFixture
) -> None:
    deliver(rehearsal, page("a"))
    with (rehearsal.spool / JOURNAL).open("ab") as journal:
        journal.write(b"{}\n")
    digest_all(rehearsal)
    assert rehearsal.pages() == ["a"]
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{rehearsal.spool}/deliveries.jsonl:2: O")


def test_what_is_no_feed_is_logged(rehearsal: Rehearsal, caplog: pytest.LogCaptureFixture) -> None:
    rehearsal.deliver(rehearsal.write("<html></html>", datasource="crm", feedtype="incremental"))
    digest_all(rehearsal)
    assert caplog.messages == [
        "delivery 1 of 'crm': Failed in error: ProcessFeed: parsing error: 001.xml:1: root element"
        " 'html'; expected <gsafeed>"
    ]
    assert rehearsal.index.deliveries.failed_count() == 1


@pytest.mark.parametrize("error", [sqlite3.OperationalError, ConfigError])
def test_a_delivery_is_tried_again_when_the_index_cannot_be_written(
    rehearsal: Rehearsal, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    digest = InlineDigest(rehearsal, error("database or disk is full"))
    digest.opened.set()
    deliver(rehearsal, page("a"))
    with inline(rehearsal, digest) as feeder:
        wait_until(lambda: feeder.backlog() == 0)
    assert rehearsal.pages() == ["a"]
    assert caplog.messages == [
        "delivery 1 of 'sample': database or disk is full; held back, with later deliveries of it;"
        " tried again in 0 s"
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("digest", "limit", "reason"),
    [
        (work.digest_looping, LIMIT, "not finished after 3 seconds, the limit for 311 bytes"),
        (work.digest_failing, DEFAULT_LIMIT_SECONDS, FAILED),
        (work.digest_dying, DEFAULT_LIMIT_SECONDS, DIED),
    ],
    ids=["loops", "raises", "dies"],
)
def test_a_delivery_that_cannot_be_digested_is_set_aside_and_others_are_digested(
    rehearsal: Rehearsal, digest: Digest, limit: float, reason: str
) -> None:
    deliver(rehearsal, page("a"))
    deliver(rehearsal, page("b"), datasource="bad")
    deliver(rehearsal, page("c"))
    with feeding(rehearsal, digest, limit) as feeder:
        wait_until(lambda: feeder.backlog() == 0)
    assert rehearsal.pages() == ["a", "c"]
    (aside,) = rehearsal.index.deliveries.all_set_aside()
    results = (aside.ordinal, aside.by, aside.name, aside.reason)
    assert results == (2, SetAsideBy.INDEX, "bad", reason)


@pytest.mark.slow
def test_a_receiver_that_stops_ends_the_digestion(rehearsal: Rehearsal) -> None:
    deliver(rehearsal, page("b"), datasource="bad")
    with feeding(rehearsal, work.digest_looping):
        wait_until(lambda: statuses(rehearsal) == {1: DeliveryStatus.IN_PROGRESS})
    (rehearsal.spool / "fixed").touch()
    with feeding(rehearsal, work.digest_looping) as feeder:
        wait_until(lambda: feeder.backlog() == 0)
    assert rehearsal.pages() == ["b"]


def test_a_new_start_does_not_begin_a_delivery_that_is_set_aside(rehearsal: Rehearsal) -> None:
    deliver(rehearsal, page("b"), datasource="bad")
    digest_all(rehearsal)
    (rehearsal.spool / "fixed").touch()
    digest_all(rehearsal)
    assert statuses(rehearsal) == {1: DeliveryStatus.SET_ASIDE}


def test_deliveries_of_a_retry_are_digested_before_later_ones(rehearsal: Rehearsal) -> None:
    deliver(rehearsal, page("a"), datasource="bad")
    deliver(rehearsal, page("a", "newer"), datasource="sample")
    digest_all(rehearsal)
    rehearsal.index.deliveries.end([1], DeliveryStatus.WAITING)
    deliver(rehearsal, page("a", "newest!"))
    (rehearsal.spool / "fixed").touch()
    digest_all(rehearsal)
    assert rehearsal.document("a").bytes == len("newest!")
    assert set(statuses(rehearsal).values()) == {DeliveryStatus.COMPLETED}


def multipart(datasource: str, feed: str) -> bytes:
    fields = {"datasource": datasource, "feedtype": "full", "data": feed}
    parts = (
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'
        for name, text in fields.items()
    )
    body = ("".join(parts) + "--b--\r\n").encode()
    head = (
        "POST /xmlfeed HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data;"
        f" boundary=b\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@pytest.mark.slow
def test_a_delivery_that_is_set_aside_is_on_the_page_and_in_the_json(tmp_path: Path) -> None:
    settings = ServeSettings(spool=str(tmp_path), port=0, min_free_bytes=0)
    with Receiver(settings, digest=work.digest_failing) as receiver:
        assert say(receiver.port, multipart("bad", gsa_feed(page("a")))).body == b"Success"
        wait_until_idle(receiver)
        page_text = say(receiver.port, get("/"), method="GET").body.decode()
        listed = json.loads(say(receiver.port, get("/set-aside"), method="GET").body)
        documents = json.loads(say(receiver.port, get("/documents"), method="GET").body)
        assert say(receiver.port, get("/getbacklogcount"), method="GET").body == b"0"
    (aside,) = listed["set_aside"]
    results = (aside["ordinal"], aside["by"], aside["name"], aside["endpoint"])
    assert results == (1, "index", "bad", "xmlfeed")
    assert (aside["reason"], aside["bytes"]) == (FAILED, len(gsa_feed(page("a"))))
    assert aside["at"][:19] <= aside["set_aside_at"][:19]
    assert documents["set_aside"] == 1
    assert f"feedferry serve --spool {tmp_path} --retry all" in page_text
    assert "Internal Error: ZeroDivisionError(&#39;division by zero&#39;)" in page_text


@pytest.mark.slow
def test_the_limit_for_a_document_also_applies_in_the_worker_process(tmp_path: Path) -> None:
    settings = ServeSettings(spool=str(tmp_path), port=0, min_free_bytes=0, max_content_bytes=100)
    with Receiver(settings) as receiver:
        feed = gsa_feed(page("small"), page("large", "x" * 200))
        assert say(receiver.port, multipart("crm", feed)).body == b"Success"
        wait_until_idle(receiver)
        documents = json.loads(say(receiver.port, get("/documents"), method="GET").body)
    assert [document["url"] for document in documents["documents"]] == [
        "http://www.example.com/small"
    ]
