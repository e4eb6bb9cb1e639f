"""Older versions of documents whose newest version in a run is rejected."""

import json
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from support.rehearsal import HOST, acl, gone, gsa_feed, metadata, page

KNOWN = "principals: {rewrite: [['ann', 'ann'], ['bob', 'bob']], unmapped: reject}"
UNREADABLE = '<acl><principal scope="user" access="deni">bob</principal></acl>'


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Write three feeds: of `a` the newest version is rejected, of `b` an older one."""
    monkeypatch.chdir(tmp_path)
    Path("1.xml").write_text(
        gsa_feed(
            page("a", "old", inner=acl("ann")),
            page("b", "old", inner=acl("zed")),
            page("c", "old", inner=acl("ann")),
            page("a?x=1&amp;y=2", "old", inner=acl("ann")),
        )
    )
    Path("2.xml").write_text(
        gsa_feed(
            page("d", "other", inner=acl("ann")),
            page("a", "older", inner=acl("bob")),
            page("a", "newest", inner=acl("zed")),
            page("a?x=1&amp;y=2", "newest", inner=acl("zed")),
        )
    )
    Path("3.xml").write_text(gsa_feed(gone("c"), page("b", "newest", inner=acl("bob"))))
    Path("steps.yaml").write_text(f"transform:\n- {KNOWN}\n")
    return ["1.xml", "2.xml", "3.xml", "--to", "jsonl", "--transform", "steps.yaml"]


def written(folder: str) -> list[tuple[str, str]]:
    """Return the names and the actions of the records of a run, in order."""
    lines = (path.read_text().splitlines() for path in sorted(Path(folder, "chunks").iterdir()))
    records = (json.loads(line) for of_chunk in lines for line in of_chunk)
    return [(record["url"].removeprefix(HOST), record["action"]) for record in records]


def account_of(folder: str) -> dict[str, dict[str, int]]:
    account: dict[str, dict[str, int]] = json.loads(Path(folder, "report.json").read_text())[
        "account"
    ]
    return account


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--jobs", "2"), ("--span-bytes", "1KiB")])
def test_no_version_is_written_that_is_older_than_a_rejected_one(
    words: list[str], flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *words, "--format", "json"]) == 1
    planned = json.loads(capsys.readouterr().out)["account"]
    assert main(["convert", *words, "-o", "out", *flags]) == 1
    assert written("out") == [("c", "ADD"), ("d", "ADD"), ("c", "DELETE"), ("b", "ADD")]
    account = account_of("out")
    assert account["reject_codes"] == {"older-version": 3, "principal-unmapped": 3}
    assert account["read"] == {"ADD": 9, "DELETE": 1}
    for name in ("read", "written", "rejected", "reject_codes"):
        assert account[name] == planned[name]


@pytest.mark.slow
def test_an_acl_that_cannot_be_read_withholds_older_versions_also_without_steps(
    words: list[str],
) -> None:
    urls = ("b", "a?x=1&amp;y=2")
    Path("4.xml").write_text(gsa_feed(*(page(url, "new", inner=UNREADABLE) for url in urls)))
    assert main(["convert", *words[:3], "4.xml", "-o", "out", "--to", "jsonl"]) == 1
    assert account_of("out")["reject_codes"] == {"bad-acl": 2, "older-version": 4}
    assert [name for name, _ in written("out")] == [
        *("a", "c", "d", "a", "a", "c"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("to", ["gsa-feed", "avro", "jsonl"])
@pytest.mark.parametrize("others", [0, 40])
def test_a_newest_version_that_cannot_be_read_withholds_older_versions(
    to: str, others: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    damaged = page("a?x=1&amp;y=2", "R & D", inner=acl("bob"))
    for name, texts in {
        "1": [page("a?x=1&amp;y=2", inner=acl("ann")), page("b", inner=acl("ann"))],
        "2": [page("c", inner=acl("ann")), damaged],
        "3": [page(f"n{number}", "R & D", inner=acl("bob")) for number in range(others)],
    }.items():
        Path(f"{name}.xml").write_text(gsa_feed(*texts))
    assert main(["convert", "1.xml", "2.xml", "3.xml", "-o", "out", "--to", to]) == 1
    assert account_of("out")["reject_codes"] == {"malformed": 1 + others, "older-version": 1}
    assert b"a?x=1" not in b"".join(path.read_bytes() for path in Path("out/chunks").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("to", ["gsa-feed", "jsonl", "thunderstone"])
def test_older_versions_are_found_in_chunks_by_urls_with_characters_that_formats_escape(
    to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "a?x=&quot;1>&amp;y=\\"
    others = [page(f"b{number}", inner=acl("ann")) for number in range(40)]
    Path("1.xml").write_text(gsa_feed(*others, page(name, "secret", inner=acl("ann"))))
    Path("2.xml").write_text(gsa_feed(*others, page(name, "secret", inner=UNREADABLE)))
    words = ["1.xml", "2.xml", "-o", "out", "--to", to, "--accept-loss", "acl"]
    assert main(["convert", *words]) == 1
    assert account_of("out")["reject_codes"] == {"bad-acl": 1, "older-version": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("newest", "codes"),
    [
        (f'<record url="{HOST}a">{acl("bob")}<content>new</content></record>', 2),
        (f'<record url="{HOST}a"><content>new</content></record>', 2),
        (page("a", "new", inner=acl("bob"), more=' last-modified="x"'), 0),
        (f'<record url="{HOST}a" mimetype="text/plain">{metadata(a="b")}</record>', 1),
        (
            f'<record url="{HOST}a" mimetype="text/plain">'
            '<metadata><meta name="google:acldenyusers" content="ann"/></metadata></record>',
            2,
        ),
    ],
    ids=["acl", "public", "written", "update", "update of an acl"],
)
def test_any_reject_but_an_update_without_an_acl_withholds_older_versions(
    newest: str, codes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("1.xml").write_text(gsa_feed(page("a", "old", inner=acl("ann")), page("b")))
    Path("2.xml").write_text(gsa_feed(newest))
    words = ["1.xml", "2.xml", "-o", "out", "--to", "gsa-feed", "--dialect", "5.0"]
    assert main(["convert", *words]) == min(codes, 1)
    assert sum(account_of("out")["reject_codes"].values()) == codes


@pytest.mark.slow
def test_a_newest_version_that_cannot_be_written_withholds_older_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record = {"action": "ADD", "content": {"data": "YQ=="}, "url": f"{HOST}a"}
    types = ("text/plain", "text/\0plain")
    lines = [json.dumps({**record, "mimetype": mimetype}) for mimetype in types]
    Path("1.jsonl").write_text("\n".join(lines) + "\n")
    words = ["1.jsonl", "-o", "out", "--to", "gsa-feed", "--datasource", "d"]
    assert main(["convert", *words]) == 1
    assert account_of("out")["reject_codes"] == {"not-xml": 1, "older-version": 1}


@pytest.mark.slow
def test_a_run_without_older_versions_converts_each_span_once(
    words: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    others = page("y", "unreadable", inner=UNREADABLE), gone("x")
    Path("1.xml").write_text(gsa_feed(*others, page("z", "first", inner=acl("zed"))))
    Path("2.xml").write_text(gsa_feed(page("z", "second", inner=acl("ann"))))
    with caplog.at_level("INFO"):
        assert main(["convert", *words[:2], *words[3:], "-o", "out"]) == 1
    assert written("out") == [("x", "DELETE"), ("z", "ADD")]
    assert caplog.text.count(": begun\n") == 2 + 1
