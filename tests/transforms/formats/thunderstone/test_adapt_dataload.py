"""The adaptation of records to Thunderstone Items: each rule, and each message in full."""

from datetime import UTC, datetime

import pytest

from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.record import (
    Action,
    Anchor,
    Arrival,
    Authmethod,
    Content,
    Crawl,
    Encoding,
    Extra,
    Field,
    History,
    Meta,
    Record,
    Scoring,
)
from feedferry.schemas.reject import Filtered, Reject
from feedferry.transforms.formats import DataloadOptions
from feedferry.transforms.rules.adapt import Target, adapt
from support.adaptation import COLOUR, URL, adapted, document, lost, make

TARGET = Target(format="thunderstone")
NAMED = Target(
    format="thunderstone",
    own=(DataloadOptions(fields=(("Colour", "Color"), ("title", "Caption"))),),
)
ACL = Acl(
    principals=(
        Principal(name="joe", scope=Scope.USER, access=Access.PERMIT),
        Principal(name="eng", scope=Scope.GROUP, access=Access.PERMIT),
    )
)


def text(**stated: object) -> Record:
    return document(**({"mimetype": "text/plain"} | stated))


def as_body(body: str, **stated: object) -> Record:
    """The plain text of a document in the element for it."""
    return text(**({"content": None, "body": body, "charset": "UTF-8"} | stated))


@pytest.mark.parametrize(
    "record",
    [
        document(),
        document(content=None, body="Plan", charset="ISO-8859-1"),
        document(body="Plan"),
        document(
            size=4,
            title="Plan",
            description="",
            keywords="a, b",
            categories=("Roads",),
            metadata=(COLOUR, COLOUR, Meta("", "no name"), Meta("e", "")),
            fields=(Field("Size", ("1", "2"), True, "urn:x"),),
            modified=datetime(2007, 11, 6, tzinfo=UTC),
            visited=datetime(2007, 11, 7, tzinfo=UTC),
            next_check=datetime(2007, 11, 8, tzinfo=UTC),
            history=History(depth=0, errors=("404",)),
            extras=(Extra("Item/rid", "<rid>1</rid>"),),
        ),
        make(action=Action.UPDATE, arrival=Arrival.PUSHED, title="P"),
        make(action=Action.DELETE),
        # content that is not plain text in UTF-8 stays RawData
        text(content=Content(b"UGxhbg==", Encoding.BASE64)),
        text(content=Content(b"eJw=", Encoding.ZLIB_BASE64)),
        text(content=Content(b"Pl\xe4ne")),
        text(charset="ISO-8859-1"),
        text(body="Plan"),
        text(mimetype=None),
        # metadata does not replace the same element
        document(title="", metadata=(Meta("title", "Plan"),)),
        document(categories=("Roads",), metadata=(Meta("category", "Plans"),)),
    ],
)
def test_a_record_that_an_item_holds_is_unchanged(record: Record) -> None:
    assert adapt(record, TARGET) == ((record,), ())


@pytest.mark.parametrize(
    ("record", "kept"),
    [
        (text(content=Content("Pl\u00e4ne".encode())), as_body("Pl\u00e4ne")),
        (text(mimetype="text/plain; x=y"), as_body("<p>Plan</p>", mimetype="text/plain; x=y")),
        (text(charset="utf-8"), as_body("<p>Plan</p>")),
        (document(arrival=None), document()),
        (document(arrival=Arrival.CRAWLED), document()),
        (
            document(
                metadata=(
                    *(Meta("Title", "Plan"), COLOUR, Meta("DESCRIPTION", "A plan")),
                    *(Meta("keywords", "a, b"), Meta("category", "Roads")),
                    Meta("Category", "Plans"),
                )
            ),
            document(
                title="Plan",
                description="A plan",
                keywords="a, b",
                categories=("Roads", "Plans"),
                metadata=(COLOUR,),
            ),
        ),
        (
            document(metadata=(Meta("title", "Plan"), Meta("title", "Map"))),
            document(title="Plan", metadata=(Meta("title", "Map"),)),
        ),
    ],
)
def test_content_and_metadata_move_to_their_elements(record: Record, kept: Record) -> None:
    assert adapt(record, TARGET) == ((kept,), ())


def test_text_over_the_limit_stays_raw_data() -> None:
    target = Target(format="thunderstone", max_content_bytes=10)

    assert adapt(text(), target) == ((text(),), ())


@pytest.mark.parametrize(
    ("record", "kept"),
    [
        (
            document(
                metadata=(COLOUR, Meta("Title", "Plan"), Meta("COLOUR", "blue"), Meta("size", "1"))
            ),
            document(
                fields=(Field("Color", ("red", "blue"), True), Field("Caption", ("Plan",))),
                metadata=(Meta("size", "1"),),
            ),
        ),
        (
            document(fields=(Field("Color", ("green",)),), metadata=(COLOUR,)),
            document(fields=(Field("Color", ("green",)),), metadata=(COLOUR,)),
        ),
    ],
)
def test_named_metadata_becomes_fields_unless_the_record_has_them(
    record: Record, kept: Record
) -> None:
    assert adapt(record, NAMED) == ((kept,), ())


