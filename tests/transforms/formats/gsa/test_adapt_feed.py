"""Each rule of the conversion to gsafeeds, and each message in full."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from msgspec.structs import replace

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
    Provenance,
    Record,
    Scoring,
)
from schemas.reject import Filtered, Reject
from support.strategies import records
from transforms.adapt import Adapted, Target, adapt
from transforms.formats.adapt_rules import RuleOf, RuleTable
from transforms.formats.gsa import adapt_feed

URL = "http://www.example.com/plan.html"
INCREMENTAL = Target(format="gsa-feed", datasource="docs", feedtype="incremental")
OLD = replace(INCREMENTAL, dialect="5.0")
FULL = Target(format="gsa-feed", datasource="docs", feedtype="full")
AND_URL = Target(format="gsa-feed", datasource="docs", feedtype="metadata-and-url")
WEB = Target(format="gsa-feed", datasource="web", feedtype="incremental")
HTML = Content(b"<p>Plan</p>")
TEXT = Content(b"Plan")
COLOUR = Meta("colour", "red")
JOE = Principal(name="joe", scope=Scope.USER, access=Access.PERMIT)
ACL = Acl(principals=(JOE,))


def make(**stated: object) -> Record:
    fields = {"url": URL, "action": Action.ADD} | stated
    return Record(**fields)  # type: ignore[arg-type] # of many types


def document(**stated: object) -> Record:
    pushed = {"arrival": Arrival.PUSHED, "content": HTML, "mimetype": "text/html"}
    return make(**(pushed | stated))


def crawled(**stated: object) -> Record:
    return make(**({"arrival": Arrival.CRAWLED, "mimetype": "text/plain"} | stated))


def update(**stated: object) -> Record:
    return make(
        **({"action": Action.UPDATE, "arrival": Arrival.PUSHED, "mimetype": "text/plain"} | stated)
    )


def deletion(**stated: object) -> Record:
    return make(**({"action": Action.DELETE, "mimetype": "text/plain"} | stated))


def lost(field: str, detail: str) -> Loss:
    return Loss(field=field, url=URL, detail=detail)


def rejected(code: str, reason: str, action: str = "ADD") -> Adapted:
    return (Reject(code=code, reason=reason, stage="adapt", url=URL, action=action),), ()


@pytest.mark.parametrize("target", [INCREMENTAL, FULL])
@pytest.mark.parametrize(
    "record",
    [
        pytest.param(document(), id="plain"),
        pytest.param(document(acl=ACL, overwrite_acls=False), id="acl"),
        pytest.param(document(metadata=(COLOUR, COLOUR, Meta("a", "", b"\xff"))), id="metadata"),
        pytest.param(document(modified=datetime(2007, 11, 6, tzinfo=UTC)), id="modified"),
        pytest.param(document(content=Content(b"UGxhbg==", Encoding.BASE64)), id="base64"),
        pytest.param(document(content=Content(b"x", Encoding.ZLIB_BASE64)), id="zlib-as-it-came"),
        pytest.param(
            document(
                crawl=Crawl(
                    lock=True,
                    crawl_immediately=True,
                    crawl_once=False,
                    authmethod=Authmethod.NEGOTIATE,
                    pagerank=96,
                    feedrank=50,
                    scoring=Scoring.WEB,
                    display_url="http://show.example.com/",
                )
            ),
            id="hints",
        ),
        pytest.param(
            document(extras=(Extra("record/@x", "1"), Extra("group/@y", "2"), Extra("acl/z", ""))),
            id="extras",
        ),
        pytest.param(deletion(), id="deletion"),
    ],
)
def test_what_a_content_feed_holds_is_returned_as_it_is(record: Record, target: Target) -> None:
    assert adapt(record, target) == ((record,), ())


@pytest.mark.parametrize("target", [INCREMENTAL, FULL, AND_URL, WEB])
@pytest.mark.parametrize("action", [Action.ADD, Action.UPDATE])
def test_an_acl_alone_is_returned_as_it_is(action: Action, target: Target) -> None:
    record = make(action=action, acl=Acl(principals=(JOE,), alone=True))

    assert adapt(record, target) == ((record,), ())


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(crawled(), id="plain"),
        pytest.param(crawled(metadata=(COLOUR,)), id="metadata"),
        pytest.param(crawled(acl=ACL), id="acl"),
        pytest.param(crawled(crawl=Crawl(crawl_immediately=True, lock=True)), id="hints"),
        pytest.param(deletion(), id="deletion"),
    ],
)
def test_what_a_metadata_and_url_feed_holds_is_returned_as_it_is(record: Record) -> None:
    assert adapt(record, AND_URL)[0][0] is record


def test_a_document_without_an_arrival_is_pushed() -> None:
    assert adapt(document(arrival=None), INCREMENTAL) == ((document(),), ())


def test_a_crawled_document_that_has_content_is_pushed() -> None:
    assert adapt(document(arrival=Arrival.CRAWLED), INCREMENTAL) == ((document(),), ())


def test_texts_become_metadata_before_the_others() -> None:
    record = document(
        title="Plan",
        description="A plan",
        keywords="plan, road",
        categories=("Roads", "Plans"),
        metadata=(COLOUR,),
    )

    assert adapt(record, INCREMENTAL) == (
        (
            document(
                metadata=(
                    Meta("title", "Plan"),
                    Meta("description", "A plan"),
                    Meta("keywords", "plan, road"),
                    Meta("category", "Roads"),
                    Meta("category", "Plans"),
                    COLOUR,
                )
            ),
        ),
        (),
    )


def test_each_value_of_a_field_becomes_metadata() -> None:
    record = document(fields=(Field("Size", ("1", "2"), True), Field("State", ("NY",))))

    assert adapt(record, INCREMENTAL) == (
        (document(metadata=(Meta("Size", "1"), Meta("Size", "2"), Meta("State", "NY"))),),
        (),
    )


def test_a_namespace_of_a_field_is_a_loss() -> None:
    record = document(fields=(Field("State", ("NY",), namespace="urn:x"),))

    assert adapt(record, INCREMENTAL) == (
        (document(metadata=(Meta("State", "NY"),)),),
        (lost("fields", "namespace 'urn:x' of 'State'"),),
    )


def test_a_body_becomes_plain_text() -> None:
    record = make(arrival=Arrival.PUSHED, body="Pl\u00e4ne", charset="ISO-8859-1")

    assert adapt(record, INCREMENTAL) == (
        (document(content=Content("Pl\u00e4ne".encode()), mimetype="text/plain"),),
        (),
    )


def test_a_body_of_another_type_loses_it() -> None:
    record = make(arrival=Arrival.PUSHED, body="Plan", mimetype="application/pdf")

    assert adapt(record, INCREMENTAL) == (
        (document(content=TEXT, mimetype="text/plain"),),
        (lost("mimetype", "'application/pdf': only the text of it is there"),),
    )


def test_a_body_beside_content_is_a_loss() -> None:
    assert adapt(document(body="Plan"), INCREMENTAL) == (
        (document(),),
        (lost("body", "4 characters beside content"),),
    )


@pytest.mark.parametrize("charset", ["UTF-8", "utf8"])
def test_utf_8_content_needs_no_charset(charset: str) -> None:
    assert adapt(document(charset=charset), INCREMENTAL) == ((document(),), ())


def test_content_that_tells_its_charset_loses_none() -> None:
    page = Content('<meta charset="iso-8859-1"><p>Pläne'.encode("iso-8859-1"))
    stated = document(content=page, mimetype="text/html", charset="iso-8859-1")
    told = document(content=page, mimetype="text/html")
    assert adapt(stated, INCREMENTAL) == ((told,), ())


def test_content_that_tells_no_charset_loses_it() -> None:
    page = Content("<p>Pläne".encode("iso-8859-1"))
    stated = document(content=page, mimetype="text/html", charset="iso-8859-1")
    _, losses = adapt(stated, INCREMENTAL)
    assert losses == (lost("charset", "'iso-8859-1'"),)


@pytest.mark.parametrize(
    ("stated", "loss"),
    [
        pytest.param({"charset": "Shift_JIS"}, lost("charset", "'Shift_JIS'"), id="charset"),
        pytest.param({"size": 150369}, lost("size", "150369"), id="size"),
        pytest.param(
            {"visited": datetime(2005, 10, 25, 15, 25, 18, tzinfo=UTC)},
            lost("visited", "2005-10-25 15:25:18+00:00"),
            id="visited",
        ),
        pytest.param(
            {"next_check": datetime(2005, 10, 25, 16, 25, 18, tzinfo=UTC)},
            lost("next-check", "2005-10-25 16:25:18+00:00"),
            id="next-check",
        ),
        pytest.param(
            {"history": History(depth=0, click_ratio=0.5, references=())},
            lost("history", "depth, click-ratio"),
            id="history",
        ),
        pytest.param({"crawl": Crawl(no_index=True)}, lost("no-index", "true"), id="no-index"),
        pytest.param({"crawl": Crawl(no_follow=True)}, lost("no-follow", "true"), id="no-follow"),
        pytest.param(
            {"crawl": Crawl(no_archive=True)}, lost("no-archive", "true"), id="no-archive"
        ),
        pytest.param(
            {"crawl": Crawl(anchors=(Anchor("http://a.example.com/", "Plan"),))},
            lost("anchors", "1"),
            id="anchors",
        ),
        pytest.param(
            {"extras": (Extra("Item/rid", "<rid/>"), Extra("Item/@x", "1"))},
            lost("extras", "Item/rid, Item/@x"),
            id="extras",
        ),
    ],
)
def test_what_a_feed_has_no_place_for_is_a_loss(stated: dict[str, object], loss: Loss) -> None:
    assert adapt(document(**stated), INCREMENTAL) == ((document(),), (loss,))


def test_hints_that_a_feed_holds_stay_beside_one_that_is_lost() -> None:
    record = document(crawl=Crawl(lock=True, no_index=True))

    assert adapt(record, INCREMENTAL) == (
        (document(crawl=Crawl(lock=True)),),
        (lost("no-index", "true"),),
    )


@pytest.mark.parametrize(
    ("secure", "stated", "authmethod"),
    [
        (True, None, Authmethod.HTTPBASIC),
        (True, Authmethod.NONE, Authmethod.HTTPBASIC),
        (True, Authmethod.NTLM, Authmethod.NTLM),
        (False, None, Authmethod.NONE),
        (False, Authmethod.NTLM, Authmethod.NTLM),
    ],
)
@pytest.mark.parametrize("target", [INCREMENTAL, OLD])
def test_a_secure_document_is_one_to_log_in_for(
    secure: bool, stated: Authmethod | None, authmethod: Authmethod, target: Target
) -> None:
    record = document(crawl=Crawl(secure=secure, authmethod=stated))

    assert adapt(record, target) == ((document(crawl=Crawl(authmethod=authmethod)),), ())


@pytest.mark.parametrize("alone", [False, True])
def test_an_acl_that_permits_nobody_does_not_look_as_if_there_were_none(alone: bool) -> None:
    shut = Principal(
        name="google:fakeUserToPreventMissingAcl", scope=Scope.USER, access=Access.DENY
    )

    assert adapt(document(acl=Acl(alone=alone)), INCREMENTAL) == (
        (document(acl=Acl(principals=(shut,), alone=alone)),),
        (),
    )


def test_an_acl_without_principals_that_inherits_stays_as_it_is() -> None:
    record = document(acl=Acl(inherit_from="http://a.example.com/"))

    assert adapt(record, INCREMENTAL) == ((record,), ())


@pytest.mark.parametrize("alone", [False, True])
def test_a_fragment_of_what_an_acl_inherits_from_is_held(alone: bool) -> None:
    acl = Acl(inherit_from="http://a.example.com/", inherit_fragment="files", alone=alone)

    assert adapt(document(acl=acl), INCREMENTAL) == ((document(acl=acl),), ())


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    "stated",
    [
        Acl(inherit_from="http://a.example.com/?files"),
        Acl(inherit_from="http://a.example.com/", inherit_fragment="files"),
    ],
)
def test_a_url_with_a_fragment_is_stated_as_the_reader_of_a_feed_does(
    stated: Acl, alone: bool
) -> None:
    acl = Acl(inherit_from="http://a.example.com/", inherit_fragment="files", alone=alone)

    assert adapt(document(acl=replace(stated, alone=alone)), INCREMENTAL) == (
        (document(acl=acl),),
        (),
    )


def test_a_fragment_that_reads_like_a_query_is_stated_as_one() -> None:
    acl = Acl(inherit_from="http://a.example.com/", inherit_fragment="kind=files")

    assert adapt(document(acl=acl), INCREMENTAL) == (
        (document(acl=Acl(inherit_from="http://a.example.com/?kind=files")),),
        (),
    )


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("parent", ["http://a.example.com/?id=5", "http://a.example.com/#top"])
def test_a_fragment_of_a_url_with_a_query_is_a_loss_of_acl(parent: str, alone: bool) -> None:
    acl = Acl(inherit_from=parent, inherit_fragment="files", alone=alone)

    assert adapt(document(acl=acl), INCREMENTAL) == (
        (document(acl=Acl(inherit_from=parent, alone=alone)),),
        (
            lost(
                "acl",
                f"fragment 'files' of what it inherits from, {parent!r}, which has one already",
            ),
        ),
    )


def test_a_fragment_of_nothing_is_a_loss_of_acl() -> None:
    assert adapt(document(acl=Acl(inherit_fragment="files")), INCREMENTAL)[1] == (
        lost("acl", "fragment 'files' of what it inherits from"),
    )


def test_an_empty_value_is_dropped() -> None:
    record = document(metadata=(Meta("a", ""), COLOUR, Meta("b", "", b"")))

    assert adapt(record, INCREMENTAL) == (
        (document(metadata=(COLOUR,)),),
        (lost("metadata", "empty value of 'a'"), lost("metadata", "empty value of 'b'")),
    )


def test_an_empty_value_is_replaced_if_so_chosen() -> None:
    target = Target(format="gsa-feed", feedtype="full", empty_metadata="placeholder")

    assert adapt(document(metadata=(Meta("a", ""), COLOUR)), target) == (
        (document(metadata=(Meta("a", "_noname_"), COLOUR)),),
        (lost("metadata", "empty value of 'a' replaced"),),
    )


def test_a_placeholder_can_be_named() -> None:
    target = Target(format="gsa-feed", empty_metadata="placeholder", placeholder="-")

    assert adapt(document(metadata=(Meta("a", ""),)), target) == (
        (document(metadata=(Meta("a", "-"),)),),
        (lost("metadata", "empty value of 'a' replaced"),),
    )


def test_a_value_without_a_name_is_dropped() -> None:
    assert adapt(document(metadata=(Meta("", "red"),)), INCREMENTAL) == (
        (document(),),
        (lost("metadata", "a value without a name"),),
    )


def test_metadata_that_xml_cannot_hold_goes_as_it_is() -> None:
    record = document(metadata=(Meta("bell", "\x07"),))

    assert adapt(record, INCREMENTAL) == ((record,), ())


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param("http://a.example.com/plan.pdf", "application/pdf", id="pdf"),
        pytest.param("http://a.example.com/Plan.HTM?v=1.txt#x", "text/html", id="query"),
        pytest.param(
            "http://a.example.com/plan.docx",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            id="newer-than-pythons-tables",
        ),
    ],
)
def test_a_missing_mimetype_is_told_by_the_extension(url: str, expected: str) -> None:
    record = document(url=url, mimetype=None)

    assert adapt(record, INCREMENTAL) == ((document(url=url, mimetype=expected),), ())


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://a.example.com/plan", id="no-extension"),
        pytest.param("http://a.example.com", id="host-that-looks-like-a-file"),
        pytest.param("http://a.example.com/plan.tar.gz", id="compressed"),
        pytest.param("http://[a.example.com/plan.pdf", id="no-address"),
    ],
)
def test_a_default_mimetype_is_for_what_no_extension_tells(url: str) -> None:
    target = Target(format="gsa-feed", feedtype="full", default_mimetype="text/x-plan")

    assert adapt(document(url=url, mimetype=None), target) == (
        (document(url=url, mimetype="text/x-plan"),),
        (),
    )


def test_content_whose_mimetype_nothing_tells_is_rejected() -> None:
    record = document(url="http://a.example.com/plan", mimetype=None)
    reason = (
        "content without a mimetype, and a url whose extension tells none; expected one, as the"
        " appliance requires it; --default-mimetype gives one to all such documents"
    )

    assert adapt(record, INCREMENTAL) == (
        (
            Reject(
                code="mimetype-missing",
                reason=reason,
                stage="adapt",
                url="http://a.example.com/plan",
                action="ADD",
            ),
        ),
        (),
    )


@pytest.mark.parametrize(
    ("target", "record", "expected"),
    [
        pytest.param(INCREMENTAL, deletion(mimetype=None), deletion(), id="deletion"),
        pytest.param(AND_URL, crawled(mimetype=None), crawled(), id="crawled"),
        pytest.param(
            INCREMENTAL,
            update(metadata=(COLOUR,), mimetype=None),
            update(metadata=(COLOUR,)),
            id="update-without-content",
        ),
    ],
)
def test_a_mimetype_that_is_ignored_is_text(
    target: Target, record: Record, expected: Record
) -> None:
    assert adapt(record, target) == ((expected,), ())


def test_a_url_to_be_crawled_is_rejected_by_a_content_feed() -> None:
    reason = (
        "a document that is to be crawled, without content; expected content, as the appliance does"
        " not crawl for a content feed; --feedtype metadata-and-url makes a feed that it crawls"
    )

    assert adapt(crawled(), INCREMENTAL) == rejected("no-content", reason)


def test_a_document_without_content_is_rejected_by_a_content_feed() -> None:
    reason = (
        "a document, without content; expected content, as the appliance does"
        " not crawl for a content feed; --feedtype metadata-and-url makes a feed that it crawls"
    )

    assert adapt(document(content=None, metadata=(COLOUR,)), FULL) == rejected("no-content", reason)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(update(metadata=(COLOUR,)), id="metadata"),
        pytest.param(update(acl=ACL), id="acl"),
        pytest.param(update(content=TEXT), id="content"),
    ],
)
def test_an_update_goes_into_an_incremental_feed(record: Record) -> None:
    assert adapt(record, INCREMENTAL) == ((record,), ())


def test_an_update_of_the_body_is_one_of_content() -> None:
    assert adapt(update(body="Plan"), INCREMENTAL) == ((update(content=TEXT),), ())


@pytest.mark.parametrize("stated", [{"title": "Plan"}, {"fields": (Field("a", ("b",)),)}, {}])
def test_an_update_of_single_fields_is_rejected(stated: dict[str, object]) -> None:
    reason = (
        "an update of single fields; expected content, metadata or an ACL, as a feed replaces each"
        " of them as a whole"
    )

    assert adapt(update(**stated), INCREMENTAL) == rejected("partial-update", reason, "UPDATE")


@pytest.mark.parametrize("stated", [{"metadata": (COLOUR,)}, {"content": TEXT}, {"acl": ACL}])
def test_an_update_is_rejected_by_a_full_feed(stated: dict[str, object]) -> None:
    reason = (
        "a partial update; expected whole documents, as a full feed replaces all that its"
        " datasource had; --feedtype incremental makes a feed that holds it"
    )

    assert adapt(update(**stated), FULL) == rejected("update-in-full-feed", reason, "UPDATE")


def test_a_crawled_document_loses_its_content() -> None:
    assert adapt(document(metadata=(COLOUR,)), AND_URL) == (
        (crawled(mimetype="text/html", metadata=(COLOUR,)),),
        (lost("content", "11 bytes, NONE"),),
    )


def test_a_crawled_document_loses_its_body_as_content() -> None:
    assert adapt(document(content=None, body="P"), AND_URL) == (
        (crawled(mimetype="text/html"),),
        (lost("content", "1 character of extracted text"),),
    )


def test_an_update_of_metadata_is_a_record_of_a_metadata_and_url_feed() -> None:
    assert adapt(update(metadata=(COLOUR,)), AND_URL) == ((crawled(metadata=(COLOUR,)),), ())


@pytest.mark.parametrize(
    ("target", "stated"),
    [
        pytest.param(AND_URL, {"title": "Plan"}, id="text"),
        pytest.param(AND_URL, {"content": TEXT}, id="content"),
        pytest.param(WEB, {"metadata": (COLOUR,)}, id="metadata-to-web"),
    ],
)
def test_an_update_that_a_crawled_feed_cannot_say_is_rejected(
    target: Target, stated: dict[str, object]
) -> None:
    reason = "an update of single fields; expected metadata of a metadata-and-url feed, or an ACL"

    assert adapt(update(**stated), target) == rejected("partial-update", reason, "UPDATE")


def test_a_web_feed_has_no_metadata() -> None:
    record = crawled(title="Plan", metadata=(COLOUR, COLOUR))

    assert adapt(record, WEB) == (
        (crawled(),),
        (lost("metadata", "'title', 'colour': a web feed has none"),),
    )


@pytest.mark.parametrize("target", [INCREMENTAL, FULL, AND_URL, WEB])
def test_a_deletion_loses_nothing(target: Target) -> None:
    record = deletion(size=1, crawl=Crawl(secure=True), body="Plan", extras=(Extra("Item/a", ""),))

    assert adapt(record, target)[1] == ()


def test_a_pattern_deletes_the_known_urls_that_it_covers() -> None:
    target = Target(
        format="gsa-feed",
        feedtype="incremental",
        known_urls=(
            "http://a.example.com/dir/1?x=[2]",
            "http://a.example.com/other",
            "http://a.example.com/dir/sub/3",
        ),
    )
    record = make(
        url="http://a.example.com/dir/*",
        action=Action.DELETE_PATTERN,
        provenance=Provenance(source="a.xml", line=7),
    )

    assert adapt(record, target) == (
        (
            deletion(
                url="http://a.example.com/dir/1?x=[2]",
                provenance=Provenance(source="a.xml", line=7),
            ),
            deletion(
                url="http://a.example.com/dir/sub/3", provenance=Provenance(source="a.xml", line=7)
            ),
        ),
        (),
    )


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("http://a.example.com/[a-z]*", id="brackets-are-brackets"),
        pytest.param("http://a.example.com/?", id="question-mark-is-one"),
        pytest.param("http://a.example.com/plan", id="whole-url"),
    ],
)
def test_a_pattern_that_covers_no_known_url_is_filtered(pattern: str) -> None:
    target = Target(format="gsa-feed", known_urls=("http://a.example.com/p", "http://a/plan.pdf"))

    assert adapt(make(url=pattern, action=Action.DELETE_PATTERN), target) == (
        (Filtered(code="no-known-url", url=pattern, action="DELETE_PATTERN"),),
        (),
    )


def test_a_pattern_is_rejected_where_no_url_is_known() -> None:
    reason = (
        "a deletion of all urls like 'http://www.example.com/plan.html'; expected one of a url, as"
        " a gsafeed has no patterns; --known-urls lists the urls that patterns are matched with"
    )

    assert adapt(make(action=Action.DELETE_PATTERN), INCREMENTAL) == rejected(
        "delete-pattern", reason, "DELETE_PATTERN"
    )


@pytest.mark.parametrize("target", [INCREMENTAL, AND_URL, WEB], ids=["content", "url", "web"])
@given(record=records())
def test_a_rule_that_is_skipped_would_change_nothing(target: Target, record: Record) -> None:
    def for_all(rules: Iterable[RuleOf]) -> RuleTable:
        always = ("url", "action")
        return RuleTable(rule._replace(fields=always) for rule in rules)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adapt_feed, "RuleTable", for_all)
        by_all_rules = adapt_feed.adapter(target)(record)
    assert adapt(record, target) == by_all_rules


def test_a_url_with_a_title_has_the_type_that_is_ignored() -> None:
    record = make(action=Action.ADD, arrival=Arrival.CRAWLED, title="Plan", mimetype=None)
    (outcome,), losses = adapt(record, AND_URL)
    assert isinstance(outcome, Record)
    assert (outcome.mimetype, outcome.metadata) == ("text/plain", (Meta("title", "Plan"),))
    assert losses == ()
