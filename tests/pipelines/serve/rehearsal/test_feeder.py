"""The feeder: it digests what is delivered, in order, whatever that is, and stops when told to."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from pipelines.serve.rehearsal.feeder import Feeder
from pipelines.serve.rehearsal.index import Index
from pipelines.serve.rehearsal.views import Status
from schemas.delivery import JOURNAL, Delivery
from support.rehearsal import Rehearsal, gone, gsa_feed, page

ENOUGH_SECONDS = 60.0


def delivered(held: Rehearsal, *records: str, feedtype: str = "incremental") -> Delivery:
    delivery = held.write(gsa_feed(*records), datasource="sample", feedtype=feedtype)
    held.deliver(delivery)
    return delivery


class Gate:
    """Holds the feeder in the middle of its first delivery until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        apply = Index.apply

        def wait_and_apply(*args: object, **options: object) -> None:
            self.reached.set()
            self.opened.wait(ENOUGH_SECONDS)
            apply(*args, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(Index, "apply", wait_and_apply)


def test_what_was_delivered_before_it_started_is_digested(held: Rehearsal) -> None:
    delivered(held, page("a"))
    with Feeder(held.index, held.spool) as feeder:
        assert (feeder.idle(ENOUGH_SECONDS), held.pages()) == (True, ["a"])


def test_what_arrives_is_digested(held: Rehearsal) -> None:
    with Feeder(held.index, held.spool) as feeder:
        delivered(held, page("a"))
        feeder.arrived()
        assert (feeder.idle(ENOUGH_SECONDS), held.pages()) == (True, ["a"])


def test_deliveries_are_digested_in_their_order(held: Rehearsal) -> None:
    delivered(held, page("a"), page("b"), feedtype="full")
    delivered(held, gone("a"), page("c"))
    delivered(held, page("a"))
    with Feeder(held.index, held.spool) as feeder:
        feeder.idle(ENOUGH_SECONDS)
        assert [one.ordinal for one in held.index.feeds()] == [3, 2, 1]


def test_what_is_in_the_index_is_not_digested_again(held: Rehearsal) -> None:
    held.apply(delivered(held, page("a")))
    (held.spool / "001.xml").unlink()
    delivered(held, page("b"))
    with Feeder(held.index, held.spool) as feeder:
        feeder.idle(ENOUGH_SECONDS)
        assert held.pages() == ["a", "b"]


def test_a_spool_without_a_journal_has_no_backlog(held: Rehearsal) -> None:
    with Feeder(held.index, held.spool) as feeder:
        assert (feeder.backlog(), feeder.idle(ENOUGH_SECONDS)) == (0, True)


def test_the_backlog_counts_what_is_not_digested(held: Rehearsal) -> None:
    delivered(held, page("a"))
    delivered(held, page("b"))
    assert Feeder(held.index, held.spool).backlog() == 2


def test_the_backlog_counts_what_is_being_digested(
    held: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    delivered(held, page("a"))
    with Feeder(held.index, held.spool) as feeder:
        gate.reached.wait(ENOUGH_SECONDS)
        before = feeder.backlog()
        gate.opened.set()
        assert (before, feeder.idle(ENOUGH_SECONDS), feeder.backlog()) == (1, True, 0)


def test_the_backlog_counts_what_arrives_meanwhile(
    held: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    delivered(held, page("a"))
    with Feeder(held.index, held.spool) as feeder:
        gate.reached.wait(ENOUGH_SECONDS)
        delivered(held, page("b"))
        backlog = feeder.backlog()
        gate.opened.set()
        assert backlog == 2


def test_it_is_not_idle_while_something_waits(
    held: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    delivered(held, page("a"))
    with Feeder(held.index, held.spool) as feeder:
        idle = feeder.idle(0.01)
        gate.opened.set()
        assert not idle


def test_the_backlog_is_noted_when_it_changes(held: Rehearsal) -> None:
    feeder = Feeder(held.index, held.spool)
    delivered(held, page("a"))
    feeder.arrived()
    delivered(held, page("b"))
    feeder.arrived()
    with feeder:
        feeder.idle(ENOUGH_SECONDS)
    assert [count for _, count in feeder.history.since(0.0)] == [1, 2, 1, 0]


def test_a_bad_delivery_does_not_end_it(held: Rehearsal) -> None:
    delivery = held.write("<html/>", datasource="sample", feedtype="full")
    held.deliver(delivery)
    delivered(held, page("a"))
    with Feeder(held.index, held.spool) as feeder:
        feeder.idle(ENOUGH_SECONDS)
        assert [one.status for one in held.index.feeds()] == [Status.COMPLETED, Status.FAILED]


def test_a_file_that_is_gone_does_not_end_it(held: Rehearsal) -> None:
    delivered(held, page("a"))
    (held.spool / "001.xml").unlink()
    delivered(held, page("b"))
    with Feeder(held.index, held.spool) as feeder:
        feeder.idle(ENOUGH_SECONDS)
        assert held.pages() == ["b"]


def test_a_line_that_is_being_written_waits_for_its_end(held: Rehearsal) -> None:
    delivered(held, page("a"))
    line = (held.spool / JOURNAL).read_bytes()
    (held.spool / JOURNAL).write_bytes(line[:-1])
    feeder = Feeder(held.index, held.spool)
    before = feeder.backlog()
    (held.spool / JOURNAL).write_bytes(line)
    assert (before, feeder.backlog()) == (0, 1)


def test_what_stands_before_a_damaged_line_is_digested(
    held: Rehearsal, caplog: pytest.LogCaptureFixture
) -> None:
    delivered(held, page("a"))
    with (held.spool / JOURNAL).open("ab") as journal:
        journal.write(b"{}\n")
    with Feeder(held.index, held.spool) as feeder:
        feeder.idle(ENOUGH_SECONDS)
        assert held.pages() == ["a"]
    assert [
        (one.levelname, one.getMessage().removeprefix(f"{held.spool}/")[:21])
        for one in caplog.records
    ] == [("ERROR", "deliveries.jsonl:2: O")]


def test_an_index_that_cannot_be_written_is_tried_again(
    held: Rehearsal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    apply, faults = Index.apply, iter([sqlite3.OperationalError("database or disk is full")])

    def full_once(*args: object, **options: object) -> None:
        if (fault := next(faults, None)) is not None:
            raise fault
        apply(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Index, "apply", full_once)
    delivered(held, page("a"))
    with Feeder(held.index, held.spool, retry_seconds=0.01) as feeder:
        assert (feeder.idle(ENOUGH_SECONDS), held.pages()) == (True, ["a"])
    assert caplog.messages == ["001.xml: database or disk is full; tried again"]


def test_it_stops_in_the_middle_of_a_large_delivery(held: Rehearsal) -> None:
    delivered(held, *(page(f"{number}") for number in range(30_000)), feedtype="full")
    feeder = Feeder(held.index, held.spool)
    feeder.start()
    feeder.stop()
    assert (held.index.applied, held.pages()) == (0, [])


def test_what_it_was_stopped_at_is_digested_at_the_next_start(held: Rehearsal) -> None:
    delivered(held, page("a"))
    delivered(held, page("b"))
    first = Feeder(held.index, held.spool)
    first.start()
    first.stop()
    with Feeder(held.index, held.spool) as second:
        assert (second.idle(ENOUGH_SECONDS), held.pages()) == (True, ["a", "b"])


def test_it_may_be_stopped_before_it_was_started(held: Rehearsal) -> None:
    Feeder(held.index, held.spool).stop()
    assert held.index.applied == 0


def test_it_may_be_stopped_twice(held: Rehearsal) -> None:
    feeder = Feeder(held.index, held.spool)
    feeder.start()
    feeder.stop()
    feeder.stop()
    assert feeder.backlog() == 0


def test_nothing_but_the_files_is_left_when_all_is_closed(tmp_path: Path) -> None:
    held = Rehearsal(tmp_path)
    delivered(held, page("a"))
    with closing(held.index), Feeder(held.index, tmp_path) as feeder:
        feeder.idle(ENOUGH_SECONDS)
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "001.xml",
        "deliveries.jsonl",
        "index.db",
    ]
