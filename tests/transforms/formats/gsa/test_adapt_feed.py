"""Each rule of the conversion to gsafeeds of both dialects, and each message in full."""

import zlib
from datetime import UTC, datetime

import pybase64
import pytest
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
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
from feedferry.transforms.formats import FeedOptions
from feedferry.transforms.rules.adapt import Target, adapt
from support.adaptation import COLOUR, URL, adapted, document, lost, make

INCREMENTAL = Target(format="gsa-feed", datasource="docs", feedtype="incremental")
OLD = replace(INCREMENTAL, own=(FeedOptions(dialect="5.0"),))
FULL = Target(format="gsa-feed", datasource="docs", feedtype="full")
AND_URL = Target(format="gsa-feed", datasource="docs", feedtype="metadata-and-url")
WEB = Target(format="gsa-feed", datasource="web", feedtype="incremental")
TEXT = Content(b"Plan")
NOON = datetime(2005, 10, 25, 12, tzinfo=UTC)
NOBODY = Principal(name="google:fakeUserToPreventMissingAcl", scope=Scope.USER, access=Access.DENY)


def joe(access: Access = Access.PERMIT, **stated: object) -> Principal:
    fields = {"name": "joe", "scope": Scope.USER, "access": access}
    return Principal(**(fields | stated))  # type: ignore[arg-type] # of many types


JOE = joe()
ACL = Acl(principals=(JOE,))


def crawled(**stated: object) -> Record:
    return make(**({"arrival": Arrival.CRAWLED, "mimetype": "text/plain"} | stated))


def update(**stated: object) -> Record:
    return document(
        **({"action": Action.UPDATE, "content": None, "mimetype": "text/plain"} | stated)
    )


def deletion(**stated: object) -> Record:
    return make(**({"action": Action.DELETE, "mimetype": "text/plain"} | stated))


@pytest.mark.parametrize("target", [INCREMENTAL, FULL])
@pytest.mark.parametrize(
    "record",
    [
        document(),
        document(acl=ACL, overwrite_acls=False),
        document(metadata=(COLOUR, COLOUR, Meta("a", "", b"\xff"))),
        document(modified=datetime(2007, 11, 6, tzinfo=UTC)),
        document(content=Content(b"UGxhbg==", Encoding.BASE64)),
        document(content=Content(b"x", Encoding.ZLIB_BASE64)),
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
        document(extras=(Extra("record/@x", "1"), Extra("group/@y", "2"), Extra("acl/z", ""))),
        deletion(),
    ],
)
def test_what_a_content_feed_holds_is_returned_as_it_is(record: Record, target: Target) -> None:
    assert adapt(record, target) == ((record,), ())


TEXTS = document(
    title="Plan",
    description="A plan",
    keywords="plan, road",
    categories=("Roads", "Plans"),
    metadata=(COLOUR,),
)
NAMED_TEXTS = (
    *(Meta("title", "Plan"), Meta("description", "A plan"), Meta("keywords", "plan, road")),
    *(Meta("category", "Roads"), Meta("category", "Plans"), COLOUR),
)
CLICKED = History(depth=0, click_ratio=0.5, references=())
ITEM_EXTRAS = (Extra("Item/rid", "<rid/>"), Extra("Item/@x", "1"))
LATIN_PAGE = Content("<p>Pläne".encode("iso-8859-1"))
LABELLED_PAGE = Content('<meta charset="iso-8859-1"><p>Pläne'.encode("iso-8859-1"))


