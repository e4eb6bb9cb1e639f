"""What a rehearsal appliance holds after feeds and data of every kind."""

import zlib

import pybase64
import pytest
from msgspec.structs import replace

from feedferry.pipelines.serve.rehearsal.delivery_table import DeliveryStatus
from feedferry.pipelines.serve.rehearsal.index import DatasourceTotal
from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.indexed_document import DocumentOrigin, IndexedDocument
from feedferry.schemas.record import Arrival, Meta
from support.rehearsal import HOST, Rehearsal, acl, gone, gsa_feed, item, metadata, page

TEXT = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"
"""The digest of `text`."""

JOE = Acl(principals=(Principal(name="joe", scope=Scope.USER, access=Access.PERMIT),))
JOE_ALONE = replace(JOE, alone=True)


def test_a_document_is_held_with_all_that_a_feed_says_of_it(rehearsal: Rehearsal) -> None:
    more = (
        ' displayurl="http://show.example.com/a" lock="true" pagerank="96"'
        ' last-modified="Tue, 15 Nov 1994 12:45:26 GMT"'
    )
    inner = (
        '<acl inheritance-type="and-both-permit" inherit-from="http://www.example.com/">'
        '<principal scope="group" access="deny">sales</principal></acl>'
        + metadata(author="Ann", topic="gears")
    )
    rehearsal.feed(gsa_feed(page("a", inner=inner, more=more)))
    assert rehearsal.document("a") == IndexedDocument(
        url="http://www.example.com/a",
        datasource="sample",
        kind=DocumentOrigin.FEED,
        arrival=Arrival.PUSHED,
        mimetype="text/plain",
        bytes=4,
        sha256=TEXT,
        metadata=(Meta("author", "Ann"), Meta("topic", "gears")),
        acl=Acl(
            inheritance=Inheritance.AND_BOTH_PERMIT,
            inherit_from="http://www.example.com/",
            principals=(Principal(name="sales", scope=Scope.GROUP, access=Access.DENY),),
        ),
        fields={
            "modified": "1994-11-15T12:45:26Z",
            "display_url": "http://show.example.com/a",
            "lock": True,
            "pagerank": 96,
        },
        searchable=True,
        feed=1,
    )


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("base64binary", pybase64.b64encode(b"text").decode()),
        ("base64compressed", pybase64.b64encode(zlib.compress(b"text")).decode()),
    ],
)
def test_the_digest_is_that_of_the_document_itself(
    rehearsal: Rehearsal, encoding: str, content: str
) -> None:
    body = f'<content encoding="{encoding}">{content}</content>'
    rehearsal.feed(gsa_feed(page("a", None, inner=body)))
    assert (rehearsal.document("a").bytes, rehearsal.document("a").sha256) == (4, TEXT)


Fed = tuple[str, str, tuple[str, ...]]
"""A feed: its datasource, its feedtype, and its records."""


def feed_all(rehearsal: Rehearsal, feeds: list[Fed]) -> None:
    for datasource, feedtype, records in feeds:
        rehearsal.feed(gsa_feed(*records), datasource=datasource, feedtype=feedtype)


def full(datasource: str, *records: str) -> Fed:
    return datasource, "full", records


def more(datasource: str, *records: str) -> Fed:
    return datasource, "incremental", records


A, B, CRAWLED_A = page("a"), page("b"), page("a", None)
D012 = full("s", page("d0"), page("d1"), page("d2"))
PAGES_AFTER = {
    "incremental": (
        [D012, more("s", page("d3"), page("d1", "new"), gone("d2"))],
        ["d0", "d1", "d3"],
    ),
    "full": ([D012, full("s", page("d0"), page("d7"), page("d10"))], ["d0", "d10", "d7"]),
    "other-datasources": ([full("a", A), full("b", B)], ["a", "b"]),
    "web-is-never-full": ([more("web", CRAWLED_A), full("web", page("b", None))], ["a", "b"]),
    "url-taken-by-another": ([full("a", A), more("b", A), full("a", B)], ["a", "b"]),
    "deleted-by-its-owner": ([full("s", A, B), more("s", gone("a"))], ["b"]),
    "not-deleted-by-another": ([full("a", A), more("b", gone("a"))], ["a"]),
}


