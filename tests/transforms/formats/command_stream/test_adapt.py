"""The adaptation of records to command streams: each rule, and each message in full."""

import io
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.choices import NotFound
from schemas.content import decode
from schemas.errors import RecordError
from schemas.notice import Loss
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
from transforms.formats import AUTHORIZER_STREAM, LISTER_STREAM, RETRIEVER_STREAM, by_name
from transforms.formats.base import Mode, ReadOptions, WriteOptions, write_all

URL = "http://www.example.com/plan.html"
LISTER = Target(format="lister-stream")
RETRIEVER = Target(format="retriever-stream")
AUTHORIZER = Target(format="authorizer-stream")
THUNDERSTONE = Target(format="thunderstone")
WEB = Target(format="gsa-feed", datasource="web", feedtype="incremental")
MODIFIED = datetime(2007, 11, 6, 12, 0, 0, tzinfo=UTC)
FRACTION = MODIFIED.replace(microsecond=999_999)
HTML = Content(b"<p>Plan</p>")
COLOUR = Meta("colour", "red")
JOE = Principal(name="joe", scope=Scope.USER, access=Access.PERMIT)
STAFF = Principal(name="staff", scope=Scope.GROUP, access=Access.DENY)
PERMITTED = (Extra("stream/authz-status", "PERMIT"),)
STRICT = ReadOptions(mode=Mode.STRICT, not_found=NotFound.DELETE)
LEFT = (Meta("google:aclinheritancetype", "sideways"),)


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


@pytest.mark.parametrize(
    ("record", "target"),
    [
        pytest.param(listed(), LISTER, id="url"),
        pytest.param(
            listed(
                modified=MODIFIED,
                crawl=Crawl(lock=True, crawl_immediately=True, crawl_once=True, display_url=URL),
                extras=(Extra("stream/foo", ""),),
            ),
            LISTER,
            id="listed",
        ),
        pytest.param(make(action=Action.DELETE), LISTER, id="listed-deletion"),
        pytest.param(document(), RETRIEVER, id="content"),
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
            RETRIEVER,
            id="document",
        ),
        pytest.param(make(action=Action.DELETE), RETRIEVER, id="deletion"),
        pytest.param(answer(), AUTHORIZER, id="answer"),
        pytest.param(
            answer(extras=(Extra("stream/username", "joe"), Extra("stream/group", "eng"))),
            AUTHORIZER,
            id="question",
        ),
        pytest.param(answer(extras=()), AUTHORIZER, id="id-without-an-answer"),
    ],
)
def test_a_record_that_the_stream_holds_is_unchanged(record: Record, target: Target) -> None:
    assert adapt(record, target) == ((record,), ())


@pytest.mark.parametrize(
    ("record", "kept", "losses"),
    [
        (
            make(arrival=Arrival.PUSHED, content=Content(b"UGxhbg==", Encoding.BASE64)),
            listed(),
            [("content", "8 bytes, BASE64")],
        ),
        (make(body="Plan"), listed(), [("content", "4 characters of extracted text")]),
        (
            listed(modified=MODIFIED, extras=(Extra("stream/last-modified=", "99999999999999"),)),
            listed(modified=MODIFIED),
            [("extras", "stream/last-modified=")],
        ),
        (
            listed(crawl=Crawl(lock=False, crawl_immediately=False, crawl_once=False)),
            listed(),
            [],
        ),
        (listed(modified=FRACTION), listed(modified=MODIFIED), []),
        (
            listed(crawl=Crawl(display_url="http://a b/")),
            listed(),
            [("display-url", "'http://a b/' is not a well-formed URL")],
        ),
        (listed(crawl=Crawl(display_url="")), listed(), []),
        (
            listed(
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
            ),
            listed(crawl=Crawl(lock=True)),
            [
                ("acl", "1 principal"),
                ("mimetype", "'text/html'"),
                ("charset", "'UTF-8'"),
                ("size", "4"),
                ("visited", "2007-11-06 12:00:00+00:00"),
                ("next-check", "2007-11-06 12:00:00+00:00"),
                ("overwrite-acls", "false"),
                ("title", "'Plan'"),
                ("description", "'A plan'"),
                ("keywords", "'a, b'"),
                ("categories", "'Roads', 'Plans'"),
                ("metadata", "'colour', 'size'"),
                ("fields", "'Size'"),
                ("history", "depth, errors"),
                ("pagerank", "70"),
                ("secure", "true"),
                ("anchors", "1"),
                ("extras", "record/@foo, stream/param/X-a"),
            ],
        ),
    ],
)
def test_a_listing_loses_the_fields_without_a_command_of_a_lister(
    record: Record, kept: Record, losses: list[tuple[str, str]]
) -> None:
    assert adapt(record, LISTER) == ((kept,), tuple(lost(*loss) for loss in losses))


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


