"""A job that fills an index and keeps groups, and an application that finds the groups of users."""

import json
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from feedferry import access
from support.archives import gsa_feed, put
from support.rehearsal import xmlgroups
from support.served import BOUND_SECONDS, run

HOST = "http://h.example/"
_JOB = """\
version: 1
job: nights
source: {type: feeds, path: [feed.xml, groups.xml]}
target: {type: opensearch, datasource: web, url: %s/docs, groups_index: docs-groups}
"""
_OPENER = build_opener(ProxyHandler({}))


def group(name: str, *users: str, groups: tuple[str, ...] = ()) -> str:
    """A membership with users and groups as members."""
    members = [("USER", user) for user in users] + [("GROUP", inner) for inner in groups]
    named = "".join(f'<principal scope="{scope}">{member}</principal>' for scope, member in members)
    head = f'<principal scope="GROUP">{name}</principal>'
    return f"<membership>{head}<members>{named}</members></membership>"


def document(path: str, **access_of: str) -> str:
    """A document with the access of groups; one without any is public."""
    principals = "".join(
        f'<principal scope="group" access="{access}">{name}</principal>'
        for name, access in access_of.items()
    )
    inner = f"<acl>{principals}</acl>" if principals else ""
    head = f'<record url="{HOST}{path}" mimetype="text/plain">'
    return f"{head}{inner}<content>text</content></record>"


class GroupsJob:
    """A job in a folder, whose target is at the URL of a server."""

    def __init__(self, folder: Path, url: str, more: str = "") -> None:
        self.folder, self.url = folder, url
        (folder / "nights.yaml").write_text(_JOB % url + more, "utf-8")

    def night(
        self, documents: list[str], groups: list[str], *flags: str, exit_code: int = 0
    ) -> str:
        """Run the job; return what it prints on stderr."""
        self.write(documents, groups)
        done = run("run", "nights.yaml", "--progress", "none", *flags, cwd=self.folder)
        assert done.returncode == exit_code, done.stderr
        return done.stderr

    def write(self, documents: list[str], groups: list[str]) -> None:
        """Write the feeds of the next run."""
        put(self.folder / "feed.xml", gsa_feed(*documents, datasource="web"))
        put(self.folder / "groups.xml", xmlgroups(*groups).encode())

    def groups_of(self, *users: str) -> list[str]:
        """Return the names of the groups that an application finds for a user."""
        names = (token.split(":") for token in self._tokens(*users))
        return sorted(name[-1] for name in names if name[0] == "gs")

    def found_by(self, user: str) -> list[str]:
        """Return the documents that a user finds, by the two requests of an application."""
        query = {"bool": {"filter": access.search_filter(self._tokens(user))}}
        hits = self._search("docs", {"query": query, "size": 100})
        return sorted(hit["_id"].removeprefix(HOST) for hit in hits)

    def filter_of(self, user: str) -> str:
        """Return what the command prints for a user."""
        index = f"{self.url}/docs-groups"
        done = run("access", user, "--groups-index", index, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def call(self, method: str, path: str, body: object = None) -> str:
        """Return the response of the server to another request."""
        data = None if body is None else json.dumps(body).encode()
        head = {"Content-Type": "application/json"}
        request = Request(f"{self.url}/{path}", data, head, method=method)
        with _OPENER.open(request, timeout=BOUND_SECONDS) as reply:
            text: str = reply.read().decode()
        return text

    def _tokens(self, *users: str) -> list[str]:
        tokens = access.tokens_of(access.members_of(users))
        wanted = {"size": len(tokens), "query": {"terms": {"user": tokens}}}
        hits = self._search("docs-groups", wanted)
        return [*tokens, *(token for hit in hits for token in hit["_source"]["groups"])]

    def _search(self, index: str, body: object) -> list[dict[str, Any]]:
        reply = json.loads(self.call("POST", f"{index}/_search", body))
        hits: list[dict[str, Any]] = reply["hits"]["hits"]
        return hits


DOCUMENTS = [
    document("all"),
    document("board", board="permit"),
    document("staff", everybody="permit"),
    document("loyal", everybody="permit", guests="deny"),
]
NESTED = [
    group("engineers", "ann", "ann@h.example"),
    group("staff", "bob", groups=("engineers", "everybody")),
    group("everybody", groups=("staff",)),
    group("guests", groups=("contractors",)),
    group("contractors", "bob"),
    group("board", "eve"),
]


def check_nights(job: GroupsJob) -> None:
    """Run three nights in which members change, and search after each of them."""
    notices = job.night(DOCUMENTS, NESTED)
    assert "docs-groups: 8 members of groups" in notices
    assert "docs-groups: 2 groups in groups that contain each other" in notices
    assert job.groups_of("ann") == ["engineers", "everybody", "staff"]
    assert job.groups_of("ann", "ann@h.example") == [
        *("engineers", "engineers", "everybody", "everybody", "staff", "staff")
    ]
    assert job.found_by("ann") == ["all", "loyal", "staff"]
    assert job.found_by("bob") == ["all", "staff"]
    assert job.found_by("eve") == ["all", "board"]
    assert job.found_by("mallory") == ["all"]

    assert "docs-groups" not in job.night(DOCUMENTS, NESTED)
    assert job.found_by("eve") == ["all", "board"]

    job.night(DOCUMENTS, [*NESTED[:-1], group("board", "ann")])
    assert job.found_by("ann") == ["all", "board", "loyal", "staff"]
    assert job.found_by("eve") == ["all"]