@pytest.mark.parametrize(
    ("record", "expected", "losses"),
    [
        (document(arrival=None), document(), []),
        (document(arrival=Arrival.CRAWLED), document(), []),
        (TEXTS, document(metadata=NAMED_TEXTS), []),
        (
            document(fields=(Field("Size", ("1", "2"), True), Field("State", ("NY",)))),
            document(metadata=(Meta("Size", "1"), Meta("Size", "2"), Meta("State", "NY"))),
            [],
        ),
        (
            document(fields=(Field("State", ("NY",), namespace="urn:x"),)),
            document(metadata=(Meta("State", "NY"),)),
            ["fields: namespace 'urn:x' of 'State'"],
        ),
        (
            make(arrival=Arrival.PUSHED, body="Pläne", charset="ISO-8859-1"),
            document(content=Content("Pläne".encode()), mimetype="text/plain"),
            [],
        ),
        (
            make(arrival=Arrival.PUSHED, body="Plan", mimetype="application/pdf"),
            document(content=TEXT, mimetype="text/plain"),
            ["mimetype: 'application/pdf': only the text of it is there"],
        ),
        (document(body="Plan"), document(), ["body: 4 characters next to content"]),
        (document(charset="UTF-8"), document(), []),
        (document(charset="utf8"), document(), []),
        (
            document(content=LABELLED_PAGE, charset="iso-8859-1"),
            document(content=LABELLED_PAGE),
            [],
        ),
        (
            document(content=LATIN_PAGE, charset="iso-8859-1"),
            document(content=LATIN_PAGE),
            ["charset: 'iso-8859-1'"],
        ),
        (
            document(crawl=Crawl(lock=True, no_index=True)),
            document(crawl=Crawl(lock=True)),
            ["no-index: true"],
        ),
        (
            document(metadata=(Meta("a", ""), COLOUR, Meta("b", "", b""))),
            document(metadata=(COLOUR,)),
            ["metadata: empty value of 'a'", "metadata: empty value of 'b'"],
        ),
        (document(metadata=(Meta("", "red"),)), document(), ["metadata: a value without a name"]),
        (
            document(metadata=(Meta("bell", "\x07"),)),
            document(metadata=(Meta("bell", "\x07"),)),
            [],
        ),
        *(
            (document(**stated), document(), [loss])
            for stated, loss in (
                ({"charset": "Shift_JIS"}, "charset: 'Shift_JIS'"),
                ({"size": 150369}, "size: 150369"),
                ({"visited": NOON}, "visited: 2005-10-25 12:00:00+00:00"),
                ({"next_check": NOON}, "next-check: 2005-10-25 12:00:00+00:00"),
                ({"history": CLICKED}, "history: depth, click-ratio"),
                ({"crawl": Crawl(no_index=True)}, "no-index: true"),
                ({"crawl": Crawl(no_follow=True)}, "no-follow: true"),
                ({"crawl": Crawl(no_archive=True)}, "no-archive: true"),
                ({"crawl": Crawl(anchors=(Anchor("http://a/", "Plan"),))}, "anchors: 1"),
                ({"extras": ITEM_EXTRAS}, "extras: Item/rid, Item/@x"),
            )
        ),
    ],
)
def test_a_document_of_a_content_feed_is_adapted(
    record: Record, expected: Record, losses: list[str]
) -> None:
    assert adapted(record, INCREMENTAL) == (expected, losses)


@pytest.mark.parametrize("placeholder", ["_noname_", "-"])
def test_an_empty_value_is_replaced_by_a_placeholder(placeholder: str) -> None:
    own = FeedOptions(empty_metadata="placeholder", placeholder=placeholder)
    target = replace(INCREMENTAL, own=(own,))
    assert adapt(document(metadata=(Meta("a", ""), COLOUR)), target) == (
        (document(metadata=(Meta("a", placeholder), COLOUR)),),
        (lost("metadata", "empty value of 'a' replaced"),),
    )


