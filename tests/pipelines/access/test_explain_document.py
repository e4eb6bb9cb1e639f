"""One command explains who sees a document of a job, now and as of an earlier night."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.folders.job_folders import runs_of
from support.served import run, serving

pytestmark = pytest.mark.slow

HOST = "http://h.example/"
Layer = tuple[int, list[str], list[str]]
Explain = Callable[..., dict[str, Any]]


def acl(path: str, user: str, more: str = "") -> str:
    return f'<acl url="{HOST}{path}" {more}>{principal(user)}</acl>'


def principal(user: str, access: str = "permit") -> str:
    return f'<principal scope="user" access="{access}">{user}</principal>'


def folder(path: str, user: str) -> str:
    return acl(path, user, 'inheritance-type="and-both-permit"')


def document(path: str, inner: str = "") -> str:
    head = f'<record url="{HOST}{path}" mimetype="text/plain">'
    return f"{head}{inner}<content>text</content></record>"


def child(path: str, parent: str) -> str:
    inner = f'<acl inherit-from="{HOST}{parent}">{principal("ann")}</acl>'
    return document(path, inner)


PLAIN = f"<acl>{principal('ann')}{principal('eve', 'deny')}</acl>"
REMOVED = f'<record url="{HOST}gone" action="delete" mimetype="text/plain"/>'
NIGHTS = [
    (
        *(folder("d/", "ann"), child("d/x", "d/"), document("p", PLAIN), document("q", PLAIN)),
        *(document("public"), child("old/y", "old/"), document("gone", PLAIN)),
    ),
    (folder("d/", "bob"), REMOVED, document("p", PLAIN.replace("permit", "permt"))),
    (folder("old/", "ann"), acl("q", "bob")),
]


@pytest.fixture(scope="module")
def explain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explain]:
    """Explain documents of a job of three nights; `night` is that as of which it is."""
    home = tmp_path_factory.mktemp("explained")
    with serving(home / "spool") as served:
        target = f"{{type: opensearch, url: {served.url}/docs}}"
        source = "{type: gsa-feed, path: [feed.xml]}"
        text = f"version: 1\njob: nights\nsource: {source}\ntarget: {target}\n"
        (home / "nights.yaml").write_text(text, "utf-8")
        for parts in NIGHTS:
            header = "<datasource>web</datasource><feedtype>incremental</feedtype>"
            group = "<group>\n{}\n</group>".format("\n".join(parts))
            feed = f"<gsafeed><header>{header}</header>{group}</gsafeed>"
            (home / "feed.xml").write_text(feed, "utf-8")
            done = run("run", "nights.yaml", "--progress", "none", cwd=home)
            assert done.returncode in (0, 1), done.stderr
        runs = [record.id for record in runs_of(home / "runs" / "nights")]

        def made(path: str, *words: str, night: int = 3, has_target: bool = False) -> Any:
            place = ["--state", str(home / "nights.yaml"), "--as-of", runs[night - 1]]
            place += ["--target", f"{served.url}/docs"] if has_target else []
            command = ["access", "--document", HOST + path, *place, "--format", "json", *words]
            done = run(*command, cwd=home)
            assert done.returncode in (0, 1), done.stderr
            found = json.loads(done.stdout.replace(str(home), "."))
            names = {run: f"run {number}" for number, run in enumerate(runs, 1)}
            return json.loads(_renamed(json.dumps(found), names))

        yield made


def _renamed(text: str, names: dict[str, str]) -> str:
    for name, other in names.items():
        text = text.replace(name, other)
    return text


def decisions(
    found: dict[str, Any],
) -> list[tuple[str, list[Layer], Any]]:
    return [
        (
            each["origin"],
            [(layer["part"], layer["denies"], layer["permits"]) for layer in each["layers"]],
            each["is_found"],
        )
        for each in found["decisions"]
    ]


ANN, BOB, EVE = "us:Default:ann", "us:Default:bob", "us:Default:eve"


def test_the_chain_names_the_runs_and_feeds_and_a_changed_parent_narrows(explain: Explain) -> None:
    before = explain("d/x", "--user", "ann", night=1)
    after = explain("d/x", "--user", "ann", has_target=True)

    own = {"permits": [ANN], "run": "run 1", "source": "./feed.xml", "line": 3, "fault": None}
    assert own.items() <= after["acls"][0].items()
    assert [(link["url"], link["inheritance"], link["permits"], link["run"], link["line"])
            for found in (before, after) for link in found["acls"]] == [
        (f"{HOST}d/x", None, [ANN], "run 1", 3),
        (f"{HOST}d/", "and-both-permit", [ANN], "run 1", 2),
        (f"{HOST}d/x", None, [ANN], "run 1", 3),
        (f"{HOST}d/", "and-both-permit", [BOB], "run 2", 2),
    ]  # fmt: skip
    assert decisions(before) == [("sent", [(1, [], [ANN])], True)]
    both: list[Layer] = [(1, [], [ANN]), (2, [], [BOB])]
    assert decisions(after) == [("sent", both, False), ("target", both, False)]
    assert (after["sent"]["run"], after["sent"]["document_run"]) == ("run 2", "run 1")
    [first, second] = after["decisions"][0]["parts"]
    assert (first["access"], first["tokens"], first["acls"]) == ("PERMIT", [ANN], [f"{HOST}d/x"])
    assert (second["access"], second["layer"], second["tokens"]) == (None, None, [])
    assert after["notes"] == before["notes"] == []


def test_a_document_whose_acl_is_not_kept_is_explained_by_its_chunk(explain: Explain) -> None:
    found = explain("p", "--user", "ann", night=1)
    assert decisions(found) == [("sent", [(1, [EVE], [ANN])], True)]
    assert [(link["is_sent"], link["run"], link["source"]) for link in found["acls"]] == [
        (True, "run 1", "./feed.xml")
    ]
    assert decisions(explain("public", "--user", "eve")) == [("sent", [], True)]


def test_a_withheld_document_has_its_reject(explain: Explain) -> None:
    found = explain("p", "--user", "ann", has_target=True)
    assert decisions(found) == [("sent", [(1, [], [])], False), ("target", [(1, [], [])], False)]
    withheld = found["withheld"]
    assert (withheld["run"], withheld["code"], withheld["is_refused"]) == (
        *("run 2", "bad-acl"),
        False,
    )
    assert "permt" in withheld["message"]


def test_a_document_waits_for_its_parent(explain: Explain) -> None:
    before, after = explain("old/y", "--user", "ann", night=1), explain("old/y", "--user", "ann")
    assert [link["fault"] for link in before["acls"]] == [
        None,
        "missing: no feed has stated it",
    ]
    assert before["withheld"]["code"].startswith("acl-chain-")
    assert decisions(before) == [("sent", [(1, [], [])], False)]
    assert [link["fault"] for link in after["acls"]] == [None, None]
    assert decisions(after)[-1][1:] == ([(1, [], [ANN])], True)


def test_an_acl_that_arrives_alone_replaces_that_of_the_document(explain: Explain) -> None:
    assert decisions(explain("q", "--user", "bob", night=2)) == [
        ("sent", [(1, [EVE], [ANN])], False)
    ]
    found = explain("q", "--user", "bob", has_target=True)
    assert decisions(found) == [
        ("sent", [(1, [], [BOB])], True),
        ("target", [(1, [], [BOB])], True),
    ]
    assert (found["sent"]["action"], found["sent"]["document_run"]) == ("acl", "run 1")


def test_a_deleted_document_and_an_unknown_one_have_no_decision(explain: Explain) -> None:
    gone = explain("gone", has_target=True)
    assert (gone["sent"]["action"], gone["decisions"]) == ("delete", [])
    assert gone["notes"] == [
        "the document is not in the index: run 2 has deleted it",
        "the target does not have the document",
    ]
    assert explain("none")["decisions"] == []


def test_the_address_of_a_target_without_an_index_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "spool") as served:
        none = f"{served.url}/none"
        done = run("access", "--document", HOST, "--target", none)
    expected = f"{none}: no such index; expected the address that documents are pushed to"
    assert (done.returncode, done.stderr) == (2, f"feedferry: {expected}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--document", HOST], "expected --state with the job, or --target with the index"),
        (["--document", HOST, "--target", "http://x/y", "--as-of", "a"], "expected --state"),
        (["ann", "--state", "job"], "--state: only with --document"),
        ([], "no USER; expected a user, --document URL, or --changes RUN"),
        (["--document", HOST, "--state", "j", "--dls", "i"], "--dls: not with --document"),
        (["--document", HOST, "--state", "j", "--changes", "j"], "--changes: not with --document"),
        (["--changes", "j", "bob"], "--changes: for all users; expected neither USER nor --dls"),
        (["--document", HOST, "--target", "t", "--groups", "staff"], "--groups: expected USER"),
    ],
)
def test_words_that_do_not_fit_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["access", *words]) == 2
    assert message in capsys.readouterr().err