PATTERN = make(action=Action.DELETE_PATTERN, url="http://www.example.com/dir/*")
UPDATE = make(action=Action.UPDATE, title="Plan")
REFUSALS = {
    "delete-pattern": (
        "a deletion by the pattern 'http://www.example.com/dir/*'; expected a deletion of one URL,"
        " because command streams have no patterns"
    ),
    "partial-update": (
        "an update of some fields; expected a whole document, as a command stream replaces all"
    ),
    "no-content": (
        "a URL to be crawled, without content; expected content;"
        " --to lister-stream lists URLs to be crawled"
    ),
    "no-authz-status": (
        "a document; expected an answer of an authorizer or a question to it, with an extra at"
        " stream/authz-status or stream/username"
    ),
}


@pytest.mark.parametrize(
    ("record", "target", "code"),
    [
        *((PATTERN, target, "delete-pattern") for target in (LISTER, RETRIEVER, AUTHORIZER)),
        *((UPDATE, target, "partial-update") for target in (LISTER, RETRIEVER)),
        *(
            (make(arrival=arrival), RETRIEVER, "no-content")
            for arrival in (Arrival.CRAWLED, Arrival.PUSHED, None)
        ),
        *(
            (record, AUTHORIZER, "no-authz-status")
            for record in (
                *(document(), listed(), UPDATE),
                make(action=Action.DELETE, extras=PERMITTED),
            )
        ),
    ],
)
def test_a_record_that_no_command_expresses_is_rejected(
    record: Record, target: Target, code: str
) -> None:
    [outcome], losses = adapt(record, target)
    assert isinstance(outcome, Reject)
    assert (outcome.code, outcome.reason, losses) == (code, REFUSALS[code], ())


@pytest.mark.parametrize(
    ("record", "kept", "losses"),
    [
        (document(arrival=Arrival.CRAWLED), document(), []),
        (document(modified=FRACTION), document(modified=MODIFIED), []),
        (
            make(body="Pl\u00e4ne", charset="ISO-8859-1"),
            document(content=Content(b"Pl\xc3\xa4ne"), mimetype="text/plain; charset=UTF-8"),
            [],
        ),
        (
            make(body="Plan", mimetype="application/pdf"),
            document(content=Content(b"Plan"), mimetype="text/plain; charset=UTF-8"),
            [("mimetype", "'application/pdf': only the text of it is there")],
        ),
        (document(body="Plan"), document(), [("body", "4 characters beside content")]),
        (
            document(
                title="Plan",
                description="",
                keywords="a, b",
                categories=("Roads",),
                metadata=(COLOUR,),
                fields=(Field("Size", ("1", "2"), True, "urn:x"),),
            ),
            document(
                metadata=(
                    *(Meta("title", "Plan"), Meta("description", ""), Meta("keywords", "a, b")),
                    *(Meta("category", "Roads"), COLOUR, Meta("Size", "1"), Meta("Size", "2")),
                )
            ),
            [("fields", "namespace 'urn:x' of 'Size'")],
        ),
        (
            document(metadata=(COLOUR, COLOUR)),
            document(metadata=(COLOUR,)),
            [("metadata", "'colour' with the same value again")],
        ),
        (
            document(metadata=(Meta("a", "", b"\xc3\xa4\0"),)),
            document(metadata=(Meta("a", "\u00e4\0"),)),
            [],
        ),
        (
            document(metadata=(Meta("a", "", b"\xff"),)),
            document(),
            [("metadata", "'a', 1 byte that are no text")],
        ),
        (
            document(charset="ISO-8859-1"),
            document(mimetype="text/html; charset=ISO-8859-1"),
            [],
        ),
        (
            document(mimetype='text/html;Charset = "utf-8"', charset="UTF-8"),
            document(mimetype='text/html;Charset = "utf-8"'),
            [],
        ),
        (
            document(mimetype="text/html;charset=x", charset="UTF-8"),
            document(mimetype="text/html;charset=x"),
            [("charset", "'UTF-8', but the mimetype is 'text/html;charset=x'")],
        ),
        (
            document(mimetype=None, charset="UTF-8"),
            document(mimetype=None),
            [("charset", "'UTF-8', but the mimetype is None")],
        ),
        (
            document(charset="a b"),
            document(),
            [("charset", "'a b', but the mimetype is 'text/html'")],
        ),
        (
            document(crawl=Crawl(anchors=(Anchor("a b", ""), Anchor(URL, "Plan")))),
            document(crawl=Crawl(anchors=(Anchor(URL, "Plan"),))),
            [("anchors", "'a b' is not a well-formed URL")],
        ),
        (
            document(
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
            ),
            document(crawl=Crawl(secure=True)),
            [
                ("size", "4"),
                ("visited", "2007-11-06 12:00:00+00:00"),
                ("next-check", "2007-11-06 12:00:00+00:00"),
                ("overwrite-acls", "false"),
                ("crawl-immediately", "true"),
                ("authmethod", "NTLM"),
                ("pagerank", "70"),
                ("feedrank", "1"),
                ("scoring", "WEB"),
                ("history", "views"),
                ("extras", "Item/rid, stream/delete"),
            ],
        ),
    ],
)
def test_a_document_loses_the_fields_without_a_command_of_a_retriever(
    record: Record, kept: Record, losses: list[tuple[str, str]]
) -> None:
    assert adapt(record, RETRIEVER) == ((kept,), tuple(lost(*loss) for loss in losses))


