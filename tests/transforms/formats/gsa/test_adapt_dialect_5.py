"""What the 5.0 dialect loses, and how it spells an ACL."""

import zlib

import pybase64
import pytest
from msgspec.structs import replace

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.loss import Loss
from schemas.record import (
    Action,
    Arrival,
    Authmethod,
    Content,
    Crawl,
    Encoding,
    Extra,
    Meta,
    Record,
    Scoring,
)
from schemas.reject import Reject
from transforms.adapt import Target, adapt

URL = "http://www.example.com/plan.html"
OLD = Target(format="gsa-feed", datasource="docs", feedtype="incremental", dialect="5.0")
OLD_WEB = Target(format="gsa-feed", datasource="web", feedtype="incremental", dialect="5.0")


def document(**stated: object) -> Record:
    fields = {
        "url": URL,
        "action": Action.ADD,
        "arrival": Arrival.PUSHED,
        "content": Content(b"<p>Plan</p>"),
        "mimetype": "text/html",
    }
    return Record(**(fields | stated))  # type: ignore[arg-type] # of many types


def lost(field: str, detail: str) -> Loss:
    return Loss(field=field, url=URL, detail=detail)


def joe(access: Access = Access.PERMIT, **stated: object) -> Principal:
    fields = {"name": "joe", "scope": Scope.USER, "access": access}
    return Principal(**(fields | stated))  # type: ignore[arg-type] # of many types


def test_a_document_is_held() -> None:
    record = document(
        metadata=(Meta("colour", "red"),),
        crawl=Crawl(lock=True, pagerank=96, authmethod=Authmethod.NTLM, display_url="http://a/"),
        extras=(Extra("record/@x", "1"),),
    )

    assert adapt(record, OLD) == ((record,), ())


def test_an_acl_becomes_metadata_after_the_others() -> None:
    acl = Acl(
        inheritance=Inheritance.LEAF_NODE,
        inherit_from="http://a.example.com/",
        principals=(joe(namespace="Default", case_sensitive=True), joe(Access.DENY)),
    )

    assert adapt(document(acl=acl, metadata=(Meta("colour", "red"),)), OLD) == (
        (
            document(
                metadata=(
                    Meta("colour", "red"),
                    Meta("google:aclusers", "joe"),
                    Meta("google:acldenyusers", "joe"),
                    Meta("google:aclinheritfrom", "http://a.example.com/"),
                    Meta("google:aclinheritancetype", "leaf-node"),
                )
            ),
        ),
        (),
    )


@pytest.mark.parametrize(
    ("principal", "metadata", "detail"),
    [
        pytest.param(
            joe(namespace="AD"),
            (Meta("google:acldenyusers", "google:fakeUserToPreventMissingAcl"),),
            "namespace 'AD' of 'joe'",
            id="permit-in-a-namespace",
        ),
        pytest.param(
            joe(name="\x1f"),
            (Meta("google:acldenyusers", "google:fakeUserToPreventMissingAcl"),),
            "'\\x1f', that XML cannot hold",
            id="permit-that-xml-cannot-hold",
        ),
        pytest.param(
            joe(Access.DENY, name="\x1f"),
            (Meta("google:acldenyusers", "google:fakeUserToPreventMissingAcl"),),
            "'\\x1f', that XML cannot hold",
            id="denial-that-xml-cannot-hold",
        ),
        pytest.param(
            joe(Access.DENY, namespace="AD"),
            (Meta("google:acldenyusers", "joe"),),
            "namespace 'AD' of 'joe'",
            id="denial-in-a-namespace",
        ),
        pytest.param(
            joe(case_sensitive=False),
            (Meta("google:aclusers", "joe"),),
            "'joe' in letters of any case",
            id="case-insensitive",
        ),
        pytest.param(
            joe(unqualified=True),
            (Meta("google:aclusers", "joe"),),
            "'joe' being unqualified",
            id="unqualified",
        ),
    ],
)
def test_what_metadata_cannot_say_of_a_principal_is_a_loss(
    principal: Principal, metadata: tuple[Meta, ...], detail: str
) -> None:
    assert adapt(document(acl=Acl(principals=(principal,))), OLD) == (
        (document(metadata=metadata),),
        (lost("acl", detail),),
    )


