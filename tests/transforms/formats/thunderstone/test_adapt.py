"""Each rule of the conversion to Thunderstone Items, and each message in full."""

from datetime import UTC, datetime

import pytest

from schemas.acl import Access, Acl, Principal, Scope
from schemas.loss import Loss
from schemas.record import (
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
from schemas.reject import Filtered, Reject
from transforms.adapt import Target, adapt

URL = "http://www.example.com/plan.html"
TARGET = Target(format="thunderstone")
NAMED = Target(format="thunderstone", named_fields=(("Colour", "Color"), ("title", "Caption")))
HTML = Content(b"<p>Plan</p>")
COLOUR = Meta("colour", "red")
ACL = Acl(
    principals=(
        Principal(name="joe", scope=Scope.USER, access=Access.PERMIT),
        Principal(name="eng", scope=Scope.GROUP, access=Access.PERMIT),
    )
)


def make(**stated: object) -> Record:
    fields = {"url": URL, "action": Action.ADD} | stated
    return Record(**fields)  # type: ignore[arg-type] # of many types


def document(**stated: object) -> Record:
    pushed = {"arrival": Arrival.PUSHED, "content": HTML, "mimetype": "text/html"}
    return make(**(pushed | stated))


def text(**stated: object) -> Record:
    return document(**({"mimetype": "text/plain"} | stated))


def lost(field: str, detail: str) -> Loss:
    return Loss(field=field, url=URL, detail=detail)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(document(), id="content"),
        pytest.param(document(content=None, body="Plan", charset="ISO-8859-1"), id="body"),
        pytest.param(document(body="Plan"), id="content-and-body"),
        pytest.param(
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
            id="all-fields",
        ),
        pytest.param(make(action=Action.UPDATE, arrival=Arrival.PUSHED, title="P"), id="update"),
        pytest.param(make(action=Action.DELETE), id="deletion"),
        pytest.param(
            make(action=Action.DELETE_PATTERN, url="http://www.example.com/dir/*"), id="pattern"
        ),
    ],
)
def test_what_an_item_holds_is_returned_as_it_is(record: Record) -> None:
    assert adapt(record, TARGET) == ((record,), ())


def test_plain_text_becomes_the_body() -> None:
    record = text(content=Content("Pl\u00e4ne".encode()))

    assert adapt(record, TARGET) == (
        (text(content=None, body="Pl\u00e4ne", charset="UTF-8"),),
        (),
    )


@pytest.mark.parametrize("stated", [{"mimetype": "text/plain; x=y"}, {"charset": "utf-8"}])
def test_plain_text_may_have_a_parameter_or_say_utf_8(stated: dict[str, object]) -> None:
    assert [getattr(outcome, "body", None) for outcome in adapt(text(**stated), TARGET)[0]] == [
        "<p>Plan</p>"
    ]


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(text(content=Content(b"UGxhbg==", Encoding.BASE64)), id="base64"),
        pytest.param(text(content=Content(b"eJw=", Encoding.ZLIB_BASE64)), id="zlib"),
        pytest.param(text(content=Content(b"Pl\xe4ne")), id="no-utf-8"),
        pytest.param(text(charset="ISO-8859-1"), id="charset"),
        pytest.param(text(body="Plan"), id="body-beside-it"),
        pytest.param(text(mimetype=None), id="unknown-type"),
    ],
)
def test_other_content_goes_as_it_came(record: Record) -> None:
    assert adapt(record, TARGET) == ((record,), ())


def test_text_beyond_the_limit_goes_as_it_came() -> None:
    target = Target(format="thunderstone", max_content_bytes=10)

    assert adapt(text(), target) == ((text(),), ())


def test_metadata_goes_to_the_elements_of_its_names() -> None:
    record = document(
        metadata=(
            Meta("Title", "Plan"),
            COLOUR,
            Meta("DESCRIPTION", "A plan"),
            Meta("keywords", "a, b"),
            Meta("category", "Roads"),
            Meta("Category", "Plans"),
        )
    )

    assert adapt(record, TARGET) == (
        (
            document(
                title="Plan",
                description="A plan",
                keywords="a, b",
                categories=("Roads", "Plans"),
                metadata=(COLOUR,),
            ),
        ),
        (),
    )


def test_the_first_of_two_titles_is_the_title() -> None:
    record = document(metadata=(Meta("title", "Plan"), Meta("title", "Map")))

    assert adapt(record, TARGET) == (
        (document(title="Plan", metadata=(Meta("title", "Map"),)),),
        (),
    )


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(document(title="", metadata=(Meta("title", "Plan"),)), id="title"),
        pytest.param(
            document(categories=("Roads",), metadata=(Meta("category", "Plans"),)), id="category"
        ),
    ],
)
def test_what_is_stated_is_not_replaced_by_metadata(record: Record) -> None:
    assert adapt(record, TARGET) == ((record,), ())


