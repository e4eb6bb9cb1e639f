"""The index of a rehearsal appliance: whole deliveries, pages, crashes, and a plain model of it."""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from pipelines.serve.rehearsal import index
from pipelines.serve.rehearsal.digest import Interrupted
from pipelines.serve.rehearsal.index import Index
from pipelines.serve.rehearsal.views import Status
from schemas.delivery import Delivery
from schemas.errors import ConfigError
from support.defects import FAULTS, MARK, break_at, put_in
from support.rehearsal import (
    HOST,
    Rehearsal,
    gone,
    gsa_feed,
    item,
    membership,
    metadata,
    page,
    xmlgroups,
)
from support.runs import ROOT

APPLY_AND_WAIT = """
import sys
from pathlib import Path
from schemas.delivery import Delivery, Door
from pipelines.serve.rehearsal import digest, index

index._SETTINGS = (*index._SETTINGS, "PRAGMA cache_size = 10")
seen = 0

def stopping():
    global seen
    seen += 1
    if seen == 15_000:
        print("digesting", flush=True)
        sys.stdin.read()
    return False

spool = Path(sys.argv[1])
delivery = Delivery(
    ordinal=2, door=Door.FEED, path="002.xml", bytes=0, datasource="sample", feedtype="full"
)
index.Index(spool / "index.db").apply(delivery, spool, stopping=stopping)
"""
"""A receiver that stops in the middle of a feed, when much of that is in the file."""


def test_a_delivery_is_all_or_nothing(held: Rehearsal) -> None:
    held.feed(gsa_feed(page("a"), page("b")))
    delivery = held.write(gsa_feed(page("c"), page("d")), datasource="sample", feedtype="full")
    answers = iter([False] * 5)
    with pytest.raises(Interrupted):
        held.index.apply(delivery, held.spool, stopping=lambda: next(answers, True))
    assert (held.pages(), held.index.applied) == (["a", "b"], 1)


def test_a_delivery_that_was_interrupted_is_applied_again(held: Rehearsal) -> None:
    held.feed(gsa_feed(page("a"), page("b")))
    delivery = held.write(gsa_feed(page("c"), page("d")), datasource="sample", feedtype="full")
    answers = iter([False] * 5)
    with pytest.raises(Interrupted):
        held.index.apply(delivery, held.spool, stopping=lambda: next(answers, True))
    held.apply(delivery)
    assert (held.pages(), held.index.applied) == (["c", "d"], 2)


def test_a_delivery_is_digested_once(held: Rehearsal) -> None:
    delivery = held.write(gsa_feed(page("a")), datasource="sample", feedtype="incremental")
    held.apply(delivery)
    held.feed(gsa_feed(gone("a")))
    held.apply(delivery)
    assert held.pages() == []


def test_what_is_asked_meanwhile_is_answered_as_before(held: Rehearsal) -> None:
    held.feed(gsa_feed(page("a")))
    delivery = held.write(gsa_feed(page("b")), datasource="sample", feedtype="full")
    seen = []

    def look() -> bool:
        seen.append(held.pages())
        return False

    held.index.apply(delivery, held.spool, stopping=look)
    assert (seen[-1], held.pages()) == (["a"], ["b"])


def test_another_thread_can_ask(held: Rehearsal) -> None:
    held.feed(gsa_feed(page("a")))
    found: list[list[str]] = []
    thread = threading.Thread(target=lambda: found.append(held.pages()))
    thread.start()
    thread.join()
    assert found == [["a"]]


def test_an_index_is_there_after_a_new_start(tmp_path: Path) -> None:
    first = Rehearsal(tmp_path)
    with closing(first.index):
        first.feed(gsa_feed(page("a")))
    with Index(tmp_path / "index.db") as second:
        assert ([one.url for one in second.documents()], second.applied) == ([f"{HOST}a"], 1)


def test_a_receiver_that_is_killed_leaves_the_index_as_it_was(tmp_path: Path) -> None:
    killed_in_the_middle(tmp_path)
    with Index(tmp_path / "index.db") as index:
        status = index.feeds()[0].status
        assert ([one.url for one in index.documents()], index.applied, status) == (
            [f"{HOST}a"],
            1,
            Status.IN_PROGRESS,
        )


def test_what_a_killed_receiver_was_at_is_applied_again(tmp_path: Path) -> None:
    delivery = killed_in_the_middle(tmp_path)
    with Index(tmp_path / "index.db") as index:
        index.apply(delivery, tmp_path)
        assert (index.totals()[0].documents, index.applied) == (20_000, 2)


