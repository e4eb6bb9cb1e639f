"""Each rule of the conversion to command streams, and each message in full."""

import io
from datetime import UTC, datetime
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.content import decode
from schemas.errors import RecordError
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
from support.strategies import records, texts
from transforms.adapt import Target, adapt
from transforms.formats.base import Mode, NotFound, ReadOptions
from transforms.formats.command_stream import authorizer, lister, retriever

URL = "http://www.example.com/plan.html"
LISTER = Target(format="lister-stream")
RETRIEVER = Target(format="retriever-stream")
AUTHORIZER = Target(format="authorizer-stream")
MODIFIED = datetime(2007, 11, 6, 12, 0, 0, tzinfo=UTC)
HTML = Content(b"<p>Plan</p>")
COLOUR = Meta("colour", "red")
JOE = Principal(name="joe", scope=Scope.USER, access=Access.PERMIT)
STAFF = Principal(name="staff", scope=Scope.GROUP, access=Access.DENY)
PERMITTED = (Extra("stream/authz-status", "PERMIT"),)
STRICT = ReadOptions(mode=Mode.STRICT, not_found=NotFound.DELETE)


def make(**stated: object) -> Record:
    fields = {"url": URL, "action": Action.ADD} | stated
    return Record(**fields)  # type: ignore[arg-type] # of many types


def listed(**stated: object) -> Record:
    return make(**({"arrival": Arrival.CRAWLED} | stated))


def document(**stated: object) -> Record:
    pushed = {"arrival": Arrival.PUSHED, "content": HTML, "mimetype": "text/html"}
    return make(**(pushed | stated))


def answer(**stated: object) -> Record:
    return make(**({"action": Action.UPDATE, "extras": PERMITTED} | stated))


def acl(*principals: Principal) -> Acl:
    return Acl(principals=principals)


def lost(field: str, detail: str) -> Loss:
    return Loss(field=field, url=URL, detail=detail)


def rejected(record: Record, target: Target) -> tuple[str, str]:
    [outcome], losses = adapt(record, target)
    assert isinstance(outcome, Reject)
    assert losses == ()
    return outcome.code, outcome.reason


def plain(record: Record) -> Record:
    """As a reader finds it: without encoding and provenance."""
    content = record.content and Content(decode(record.content))
    return replace(record, content=content, provenance=Provenance())


def kept(record: Record, target: Target) -> list[Record]:
    return [outcome for outcome in adapt(record, target)[0] if isinstance(outcome, Record)]


def read_back(stream: ModuleType, outcomes: list[Record]) -> list[Record]:
    """What the deployed parser reads of what was written; nothing of nothing."""
    written = io.BytesIO()
    if not outcomes:
        return []
    stream.write(outcomes, written)
    written.seek(0)
    found = stream.read(written, options=STRICT)
    return [plain(one) for one in found if isinstance(one, Record)]


def commands() -> SearchStrategy[tuple[Extra, ...]]:
    """Extras of every kind, some of which are commands that nobody knows."""
    name = st.one_of(st.sampled_from(("lock", "content", "", "last-modified")), texts())
    marks = st.sampled_from(("", "="))
    place = st.builds("stream/{}{}".format, name, marks)
    answers = st.sampled_from(
        ("stream/authz-status", "stream/username", "stream/group", "stream/param/X-a", "record/x")
    )
    value = st.sampled_from(("PERMIT", "", "99999999999999")) | texts()
    return st.lists(st.builds(Extra, place | answers, value), max_size=4).map(tuple)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(listed(), id="url"),
        pytest.param(listed(modified=MODIFIED), id="modified"),
        pytest.param(
            listed(
                crawl=Crawl(lock=True, crawl_immediately=True, crawl_once=True, display_url=URL)
            ),
            id="hints",
        ),
        pytest.param(listed(extras=(Extra("stream/foo", ""),)), id="unknown-command"),
        pytest.param(make(action=Action.DELETE), id="deletion"),
    ],
)
def test_what_a_listing_holds_is_returned_as_it_is(record: Record) -> None:
    assert adapt(record, LISTER) == ((record,), ())


def test_a_listing_leaves_content_to_the_retriever() -> None:
    record = make(arrival=Arrival.PUSHED, content=Content(b"UGxhbg==", Encoding.BASE64))

    assert adapt(record, LISTER) == ((listed(),), (lost("content", "8 bytes, BASE64"),))


def test_a_listing_leaves_text_to_the_retriever() -> None:
    assert adapt(make(body="Plan"), LISTER) == (
        (listed(),),
        (lost("content", "4 characters of extracted text"),),
    )