def test_named_metadata_becomes_fields() -> None:
    record = document(
        metadata=(COLOUR, Meta("Title", "Plan"), Meta("COLOUR", "blue"), Meta("size", "1"))
    )

    assert adapt(record, NAMED) == (
        (
            document(
                fields=(Field("Color", ("red", "blue"), True), Field("Caption", ("Plan",))),
                metadata=(Meta("size", "1"),),
            ),
        ),
        (),
    )


def test_a_field_that_is_stated_is_not_replaced_by_metadata() -> None:
    record = document(fields=(Field("Color", ("green",)),), metadata=(COLOUR,))

    assert adapt(record, NAMED) == ((record,), ())


def test_metadata_of_bytes_is_a_loss() -> None:
    record = document(metadata=(Meta("title", "", b"\xff\xfe"), COLOUR))

    assert adapt(record, TARGET) == (
        (document(metadata=(COLOUR,)),),
        (lost("metadata", "'title', 2 bytes that are no text"),),
    )


def test_a_value_of_several_lines_is_made_one() -> None:
    record = document(metadata=(Meta("address", "Road 1\r\nTown\nLand"),))

    assert adapt(record, TARGET) == (
        (document(metadata=(Meta("address", "Road 1 Town Land"),)),),
        (lost("metadata", "line ends in the value of 'address' written as spaces"),),
    )


@pytest.mark.parametrize(
    ("name", "written", "detail"),
    [
        ("dc:  date", "dc:date", "name 'dc:  date' written as 'dc:date'"),
        ("dc:\ndate", "dc:date", "name 'dc:\\ndate' written as 'dc:date'"),
        ("dc\ndate", "dc date", "name 'dc\\ndate' written as 'dc date'"),
    ],
)
def test_a_name_that_breaks_its_line_is_changed(name: str, written: str, detail: str) -> None:
    assert adapt(document(metadata=(Meta(name, "1"),)), TARGET) == (
        (document(metadata=(Meta(written, "1"),)),),
        (lost("metadata", detail),),
    )


def test_an_acl_is_a_loss() -> None:
    assert adapt(document(acl=ACL), TARGET) == ((document(),), (lost("acl", "2 principals"),))


def test_what_an_acl_inherits_from_is_named() -> None:
    acl = Acl(inherit_from="http://a.example.com/")

    assert adapt(document(acl=acl), TARGET)[1] == (
        lost("acl", "0 principals, inherits from 'http://a.example.com/'"),
    )


def test_an_acl_alone_is_filtered_and_a_loss() -> None:
    record = make(acl=Acl(principals=ACL.principals, alone=True))

    assert adapt(record, TARGET) == (
        (Filtered(code="acl-alone", url=URL, action="ADD"),),
        (lost("acl", "2 principals"),),
    )


def test_an_acl_alone_that_a_crawled_feed_brings_is_no_url_to_be_crawled() -> None:
    record = make(arrival=Arrival.CRAWLED, acl=Acl(alone=True))

    assert adapt(record, TARGET) == (
        (Filtered(code="acl-alone", url=URL, action="ADD"),),
        (lost("acl", "0 principals"),),
    )


@pytest.mark.parametrize(
    ("stated", "loss"),
    [
        pytest.param({"crawl": Crawl(lock=True)}, lost("lock", "true"), id="lock"),
        pytest.param(
            {"crawl": Crawl(crawl_immediately=True)},
            lost("crawl-immediately", "true"),
            id="crawl-immediately",
        ),
        pytest.param(
            {"crawl": Crawl(crawl_once=True)}, lost("crawl-once", "true"), id="crawl-once"
        ),
        pytest.param({"crawl": Crawl(pagerank=96)}, lost("pagerank", "96"), id="pagerank"),
        pytest.param({"crawl": Crawl(feedrank=5)}, lost("feedrank", "5"), id="feedrank"),
        pytest.param(
            {"crawl": Crawl(scoring=Scoring.CONTENT)}, lost("scoring", "CONTENT"), id="scoring"
        ),
        pytest.param({"crawl": Crawl(no_index=True)}, lost("no-index", "true"), id="no-index"),
        pytest.param({"crawl": Crawl(no_follow=True)}, lost("no-follow", "true"), id="no-follow"),
        pytest.param(
            {"crawl": Crawl(no_archive=True)}, lost("no-archive", "true"), id="no-archive"
        ),
        pytest.param(
            {"crawl": Crawl(display_url="http://a/")},
            lost("display-url", "'http://a/'"),
            id="display-url",
        ),
        pytest.param(
            {"crawl": Crawl(anchors=(Anchor("a:", "b"), Anchor("c:", "d")))},
            lost("anchors", "2"),
            id="anchors",
        ),
        pytest.param(
            {"overwrite_acls": False}, lost("overwrite-acls", "false"), id="overwrite-acls"
        ),
        pytest.param(
            {"extras": (Extra("record/@x", "1"), Extra("group/@y", "2"))},
            lost("extras", "record/@x, group/@y"),
            id="extras",
        ),
    ],
)
def test_what_an_item_has_no_place_for_is_a_loss(stated: dict[str, object], loss: Loss) -> None:
    assert adapt(document(**stated), TARGET) == ((document(),), (loss,))


