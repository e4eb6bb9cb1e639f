"""Solr as an appliance: requests of a run, results by document, and the schema."""

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from feedferry.schemas.account import Chunk
from feedferry.transforms.formats.solr.solr_format import SolrOptions
from feedferry.transforms.sinks.push.model import ApplianceResponse, ChunkPart, ResponseMeaning
from feedferry.transforms.sinks.push.wire.address import parse_target
from feedferry.transforms.sinks.push.wire.solr.commands import of_run
from feedferry.transforms.sinks.push.wire.solr.results import judge, lines_of
from feedferry.transforms.sinks.push.wire.solr.schema import HeldSchema, faults, missing_fields

ADD = b'{"add":{"doc":{"id":"d a","run":1000000000000000,"body":"\\"run\\":1000000000000000"'
TOKENS = b',"acl_1_permit_1":["gs:Default:a"],"acl_1_deny_1":["us:Default:b"]'
MANIFOLDCF = b',"allow_token_document":["gs:Default:a","x"],"deny_token_document":["!"]'
UPDATE = b'{"add":{"doc":{"_version_":1,"id":"d a","acl_1_permit_1":{"set":["*"]}}}}\n'
DELETE = b'{"delete":{"id":"d b"}}\n'
NO_OPTIONS = SolrOptions()


def part_of(path: Path, *lines: bytes) -> ChunkPart:
    data = b"".join(lines)
    path.write_bytes(data)
    sha256 = hashlib.sha256(data).hexdigest()
    chunk = Chunk(
        ordinal=1,
        path=path.name,
        bytes=len(data),
        sha256=sha256,
        records={"ADD": len(lines)},
        format="solr",
        datasource="d",
        first_url="",
        last_url="",
        source="",
        span=0,
    )
    return ChunkPart(chunk=chunk, path=path, offset=0, length=len(data), sha256=sha256)


def reply(*errors: tuple[str, str], status: int = 200) -> ApplianceResponse:
    listed = [{"type": "ADD", "id": id, "message": message} for id, message in errors]
    body = {"responseHeader": {"errors": listed, "status": 0}}
    return ApplianceResponse(status=status, body=json.dumps(body).encode(), url="http://h")


def failure(status: int, message: str) -> ApplianceResponse:
    body = json.dumps({"error": {"msg": message, "code": status}}).encode()
    return ApplianceResponse(status=status, body=body, url="http://h")


def test_an_address_of_solr_has_the_name_of_a_collection() -> None:
    target = parse_target("http://solr.example.com:8983/solr/docs")
    assert (target.protocol.name, target.url) == ("solr", "http://solr.example.com:8983/solr/docs")
    assert parse_target("http://solr.example.com:8983/docs").protocol.name == "opensearch"


def test_lines_are_found_in_blocks_of_any_size() -> None:
    text = b"a\nbcd\n\nlast"
    for size in range(1, len(text) + 1):
        blocks = [text[at : at + size] for at in range(0, len(text), size)]
        assert [*lines_of(blocks)] == [b"a\n", b"bcd\n", b"\n", b"last"]


def test_the_run_replaces_its_place_but_no_text_of_a_document() -> None:
    line = ADD + TOKENS + b"}}}\n"
    (sent,) = of_run([line], 1795888967033258)
    document = json.loads(sent)["add"]["doc"]
    assert (document["run"], document["body"]) == (1795888967033258, '"run":1000000000000000')
    assert len(sent) == len(line)


def test_a_superseded_record_shows_its_document_to_no_user() -> None:
    lines = [ADD + TOKENS + MANIFOLDCF + b"}}}\n", UPDATE, DELETE, UPDATE]
    sent = [*of_run(lines, 1795888967033258, {0, 1, 2})]
    assert [*map(len, sent)] == [*map(len, lines)]
    document = json.loads(sent[0])["add"]["doc"]
    assert [name for name in document if name.startswith("acl_")] == []
    assert document["allow_token_document"] == document["deny_token_document"] == ["!"]
    assert sent[1:] == [b" " * (len(UPDATE) - 1) + b"\n", DELETE, UPDATE]


def test_a_command_that_fails_is_refused_by_the_id_of_its_document(tmp_path: Path) -> None:
    part = part_of(tmp_path / "1", ADD + b"}}}\n", DELETE, UPDATE)
    verdict = judge(reply(("d a", "bad number"), ("d z", "Document not found for update")), part)
    assert verdict is not None
    assert verdict.meaning is ResponseMeaning.ACCEPTED
    refused = [(refusal.record, refusal.words) for refusal in verdict.refused]
    assert refused == [(0, "bad number"), (2, "bad number")]
    assert verdict.notices == ("an ACL without a document in the index",)