def test_what_a_listing_cannot_say_is_lost() -> None:
    record = listed(
        mimetype="text/html",
        charset="UTF-8",
        size=4,
        title="Plan",
        description="A plan",
        keywords="a, b",
        categories=("Roads", "Plans"),
        metadata=(COLOUR, COLOUR, Meta("size", "4")),
        fields=(Field("Size", ("1", "2"), True),),
        visited=MODIFIED,
        next_check=MODIFIED,
        acl=acl(JOE),
        overwrite_acls=False,
        crawl=Crawl(lock=True, pagerank=70, secure=True, anchors=(Anchor(URL, "Plan"),)),
        history=History(depth=0, errors=("404",)),
        extras=(Extra("record/@foo", "bar"), Extra("stream/param/X-a", "1")),
    )

    assert adapt(record, LISTER) == (
        (listed(crawl=Crawl(lock=True)),),
        (
            lost("acl", "1 principal"),
            lost("mimetype", "'text/html'"),
            lost("charset", "'UTF-8'"),
            lost("size", "4"),
            lost("visited", "2007-11-06 12:00:00+00:00"),
            lost("next-check", "2007-11-06 12:00:00+00:00"),
            lost("overwrite-acls", "false"),
            lost("title", "'Plan'"),
            lost("description", "'A plan'"),
            lost("keywords", "'a, b'"),
            lost("categories", "'Roads', 'Plans'"),
            lost("metadata", "'colour', 'size'"),
            lost("fields", "'Size'"),
            lost("history", "depth, errors"),
            lost("pagerank", "70"),
            lost("secure", "true"),
            lost("anchors", "1"),
            lost("extras", "record/@foo, stream/param/X-a"),
        ),
    )


def test_a_date_beyond_all_calendars_is_lost_beside_another() -> None:
    record = listed(modified=MODIFIED, extras=(Extra("stream/last-modified=", "99999999999999"),))

    assert adapt(record, LISTER) == (
        (listed(modified=MODIFIED),),
        (lost("extras", "stream/last-modified="),),
    )


def test_flags_of_a_listing_that_are_false_say_nothing() -> None:
    record = listed(crawl=Crawl(lock=False, crawl_immediately=False, crawl_once=False))

    assert adapt(record, LISTER) == ((listed(),), ())


@pytest.mark.parametrize(
    ("record", "target"),
    [
        pytest.param(listed(modified=MODIFIED), LISTER, id="lister"),
        pytest.param(document(modified=MODIFIED), RETRIEVER, id="retriever"),
    ],
)
def test_a_fraction_of_a_second_is_no_loss(record: Record, target: Target) -> None:
    fraction = replace(record, modified=MODIFIED.replace(microsecond=999_999))

    assert adapt(fraction, target) == ((record,), ())


def test_a_link_that_the_deployed_parser_does_not_take_is_lost() -> None:
    assert adapt(listed(crawl=Crawl(display_url="http://a b/")), LISTER) == (
        (listed(),),
        (lost("display-url", "'http://a b/', which is not well-formed"),),
    )


def test_an_empty_link_is_left_out() -> None:
    assert adapt(listed(crawl=Crawl(display_url="")), LISTER) == ((listed(),), ())


@pytest.mark.parametrize("target", [LISTER, RETRIEVER])
def test_a_deletion_loses_nothing(target: Target) -> None:
    record = make(action=Action.DELETE, arrival=Arrival.PUSHED, content=HTML, acl=acl(JOE))

    assert adapt(record, target) == ((make(action=Action.DELETE),), ())


@pytest.mark.parametrize("target", [LISTER, RETRIEVER])
def test_an_acl_alone_is_a_loss_of_acl(target: Target) -> None:
    record = make(acl=Acl(inherit_from="http://www.example.com/", alone=True))

    assert adapt(record, target) == (
        (Filtered(code="acl-alone", url=URL, action="ADD"),),
        (lost("acl", "0 principals, inherits from 'http://www.example.com/'"),),
    )


@pytest.mark.parametrize("target", [LISTER, RETRIEVER, AUTHORIZER])
def test_an_update_of_indexes_is_filtered(target: Target) -> None:
    record = Record(url="", action=Action.UPDATE_INDEX)

    assert adapt(record, target) == (
        (Filtered(code="update-index", url="", action="UPDATE_INDEX"),),
        (),
    )


