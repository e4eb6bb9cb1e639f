"""A history of feeds makes the documents that the rehearsal appliance has after it."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.record import Action, Arrival, Content, Provenance, Record, withheld
from feedferry.transforms.compare.differences import fields_of
from feedferry.transforms.compare.events import Event, event_of
from feedferry.transforms.compare.history import Document, FeedHistory
from feedferry.transforms.sinks.push.wire.rehearsal_documents import LISTED_FIELDS, listed_document
from support.feed_histories import PostedFeed, feeds, results
from support.rehearsal import Rehearsal, gsa_feed


def held(history: list[PostedFeed]) -> dict[str, dict[str, object]]:
    """The fields of the documents of a rehearsal appliance after some feeds, by URL."""
    with tempfile.TemporaryDirectory() as folder:
        rehearsal = Rehearsal(Path(folder))
        for feed in history:
            markup = gsa_feed(*feed.records)
            rehearsal.feed(markup, datasource=feed.datasource, feedtype=feed.feedtype)
        listed = FeedHistory()
        documents = map(listed_document, rehearsal.index.documents())
        rehearsal.index.close()
        rows = listed.stored(Event(each.record, each.size, each.sha256) for each in documents)
        return {key.decode(): shown(listed.document([row])) for key, row in rows}


def folded(history: list[PostedFeed]) -> dict[str, dict[str, object]]:
    """The fields of the documents that a history makes, by URL."""
    folding = FeedHistory()
    by_url: dict[str, list[bytes]] = {}
    for key, row in folding.stored(results(history)):
        by_url.setdefault(key.decode(), []).append(row)
    documents = {url: folding.document(rows) for url, rows in by_url.items()}
    return {
        url: shown(document)
        for url, document in documents.items()
        if document is not None and not document.is_deleted
    }


def shown(document: Document | None) -> dict[str, object]:
    assert document is not None
    return {
        name: value
        for name, value in fields_of(document).items()
        if name.partition(":")[0] in LISTED_FIELDS
    }


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.lists(feeds(), min_size=1, max_size=4))
def test_a_history_makes_the_documents_of_a_rehearsal_appliance(history: list[PostedFeed]) -> None:
    assert folded(history) == held(history)


@pytest.mark.parametrize(
    ("until_acl", "readers"), [(False, ["", "", "public"]), (True, ["", "bob", "bob"])]
)
def test_a_withheld_document_is_shown_by_its_next_version(
    until_acl: bool, readers: list[str]
) -> None:
    at, url = Provenance(datasource="docs"), "http://a.example.com/"
    bob = Principal(name="bob", scope=Scope.USER, access=Access.PERMIT)
    version = Record(url=url, action=Action.ADD, content=Content(b"text"), provenance=at)
    alone = Acl(principals=(bob,), alone=True)
    history = [
        version,
        withheld(url, at, until_acl=until_acl),
        Record(url=url, action=Action.UPDATE, acl=alone, provenance=at),
        version,
    ]
    found = []
    for count in (2, 3, 4):
        folding = FeedHistory()
        rows = [row for _, row in folding.stored(history[:count])]
        document = folding.document(rows)
        assert document is not None
        assert document.record is not None
        acl = document.record.acl
        found.append("public" if acl is None else "".join(one.name for one in acl.principals))
    assert found == readers


@pytest.mark.parametrize(
    ("arrival", "size"), [(Arrival.PUSHED, 4), (Arrival.CRAWLED, None)], ids=["pushed", "crawled"]
)
def test_a_content_of_the_datasource_web_is_compared_unless_the_appliance_crawls_it(
    arrival: Arrival, size: int | None
) -> None:
    at = Provenance(datasource="web", feedtype="incremental")
    record = Record(
        url="http://a.example.com/",
        action=Action.ADD,
        arrival=arrival,
        content=Content(b"text"),
        mimetype="text/plain",
        provenance=at,
    )
    event = event_of(record)
    assert event.record is not None
    assert (event.size, event.record.mimetype) == (size, "text/plain" if size else None)
