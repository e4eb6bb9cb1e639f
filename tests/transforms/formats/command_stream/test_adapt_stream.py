"""The adaptation of records to command streams: each rule, and each message in full."""

import io
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.choices import NotFound
from feedferry.schemas.content import decode
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
    Provenance,
    Record,
    Scoring,
)
from feedferry.schemas.reject import Filtered, Reject
from feedferry.testing.strategies import records, texts
from feedferry.transforms.formats import (
    AUTHORIZER_STREAM,
    LISTER_STREAM,
    RETRIEVER_STREAM,
    StreamOptions,
    by_name,
)
from feedferry.transforms.formats.base import ReadOptions, WriteOptions, write_all
from feedferry.transforms.rules.adapt import Target, adapt
from support.adaptation import COLOUR, HTML, URL, adapted, document, lost, make
from support.stream_strategies import answers, documents, listings, questions

LISTER = Target(format="lister-stream")
RETRIEVER = Target(format="retriever-stream")
AUTHORIZER = Target(format="authorizer-stream")
THUNDERSTONE = Target(format="thunderstone")
WEB = Target(format="gsa-feed", datasource="web", feedtype="incremental")
MODIFIED = datetime(2007, 11, 6, 12, 0, 0, tzinfo=UTC)
JOE = Principal(name="joe", scope=Scope.USER, access=Access.PERMIT)
STAFF = Principal(name="staff", scope=Scope.GROUP, access=Access.DENY)
PERMITTED = (Extra("stream/authz-status", "PERMIT"),)
STRICT = ReadOptions(own=(StreamOptions(strict=True, not_found=NotFound.DELETE),))
LEFT = (Meta("google:aclinheritancetype", "sideways"),)
RANKED = Crawl(crawl_immediately=True, pagerank=70, feedrank=1)
UNSENT = {"size": 4, "visited": MODIFIED, "next_check": MODIFIED, "overwrite_acls": False}
"""Fields that neither a lister nor a retriever sends."""
TIME = "2007-11-06 12:00:00+00:00"
UNSENT_LOSSES = ("size: 4", f"visited: {TIME}", f"next-check: {TIME}", "overwrite-acls: false")
NO_URL = "'{}' is not a well-formed URL"


def listed(**stated: object) -> Record:
    return make(**({"arrival": Arrival.CRAWLED} | stated))


def answer(**stated: object) -> Record:
    return make(**({"action": Action.UPDATE, "extras": PERMITTED} | stated))


def acl(*principals: Principal) -> Acl:
    return Acl(principals=principals)


@pytest.mark.parametrize(
    ("target", "strategy"),
    [(LISTER, listings()), (RETRIEVER, documents()), (AUTHORIZER, answers() | questions())],
)
@given(data=st.data())
def test_a_record_that_the_stream_holds_is_unchanged(
    target: Target, strategy: SearchStrategy[Record | list[Record]], data: st.DataObject
) -> None:
    drawn = data.draw(strategy)
    for record in [drawn] if isinstance(drawn, Record) else drawn:
        assert adapt(record, target) == ((record,), ())


@pytest.mark.parametrize(
    ("record", "crawl", "losses"),
    [
        (listed(content=Content(b"UGxhbg==", Encoding.BASE64)), None, ["content: 8 bytes, BASE64"]),
        (listed(body="Plan"), None, ["content: 4 characters of extracted text"]),
        (
            listed(crawl=Crawl(lock=True, display_url="http://a b/")),
            Crawl(lock=True),
            [f"display-url: {NO_URL.format('http://a b/')}"],
        ),
        (
            listed(
                **{"title": "Plan", "description": "A plan", "keywords": "a, b", "acl": acl(JOE)},
                **UNSENT | {"mimetype": "text/html", "charset": "UTF-8"},
                categories=("Roads", "Plans"),
                metadata=(COLOUR, COLOUR, Meta("size", "4")),
                fields=(Field("Size", ("1", "2"), True),),
                crawl=Crawl(lock=True, pagerank=70, secure=True, anchors=(Anchor(URL, "Plan"),)),
                history=History(depth=0, errors=("404",)),
                extras=(Extra("record/@foo", "bar"), Extra("stream/param/X-a", "1")),
            ),
            Crawl(lock=True),
            [
                *("acl: 1 principal", "mimetype: 'text/html'", "charset: 'UTF-8'", *UNSENT_LOSSES),
                *("title: 'Plan'", "description: 'A plan'", "keywords: 'a, b'"),
                *("categories: 'Roads', 'Plans'", "metadata: 'colour', 'size'", "fields: 'Size'"),
                *("history: depth, errors", "pagerank: 70", "secure: true", "anchors: 1"),
                *("extras: record/@foo", "extras: stream/param/X-a"),
            ],
        ),
    ],
    ids=["content", "body", "display-url", "all-fields"],
)
def test_a_listing_loses_the_fields_without_a_command_of_a_lister(
    record: Record, crawl: Crawl | None, losses: list[str]
) -> None:
    assert adapted(record, LISTER) == (listed(crawl=crawl), losses)


