"""Known ACLs at a real server: each document is found by the users that the guide permits."""

from pathlib import Path

import pytest

from feedferry.transforms.access.index_fields import search_filter, tokens_of
from support.acl_cases import GROUPS, HOST, expected, feed, members
from support.runs import convert
from support.search_servers import SearchServer

pytestmark = pytest.mark.slow


def test_each_document_is_found_by_the_users_that_its_chain_permits(
    server: SearchServer, tmp_path: Path
) -> None:
    (tmp_path / "cases.xml").write_text(feed())
    words = ("-o", str(tmp_path / "out"), "--to", "opensearch", "--max-rejects", "100%")
    url = f"{server.url}/intranet"
    code = convert(str(tmp_path / "cases.xml"), *words, "--push-to", url)
    found: dict[str, set[str]] = {name: set() for name in expected()}
    for user in GROUPS:
        query = search_filter(tokens_of(members(user)))
        for name in server.ids("intranet", query):
            found[name.removeprefix(HOST)].add(user)
    assert found == expected()
    assert code == 1  # the chains of two documents are broken
