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


RED = Meta("colour", "red")
JOE = Meta("google:aclusers", "joe")
NOBODY = Meta("google:acldenyusers", "google:fakeUserToPreventMissingAcl")
PARENT = "http://a.example.com/"
ZIPPED = Content(pybase64.b64encode(zlib.compress(b"Plan")), Encoding.ZLIB_BASE64)
NEGOTIATE = (("acl", "the authmethod NEGOTIATE"), ("authmethod", "NEGOTIATE"))
HELD = {
    "metadata": (RED,),
    "crawl": Crawl(lock=True, pagerank=96, authmethod=Authmethod.NTLM, display_url="http://a/"),
    "extras": (Extra("record/@x", "1"),),
}


@pytest.mark.parametrize(
    ("stated", "expected", "losses"),
    [
        (HELD, HELD, ()),
        ({"content": ZIPPED}, {"content": Content(b"UGxhbg==", Encoding.BASE64)}, ()),
        ({"crawl": Crawl(crawl_immediately=True)}, {}, (("crawl-immediately", "true"),)),
        ({"crawl": Crawl(crawl_once=True)}, {}, (("crawl-once", "true"),)),
        ({"crawl": Crawl(feedrank=5)}, {}, (("feedrank", "5"),)),
        ({"crawl": Crawl(scoring=Scoring.WEB)}, {}, (("scoring", "WEB"),)),
        ({"overwrite_acls": False}, {}, (("overwrite-acls", "false"),)),
        ({"extras": (Extra("acl/@x", "1"),)}, {}, (("extras", "acl/@x"),)),
        (
            {"metadata": (Meta("bell", "\x07"), RED)},
            {"metadata": (RED,)},
            (("metadata", "'bell', that XML cannot hold"),),
        ),
        (
            {"metadata": (Meta("raw", "", b"\xff"),)},
            {},
            (("metadata", "'raw', that XML cannot hold"),),
        ),
        (
            {"metadata": (Meta("google:acldenyusers", "", b"\xff"),)},
            {},
            (("acl", "'google:acldenyusers', that XML cannot hold"),),
        ),
        ({"crawl": Crawl(authmethod=Authmethod.NEGOTIATE)}, {}, NEGOTIATE),
        (
            {"crawl": Crawl(authmethod=Authmethod.NEGOTIATE), "acl": Acl(principals=(joe(),))},
            {"metadata": (JOE,)},
            NEGOTIATE,
        ),
        (
            {"metadata": (Meta("google:aclusers", "ann"), RED), "acl": Acl(principals=(joe(),))},
            {"metadata": (RED, JOE)},
            (("acl", "metadata 'google:aclusers' beside an ACL"),),
        ),
    ],
)
def test_the_dialect_has_fewer_fields(
    stated: dict[str, object], expected: dict[str, object], losses: tuple[tuple[str, str], ...]
) -> None:
    assert adapt(document(**stated), OLD) == (
        (document(**expected),),
        tuple(lost(*loss) for loss in losses),
    )