PARENT = "http://a.example.com/"
FRAGMENT = "acl: fragment 'files' of what it inherits from"


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    ("stated", "expected", "losses"),
    [
        (Acl(), Acl(principals=(NOBODY,)), []),
        (Acl(inherit_from=PARENT), Acl(inherit_from=PARENT), []),
        *(
            (stated, Acl(inherit_from=PARENT, inherit_fragment="files"), [])
            for stated in (
                Acl(inherit_from=PARENT, inherit_fragment="files"),
                Acl(inherit_from=PARENT + "?files"),
            )
        ),
        (
            Acl(inherit_from=PARENT, inherit_fragment="kind=files"),
            Acl(inherit_from=PARENT + "?kind=files"),
            [],
        ),
        *(
            (
                Acl(inherit_from=parent, inherit_fragment="files"),
                Acl(inherit_from=parent),
                [f"{FRAGMENT}, {parent!r}, which has one already"],
            )
            for parent in (PARENT + "?id=5", PARENT + "#top")
        ),
        (Acl(inherit_fragment="files"), Acl(principals=(NOBODY,)), [FRAGMENT]),
    ],
)
def test_an_acl_is_stated_as_the_reader_of_a_feed_does(
    stated: Acl, expected: Acl, losses: list[str], alone: bool
) -> None:
    record = document(acl=replace(stated, alone=alone))
    assert adapted(record, INCREMENTAL) == (document(acl=replace(expected, alone=alone)), losses)


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


DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a.example.com/plan.pdf", "application/pdf"),
        ("http://a.example.com/Plan.HTM?v=1.txt#x", "text/html"),
        ("http://a.example.com/plan.docx", DOCX),
    ],
)
def test_a_missing_mimetype_is_told_by_the_extension(url: str, expected: str) -> None:
    record = document(url=url, mimetype=None)

    assert adapt(record, INCREMENTAL) == ((document(url=url, mimetype=expected),), ())


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example.com/plan",
        "http://a.example.com",
        "http://a.example.com/plan.tar.gz",
        "http://[a.example.com/plan.pdf",
    ],
)
def test_a_default_mimetype_is_for_what_no_extension_tells(url: str) -> None:
    target = Target(format="gsa-feed", feedtype="full", default_mimetype="text/x-plan")

    assert adapt(document(url=url, mimetype=None), target) == (
        (document(url=url, mimetype="text/x-plan"),),
        (),
    )


SINGLE_FIELDS = "an update of single fields; expected "
URL_ALONE = "a URL alone; expected "
AS_A_WHOLE = "content, metadata or an ACL, as a feed replaces each of them as a whole"
OF_A_WEB_FEED = "metadata of a metadata-and-url feed, or an ACL"
NO_UPDATE = (
    "a partial update; expected whole documents, as a full feed replaces all that its datasource"
    " had; --feedtype incremental makes a feed that holds it"
)
CRAWLS = "; --feedtype metadata-and-url makes a feed of URLs that the appliance crawls"
NO_CONTENT = (
    "a document without content; expected content, as the appliance does not crawl for a content"
    " feed; --feedtype metadata-and-url makes a feed that it crawls"
)


@pytest.mark.parametrize(
    ("target", "record", "code", "reason"),
    [
        (
            INCREMENTAL,
            document(mimetype=None, url="http://a.example.com/plan"),
            "mimetype-missing",
            "content without a mimetype, and a url whose extension tells none; expected one, as the"
            " appliance requires it; --default-mimetype gives one to all such documents",
        ),
        (INCREMENTAL, crawled(), "no-content", NO_CONTENT),
        (FULL, document(content=None), "no-content", NO_CONTENT),
        *(
            (INCREMENTAL, update(**stated), "partial-update", SINGLE_FIELDS + AS_A_WHOLE)
            for stated in ({"title": "Plan"}, {"fields": (Field("a", ("b",)),)})
        ),
        *(
            (
                target,
                update(mimetype="text/html"),
                "partial-update",
                URL_ALONE + AS_A_WHOLE + CRAWLS,
            )
            for target in (INCREMENTAL, FULL)
        ),
        (
            INCREMENTAL,
            update(metadata=(Meta("author", ""),)),
            "partial-update",
            URL_ALONE + AS_A_WHOLE + CRAWLS,
        ),
        *(
            (FULL, update(**stated), "update-in-full-feed", NO_UPDATE)
            for stated in ({"metadata": (COLOUR,)}, {"content": TEXT}, {"acl": ACL})
        ),
        *(
            (target, update(**stated), "partial-update", SINGLE_FIELDS + OF_A_WEB_FEED)
            for target, stated in (
                (AND_URL, {"title": "Plan"}),
                (AND_URL, {"content": TEXT}),
                (WEB, {"metadata": (COLOUR,)}),
            )
        ),
        (
            INCREMENTAL,
            make(action=Action.DELETE_PATTERN),
            "delete-pattern",
            f"a deletion by the pattern {URL!r}; expected one of a URL, as gsa-feed has no"
            " patterns; --known-urls lists the URLs that patterns are matched with",
        ),
    ],
)
def test_a_record_that_no_feed_can_hold_is_rejected(
    target: Target, record: Record, code: str, reason: str
) -> None:
    ((reject,), losses) = adapt(record, target)
    assert isinstance(reject, Reject)
    assert (reject.code, reject.reason, losses) == (code, reason, ())


