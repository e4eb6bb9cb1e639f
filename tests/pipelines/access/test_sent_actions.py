"""What was sent of a document is found in the chunks of runs, back to the whole document."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.pipelines.access.explain_document import explain_document
from feedferry.pipelines.access.run_history import RunHistory
from feedferry.pipelines.access.sent_actions import find_sent
from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import SourceError
from feedferry.schemas.feed import Feed
from feedferry.schemas.record import Action, Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.formats import OPENSEARCH, WriteOptions
from feedferry.transforms.rules.withheld_list import HEAD, withheld_line
from feedferry.transforms.steps.kept_acls import KeptAcl, replace_kept
from support.acl_nights import HOST, alone, deleted, document, own_acl
from support.fake_appliance import finished

URL = f"{HOST}x"
ANN, BOB = document("x", stated=own_acl("ann")), document("x", stated=own_acl("bob"))


def run(
    folder: Path, *chunks: Sequence[Record], datasource: str = "docs", feedtype: str = "incremental"
) -> Path:
    """Make the folder of a run with chunks."""
    (folder / "chunks").mkdir(parents=True)
    encoder = OPENSEARCH.make_encoder(
        WriteOptions(feed=Feed(datasource=datasource, feedtype="incremental"))
    )
    lines = []
    for ordinal, records in enumerate(chunks):
        path = folder / "chunks" / f"{ordinal}.ndjson"
        path.write_bytes(b"".join(map(encoder.encode, records)))
        chunk = Chunk(
            ordinal=ordinal,
            path=f"chunks/{path.name}",
            bytes=path.stat().st_size,
            sha256="",
            records={},
            first_url="",
            last_url="",
            source="feed.xml",
            span=0,
            format="opensearch",
            datasource=datasource,
            requested_feedtype=feedtype,
        )
        lines.append(chunk)
    return finished(folder, lines)


def sent(*runs: Path) -> tuple[str, Action, str | None] | None:
    """Return the run and the action that are the newest, and the run of the document."""
    known = find_sent(runs[::-1], URL, None).sent.get("docs")
    if known is None:
        return None
    return (
        known.newest.run,
        known.newest.record.action,
        None if known.document is None else known.document.run,
    )


@pytest.mark.parametrize(
    ("nights", "expected"),
    [
        ([[ANN]], ("1", Action.ADD, "1")),
        ([[ANN], [BOB]], ("2", Action.ADD, "2")),
        ([[ANN], [document("y")]], ("1", Action.ADD, "1")),
        ([[ANN], [alone("x", "bob")]], ("2", Action.UPDATE, "1")),
        ([[alone("x", "bob")]], ("1", Action.UPDATE, None)),
        ([[ANN, alone("x", "bob")]], ("1", Action.UPDATE, "1")),
        ([[ANN], [deleted("x")]], ("2", Action.DELETE, "2")),
        ([[ANN], [deleted("x"), BOB]], ("2", Action.ADD, "2")),
        ([[document("y")]], None),
    ],
)
def test_the_newest_action_counts(
    nights: Sequence[Sequence[Record]],
    expected: tuple[str, Action, str | None] | None,
    tmp_path: Path,
) -> None:
    runs = [run(tmp_path / str(at), night) for at, night in enumerate(nights, 1)]
    assert sent(*runs) == expected


def test_documents_before_a_full_feed_do_not_count(tmp_path: Path) -> None:
    before = run(tmp_path / "1", [ANN])
    full = run(tmp_path / "2", [document("y")], [document("z")], feedtype="full")
    other = run(tmp_path / "3", [document("y")], datasource="other", feedtype="full")
    history = RunHistory(folders=(other, full, before))
    assert sent(before, other) == ("1", Action.ADD, "1")
    assert sent(before, full, other) is None
    found = explain_document(URL, "docs", history, None)
    assert found.notes == ["the document is not in the index: the full feed of 2 lacks it"]


def test_a_run_without_a_manifest_has_sent_nothing_and_a_missing_chunk_is_an_error(
    tmp_path: Path,
) -> None:
    begun = tmp_path / "2"
    begun.mkdir()
    first = run(tmp_path / "1", [ANN])
    assert sent(first, begun) == ("1", Action.ADD, "1")
    (first / "chunks" / "0.ndjson").unlink()
    with pytest.raises(SourceError, match=r"0.ndjson: No such file.*; expected the chunks of"):
        sent(first)


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_withheld_document_has_the_reason(is_refused: bool, tmp_path: Path) -> None:
    folder = run(tmp_path / "1", [ANN])
    path = folder / "push" / "index" if is_refused else folder
    path.mkdir(parents=True, exist_ok=True)
    reject = Reject(code="c", reason="found; expected", stage="push", source="f.xml", line=3)
    lines = [HEAD, *(withheld_line(url, "docs", reject) for url in (f"{URL}y", URL))]
    (path / "withheld.csv").write_bytes(b"".join(lines))
    found = explain_document(URL, None, RunHistory(folders=(folder,)), None)
    assert found.withheld is not None
    assert (found.withheld.run, found.withheld.code, found.withheld.message) == (
        *("1", "c"),
        "found; expected",
    )
    assert found.withheld.is_refused is is_refused
    [decision] = found.decisions
    assert [layer.permits for layer in decision.layers] == [
        [] if is_refused else ["us:Default:ann"]
    ]


def test_an_acl_of_another_datasource_counts_only_if_it_was_sent(tmp_path: Path) -> None:
    acls = tmp_path / "state.acls"
    kept = KeptAcl(url=URL, acl=own_acl("ann", alone=True), alone=True, datasource="b", run="1")
    replace_kept(acls, [kept])

    def links(record: Record, name: str) -> list[tuple[str | None, bool]]:
        history = RunHistory(acls=acls, folders=(run(tmp_path / name, [record]),))
        found = explain_document(URL, "docs", history, None)
        assert [decision.origin for decision in found.decisions] == ["sent"]
        return [(link.datasource, link.is_sent) for link in found.acls]

    assert links(ANN, "borrowed") == [("b", False)]
    assert links(BOB, "own") == [("docs", True)]


def test_a_chain_that_cannot_be_decided_is_a_note(tmp_path: Path) -> None:
    acls = tmp_path / "state.acls"
    child = own_acl("bob", parent="d/")
    replace_kept(acls, [KeptAcl(url=URL, acl=child, datasource="docs"), KeptAcl(url=f"{HOST}d/")])
    history = RunHistory(acls=acls, folders=(run(tmp_path / "1", [ANN]),))
    found = explain_document(URL, None, history, None)
    assert [decision.origin for decision in found.decisions] == ["sent"]
    [note] = found.notes
    assert note.startswith("acl-chain-broken: an ACL inherits from 'http://h.example/d/'")
    assert [link.fault is None for link in found.acls] == [True, False]

    replace_kept(acls, [KeptAcl(url=URL, acl=replace(child, inherit_from=None), datasource="docs")])
    found = explain_document(URL, None, history, None)
    assert [decision.origin for decision in found.decisions] == ["sent", "acls"]
    assert found.notes == [
        "the ACLs that the job keeps come to another decision than the one that was sent"
    ]
