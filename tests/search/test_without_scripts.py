"""A server without scripts is refused before anything is written: ACLs could not be changed."""

import json
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from support.acl_cases import feed
from support.search_servers import ELASTICSEARCH_WITHOUT_SCRIPTS, search_server

pytestmark = pytest.mark.slow

FIX = "expected a server that runs scripts in Painless, by which ACLs are changed"


def test_a_server_without_scripts_is_a_finding_of_the_check_and_stops_a_push(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("feed.xml").write_text(feed())
    with search_server(ELASTICSEARCH_WITHOUT_SCRIPTS, tmp_path) as server:
        target = {"type": "opensearch", "url": f"{server.url}/intranet"}
        source = {"type": "gsa-feed", "path": ["feed.xml"]}
        job = {"version": 1, "job": "nights", "source": source, "target": target}
        Path("job.yaml").write_text(json.dumps(job | {"rejects": {"max": "100%"}}))
        for is_first in (True, False):
            assert main(["check", "job.yaml"]) == 4
            printed = " ".join(capsys.readouterr().out.split())
            assert f"— {FIX}" in printed
            assert main(["run", "job.yaml", "--progress", "none"]) == 4
            assert FIX in capsys.readouterr().err
            indexes = server.call("GET", "/_cat/indices/intranet*?format=json")
            assert [index["docs.count"] for index in indexes] == ["0"], is_first