def test_a_record_that_states_no_arrival_is_pushed() -> None:
    assert adapt(document(arrival=None), TARGET) == ((document(),), ())


def test_a_crawled_url_that_has_content_is_pushed() -> None:
    assert adapt(document(arrival=Arrival.CRAWLED), TARGET) == ((document(),), ())


def test_a_url_to_be_crawled_is_rejected() -> None:
    record = make(arrival=Arrival.CRAWLED, title="Plan")
    reason = (
        "a url that is to be crawled; expected a document, as a dataload fetches none; the crawler"
        " takes such urls as a list"
    )

    assert adapt(record, TARGET) == (
        (Reject(code="crawled", reason=reason, stage="adapt", url=URL, action="ADD"),),
        (),
    )


def test_a_deletion_loses_nothing() -> None:
    record = make(
        action=Action.DELETE, mimetype="text/plain", acl=ACL, crawl=Crawl(lock=True, pagerank=96)
    )

    assert adapt(record, TARGET) == ((make(action=Action.DELETE, mimetype="text/plain"),), ())


def test_a_wide_deletion_is_rejected() -> None:
    record = make(action=Action.DELETE_PATTERN, url="http://www.example.com/*")
    reason = (
        "a deletion of all urls like 'http://www.example.com/*'; expected a pattern that names part"
        " of a path, as this one empties a host or more; --allow-wide-deletes allows it"
    )

    assert adapt(record, TARGET) == (
        (
            Reject(
                code="wide-delete",
                reason=reason,
                stage="adapt",
                url="http://www.example.com/*",
                action="DELETE_PATTERN",
            ),
        ),
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
def test_a_pattern_that_names_no_part_of_a_path_is_wide(pattern: str) -> None:
    record = make(action=Action.DELETE_PATTERN, url=pattern)

    assert [getattr(outcome, "code", None) for outcome in adapt(record, TARGET)[0]] == [
        "wide-delete"
    ]


@pytest.mark.parametrize(
    "pattern",
    [
        *("http://www.example.com/dir/*", "http://www.example.com/dir*", "*/dir/*", "*.pdf/x"),
        *("http://www.example.com/", "http://www.example.com", "http://www.example.com/*.pdf"),
    ],
)
def test_a_pattern_that_names_part_of_a_path_is_not(pattern: str) -> None:
    record = make(action=Action.DELETE_PATTERN, url=pattern)

    assert adapt(record, TARGET) == ((record,), ())


def test_a_wide_deletion_passes_with_consent() -> None:
    record = make(action=Action.DELETE_PATTERN, url="*")

    assert adapt(record, Target(format="thunderstone", wide_deletes=True)) == ((record,), ())


@pytest.mark.parametrize(
    ("hints", "details"),
    [
        (
            Crawl(authmethod=Authmethod.HTTPSSO),
            [("acl", "none, but the authmethod HTTPSSO"), ("authmethod", "HTTPSSO")],
        ),
        (Crawl(secure=True), [("acl", "none, but the document is secure"), ("secure", "true")]),
        (Crawl(authmethod=Authmethod.NONE), []),
        (Crawl(secure=False), []),
    ],
)
def test_a_document_that_one_must_log_in_for_is_not_made_public_unasked(
    hints: Crawl, details: list[tuple[str, str]]
) -> None:
    losses = tuple(lost(*detail) for detail in details)

    assert adapt(document(crawl=hints), TARGET) == ((document(),), losses)


def test_a_lost_acl_is_one_loss_of_protection() -> None:
    record = document(acl=Acl(inherit_from="x"), crawl=Crawl(authmethod=Authmethod.NTLM))

    fields = [loss.field for loss in adapt(record, TARGET)[1]]
    assert fields == ["acl", "authmethod"]