@pytest.mark.parametrize("target", [LISTER, RETRIEVER, AUTHORIZER])
def test_a_deletion_by_pattern_is_rejected(target: Target) -> None:
    record = make(action=Action.DELETE_PATTERN, url="http://www.example.com/dir/*")

    assert rejected(record, target) == (
        "delete-pattern",
        "a deletion of all urls like 'http://www.example.com/dir/*'; expected one of a url, as a"
        " command stream has no patterns",
    )


@pytest.mark.parametrize("target", [LISTER, RETRIEVER])
def test_a_partial_update_is_rejected(target: Target) -> None:
    assert rejected(make(action=Action.UPDATE, title="Plan"), target) == (
        "partial-update",
        "an update of some fields; expected a whole document, as a command stream replaces all",
    )


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(document(), id="content"),
        pytest.param(
            document(
                metadata=(COLOUR, Meta("", ""), Meta("colour", "blue")),
                modified=MODIFIED,
                crawl=Crawl(
                    lock=False,
                    crawl_once=True,
                    secure=True,
                    no_index=False,
                    no_follow=True,
                    no_archive=False,
                    display_url=URL,
                    anchors=(Anchor(URL, "Plan"),),
                ),
                extras=(Extra("stream/foo=", "bar"), Extra("stream/param/X-a", "1")),
                acl=Acl(
                    inheritance=Inheritance.LEAF_NODE,
                    inherit_from="http://www.example.com/",
                    inherit_fragment="f",
                    principals=(JOE, replace(JOE, namespace="ns")),
                ),
            ),
            id="all-fields",
        ),
        pytest.param(make(action=Action.DELETE), id="deletion"),
    ],
)
def test_what_a_retriever_says_is_returned_as_it_is(record: Record) -> None:
    assert adapt(record, RETRIEVER) == ((record,), ())


@pytest.mark.parametrize("arrival", [Arrival.CRAWLED, Arrival.PUSHED, None])
def test_a_document_without_content_is_rejected(arrival: Arrival | None) -> None:
    assert rejected(make(arrival=arrival), RETRIEVER) == (
        "no-content",
        "a url to be crawled, without content; expected content, as a retriever gives it;"
        " --to lister-stream lists what is to be crawled",
    )


def test_what_a_retriever_gives_is_pushed() -> None:
    assert adapt(document(arrival=Arrival.CRAWLED), RETRIEVER) == ((document(),), ())


def test_text_becomes_content_in_utf_8() -> None:
    record = make(body="Pl\u00e4ne", charset="ISO-8859-1")

    assert adapt(record, RETRIEVER) == (
        (document(content=Content(b"Pl\xc3\xa4ne"), mimetype="text/plain; charset=UTF-8"),),
        (),
    )


def test_text_of_another_type_is_no_longer_of_it() -> None:
    assert adapt(make(body="Plan", mimetype="application/pdf"), RETRIEVER)[1] == (
        lost("mimetype", "'application/pdf': only the text of it is there"),
    )


def test_text_beside_content_is_lost() -> None:
    assert adapt(document(body="Plan"), RETRIEVER) == (
        (document(),),
        (lost("body", "4 characters beside content"),),
    )


def test_texts_and_fields_become_metadata() -> None:
    record = document(
        title="Plan",
        description="",
        keywords="a, b",
        categories=("Roads",),
        metadata=(COLOUR,),
        fields=(Field("Size", ("1", "2"), True, "urn:x"),),
    )
    metadata = (
        Meta("title", "Plan"),
        Meta("description", ""),
        Meta("keywords", "a, b"),
        Meta("category", "Roads"),
        COLOUR,
        Meta("Size", "1"),
        Meta("Size", "2"),
    )

    assert adapt(record, RETRIEVER) == (
        (document(metadata=metadata),),
        (lost("fields", "namespace 'urn:x' of 'Size'"),),
    )


def test_metadata_that_is_there_twice_is_kept_once() -> None:
    assert adapt(document(metadata=(COLOUR, COLOUR)), RETRIEVER) == (
        (document(metadata=(COLOUR,)),),
        (lost("metadata", "'colour' with the same value again"),),
    )


def test_metadata_of_bytes_that_are_text_is_text() -> None:
    assert adapt(document(metadata=(Meta("a", "", b"\xc3\xa4\0"),)), RETRIEVER) == (
        (document(metadata=(Meta("a", "\u00e4\0"),)),),
        (),
    )


def test_metadata_that_is_no_text_is_lost() -> None:
    assert adapt(document(metadata=(Meta("a", "", b"\xff"),)), RETRIEVER) == (
        (document(),),
        (lost("metadata", "'a', 1 byte that are no text"),),
    )


