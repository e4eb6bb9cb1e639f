"""A receiver that forwards, from one process to another, over real sockets."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from support.fake_appliance import chunk_of
from support.forks import run
from support.ports import kept_port
from support.served import Served, post_form, serving, wait_until

pytestmark = pytest.mark.slow

HOST = "http://www.example.com"
FAST = ("--progress", "none", "--backlog-interval", "50ms")
GROUPS = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<xmlgroups><membership>'
    '<principal namespace="Default" scope="GROUP">board</principal><members>'
    '<principal namespace="Default" scope="USER">ines</principal></members></membership>'
    "</xmlgroups>"
)


def finished(folder: Path, *, feedtype: str = "incremental") -> str:
    """A run of one chunk of three documents."""
    chunk = chunk_of(folder, 1, "abc", feedtype=feedtype, action="ADD")
    (folder / "manifest.jsonl").write_bytes(msgspec.json.encode(chunk) + b"\n")
    (folder / "report.json").write_text("{}")
    return str(folder)


def forwarded(appliance: Served) -> bool:
    return int(appliance.get("/getbacklogcount")) == 0


def groups(appliance: Served) -> list[tuple[str, str]]:
    """The groupsource and name of each group in the index."""
    appliance.settle()
    with closing(sqlite3.connect(appliance.spool / "index.db")) as index:
        return index.execute("SELECT groupsource, name FROM groups ORDER BY name").fetchall()


def test_feed_is_converted_for_the_target(tmp_path: Path) -> None:
    with serving(tmp_path / "new") as new:
        url = f"{new.url}/texis/dowalk/recvdata.xml"
        flags = ("--forward", url, "--profile", "intranet")
        with serving(tmp_path / "old", *flags) as old:
            run("push", finished(tmp_path / "run"), "--to", old.url, *FAST)
            wait_until(lambda: searchable(new) == [f"{HOST}/{name}" for name in "abc"])
            arrivals = new.arrivals().total()

    assert arrivals == 2  # the documents, and one update of the search indexes


def searchable(appliance: Served) -> list[str]:
    return [document["url"] for document in appliance.documents() if document["searchable"]]


def test_groups_are_forwarded_and_cleaned_up_as_they_came(tmp_path: Path) -> None:
    feed = tmp_path / "groups.xml"
    feed.write_text(GROUPS)
    with serving(tmp_path / "new") as new, serving(tmp_path / "old", "--forward", new.url) as old:
        reply = post_form(f"{old.url}/xmlgroups", "groupsource=ldap", f"data=@{feed}")
        wait_until(lambda: forwarded(old))
        held = [name for _, name in groups(new)]
        cleaned = post_form(f"{old.url}/xmlgroups", "cleanup=ldap")
        wait_until(lambda: forwarded(old))
        left = groups(new)

    assert (reply, held) == (b"Success", ["board"])
    assert (cleaned, left) == (b"Success", [])


def test_while_the_new_appliance_is_away_the_backlog_grows_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    with kept_port() as port:
        url = f"http://127.0.0.1:{port}"
        with serving(tmp_path / "old", "--forward", url, "--attempts", "1") as old:
            run("push", finished(tmp_path / "run"), "--to", old.url, *FAST)
            waiting = int(old.get("/getbacklogcount"))
        with (
            serving(tmp_path / "new", "--port", str(port)) as new,
            serving(tmp_path / "old", "--forward", url) as old,
        ):
            wait_until(lambda: forwarded(old))
            urls, arrivals = new.urls(), new.arrivals()

    assert waiting == 1
    assert (urls, arrivals.total()) == ([f"{HOST}/{name}" for name in "abc"], 1)


def test_a_url_that_the_new_appliance_refuses_holds_nothing_back(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(f"- refuse_urls: [{HOST}/b]")
    with (
        serving(tmp_path / "new", "--scenario", str(scenario)) as new,
        serving(tmp_path / "old", "--forward", new.url) as old,
    ):
        run("push", finished(tmp_path / "run"), "--to", old.url, *FAST)
        wait_until(lambda: forwarded(old))
        urls = new.urls()

    rejects = list((tmp_path / "old" / "forward" / "000000000001" / "rejects").iterdir())
    assert urls == [f"{HOST}/a", f"{HOST}/c"]
    assert len(rejects) == 1


def test_pushed_groups_take_the_place_of_those_of_their_source(tmp_path: Path) -> None:
    with serving(tmp_path / "new") as new:
        old = tmp_path / "old.xml"
        old.write_text(GROUPS.replace("board", "former"))
        feed = tmp_path / "groups.xml"
        feed.write_text(GROUPS)
        post_form(f"{new.url}/xmlgroups", "groupsource=ldap", f"data=@{old}")
        post_form(f"{new.url}/xmlgroups", "groupsource=files", f"data=@{old}")
        words = ("push", str(feed), "-o", str(tmp_path / "run"), "--to", new.url)
        flags = ("--datasource", "ldap", "--groups-mode", "replace", "--gzip")
        ended = run(*words, *flags, *FAST)
        held = groups(new)
    assert ended.returncode == 0, ended.stderr
    assert held == [("ldap", "board"), ("files", "former")]
