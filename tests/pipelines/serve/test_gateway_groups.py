"""A gateway to an index keeps the groups that are posted to it, and writes them to an index."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from feedferry.pipelines.serve.forward_journal import ForwardState
from feedferry.transforms.steps.kept_acls import count_kept
from feedferry.transforms.steps.stated.group_store import known_groups
from support.gateway_nights import HOST, Night, acl, below, page
from support.groups_job import group
from support.rehearsal import xmlgroups
from support.served import Served, post_form, run, serving, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "new") as served:
        yield served


@pytest.fixture
def night(tmp_path: Path, target: Served) -> Night:
    return Night(tmp_path, target.url, groups_index="people")


def groups_of(target: Served, user: str) -> list[str]:
    """Return the groups of a user in the index of groups."""
    found = run("access", user, "--groups-index", f"{target.url}/people")
    assert found.returncode == 0, found.stderr
    return sorted({word for word in ("board", "staff") if f"gs:Default:{word}" in found.stdout})


def post(night: Night, *groups: str, source: str = "ldap", feedtype: str = "incremental") -> None:
    night.spool.groups(xmlgroups(*groups).encode(), source, feedtype)


def test_groups_of_several_sources_are_kept_and_written_to_an_index(
    night: Night, target: Served
) -> None:
    post(night, group("staff", "ann", "bob"), group("board", "ann"), feedtype="full")
    night.posted(page("a"))
    done = night.forward()
    assert [each.state for each in done.journal()] == [ForwardState.FORWARDED] * 2
    assert (done.journal()[0].groups, done.journal()[0].filtered) == (2, 0)
    kept = f"delivery 1 of 'ldap': 2 groups kept in {night.acls}"
    assert done.remarks[:2] == [kept, "people: 2 members of groups"]
    assert groups_of(target, "ann") == ["board", "staff"]
    found = run("access", "bob", "--groups-feed", str(night.acls))
    assert "gs:Default:staff" in found.stdout

    post(night, group("staff", "ann", "bob"))
    post(night, group("staff", "bob"))
    post(night, group("board", "bob"), source="hr")
    night.forward()
    assert groups_of(target, "ann") == ["board"]
    assert groups_of(target, "bob") == ["board", "staff"]

    night.spool.cleanup()
    post(night, group("board", "ann"), source="hr", feedtype="replace")
    night.forward()
    assert groups_of(target, "ann") == ["board"]
    assert groups_of(target, "bob") == []


_AS_VERSION_2 = """
DROP VIEW acls; DROP TABLE kept; DROP TABLE parents; PRAGMA user_version = 2;
CREATE TABLE acls (
    url TEXT, datasource TEXT, acl BLOB, alone INTEGER, is_parent INTEGER, number INTEGER,
    is_incremental INTEGER, origin TEXT, parent TEXT, feed INTEGER, place INTEGER,
    PRIMARY KEY (url, datasource)
) WITHOUT ROWID
"""


def test_groups_of_a_file_of_the_version_before_stay(night: Night, target: Served) -> None:
    post(night, group("board", "ann"))
    night.forward()
    with closing(sqlite3.connect(night.acls)) as database:
        database.executescript(_AS_VERSION_2)
    night.posted(page("a"))
    night.forward()
    post(night, group("staff", "bob"))
    night.forward()
    assert (groups_of(target, "ann"), groups_of(target, "bob")) == (["board"], ["staff"])


def test_without_one_of_its_members_no_group_is_known(night: Night, target: Served) -> None:
    post(night, group("staff", "ann"))
    night.posted(acl("folder/", "ann"))
    night.forward()
    post(night, group("staff", "bob"), "<membership><x></membership>", feedtype="full")
    done = night.forward()
    assert done.journal()[-1].state is ForwardState.FORWARDED
    assert any("people: removed, so that no user is searched for" in of for of in done.warnings)
    assert known_groups(night.acls).unknown is not None
    assert run("access", "bob", "--groups-index", f"{target.url}/people").returncode != 0
    night.posted(page("folder/a", below("folder/")))
    post(night, group("staff", "bob"), feedtype="full")
    night.forward()
    assert groups_of(target, "bob") == ["staff"]
    assert count_kept(night.acls) == (2, 0)
    assert night.seen()["ann"] == ["folder/a"]


def test_without_one_of_its_feeds_no_group_is_known(night: Night, target: Served) -> None:
    post(night, group("staff", "ann", "bob"), feedtype="full")
    night.forward()
    night.spool.groups(b'<?xml version="1.0" encoding="klingon"?><xmlgroups/>', "ldap", "full")
    done = night.forward()
    assert done.journal()[-1].state is ForwardState.SET_ASIDE
    assert any("people: removed, so that no user is searched for" in of for of in done.warnings)
    assert run("access", "bob", "--groups-index", f"{target.url}/people").returncode != 0
    post(night, group("staff", "ann"), feedtype="full")
    night.forward()
    assert (groups_of(target, "ann"), groups_of(target, "bob")) == (["staff"], [])


def test_a_group_that_was_replaced_by_its_users_gives_new_decisions(
    night: Night, tmp_path: Path
) -> None:
    steps = tmp_path / "steps.yaml"
    groups = tmp_path / "groups.xml"
    steps.write_text("transform: [{acl: {mode: decision, groups: groups.xml}}]", "utf-8")
    groups.write_text(xmlgroups(*(group(f"g{at}", "ann") for at in range(9))), "utf-8")
    rule = 'inheritance-type="and-both-permit"'
    above = ""
    for at in range(9):
        permitted = f'<principal scope="group" access="permit">g{at}</principal>'
        night.posted(f'<acl url="{HOST}f{at}" {rule}{above}>{permitted}</acl>')
        above = f' inherit-from="{HOST}f{at}"'
    night.posted(page("a", f"<acl{above}>{permitted}</acl>"))
    night.forward(transform=steps)
    assert night.seen() == {"ann": ["a"], "bob": []}
    groups.write_text(xmlgroups(*(group(f"g{at}", "bob") for at in range(9))), "utf-8")
    night.posted(page("b"))
    done = night.forward(transform=steps)
    assert night.seen() == {"ann": ["b"], "bob": ["a", "b"]}
    assert done.journal()[-1].changed == 10


def test_the_name_of_the_index_of_groups_is_a_key_of_the_target(
    tmp_path: Path, target: Served
) -> None:
    spool, forward = tmp_path / "gateway", ("--forward", f"{target.url}/intranet")
    with serving(spool, *forward, "--set", "target.groups_index=people") as gateway:
        feed = xmlgroups(group("staff", "bob")).encode()
        fields = ("groupsource=ldap", "feedtype=full", "data=<-")
        assert post_form(f"{gateway.url}/xmlgroups", *fields, text=feed) == b"Success"
        wait_until(lambda: gateway.get("/getbacklogcount") == b"0")
    assert groups_of(target, "bob") == ["staff"]
    for words, found in {
        ("--set", "target.groups_index=people"): "--set: given without --forward URL",
        (*forward, "--set", "chunk.max_bytes=1MiB"): "which a gateway does not have",
        (*forward, "--set", "target.groups_index=People"): "target.groups_index: 'People'",
    }.items():
        done = run("serve", "--spool", str(spool), *words)
        assert (done.returncode, found in done.stderr) == (2, True), done.stderr