def insensitive(principal: Principal) -> Principal:
    return replace(principal, case_sensitive=False)


def sensitive(principal: Principal) -> Principal:
    return replace(principal, case_sensitive=True)


IN_NAMESPACE = replace(JOE, namespace="ns")


@pytest.mark.parametrize(
    ("stated", "kept", "loss"),
    [
        pytest.param(
            acl(JOE, sensitive(STAFF)),
            acl(sensitive(JOE), sensitive(STAFF)),
            None,
            id="case-by-default",
        ),
        pytest.param(
            acl(JOE, IN_NAMESPACE, STAFF),
            acl(JOE, IN_NAMESPACE, replace(STAFF, namespace="Default")),
            None,
            id="namespace-by-default",
        ),
        pytest.param(acl(JOE, replace(JOE, name=" joe\n")), acl(JOE), None, id="padded-and-same"),
        pytest.param(
            acl(insensitive(JOE), STAFF),
            acl(sensitive(JOE), sensitive(STAFF)),
            "case sensitivity of some principals; all are sensitive now",
            id="only-permits-ignored-case",
        ),
        pytest.param(
            acl(sensitive(JOE), insensitive(STAFF)),
            acl(insensitive(JOE), insensitive(STAFF)),
            "case sensitivity of some principals; all are insensitive now",
            id="a-denial-ignored-case",
        ),
        pytest.param(
            acl(replace(JOE, unqualified=True)),
            acl(JOE),
            "principal-type unqualified of 'joe'",
            id="unqualified",
        ),
        pytest.param(
            acl(JOE, replace(JOE, name=" ")), acl(JOE), "principal ' ' without a name", id="no-name"
        ),
        pytest.param(
            Acl(inherit_fragment="f"),
            Acl(),
            "fragment 'f' of nothing to inherit from",
            id="fragment-of-nothing",
        ),
    ],
)
def test_an_acl_is_fitted_to_the_commands_of_a_retriever(
    stated: Acl, kept: Acl, loss: str | None
) -> None:
    losses = () if loss is None else (lost("acl", loss),)

    assert adapt(document(acl=stated), RETRIEVER) == ((document(acl=kept),), losses)


@pytest.mark.parametrize(
    ("record", "kept", "losses"),
    [
        (
            document(
                extras=PERMITTED, modified=MODIFIED, acl=acl(JOE), crawl=Crawl(lock=True), title="P"
            ),
            answer(),
            [
                ("acl", "1 principal"),
                ("content", "11 bytes, NONE"),
                ("mimetype", "'text/html'"),
                ("title", "'P'"),
                ("modified", "2007-11-06 12:00:00+00:00"),
                ("lock", "true"),
            ],
        ),
        *(
            (answer(extras=PERMITTED + more), answer(), [("extras", detail)])
            for more, detail in (
                ((Extra("stream/authz-status", "DENY"),), "stream/authz-status"),
                ((Extra("stream/group", "eng"),), "stream/group"),
                (
                    (Extra("stream/foo", ""), Extra("record/@foo", "")),
                    "stream/foo, record/@foo",
                ),
            )
        ),
        (
            answer(extras=(Extra("stream/authz-status", "permit"),)),
            answer(extras=()),
            [("extras", "stream/authz-status")],
        ),
    ],
)
def test_an_answer_loses_the_other_fields(
    record: Record, kept: Record, losses: list[tuple[str, str]]
) -> None:
    assert adapt(record, AUTHORIZER) == ((kept,), tuple(lost(*loss) for loss in losses))


def test_a_lone_surrogate_is_left_to_the_encoder() -> None:
    [outcome], _ = adapt(document(title="\ud800"), RETRIEVER)

    with pytest.raises(RecordError) as caught:
        RETRIEVER_STREAM.make_encoder(WriteOptions()).encode(outcome)

    assert caught.value.code == "not-unicode"


