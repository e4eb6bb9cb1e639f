"""An explanation of who sees a document is what a real server shows to the user."""

import json
from pathlib import Path
from typing import Any

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.folders.job_folders import runs_of
from support.index_searches import found_by
from support.search_servers import SearchServer

pytestmark = pytest.mark.slow

HOST = "http://h.example/"


def night(folder: Path, datasource: str, *parts: str) -> None:
    """Run the job with a feed."""
    header = f"<datasource>{datasource}</datasource><feedtype>incremental</feedtype>"
    text = f"<gsafeed><header>{header}</header><group>{''.join(parts)}</group></gsafeed>"
    (folder / "feed.xml").write_text(text, "utf-8")
    assert main(["run", str(folder / "job.yaml"), "--progress", "none", "-q"]) == 0


def principal(user: str) -> str:
    return f'<principal scope="user" access="permit">{user}</principal>'


def acl(path: str, user: str) -> str:
    kind = 'inheritance-type="parent-overrides"'
    return f'<acl url="{HOST}{path}" {kind}>{principal(user)}</acl>'


def document(path: str, inner: str) -> str:
    head = f'<record url="{HOST}{path}" mimetype="text/plain">'
    return f"{head}<acl {inner}</acl><content>text</content></record>"


def test_two_datasources_over_nights(
    server: SearchServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{server.url}/docs"
    job = tmp_path / "job.yaml"
    target = f"{{type: opensearch, url: {server.url}, index: docs}}"
    source = "{type: gsa-feed, path: [feed.xml]}"
    job.write_text(f"version: 1\njob: j\nsource: {source}\ntarget: {target}\n", "utf-8")
    child = document("d/x", f'inherit-from="{HOST}d/">{principal("cid")}')
    night(tmp_path, "a", acl("d/", "ann"), child)
    night(tmp_path, "b", document("d/x", f">{principal('dan')}"))
    night(tmp_path, "a", acl("d/", "bob"))
    runs = [record.id for record in runs_of(tmp_path / "runs" / "j")]

    def explain(user: str, datasource: str, *words: str) -> list[tuple[str, bool]]:
        capsys.readouterr()
        command = ["access", user, "--document", f"{HOST}d/x", "--datasource", datasource]
        assert main([*command, "--state", str(job), "--format", "json", *words]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return [(each["origin"], each["is_found"]) for each in found["decisions"]]

    server.call("POST", "/docs/_refresh")
    for user in ("ann", "bob", "cid", "dan"):
        shown = len(found_by(url, user, base=HOST))
        explained = [explain(user, name, "--target", url) for name in ("a", "b")]
        assert [[origin for origin, _ in each] for each in explained] == [["sent", "target"]] * 2
        for at in (0, 1):
            assert sum(each[at][1] for each in explained) == shown
    assert [explain(user, "a", "--as-of", runs[1]) for user in ("ann", "bob")] == [
        [("sent", True)],
        [("sent", False)],
    ]
    assert main(["access", "--document", f"{HOST}d/x", "--state", str(job)]) == 2
    assert "in the datasources a, b; expected --datasource" in capsys.readouterr().err
    assert main(["access", "--document", f"{HOST}d/x", "--target", url]) == 0
    assert "as the target has it now in b" in capsys.readouterr().out