@pytest.mark.parametrize(("feeds", "pages"), PAGES_AFTER.values(), ids=PAGES_AFTER)
def test_pages_after_feeds(rehearsal: Rehearsal, feeds: list[Fed], pages: list[str]) -> None:
    feed_all(rehearsal, feeds)
    assert rehearsal.pages() == pages


JOES_A = page("a", inner=acl("joe"))
JOE_ON_A, ANN_ON_A = acl("joe", url="a"), acl("ann", url="a")
ACLS_AFTER = {
    "after": ([full("s", A, JOE_ON_A)], JOE_ALONE),
    "before": ([full("s", JOE_ON_A, A)], JOE_ALONE),
    "crawled": ([full("s", JOE_ON_A), full("web", CRAWLED_A)], JOE_ALONE),
    "replaced": ([full("s", ANN_ON_A, JOES_A)], JOE),
    "gone-with-the-next": ([full("s", ANN_ON_A, JOES_A, A)], None),
}


@pytest.mark.parametrize(("feeds", "expected"), ACLS_AFTER.values(), ids=ACLS_AFTER)
def test_an_acl_that_arrived_alone_stays_until_another_acl_arrives(
    rehearsal: Rehearsal, feeds: list[Fed], expected: Acl | None
) -> None:
    feed_all(rehearsal, feeds)
    document = rehearsal.document("a")
    assert (document.kind, document.acl) == (DocumentOrigin.FEED, expected)


OWNERS_AFTER = {
    "taken": ([full("s", A), full("t", A)], ("t", "PUSHED", TEXT)),
    "named-by-a-web-feed": ([full("s", A), full("web", CRAWLED_A)], ("s", "PUSHED", TEXT)),
    "crawled-before": ([full("web", CRAWLED_A), full("s", A)], ("s", "PUSHED", TEXT)),
    "without-content": ([more("s", CRAWLED_A)], ("s", "PUSHED", None)),
    "refused-later": (
        [full("s", A), more("s", page("a", "new", inner=metadata(x="")))],
        ("s", "PUSHED", TEXT),
    ),
}


@pytest.mark.parametrize(("feeds", "expected"), OWNERS_AFTER.values(), ids=OWNERS_AFTER)
def test_owner_arrival_and_content_after_feeds(
    rehearsal: Rehearsal, feeds: list[Fed], expected: tuple[str, str, str | None]
) -> None:
    feed_all(rehearsal, feeds)
    document = rehearsal.document("a")
    arrival = document.arrival.value if document.arrival else ""
    assert (document.datasource, arrival, document.sha256) == expected


@pytest.mark.parametrize(
    ("kinds", "is_searchable"), [("I", False), ("I UI", True), ("I UI I", False), ("I UI U", True)]
)
def test_data_is_searchable_after_an_update_of_the_indexes_of_its_profile(
    rehearsal: Rehearsal, kinds: str, is_searchable: bool
) -> None:
    rehearsal.send(item("I", "b"), profile="other")
    update = "<Item><Type>UI</Type></Item>"
    rehearsal.send(*(update if kind == "UI" else item(kind, "a") for kind in kinds.split()))
    match = {document.datasource: document.searchable for document in rehearsal.index.documents()}
    assert match == {"intranet": is_searchable, "other": False}


def test_an_url_to_be_crawled_is_held_without_content(rehearsal: Rehearsal) -> None:
    rehearsal.feed(gsa_feed(page("a", inner=metadata(x="1"))), feedtype="metadata-and-url")
    assert rehearsal.document("a") == IndexedDocument(
        url="http://www.example.com/a",
        datasource="sample",
        kind=DocumentOrigin.FEED,
        arrival=Arrival.CRAWLED,
        metadata=(Meta("x", "1"),),
        searchable=True,
        feed=1,
    )


def test_a_web_feed_gives_metadata_to_a_document_of_a_content_feed(rehearsal: Rehearsal) -> None:
    rehearsal.feed(gsa_feed(page("a", inner=metadata(x="1"))), datasource="first")
    rehearsal.feed(
        gsa_feed(page("a", None, inner=metadata(y="2"))),
        datasource="second",
        feedtype="metadata-and-url",
    )
    assert rehearsal.document("a").metadata == (Meta("y", "2"),)


