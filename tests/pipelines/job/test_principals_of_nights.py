"""Nights of a job to an index: a changed table of principals counts for documents sent before."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from feedferry.pipelines.folders.job_folders import runs_of
from support.mapped_jobs import (
    CHILD,
    FEED,
    FOLDER,
    HOST,
    KEPT,
    USERS,
    MappedJob,
    acl,
    document,
    write_feed,
)
from support.rehearsal import membership, xmlgroups
from support.served import Served, run, serving

PARENT = "parent-overrides"
pytestmark = pytest.mark.slow


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "spool") as receiver:
        yield receiver


def last_manifest(folder: Path) -> str:
    home = folder / "runs" / "nights"
    return (home / runs_of(home)[-1].id / "manifest.jsonl").read_text("utf-8")


def test_a_changed_table_counts_for_documents_of_nights_before(
    tmp_path: Path, served: Served
) -> None:
    job = MappedJob(tmp_path, served.url, FEED)
    job.map(one="ann", two="bob")
    parts = document("x", acl("one")), document("two", acl("two")), document("p"), FOLDER, CHILD
    write_feed(tmp_path, *parts)
    assert job.night() == 0
    everyone = {"p": [*USERS], "two": ["bob"]}
    assert job.readers() == {"x": ["ann"], "d/y": ["ann"], **everyone}
    job.map(one="eve", two="bob")
    write_feed(tmp_path, document("z"))
    assert job.night() == 0
    assert job.readers() == {"x": ["eve"], "d/y": ["eve"], "z": [*USERS], **everyone}
    job.map(two="bob")
    assert job.night() == 0
    assert job.readers() == {"z": [*USERS], **everyone}
    job.map(one="ann", two="bob")
    write_feed(tmp_path, document("x", acl("two")))
    assert job.night() == 0
    assert job.readers() == {"d/y": ["ann"], "x": ["bob"], "z": [*USERS], **everyone}


def test_a_changed_table_hides_a_document_that_stayed_with_a_rejected_acl(
    tmp_path: Path, served: Served
) -> None:
    job = MappedJob(tmp_path, served.url, FEED)
    with (tmp_path / "nights.yaml").open("a", encoding="utf-8") as text:
        text.write("rejects: {withhold: false}\n")
    job.map(one="ann", two="bob")
    write_feed(tmp_path, document("x", acl("one")), document("two", acl("two")))
    assert job.night() == 0
    write_feed(tmp_path, document("x", acl("one").replace("permit", "permt")))
    assert job.night() == 1
    assert job.readers() == {"x": ["ann"], "two": ["bob"]}
    job.map(one="eve", two="bob")
    write_feed(tmp_path, document("z"))
    assert job.night() == 1
    assert job.readers() == {"two": ["bob"], "z": [*USERS]}


def test_a_changed_table_counts_for_acls_whose_chains_were_broken_when_they_came(
    tmp_path: Path, served: Served
) -> None:
    job = MappedJob(tmp_path, served.url, FEED)
    job.map(one="ann")
    folder = acl("one", more=f' url="{HOST}d/" inherit-from="{HOST}" inheritance-type="{PARENT}"')
    alone = acl("one", more=f' url="{HOST}x" inherit-from="{HOST}"')
    top = f'<acl url="{HOST}" inheritance-type="%s"/>'
    write_feed(tmp_path, document("x"), alone, folder, top % "leaf-node")
    assert job.night() == 1
    write_feed(tmp_path, document("x"), CHILD, top % "child-overrides")
    assert job.night() == 0
    assert job.readers() == {"d/y": ["ann"], "x": ["ann"]}
    job.map(one="eve")
    write_feed(tmp_path, document("z"))
    assert job.night() == 0
    assert job.readers() == {"d/y": ["eve"], "x": ["eve"], "z": [*USERS]}


def test_a_document_is_withheld_while_its_principal_is_not_mapped(
    tmp_path: Path, served: Served
) -> None:
    job = MappedJob(tmp_path, served.url, FEED, unmapped="reject")
    job.map(one="ann", two="bob")
    write_feed(tmp_path, document("x", acl("one")), document("two", acl("two")), FOLDER, CHILD)
    assert job.night() == 0
    job.map(two="bob")
    write_feed(tmp_path, document("z"))
    assert job.night() == 1
    assert job.readers() == {"two": ["bob"], "z": [*USERS]}
    [listed] = (tmp_path / "runs" / "nights").glob("*-*/withheld.csv")
    urls = sorted(line.partition(",")[0] for line in listed.read_text("utf-8").splitlines())
    assert urls == [f"{HOST}d/", f"{HOST}d/y", f"{HOST}x", "url"]
    job.map(one="eve", two="bob")
    assert job.night() == 0
    assert job.readers() == {"d/y": ["eve"], "two": ["bob"], "x": ["eve"], "z": [*USERS]}


def test_documents_are_hidden_by_a_table_that_changes_after_the_acls_were_cleared(
    tmp_path: Path, served: Served
) -> None:
    job = MappedJob(tmp_path, served.url, FEED)
    job.map(one="ann", two="bob")
    parts = document("x", acl("one")), document("two", acl("two")), FOLDER, CHILD
    write_feed(tmp_path, *parts, document("p"))
    assert job.night() == 0
    assert run("state", "clear", "nights", cwd=tmp_path).returncode == 0
    write_feed(tmp_path, document("z"))
    assert job.night() == 0
    public = {"p": [*USERS], "z": [*USERS]}
    assert job.readers() == {"d/y": ["ann"], "two": ["bob"], "x": ["ann"], **public}
    job.map(one="eve", two="bob")
    assert job.night() == 1
    assert job.readers() == public
    write_feed(tmp_path, *parts)
    assert job.night() == 0
    assert job.readers() == {"d/y": ["eve"], "two": ["bob"], "x": ["eve"], **public}


def test_a_changed_table_counts_for_files_that_have_not_changed(
    tmp_path: Path, served: Served
) -> None:
    for name in ("a/one.txt", "two.txt"):
        path = tmp_path / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}", "utf-8")
        os.utime(path, (10**9, 10**9))
    source = f"{{type: files, path: docs, base_url: {HOST!r}, acl_everyone: all"
    job = MappedJob(tmp_path, served.url, f"{source}, acl: posix-inherited}}")
    job.map(all="staff")
    assert job.night() == 0
    assert job.readers("staff") == {"a/one.txt": [*USERS], "two.txt": [*USERS]}
    job.map(all="board")
    assert job.night() == 0
    assert job.readers("staff") == {}
    (tmp_path / "docs" / "two.txt").chmod(0o600)
    job.map(all="staff")
    assert job.night() == 0
    assert job.readers("staff") == {"a/one.txt": [*USERS]}


def test_only_documents_with_another_decision_are_sent_again(
    tmp_path: Path, served: Served
) -> None:
    job = MappedJob(tmp_path, served.url, FEED)
    job.map(one="ann", two="bob")
    write_feed(tmp_path, document("x", acl("one")), document("y", acl("two")))
    assert job.night() == 0
    job.map(one="ann", two="eve", three="ann")
    write_feed(tmp_path, document("z"))
    assert job.night() == 0
    assert last_manifest(tmp_path).count('"UPDATE":1') == 1


def test_a_full_feed_ends_what_is_kept_of_its_datasource(tmp_path: Path, served: Served) -> None:
    job = MappedJob(tmp_path, served.url, FEED)
    job.map(one="ann")
    write_feed(tmp_path, document("x", acl("one")), document("y", acl("one")))
    assert job.night() == 0
    write_feed(tmp_path, document("x", acl("one")), feedtype="full")
    assert job.night() == 0
    with closing(sqlite3.connect(tmp_path / "runs" / "nights" / "state.acls")) as kept:
        assert kept.execute("SELECT url FROM documents").fetchall() == [(f"{HOST}x",)]
    job.map(one="eve")
    write_feed(tmp_path, document("z", acl("one")), feedtype="full")
    assert job.night() == 0
    assert job.readers() == {"z": ["eve"]}


def test_a_changed_group_counts_for_documents_in_whose_acls_it_was_replaced(
    tmp_path: Path, served: Served
) -> None:
    job = MappedJob(tmp_path, served.url, FEED)
    path, groups = tmp_path / "nights.yaml", tmp_path / "groups.xml"
    head, _, _ = path.read_text("utf-8").partition("transform:")
    path.write_text(f"{head}transform:\n- acl: {{groups: groups.xml}}\n", "utf-8")
    staff = acl("one").replace("user", "group").replace("one", "staff")
    parent = f' url="{HOST}d/" inheritance-type="parent-overrides"'
    write_feed(
        tmp_path,
        *(document("x", staff), document("y", acl("bob")), CHILD),
        staff.replace("<acl>", f"<acl{parent}>"),
    )
    groups.write_text(xmlgroups(membership("staff", "ann"), membership("more", "eve")), "utf-8")
    assert job.night() == 0
    assert job.readers() == {"d/y": ["ann"], "x": ["ann"], "y": ["bob"]}
    groups.write_text(xmlgroups(membership("staff", "eve"), membership("more", "bob")), "utf-8")
    write_feed(tmp_path, document("z"))
    assert job.night() == 0
    assert job.readers() == {"d/y": ["eve"], "x": ["eve"], "y": ["bob"], "z": [*USERS]}
    assert last_manifest(tmp_path).count('"UPDATE":3') == 1


def test_the_groups_of_a_feed_are_kept_with_their_new_names(tmp_path: Path, served: Served) -> None:
    job = MappedJob(tmp_path, served.url, "{type: feeds, path: [feed.xml, groups.xml]}")
    job.map(one="ann", two="bob", staff="people", board="few")
    groups = tmp_path / "groups.xml"
    write_feed(tmp_path, document("x", acl("one").replace("user", "group").replace("one", "staff")))
    groups.write_text(xmlgroups(membership("staff", "one"), membership("board", "two")), "utf-8")
    assert job.night() == 0
    assert job.access("ann") == ["people"]
    assert job.access("bob") == ["few"]
    groups.write_text(xmlgroups(membership("staff", "two")), "utf-8")
    assert job.night() == 0
    assert (job.access("ann"), job.access("bob")) == ([], ["few", "people"])
    job.map(one="ann", two="eve", staff="people", board="few")
    groups.write_text(xmlgroups(), "utf-8")
    assert job.night() == 0
    assert (job.access("bob"), job.access("eve")) == ([], ["few", "people"])
    assert job.readers("people") == {"x": [*USERS]}
    groups.write_text(xmlgroups(membership("staff", "unknown")), "utf-8")
    assert job.night() == 1
    done = run("access", "bob", *KEPT, cwd=tmp_path)
    assert done.returncode == 2
    assert "the group 'staff', of which a membership was set aside" in done.stderr


def test_a_step_that_is_added_later_is_said_once_not_to_reach_earlier_documents(
    tmp_path: Path, served: Served
) -> None:
    job = MappedJob(tmp_path, served.url, FEED)
    job.map(one="ann", two="bob")
    path = tmp_path / "nights.yaml"
    with_step = path.read_text()
    path.write_text(with_step.partition("transform:")[0])
    write_feed(tmp_path, document("x", acl("ann")), document("two", acl("bob")))
    assert job.night() == 0
    path.write_text(with_step)
    words = "documents of 1 earlier run keep the users and groups that they were sent with"
    for parts, is_said in ((document("z", acl("one")), True), (document("y", acl("two")), False)):
        write_feed(tmp_path, parts)
        done = run("run", "nights.yaml", "--progress", "none", cwd=tmp_path)
        assert (done.returncode, words in done.stderr) == (0, is_said), done.stderr
    assert job.readers() == {"two": ["bob"], "x": ["ann"], "y": ["bob"], "z": ["ann"]}
