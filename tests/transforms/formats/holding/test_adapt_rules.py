"""Adapters that formats share: for some fields, for groups, and for the encoding of contents."""

import re
import zlib
from datetime import UTC, datetime

import pybase64
import pytest
from hypothesis import HealthCheck, given, settings
from msgspec import ValidationError, convert
from msgspec.structs import asdict, replace

from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.content import compress, decode
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import (
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
from feedferry.schemas.reject import Filtered, Reject
from feedferry.testing.strategies import declarations, records
from feedferry.transforms.formats import ContentOptions, FeedOptions, Holds, registered
from feedferry.transforms.formats.base import Adapted
from feedferry.transforms.formats.holding.adapt_rules import is_alone
from feedferry.transforms.rules.adapt import Target, adapt, adapt_membership
from support.toy_format import TOY

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
NOTHING = (None, (), "", False, Authmethod.NONE)


def adapted(record: Record, **held: object) -> Adapted:
    """The record for a format without rules of its own."""
    with registered(replace(TOY, holds=convert(held, Holds))):
        return adapt(record, Target(format="toy", max_content_bytes=100))


def losses(record: Record, **held: object) -> list[str]:
    (outcome,), lost = adapted(record, **held)
    assert isinstance(outcome, Record)
    return [f"{loss.field}: {loss.detail}" for loss in lost]


def test_what_a_format_does_not_declare_is_a_loss() -> None:
    bare = Record(url=FULL.url, action=Action.ADD, arrival=Arrival.PUSHED)
    (outcome,), lost = adapted(FULL)
    assert outcome == bare
    assert [loss.field for loss in lost] == [
        *("acl", "content", "mimetype", "title", "modified", "categories", "metadata", "fields"),
        *("history", "lock", "extras"),
    ]


def test_a_text_without_a_field_moves_to_the_content() -> None:
    text = Record(url="u", action=Action.ADD, body="f\u00fcr", mimetype="text/html", charset="x")
    (outcome,), lost = adapted(text, fields=["content", "mimetype", "charset"])
    content = Content("f\u00fcr".encode())
    assert outcome == replace(
        text, body=None, content=content, mimetype="text/plain", charset="UTF-8"
    )
    assert [loss.field for loss in lost] == ["mimetype"]
    assert "body: 4 characters next to content" in losses(FULL, fields=["content"])
    assert losses(text, fields=["body"])[0] == "mimetype: 'text/html'"
    assert losses(FULL, fields=["body"])[1] == "content: 4 bytes, NONE"
    assert losses(text)[0] == "content: 3 characters of extracted text"


def test_texts_and_fields_without_a_field_move_to_the_metadata() -> None:
    (outcome,), _ = adapted(FULL, fields=["metadata", "title"])
    assert isinstance(outcome, Record)
    assert outcome.title == "A"
    assert outcome.metadata == (Meta("category", "c"), Meta("m", "1"), Meta("f", "1"))


@pytest.mark.parametrize(
    ("fields", "kept", "detail"),
    [
        ([], None, "none, but the authmethod NTLM"),
        (["acl"], None, "none, but the authmethod NTLM"),
        (["secure"], Crawl(secure=True), None),
        (["authmethod"], Crawl(authmethod=Authmethod.NTLM), None),
    ],
)
def test_an_authmethod_is_stated_in_the_hint_of_the_format_or_a_loss_of_acl(
    fields: list[str], kept: Crawl | None, detail: str | None
) -> None:
    record = Record(url="u", action=Action.ADD, crawl=Crawl(authmethod=Authmethod.NTLM))
    (outcome,), lost = adapted(record, fields=fields)
    assert isinstance(outcome, Record)
    assert outcome.crawl == kept
    assert [loss.detail for loss in lost if loss.field == "acl"] == list(filter(None, [detail]))


def test_a_protection_that_is_lost_next_to_a_held_acl_is_a_loss_of_acl() -> None:
    record = Record(url="u", action=Action.ADD, acl=JOE, crawl=Crawl(secure=True))
    assert losses(record, fields=["acl"]) == ["acl: the document is secure", "secure: true"]
    assert losses(record) == ["acl: 1 principal", "secure: true"]
    record = Record(url="u", action=Action.ADD, acl=JOE, metadata=(Meta("google:aclx", "joe"),))
    assert losses(record, fields=["acl", "metadata"]) == []
    assert losses(record, fields=["metadata"])[0] == "acl: metadata 'google:aclx'"


@pytest.mark.parametrize(
    "content",
    [
        Content(b"rope"),
        Content(b"cm9wZQ==", Encoding.BASE64),
        Content(pybase64.b64encode(zlib.compress(b"rope")), Encoding.ZLIB_BASE64),
    ],
)
def test_a_content_is_decoded_for_a_format_without_encodings(content: Content) -> None:
    record = Record(url="u", action=Action.ADD, content=content)
    assert adapted(record, fields=["content"])[0] == (replace(record, content=Content(b"rope")),)
    assert adapted(record, fields=["content"], encodings=True)[0] == (record,)


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (Record(url="u", action=Action.DELETE), "deletion"),
        (Record(url="u", action=Action.UPDATE), "partial-update"),
        (Record(url="u", action=Action.DELETE_PATTERN), "delete-pattern"),
        (Record(url="", action=Action.UPDATE_INDEX), "update-index"),
        (Record(url="u", action=Action.ADD, acl=replace(JOE, alone=True)), "acl-alone"),
        (Record(url="u", action=Action.ADD, arrival=Arrival.CRAWLED), "crawled"),
        (replace(FULL, content=Content(b"x" * 101 * 2, Encoding.BASE64)), "content-too-large"),
    ],
)
def test_a_record_that_the_format_does_not_hold_is_rejected_or_filtered(
    record: Record, code: str
) -> None:
    (outcome,), _ = adapted(record, fields=["content", "acl"])
    assert isinstance(outcome, Filtered if code in ("update-index", "acl-alone") else Reject)
    assert outcome.code == code


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({"fields": {"contents"}}, "'contents'; expected fields of acl, anchors, "),
        ({"actions": {Action.DELETE}}, "actions without ADD; expected ADD, or no actions"),
    ],
)
def test_a_declaration_is_checked(held: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        convert(held, Holds)


@pytest.mark.slow
@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(records(), declarations())
def test_each_field_of_any_record_is_held_moved_or_lost(record: Record, holds: Holds) -> None:
    with registered(replace(TOY, holds=holds)):
        (outcome,), lost = adapt(record, Target(format="toy"))
        if not isinstance(outcome, Record):
            codes = ("acl-alone", "crawled", "wide-delete")
            assert record.action not in holds.actions or outcome.code in codes
            return
        assert adapt(outcome, Target(format="toy")) == ((outcome,), ())
    assert stated(outcome) <= holds.fields | {"arrival", "provenance", "extras"}
    assert all(extra.place.startswith(holds.extras) for extra in outcome.extras)
    assert not is_alone(outcome) or holds.acls_alone
    if outcome.action not in (Action.DELETE, Action.DELETE_PATTERN):
        missing = stated(record) - stated(outcome) - moved(record, holds)
        if missing >= {"body"} and "content" not in holds.fields:
            missing = missing - {"body"} | {"content"}
        assert missing <= {loss.field.replace("-", "_") for loss in lost}


def stated(record: Record) -> set[str]:
    """The fields and hints of a record that state something, and no default."""
    values = asdict(record) | (asdict(record.crawl) if record.crawl else {})
    values["history"] = record.history and any(asdict(record.history).values())
    names = {name for name, value in values.items() if value not in NOTHING}
    defaults = {"overwrite_acls"} if record.overwrite_acls else set()
    return names - defaults - {"url", "action", "crawl"}


def moved(record: Record, holds: Holds) -> set[str]:
    """The fields that other fields of the format hold."""
    names = set()
    if "content" in holds.fields and record.content is None and record.body:
        names |= {"body", "charset", "mimetype"} if record.mimetype is None else {"body", "charset"}
    if "metadata" in holds.fields:
        names |= {"title", "description", "keywords", "categories", "fields"}
    if {"secure", "authmethod"} & holds.fields:
        names |= {"secure"}
    return names


# Groups

ENG = Membership(
    group=Member(name="eng", scope=Scope.GROUP),
    members=(Member(name="tim", scope=Scope.USER),),
    provenance=Provenance(source="groups.xml", span=1, line=7, offset=99),
)


@pytest.mark.parametrize("name", ["gsa-groups", "avro", "jsonl", "gsa-feed"])
def test_a_group_stays_as_it_is_for_a_target_that_has_groups(name: str) -> None:
    assert adapt_membership(ENG, Target(format=name)) is ENG


@pytest.mark.parametrize(
    "target",
    [
        Target(format="thunderstone"),
        Target(format="lister-stream"),
        Target(format="gsa-feed", own=(FeedOptions(groups="leave-out"),)),
        Target(format="gsa-feed", own=(FeedOptions(dialect="5.0"),)),
    ],
    ids=["thunderstone", "lister-stream", "leave-out", "5.0"],
)
def test_a_group_is_filtered_for_any_other(target: Target) -> None:
    filtered = Filtered(code="groups-left-out", url="eng", action="MEMBERSHIP")
    assert adapt_membership(ENG, target) == filtered


def test_a_document_is_filtered_for_a_groups_feed() -> None:
    record = Record(url="u", action=Action.DELETE)
    filtered = Filtered(code="documents-left-out", url="u", action="DELETE")
    assert adapt(record, Target(format="gsa-groups")) == ((filtered,), ())


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
    target = Target(
        format=format, datasource="pages", own=(ContentOptions(content_encoding=encoding),)
    )
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
    target = Target(
        format="avro", max_content_bytes=10, own=(ContentOptions(content_encoding="zlib"),)
    )
    (reject,), _ = adapt(Record(url="u", action=Action.ADD, content=Content(PAGE)), target)
    assert isinstance(reject, Reject)
    assert (reject.code, reject.reason) == (
        "content-too-large",
        "1800 bytes; expected at most 10 bytes; raise --max-content-bytes to read it",
    )
