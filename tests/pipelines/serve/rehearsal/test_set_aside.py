"""What cannot be digested is set aside, and stops nothing else; it is tried again when asked."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipelines.serve.receiver import Receiver
from pipelines.serve.rehearsal.digest_worker import Digest, Isolated
from pipelines.serve.rehearsal.feeder import Feeder
from pipelines.serve.rehearsal.set_aside import By, TimeLimit, asked
from pipelines.serve.rehearsal.views import Status
from pipelines.serve.settings import ServeSettings
from schemas.delivery import Delivery
from support import hostile_work as work
from support.rehearsal import Rehearsal, gone, gsa_feed, page
from support.served import wait_until
from support.talk import PATIENCE_SECONDS, get, say

LIMIT = TimeLimit(seconds=3.0)
PLENTY = TimeLimit(seconds=60.0)
FAILED = "Internal Error: ZeroDivisionError('division by zero')"
DIED = "begun 3 times and never finished: the process ended each time"


def deliver(
    held: Rehearsal, *records: str, datasource: str = "sample", feedtype: str = "incremental"
) -> Delivery:
    delivery = held.write(gsa_feed(*records), datasource=datasource, feedtype=feedtype)
    held.deliver(delivery)
    return delivery


@contextmanager
def feeding(held: Rehearsal, digest: Digest, limit: TimeLimit = PLENTY) -> Iterator[Feeder]:
    digester = Isolated(held.index, held.spool, limit=limit, digest=digest)
    with Feeder(held.index, held.spool, retry_seconds=0.01, digester=digester) as feeder:
        yield feeder


def statuses(held: Rehearsal) -> dict[int, Status]:
    return {one.ordinal: one.status for one in held.index.feeds()}


def retried(feeder: Feeder, ordinal: int) -> None:
    wait_until(lambda: feeder.retry(ordinal))
    assert feeder.idle(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("digest", "limit", "reason"),
    [
        (work.digest_looping, LIMIT, "not finished after 3 seconds, the limit for 311 bytes"),
        (work.digest_failing, PLENTY, FAILED),
        (work.digest_dying, PLENTY, DIED),
    ],
    ids=["loops", "raises", "dies"],
)
def test_what_cannot_be_digested_is_set_aside_and_the_others_are_digested(
    held: Rehearsal, digest: Digest, limit: TimeLimit, reason: str
) -> None:
    deliver(held, page("a"))
    deliver(held, page("b"), datasource="bad")
    deliver(held, page("c"))
    with feeding(held, digest, limit) as feeder:
        assert feeder.idle(PATIENCE_SECONDS)
    assert held.pages() == ["a", "c"]
    (one,) = held.index.all_set_aside()
    assert (one.ordinal, one.by, one.name, one.reason) == (2, By.INDEX, "bad", reason)


def test_a_larger_feed_has_more_time() -> None:
    assert TimeLimit(seconds=300.0).of(0) == 300.0
    assert TimeLimit(seconds=300.0).of(900_000_000) == 1200.0


def test_a_new_start_does_not_begin_what_is_set_aside(held: Rehearsal) -> None:
    deliver(held, page("b"), datasource="bad")
    with feeding(held, work.digest_failing) as feeder:
        feeder.idle(PATIENCE_SECONDS)
    (held.spool / "fixed").touch()
    with feeding(held, work.digest_failing) as feeder:
        assert feeder.idle(PATIENCE_SECONDS)
    assert statuses(held) == {1: Status.SET_ASIDE}


def test_three_receivers_that_were_killed_while_they_digested_it_are_enough(
    held: Rehearsal,
) -> None:
    delivery = deliver(held, page("a"))
    deliver(held, page("b"))
    held.index.begin(delivery)
    held.index.begin(delivery)
    held.index.begin(delivery)
    with feeding(held, work.digest_failing) as feeder:
        assert feeder.idle(PATIENCE_SECONDS)
    assert statuses(held) == {1: Status.SET_ASIDE, 2: Status.COMPLETED}


def test_a_receiver_that_is_stopped_does_not_count_as_an_attempt(held: Rehearsal) -> None:
    deliver(held, page("b"), datasource="bad")
    with feeding(held, work.digest_looping):
        wait_until(lambda: held.index.attempts(1) == 1)
    assert (statuses(held), held.index.attempts(1)) == ({1: Status.IN_PROGRESS}, 0)


def test_what_was_stopped_is_digested_at_the_next_start(held: Rehearsal) -> None:
    deliver(held, page("b"), datasource="bad")
    with feeding(held, work.digest_looping):
        wait_until(lambda: held.index.attempts(1) == 1)
    (held.spool / "fixed").touch()
    with feeding(held, work.digest_looping) as feeder:
        assert feeder.idle(PATIENCE_SECONDS)
    assert held.pages() == ["b"]


def test_what_is_retried_is_digested_with_all_later_ones_of_its_datasource(
    held: Rehearsal,
) -> None:
    deliver(held, page("a"), page("b", "old"), page("c"), datasource="bad", feedtype="full")
    deliver(held, page("b", "newer"), gone("c"), datasource="sample")
    with feeding(held, work.digest_failing) as feeder:
        feeder.idle(PATIENCE_SECONDS)
        (held.spool / "fixed").touch()
        deliver(held, page("b", "newest!"), gone("c"), datasource="bad")
        feeder.arrived()
        feeder.idle(PATIENCE_SECONDS)
        retried(feeder, 1)
    assert held.pages() == ["a", "b"]
    assert held.document("b").bytes == len("newest!")
    assert statuses(held) == {
        1: Status.COMPLETED,
        2: Status.COMPLETED,
        3: Status.COMPLETED,
    }


def test_what_fails_again_is_set_aside_again(held: Rehearsal) -> None:
    deliver(held, page("b"), datasource="bad")
    with feeding(held, work.digest_failing) as feeder:
        feeder.idle(PATIENCE_SECONDS)
        retried(feeder, 1)
    assert statuses(held) == {1: Status.SET_ASIDE}


def test_what_was_to_be_retried_when_a_receiver_ended_is_retried_by_the_next(
    held: Rehearsal,
) -> None:
    deliver(held, page("a"), datasource="bad")
    deliver(held, page("b"))
    with feeding(held, work.digest_failing) as feeder:
        feeder.idle(PATIENCE_SECONDS)
    held.index.requeue([1])
    (held.spool / "fixed").touch()
    with feeding(held, work.digest_failing) as feeder:
        assert feeder.backlog() <= 1
        assert feeder.idle(PATIENCE_SECONDS)
    assert held.pages() == ["a", "b"]


def test_what_a_later_full_feed_supersedes_is_not_digested_again(held: Rehearsal) -> None:
    deliver(held, page("old"), datasource="bad", feedtype="full")
    with feeding(held, work.digest_failing) as feeder:
        feeder.idle(PATIENCE_SECONDS)
        (held.spool / "fixed").touch()
        deliver(held, page("new"), datasource="bad", feedtype="full")
        feeder.arrived()
        feeder.idle(PATIENCE_SECONDS)
        retried(feeder, 1)
    fed = held.index.feeds()[1]
    assert held.pages() == ["new"]
    assert fed.details == ("superseded by delivery 2, and not digested",)
    assert held.index.all_set_aside() == []


def test_what_is_not_set_aside_is_not_digested_again(held: Rehearsal) -> None:
    deliver(held, page("a"))
    with feeding(held, work.digest_failing) as feeder:
        feeder.idle(PATIENCE_SECONDS)
        (held.spool / "001.xml").unlink()
        retried(feeder, 1)
    assert held.pages() == ["a"]


def receive(spool: Path) -> Receiver:
    settings = ServeSettings(spool=str(spool), port=0, min_free_bytes=0)
    return Receiver(settings, digest=work.digest_failing)


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


def test_the_page_and_the_json_tell_what_is_set_aside(tmp_path: Path) -> None:
    with receive(tmp_path) as receiver:
        assert say(receiver.port, multipart("bad", gsa_feed(page("a")))).body == b"Success"
        assert receiver.idle(PATIENCE_SECONDS)
        page_text = say(receiver.port, get("/"), method="GET").body.decode()
        listed = json.loads(say(receiver.port, get("/set-aside"), method="GET").body)
        documents = json.loads(say(receiver.port, get("/documents"), method="GET").body)
    (one,) = listed["set_aside"]
    assert (one["ordinal"], one["by"], one["name"], one["door"]) == (1, "index", "bad", "xmlfeed")
    assert (one["reason"], one["bytes"]) == (FAILED, len(gsa_feed(page("a"))))
    assert one["at"][:19] <= one["set_aside_at"][:19]
    assert documents["set_aside"] == 1
    assert f"feedferry serve --spool {tmp_path} --retry all" in page_text
    assert "Internal Error: ZeroDivisionError(&#39;division by zero&#39;)" in page_text


def test_what_is_set_aside_is_not_in_the_backlog(tmp_path: Path) -> None:
    with receive(tmp_path) as receiver:
        say(receiver.port, multipart("bad", gsa_feed(page("a"))))
        assert receiver.idle(PATIENCE_SECONDS)
        assert say(receiver.port, get("/getbacklogcount"), method="GET").body == b"0"


def test_nothing_is_asked_for_in_a_spool_that_was_never_asked(tmp_path: Path) -> None:
    assert asked(tmp_path) == []


def test_the_limit_for_a_document_holds_in_the_worker_process_too(tmp_path: Path) -> None:
    settings = ServeSettings(spool=str(tmp_path), port=0, min_free_bytes=0, max_content_bytes=100)
    with Receiver(settings) as receiver:
        feed = gsa_feed(page("small"), page("large", "x" * 200))
        assert say(receiver.port, multipart("crm", feed)).body == b"Success"
        assert receiver.idle(PATIENCE_SECONDS)
        documents = json.loads(say(receiver.port, get("/documents"), method="GET").body)
    assert [one["url"] for one in documents["documents"]] == ["http://www.example.com/small"]