# Protection, also in a dataload and a web feed


def acl_losses(record: Record, target: Target) -> list[str]:
    return [loss.detail for loss in adapt(record, target)[1] if loss.field == "acl"]


@pytest.mark.parametrize(
    ("crawl", "detail"),
    [
        (Crawl(authmethod=Authmethod.NEGOTIATE), "none, but the authmethod NEGOTIATE"),
        (Crawl(secure=True), "none, but the document is secure"),
    ],
)
@pytest.mark.parametrize("content", [None, Content(b"Plan")])
def test_a_listing_loses_the_protection_of_a_document_without_an_acl(
    crawl: Crawl, detail: str, content: Content | None
) -> None:
    assert acl_losses(document(crawl=crawl, content=content), LISTER) == [detail]


@pytest.mark.parametrize("secure", [None, False, True])
def test_a_document_with_an_authmethod_stays_secure_for_a_retriever(secure: bool | None) -> None:
    record = document(crawl=Crawl(secure=secure, authmethod=Authmethod.NTLM))

    assert adapt(record, RETRIEVER) == (
        (document(crawl=Crawl(secure=True)),),
        (lost("authmethod", "NTLM"),),
    )


@pytest.mark.parametrize("place", ["record/@authmethod", "record/@AuthMethod", "group/@authmethod"])
@pytest.mark.parametrize("target", [LISTER, RETRIEVER, THUNDERSTONE])
def test_an_unknown_authmethod_is_a_loss_of_acl(target: Target, place: str) -> None:
    record = document(extras=(Extra(place, "kerberos"),))

    assert acl_losses(record, target) == ["none, but an unknown authmethod 'kerberos'"]


@pytest.mark.parametrize("target", [LISTER, THUNDERSTONE])
def test_unknown_metadata_of_an_acl_is_a_loss_of_acl(target: Target) -> None:
    assert acl_losses(document(metadata=LEFT), target) == ["metadata 'google:aclinheritancetype'"]


def test_metadata_of_an_acl_is_a_loss_of_acl_in_a_web_feed() -> None:
    record = document(metadata=(*LEFT, COLOUR), content=None)

    assert adapt(record, WEB)[1] == (
        lost("acl", "'google:aclinheritancetype': a web feed has none"),
        lost("metadata", "'colour': a web feed has none"),
    )


def test_a_denial_in_bytes_is_a_loss_of_acl_for_a_retriever() -> None:
    record = document(acl=acl(JOE), metadata=(Meta("google:acldenyusers", "", b"\xff"),))

    assert acl_losses(record, RETRIEVER) == ["'google:acldenyusers', 1 byte that are no text"]


# Round trips


def without_place(record: Record) -> Record:
    """The record without the encoding of its content and its provenance."""
    content = record.content and Content(decode(record.content))
    return replace(record, content=content, provenance=Provenance())


def commands() -> SearchStrategy[tuple[Extra, ...]]:
    """Extras of every kind, some of which are unknown commands."""
    name = st.one_of(st.sampled_from(("lock", "content", "", "last-modified")), texts())
    place = st.builds("stream/{}{}".format, name, st.sampled_from(("", "=")))
    answers = st.sampled_from(
        ("stream/authz-status", "stream/username", "stream/group", "stream/param/X-a", "record/x")
    )
    value = st.sampled_from(("PERMIT", "", "99999999999999")) | texts()
    return st.lists(st.builds(Extra, place | answers, value), max_size=4).map(tuple)


UPDATABLE = st.sampled_from((Action.ADD, Action.UPDATE))


@pytest.mark.parametrize("name", [LISTER_STREAM.name, RETRIEVER_STREAM.name])
@given(record=records(extras=commands()))
def test_an_adapted_record_survives_a_round_trip(name: str, record: Record) -> None:
    check_round_trip(record, name)


@given(records(extras=commands(), action=UPDATABLE))
def test_an_adapted_answer_survives_a_round_trip(record: Record) -> None:
    check_round_trip(record, AUTHORIZER_STREAM.name)


def check_round_trip(record: Record, name: str) -> None:
    """Compare the adapted record with the record that the deployed parser reads."""
    outcomes = adapt(record, Target(format=name))[0]
    kept = [outcome for outcome in outcomes if isinstance(outcome, Record)]
    if not kept:
        return
    stream = io.BytesIO()
    write_all(by_name(name).make_encoder(WriteOptions()), kept, stream)
    stream.seek(0)
    results = by_name(name).read(stream, options=STRICT)
    assert [without_place(one) for one in results if isinstance(one, Record)] == [
        without_place(one) for one in kept
    ]
