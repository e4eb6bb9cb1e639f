"""OpenSearch with its Security plug-in: roles that filter searches, credentials and privileges."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from feedferry.pipelines.cli.main import main
from support.acl_cases import GROUPS, HOST, expected, feed
from support.search_servers import ADMIN, OPENSEARCH_SECURITY, SearchServer, search_server

pytestmark = pytest.mark.slow

_API = "/_plugins/_security/api"
_PASSWORD = "Words-of-a-test-36"
_ALL: dict[str, object] = {"match_all": {}}
WRITER = ("read", "write", "manage")
HOSTILE = ("ACME\\bob", 'x","us:Default:alice', "${user.roles}", "a*", "élan")
"""Names that would change the filter if they were put into it as they are."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchServer]:
    with search_server(OPENSEARCH_SECURITY, tmp_path_factory.mktemp("security")) as started:
        yield started


@pytest.fixture(autouse=True)
def _in_its_folder(
    server: SearchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PASSWORD", _PASSWORD)
    monkeypatch.setenv("ADMIN", ADMIN)
    yield
    server.remove("intranet")


def make_users(
    server: SearchServer, tokens: Mapping[str, Sequence[str]], *, role: str
) -> dict[str, SearchServer]:
    """Make users with their backend roles, who have a role; return the server for each user."""
    users = [
        {
            "op": "add",
            "path": f"/{name}",
            "value": {"password": _PASSWORD, "backend_roles": held},
        }
        for name, held in tokens.items()
    ]
    server.call("PATCH", f"{_API}/internalusers", users)
    server.call("PUT", f"{_API}/rolesmapping/{role}", {"users": [*tokens]})
    return {name: server.as_user(f"{name}:{_PASSWORD}") for name in tokens}


def make_writer(server: SearchServer, privileges: Sequence[str]) -> None:
    permission = {"index_patterns": ["intranet*"], "allowed_actions": privileges}
    server.call("PUT", f"{_API}/roles/writer", {"index_permissions": [permission]})
    make_users(server, {"writer": []}, role="writer")


def access(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Return what `feedferry access --dls` prints."""
    assert main(["access", *words, "--dls", "intranet"]) == 0
    return json.loads(capsys.readouterr().out)


def push(server: SearchServer, text: str, *, auth: str = "basic=${env:ADMIN}") -> int:
    """Convert and push a feed as a user."""
    Path("feed.xml").write_text(text, "utf-8")
    words = ["convert", "feed.xml", "-o", "out", "--to", "opensearch", "--max-rejects", "100%"]
    words += ["--push-to", f"{server.url}/intranet", "--ca-file", str(server.ca), "--auth", auth]
    return main(words)


def check(server: SearchServer, capsys: pytest.CaptureFixture[str], *, user: str) -> str:
    """Return what `feedferry check` prints, with blanks in place of line ends."""
    target = {"type": "opensearch", "url": f"{server.url}/intranet", "ca_file": str(server.ca)}
    target["auth"] = {"basic": user + ":${env:PASSWORD}"}  # type: ignore[assignment]
    source = {"type": "gsa-feed", "path": ["feed.xml"]}
    job = {"version": 1, "job": "nights", "source": source, "target": target}
    Path("job.yaml").write_text(json.dumps(job))
    Path("feed.xml").write_text(feed())
    capsys.readouterr()
    main(["check", "job.yaml"])
    return " ".join(capsys.readouterr().out.split())


def documents(names: Sequence[str]) -> str:
    """Return a feed with a document for each user, and a public one that denies each."""
    acl = '<acl><principal scope="user" access="{}">{}</principal>{}</acl>'
    everyone = '<principal scope="group" access="permit">all</principal>'
    records = ""
    for number, name in enumerate(names):
        for kind, more in (("permit", ""), ("deny", everyone)):
            url = f"{HOST}{kind}/{number}"
            text = acl.format(kind, name.replace("&", "&amp;"), more)
            records += (
                f'<record url="{url}" mimetype="text/plain">{text}<content>t</content></record>'
            )
    return (
        "<gsafeed><header><datasource>cases</datasource><feedtype>incremental</feedtype></header>"
        f"<group>{records}</group></gsafeed>"
    )


def test_the_printed_role_shows_each_user_what_the_guide_permits(
    server: SearchServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert push(server, feed()) == 1  # the chains of two documents are broken
    capsys.readouterr()
    tokens = {}
    for user, groups in GROUPS.items():
        words = [user.partition(" ")[0], *(["--groups", ",".join(groups)] if groups else [])]
        stated = access(capsys, *words)
        tokens[user.replace(" ", "-")] = ["*"] if groups is None else stated["backend_roles"]
    server.call("PUT", f"{_API}/roles/reader", stated["role"])
    found: dict[str, set[str]] = {name: set() for name in expected()}
    for user, reader in make_users(server, tokens, role="reader").items():
        for name in reader.ids("intranet", _ALL):
            found[name.removeprefix(HOST)].add(user.replace("-", " "))
    assert found == expected()


def test_a_user_without_backend_roles_finds_nothing(
    server: SearchServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert push(server, feed()) == 1
    capsys.readouterr()
    server.call("PUT", f"{_API}/roles/reader", access(capsys, "alice")["role"])
    (reader,) = make_users(server, {"bare": []}, role="reader").values()
    assert reader.ids("intranet", _ALL) == []
    assert reader.call("GET", "/intranet/_count")["count"] == 0


def test_names_with_marks_of_the_query_show_and_hide_only_their_own_documents(
    server: SearchServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert push(server, documents(HOSTILE)) == 0
    capsys.readouterr()
    stated = [access(capsys, name, "--groups", "all") for name in HOSTILE]
    server.call("PUT", f"{_API}/roles/reader", stated[0]["role"])
    tokens = {f"user-{number}": of["backend_roles"] for number, of in enumerate(stated)}
    for number, reader in enumerate(make_users(server, tokens, role="reader").values()):
        others = [f"{HOST}deny/{other}" for other in range(len(HOSTILE)) if other != number]
        assert reader.ids("intranet", _ALL) == sorted([*others, f"{HOST}permit/{number}"])


def test_a_user_with_the_stated_privileges_writes_and_checks(
    server: SearchServer, capsys: pytest.CaptureFixture[str]
) -> None:
    make_writer(server, WRITER)
    auth = "basic=writer:${env:PASSWORD}"
    assert "there is no index yet" in check(server, capsys, user="writer")
    assert push(server, documents(["bob"]), auth=auth) == 0
    printed = check(server, capsys, user="writer")
    assert "fail" not in printed
    assert "ok index " in printed
    assert "ok scripts ACLs can be changed" in printed
    assert (
        main(
            [
                "push",
                "out",
                "--to",
                f"{server.url}/intranet",
                "--replay",
                "--auth",
                auth,
                "--ca-file",
                str(server.ca),
            ]
        )
        == 0
    )
    text = documents(["bob"]).replace("incremental", "full")
    Path("out").rename("before")
    assert push(server, text, auth=auth) == 0


def test_a_check_names_a_user_from_whom_documents_are_hidden(
    server: SearchServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert push(server, documents(["bob"])) == 0
    permission = {"index_patterns": ["intranet*"], "allowed_actions": WRITER}
    hidden = {**permission, "dls": json.dumps({"match_none": {}})}
    server.call("PUT", f"{_API}/roles/hidden", {"index_permissions": [hidden]})
    make_users(server, {"reader": []}, role="hidden")
    printed = check(server, capsys, user="reader")
    assert "warn documents the user finds 0 of " in printed
    assert "no role with document-level security" in printed


@pytest.mark.parametrize("missing", WRITER)
def test_a_privilege_that_is_missing_is_named_before_anything_is_sent(
    server: SearchServer, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    assert push(server, documents(["bob"])) == 0
    Path("out").rename("before")
    make_writer(server, [name for name in WRITER if name != missing])
    printed = check(server, capsys, user="writer")
    needs = "needs the privileges `read`, `write` and `manage` on the indexes"
    assert f"the user of target.auth {needs}" in printed
    if missing != "read":  # it is needed by verify only
        assert push(server, documents(["ann"]), auth="basic=writer:${env:PASSWORD}") == 4
        assert f"the user of --auth {needs}" in capsys.readouterr().err
    assert server.ids("intranet", {"ids": {"values": [f"{HOST}permit/0"]}}) != []


def test_unknown_credentials_are_a_finding_of_the_check_and_stop_a_push(
    server: SearchServer, capsys: pytest.CaptureFixture[str]
) -> None:
    fix = "expected credentials that the cluster accepts: check"
    printed = check(server, capsys, user="nobody")
    assert printed.count("401") == 2  # of the appliance, and of access
    assert f"fail access 401, 'Unauthorized' — {fix} target.auth" in printed
    assert push(server, documents(["ann"]), auth="basic=nobody:${env:PASSWORD}") == 4
    assert f"401, 'Unauthorized'; {fix} --auth" in capsys.readouterr().err


def test_a_certificate_of_an_unknown_authority_is_refused(
    server: SearchServer, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("feed.xml").write_text(documents(["ann"]))
    words = ["convert", "feed.xml", "-o", "out", "--to", "opensearch"]
    words += ["--push-to", f"{server.url}/intranet", "--auth", "basic=${env:ADMIN}"]
    assert main(words) == 4
    assert "its certificate is not trusted" in capsys.readouterr().err
