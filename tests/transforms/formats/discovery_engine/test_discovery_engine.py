"""Documents of Discovery Engine have the readers of their decision, or are refused."""

import json

import pytest
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, AclLayer, Principal, Scope
from feedferry.schemas.feed import Feed
from feedferry.schemas.record import Action, Content, Crawl, Meta, Record, withheld
from feedferry.schemas.reject import Filtered, Reject
from feedferry.transforms.formats import DISCOVERY_ENGINE, WriteOptions
from feedferry.transforms.rules.adapt import Target, adapter

RECORD = Record(url="http://intranet.example.com/quay", action=Action.ADD)
ID = "uqux7dtpu2vfmxg2kfs2mojjkphlviw5ez3vufwhnstkhxvtebz7q"
DATA = {"url": RECORD.url, "datasource": "docs"}
HIDDEN = {
    "id": ID,
    "structData": DATA,
    "content": {"mimeType": "text/plain", "rawBytes": "LQ=="},
    "acl_info": {"readers": [{"principals": [{"user_id": "google:fakeUserToPreventMissingAcl"}]}]},
}


def converted(
    record: Record, *, feedtype: str = "incremental"
) -> tuple[dict[str, object] | str, list[str]]:
    """Return the line of a record, or the code of its reject or filter, and its losses."""
    target = Target(format="discovery-engine", datasource="docs", feedtype=feedtype)
    [outcome], losses = adapter(target)(record)
    details = [f"{loss.field}: {loss.detail}" for loss in losses]
    if isinstance(outcome, Reject | Filtered):
        return outcome.code, details
    feed = Feed(datasource="docs", feedtype=feedtype)
    encoder = DISCOVERY_ENGINE.make_encoder(WriteOptions(feed=feed))
    return json.loads(encoder.encode(outcome)), details


def principal(name: str, scope: Scope = Scope.GROUP, access: Access = Access.PERMIT) -> Principal:
    return Principal(name=name, scope=scope, access=access)


BOTH = Acl(
    decision=(
        AclLayer(part=0, principals=(principal("hr"), principal("ann", Scope.USER))),
        AclLayer(part=1, principals=(principal("staff"),)),
    )
)
DENIED = Acl(principals=(principal("hr"), principal("bob", Scope.USER, Access.DENY)))


def test_lists_that_must_both_permit_are_restrictions() -> None:
    content = Content(b"<p>The quay.")
    record = replace(RECORD, content=content, mimetype="text/html", acl=BOTH, title="Quay")
    assert converted(record) == (
        {
            "id": ID,
            "structData": DATA | {"title": "Quay"},
            "content": {"mimeType": "text/html", "rawBytes": "PHA+VGhlIHF1YXku"},
            "acl_info": {
                "readers": [
                    {"principals": [{"group_id": "hr"}, {"user_id": "ann"}]},
                    {"principals": [{"group_id": "staff"}]},
                ]
            },
        },
        [],
    )


def test_a_document_of_everyone_is_for_all_users_of_the_identity_provider() -> None:
    line, _ = converted(replace(RECORD, body="x"))
    assert isinstance(line, dict)
    assert line["acl_info"] == {"readers": [{"idp_wide": True}]}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"acl": DENIED}, "acl-denies"),
        ({"acl": Acl(principals=(replace(principal("hr"), namespace="corp"),))}, "acl-namespace"),
        (
            {"acl": Acl(principals=tuple(principal(f"g{number}") for number in range(101)))},
            "acl-too-large",
        ),
        ({"acl": Acl(inherit_from="http://intranet.example.com/")}, "acl-inherits"),
        ({"body": "x", "content": Content(b"x" * 1_000_001)}, "content-too-large"),
    ],
)
@pytest.mark.parametrize("feedtype", ["full", "incremental"])
def test_what_a_document_cannot_state_is_rejected(
    change: dict[str, object], code: str, feedtype: str
) -> None:
    record = replace(RECORD, mimetype="application/pdf", **change)
    assert converted(record, feedtype=feedtype)[0] == code


def test_a_document_of_nobody_is_written_without_its_content() -> None:
    record = replace(RECORD, body="secret", crawl=Crawl(secure=True), title="Secret")
    assert converted(record) == (
        HIDDEN,
        ["secure: without an ACL: the document is shown to no user"],
    )


@pytest.mark.parametrize(
    "record",
    [
        withheld(RECORD.url, RECORD.provenance, until_acl=False),
        withheld(RECORD.url, RECORD.provenance, until_acl=True),
        replace(RECORD, action=Action.DELETE),
    ],
)
def test_a_withheld_or_deleted_document_is_hidden_and_a_full_feed_leaves_it_out(
    record: Record,
) -> None:
    assert converted(record) == (HIDDEN, [])
    assert converted(record, feedtype="full") == ("left-out", [])


def test_an_acl_alone_is_for_full_feeds_only() -> None:
    record = replace(RECORD, action=Action.UPDATE, acl=replace(BOTH, alone=True))
    assert converted(record)[0] == "acl-alone"
    assert converted(record, feedtype="full")[0] == "left-out"


@pytest.mark.parametrize(
    ("mimetype", "data", "content"),
    [
        ("application/pdf", b"%PDF\0", {"mimeType": "application/pdf", "rawBytes": "JVBERgA="}),
        ("text/csv", "ü".encode("latin-1"), {"mimeType": "text/plain", "rawBytes": "w7w="}),
        ("image/png", b"\x89PNG\0", None),
    ],
)
def test_texts_of_other_types_are_plain_and_other_documents_are_lost(
    mimetype: str, data: bytes, content: object
) -> None:
    line, losses = converted(
        replace(RECORD, content=Content(data), mimetype=mimetype, charset="latin-1")
    )
    assert isinstance(line, dict)
    assert line.get("content") == content
    assert [loss.partition(":")[0] for loss in losses] == ([] if content else ["content"])


def test_a_large_object_of_cloud_storage_is_named() -> None:
    record = replace(
        RECORD,
        url="gs://bucket/plan.pdf",
        content=Content(b"x" * 1_000_001),
        mimetype="application/pdf",
    )
    line, _ = converted(record)
    assert isinstance(line, dict)
    assert line["content"] == {"mimeType": "application/pdf", "uri": "gs://bucket/plan.pdf"}


def test_metadata_whose_name_cannot_be_that_of_a_field_are_lost() -> None:
    metas = (Meta("colour", "red"), Meta("colour", "blue"), Meta("a b", "x"))
    line, losses = converted(replace(RECORD, metadata=metas))
    assert isinstance(line, dict)
    assert line["structData"] == DATA | {"meta": {"colour": ["red", "blue"]}}
    assert losses == ["metadata: 'a b'; expected letters, digits, `_` and `-`"]
