"""A reject is not replayed if its run has written a newer version of the document."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from support.archives import HOST, gsa_feed, put
from support.index_searches import found_by
from support.runs import convert, keep_levels
from support.served import serving

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with keep_levels():
        yield tmp_path


def acl(user: str, *, access: str = "permit", url: str = "") -> str:
    return f'<acl{url}><principal scope="user" access="{access}">{user}</principal></acl>'


def page(inside: str) -> str:
    record = f'<record url="{HOST}/x" mimetype="text/plain">'
    return f"{record}{inside}<content>text</content></record>"


DAMAGED = page(acl("ann", access="permt"))
GOOD = page(acl("bob"))
ALONE = acl("bob", url=f' url="{HOST}/x"')
DELETED = f'<record url="{HOST}/x" action="delete" mimetype="text/plain"/>'


@pytest.mark.parametrize(
    ("records", "is_exported"),
    [
        ([DAMAGED, GOOD], False),
        ([DAMAGED, ALONE], False),
        ([DAMAGED, DELETED], False),
        ([DAMAGED], True),
        ([GOOD, DAMAGED], True),
        ([DELETED, DAMAGED], True),
        ([DAMAGED, page("").replace("/x", "/y")], True),
    ],
)
@pytest.mark.parametrize("more", [(), ("--datasource", "wiki")])
def test_only_the_newest_version_is_exported(
    records: list[str],
    is_exported: bool,
    more: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(Path("feed.xml"), gsa_feed(*records))
    convert("feed.xml", "-o", "out", "--to", "opensearch", *more)
    capsys.readouterr()
    assert main(["rejects", "export", "out", "-o", "fixed"]) == (0 if is_exported else 2)
    text = "1 reject of documents with a newer version in the run, not exported: 1."
    assert (text in capsys.readouterr().err) is not is_exported


def test_a_version_in_another_datasource_is_not_newer() -> None:
    put(Path("1.xml"), gsa_feed(DAMAGED, datasource="docs"))
    put(Path("2.xml"), gsa_feed(GOOD, datasource="wiki"))
    convert("1.xml", "2.xml", "-o", "out", "--to", "opensearch")
    assert main(["rejects", "export", "out", "-o", "fixed"]) == 0


def test_a_replay_of_all_rejects_leaves_newer_versions_as_they_are(tmp_path: Path) -> None:
    with serving(tmp_path / "spool") as served:
        url = f"{served.url}/docs"
        put(Path("feed.xml"), gsa_feed(DAMAGED, GOOD, DAMAGED.replace("/x", "/y")))
        convert("feed.xml", "-o", "out", "--to", "opensearch", "--push-to", url)
        main(["rejects", "export", "out", "-o", "fixed"])
        path = Path("fixed/001-gsa-feed.xml")
        path.write_text(path.read_text("utf-8").replace("permt", "permit"), "utf-8")
        assert main(["rejects", "replay", "out", "fixed", "--progress", "none"]) == 0
        assert found_by(url, "ann", base=HOST) == ["/y"]
        assert found_by(url, "bob", base=HOST) == ["/x"]
