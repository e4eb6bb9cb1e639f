"""Commands for Solr: documents, updates of ACLs, deletions, and the fields of ManifoldCF."""

import io
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from feedferry.schemas.acl import Access, Acl, AclLayer, Principal, Scope
from feedferry.schemas.errors import ConfigError, RecordError
from feedferry.schemas.record import Action, Field, Meta, Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.access.index_fields import field_names
from feedferry.transforms.formats import SOLR, WriteOptions, sniff
from feedferry.transforms.formats.solr.command_writer import SolrEncoder
from feedferry.transforms.formats.solr.solr_format import SolrOptions

URL = "http://h/a"
ID = "default http://h/a"
PUBLIC = {f"acl_{part}_permit_1": ["*"] for part in (1, 2, 3)}
STAFF = Principal(name="staff", scope=Scope.GROUP, access=Access.PERMIT)
BOB = Principal(name="bob", scope=Scope.USER, access=Access.DENY)
STAFF_TOKEN, BOB_TOKEN = "gs:Default:staff", "us:Default:bob"
NO_OPTIONS = SolrOptions()
MANIFOLDCF = SolrOptions(dialect="manifoldcf")


def command(record: Record, options: SolrOptions = NO_OPTIONS) -> Any:
    return json.loads(SolrEncoder(WriteOptions(own=(options,))).encode(record))


def document(acl: Acl | None = None, **fields: Any) -> Record:
    return Record(url=URL, action=Action.ADD, acl=acl, **fields)


def alone(**acl: Any) -> Record:
    return Record(url=URL, action=Action.UPDATE, acl=Acl(alone=True, **acl))


def set_of(record: Record, options: SolrOptions = NO_OPTIONS) -> dict[str, Any]:
    """Return the tokens that an update sets, without fields that it removes."""
    stated = command(record, options)["add"]["doc"]
    assert stated.pop("_version_") == 1, "an update makes no document"
    assert stated.pop("id") == ID
    assert stated.keys() >= {*field_names()}, "no field of the decision before it stays"
    return {name: value["set"] for name, value in stated.items() if value["set"]}


def read_all(*lines: object) -> list[Any]:
    stream = io.BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return [*SOLR.read(stream)]


def test_a_document_has_the_run_flat_metadata_and_a_time_in_utc() -> None:
    written = document(
        metadata=(Meta("Author", "Ann"), Meta("Author", "Bob"), Meta("x y!", "é")),
        fields=(Field("own", ("1",)), Field("other", ("2",))),
        modified=datetime(2026, 11, 3, 10, tzinfo=timezone(timedelta(hours=2))),
    )
    options = SolrOptions(fields=(("Own", "own"),))
    assert command(written, options) == {
        "add": {
            "doc": {
                "id": ID,
                "run": 10**15,
                "url": URL,
                "datasource": "default",
                "modified": "2026-11-03T08:00:00Z",
                "meta_Author": ["Ann", "Bob"],
                "meta_x y!": ["é"],
                "own": ["1"],
                "field_other": ["2"],
                **PUBLIC,
            }
        }
    }


def test_an_update_replaces_all_fields_of_the_decision_and_makes_no_document() -> None:
    assert set_of(alone(principals=(STAFF, BOB))) == {
        **PUBLIC,
        "acl_1_permit_1": [STAFF_TOKEN],
        "acl_1_deny_1": [BOB_TOKEN],
    }


def test_a_withheld_document_has_a_field_that_an_acl_alone_does_not_remove() -> None:
    assert set_of(alone(withholds=True)) == {"acl_withheld": ["*"]}
    assert "acl_withheld" not in command(alone(principals=(STAFF,)))["add"]["doc"]


def test_a_deletion_has_the_id_only() -> None:
    assert command(Record(url=URL, action=Action.DELETE)) == {"delete": {"id": ID}}


