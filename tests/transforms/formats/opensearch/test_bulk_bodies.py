"""Bodies of `_bulk` requests: what is written of a record, and read of actions of others."""

import io
import json
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, AclLayer, Principal, Scope
from feedferry.schemas.errors import RecordError
from feedferry.schemas.feed import Feed
from feedferry.schemas.record import (
    Action,
    Content,
    Crawl,
    Field,
    Meta,
    Provenance,
    Record,
    withheld,
)
from feedferry.schemas.reject import Reject
from feedferry.transforms.access.index_fields import permits, tokens_of
from feedferry.transforms.formats import WriteOptions
from feedferry.transforms.formats.opensearch.bulk_reader import read
from feedferry.transforms.formats.opensearch.bulk_writer import (
    ACL_SCRIPT,
    BulkEncoder,
    hiding_lines,
)
from feedferry.transforms.formats.opensearch.opensearch_format import OpensearchOptions
from feedferry.transforms.formats.search_document.document_encoder import id_of

URL = "http://intranet.example.com/quay"
PLACE = 10**18
PUBLIC = {f"acl_{part}_permit_1": ["*"] for part in (1, 2, 3)}
STAFF = Principal(name="staff", scope=Scope.GROUP, access=Access.PERMIT)
BOB = Principal(name="ACME\\Bob", scope=Scope.USER, access=Access.DENY, case_sensitive=False)
DOCUMENT = Record(url=URL, action=Action.ADD, title="The quay", body="Ships.")


def lines_of(record: Record, **options: object) -> list[dict[str, object]]:
    feed = Feed(datasource="docs", feedtype="incremental")
    own = (OpensearchOptions(**options),)  # type: ignore[arg-type]
    encoded = BulkEncoder(WriteOptions(feed=feed, own=own)).encode(record)
    assert encoded.endswith(b"\n")
    return [json.loads(line) for line in encoded.splitlines()]


def records_of(*lines: object) -> list[Record]:
    return [item for item in results_of(*lines) if isinstance(item, Record)]


def results_of(*lines: object) -> list[object]:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    return [*read(io.BytesIO(text.encode()))]


def test_a_document_has_an_action_with_its_id_and_a_line_with_its_fields() -> None:
    record = replace(
        DOCUMENT,
        mimetype="text/plain",
        modified=datetime(2026, 11, 28, 7, 15, tzinfo=UTC),
        metadata=(Meta("Author", "Ann"), Meta("Author", "Zoe"), Meta("a.b", "")),
        fields=(Field("Price", ("7",)),),
        crawl=Crawl(display_url="http://www.example.com/"),
    )
    assert lines_of(record) == [
        {"index": {"version": PLACE, "version_type": "external_gte", "_id": URL}},
        {
            "version": PLACE,
            "url": URL,
            "datasource": "docs",
            "display_url": "http://www.example.com/",
            "title": "The quay",
            "body": "Ships.",
            "mimetype": "text/plain",
            "modified": "2026-11-28T07:15:00Z",
            "meta": {"Author": ["Ann", "Zoe"], "a.b": [""]},
            "fields": {"Price": ["7"]},
            **PUBLIC,
        },
    ]


def test_a_deletion_is_one_line() -> None:
    assert lines_of(Record(url=URL, action=Action.DELETE)) == [
        {"delete": {"version": PLACE, "version_type": "external_gte", "_id": URL}}
    ]


def test_the_fields_of_an_acl_are_the_layers_of_its_decision() -> None:
    own = replace(DOCUMENT, acl=Acl(principals=(STAFF, BOB)))
    layers = (
        AclLayer(part=0, principals=(BOB,)),
        AclLayer(part=0, principals=(STAFF,)),
        AclLayer(part=1, principals=(replace(STAFF, name="all"),)),
    )
    chain = replace(DOCUMENT, acl=Acl(inherit_from="http://h.x/", decision=layers))
    token = "ui:Default:acme%5Cbob"
    assert access_of(own) == {
        **PUBLIC,
        "acl_1_deny_1": [token],
        "acl_1_permit_1": ["gs:Default:staff"],
    }
    assert access_of(chain) == {
        "acl_1_deny_1": [token],
        "acl_1_permit_1": ["gs:Default:staff"],
        "acl_2_permit_1": ["gs:Default:all"],
        "acl_3_permit_1": ["*"],
    }


def access_of(record: Record) -> dict[str, object]:
    return {name: value for name, value in lines_of(record)[1].items() if name.startswith("acl_")}