def test_a_charset_becomes_a_parameter_of_the_mimetype() -> None:
    assert adapt(document(charset="ISO-8859-1"), RETRIEVER) == (
        (document(mimetype="text/html; charset=ISO-8859-1"),),
        (),
    )


def test_a_charset_that_the_mimetype_states_is_no_loss() -> None:
    record = document(mimetype='text/html;Charset = "utf-8"')

    assert adapt(replace(record, charset="UTF-8"), RETRIEVER) == ((record,), ())


@pytest.mark.parametrize(
    ("mimetype", "charset", "detail"),
    [
        ("text/html;charset=x", "UTF-8", "'UTF-8' beside 'text/html;charset=x'"),
        (None, "UTF-8", "'UTF-8' beside the mimetype None"),
        ("text/html", "a b", "'a b' beside the mimetype 'text/html'"),
    ],
)
def test_a_charset_that_no_mimetype_can_state_is_lost(
    mimetype: str | None, charset: str, detail: str
) -> None:
    record = document(mimetype=mimetype)

    assert adapt(replace(record, charset=charset), RETRIEVER) == (
        (record,),
        (lost("charset", detail),),
    )


def test_what_a_retriever_cannot_say_is_lost() -> None:
    record = document(
        size=4,
        visited=MODIFIED,
        next_check=MODIFIED,
        overwrite_acls=False,
        crawl=Crawl(
            crawl_immediately=True,
            authmethod=Authmethod.NTLM,
            pagerank=70,
            feedrank=1,
            scoring=Scoring.WEB,
        ),
        history=History(views=1),
        extras=(Extra("Item/rid", "<rid>1</rid>"), Extra("stream/delete", "")),
    )

    assert adapt(record, RETRIEVER) == (
        (document(crawl=Crawl(secure=True)),),
        (
            lost("size", "4"),
            lost("visited", "2007-11-06 12:00:00+00:00"),
            lost("next-check", "2007-11-06 12:00:00+00:00"),
            lost("overwrite-acls", "false"),
            lost("crawl-immediately", "true"),
            lost("authmethod", "NTLM"),
            lost("pagerank", "70"),
            lost("feedrank", "1"),
            lost("scoring", "WEB"),
            lost("history", "views"),
            lost("extras", "Item/rid, stream/delete"),
        ),
    )


def test_an_anchor_that_the_deployed_parser_does_not_take_is_lost() -> None:
    kept = Anchor(URL, "Plan")

    assert adapt(document(crawl=Crawl(anchors=(Anchor("a b", ""), kept))), RETRIEVER) == (
        (document(crawl=Crawl(anchors=(kept,))),),
        (lost("anchors", "'a b', which is not well-formed"),),
    )


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        pytest.param(
            (JOE, replace(STAFF, case_sensitive=True)),
            (replace(JOE, case_sensitive=True), replace(STAFF, case_sensitive=True)),
            id="case-by-default",
        ),
        pytest.param(
            (JOE, replace(JOE, namespace="ns"), STAFF),
            (JOE, replace(JOE, namespace="ns"), replace(STAFF, namespace="Default")),
            id="namespace-by-default",
        ),
        pytest.param((JOE, replace(JOE, name=" joe\n")), (JOE,), id="padded-and-the-same"),
    ],
)
def test_principals_are_said_in_other_words_without_a_loss(
    found: tuple[Principal, ...], kept: tuple[Principal, ...]
) -> None:
    assert adapt(document(acl=acl(*found)), RETRIEVER) == ((document(acl=acl(*kept)),), ())


def test_case_counts_where_only_permits_ignored_it() -> None:
    found = acl(replace(JOE, case_sensitive=False), STAFF)
    kept = acl(replace(JOE, case_sensitive=True), replace(STAFF, case_sensitive=True))

    assert adapt(document(acl=found), RETRIEVER) == (
        (document(acl=kept),),
        (lost("acl", "case sensitivity of some principals; all are sensitive now"),),
    )


def test_case_does_not_count_where_a_denial_ignored_it() -> None:
    found = acl(replace(JOE, case_sensitive=True), replace(STAFF, case_sensitive=False))
    kept = acl(replace(JOE, case_sensitive=False), replace(STAFF, case_sensitive=False))

    assert adapt(document(acl=found), RETRIEVER) == (
        (document(acl=kept),),
        (lost("acl", "case sensitivity of some principals; all are insensitive now"),),
    )


