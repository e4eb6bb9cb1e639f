"""Adapters that formats share: for some fields, for groups, and for the encoding of contents."""

from datetime import UTC, datetime

import pybase64
import pytest
from msgspec.structs import replace

from schemas.acl import Access, Acl, Principal, Scope
from schemas.content import compress, decode
from schemas.membership import Member, Membership
from schemas.record import (
    Action,
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
)
from schemas.reject import Filtered, Reject
from support.toy_format import TOY
from transforms.adapt import Target, adapt, adapt_membership
from transforms.formats import registered
from transforms.formats.adapt_rules import hold_fields

JOE = Acl(principals=(Principal(name="joe", scope=Scope.USER, access=Access.PERMIT),))
FULL = Record(
    url="http://www.example.com/a",
    action=Action.ADD,
    arrival=Arrival.PUSHED,
    content=Content(b"text"),
    mimetype="text/plain",
    title="A",
    body="text",
    categories=("c",),
    metadata=(Meta("m", "1"),),
    fields=(Field("f", ("1",)),),
    modified=datetime(2026, 1, 31, tzinfo=UTC),
    acl=JOE,
    crawl=Crawl(lock=True),
    history=History(views=3),
    extras=(Extra("Item/x", "1"),),
)


def losses(record: Record, *fields: str) -> list[str]:
    (outcome,), lost = hold_fields(*fields)(Target(format="toy"))(record)
    assert isinstance(outcome, Record)
    return [loss.field for loss in lost]


def test_every_field_that_is_not_held_is_a_loss() -> None:
    assert losses(FULL, "content", "mimetype") == [
        *("acl", "title", "body", "modified", "categories", "metadata", "fields"),
        *("lock", "history", "extras"),
    ]


def test_a_held_field_stays() -> None:
    (outcome,), _ = hold_fields("title", "acl")(Target(format="toy"))(FULL)
    assert outcome == Record(
        url=FULL.url, action=Action.ADD, arrival=Arrival.PUSHED, title="A", acl=JOE
    )


def test_protection_without_an_acl_is_a_loss_of_acl() -> None:
    bare = Record(url="u", action=Action.ADD)
    assert losses(replace(bare, crawl=Crawl(authmethod=Authmethod.HTTPBASIC)))[0] == "acl"
    assert losses(replace(bare, metadata=(Meta("google:aclusers", "joe"),)))[0] == "acl"


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (Record(url="u", action=Action.UPDATE), "partial-update"),
        (Record(url="u", action=Action.DELETE_PATTERN), "delete-pattern"),
        (Record(url="", action=Action.UPDATE_INDEX), "update-index"),
        (Record(url="u", action=Action.ADD, acl=replace(JOE, alone=True)), "acl-alone"),
    ],
)
def test_a_record_without_a_whole_document_is_rejected_or_filtered(
    record: Record, code: str
) -> None:
    (outcome,), _ = hold_fields("content")(Target(format="toy"))(record)
    assert isinstance(outcome, Filtered if code in ("update-index", "acl-alone") else Reject)
    assert outcome.code == code


def test_a_format_that_states_no_adapter_holds_contents_only() -> None:
    with registered(replace(TOY, adapter=None)):
        (outcome,), lost = adapt(FULL, Target(format="toy"))
    assert isinstance(outcome, Record)
    assert (outcome.content, outcome.acl, outcome.title) == (Content(b"text"), None, None)
    assert lost[0].field == "acl"


# Groups

ENG = Membership(
    group=Member(name="eng", scope=Scope.GROUP),
    members=(Member(name="tim", scope=Scope.USER),),
    provenance=Provenance(source="groups.xml", span=1, line=7, offset=99),
)


@pytest.mark.parametrize("name", ["gsa-groups", "avro", "jsonl"])
def test_a_group_stays_as_it_is_for_a_target_that_has_groups(name: str) -> None:
    assert adapt_membership(ENG, Target(format=name)) is ENG


@pytest.mark.parametrize("name", ["gsa-feed", "thunderstone", "lister-stream"])
def test_a_group_is_set_aside_for_any_other(name: str) -> None:
    assert adapt_membership(ENG, Target(format=name)) == Reject(
        code="membership",
        reason=f"a group with 1 member; expected a document, as {name} has no groups;"
        " gsa-groups, avro, jsonl take them",
        stage="adapt",
        source="groups.xml",
        span=1,
        line=7,
        offset=99,
        url="eng",
        action="MEMBERSHIP",
    )


def test_a_document_is_set_aside_for_a_groups_feed() -> None:
    (reject,), losses = adapt(Record(url="u", action=Action.ADD), Target(format="gsa-groups"))
    assert isinstance(reject, Reject)
    assert (reject.code, reject.url, losses) == ("no-membership", "u", ())


# Contents in the encoding that the user chose

PAGE = b"<p>rope, " * 200
NOISE = bytes(range(256))
ZIPPED = compress(Content(PAGE), max_bytes=len(PAGE))
IN_BASE64 = Content(b"cm9wZQ==", Encoding.BASE64)


@pytest.mark.parametrize(
    ("encoding", "format", "content", "expected"),
    [
        ("auto", "gsa-feed", Content(PAGE), Content(PAGE)),
        ("zlib", "gsa-feed", Content(PAGE), ZIPPED),
        ("zlib", "gsa-feed", Content(pybase64.b64encode(PAGE), Encoding.BASE64), ZIPPED),
        ("zlib", "gsa-feed", Content(NOISE), Content(NOISE)),  # compression makes it longer
        ("zlib", "gsa-feed", ZIPPED, ZIPPED),
        ("zlib", "avro", None, None),
        ("base64", "gsa-feed", Content(b"rope"), IN_BASE64),
        ("base64", "jsonl", Content(b"rope"), IN_BASE64),
        ("base64", "gsa-feed", ZIPPED, ZIPPED),
    ],
)
def test_a_content_is_encoded_as_its_user_chose(
    encoding: str, format: str, content: Content | None, expected: Content | None
) -> None:
    target = Target(format=format, datasource="pages", content_encoding=encoding)
    action = Action.DELETE if content is None else Action.ADD
    arrival = None if content is None else Arrival.PUSHED
    record = Record(
        url="http://a/", action=action, arrival=arrival, mimetype="text/html", content=content
    )
    assert adapt(record, target) == ((replace(record, content=expected),), ())


def test_a_content_is_compressed_to_less() -> None:
    assert (ZIPPED.encoding, decode(ZIPPED)) == (Encoding.ZLIB_BASE64, PAGE)
    assert len(ZIPPED.data) < 100


def test_a_content_beyond_the_limit_is_rejected() -> None:
    target = Target(format="avro", content_encoding="zlib", max_content_bytes=10)
    (reject,), _ = adapt(Record(url="u", action=Action.ADD, content=Content(PAGE)), target)
    assert isinstance(reject, Reject)
    assert (reject.code, reject.reason) == (
        "content-too-large",
        "1800 bytes; expected at most 10 bytes; raise --max-content-bytes to read it",
    )