def test_record_without_content_keeps_unstated_fields(rehearsal: Rehearsal) -> None:
    rehearsal.feed(gsa_feed(page("a", inner=acl("joe") + metadata(x="1"), more=' lock="true"')))
    rehearsal.feed(gsa_feed(page("a", None, more=' pagerank="70"')))
    document = rehearsal.document("a")
    assert (document.acl, document.metadata, document.fields) == (
        JOE,
        (Meta("x", "1"),),
        {"lock": True, "pagerank": 70},
    )


def test_a_document_with_content_replaces_all_of_the_old_one(rehearsal: Rehearsal) -> None:
    rehearsal.feed(gsa_feed(page("a", inner=acl("joe") + metadata(x="1"), more=' lock="true"')))
    rehearsal.feed(gsa_feed(page("a")))
    document = rehearsal.document("a")
    assert (document.acl, document.metadata, document.fields) == (None, (), {})


def test_an_empty_metadata_value_costs_its_record(rehearsal: Rehearsal) -> None:
    markup = gsa_feed(page("a", inner='<metadata><meta name="Tags" content=""/></metadata>'))
    fed = rehearsal.feed(markup)
    assert (fed.status, fed.included, fed.in_error) == (DeliveryStatus.FAILED, 0, 1)
    assert fed.details == (
        "Skipping the record, Line number: 6, Error: Element record content does not follow the"
        " DTD, Misplaced metadata",
    )


def test_a_full_feed_cannot_have_metadata_without_content(rehearsal: Rehearsal) -> None:
    fed = rehearsal.feed(gsa_feed(page("a", None, inner=metadata(x="1"))), feedtype="full")
    assert fed.details == (
        "Skipping the record, Line number: 6, Error: metadata without content in a full feed;"
        " expected content, or incremental",
    )


def test_acl_may_arrive_alone_for_a_folder(rehearsal: Rehearsal) -> None:
    rehearsal.feed(gsa_feed(acl("joe", url="folder/")))
    assert rehearsal.document("folder/") == IndexedDocument(
        url="http://www.example.com/folder/",
        datasource="sample",
        kind=DocumentOrigin.ACL,
        acl=JOE_ALONE,
        searchable=False,
        feed=1,
    )


def test_an_acl_of_another_datasource_does_not_take_the_document(rehearsal: Rehearsal) -> None:
    feed_all(rehearsal, [more("first", A), more("second", JOE_ON_A)])
    assert rehearsal.document("a").datasource == "first"


def test_the_deletion_of_an_acl_leaves_the_document_and_its_acl(rehearsal: Rehearsal) -> None:
    deletion = f'</group><group action="delete">{acl("joe", url="a")}{acl("joe", url="folder/")}'
    rehearsal.feed(gsa_feed(page("a", inner=acl("joe")), acl("joe", url="folder/"), deletion))
    assert [(document.url, document.acl) for document in rehearsal.index.documents()] == [
        (f"{HOST}a", JOE)
    ]


def test_data_is_held_with_all_that_its_item_says(rehearsal: Rehearsal) -> None:
    inner = (
        "<Title>Gears</Title><Body>text</Body><Keywords>a, b</Keywords><Description>d</Description>"
        "<Meta>author: Ann</Meta><Category>Mechanical</Category><Modified>2005-10-25 11:21:07"
        "</Modified><MimeType>text/html</MimeType>"
        '<u:Color xmlns:u="http://www.thunderstone.com/ParametricSearch/1.0/"><value>Red</value>'
        "<value>Blue</value></u:Color>"
    )
    rehearsal.send(item("I", "a", inner))
    assert rehearsal.document("a") == IndexedDocument(
        url="http://www.example.com/a",
        datasource="intranet",
        kind=DocumentOrigin.DATA,
        arrival=Arrival.PUSHED,
        mimetype="text/html",
        bytes=4,
        sha256=TEXT,
        metadata=(Meta("author", "Ann"),),
        fields={
            "title": "Gears",
            "description": "d",
            "keywords": "a, b",
            "modified": "2005-10-25T11:21:07Z",
            "categories": ["Mechanical"],
            "u:Color": ["Red", "Blue"],
        },
        searchable=False,
        feed=1,
    )


def test_raw_data_is_the_content_that_is_digested(rehearsal: Rehearsal) -> None:
    raw = '<Body>summary</Body><RawData dt:dt="bin.base64">dGV4dA==</RawData>'
    rehearsal.send(item("I", "a", raw))
    assert (rehearsal.document("a").bytes, rehearsal.document("a").sha256) == (4, TEXT)