def test_a_fragment_is_the_query_of_what_an_acl_inherits_from() -> None:
    acl = Acl(inherit_from="http://a.example.com/", inherit_fragment="files")

    assert adapt(document(acl=acl), OLD) == (
        (document(metadata=(Meta("google:aclinheritfrom", "http://a.example.com/?files"),)),),
        (),
    )


def test_an_empty_principal_is_skipped_as_the_appliance_does() -> None:
    acl = Acl(principals=(joe(name=" "), joe()))

    assert adapt(document(acl=acl), OLD) == (
        (document(metadata=(Meta("google:aclusers", "joe"),)),),
        (),
    )


def test_an_acl_for_nobody_denies_a_user_that_is_none() -> None:
    shut = Meta("google:acldenyusers", "google:fakeUserToPreventMissingAcl")

    assert adapt(document(acl=Acl()), OLD) == ((document(metadata=(shut,)),), ())


def test_an_acl_in_a_web_feed_is_a_loss() -> None:
    acl = Acl(principals=(joe(),), inherit_from="http://a.example.com/")
    record = document(arrival=Arrival.CRAWLED, content=None, acl=acl)

    assert adapt(record, OLD_WEB) == (
        (document(arrival=Arrival.CRAWLED, content=None),),
        (lost("acl", "1 principal, inherits from 'http://a.example.com/'"),),
    )


@pytest.mark.parametrize(
    "stated",
    [
        pytest.param({"content": None, "metadata": (Meta("colour", "red"),)}, id="of-metadata"),
        pytest.param({"content": None, "acl": Acl(principals=(joe(),))}, id="of-an-acl"),
        pytest.param({}, id="of-content"),
    ],
)
def test_a_partial_update_is_rejected(stated: dict[str, object]) -> None:
    reason = (
        "a partial update; expected a whole document, as an appliance of release 5.0 replaces all"
        " of a document; --dialect 7.x holds it"
    )

    assert adapt(document(action=Action.UPDATE, **stated), OLD) == (
        (Reject(code="partial-update", reason=reason, stage="adapt", url=URL, action="UPDATE"),),
        (),
    )


def test_an_update_of_metadata_is_held_where_the_appliance_fetches_the_content() -> None:
    target = Target(
        format="gsa-feed", datasource="docs", feedtype="metadata-and-url", dialect="5.0"
    )
    record = document(content=None, arrival=Arrival.CRAWLED, metadata=(Meta("colour", "red"),))

    assert adapt(replace(record, action=Action.UPDATE), target) == ((record,), ())


@pytest.mark.parametrize("target", [OLD, OLD_WEB])
def test_an_acl_alone_is_rejected(target: Target) -> None:
    record = Record(url=URL, action=Action.ADD, acl=Acl(principals=(joe(),), alone=True))
    reason = (
        "an ACL without a document; expected a document, as metadata holds the ACLs of the 5.0"
        " dialect; --dialect 7.x holds it"
    )

    assert adapt(record, target) == (
        (Reject(code="acl-alone", reason=reason, stage="adapt", url=URL, action="ADD"),),
        (),
    )


@pytest.mark.parametrize(
    ("stated", "loss"),
    [
        pytest.param(
            {"crawl": Crawl(crawl_immediately=True)},
            lost("crawl-immediately", "true"),
            id="crawl-immediately",
        ),
        pytest.param(
            {"crawl": Crawl(crawl_once=True)}, lost("crawl-once", "true"), id="crawl-once"
        ),
        pytest.param({"crawl": Crawl(feedrank=5)}, lost("feedrank", "5"), id="feedrank"),
        pytest.param({"crawl": Crawl(scoring=Scoring.WEB)}, lost("scoring", "WEB"), id="scoring"),
        pytest.param({"overwrite_acls": False}, lost("overwrite-acls", "false"), id="overwrite"),
        pytest.param({"extras": (Extra("acl/@x", "1"),)}, lost("extras", "acl/@x"), id="extras"),
        pytest.param(
            {"metadata": (Meta("bell", "\x07"),)},
            lost("metadata", "'bell', that XML cannot hold"),
            id="metadata-of-control-characters",
        ),
        pytest.param(
            {"metadata": (Meta("raw", "", b"\xff"),)},
            lost("metadata", "'raw', that XML cannot hold"),
            id="metadata-of-bytes",
        ),
    ],
)
def test_what_the_dialect_has_no_place_for_is_a_loss(stated: dict[str, object], loss: Loss) -> None:
    assert adapt(document(**stated), OLD) == ((document(),), (loss,))


