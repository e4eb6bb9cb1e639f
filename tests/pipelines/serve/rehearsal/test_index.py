"""The rehearsal index: whole deliveries, crashes, totals, and a plain model of feeds."""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from feedferry.pipelines.serve.rehearsal import index as index_module
from feedferry.pipelines.serve.rehearsal.delivery_table import DeliveryStatus, FeedRow
from feedferry.pipelines.serve.rehearsal.index import Index
from feedferry.pipelines.serve.worker_process import SetAsideError
from feedferry.schemas.errors import ConfigError, ProgressError
from feedferry.testing.defects import break_at, put_in
from kits import KITS
from kits.base import MARK
from support.rehearsal import (
    DAY,
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

DIGEST_AND_WAIT = """
import sys
from pathlib import Path
from feedferry.schemas.delivery import Delivery
from feedferry.pipelines.serve.rehearsal import index, index_database

index_database._SETTINGS = (*index_database._SETTINGS, "PRAGMA cache_size = 10")
read_changes = index.read_changes

def wait_in_the_middle(*arguments):
    for number, change in enumerate(read_changes(*arguments)):
        if number == 15_000:
            print("digesting", flush=True)
            sys.stdin.read()
        yield change

index.read_changes = wait_in_the_middle
spool = Path(sys.argv[1])
delivery = Delivery(
    ordinal=2, endpoint="xmlfeed", format="gsa-feed", path="002.xml", bytes=0,
    datasource="sample", feedtype="full"
)
rehearsal = index.Index(spool / "index.db")
rehearsal.deliveries.begin(delivery)
rehearsal.digest(delivery, spool)
"""
"""A receiver that stops in the middle of a feed, when a large part is in the file."""

TORN_END = "</group>\n</gsafeed>\n"
PARSING = "ProcessFeed: parsing error"
SKIPPED = "Skipping the record, Line number: 7, Error"
NO_END = "the end of the stream; expected </gsafeed>: more records may have followed"


def test_a_delivery_is_a_row_of_the_page(rehearsal: Rehearsal) -> None:
    markup = gsa_feed(page("a"), page("b", inner=metadata(x="")))
    rehearsal.feed(markup, feedtype="full")
    assert rehearsal.index.deliveries.feed_rows() == [
        FeedRow(
            ordinal=1,
            endpoint="xmlfeed",
            datasource="sample",
            feedtype="full",
            bytes=len(markup),
            at=DAY,
            status=DeliveryStatus.WITH_ERRORS,
            included=1,
            in_error=1,
            details=(
                "Skipping the record, Line number: 7, Error: Element record content does not"
                " follow the DTD, Misplaced metadata",
            ),
            client="127.0.0.1",
            user_agent="curl/7.88.1",
        )
    ]


def test_the_last_feeds_of_each_datasource_and_endpoint_are_newest_first(
    rehearsal: Rehearsal,
) -> None:
    rehearsal.feed(gsa_feed(), datasource="rare")
    for _ in range(6):
        rehearsal.feed(gsa_feed(), datasource="often")
    rehearsal.groups(xmlgroups(), groupsource="often")
    rows = rehearsal.index.deliveries.feed_rows()
    assert [row.ordinal for row in rows] == [8, 7, 6, 5, 4, 3, 1]
    assert [row.ordinal for row in rehearsal.index.deliveries.feed_rows(per_datasource=1)] == [
        8,
        7,
        1,
    ]


def test_a_finished_delivery_is_not_digested_again(rehearsal: Rehearsal) -> None:
    delivery = rehearsal.write(gsa_feed(page("a")), datasource="sample", feedtype="incremental")
    rehearsal.apply(delivery)
    rehearsal.feed(gsa_feed(gone("a")))
    rehearsal.index.digest(delivery, rehearsal.spool)
    assert rehearsal.pages() == []


def test_readers_see_the_state_before_the_current_delivery(
    rehearsal: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsal.feed(gsa_feed(page("a")))
    states: list[list[str]] = []

    def look(*_: object) -> Iterator[object]:
        with Index(rehearsal.index.path, is_made=True) as other:
            states.append([document.url.removeprefix(HOST) for document in other.documents()])
        return iter(())

    monkeypatch.setattr(index_module, "read_changes", look)
    rehearsal.feed(gsa_feed(page("b")), feedtype="full")
    assert states == [["a"]]


@pytest.mark.parametrize(
    ("feed", "feedtype", "pages", "expected"),
    [
        (
            "<html></html>",
            "full",
            ["old"],
            (0, 1, f"{PARSING}: 002.xml:1: root element 'html'; expected <gsafeed>"),
        ),
        (
            gsa_feed(page("a")).removesuffix("</gsafeed>\n"),
            "full",
            ["old"],
            (0, 1, f"{PARSING}: Line number: 8: {NO_END}"),
        ),
        (
            gsa_feed(page("a", "x & y"), page("b", "x & y")),
            "full",
            ["old"],
            (0, 2, f"{PARSING}: none of its 2 records can be read"),
        ),
        (
            gsa_feed(page("a")).removesuffix(TORN_END),
            "incremental",
            ["a", "old"],
            (1, 1, f"{PARSING}, Line number: 7: {NO_END}"),
        ),
        (
            gsa_feed(page("a"), page("b", "x & y"), page("c")),
            "full",
            ["a", "c"],
            (2, 1, f"{SKIPPED}: an & that is not escaped; expected &amp;"),
        ),
    ],
    ids=["no-feed", "torn-full", "unreadable-full", "torn-incremental", "one-record"],
)
def test_damage_costs_a_record_or_a_whole_feed(
    rehearsal: Rehearsal,
    feed: str,
    feedtype: str,
    pages: list[str],
    expected: tuple[int, int, str],
) -> None:
    rehearsal.feed(gsa_feed(page("old")))
    row = rehearsal.feed(feed, feedtype=feedtype)
    status = DeliveryStatus.WITH_ERRORS if row.included else DeliveryStatus.FAILED
    assert (rehearsal.pages(), row.status) == (pages, status)
    assert (row.included, row.in_error, row.details[0]) == expected


def test_the_first_reasons_are_kept_and_truncated(rehearsal: Rehearsal) -> None:
    bad = [page(f"{number}", inner=metadata(x="")) for number in range(8)]
    row = rehearsal.feed(gsa_feed(f'<record url="a" action="{"x" * 5000}"/>', *bad))
    assert (row.in_error, len(row.details)) == (9, 5)
    assert (len(row.details[0]), row.details[0][-12:]) == (1002, "xxxxxxxxxx …")


@pytest.mark.parametrize("defect", [ZeroDivisionError, ProgressError, sqlite3.IntegrityError])
def test_a_defect_sets_its_delivery_aside(
    rehearsal: Rehearsal, monkeypatch: pytest.MonkeyPatch, defect: type[Exception]
) -> None:
    def broken(*_: object) -> Iterator[object]:
        raise defect("a defect")

    monkeypatch.setattr(index_module, "read_changes", broken)
    with pytest.raises(SetAsideError, match="Internal Error: "):
        rehearsal.feed(gsa_feed(page("a")))


def test_a_defect_of_a_reader_costs_one_record(
    rehearsal: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in(monkeypatch, KITS["gsa-feed"])
    row = rehearsal.feed(gsa_feed(page("a"), page(MARK), page("b")))
    assert (rehearsal.pages(), row.included, row.in_error) == (["a", "b"], 2, 1)
    assert "a defect of feedferry: KeyError in " in row.details[0]


def test_a_defect_of_the_index_costs_one_record_or_group(
    rehearsal: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = "feedferry.pipelines.serve.rehearsal"
    break_at(
        monkeypatch,
        f"{package}.documents._change_by_feed",
        lambda delivery, record: MARK in record.url,
    )
    break_at(
        monkeypatch,
        f"{package}.documents.add_group",
        lambda delivery, membership: membership.group.name == MARK,
    )
    row = rehearsal.feed(gsa_feed(page("a"), page(MARK), page("b")))
    assert (rehearsal.pages(), row.included, row.in_error) == (["a", "b"], 2, 1)
    row = rehearsal.groups(xmlgroups(membership(MARK, "anna"), membership("y", "ben")))
    assert (rehearsal.index.groups_count(), row.included, row.in_error) == (1, 1, 1)


def test_a_locked_index_is_not_the_fault_of_the_delivery(tmp_path: Path) -> None:
    rehearsal = Rehearsal(tmp_path)
    delivery = rehearsal.write(gsa_feed(page("a")), datasource="sample", feedtype="full")
    rehearsal.index.deliveries.begin(delivery)
    with (
        closing(rehearsal.index),
        closing(sqlite3.connect(tmp_path / "index.db", isolation_level=None)) as other,
        Index(tmp_path / "index.db", wait_seconds=0) as impatient,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            impatient.digest(delivery, tmp_path)
    assert rehearsal.spool == tmp_path


@pytest.mark.slow
def test_a_large_feed_takes_no_more_memory_than_a_small_one(rehearsal: Rehearsal) -> None:
    rehearsal.feed(gsa_feed(page("a")))
    contents = "x" * 100_000
    records = (page(f"{number}", contents) for number in range(300))
    delivery = rehearsal.write(gsa_feed(*records), datasource="sample", feedtype="full")
    tracemalloc.start()
    rehearsal.apply(delivery)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12_000_000 < delivery.bytes


@pytest.mark.slow
def test_a_receiver_that_is_killed_leaves_the_index_as_it_was(tmp_path: Path) -> None:
    rehearsal = Rehearsal(tmp_path)
    with closing(rehearsal.index):
        rehearsal.feed(gsa_feed(page("a")))
    large = gsa_feed(*(page(f"{number}") for number in range(20_000)))
    delivery = rehearsal.write(large, datasource="sample", feedtype="full")
    arguments = [sys.executable, "-c", DIGEST_AND_WAIT, str(tmp_path)]
    with subprocess.Popen(
        arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"digesting\n"
        os.kill(worker.pid, signal.SIGKILL)
    with Index(tmp_path / "index.db") as index:
        status = index.deliveries.feed_rows()[0].status
        assert [document.url for document in index.documents()] == [f"{HOST}a"]
        assert (index.deliveries.applied, status) == (1, DeliveryStatus.IN_PROGRESS)
        index.digest(delivery, tmp_path)
        assert (index.totals()[0].documents, index.deliveries.applied) == (20_000, 2)


def test_documents_are_in_the_order_of_the_utf_8_of_urls(rehearsal: Rehearsal) -> None:
    rehearsal.feed(gsa_feed(page("é"), page("b"), page("Z"), page("\U0001f600"), page("\uffee")))
    assert rehearsal.pages() == ["Z", "b", "é", "\uffee", "\U0001f600"]


def test_documents_are_read_in_pages(rehearsal: Rehearsal) -> None:
    rehearsal.feed(gsa_feed(page("a"), page("b"), page("c")))
    assert [document.url for document in rehearsal.index.documents(limit=2)] == [
        f"{HOST}a",
        f"{HOST}b",
    ]
    following = rehearsal.index.documents(after=f"{HOST}a", limit=1)
    assert [document.url for document in following] == [f"{HOST}b"]


def test_a_page_has_all_documents_of_its_last_url(rehearsal: Rehearsal) -> None:
    rehearsal.send(item("I", "a"), item("I", "b"), profile="first")
    rehearsal.send(item("I", "b"), profile="second")
    documents = rehearsal.index.documents(limit=2)
    assert [(document.url, document.datasource) for document in documents] == [
        (f"{HOST}a", "first"),
        (f"{HOST}b", "first"),
        (f"{HOST}b", "second"),
    ]


def test_documents_are_selected_by_datasource(rehearsal: Rehearsal) -> None:
    rehearsal.feed(gsa_feed(page("a")), datasource="first")
    rehearsal.feed(gsa_feed(page("b")), datasource="second")
    documents = rehearsal.index.documents(datasource="second")
    assert [document.url for document in documents] == [f"{HOST}b"]


def test_totals_follow_each_delivery(rehearsal: Rehearsal) -> None:
    rehearsal.feed(gsa_feed(page("a")))
    before = rehearsal.index.totals()[0].documents
    rehearsal.feed(gsa_feed(page("b")))
    assert (before, rehearsal.index.totals()[0].documents) == (1, 2)


def test_documents_are_looked_up_and_counted_by_profile(rehearsal: Rehearsal) -> None:
    rehearsal.send(item("I", "dir/a"), item("I", "dir/b"), item("I", "c"), profile="intranet")
    rehearsal.send(item("I", "dir/a"), profile="other")
    assert rehearsal.index.has_document(f"{HOST}c", profile="intranet")
    assert not rehearsal.index.has_document(f"{HOST}c", profile="other")
    assert not rehearsal.index.has_document(f"{HOST}c")
    assert rehearsal.index.count_matching(f"{HOST}dir/*", profile="intranet") == 2


@pytest.mark.parametrize(
    ("feedtype", "expected"),
    [("incremental", 3), ("", 3), ("full", 2), ("replace", 2)],
)
def test_a_feed_appends_or_replaces_the_groups_of_its_source(
    rehearsal: Rehearsal, feedtype: str, expected: int
) -> None:
    rehearsal.groups(xmlgroups(membership("staff", "ann")))
    rehearsal.groups(xmlgroups(membership("staff", "ann")), groupsource="other")
    rehearsal.groups(xmlgroups(membership("sales", "zoe")), feedtype=feedtype)
    assert rehearsal.index.groups_count() == expected


def test_a_cleanup_removes_the_groups_of_its_source(rehearsal: Rehearsal) -> None:
    rehearsal.groups(xmlgroups(membership("staff", "ann")), groupsource="ldap")
    rehearsal.groups(xmlgroups(membership("staff", "ann")), groupsource="ggg")
    row = rehearsal.cleanup("ldap")
    assert (row.status, row.included) == (DeliveryStatus.COMPLETED, 0)
    assert rehearsal.index.groups_count() == 1


def test_an_empty_or_torn_full_feed_and_feeds_of_documents(rehearsal: Rehearsal) -> None:
    rehearsal.groups(xmlgroups(membership("staff", "ann")), groupsource="sample")
    torn = xmlgroups(membership("sales", "zoe")).removesuffix("</xmlgroups>\n")
    row = rehearsal.groups(torn, groupsource="sample", feedtype="full")
    rehearsal.feed(gsa_feed(page("a")), datasource="sample", feedtype="full")
    assert (rehearsal.index.groups_count(), row.status) == (1, DeliveryStatus.FAILED)
    rehearsal.groups(xmlgroups(), groupsource="sample", feedtype="full")
    assert rehearsal.index.groups_count() == 0


def other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE documents (url TEXT)")


def no_database(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to be looked at" * 99)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (no_database, "file is not a database"),
        (other_database, "another database, or another version"),
    ],
)
def test_a_file_that_is_no_index_is_refused(
    tmp_path: Path, write: Callable[[Path], None], words: str
) -> None:
    path = tmp_path / "index.db"
    write(path)
    with pytest.raises(ConfigError) as caught:
        Index(path)
    assert str(caught.value) == (
        f"{path}: {words}; expected a database of version 5; remove the file, and it is made"
        " again: the index from the deliveries, a cluster without documents"
    )


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


def expected_of(results: list[Step]) -> dict[str, tuple[object, ...]]:
    """What the guide says of feeds, in plain dicts."""
    model = reduce(after_step, results, Model())
    return {name: (result.datasource, *DIGESTS[result.content]) for name, result in model.items()}


def after_step(model: Model, step: Step) -> Model:
    left = {
        name: result
        for name, result in model.items()
        if step.feedtype == "incremental" or result.datasource != step.datasource
    }
    for name, content in step.records:
        owner, before = left.get(name, Kept(step.datasource, None))
        if content is not None:
            left[name] = Kept(step.datasource, content or before)
        elif owner == step.datasource:
            left.pop(name, None)
    return left


def indexed_after(results: list[Step]) -> dict[str, tuple[object, ...]]:
    """Return the documents of an index after these feeds."""
    with tempfile.TemporaryDirectory() as folder:
        rehearsal = Rehearsal(Path(folder))
        with closing(rehearsal.index):
            for step in results:
                delivery = rehearsal.write(
                    markup_of(step), datasource=step.datasource, feedtype=step.feedtype
                )
                rehearsal.apply(delivery)
            return {
                document.url.removeprefix(HOST): (
                    document.datasource,
                    document.bytes,
                    document.sha256,
                )
                for document in rehearsal.index.documents()
            }


@pytest.mark.slow
@settings(max_examples=40)
@given(steps())
def test_any_feeds_leave_what_a_plain_model_has(results: list[Step]) -> None:
    assert indexed_after(results) == expected_of(results)