def test_an_error_of_an_unknown_document_refuses_the_request(tmp_path: Path) -> None:
    part = part_of(tmp_path / "1", DELETE)
    verdict = judge(reply(("d y", "bad number")), part)
    assert verdict is not None
    assert verdict.meaning is ResponseMeaning.REFUSED


@pytest.mark.parametrize(
    ("response", "meaning"),
    [
        (reply(("d b", "No space left on device")), ResponseMeaning.FULL_DISK),
        (reply(("d b", "this IndexWriter is closed")), ResponseMeaning.RETRY),
        (failure(500, "No space left on device"), ResponseMeaning.FULL_DISK),
        (failure(400, "unknown field 'x'"), ResponseMeaning.REFUSED),
        (failure(409, "Document not found for update.  id=x"), ResponseMeaning.ACCEPTED),
        (failure(403, "not authorized"), ResponseMeaning.FATAL),
    ],
)
def test_other_failures_have_the_meaning_that_they_have_for_a_push(
    response: ApplianceResponse, meaning: ResponseMeaning, tmp_path: Path
) -> None:
    verdict = judge(response, part_of(tmp_path / "1", DELETE))
    assert verdict is not None
    assert verdict.meaning is meaning


def test_without_words_the_status_decides(tmp_path: Path) -> None:
    unknown = ApplianceResponse(status=503, body=b"busy")
    assert judge(unknown, part_of(tmp_path / "1", DELETE)) is None


def held(*fields: dict[str, Any], copies: tuple[str, ...] = ()) -> HeldSchema:
    types = [
        {"name": "tokens", "class": "solr.StrField", "multiValued": True},
        {"name": "text", "class": "solr.TextField", "multiValued": True},
        {"name": "one", "class": "solr.StrField"},
    ]
    schema = {
        "uniqueKey": "id",
        "fieldTypes": types,
        "fields": fields,
        "copyFields": [{"source": "x", "dest": name} for name in copies],
    }
    return msgspec.convert(schema, type=HeldSchema)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"type": "text"}, "expected an indexed StrField"),
        ({"type": "tokens", "indexed": False}, "expected an indexed StrField"),
        ({"type": "tokens", "stored": False}, "expected a stored field"),
        ({"type": "one"}, "expected a field of several values"),
        ({"type": "tokens", "default": "*"}, "expected none"),
        ({"type": "unknown"}, "expected an indexed StrField"),
    ],
)
def test_a_field_of_the_decision_that_would_show_documents_is_refused(
    field: dict[str, Any], expected: str
) -> None:
    for name in ("acl_1_deny_1", "acl_3_permit_3", "acl_withheld"):
        (fault,) = faults(held({"name": name, **field}), NO_OPTIONS)
        assert f"the field '{name}'" in fault
        assert expected in fault


def test_a_copy_to_a_field_of_the_decision_is_refused() -> None:
    schema = held({"name": "acl_1_permit_1", "type": "tokens"}, copies=("acl_1_permit_1",))
    (fault,) = faults(schema, NO_OPTIONS)
    assert "with a default or copies" in fault


def test_fields_of_others_are_of_any_type_and_fields_of_ours_are_stored() -> None:
    others = held({"name": "title", "type": "text"}, {"name": "x", "type": "text", "stored": False})
    assert [*faults(others, NO_OPTIONS)] == []
    (fault,) = faults(held({"name": "title", "type": "text", "stored": False}), NO_OPTIONS)
    assert "expected a stored field" in fault
    dynamic = {"dynamicFields": [{"name": "meta_*", "type": "one", "stored": False}]}
    (fault,) = faults(msgspec.convert({"uniqueKey": "id", **dynamic}, HeldSchema), NO_OPTIONS)
    assert "the field 'meta_*'" in fault


def test_fields_of_the_job_and_of_manifoldcf_are_made() -> None:
    options = SolrOptions(fields=(("Author", "author"),), dialect="manifoldcf")
    missing = {*missing_fields(held(), options)}
    assert missing >= {"author", "allow_token_document", "acl_withheld", "meta_*", "run"}
    assert "author" not in missing_fields(held(), NO_OPTIONS)