@pytest.mark.parametrize(
    ("meta", "kept", "detail"),
    [
        (Meta("title", "", b"\xff\xfe"), None, "'title', 2 bytes that are no text"),
        (
            Meta("address", "Road 1\r\nTown\nLand"),
            Meta("address", "Road 1 Town Land"),
            "line ends in the value of 'address' written as spaces",
        ),
        *(
            (Meta(name, "1"), Meta(written, "1"), f"name {name!r} written as {written!r}")
            for name, written in (
                *(("dc:  date", "dc:date"), ("dc:\ndate", "dc:date"), ("dc\ndate", "dc date")),
            )
        ),
    ],
)
def test_metadata_that_does_not_fit_on_a_line_is_changed(
    meta: Meta, kept: Meta | None, detail: str
) -> None:
    metadata = (COLOUR,) if kept is None else (kept, COLOUR)
    expected = document(metadata=metadata), [f"metadata: {detail}"]
    assert adapted(document(metadata=(meta, COLOUR)), TARGET) == expected


@pytest.mark.parametrize(
    ("stated", "losses"),
    [
        ({"acl": ACL}, ["acl: 2 principals"]),
        ({"acl": Acl(inherit_from="x")}, ["acl: 0 principals, inherits from 'x'"]),
        (
            {"acl": Acl(inherit_from="x"), "crawl": Crawl(authmethod=Authmethod.NTLM)},
            ["acl: 0 principals, inherits from 'x'", "authmethod: NTLM"],
        ),
        (
            {"crawl": Crawl(authmethod=Authmethod.HTTPSSO)},
            ["acl: none, but the authmethod HTTPSSO", "authmethod: HTTPSSO"],
        ),
        ({"crawl": Crawl(secure=True)}, ["acl: none, but the document is secure", "secure: true"]),
        ({"crawl": Crawl(authmethod=Authmethod.NONE)}, []),
        ({"crawl": Crawl(secure=False)}, []),
        ({"crawl": Crawl(lock=True)}, ["lock: true"]),
        ({"crawl": Crawl(crawl_immediately=True)}, ["crawl-immediately: true"]),
        ({"crawl": Crawl(crawl_once=True)}, ["crawl-once: true"]),
        ({"crawl": Crawl(pagerank=96)}, ["pagerank: 96"]),
        ({"crawl": Crawl(feedrank=5)}, ["feedrank: 5"]),
        ({"crawl": Crawl(scoring=Scoring.CONTENT)}, ["scoring: CONTENT"]),
        ({"crawl": Crawl(no_index=True)}, ["no-index: true"]),
        ({"crawl": Crawl(no_follow=True)}, ["no-follow: true"]),
        ({"crawl": Crawl(no_archive=True)}, ["no-archive: true"]),
        ({"crawl": Crawl(display_url="http://a/")}, ["display-url: 'http://a/'"]),
        ({"crawl": Crawl(anchors=(Anchor("a:", "b"), Anchor("c:", "d")))}, ["anchors: 2"]),
        ({"overwrite_acls": False}, ["overwrite-acls: false"]),
        (
            {"extras": (Extra("record/@x", ""), Extra("group/@y", ""))},
            ["extras: record/@x, group/@y"],
        ),
    ],
)
def test_a_field_without_an_element_is_a_loss(stated: dict[str, object], losses: list[str]) -> None:
    assert adapted(document(**stated), TARGET) == (document(), losses)


@pytest.mark.parametrize("arrival", [None, Arrival.CRAWLED])
def test_an_acl_alone_is_filtered_and_a_loss(arrival: Arrival | None) -> None:
    record = make(arrival=arrival, acl=Acl(principals=ACL.principals, alone=True))

    assert adapt(record, TARGET) == (
        (Filtered(code="acl-alone", url=URL, action="ADD"),),
        (lost("acl", "2 principals"),),
    )


def test_a_deletion_loses_nothing() -> None:
    record = make(
        action=Action.DELETE, mimetype="text/plain", acl=ACL, crawl=Crawl(lock=True, pagerank=96)
    )

    assert adapt(record, TARGET) == ((make(action=Action.DELETE, mimetype="text/plain"),), ())


def test_a_url_to_be_crawled_is_rejected() -> None:
    reason = (
        "a URL to be crawled; expected a document, as thunderstone has no such URLs; the crawler"
        " takes them as a list"
    )

    assert adapt(make(arrival=Arrival.CRAWLED, title="Plan"), TARGET) == (
        (Reject(code="crawled", reason=reason, stage="adapt", url=URL, action="ADD"),),
        (),
    )


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "  ", "*", " * ", "**", "?*", "http*", "http:*", "http://*", "*://*", "*//*/*"),
        *("http://www.example.com*", "http://www.example.com/*", "http://www.example.com/?*"),
        *("http://*.example.com/*", "*.example.com/", "http://www.example.com/*/*", "/*"),
    ],
)
def test_a_pattern_that_names_no_part_of_a_path_is_rejected_without_consent(pattern: str) -> None:
    record = make(action=Action.DELETE_PATTERN, url=pattern)
    reason = (
        f"a deletion by the pattern {pattern!r}; expected a pattern that names part"
        " of a path, because this one empties a host or more; --allow-wide-deletes allows it"
    )
    reject = Reject(
        code="wide-delete", reason=reason, stage="adapt", url=pattern, action="DELETE_PATTERN"
    )
    consent = Target(format="thunderstone", allow_wide_deletes=True)

    assert adapt(record, TARGET) == ((reject,), ())
    assert adapt(record, consent) == ((record,), ())


@pytest.mark.parametrize(
    "pattern",
    [
        *("http://www.example.com/dir/*", "http://www.example.com/dir*", "*/dir/*", "*.pdf/x"),
        *("http://www.example.com/", "http://www.example.com", "http://www.example.com/*.pdf"),
    ],
)
def test_a_pattern_that_names_part_of_a_path_is_accepted(pattern: str) -> None:
    record = make(action=Action.DELETE_PATTERN, url=pattern)

    assert adapt(record, TARGET) == ((record,), ())