@pytest.mark.parametrize(
    ("acl", "metadata", "details"),
    [
        (
            Acl(
                inheritance=Inheritance.LEAF_NODE,
                inherit_from=PARENT,
                principals=(joe(namespace="Default", case_sensitive=True), joe(Access.DENY)),
            ),
            (
                *(JOE, Meta("google:acldenyusers", "joe"), Meta("google:aclinheritfrom", PARENT)),
                Meta("google:aclinheritancetype", "leaf-node"),
            ),
            (),
        ),
        (
            Acl(inherit_from=PARENT, inherit_fragment="files"),
            (Meta("google:aclinheritfrom", PARENT + "?files"),),
            (),
        ),
        (Acl(), (NOBODY,), ()),
        (Acl(principals=(joe(name=" "), joe())), (JOE,), ()),
        *(
            (Acl(principals=(joe(access, name=name),)), (Meta(list_, name),), ())
            for access, list_ in (
                (Access.PERMIT, "google:aclusers"),
                (Access.DENY, "google:acldenyusers"),
            )
            for name in ("\u00a0", "\u2028", "\x85")  # no appliance trims these
        ),
        *(
            (Acl(principals=(principal,)), (meta,), (detail,))
            for principal, meta, detail in (
                (joe(namespace="AD"), NOBODY, "namespace 'AD' of 'joe'"),
                (
                    joe(Access.DENY, namespace="AD"),
                    Meta("google:acldenyusers", "joe"),
                    "namespace 'AD' of 'joe'",
                ),
                (joe(name="\x1f"), NOBODY, "'\\x1f', that XML cannot hold"),
                (joe(Access.DENY, name="\x1f"), NOBODY, "'\\x1f', that XML cannot hold"),
                (joe(case_sensitive=False), JOE, "'joe' in letters of any case"),
                (joe(unqualified=True), JOE, "'joe' being unqualified"),
            )
        ),
        (
            Acl(inherit_from=PARENT + "\x00", principals=(joe(),)),
            (JOE,),
            ("what it inherits from, 'http://a.example.com/\\x00', that XML cannot hold",),
        ),
    ],
)
def test_an_acl_becomes_metadata(
    acl: Acl, metadata: tuple[Meta, ...], details: tuple[str, ...]
) -> None:
    assert adapt(document(acl=acl, metadata=(RED,)), OLD) == (
        (document(metadata=(RED, *metadata)),),
        tuple(lost("acl", detail) for detail in details),
    )


def test_an_acl_in_a_web_feed_is_a_loss() -> None:
    fetched = document(arrival=Arrival.CRAWLED, content=None)
    acl = Acl(principals=(joe(),), inherit_from=PARENT)
    assert adapt(replace(fetched, acl=acl), OLD_WEB) == (
        (fetched,),
        (lost("acl", "1 principal, inherits from 'http://a.example.com/'"),),
    )


def test_an_update_of_metadata_is_held_if_the_appliance_fetches_the_content() -> None:
    target = replace(OLD, feedtype="metadata-and-url")
    record = document(content=None, arrival=Arrival.CRAWLED, metadata=(RED,))
    assert adapt(replace(record, action=Action.UPDATE), target) == ((record,), ())


UPDATE = document(action=Action.UPDATE)
ALONE = Record(url=URL, action=Action.ADD, acl=Acl(principals=(joe(),), alone=True))


@pytest.mark.parametrize(
    ("record", "target", "code", "reason"),
    [
        *(
            (
                record,
                OLD,
                "partial-update",
                "a partial update; expected a whole document, as an appliance of release 5.0"
                " replaces all of a document; --dialect 7.x holds it",
            )
            for record in (
                UPDATE,
                replace(UPDATE, content=None, metadata=(RED,)),
                replace(UPDATE, content=None, acl=Acl(principals=(joe(),))),
            )
        ),
        *(
            (
                ALONE,
                target,
                "acl-alone",
                "an ACL without a document; expected a document, as metadata holds the ACLs of the"
                " 5.0 dialect; --dialect 7.x holds it",
            )
            for target in (OLD, OLD_WEB)
        ),
        (
            document(content=ZIPPED),
            replace(OLD, max_content_bytes=3),
            "content-too-large",
            "a zlib stream that inflates to more; expected at most 3 bytes; raise"
            " --max-content-bytes to read it",
        ),
        (
            document(content=Content(b"UGxhbg==", Encoding.ZLIB_BASE64)),
            OLD,
            "bad-zlib",
            None,
        ),
    ],
)
def test_a_record_that_the_dialect_cannot_hold_is_rejected(
    record: Record, target: Target, code: str, reason: str | None
) -> None:
    (reject,), losses = adapt(record, target)
    assert isinstance(reject, Reject)
    assert (reject.code, reject.url, losses) == (code, URL, ())
    assert reason in (None, reject.reason)