def killed_in_the_middle(spool: Path) -> Delivery:
    """Apply a small feed, and start a receiver that is killed in the middle of a large one."""
    held = Rehearsal(spool)
    with closing(held.index):
        held.feed(gsa_feed(page("a")))
    large = gsa_feed(*(page(f"{number}") for number in range(20_000)))
    delivery = held.write(large, datasource="sample", feedtype="full")
    arguments = [sys.executable, "-c", APPLY_AND_WAIT, str(spool)]
    with subprocess.Popen(
        arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"digesting\n"
        os.kill(worker.pid, signal.SIGKILL)
    return delivery


def test_a_feed_that_is_none_changes_nothing(held: Rehearsal) -> None:
    held.feed(gsa_feed(page("a")))
    fed = held.feed("<html></html>", feedtype="full")
    assert (held.pages(), fed.status, fed.in_error, fed.details) == (
        ["a"],
        Status.FAILED,
        1,
        ("ProcessFeed: parsing error: 002.xml:1: root element 'html'; expected <gsafeed>",),
    )


def test_a_full_feed_without_its_end_changes_nothing(held: Rehearsal) -> None:
    held.feed(gsa_feed(page("a")))
    fed = held.feed(gsa_feed(page("b")).removesuffix("</gsafeed>\n"), feedtype="full")
    assert (held.pages(), fed.status, fed.details) == (
        ["a"],
        Status.FAILED,
        (
            "ProcessFeed: parsing error: Line number: 8: the end of the stream; expected"
            " </gsafeed>: more records may have followed",
        ),
    )


def test_an_incremental_feed_without_its_end_goes_in_as_far_as_it_goes(held: Rehearsal) -> None:
    fed = held.feed(gsa_feed(page("a"), page("b"))[:-40])
    assert (held.pages(), fed.status) == (["a"], Status.WITH_ERRORS)


def test_malformed_records_of_a_full_feed_do_not_take_others_with_them(held: Rehearsal) -> None:
    fed = held.feed(gsa_feed(page("a"), page("b", "x & y"), page("c")), feedtype="full")
    assert (held.pages(), fed.included, fed.in_error) == (["a", "c"], 2, 1)


def test_a_file_that_is_gone_is_the_status_of_its_delivery(held: Rehearsal) -> None:
    delivery = held.write(gsa_feed(page("a")), datasource="sample", feedtype="full")
    (held.spool / "001.xml").unlink()
    fed = held.apply(delivery)
    assert (fed.status, fed.details) == (
        Status.FAILED,
        ("001.xml: No such file or directory; expected the file of the delivery",),
    )


def test_a_defect_sets_its_delivery_aside(held: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Iterator[object]:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("pipelines.serve.rehearsal.index.digest", broken)
    fed = held.feed(gsa_feed(page("a")))
    assert (fed.status, fed.details) == (
        Status.SET_ASIDE,
        ("Internal Error: ZeroDivisionError('division by zero')",),
    )


def test_an_index_that_cannot_be_written_is_no_fault_of_the_delivery(held: Rehearsal) -> None:
    delivery = held.write(gsa_feed(page("a")), datasource="sample", feedtype="full")
    with closing(sqlite3.connect(held.spool / "index.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        held.index._writer.execute("PRAGMA busy_timeout = 1")
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            held.index.apply(delivery, held.spool)
    assert held.index.applied == 0


def test_pages_are_in_the_order_of_the_utf_8_of_urls(held: Rehearsal) -> None:
    held.feed(gsa_feed(page("é"), page("b"), page("Z"), page("\U0001f600"), page("\uffee")))
    assert held.pages() == ["Z", "b", "é", "\uffee", "\U0001f600"]


def test_a_page_ends_at_its_limit(held: Rehearsal) -> None:
    held.feed(gsa_feed(page("a"), page("b"), page("c")))
    assert [one.url for one in held.index.documents(limit=2)] == [f"{HOST}a", f"{HOST}b"]


def test_the_next_page_begins_behind_an_url(held: Rehearsal) -> None:
    held.feed(gsa_feed(page("a"), page("b"), page("c")))
    found = held.index.documents(after=f"{HOST}a", limit=1)
    assert [one.url for one in found] == [f"{HOST}b"]


def test_a_page_does_not_part_an_url_that_profiles_share(held: Rehearsal) -> None:
    held.send(item("I", "a"), item("I", "b"), profile="first")
    held.send(item("I", "b"), profile="second")
    found = held.index.documents(limit=2)
    assert [(one.url, one.datasource) for one in found] == [
        (f"{HOST}a", "first"),
        (f"{HOST}b", "first"),
        (f"{HOST}b", "second"),
    ]


def test_documents_of_one_datasource_can_be_asked_for(held: Rehearsal) -> None:
    held.feed(gsa_feed(page("a")), datasource="first")
    held.feed(gsa_feed(page("b")), datasource="second")
    found = held.index.documents(datasource="second")
    assert [one.url for one in found] == [f"{HOST}b"]


def test_documents_that_begin_alike_can_be_asked_for(held: Rehearsal) -> None:
    held.feed(gsa_feed(page("dir"), page("dir/a"), page("dir/%"), page("dir0")))
    found = held.index.documents(prefix=f"{HOST}dir/")
    assert [one.url for one in found] == [f"{HOST}dir/%", f"{HOST}dir/a"]


def test_an_empty_prefix_asks_for_all(held: Rehearsal) -> None:
    held.feed(gsa_feed(page("a")))
    assert len(held.index.documents(prefix="")) == 1


def test_totals_follow_each_delivery(held: Rehearsal) -> None:
    held.feed(gsa_feed(page("a")))
    before = held.index.totals()[0].documents
    held.feed(gsa_feed(page("b")))
    assert (before, held.index.totals()[0].documents) == (1, 2)


def test_a_document_is_held_or_not(held: Rehearsal) -> None:
    held.send(item("I", "a"), profile="intranet")
    answers = [
        held.index.holds(f"{HOST}a", profile="intranet"),
        held.index.holds(f"{HOST}a", profile="other"),
        held.index.holds(f"{HOST}a"),
    ]
    assert answers == [True, False, False]


def test_what_a_pattern_names_is_counted_in_its_profile(held: Rehearsal) -> None:
    held.send(item("I", "dir/a"), item("I", "dir/b"), item("I", "c"), profile="intranet")
    held.send(item("I", "dir/a"), profile="other")
    assert held.index.count_fitting(f"{HOST}dir/*", profile="intranet") == 2


def test_a_file_that_is_no_index_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    path.write_bytes(b"not a database, but long enough to be looked at" * 99)
    with pytest.raises(ConfigError) as caught:
        Index(path)
    assert str(caught.value) == (
        f"{path}: file is not a database; expected an index of version 3; remove it, and it is made"
        " again of what was delivered"
    )


def test_a_database_of_others_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE documents (url TEXT)")
    with pytest.raises(ConfigError) as caught:
        Index(path)
    assert str(caught.value) == (
        f"{path}: something else, or of another version; expected an index of version 3; remove"
        " it, and it is made again of what was delivered"
    )


def test_an_index_that_cannot_be_written_is_not_called_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_WAIT_SECONDS", 0)
    path = tmp_path / "index.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ConfigError) as caught:
            Index(path)
    assert str(caught.value) == (
        f"{path}: database is locked; expected a folder where it can be written"
    )


def test_an_index_needs_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "index.db"
    with pytest.raises(ConfigError) as caught:
        Index(path)
    assert str(caught.value) == (
        f"{path}: unable to open database file; expected a folder where it can be written"
    )


def test_a_large_feed_takes_no_more_memory_than_a_small_one(held: Rehearsal) -> None:
    held.feed(gsa_feed(page("a")))
    contents = "x" * 100_000
    delivery = held.write(
        gsa_feed(*(page(f"{number}", contents) for number in range(300))),
        datasource="sample",
        feedtype="full",
    )
    tracemalloc.start()
    held.index.apply(delivery, held.spool)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12_000_000 < delivery.bytes


def test_data_is_applied_in_order(held: Rehearsal) -> None:
    held.send(item("I", "a"), item("D", "a"), item("I", "b"))
    assert held.pages() == ["b"]


def test_metadata_of_a_wide_range_survives(held: Rehearsal) -> None:
    held.feed(gsa_feed(page("a", inner=metadata(x="\U0001f600 &amp; &lt;"))))
    assert held.document("a").metadata[0].value == "\U0001f600 & <"


class Step(NamedTuple):
    """A feed of a datasource: a page and its content, no content as "", a deletion as None."""

    datasource: str
    feedtype: str
    records: list[tuple[str, str | None]]


class Kept(NamedTuple):
    """What a model has of a page."""

    datasource: str
    content: str | None


Model = dict[str, Kept]

DIGESTS: dict[str | None, tuple[int | None, str | None]] = {
    None: (None, None),
    "x": (1, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"),
    "yy": (2, "ef90d9c1ec76b1edc9edfaf2c0c05359c10ccc49ae8ecf7b7fd25ce9c02e86a4"),
}


def steps() -> SearchStrategy[list[Step]]:
    names, contents = st.sampled_from("abcde"), st.none() | st.sampled_from(("", "x", "yy"))
    records = st.lists(st.tuples(names, contents), max_size=6)
    step = st.builds(
        Step, st.sampled_from(("s", "t")), st.sampled_from(("full", "incremental")), records
    )
    return st.lists(step, max_size=6)


def markup_of(step: Step) -> str:
    return gsa_feed(*(record(name, content) for name, content in step.records))


def record(name: str, content: str | None) -> str:
    return gone(name) if content is None else page(name, content or None)


def expected_of(found: list[Step]) -> dict[str, tuple[object, ...]]:
    """What the guide says of feeds, in plain dicts."""
    model = reduce(after_step, found, Model())
    return {name: (one.datasource, *DIGESTS[one.content]) for name, one in model.items()}


def after_step(model: Model, step: Step) -> Model:
    left = {
        name: one
        for name, one in model.items()
        if step.feedtype == "incremental" or one.datasource != step.datasource
    }
    for name, content in step.records:
        owner, before = left.get(name, Kept(step.datasource, None))
        if content is not None:
            left[name] = Kept(step.datasource, content or before)
        elif owner == step.datasource:
            left.pop(name, None)
    return left


def held_after(found: list[Step], *, checks: int | None = None) -> dict[str, tuple[object, ...]]:
    """What an index holds; each delivery is stopped after so many checks, and then applied."""
    with tempfile.TemporaryDirectory() as folder:
        held = Rehearsal(Path(folder))
        with closing(held.index):
            for step in found:
                delivery = held.write(
                    markup_of(step), datasource=step.datasource, feedtype=step.feedtype
                )
                if checks is not None:
                    stop_after(held, delivery, checks)
                held.apply(delivery)
            return {
                one.url.removeprefix(HOST): (one.datasource, one.bytes, one.sha256)
                for one in held.index.documents()
            }


def stop_after(held: Rehearsal, delivery: Delivery, checks: int) -> None:
    answers = iter([False] * checks)
    with suppress(Interrupted):
        held.index.apply(delivery, held.spool, stopping=lambda: next(answers, True))


@settings(max_examples=40)
@given(steps())
def test_any_feeds_leave_what_a_plain_model_has(found: list[Step]) -> None:
    assert held_after(found) == expected_of(found)


@settings(max_examples=30)
@given(steps(), st.integers(0, 9))
def test_interrupted_feeds_leave_what_whole_ones_do(found: list[Step], checks: int) -> None:
    assert held_after(found, checks=checks) == expected_of(found)


def test_a_defect_costs_one_record_of_a_delivery(
    held: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in(monkeypatch, FAULTS["gsa-feed"])
    fed = held.feed(gsa_feed(page("a"), page(MARK), page("b")))
    assert (held.pages(), fed.included, fed.in_error) == (["a", "b"], 2, 1)
    assert "a defect of feedferry: KeyError in " in fed.details[0]


def test_a_defect_in_the_index_costs_one_record_of_a_delivery(
    held: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_at(
        monkeypatch,
        "pipelines.serve.rehearsal.documents:_Feed._change_document",
        lambda self, record: MARK in record.url,
    )
    fed = held.feed(gsa_feed(page("a"), page(MARK), page("b")))
    assert (held.pages(), fed.included, fed.in_error) == (["a", "b"], 2, 1)


def test_a_defect_in_the_index_costs_one_group_of_a_delivery(
    held: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_at(
        monkeypatch, "pipelines.serve.rehearsal.groups._columns", lambda member: member.name == MARK
    )
    fed = held.groups(xmlgroups(membership("x", "anna", MARK), membership("y", "ben")))
    assert [group.name for group in held.index.groups()] == ["y"]
    assert (fed.included, fed.in_error) == (1, 1)


def test_an_index_of_the_version_before_is_made_one_of_this(tmp_path: Path) -> None:
    first = Rehearsal(tmp_path)
    with closing(first.index):
        first.feed(gsa_feed(page("a")))
    with closing(sqlite3.connect(tmp_path / "index.db")) as old:
        old.execute("DROP INDEX deliveries_by_status")
        old.execute("ALTER TABLE deliveries DROP COLUMN attempts")
        old.execute("PRAGMA user_version = 2")
        old.commit()
    second = Rehearsal(tmp_path)
    with closing(second.index):
        second.apply(second.write("", datasource="sample"))  # the ordinal of the first
        second.feed(gsa_feed(page("b")))
        assert second.pages() == ["a", "b"]