@pytest.mark.parametrize("target", [AND_URL, WEB])
def test_a_url_alone_is_crawled_for_a_feed_of_urls(target: Target) -> None:
    ((record,), losses) = adapt(update(mimetype="text/html"), target)
    assert isinstance(record, Record)
    assert (record.action, record.arrival, losses) == (Action.ADD, Arrival.CRAWLED, ())


@pytest.mark.parametrize(
    ("target", "record", "expected", "losses"),
    [
        *(
            (target, record, record, [])
            for target in (INCREMENTAL, FULL, AND_URL, WEB)
            for action in (Action.ADD, Action.UPDATE)
            for record in (make(action=action, acl=replace(ACL, alone=True)),)
        ),
        *(
            (AND_URL, record, record, [])
            for record in (
                *(crawled(), crawled(metadata=(COLOUR,)), crawled(acl=ACL), deletion()),
                crawled(crawl=Crawl(crawl_immediately=True, lock=True)),
            )
        ),
        *(
            (INCREMENTAL, record, record, [])
            for record in (update(metadata=(COLOUR,)), update(acl=ACL), update(content=TEXT))
        ),
        (INCREMENTAL, deletion(mimetype=None), deletion(), []),
        (INCREMENTAL, update(metadata=(COLOUR,), mimetype=None), update(metadata=(COLOUR,)), []),
        (INCREMENTAL, update(body="Plan"), update(content=TEXT), []),
        (AND_URL, crawled(mimetype=None), crawled(), []),
        (
            AND_URL,
            crawled(title="Plan", mimetype=None),
            crawled(metadata=(Meta("title", "Plan"),)),
            [],
        ),
        (AND_URL, update(metadata=(COLOUR,)), crawled(metadata=(COLOUR,)), []),
        (
            AND_URL,
            document(metadata=(COLOUR,)),
            crawled(mimetype="text/html", metadata=(COLOUR,)),
            ["content: 11 bytes, NONE"],
        ),
        (
            AND_URL,
            document(content=None, body="P"),
            crawled(mimetype="text/html"),
            ["content: 1 character of extracted text"],
        ),
        (
            WEB,
            crawled(title="Plan", metadata=(COLOUR, COLOUR)),
            crawled(),
            ["title: 'Plan'", "metadata: 'colour'"],
        ),
    ],
)
def test_the_feedtype_decides_how_a_record_arrives(
    target: Target, record: Record, expected: Record, losses: list[str]
) -> None:
    assert adapted(record, target) == (expected, losses)


@pytest.mark.parametrize("target", [INCREMENTAL, FULL, AND_URL, WEB])
def test_a_deletion_loses_nothing(target: Target) -> None:
    record = deletion(size=1, crawl=Crawl(secure=True), body="Plan", extras=(Extra("Item/a", ""),))

    assert adapt(record, target)[1] == ()


