"""JSON documents have the fields of their mapping, and those who may see them by fixed rules."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.options.own_options import chosen_of, texts_of_files
from feedferry.schemas.acl import Access, Acl, AclLayer, Principal, Scope
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.record import Action, Content, Meta, Record, withheld
from feedferry.schemas.reject import Reject
from feedferry.transforms.access.index_fields import field_names
from feedferry.transforms.formats import JSON_DOCUMENTS, JsonDocumentsOptions, WriteOptions
from feedferry.transforms.formats.canonical.jsonl import line
from feedferry.transforms.formats.json_documents.document_mapping import DocumentMapping
from feedferry.transforms.rules.adapt import Target, adapter
from feedferry.transforms.sources.database.mapping.row_mapping import RowMapping

RECORD = Record(url="http://intranet.example.com/quay", action=Action.ADD)
ID = "uqux7dtpu2vfmxg2kfs2mojjkphlviw5ez3vufwhnstkhxvtebz7q"
DECISION = set(field_names())
READERS = "acl: {users: users, groups: groups, public: public, namespace: corp}\n"


def options(tmp_path: Path, text: str | None) -> JsonDocumentsOptions:
    if text is None:
        return JsonDocumentsOptions()
    path = tmp_path / "mapping.yaml"
    path.write_text(text, "utf-8")
    mapping = chosen_of({"document_mapping": str(path)}, JsonDocumentsOptions)
    return JsonDocumentsOptions(**mapping)  # type: ignore[arg-type]


def converted(
    record: Record, own: JsonDocumentsOptions
) -> tuple[dict[str, object] | str, list[str]]:
    """Return the line of a record, or the code of its reject, and its losses."""
    [outcome], losses = adapter(Target(format="json-documents", own=(own,)))(record)
    details = [f"{loss.field}: {loss.detail}" for loss in losses]
    if isinstance(outcome, Reject):
        return outcome.code, details
    assert isinstance(outcome, Record)
    encoder = JSON_DOCUMENTS.make_encoder(WriteOptions(own=(own,)))
    return json.loads(encoder.encode(outcome)), details


def permit(name: str, *, scope: Scope = Scope.GROUP, namespace: str | None = "corp") -> Principal:
    return Principal(name=name, scope=scope, access=Access.PERMIT, namespace=namespace)


def without_decision(line: dict[str, object] | str) -> dict[str, object]:
    assert isinstance(line, dict), line
    assert {*line} >= DECISION
    return {name: value for name, value in line.items() if name not in DECISION}


def test_a_document_has_the_fields_of_its_mapping(tmp_path: Path) -> None:
    own = options(
        tmp_path,
        "key: [docId]\n"
        "url: {column: link}\n"
        "content: {column: text}\n"
        "title: name\n"
        "modified: {column: day, format: '%Y-%m-%d'}\n"
        'metadata: [lang, {column: tags, name: tag, separator: ";"}, all]\n'
        'action: {column: "@search.action", document: upload}\n',
    )
    metas = (Meta("lang", "en"), Meta("tag", "a"), Meta("tag", "b"), Meta("colour", "red"))
    moment = datetime(2026, 1, 30, 23, 30, tzinfo=UTC)
    record = replace(
        RECORD, content=Content(b"The quay."), title="Quay", metadata=metas, modified=moment
    )
    line, losses = converted(record, own)
    assert losses == []
    document = without_decision(line)
    assert document.pop("docId") == ID
    assert document == {
        "@search.action": "upload",
        "link": "http://intranet.example.com/quay",
        "name": "Quay",
        "day": "2026-01-30",
        "text": "The quay.",
        "lang": ["en"],
        "tags": "a;b",
        "colour": ["red"],
    }


def test_the_id_is_a_digest_of_the_url() -> None:
    line, _ = converted(replace(RECORD, action=Action.DELETE), JsonDocumentsOptions())
    assert line == {"action": "delete", "id": ID, "url": RECORD.url}


def test_what_has_no_field_is_lost(tmp_path: Path) -> None:
    own = options(tmp_path, "metadata: [lang]\ncontent: {column: text}\n")
    record = replace(
        RECORD, content=Content(b"x"), title="Quay", metadata=(Meta("a", "1"), Meta("lang", "en"))
    )
    line, losses = converted(record, own)
    assert without_decision(line) == {"action": "document", "id": ID, "text": "x", "lang": ["en"]}
    assert losses == [
        "metadata: 'title', without a field in the mapping",
        "metadata: 'a', without a field in the mapping",
    ]


def test_metadata_cannot_replace_a_field_of_the_decision() -> None:
    acl = Acl(principals=(permit("hr"),))
    metas = (Meta("acl_1_permit_1", "*"), Meta("ACL_2_DENY_1", "x"), Meta("id", "1"))
    line, losses = converted(replace(RECORD, acl=acl, metadata=metas), JsonDocumentsOptions())
    assert isinstance(line, dict)
    assert (line["acl_1_permit_1"], line["id"], "ACL_2_DENY_1" in line) == (
        ["gs:corp:hr"],
        ID,
        False,
    )
    assert losses == [f"metadata: {meta.name!r}, the name of another field" for meta in metas]


def test_a_line_states_all_fields_of_the_decision_also_those_without_tokens() -> None:
    line, _ = converted(RECORD, JsonDocumentsOptions())
    assert isinstance(line, dict)
    stated = {name: line[name] for name in DECISION if line[name]}
    assert stated == {f"acl_{part}_permit_1": ["*"] for part in (1, 2, 3)}
    assert {name for name in line if name.startswith("acl_")} == DECISION


def test_a_withheld_document_is_deleted_unless_an_acl_alone_shows_it_again() -> None:
    record = withheld(RECORD.url, RECORD.provenance, until_acl=False)
    deletion = {"action": "delete", "id": ID, "url": RECORD.url}
    assert converted(record, JsonDocumentsOptions()) == (deletion, [])
    record = withheld(RECORD.url, RECORD.provenance, until_acl=True)
    line, losses = converted(record, JsonDocumentsOptions())
    assert (without_decision(line), losses) == (deletion | {"action": "acl"}, [])
    assert isinstance(line, dict)
    assert line["acl_1_permit_1"] == []


def test_readers_have_names_and_a_document_of_nobody_has_a_user_that_nobody_is(
    tmp_path: Path,
) -> None:
    own = options(tmp_path, READERS)
    acl = Acl(principals=(permit("hr"), permit("ann", scope=Scope.USER)))
    lines = [converted(replace(RECORD, acl=each), own)[0] for each in (acl, None, Acl())]
    assert lines == [
        {"action": "document", "id": ID, "public": public, "users": users, "groups": groups}
        for public, users, groups in (
            (False, ["ann"], ["hr"]),
            (True, [], []),
            (False, ["google:fakeUserToPreventMissingAcl"], []),
        )
    ]
    hidden, _ = converted(withheld(RECORD.url, RECORD.provenance, until_acl=True), own)
    assert hidden == lines[2] | {"action": "acl"}  # type: ignore[operator]


@pytest.mark.parametrize(
    ("acl", "code"),
    [
        (Acl(principals=(permit("hr"), replace(permit("bob"), access=Access.DENY))), "acl-denies"),
        (Acl(principals=(permit("hr", namespace=None),)), "acl-namespace"),
        (
            Acl(
                decision=(
                    AclLayer(part=0, principals=(permit("hr"),)),
                    AclLayer(part=1, principals=(permit("staff"),)),
                )
            ),
            "acl-parts",
        ),
        (Acl(inherit_from="http://intranet.example.com/"), "acl-inherits"),
    ],
)
def test_an_acl_that_readers_cannot_state_is_rejected(acl: Acl, code: str, tmp_path: Path) -> None:
    assert converted(replace(RECORD, acl=acl), options(tmp_path, READERS))[0] == code


def test_a_group_is_rejected_without_a_field_for_groups(tmp_path: Path) -> None:
    own = options(tmp_path, "acl: {users: users, public: public}\n")
    acl = Acl(principals=(permit("hr", namespace=None),))
    assert converted(replace(RECORD, acl=acl), own)[0] == "acl-groups"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title: acl_1_Permit_1", "'acl_1_permit_1' is a field of the decision; expected another"),
        ("title: ID", "2 fields 'id'; expected different names"),
        ("acl: {users: users}", "acl.public: missing"),
        ("key: [a, b]", "a list of one field, such as [id]"),
        ("metadata: [a, {column: b, name: a}]", "metadata 'a' twice; expected each once"),
        ("action: {document: x, acl: x}", "equal values; expected one for each"),
        ("titel: name", "'titel'; expected one of"),
    ],
)
def test_an_error_in_a_mapping_names_its_place(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as exc:
        options(tmp_path, text)
    assert message in str(exc.value)
    assert "mapping.yaml" in str(exc.value)


def test_a_rejected_document_of_a_source_without_datasources_is_withheld(tmp_path: Path) -> None:
    options(tmp_path, READERS)
    acl = Acl(principals=(permit("hr"), replace(permit("bob"), access=Access.DENY)))
    source, run = tmp_path / "docs.jsonl", tmp_path / "run"
    source.write_bytes(line(replace(RECORD, body="x", acl=acl)))
    words = ["convert", str(source), "-o", str(run), "--to", "json-documents"]
    assert main([*words, "--set", f"target.document_mapping={tmp_path / 'mapping.yaml'}"]) == 1
    [chunk] = run.glob("chunks/*")
    assert json.loads(chunk.read_bytes()) == {
        "id": ID,
        "action": "acl",
        "public": False,
        "users": ["google:fakeUserToPreventMissingAcl"],
        "groups": [],
    }


def test_the_text_of_a_mapping_file_affects_the_output_of_a_run(tmp_path: Path) -> None:
    options(tmp_path, "title: name\n")
    own = {"document_mapping": str(tmp_path / "mapping.yaml")}
    assert texts_of_files(own) == {"document_mapping": "title: name\n"}


def test_the_words_of_a_mapping_are_those_of_the_mapping_of_rows() -> None:
    assert {*DocumentMapping.__struct_fields__} <= {*RowMapping.__struct_fields__}
