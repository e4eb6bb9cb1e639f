"""A gateway fills an index of a real server, whose users may have to log in."""

import json
from pathlib import Path

import pytest

from feedferry import access
from support.archives import gsa_feed
from support.gateway_nights import HOST, Night, acl, below, page, permit
from support.groups_job import group
from support.rehearsal import xmlgroups
from support.search_servers import ADMIN, OPENSEARCH_SECURITY, SearchServer, search_server
from support.served import Served, post_form, serving, wait_until

pytestmark = pytest.mark.slow

DAMAGED = "<record mimetype='text/plain'><x></record>"


def test_documents_of_a_damaged_delivery_get_narrower_acls(
    server: SearchServer, tmp_path: Path
) -> None:
    night = Night(tmp_path, server.url, groups_index="intranet-groups")
    night.posted(acl("folder/", "ann"))
    night.posted(page("folder/a"), page("b"), page("c"), source="wiki", feedtype="full")
    night.forward()
    assert night.seen() == {"ann": ["b", "c", "folder/a"], "bob": ["b", "c", "folder/a"]}
    above, narrow = page("folder/a", below("folder/")), page("b", permit("ann"))
    night.posted(acl("folder/", "ann"), DAMAGED, above, narrow, source="wiki")
    night.forward()
    assert night.seen() == {"ann": ["b", "c"], "bob": ["c"]}
    night.posted(page("b"), DAMAGED, page("c", permit("bob")), source="wiki", feedtype="full")
    run = night.forward()
    assert "which deletes nothing" in run.journal()[-1].reason
    assert night.seen() == {"ann": ["b"], "bob": ["b", "c"]}
    night.posted(acl("folder/", "bob"), page("folder/a", below("folder/")), source="wiki")
    night.spool.groups(xmlgroups(group("staff", "bob")).encode())
    night.forward()
    assert night.seen() == {"ann": ["b"], "bob": ["b", "c", "folder/a"]}
    [member] = server.documents("intranet-groups").values()
    assert member == {"user": "us:Default:bob", "groups": ["gs:Default:staff", "gi:Default:staff"]}


def test_a_gateway_logs_in_and_maps_the_principals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADMIN", ADMIN)
    steps = tmp_path / "steps.yaml"
    steps.write_text("transform: [{principals: {case: lower}}]", "utf-8")
    (tmp_path / "server").mkdir()
    with search_server(OPENSEARCH_SECURITY, tmp_path / "server") as secured:
        flags = ["--forward", f"{secured.url}/intranet", "--ca-file", str(secured.ca)]
        flags += ["--auth", "basic=${env:ADMIN}", "--transform", str(steps)]
        flags += ["--set", "target.groups_index=intranet-groups"]
        spool = tmp_path / "spool"
        with serving(spool, *flags) as gateway:
            _post(gateway, acl("folder/", "ANN"), page("folder/a", below("folder/")))
            assert _seen(secured, "ann") == ["folder/a"]
            assert _seen(secured, "ANN") == []
            _post(gateway, acl("folder/", "BOB"))
            feed = xmlgroups(group("STAFF", "BOB")).encode()
            fields = ("groupsource=ldap", "feedtype=full", "data=<-")
            assert post_form(f"{gateway.url}/xmlgroups", *fields, text=feed) == b"Success"
            wait_until(lambda: gateway.get("/getbacklogcount") == b"0")
            assert [_seen(secured, user) for user in ("ann", "bob")] == [[], ["folder/a"]]
        [member] = secured.documents("intranet-groups").values()
        assert member["groups"] == ["gs:Default:staff", "gi:Default:staff"]
        lines = (spool / "forward" / "forwarded.jsonl").read_text().splitlines()
        assert [json.loads(line)["state"] for line in lines] == ["forwarded"] * 3


def _post(gateway: Served, *records: str) -> None:
    fields = ("datasource=docs", "feedtype=incremental", "data=<-")
    feed = gsa_feed(*records, datasource="docs")
    assert post_form(f"{gateway.url}/xmlfeed", *fields, text=feed) == b"Success"
    wait_until(lambda: gateway.get("/getbacklogcount") == b"0")


def _seen(secured: SearchServer, user: str) -> list[str]:
    tokens = access.tokens_of(access.members_of([user]))
    found = secured.ids("intranet", access.search_filter(tokens))
    return [each.removeprefix(HOST) for each in found]