def test_an_unqualified_principal_is_a_loss_of_acl() -> None:
    assert adapt(document(acl=acl(replace(JOE, unqualified=True))), RETRIEVER) == (
        (document(acl=acl(JOE)),),
        (lost("acl", "principal-type unqualified of 'joe'"),),
    )


def test_a_principal_without_a_name_is_a_loss_of_acl() -> None:
    assert adapt(document(acl=acl(JOE, replace(JOE, name=" "))), RETRIEVER) == (
        (document(acl=acl(JOE)),),
        (lost("acl", "principal ' ' without a name"),),
    )


def test_a_fragment_of_nothing_is_a_loss_of_acl() -> None:
    assert adapt(document(acl=Acl(inherit_fragment="f")), RETRIEVER) == (
        (document(acl=Acl()),),
        (lost("acl", "fragment 'f' of nothing to inherit from"),),
    )


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(answer(), id="answer"),
        pytest.param(
            answer(extras=(Extra("stream/username", "joe"), Extra("stream/group", "eng"))),
            id="question",
        ),
        pytest.param(answer(extras=()), id="id-without-an-answer"),
    ],
)
def test_what_an_authorizer_says_is_returned_as_it_is(record: Record) -> None:
    assert adapt(record, AUTHORIZER) == ((record,), ())


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(document(), id="document"),
        pytest.param(listed(), id="url"),
        pytest.param(make(action=Action.UPDATE, title="Plan"), id="update"),
        pytest.param(make(action=Action.DELETE, extras=PERMITTED), id="deletion"),
    ],
)
def test_what_nobody_asks_an_authorizer_is_rejected(record: Record) -> None:
    assert rejected(record, AUTHORIZER) == (
        "no-authz-status",
        "a document; expected what an authorizer answers or is asked, an extra at"
        " stream/authz-status or stream/username",
    )


def test_an_answer_about_a_document_loses_the_document() -> None:
    record = document(
        extras=PERMITTED, modified=MODIFIED, acl=acl(JOE), crawl=Crawl(lock=True), title="Plan"
    )

    assert adapt(record, AUTHORIZER) == (
        (answer(),),
        (
            lost("acl", "1 principal"),
            lost("content", "11 bytes, NONE"),
            lost("mimetype", "'text/html'"),
            lost("title", "'Plan'"),
            lost("modified", "2007-11-06 12:00:00+00:00"),
            lost("lock", "true"),
        ),
    )


@pytest.mark.parametrize(
    ("more", "detail"),
    [
        ((Extra("stream/authz-status", "DENY"),), "stream/authz-status"),
        ((Extra("stream/group", "eng"),), "stream/group"),
        ((Extra("stream/foo", ""), Extra("record/@foo", "")), "stream/foo, record/@foo"),
    ],
)
def test_extras_that_are_no_part_of_an_answer_are_lost(
    more: tuple[Extra, ...], detail: str
) -> None:
    assert adapt(answer(extras=PERMITTED + more), AUTHORIZER) == (
        (answer(),),
        (lost("extras", detail),),
    )


def test_an_answer_that_no_authorizer_gives_is_lost() -> None:
    record = answer(extras=(Extra("stream/authz-status", "permit"),))

    assert adapt(record, AUTHORIZER) == (
        (answer(extras=()),),
        (lost("extras", "stream/authz-status"),),
    )


def test_a_lone_surrogate_is_left_to_the_encoder() -> None:
    [outcome], _ = adapt(document(title="\ud800"), RETRIEVER)
    assert isinstance(outcome, Record)

    with pytest.raises(RecordError) as caught:
        retriever.encoder().encode(outcome)

    assert caught.value.code == "not-unicode"


@given(records(extras=commands()))
def test_what_was_adapted_for_a_lister_reads_back_from_its_stream(record: Record) -> None:
    outcomes = kept(record, LISTER)

    assert read_back(lister, outcomes) == list(map(plain, outcomes))


@given(records(extras=commands()))
def test_what_was_adapted_for_a_retriever_reads_back_from_its_stream(record: Record) -> None:
    outcomes = kept(record, RETRIEVER)

    assert read_back(retriever, outcomes) == list(map(plain, outcomes))


@given(records(extras=commands(), action=st.sampled_from((Action.ADD, Action.UPDATE))))
def test_what_was_adapted_for_an_authorizer_reads_back_from_its_stream(record: Record) -> None:
    outcomes = kept(record, AUTHORIZER)

    assert read_back(authorizer, outcomes) == list(map(plain, outcomes))
