"""Golden feeds in one index: the chunks, the index and `verify` agree on each document."""

import json
from pathlib import Path
from typing import Any

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.transforms.access.index_fields import field_names
from support.runs import ROOT, chunks, convert
from support.search_servers import OPENSEARCH_2, SearchServer

pytestmark = pytest.mark.slow

FEEDS = ROOT / "tests" / "golden" / "gsa_feed"
READABLE = ("acl", "content", "dates", "guide", "metadata")
LOSSES = "acl,content"
ACCESS = field_names()


def copy_feeds(folder: Path) -> None:
    """Copy feeds that can be read, but full ones, of which a run takes the first one only."""
    for path in FEEDS.glob("*.xml"):
        data = path.read_bytes()
        if path.name.startswith(READABLE) and b"<feedtype>full" not in data:
            (folder / path.name).write_bytes(data)


def access_of(document: dict[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in ACCESS if name in document}


def decisions(folder: Path) -> dict[str, dict[str, Any]]:
    """The fields of the decision of each document, after all actions of the chunks in order."""
    found: dict[str, dict[str, Any]] = {}
    lines = iter([json.loads(line) for chunk in chunks(folder) for line in chunk.splitlines()])
    for line in lines:
        ((action, address),) = line.items()
        name = address["_id"]
        if action == "delete":
            found.pop(name, None)
        elif action == "index":
            found[name] = access_of(next(lines))
        else:
            change = next(lines)["script"]["params"]["fields"]
            if name in found:
                found[name] = change
    return found


@pytest.mark.parametrize("_server", [OPENSEARCH_2], indirect=True)
def test_each_document_of_the_index_has_its_decision(server: SearchServer, tmp_path: Path) -> None:
    out, feeds = tmp_path / "out", tmp_path / "feeds"
    feeds.mkdir()
    copy_feeds(feeds)
    url = f"{server.url}/intranet"
    words = ["--from", "gsa-feed", "--to", "opensearch", "--datasource", "all"]
    words += ["--feedtype", "incremental", "--max-rejects", "100%", "--accept-loss", LOSSES]
    assert convert(str(feeds), "-o", str(out), *words, "--push-to", url) == 1
    expected = decisions(out)
    found = {name: access_of(document) for name, document in server.documents("intranet").items()}
    assert found == expected
    assert len(found) >= 20
    assert main(["verify", str(out), "--against", url, "--progress", "none"]) == 0