def test_a_long_url_has_a_digest_as_id() -> None:
    url = URL + "x" * 600
    assert command(Record(url=url, action=Action.DELETE))["delete"]["id"][:15] == "default sha256:"


@pytest.mark.parametrize(
    ("acl", "allow", "deny"),
    [
        (None, ["__nosecurity__"], ["__nosecurity__"]),
        (Acl(), ["!"], ["!"]),
        (Acl(principals=(STAFF,)), [STAFF_TOKEN], ["!"]),
        (Acl(principals=(STAFF, BOB)), [STAFF_TOKEN], [BOB_TOKEN]),
        (Acl(principals=(BOB,)), ["!"], ["!"]),
    ],
)
def test_the_fields_of_manifoldcf_are_always_stated(
    acl: Acl | None, allow: list[str], deny: list[str]
) -> None:
    stated = command(document(acl), MANIFOLDCF)["add"]["doc"]
    assert (stated["allow_token_document"], stated["deny_token_document"]) == (allow, deny)
    if acl is not None:
        updated = set_of(alone(principals=acl.principals), MANIFOLDCF)
        fields = (updated["allow_token_document"], updated["deny_token_document"])
        assert fields == (allow, deny)


def test_a_decision_that_manifoldcf_cannot_hold_is_refused() -> None:
    heads = Principal(name="heads", scope=Scope.GROUP, access=Access.PERMIT)
    parts = Acl(
        decision=(AclLayer(part=0, principals=(STAFF,)), AclLayer(part=1, principals=(heads,)))
    )
    assert command(document(parts))["add"]["doc"]["acl_2_permit_1"] == ["gs:Default:heads"]
    with pytest.raises(RecordError, match="of several parts or layers"):
        command(document(parts), MANIFOLDCF)


def test_a_document_that_is_withheld_is_deleted_for_manifoldcf() -> None:
    assert command(alone(withholds=True), MANIFOLDCF) == {"delete": {"id": ID}}


def test_a_field_of_feedferry_is_no_field_of_a_user() -> None:
    for name in ("run", "acl_withheld", "meta_x", "allow_token_document", "acl_1_deny_1"):
        with pytest.raises(ConfigError, match="a field that feedferry has"):
            SolrOptions(fields=(("x", name),))


def test_a_withheld_document_is_read_as_one_whatever_its_acl_is() -> None:
    stated = {"id": ID, "url": URL, **PUBLIC, "acl_withheld": ["*"]}
    (record,) = read_all({"add": {"doc": stated}})
    assert record.acl == Acl(withholds=True)


def test_a_document_without_a_decision_permits_nobody() -> None:
    (record,) = read_all({"add": {"doc": {"id": "other", "modified": "2026-11-03T08:00:00Z"}}})
    assert (record.url, record.acl) == ("other", Acl())
    assert record.modified == datetime(2026, 11, 3, 8, tzinfo=UTC)


def test_deletions_differ_from_those_of_opensearch_by_the_name_of_the_id() -> None:
    assert sniff(b'{"delete":{"id":"docs http://h/a"}}\n') == "solr"
    assert sniff(b'{"delete":{"query":"*:*"}}\n') == "solr"
    assert sniff(b'{"delete":{"_id":"http://h/a"}}\n') == "opensearch"
    assert sniff(b'{"delete":{"version":1,"_id":"http://h/a"}}\n') == "opensearch"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ({"delete": {"query": "*:*"}}, "url-missing"),
        ({"add": {"doc": {"_version_": 1, "id": ID, "title": {"set": "x"}}}}, "partial-update"),
        ({"add": {"doc": {"_version_": 1, "id": ID, "acl_1_deny_1": ["x"]}}}, "bad-value"),
        ({"add": {}}, "bad-json"),
        ({"commit": {}}, "bad-action"),
        ([], "bad-action"),
    ],
)
def test_a_command_of_another_kind_is_a_reject(line: object, code: str) -> None:
    (result,) = read_all(line)
    assert isinstance(result, Reject)
    assert result.code == code