def test_a_pattern_deletes_the_known_urls_that_it_covers() -> None:
    urls = [f"http://a.example.com/{path}" for path in ("dir/1?x=[2]", "other", "dir/sub/3")]
    target = Target(format="gsa-feed", feedtype="incremental", known_urls=tuple(urls))
    place = Provenance(source="a.xml", line=7)
    pattern = "http://a.example.com/d?r/*"
    record = make(url=pattern, action=Action.DELETE_PATTERN, provenance=place)

    expected = tuple(deletion(url=url, provenance=place) for url in (urls[0], urls[2]))
    assert adapt(record, target) == (expected, ())


@pytest.mark.parametrize(
    "pattern",
    ["http://a.example.com/[a-z]*", "http://a.example.com/??", "http://a.example.com/plan"],
)
def test_a_pattern_that_covers_no_known_url_is_filtered(pattern: str) -> None:
    target = Target(format="gsa-feed", known_urls=("http://a.example.com/p", "http://a/plan.pdf"))

    assert adapt(make(url=pattern, action=Action.DELETE_PATTERN), target) == (
        (Filtered(code="no-known-url", url=pattern, action="DELETE_PATTERN"),),
        (),
    )


# The 5.0 dialect

OLD_WEB = replace(WEB, own=OLD.own)
JOE_META = Meta("google:aclusers", "joe")
PARENT_META = Meta("google:aclinheritfrom", PARENT)
NOBODY_META = Meta("google:acldenyusers", NOBODY.name)
ZIPPED = Content(pybase64.b64encode(zlib.compress(b"Plan")), Encoding.ZLIB_BASE64)
NEGOTIATE = ["acl: the authmethod NEGOTIATE", "authmethod: NEGOTIATE"]
NO_XML = "that XML cannot hold"
HELD = {
    "metadata": (COLOUR,),
    "crawl": Crawl(lock=True, pagerank=96, authmethod=Authmethod.NTLM, display_url="http://a/"),
    "extras": (Extra("record/@x", "1"),),
}


@pytest.mark.parametrize(
    ("stated", "expected", "losses"),
    [
        (HELD, HELD, []),
        ({"content": ZIPPED}, {"content": Content(b"UGxhbg==", Encoding.BASE64)}, []),
        ({"crawl": Crawl(crawl_immediately=True)}, {}, ["crawl-immediately: true"]),
        ({"crawl": Crawl(crawl_once=True)}, {}, ["crawl-once: true"]),
        ({"crawl": Crawl(feedrank=5)}, {}, ["feedrank: 5"]),
        ({"crawl": Crawl(scoring=Scoring.WEB)}, {}, ["scoring: WEB"]),
        ({"overwrite_acls": False}, {}, ["overwrite-acls: false"]),
        ({"extras": (Extra("acl/@x", "1"),)}, {}, ["extras: acl/@x"]),
        (
            {"metadata": (Meta("bell", "\x07"), COLOUR)},
            {"metadata": (COLOUR,)},
            [f"metadata: 'bell', {NO_XML}"],
        ),
        ({"metadata": (Meta("raw", "", b"\xff"),)}, {}, [f"metadata: 'raw', {NO_XML}"]),
        (
            {"metadata": (Meta("google:acldenyusers", "", b"\xff"),)},
            {},
            [f"acl: 'google:acldenyusers', {NO_XML}"],
        ),
        ({"crawl": Crawl(authmethod=Authmethod.NEGOTIATE)}, {}, NEGOTIATE),
        (
            {"crawl": Crawl(authmethod=Authmethod.NEGOTIATE), "acl": ACL},
            {"metadata": (JOE_META,)},
            NEGOTIATE,
        ),
        (
            {"metadata": (Meta("google:aclusers", "ann"), COLOUR), "acl": ACL},
            {"metadata": (COLOUR, JOE_META)},
            ["acl: metadata 'google:aclusers' next to an ACL"],
        ),
    ],
)
def test_the_dialect_has_fewer_fields(
    stated: dict[str, object], expected: dict[str, object], losses: list[str]
) -> None:
    assert adapted(document(**stated), OLD) == (document(**expected), losses)


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
                *(JOE_META, Meta("google:acldenyusers", "joe"), PARENT_META),
                Meta("google:aclinheritancetype", "leaf-node"),
            ),
            (),
        ),
        (
            Acl(inherit_from=PARENT, inherit_fragment="files"),
            (Meta("google:aclinheritfrom", PARENT + "?files"),),
            (),
        ),
        (Acl(), (NOBODY_META,), ()),
        (Acl(principals=(joe(name=" "), joe())), (JOE_META,), ()),
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
                (joe(namespace="AD"), NOBODY_META, "namespace 'AD' of 'joe'"),
                (
                    joe(Access.DENY, namespace="AD"),
                    Meta("google:acldenyusers", "joe"),
                    "namespace 'AD' of 'joe'",
                ),
                (joe(name="\x1f"), NOBODY_META, "'\\x1f', that XML cannot hold"),
                (joe(Access.DENY, name="\x1f"), NOBODY_META, "'\\x1f', that XML cannot hold"),
                (joe(case_sensitive=False), JOE_META, "'joe' in letters of any case"),
                (joe(unqualified=True), JOE_META, "'joe' being unqualified"),
            )
        ),
        (
            Acl(inherit_from=PARENT + "\x00", principals=(joe(),)),
            (JOE_META,),
            ("what it inherits from, 'http://a.example.com/\\x00', that XML cannot hold",),
        ),
    ],
)
def test_an_acl_becomes_metadata(
    acl: Acl, metadata: tuple[Meta, ...], details: tuple[str, ...]
) -> None:
    assert adapted(document(acl=acl, metadata=(COLOUR,)), OLD) == (
        document(metadata=(COLOUR, *metadata)),
        [f"acl: {detail}" for detail in details],
    )


