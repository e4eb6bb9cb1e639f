"""An index is verified by the documents and decisions that a conversion would send to it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from support.index_server import IndexServer, serving_index
from support.runs import convert, manifest

pytestmark = pytest.mark.slow

HOST = "http://docs.example.com/"
FOLDER = (
    f'<acl url="{HOST}f/" inheritance-type="child-overrides">'
    '<principal scope="group" access="permit">staff</principal>'
    '<principal scope="user" access="deny">eve</principal></acl>'
)
BROKEN = (
    f'<record url="{HOST}broken" mimetype="text/plain"><acl inherit-from="{HOST}missing/"/>'
    "<content>Gone</content></record>"
)
PUBLIC = {f"acl_{part}_permit_1": ["*"] for part in (1, 2, 3)}


def record(name: str, acl: str = "") -> str:
    content = f"<content>Text of {name}</content>"
    return f'<record url="{HOST}{name}" mimetype="text/plain">{acl}{content}</record>'


CHILD = record("f/a", f'<acl inherit-from="{HOST}f/"/>')
DEEP = record(
    "f/b",
    f'<acl inherit-from="{HOST}f/"><principal scope="user" access="permit">ann</principal></acl>',
)
FEED = (FOLDER, CHILD, DEEP, record("public"))


def feed(*records: str) -> None:
    header = "<header><datasource>docs</datasource><feedtype>incremental</feedtype></header>"
    text = f"<gsafeed>{header}<group>{''.join(records)}</group></gsafeed>"
    Path("feed.xml").write_text(text)


@pytest.fixture
def server(here: Path) -> Iterator[IndexServer]:
    feed(*FEED)
    convert("feed.xml", "-o", "out", "--to", "opensearch")
    with serving_index() as server:
        server.load(Path("out"))
        yield server


def changes(
    capsys: pytest.CaptureFixture[str], code: int, *words: str
) -> list[tuple[str, str, list[str]]]:
    """Verify; return the URL, the kind and the fields of each difference."""
    capsys.readouterr()
    assert main(["verify", *words, "--format", "json"]) == code
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()[:-1]]
    return [
        (
            line["url"].removeprefix(HOST),
            line["change"],
            [change["field"] for change in line["fields"]],
        )
        for line in lines
    ]


@pytest.mark.parametrize("words", [("out",), ("feed.xml", "--to", "opensearch")])
def test_documents_are_compared_as_a_conversion_sends_them(
    words: tuple[str, ...], server: IndexServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert changes(capsys, 0, *words, "--against", server.url) == []

    server.documents[f"{HOST}f/b"]["acl_1_permit_2"] = ["gs:Default:others"]
    server.documents[f"{HOST}f/a"]["body"] = "Another text"
    del server.documents[f"{HOST}public"]
    assert changes(capsys, 1, *words, "--against", server.url) == [
        ("f/b", "different", ["acl"]),
        ("public", "missing", []),
        ("f/a", "different", ["content"]),
    ]


def test_an_acl_that_inherits_is_not_compared_without_its_chain(
    server: IndexServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "feed.xml", "--against", server.url]) == 1
    expected = "expected the decision of its chain: the step `acl: decision` resolves it"
    assert expected in capsys.readouterr().out


def test_a_document_whose_new_version_is_rejected_must_be_hidden(
    server: IndexServer, capsys: pytest.CaptureFixture[str]
) -> None:
    feed(*FEED, BROKEN)
    words = ("feed.xml", "--to", "opensearch", "--against", server.url)
    assert changes(capsys, 1, *words) == []  # the reject itself

    old = {"url": f"{HOST}broken", "datasource": "docs", "version": 1, "body": "Old"}
    server.documents[f"{HOST}broken"] = {**old, **PUBLIC}
    assert changes(capsys, 1, *words) == [("broken", "different", ["acl", "acl"])]

    server.documents[f"{HOST}broken"] = old
    assert changes(capsys, 1, *words) == []


def test_an_acl_alone_does_not_show_a_document_that_is_withheld(
    server: IndexServer, capsys: pytest.CaptureFixture[str]
) -> None:
    document = server.documents[f"{HOST}public"]
    server.documents[f"{HOST}public"] = {
        **{name: value for name, value in document.items() if not name.startswith("acl_")},
        "acl_1_deny_1": ["*"],
    }
    words = ("feed.xml", "--to", "opensearch", "--against", server.url)
    assert changes(capsys, 1, *words) == [("public", "different", ["acl", "acl"])]
    feed(FOLDER.replace("/f/", "/public"))
    assert changes(capsys, 0, *words) == []


def test_the_feed_of_differences_repairs_the_index(
    server: IndexServer, capsys: pytest.CaptureFixture[str]
) -> None:
    feed(*FEED, BROKEN)
    convert("feed.xml", "-o", "new", "--to", "opensearch")
    server.documents[f"{HOST}f/b"]["acl_1_permit_1"] = ["*"]
    server.documents[f"{HOST}broken"] = {
        **{"url": f"{HOST}broken", "datasource": "docs", "version": 1, "body": "Old"},
        **PUBLIC,
    }
    words = ("new", "--to", "opensearch", "--against", server.url)
    assert main(["verify", *words, "--emit", "fix"]) == 1
    [chunk] = Path("fix/chunks").iterdir()
    lines = [json.loads(line) for line in chunk.read_text().splitlines()]
    assert lines[0]["index"]["_id"] == f"{HOST}f/b"
    assert lines[1]["acl_1_permit_1"] == ["us:Default:ann"]
    assert lines[2] == {"update": {"_id": f"{HOST}broken"}}
    assert "acl_1_permit_1" not in lines[3]["script"]["params"]["fields"]
    assert len(lines) == 4


@pytest.mark.usefixtures("here")
def test_inputs_are_compared_as_the_index_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    feed(*FEED)
    Path("before.xml").write_text(Path("feed.xml").read_text().replace("staff", "others"))
    assert main(["diff", "before.xml", "feed.xml", "--to", "opensearch", "--format", "json"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()[:-1]]
    assert [(line["url"], line["change"]) for line in lines] == [
        (f"{HOST}f/", "changed"),
        (f"{HOST}f/a", "changed"),
        (f"{HOST}f/b", "changed"),
    ]


def test_searches_prove_who_sees_a_document(
    server: IndexServer, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("out", "--against", server.url)
    assert changes(capsys, 0, *words) == []
    assert server.searches == 3 * 3 + 1  # a public document is searched for by unknown people

    server.counts_denials = False
    assert main(["verify", *words]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[:2] == [
        f"different    {HOST}f/a",
        f"{'':<13}acl: found as group Default:staff, user Default:eve → not found",
    ]


def test_no_search_is_made_without_probes(
    server: IndexServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.counts_denials = False
    assert changes(capsys, 0, "out", "--against", server.url, "--probes", "0") == []
    assert server.searches == 0


def test_the_documents_of_an_index_are_read_page_by_page(
    server: IndexServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.documents |= {
        f"{HOST}other/{number}": {
            "url": f"{HOST}other/{number}",
            "datasource": "docs",
            "version": 7,
            "body": "x" * 20_000,
        }
        for number in range(1_100)
    }
    words = ("out", "--against", server.url)
    assert changes(capsys, 0, *words) == []
    assert server.pages == 1 + 9  # the first page is too large for a response


def test_a_list_without_documents_that_were_counted_is_refused(
    server: IndexServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.replies["_count"] = 200, {"count": 4, "_shards": {"failed": 0}}
    assert main(["verify", "out", "--against", server.url]) == 4
    assert "3 documents of 4 were listed; expected all" in capsys.readouterr().err


def test_a_full_feed_in_the_folder_of_a_run_is_compacted_to_a_full_feed(here: Path) -> None:
    feed(record("a"), record("b"))
    convert("feed.xml", "-o", "full", "--to", "opensearch", "--feedtype", "full")
    convert("feed.xml", "-o", "part", "--to", "opensearch")
    assert main(["compact", "full", "part", "-o", "whole", "--to", "opensearch"]) == 0
    assert main(["compact", "part", "-o", "parts", "--to", "opensearch"]) == 0
    found = {name: [line["asked"] for line in manifest(name)] for name in ("whole", "parts")}
    assert found == {"whole": ["full"], "parts": ["incremental"]}