@pytest.mark.parametrize(
    ("acl", "metadata"),
    [
        pytest.param(None, (), id="without-an-acl"),
        pytest.param(
            Acl(principals=(joe(),)), (Meta("google:aclusers", "joe"),), id="beside-an-acl"
        ),
    ],
)
def test_the_authmethod_negotiate_is_a_loss_of_acl(
    acl: Acl | None, metadata: tuple[Meta, ...]
) -> None:
    record = document(acl=acl, crawl=Crawl(authmethod=Authmethod.NEGOTIATE))

    assert adapt(record, OLD) == (
        (document(metadata=metadata),),
        (lost("acl", "the authmethod NEGOTIATE"), lost("authmethod", "NEGOTIATE")),
    )


@pytest.mark.parametrize("access", Access)
@pytest.mark.parametrize("name", ["\u00a0", "\u2028", "\x85"])
def test_a_name_of_blanks_that_no_appliance_trims_is_kept(name: str, access: Access) -> None:
    spelled = {Access.PERMIT: "google:aclusers", Access.DENY: "google:acldenyusers"}[access]

    assert adapt(document(acl=Acl(principals=(joe(access, name=name),))), OLD) == (
        (document(metadata=(Meta(spelled, name),)),),
        (),
    )


def test_a_parent_that_xml_cannot_hold_is_a_loss_of_acl() -> None:
    acl = Acl(inherit_from="http://a.example.com/\x00", principals=(joe(),))

    assert adapt(document(acl=acl), OLD) == (
        (document(metadata=(Meta("google:aclusers", "joe"),)),),
        (
            lost(
                "acl",
                "what it inherits from, 'http://a.example.com/\\x00', that XML cannot hold",
            ),
        ),
    )


def test_an_acl_in_metadata_beside_another_acl_permits_nobody_more() -> None:
    record = document(
        acl=Acl(principals=(joe(),)), metadata=(Meta("google:aclusers", "ann"), Meta("a", "b"))
    )

    assert adapt(record, OLD) == (
        (document(metadata=(Meta("a", "b"), Meta("google:aclusers", "joe"))),),
        (lost("acl", "metadata 'google:aclusers' beside an ACL"),),
    )


def test_metadata_of_an_acl_that_xml_cannot_hold_is_a_loss_of_acl() -> None:
    record = document(metadata=(Meta("google:acldenyusers", "", b"\xff"),))

    assert adapt(record, OLD) == (
        (document(),),
        (lost("acl", "'google:acldenyusers', that XML cannot hold"),),
    )


def test_metadata_that_xml_holds_stays_beside_other() -> None:
    record = document(metadata=(Meta("bell", "\x07"), Meta("colour", "red")))

    assert adapt(record, OLD)[0] == (document(metadata=(Meta("colour", "red"),)),)


def test_content_in_zlib_becomes_base64() -> None:
    zipped = Content(pybase64.b64encode(zlib.compress(b"Plan")), Encoding.ZLIB_BASE64)

    assert adapt(document(content=zipped), OLD) == (
        (document(content=Content(b"UGxhbg==", Encoding.BASE64)),),
        (),
    )


def test_content_that_is_no_zlib_is_rejected() -> None:
    record = document(content=Content(b"UGxhbg==", Encoding.ZLIB_BASE64))

    assert [getattr(outcome, "code", None) for outcome in adapt(record, OLD)[0]] == ["bad-zlib"]


def test_content_that_inflates_beyond_the_limit_is_rejected() -> None:
    target = Target(format="gsa-feed", datasource="docs", dialect="5.0", max_content_bytes=3)
    zipped = Content(pybase64.b64encode(zlib.compress(b"Plan")), Encoding.ZLIB_BASE64)
    reason = (
        "a zlib stream that inflates to more; expected at most 3 bytes; raise --max-content-bytes"
        " to read it"
    )

    assert adapt(document(content=zipped), target) == (
        (Reject(code="content-too-large", reason=reason, stage="adapt", url=URL, action="ADD"),),
        (),
    )
