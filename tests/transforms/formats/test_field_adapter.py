"""Formats that hold some fields of a record, and formats that do not say what they hold."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from schemas.account import Account
from schemas.acl import Access, Acl, Principal, Scope
from schemas.feed import FeedHeader
from schemas.record import (
    Action,
    Arrival,
    Authmethod,
    Content,
    Crawl,
    Extra,
    Field,
    History,
    Meta,
    Record,
)
from schemas.reject import Filtered, Reject
from schemas.span import Span
from support.toy_format import TOY
from transforms.adapt import Target, adapt
from transforms.convert import FullFeedLog
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
    ("action", "code"),
    [(Action.UPDATE, "partial-update"), (Action.DELETE_PATTERN, "delete-pattern")],
)
def test_an_action_that_is_not_held_is_rejected(action: Action, code: str) -> None:
    (outcome,), _ = hold_fields("content")(Target(format="toy"))(Record(url="u", action=action))
    assert isinstance(outcome, Reject)
    assert outcome.code == code


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (Record(url="", action=Action.UPDATE_INDEX), "update-index"),
        (Record(url="u", action=Action.ADD, acl=replace(JOE, alone=True)), "acl-alone"),
    ],
)
def test_a_record_without_a_document_is_filtered(record: Record, code: str) -> None:
    (outcome,), _ = hold_fields("content")(Target(format="toy"))(record)
    assert isinstance(outcome, Filtered)
    assert outcome.code == code


def test_a_format_that_states_no_adapter_holds_contents_only() -> None:
    with registered(replace(TOY, adapter=None)):
        (outcome,), lost = adapt(FULL, Target(format="toy"))
    assert isinstance(outcome, Record)
    assert (outcome.content, outcome.acl, outcome.title) == (Content(b"text"), None, None)
    assert lost[0].field == "acl"


@pytest.mark.parametrize(
    ("hole_codes", "holes"), [(None, {"a.txt": 1}), (frozenset({"bad-block"}), {"a.txt": 1})]
)
def test_a_reject_of_a_reader_is_a_hole_unless_the_format_says_which_are(
    hole_codes: frozenset[str] | None, holes: dict[str, int]
) -> None:
    assert holes_of(hole_codes) == holes
    assert holes_of(frozenset()) == {}


def holes_of(hole_codes: frozenset[str] | None) -> dict[str, int]:
    """The holes in the account of a span with a reject of a format with these codes."""
    with registered(replace(TOY, hole_codes=hole_codes)):
        log = FullFeedLog(Span(format="toy"), Target(format="toy"), lists_documents=False)
    log.enter(FeedHeader(source="a.txt", feedtype="full"), memberships=False, has_records=True)
    log.reject(Reject(code="bad-block", reason="a; expected b", stage="read", source="a.txt"))
    account = Account()
    log.close(account)
    return account.holes_of