def test_an_acl_in_a_web_feed_is_a_loss() -> None:
    fetched = document(arrival=Arrival.CRAWLED, content=None)
    acl = replace(ACL, inherit_from=PARENT)
    assert adapted(replace(fetched, acl=acl), OLD_WEB) == (
        fetched,
        ["acl: 1 principal, inherits from 'http://a.example.com/'"],
    )


WHOLE_UPDATE = document(action=Action.UPDATE)
PARTIAL = (
    "a partial update; expected a whole document, as an appliance of release 5.0 replaces all of a"
    " document; --dialect 7.x holds it"
)
NO_DOCUMENT = (
    "an ACL without a document; expected a document, as metadata holds the ACLs of the 5.0 dialect;"
    " --dialect 7.x holds it"
)
ALONE = Record(url=URL, action=Action.ADD, acl=replace(ACL, alone=True))


@pytest.mark.parametrize(
    ("record", "target", "code", "reason"),
    [
        *(
            (record, OLD, "partial-update", PARTIAL)
            for record in (
                WHOLE_UPDATE,
                replace(WHOLE_UPDATE, content=None, metadata=(COLOUR,)),
                replace(WHOLE_UPDATE, content=None, acl=ACL),
            )
        ),
        *((ALONE, target, "acl-alone", NO_DOCUMENT) for target in (OLD, OLD_WEB)),
        (
            document(content=ZIPPED),
            replace(OLD, max_content_bytes=3),
            "content-too-large",
            "a zlib stream that inflates to more; expected at most 3 bytes; raise"
            " --max-content-bytes to read it",
        ),
        (document(content=Content(b"UGxhbg==", Encoding.ZLIB_BASE64)), OLD, "bad-zlib", None),
    ],
)
def test_a_record_that_the_dialect_cannot_hold_is_rejected(
    record: Record, target: Target, code: str, reason: str | None
) -> None:
    (reject,), losses = adapt(record, target)
    assert isinstance(reject, Reject)
    assert (reject.code, reject.url, losses) == (code, URL, ())
    assert reason in (None, reject.reason)
