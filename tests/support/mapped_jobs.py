"""Jobs that fill an index and map principals by a table, and their feeds."""

import json
from pathlib import Path

from support.index_searches import found_by
from support.served import run

HOST = "http://h.example/"
KEPT = ("--groups-feed", "runs/nights/state.acls")
USERS = ("ann", "bob", "eve")


class MappedJob:
    """A job that fills an index, and maps principals by `people.csv`."""

    def __init__(self, folder: Path, url: str, source: str, unmapped: str = "deny") -> None:
        self.folder, self._url = folder, f"{url}/docs"
        target = f"{{type: opensearch, datasource: web, url: {self._url}}}"
        step = f"principals: {{table: people.csv, unmapped: {unmapped}}}"
        (folder / "nights.yaml").write_text(
            f"version: 1\njob: nights\nsource: {source}\ntarget: {target}\ntransform:\n- {step}\n",
            "utf-8",
        )

    def map(self, **names: str) -> None:
        lines = (f"{old},{new}\n" for old, new in names.items())
        (self.folder / "people.csv").write_text("".join(lines), "utf-8")

    def night(self) -> int:
        done = run("run", "nights.yaml", "--progress", "none", cwd=self.folder)
        assert done.returncode in (0, 1, 3), done.stderr
        return done.returncode

    def access(self, user: str) -> list[str]:
        """Return the groups in the filter of a search for a user."""
        done = run("access", user, *KEPT, "--dls", "docs", cwd=self.folder)
        assert done.returncode == 0, done.stderr
        names = (role.split(":") for role in json.loads(done.stdout)["backend_roles"])
        return sorted(name[-1] for name in names if name[0] == "gs")

    def readers(self, *groups: str) -> dict[str, list[str]]:
        """Return the users who find each document, by its path."""
        found = dict[str, list[str]]()
        for user in USERS:
            for path in found_by(self._url, user, *groups, base=HOST):
                found.setdefault(path, []).append(user)
        return dict(sorted(found.items()))


def acl(*users: str, more: str = "") -> str:
    names = (f'<principal scope="user" access="permit">{user}</principal>' for user in users)
    return f"<acl{more}>{''.join(names)}</acl>"


def document(path: str, inner: str = "") -> str:
    head = f'<record url="{HOST}{path}" mimetype="text/plain">'
    return f"{head}{inner}<content>text</content></record>"


def write_feed(folder: Path, *parts: str, feedtype: str = "incremental") -> None:
    header = f"<datasource>web</datasource><feedtype>{feedtype}</feedtype>"
    text = f"<gsafeed><header>{header}</header><group>{''.join(parts)}</group></gsafeed>"
    (folder / "feed.xml").write_text(text, "utf-8")


FEED = "{type: gsa-feed, path: [feed.xml]}"
FOLDER = acl("one", more=f' url="{HOST}d/" inheritance-type="parent-overrides"')
CHILD = document("d/y", acl(more=f' inherit-from="{HOST}d/"'))