def test_an_update_leaves_unspecified_fields_unchanged(rehearsal: Rehearsal) -> None:
    rehearsal.send(item("I", "a", "<Title>Old</Title><Keywords>k</Keywords><Body>text</Body>"))
    rehearsal.send(item("U", "a", "<Title>New</Title>"))
    document = rehearsal.document("a")
    assert (document.sha256, document.fields) == (TEXT, {"title": "New", "keywords": "k"})


def test_a_deletion_removes_the_document_of_its_profile_only(rehearsal: Rehearsal) -> None:
    rehearsal.send(item("I", "a"), profile="first")
    rehearsal.send(item("I", "a"), profile="second")
    rehearsal.send(item("D", "a"), profile="first")
    assert [document.datasource for document in rehearsal.index.documents()] == ["second"]


def test_feeds_and_profiles_have_urls_of_their_own(rehearsal: Rehearsal) -> None:
    rehearsal.feed(gsa_feed(page("a")), datasource="intranet")
    rehearsal.send(item("I", "a"), profile="intranet")
    assert [document.kind for document in rehearsal.index.documents()] == [
        DocumentOrigin.FEED,
        DocumentOrigin.DATA,
    ]


@pytest.mark.parametrize("pattern", ["http://www.example.com/*", "*", "http://*", "  *  "])
def test_a_pattern_of_a_whole_host_is_refused(rehearsal: Rehearsal, pattern: str) -> None:
    rehearsal.send(item("I", "a"))
    rehearsal.send(f"<Item><Type>DP</Type><Url>{pattern}</Url></Item>")
    assert rehearsal.pages() == ["a"]


def test_documents_refused_by_a_scenario_are_not_indexed(rehearsal: Rehearsal) -> None:
    fed = rehearsal.send(item("I", "a"), item("I", "b"), refused=(f"{HOST}a",))
    assert (rehearsal.pages(), fed.details) == (
        ["b"],
        ("Skipping the record, Line number: 2, Error: refused by the scenario",),
    )


def test_totals_count_documents_acls_and_bytes(rehearsal: Rehearsal) -> None:
    rehearsal.feed(gsa_feed(page("a"), page("b"), acl("joe", url="folder/")), datasource="first")
    rehearsal.feed(gsa_feed(page("c", None)), datasource="web")
    rehearsal.send(
        item("I", "a", "<Body>text</Body>"), "<Item><Type>UI</Type></Item>", item("I", "b")
    )
    assert rehearsal.index.totals() == [
        DatasourceTotal(datasource="first", kind=DocumentOrigin.FEED, documents=2, acls=1, bytes=8),
        DatasourceTotal(
            datasource="intranet", kind=DocumentOrigin.DATA, documents=2, unsearchable=1, bytes=4
        ),
        DatasourceTotal(datasource="web", kind=DocumentOrigin.FEED, documents=1, crawled=1),
    ]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a/?", ["a/b"]),
        ("a/*c", ["a/bc"]),
        ("*//www.example.com/a/b?", ["a/bc"]),
        ("a/[x]*", ["a/[x]y"]),
        ("A/*", []),
    ],
)
def test_a_pattern_matches_any_text_or_one_character(
    rehearsal: Rehearsal, pattern: str, expected: list[str]
) -> None:
    names = ["a/b", "a/bc", "a/[x]y", "other"]
    rehearsal.send(*(item("I", name) for name in names))
    url = pattern if pattern.startswith("*") else HOST + pattern
    rehearsal.send(f"<Item><Type>DP</Type><Url>{url}</Url></Item>")
    assert sorted(set(names) - set(rehearsal.pages())) == expected


def test_a_pattern_that_is_too_long_is_refused(rehearsal: Rehearsal) -> None:
    row = rehearsal.send(item("DP", "a/*" + "b" * 10_000), item("I", "c"))
    assert (rehearsal.pages(), row.in_error) == (["c"], 1)
    assert row.details[0].endswith("a pattern of 10026 characters; expected at most 10000")


def test_many_wildcards_do_not_make_a_deletion_slow(rehearsal: Rehearsal) -> None:
    rehearsal.send(item("I", "a" * 2000))
    assert rehearsal.index.count_matching(f"{HOST}{'a*' * 500}b", profile="intranet") == 0