@pytest.mark.parametrize("target", [LISTER, RETRIEVER])
def test_a_deletion_loses_nothing(target: Target) -> None:
    record = make(action=Action.DELETE, content=HTML, acl=acl(JOE), title="Plan")
    assert adapted(record, target)[1] == []


@pytest.mark.parametrize("target", [LISTER, RETRIEVER])
def test_an_acl_alone_is_a_loss_of_acl(target: Target) -> None:
    record = make(acl=Acl(inherit_from="http://www.example.com/", alone=True))
    assert adapt(record, target) == (
        (Filtered(code="acl-alone", url=URL, action="ADD"),),
        (lost("acl", "0 principals, inherits from 'http://www.example.com/'"),),
    )


@pytest.mark.parametrize("target", [LISTER, RETRIEVER, AUTHORIZER])
def test_an_update_of_indexes_is_filtered(target: Target) -> None:
    filtered = Filtered(code="update-index", url="", action="UPDATE_INDEX")
    assert adapt(Record(url="", action=Action.UPDATE_INDEX), target) == ((filtered,), ())


PATTERN = make(action=Action.DELETE_PATTERN, url="http://www.example.com/dir/*")
UPDATE = make(action=Action.UPDATE, title="Plan")
REFUSALS = {
    "delete-pattern": (
        "a deletion by the pattern 'http://www.example.com/dir/*'; expected one of a URL, as {} has"
        " no patterns; --known-urls lists the URLs that patterns are matched with"
    ),
    "partial-update": ("an update of some fields; expected a whole document, as {} replaces all"),
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
        *((PATTERN, target, "delete-pattern") for target in (LISTER, RETRIEVER)),
        *((UPDATE, target, "partial-update") for target in (LISTER, RETRIEVER)),
        *((make(arrival=arrival), RETRIEVER, "no-content") for arrival in (*Arrival, None)),
        *(
            (record, AUTHORIZER, "no-authz-status")
            for record in (
                *(document(), listed(), UPDATE, PATTERN),
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
    reason = REFUSALS[code].format(target.format)
    assert (outcome.code, outcome.reason, losses) == (code, reason, ())


@pytest.mark.parametrize(
    ("stated", "kept", "losses"),
    [
        (
            {"content": None, "body": "Pl\u00e4ne", "mimetype": None, "charset": "ISO-8859-1"},
            {"content": Content(b"Pl\xc3\xa4ne"), "mimetype": "text/plain; charset=UTF-8"},
            [],
        ),
        (
            {"content": None, "body": "Plan", "mimetype": "application/pdf"},
            {"content": Content(b"Plan"), "mimetype": "text/plain; charset=UTF-8"},
            ["mimetype: 'application/pdf': only the text of it is there"],
        ),
        ({"body": "Plan"}, {}, ["body: 4 characters next to content"]),
        (
            {
                **{"title": "Plan", "description": "", "keywords": "a, b"},
                **{"categories": ("Roads",), "metadata": (COLOUR,)},
                "fields": (Field("Size", ("1", "2"), True, "urn:x"),),
            },
            {
                "metadata": (
                    *(Meta("title", "Plan"), Meta("description", ""), Meta("keywords", "a, b")),
                    *(Meta("category", "Roads"), COLOUR, Meta("Size", "1"), Meta("Size", "2")),
                )
            },
            ["fields: namespace 'urn:x' of 'Size'"],
        ),
        (
            {"metadata": (COLOUR, COLOUR)},
            {"metadata": (COLOUR,)},
            ["metadata: 'colour' with the same value again"],
        ),
        (
            {"metadata": (Meta("a", "", b"\xc3\xa4\0"), Meta("a", "", b"\xff"))},
            {"metadata": (Meta("a", "\u00e4\0"),)},
            ["metadata: 'a', 1 byte that are no text"],
        ),
        ({"charset": "ISO-8859-1"}, {"mimetype": "text/html; charset=ISO-8859-1"}, []),
        (
            {"mimetype": 'text/html;Charset = "utf-8"', "charset": "UTF-8"},
            {"mimetype": 'text/html;Charset = "utf-8"'},
            [],
        ),
        (
            {"mimetype": "text/html;charset=x", "charset": "UTF-8"},
            {"mimetype": "text/html;charset=x"},
            ["charset: 'UTF-8', but the mimetype is 'text/html;charset=x'"],
        ),
        (
            {"mimetype": None, "charset": "UTF-8"},
            {"mimetype": None},
            ["charset: 'UTF-8', but the mimetype is None"],
        ),
        ({"charset": "a b"}, {}, ["charset: 'a b', but the mimetype is 'text/html'"]),
        (
            {"crawl": Crawl(anchors=(Anchor("a b", ""), Anchor(URL, "Plan")))},
            {"crawl": Crawl(anchors=(Anchor(URL, "Plan"),))},
            [f"anchors: {NO_URL.format('a b')}"],
        ),
        (
            {
                **UNSENT,
                "crawl": replace(RANKED, authmethod=Authmethod.NTLM, scoring=Scoring.WEB),
                "history": History(views=1),
                "extras": (Extra("Item/rid", "<rid>1</rid>"), Extra("stream/delete", "")),
            },
            {"crawl": Crawl(secure=True)},
            [
                *(*UNSENT_LOSSES, "history: views", "crawl-immediately: true", "authmethod: NTLM"),
                *("pagerank: 70", "feedrank: 1", "scoring: WEB"),
                *("extras: Item/rid", "extras: stream/delete"),
            ],
        ),
    ],
    ids=range(13),
)
def test_a_document_loses_the_fields_without_a_command_of_a_retriever(
    stated: dict[str, object], kept: dict[str, object], losses: list[str]
) -> None:
    assert adapted(document(**stated), RETRIEVER) == (document(**kept), losses)


def insensitive(principal: Principal) -> Principal:
    return replace(principal, case_sensitive=False)


def sensitive(principal: Principal) -> Principal:
    return replace(principal, case_sensitive=True)


@pytest.mark.parametrize(
    ("stated", "kept", "loss"),
    [
        (acl(JOE, sensitive(STAFF)), acl(sensitive(JOE), sensitive(STAFF)), None),
        (acl(JOE, replace(JOE, name=" joe\n")), acl(JOE), None),
        (
            acl(insensitive(JOE), STAFF),  # only a permission ignored case
            acl(sensitive(JOE), sensitive(STAFF)),
            "case sensitivity of some principals; all are sensitive now",
        ),
        (
            acl(sensitive(JOE), insensitive(STAFF)),  # a denial ignored case
            acl(insensitive(JOE), insensitive(STAFF)),
            "case sensitivity of some principals; all are insensitive now",
        ),
        (acl(replace(JOE, unqualified=True)), acl(JOE), "principal-type unqualified of 'joe'"),
        (acl(JOE, replace(JOE, name=" ")), acl(JOE), "principal ' ' without a name"),
        (Acl(inherit_fragment="f"), Acl(), "fragment 'f' of nothing to inherit from"),
    ],
)
def test_an_acl_is_fitted_to_the_commands_of_a_retriever(
    stated: Acl, kept: Acl, loss: str | None
) -> None:
    losses = [] if loss is None else [f"acl: {loss}"]
    assert adapted(document(acl=stated), RETRIEVER) == (document(acl=kept), losses)


@pytest.mark.parametrize(
    ("record", "kept", "losses"),
    [
        (
            document(
                **{"extras": PERMITTED, "modified": MODIFIED, "acl": acl(JOE), "title": "P"},
                crawl=Crawl(lock=True),
            ),
            answer(arrival=Arrival.PUSHED),
            [
                *("acl: 1 principal", "content: 11 bytes, NONE", "mimetype: 'text/html'"),
                *("title: 'P'", f"modified: {TIME}", "lock: true"),
            ],
        ),
        *(
            (answer(extras=PERMITTED + more), answer(), [f"extras: {detail}"])
            for more, detail in (
                ((Extra("stream/authz-status", "DENY"),), "stream/authz-status"),
                ((Extra("stream/group", "eng"),), "stream/group"),
                ((Extra("stream/foo", ""),), "stream/foo"),
                ((Extra("record/@foo", ""),), "record/@foo"),
            )
        ),
        (
            answer(extras=(Extra("stream/authz-status", "permit"),)),
            answer(extras=()),
            ["extras: stream/authz-status"],
        ),
    ],
)
def test_an_answer_loses_the_other_fields(record: Record, kept: Record, losses: list[str]) -> None:
    assert adapted(record, AUTHORIZER) == (kept, losses)


# Protection, also in a dataload and a web feed


@pytest.mark.parametrize(
    ("stated", "targets", "detail"),
    [
        (
            {"crawl": Crawl(authmethod=Authmethod.NEGOTIATE)},
            (LISTER,),
            "none, but the authmethod NEGOTIATE",
        ),
        ({"crawl": Crawl(secure=True)}, (LISTER,), "none, but the document is secure"),
        (
            {"crawl": Crawl(secure=True), "content": None},
            (LISTER,),
            "none, but the document is secure",
        ),
        *(
            (
                {"extras": (Extra(place, "kerberos"),)},
                (LISTER, RETRIEVER, THUNDERSTONE),
                "none, but an unknown authmethod 'kerberos'",
            )
            for place in ("record/@authmethod", "record/@AuthMethod", "group/@authmethod")
        ),
        ({"metadata": LEFT}, (LISTER, THUNDERSTONE), "metadata 'google:aclinheritancetype'"),
        (
            {"acl": acl(JOE), "metadata": (Meta("google:acldenyusers", "", b"\xff"),)},
            (RETRIEVER,),
            "'google:acldenyusers', 1 byte that are no text",
        ),
    ],
)
def test_a_lost_protection_is_a_loss_of_acl(
    stated: dict[str, object], targets: tuple[Target, ...], detail: str
) -> None:
    for target in targets:
        losses = adapt(document(**stated), target)[1]
        assert [loss.detail for loss in losses if loss.field == "acl"] == [detail]


@pytest.mark.parametrize("secure", [None, False, True])
def test_a_document_with_an_authmethod_stays_secure_for_a_retriever(secure: bool | None) -> None:
    record = document(crawl=Crawl(secure=secure, authmethod=Authmethod.NTLM))
    expected = document(crawl=Crawl(secure=True))
    assert adapted(record, RETRIEVER) == (expected, ["authmethod: NTLM"])


def test_metadata_of_an_acl_is_a_loss_of_acl_in_a_web_feed() -> None:
    record = document(metadata=(*LEFT, COLOUR), content=None)
    assert adapt(record, WEB)[1] == (
        lost("acl", "metadata 'google:aclinheritancetype'"),
        lost("metadata", "'google:aclinheritancetype', 'colour'"),
    )


# Round trips


def as_read(record: Record, name: str) -> Record:
    """An adapted record as the stream states it."""
    is_added = record.action is Action.ADD
    if name == RETRIEVER_STREAM.name and not is_added:
        return Record(url=record.url, action=record.action)
    arrival = Arrival.CRAWLED if name == LISTER_STREAM.name else Arrival.PUSHED
    crawl = record.crawl
    if crawl and name == LISTER_STREAM.name:
        flags = ("lock", "crawl_immediately", "crawl_once")
        crawl = replace(crawl, **{name: getattr(crawl, name) or None for name in flags})
    principals: list[Principal] = []
    for principal in record.acl.principals if record.acl else ():
        last = principals[-1].namespace if principals else None
        is_default = principal.namespace is None and last is not None
        principals.append(replace(principal, namespace="Default") if is_default else principal)
    return replace(
        record,
        arrival=arrival if is_added else None,
        content=record.content and Content(decode(record.content)),
        modified=record.modified and record.modified.replace(microsecond=0),
        extras=record.extras if name != AUTHORIZER_STREAM.name else in_order(record.extras),
        crawl=None if crawl == Crawl() else crawl,
        acl=record.acl and replace(record.acl, principals=tuple(principals)),
        provenance=Provenance(),
    )


def in_order(extras: tuple[Extra, ...]) -> tuple[Extra, ...]:
    """The extras of an answer: a user, its groups, a status."""
    places = ("stream/username", "stream/group", "stream/authz-status")
    return tuple(sorted(extras, key=lambda extra: places.index(extra.place)))


def commands() -> SearchStrategy[tuple[Extra, ...]]:
    """Extras of every kind, some of which are unknown commands."""
    name = st.one_of(st.sampled_from(("lock", "content", "", "last-modified")), texts())
    place = st.builds("stream/{}{}".format, name, st.sampled_from(("", "=")))
    answers = st.sampled_from(
        ("stream/authz-status", "stream/username", "stream/group", "stream/param/X-a", "record/x")
    )
    value = st.sampled_from(("PERMIT", "", "99999999999999")) | texts()
    return st.lists(st.builds(Extra, place | answers, value), max_size=4).map(tuple)


ACTIONS = st.sampled_from((Action.ADD, Action.UPDATE))


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        (LISTER_STREAM.name, records(extras=commands())),
        (RETRIEVER_STREAM.name, records(extras=commands())),
        (AUTHORIZER_STREAM.name, records(extras=commands(), action=ACTIONS)),
    ],
)
@given(data=st.data())
def test_the_deployed_parser_reads_an_adapted_record(
    name: str, strategy: SearchStrategy[Record], data: st.DataObject
) -> None:
    outcomes = adapt(data.draw(strategy), Target(format=name))[0]
    kept = [outcome for outcome in outcomes if isinstance(outcome, Record)]
    stream = io.BytesIO()
    write_all(by_name(name).make_encoder(WriteOptions()), kept, stream)
    stream.seek(0)
    results = by_name(name).read(stream, options=STRICT) if kept else ()
    assert [
        replace(record, provenance=Provenance()) for record in results if isinstance(record, Record)
    ] == [as_read(record, name) for record in kept]
