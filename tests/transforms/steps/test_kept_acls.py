"""The ACLs that a job keeps protect the documents of its later runs."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from feedferry.schemas.errors import ConfigError, FatalError, StoppedError
from feedferry.schemas.feed import FeedHeader
from feedferry.transforms.formats import ReadResult
from feedferry.transforms.steps.kept_acls import (
    KEPT_ACLS,
    count_kept,
    forget_sent,
    read_kept,
    replace_kept,
)
from support.acl_nights import (
    DECISION,
    HOST,
    Nights,
    alone,
    child,
    deleted,
    document,
    feed,
    folder,
    own_acl,
    rejected,
)

OWN = document("x", stated=own_acl("bob"))


@pytest.mark.parametrize(
    ("nights", "expected"),
    [
        ([[alone("x", "ann")], [document("x")]], ["ann"]),
        ([[alone("x", "ann")], [document("y")], [document("x")]], ["ann"]),
        ([[document("x"), alone("x", "ann")], [document("x")]], ["ann"]),
        ([[alone("x", "ann")], [alone("x", "bob")], [document("x")]], ["bob"]),
        (
            [[alone("x", "ann")], [document("x", stated=own_acl("bob"))], [document("x")]],
            ["public"],
        ),
        ([[alone("x", "ann")], [deleted("x")], [document("x")]], ["public"]),
        ([[alone("x", "ann")], [deleted("x", feed("other"))], [document("x")]], ["ann"]),
        ([[rejected("x")], [document("x")]], ["acl-unknown"]),
        ([[rejected("x")], [document("y")], [document("x")]], ["acl-unknown"]),
        ([[rejected("x")], [alone("x", "ann")], [document("x")]], ["ann"]),
        ([[alone("x", "ann"), rejected("x")], [document("x")]], ["acl-unknown"]),
        ([[rejected("x", b"<record")], [document("x")]], ["public"]),
        ([[alone("x", "ann")], [rejected("x", b"<record")], [document("x")]], ["ann"]),
        ([[folder("d/", "ann")], [child("d/x", "d/")]], ["ann"]),
        ([[folder("d/", "ann")], [folder("d/", "bob")], [child("d/x", "d/")]], ["bob"]),
        ([[folder("d/", "ann")], [deleted("d/")], [child("d/x", "d/")]], ["acl-chain-broken"]),
        ([[folder("d/", "ann")], [rejected("d/")], [child("d/x", "d/")]], ["acl-chain-broken"]),
        (
            [[folder("d/", "ann")], [folder("d/e/", "bob", parent="d/")], [child("d/e/x", "d/e/")]],
            ["ann bob"],
        ),
    ],
)
def test_the_last_known_acl_counts_in_later_runs(
    nights: Sequence[Sequence[ReadResult]], expected: list[str], tmp_path: Path
) -> None:
    job = Nights(tmp_path)
    *earlier, last = nights
    for items in earlier:
        job.run(*items)
    assert [" ".join(sorted(text.split())) for text in job.run(*last)] == expected


A, B = feed("a"), feed("b")
SEVERAL = [alone("x", "ann", A), alone("x", "bob", B)]


@pytest.mark.parametrize(
    ("nights", "expected"),
    [
        ([SEVERAL], "acl-unknown bob"),
        ([SEVERAL, [alone("x", "cid", B)]], "acl-unknown cid"),
        ([SEVERAL, [deleted("x", B)]], "acl-unknown acl-unknown"),
        ([SEVERAL, [deleted("x", A)]], "acl-unknown bob"),
        ([SEVERAL, [document("y", feed("b", "full"))]], "acl-unknown acl-unknown"),
        ([SEVERAL, [rejected("x", at=B)], [alone("x", "bob", B)]], "acl-unknown bob"),
        ([SEVERAL[:1], [rejected("x", at=B)]], "acl-unknown acl-unknown"),
        (
            [
                SEVERAL[:1],
                [document("y", B), rejected("x", at=B)],
                [document("y", feed("a", "full"))],
            ],
            "acl-unknown acl-unknown",
        ),
        ([SEVERAL, [alone("x", "ann", A)]], "ann acl-unknown"),
        ([SEVERAL[:1], [document("x", B, own_acl("bob"))]], "acl-unknown bob"),
        ([SEVERAL[:1]], "ann ann"),
    ],
)
def test_an_acl_of_another_datasource_does_not_open_a_document(
    nights: Sequence[Sequence[ReadResult]], expected: str, tmp_path: Path
) -> None:
    job = Nights(tmp_path)
    for items in nights:
        job.run(*items)
    replace_kept(job.store, [*read_kept(job.store)])  # as an export and an import
    assert job.run(document("x", A), document("x", B)) == expected.split()


def test_the_bytes_of_a_job_without_related_acls_are_not_kept(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    assert job.run(document("x", stated=own_acl("ann")), document("y")) == ["ann", "public"]
    assert not job.store.exists()


def test_a_job_whose_last_acl_is_deleted_has_no_file(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    job.run(alone("x", "ann"))
    assert count_kept(job.store) == (1, 0)
    job.run(deleted("x"))
    assert not job.store.exists()


def test_a_full_feed_removes_the_acls_of_its_datasource_only(tmp_path: Path) -> None:
    job, full, other = Nights(tmp_path), feed("docs", "full"), feed("other")
    job.run(alone("x", "ann"), alone("y", "bob"), alone("z", "cid", other))
    assert job.run(alone("y", "dan", full), document("x", full)) == ["public"]
    assert job.run(document("x"), document("y"), document("z", other)) == ["public", "dan", "cid"]


def test_an_empty_full_feed_removes_the_acls_of_its_datasource(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    job.run(alone("x", "ann"))
    job.run(FeedHeader(source="empty.xml", datasource="docs", feedtype="full"))
    assert not job.store.exists()


def test_an_unknown_acl_is_forgotten_by_a_full_feed_of_the_datasource_of_its_feed(
    tmp_path: Path,
) -> None:
    """A reject before the first record of its feed does not state a datasource."""
    job = Nights(tmp_path)
    job.run(rejected("x"), document("y"))
    assert job.run(document("x", feed("other", "full"))) == ["acl-unknown"]
    assert job.run(document("x", feed("docs", "full"))) == ["public"]


def test_a_step_that_sets_an_acl_aside_makes_it_unknown(tmp_path: Path) -> None:
    job = Nights(tmp_path, f"- principals: {{rewrite: [[ann, ann]], unmapped: reject}}\n{DECISION}")
    assert job.run(alone("x", "bob")) == ["principal-unmapped"]
    assert job.run(document("x")) == ["acl-unknown"]
    job.run(alone("x", "ann"))
    assert job.run(document("x")) == ["ann"]


def test_a_run_that_fails_leaves_the_acls_as_they_were(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    job.run(alone("x", "ann"))
    job.run(alone("x", "bob"), alone("y", "bob"), is_remembered=False)
    assert job.run(document("x"), document("y")) == ["ann", "public"]


def test_the_acls_that_an_abandoned_run_may_have_sent_are_unknown(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    job.run(alone("same", "ann"), alone("new", "ann"), alone("gone", "ann"), folder("d/", "ann"))
    job.run(
        *(alone("new", "bob"), deleted("gone"), alone("more", "bob"), folder("d/", "bob")),
        is_remembered=False,
    )
    for _ in range(2):  # as after a kill
        forget_sent(tmp_path / "run-2" / KEPT_ACLS, job.store)
    names = "same", "new", "gone", "more"
    results = job.run(*map(document, names), child("d/x", "d/"))
    assert results == ["ann", *["acl-unknown"] * 3, "acl-chain-broken"]
    assert job.run(alone("new", "cid"), document("new")) == ["cid"]


def test_a_part_without_a_url_makes_kept_parents_doubtful_in_later_runs(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    job.run(folder("d/", "ann"), rejected(None))
    with pytest.raises(StoppedError, match=r"newer ACL of 'http://h.example/d/'"):
        job.run(child("d/x", "d/"))
    assert job.run(child("d/x", "d/"), accepted="malformed") == ["ann"]
    job.run(folder("d/", "bob"))
    assert job.run(child("d/x", "d/")) == ["bob"]


def test_two_steps_that_resolve_acls_are_refused_in_a_job(tmp_path: Path) -> None:
    job = Nights(tmp_path, f"- acl: effective\n{DECISION}")
    with pytest.raises(ConfigError, match="2 steps acl in a job"):
        job.run(document("x"))


def test_kept_acls_are_exported_and_imported_as_they_are(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    job.run(alone("x", "ann"), folder("d/", "bob"), rejected("y"))
    exported = [*read_kept(job.store)]
    assert [(item.url, item.acl is None) for item in exported] == [
        (f"{HOST}d/", False),
        (f"{HOST}x", False),
        (f"{HOST}y", True),
    ]
    job.store.unlink()
    replace_kept(job.store, exported)
    assert [*read_kept(job.store)] == exported
    documents = document("x"), child("d/z", "d/"), document("y")
    assert job.run(*documents) == ["ann", "bob", "acl-unknown"]


@pytest.mark.parametrize("damage", ["text", "version"])
def test_a_file_without_kept_acls_is_refused(damage: str, tmp_path: Path) -> None:
    job = Nights(tmp_path)
    if damage == "text":
        job.store.write_text("ACLs " * 1000, "utf-8")
    else:
        with closing(sqlite3.connect(job.store)) as database:
            database.execute("PRAGMA user_version = 9")
    with pytest.raises(FatalError, match=r"state.acls: .*expected the ACLs that runs of the job"):
        job.run(document("x"))