@pytest.mark.parametrize(
    "record",
    [
        replace(DOCUMENT, acl=Acl()),
        replace(DOCUMENT, acl=Acl(principals=(BOB,))),
        replace(DOCUMENT, crawl=Crawl(secure=True)),
    ],
)
def test_a_document_that_nobody_may_see_is_found_by_no_token(record: Record) -> None:
    stated = {name: list(map(str, value)) for name, value in access_of(record).items()}  # type: ignore[call-overload]
    assert not permits(stated, tokens_of([]))


def test_an_acl_alone_is_an_update_that_keeps_the_other_fields() -> None:
    record = Record(url=URL, action=Action.UPDATE, acl=Acl(principals=(STAFF,), alone=True))
    fields = {**PUBLIC, "acl_1_permit_1": ["gs:Default:staff"]}
    params = {"version": PLACE, "fields": fields}
    assert lines_of(record) == [
        {"update": {"_id": URL}},
        {"script": {"params": params, "lang": "painless", "source": ACL_SCRIPT}},
    ]
    [read_again] = records_of(*lines_of(record))
    assert read_again.acl is not None
    assert (read_again.acl.alone, len(read_again.acl.principals)) == (True, 1)


@pytest.mark.parametrize("until_acl", [False, True])
def test_a_record_that_withholds_a_document_is_read_as_it_was(until_acl: bool) -> None:
    record = withheld(URL, Provenance(), until_acl=until_acl)
    [again] = records_of(*lines_of(record))
    assert (again.acl, again.action) == (record.acl, record.action)


def test_the_lines_that_hide_a_document_deny_it_to_everyone() -> None:
    action, script = map(json.loads, hiding_lines(URL).splitlines())
    assert (action, script["script"]["params"]["fields"]) == (
        {"update": {"_id": URL}},
        {"acl_1_deny_1": ["*"]},
    )


@pytest.mark.parametrize("count", [511, 512])
def test_a_url_of_more_than_512_bytes_has_a_digest_as_its_id(count: int) -> None:
    assert id_of("x" * count) == "x" * count
    assert id_of("\u00fc" * 257).startswith("sha256:")
    long = replace(DOCUMENT, url="http://h.x/" + "y" * 600)
    action, document = lines_of(long)
    assert document["url"] == long.url
    assert [record.url for record in records_of(action, document)] == [long.url]


def test_data_for_a_pipeline_is_base64_and_the_action_names_the_pipeline() -> None:
    record = Record(url=URL, action=Action.ADD, content=Content(b"%PDF"), mimetype="image/png")
    action, document = lines_of(record, pipeline="attachment")
    assert action["index"]["pipeline"] == "attachment"  # type: ignore[index]
    assert document["data"] == "JVBERg=="
    assert "pipeline" not in str(lines_of(DOCUMENT, pipeline="attachment"))


def test_a_text_that_is_no_unicode_is_rejected() -> None:
    with pytest.raises(RecordError, match=r"a lone surrogate U\+D800; expected Unicode text"):
        BulkEncoder().encode(replace(DOCUMENT, title="\ud800"))


def test_a_document_of_others_keeps_unknown_fields_and_is_shown_to_no_user() -> None:
    [record] = records_of({"create": {"_id": "7"}}, {"name": "Quay", "size": 3, "tags": ["a", 1]})
    assert (record.url, record.size, record.acl) == ("7", 3, Acl())
    assert record.fields == (Field("name", ("Quay",)), Field("tags", ("a", "1"), many=True))


@pytest.mark.parametrize(
    ("lines", "code", "reason"),
    [
        (("{",), "bad-json", "'{"),
        (({"index": {}}, {}), "url-missing", "index without an _id; expected the URL as _id"),
        (({"index": {"_id": "1"}},), "bad-json", "b''; expected a line of JSON"),
        (({"index": {"_id": "1"}}, {"title": 7}), "bad-value", "title is 7; expected a text"),
        (({"index": {"_id": "1"}}, {"data": "%"}), "bad-base64", "'%'; expected base64"),
        (({"index": {"_id": "1"}}, {"modified": "x"}), "bad-date", "modified is 'x'; expected"),
        (({"update": {"_id": "1"}}, {"doc": {"title": "x"}}), "partial-update", "an update of"),
        (
            ({"index": {"_id": "1"}}, PUBLIC | {"acl_1_permit_1": ["bob"]}),
            "bad-token",
            "'bob'; expected a token such as ui:Default:bob",
        ),
    ],
)
def test_an_action_that_cannot_be_read_costs_itself(
    lines: tuple[object, ...], code: str, reason: str
) -> None:
    *_, reject, last = results_of(*lines, {"delete": {"_id": "http://h.x/"}})
    assert isinstance(reject, Reject)
    assert reject.code == code
    assert reason in reject.reason or code == "bad-json"
    assert isinstance(last, Record)
    assert last.action is Action.DELETE
