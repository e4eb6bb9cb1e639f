"""What a record becomes for an index: text, a decision that is resolved, and counted losses."""

import pytest
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, AclLayer, Principal, Scope
from feedferry.schemas.record import (
    Action,
    Authmethod,
    Content,
    Crawl,
    Encoding,
    Field,
    Meta,
    Record,
)
from feedferry.schemas.reject import Reject
from feedferry.transforms.formats.opensearch.opensearch_format import OpensearchOptions
from feedferry.transforms.rules.adapt import Target, adapter

RECORD = Record(url="http://intranet.example.com/quay", action=Action.ADD)
PDF = replace(RECORD, content=Content(b"%PDF\0"), mimetype="application/pdf")


def adapted(record: Record, **options: object) -> tuple[Record, list[str]]:
    own = (OpensearchOptions(**options),)  # type: ignore[arg-type]
    [outcome], losses = adapter(Target(format="opensearch", own=own))(record)
    assert isinstance(outcome, Record), outcome
    return outcome, [f"{loss.field}: {loss.detail}" for loss in losses]


def rejected(record: Record) -> Reject:
    [outcome], _ = adapter(Target(format="opensearch"))(record)
    assert isinstance(outcome, Reject)
    return outcome


def test_a_text_becomes_the_body_in_any_encoding() -> None:
    content = Content(b"PHA+U2hpcHMuPC9wPg==", Encoding.BASE64)
    record, losses = adapted(
        replace(RECORD, content=content, mimetype="text/html", charset="utf-8")
    )
    assert (record.body, record.content, record.charset, losses) == ("Ships.", None, None, [])


def test_a_title_that_is_stated_is_kept() -> None:
    html = Content(b"<title>Of the page</title><p>x")
    stated, _ = adapted(replace(RECORD, content=html, mimetype="text/html", title="Stated"))
    found, _ = adapted(replace(RECORD, content=html, mimetype="text/html"))
    assert (stated.title, found.title) == ("Stated", "Of the page")


def test_what_is_no_text_is_lost_or_kept_for_a_pipeline() -> None:
    assert adapted(PDF) == (
        replace(PDF, content=None),
        [
            "content: 5 bytes of application/pdf, which are no text; the step `text` or"
            " target.pipeline keeps them"
        ],
    )
    assert adapted(PDF, pipeline="attachment") == (PDF, [])


@pytest.mark.parametrize("hint", [{"secure": True}, {"authmethod": Authmethod.NTLM}])
def test_a_protection_without_an_acl_hides_the_document(hint: dict[str, object]) -> None:
    record, losses = adapted(replace(RECORD, crawl=Crawl(**hint)))  # type: ignore[arg-type]
    assert record.acl == Acl()
    assert losses[-1] == "secure: without an ACL: the document is shown to no user"


def test_metadata_that_an_appliance_may_read_as_an_acl_are_a_loss_of_it() -> None:
    _, losses = adapted(replace(RECORD, metadata=(Meta("google:aclthings", "x"),)))
    assert losses == ["acl: metadata 'google:aclthings'"]


def test_a_value_that_is_too_long_for_a_keyword_is_cut() -> None:
    metas = (Meta("a", "\u00fc" * 20_000), Meta("b", "x" * 31_000), Meta("c", "", b"\xff"))
    record, losses = adapted(replace(RECORD, metadata=metas, fields=(Field("d", ("y" * 40_000,)),)))
    assert [len(meta.value.encode()) for meta in record.metadata] == [31_998, 31_000]
    assert len(record.fields[0].values[0]) == 31_999
    assert losses == [
        "metadata: the end of 'a', of 40000 bytes",
        "metadata: 'c', 1 byte that are no text",
        "fields: the end of 'd', of 40000 bytes",
    ]


def test_an_acl_that_inherits_needs_its_decision() -> None:
    chained = replace(RECORD, acl=Acl(inherit_from="http://h.x/folder"))
    assert rejected(chained).code == "acl-inherits"
    [outcome], _ = adapter(Target(format="opensearch"))(replace(chained, action=Action.DELETE))
    assert isinstance(outcome, Record)


def test_an_update_of_some_fields_is_rejected_and_an_acl_alone_is_not() -> None:
    update = Record(url=RECORD.url, action=Action.UPDATE, metadata=(Meta("a", "b"),))
    assert rejected(update).code == "partial-update"
    alone = Record(url=RECORD.url, action=Action.UPDATE, acl=Acl(alone=True))
    assert adapted(alone) == (alone, [])


def test_a_decision_of_a_chain_is_rejected_by_a_format_of_single_acls() -> None:
    """It was written as an ACL that permits nobody, which no account had."""
    staff = Principal(name="staff", scope=Scope.GROUP, access=Access.PERMIT)
    layers = tuple(AclLayer(part=part, principals=(staff,)) for part in (0, 1))
    [outcome], _ = adapter(Target(format="gsa-feed"))(replace(RECORD, acl=Acl(decision=layers)))
    assert isinstance(outcome, Reject)
    assert outcome.code == "acl-inexact"
