"""The ACLs that a job keeps protect the documents of its later runs."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from feedferry.schemas.acl import WAITING, Inheritance
from feedferry.schemas.errors import ConfigError, StoppedError
from feedferry.schemas.feed import FeedHeader
from feedferry.schemas.record import Action, Record
from feedferry.schemas.reject import Filtered
from feedferry.transforms.formats import ReadResult
from feedferry.transforms.steps.kept_acls import (
    KEPT_ACLS,
    REPLACED_ACLS,
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


def after(nights: Sequence[Sequence[ReadResult]], folder: Path) -> Nights:
    """Return a job after some nights, and after its ACLs were exported and imported."""
    job = Nights(folder)
    for items in nights:
        job.run(*items)
    replace_kept(job.store, [*read_kept(job.store)])
    return job


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
        ([[folder("d/", "ann")], [deleted("d/")], [child("d/x", "d/")]], ["acl-chain-waiting"]),
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


A, B, C = feed("a"), feed("b"), feed("c")
SEVERAL = [alone("x", "ann", A), alone("x", "bob", B)]


@pytest.mark.parametrize(
    ("nights", "expected"),
    [
        ([SEVERAL], "ann bob acl-unknown"),
        ([SEVERAL, [alone("x", "cid", B)]], "ann cid acl-unknown"),
        ([SEVERAL, [alone("x", "ann", B)]], "ann ann ann"),
        ([SEVERAL, [deleted("x", B)]], "ann ann ann"),
        ([SEVERAL, [deleted("x", A)]], "bob bob bob"),
        ([SEVERAL, [document("y", feed("b", "full"))]], "ann ann ann"),
        ([SEVERAL, [rejected("x", at=B)]], "acl-unknown acl-unknown acl-unknown"),
        ([SEVERAL, [document("y", B), rejected("x", at=B)]], "ann acl-unknown acl-unknown"),
        ([SEVERAL, [rejected("x", at=B)], [alone("x", "bob", B)]], "acl-unknown bob acl-unknown"),
        ([SEVERAL[:1], [rejected("x", at=B)]], "acl-unknown acl-unknown acl-unknown"),
        ([SEVERAL[:1], [document("y", B), rejected("x", at=B)]], "ann acl-unknown acl-unknown"),
        (
            [
                SEVERAL[:1],
                [document("y", B), rejected("x", at=B)],
                [document("y", feed("a", "full"))],
            ],
            "acl-unknown acl-unknown acl-unknown",
        ),
        ([SEVERAL[:1], [document("x", B, own_acl("bob"))]], "ann ann ann"),
        ([SEVERAL[:1]], "ann ann ann"),
    ],
)
def test_an_acl_alone_counts_in_its_own_datasource_first(
    nights: Sequence[Sequence[ReadResult]], expected: str, tmp_path: Path
) -> None:
    job = after(nights, tmp_path)
    assert job.run(document("x", A), document("x", B), document("x", C)) == expected.split()


PARENTS = [folder("d/", "ann", A), folder("d/", "bob", B)]


@pytest.mark.parametrize(
    ("nights", "expected"),
    [
        ([PARENTS[:1]], "ann ann ann"),
        ([PARENTS], "ann bob acl-chain-broken"),
        ([PARENTS, [folder("d/", "ann", B)]], "ann ann ann"),
        ([PARENTS, [deleted("d/", B)]], "ann ann ann"),
        ([PARENTS, [document("y", feed("b", "full"))]], "ann ann ann"),
        (
            [PARENTS, [document("y", B), rejected("d/", at=B)]],
            "ann acl-chain-broken acl-chain-broken",
        ),
        ([PARENTS[:1], [document("d/", B, own_acl("bob"))]], "ann ann ann"),
        (
            [
                [document("d/", A, own_acl("ann", inheritance=Inheritance.PARENT_OVERRIDES))],
                [rejected("d/", b"<record", at=A)],
                [folder("d/", "bob", B)],
            ],
            "acl-chain-broken bob acl-chain-broken",
        ),
    ],
)
def test_a_parent_is_looked_up_in_the_datasource_of_the_document_first(
    nights: Sequence[Sequence[ReadResult]], expected: str, tmp_path: Path
) -> None:
    job = after(nights, tmp_path)
    children = [child("d/x", "d/", at) for at in (A, B, C)]
    assert job.run(*children) == expected.split()


@pytest.mark.parametrize(
    ("night", "expected"),
    [
        ([folder("d/", "cid", A)], {"a": "cid", "c": "acl-chain-broken"}),
        ([deleted("d/", B)], {"b": "ann", "c": "ann"}),
        ([folder("d/", "dan", C)], {"c": "dan"}),
    ],
)
def test_the_decisions_of_documents_in_all_datasources_are_sent_again(
    night: Sequence[ReadResult], expected: dict[str, str], tmp_path: Path
) -> None:
    job = Nights(tmp_path)
    job.run(*PARENTS, *(child("d/x", "d/", at) for at in (A, B, C)))
    job.run(*night)
    changed = {at: readers for (at, path), readers in job.changed().items() if path == "d/x"}
    assert expected.items() <= changed.items()


def test_documents_wait_for_the_acl_above_them_and_get_it_when_it_arrives(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    top = folder("d/e/", "bob", parent="d/")
    assert job.run(top, child("d/e/x", "d/e/"), child("y", "other/")) == ["acl-chain-waiting"] * 2
    job.run(document("z"))
    assert job.changed() == {}
    job.run(folder("d/", "ann"))
    assert job.changed() == {("docs", "d/e/"): "ann bob", ("docs", "d/e/x"): "ann bob"}
    job.run(deleted("d/"))
    assert set(job.changed().values()) == {"acl-chain-waiting"}


def test_a_document_whose_acl_is_not_kept_does_not_wait(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    job.run(folder("d/", "ann"))
    assert job.unlisted(child("x", "other/")) == ["acl-chain-broken"]


LENT = [alone("x", "ann", A), document("x", B)]


@pytest.mark.parametrize(
    ("nights", "expected"),
    [
        ([LENT, [alone("x", "bob", A)]], {"b": "bob"}),
        ([LENT[::-1], [alone("x", "bob", A)]], {"b": "bob"}),
        ([LENT, [document("y", B)], [alone("x", "bob", A)]], {"b": "bob"}),
        ([LENT, [alone("x", "ann", A)]], {}),
        ([LENT, [document("x", B)], [alone("x", "bob", A)]], {"b": "bob"}),
        ([LENT, [deleted("x", A)]], {"b": "acl-unknown"}),
        ([LENT, [document("y", feed("a", "full"))]], {"b": "acl-unknown"}),
        ([LENT, [rejected("x", at=A)]], {"b": "acl-unknown"}),
        ([LENT, [alone("x", "bob", C)]], {"b": "acl-unknown"}),
        ([LENT, [document("x", C)]], {}),
        ([LENT, [rejected("x", b"<record", at=B)], [alone("x", "bob", A)]], {"b": "bob"}),
        ([LENT, [alone("x", "cid", B)], [alone("x", "bob", A)]], {}),
        ([LENT, [document("x", B, own_acl("cid"))], [alone("x", "bob", A)]], {}),
        ([LENT, [rejected("x", at=B)], [alone("x", "bob", A)]], {"b": "acl-unknown"}),
        ([LENT, [deleted("x", B)], [alone("x", "bob", A)]], {}),
        ([[document("x", B), alone("y", "ann", A)], [alone("x", "bob", A)]], {"b": "bob"}),
        (
            [[folder("d/", "ann", A), alone("x", "cid", A, "d/"), document("x", B)],
             [folder("d/", "bob", A)]],
            {"a": "bob cid", "b": "bob cid"},
        ),
    ],
)  # fmt: skip
def test_a_document_without_an_acl_follows_the_one_of_another_datasource(
    nights: Sequence[Sequence[ReadResult]], expected: dict[str, str], tmp_path: Path
) -> None:
    *earlier, last = nights
    job = after(earlier, tmp_path)
    job.run(*last)
    assert {at: readers for (at, path), readers in job.changed().items() if path == "x"} == expected


def test_a_job_of_a_single_datasource_keeps_no_documents_without_an_acl(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    job.run(alone("x", "ann"), document("y"))
    assert [item.url for item in read_kept(job.store)] == [f"{HOST}x"]


def test_the_acl_of_a_document_that_a_step_drops_follows_its_parent(tmp_path: Path) -> None:
    job = Nights(tmp_path, f"- drop: {{url: '*/old'}}\n{DECISION}")
    job.run(folder("d/", "ann"), child("d/x", "d/"), child("d/y", "d/"))
    job.run(Filtered(code="drop", url=f"{HOST}d/x", action="ADD"), rejected("d/y", b"<record"))
    job.run(folder("d/", "bob"))
    assert job.changed() == {("docs", "d/x"): "bob", ("docs", "d/y"): "bob"}


def test_a_document_whose_acl_is_rejected_gets_no_decision_of_the_one_before(
    tmp_path: Path,
) -> None:
    job = Nights(tmp_path)
    job.run(folder("d/", "ann"), child("d/x", "d/"), alone("y", "ann", A), document("y", B))
    damaged = [rejected("d/x", b"<record", code="bad-acl"), rejected("y", b"<record", B, "bad-acl")]
    job.run(*damaged)
    job.run(folder("d/", "bob"), alone("y", "bob", A))
    assert job.changed() == {("docs", "d/x"): "acl-chain-broken"}
    job.run(child("d/x", "d/"))
    job.run(folder("d/", "cid"))
    assert job.changed() == {("docs", "d/x"): "cid"}


def test_a_document_with_a_principal_that_is_not_mapped_gets_no_decision_of_the_one_before(
    tmp_path: Path,
) -> None:
    names = "principals: {rewrite: [[ann, ann], [bob, bob]], unmapped: reject}"
    job = Nights(tmp_path, f"- {names}\n{DECISION}")
    job.run(folder("d/", "ann"), child("d/x", "d/"))
    assert job.run(document("d/x", stated=own_acl("eve"))) == ["principal-unmapped"]
    job.run(folder("d/", "bob"))
    assert job.changed() == {("docs", "d/x"): "acl-chain-broken"}


def test_a_folder_that_may_have_another_acl_is_hidden_where_its_parent_changes(
    tmp_path: Path,
) -> None:
    job, inheritance = Nights(tmp_path), Inheritance.PARENT_OVERRIDES
    page = document("d/e/", stated=own_acl("ann", parent="d/", inheritance=inheritance))
    job.run(folder("d/", "ann"), page)
    job.run(Filtered(code="drop", url=f"{HOST}d/e/", action="ADD"))
    job.run(folder("d/", "bob"))
    assert job.changed() == {("docs", "d/e/"): "acl-chain-broken"}


def test_a_parent_that_arrives_later_gives_the_decisions_of_its_children(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    assert job.run(child("d/x", "d/")) == ["acl-chain-waiting"]
    job.run(folder("d/", "ann"))
    assert job.changed() == {("docs", "d/x"): "ann"}


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


def test_a_reject_before_its_feed_in_a_source_of_several_feeds_is_of_that_feed(
    tmp_path: Path,
) -> None:
    job = Nights(tmp_path)
    job.run(alone("x", "ann", A), alone("x", "bob", B))
    first, second = (replace(at, source="all.avro") for at in (A, feed("b", "full")))
    early = replace(rejected("x", at=first), datasource="b")
    job.run(document("y", first), early, document("y", second))
    job.run(alone("x", "ann", A))
    assert job.run(document("x", A), document("x", B)) == ["ann", "acl-unknown"]


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
        forget_sent(tmp_path / "run-2" / KEPT_ACLS, job.store, tmp_path / "run-2")
    names = "same", "new", "gone", "more"
    results = job.run(*map(document, names), child("d/x", "d/"))
    assert results == ["ann", *["acl-unknown"] * 3, "acl-chain-broken"]
    assert job.run(alone("new", "cid"), document("new")) == ["cid"]


def test_documents_that_an_abandoned_run_may_have_sent_are_hidden_unless_they_come_again(
    tmp_path: Path,
) -> None:
    job = Nights(tmp_path)
    job.run(folder("d/", "ann"), folder("e/", "bob"), *(child(f"{n}", "d/") for n in range(4)))
    sent = child("0", "d/"), child("1", "e/"), document("2", stated=own_acl("bob")), deleted("3")
    job.run(*sent, child("4", "e/"), is_remembered=False)
    forget_sent(tmp_path / "run-2" / KEPT_ACLS, job.store, tmp_path / "run-2")
    job.run(child("1", "e/"), is_remembered=False)
    assert job.changed() == {("docs", n): "acl-chain-broken" for n in "234"}
    job.run(folder("d/", "cid"))
    hidden = {("docs", n): "acl-chain-broken" for n in "1234"}
    assert job.changed() == {("docs", "0"): "cid", **hidden}
    job.run(folder("e/", "cid"))
    assert job.changed() == {}


def test_what_is_below_a_parent_or_alone_in_an_abandoned_run_is_hidden_once(
    tmp_path: Path,
) -> None:
    job = Nights(tmp_path)
    below = folder("d/e/", "ann", parent="d/"), child("d/e/x", "d/e/"), child("d/y", "d/")
    job.run(folder("d/", "ann"), *below, alone("k", "ann"))
    job.run(folder("d/e/", "bob", parent="d/"), alone("k", "bob"), is_remembered=False)
    forget_sent(tmp_path / "run-2" / KEPT_ACLS, job.store, tmp_path / "run-2")
    job.run(folder("d/e/", "bob"), is_remembered=False)
    assert job.changed() == {("docs", "d/e/x"): "bob", ("docs", "k"): "acl-chain-broken"}
    job.run(document("new", stated=own_acl("ann")))
    hidden = ("d/e/", "d/e/x", "k")
    assert job.changed() == {("docs", path): "acl-chain-broken" for path in hidden}
    job.run(folder("d/", "cid"))
    assert job.changed() == {("docs", "d/y"): "cid"}
    job.run(folder("d/e/", "bob"), alone("k", "bob"))
    assert job.changed() == {("docs", "d/e/x"): "bob"}


def test_a_parent_that_an_abandoned_run_may_have_sent_is_unknown_in_its_datasource(
    tmp_path: Path,
) -> None:
    job, inheritance = Nights(tmp_path), Inheritance.PARENT_OVERRIDES
    job.run(document("d/", A, own_acl("ann", inheritance=inheritance)), folder("d/", "bob", B))
    changed = document("d/", A, own_acl("cid", inheritance=inheritance))
    job.run(changed, is_remembered=False)
    forget_sent(tmp_path / "run-2" / KEPT_ACLS, job.store, tmp_path / "run-2")
    assert job.run(child("d/x", "d/", A), child("d/x", "d/", B)) == ["acl-chain-broken", "bob"]


def test_a_part_without_a_url_is_no_newer_parent_of_another_datasource(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    job.run(folder("d/", "ann", A), rejected(None), folder("d/", "bob", B))
    assert job.run(child("d/x", "d/", B)) == ["bob"]
    for at in (A, C):
        with pytest.raises(StoppedError, match=r"newer ACL of 'http://h.example/d/'"):
            job.run(child("d/x", "d/", at))


def test_a_part_without_a_url_makes_kept_parents_doubtful_in_later_runs(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    job.run(folder("d/", "ann"), rejected(None))
    with pytest.raises(StoppedError, match=r"newer ACL of 'http://h.example/d/'"):
        job.run(child("d/x", "d/"))
    assert job.run(child("d/x", "d/"), accepted="malformed") == ["ann"]
    job.run(folder("d/", "bob"))
    assert job.run(child("d/x", "d/")) == ["bob"]


def test_doubts_that_are_settled_make_parents_unknown_until_they_are_stated(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    job.run(folder("d/", "ann"), folder("e/", "ann"), child("e/x", "e/"))
    items = folder("d/", "bob"), rejected(None), child("d/x", "d/"), document("y")
    assert job.run(*items, settles_doubts=True) == ["acl-chain-broken", "public"]
    assert job.changed() == {}
    assert job.run(child("d/z", "d/"), child("e/z", "e/")) == ["acl-chain-broken"] * 2
    assert job.run(folder("d/", "bob"), child("d/z", "d/")) == ["bob"]
    assert job.changed() == {("docs", "d/x"): "bob"}


def test_a_document_of_a_folder_with_a_settled_doubt_follows_the_folder_above(
    tmp_path: Path,
) -> None:
    job = Nights(tmp_path)
    job.run(folder("d/", "ann"), folder("d/e/", "ann", parent="d/"), document("d/e/"))
    job.run(rejected(None), child("d/e/x", "d/e/"), settles_doubts=True)
    job.run(folder("d/", "bob"))
    assert job.changed() == {("docs", path): "acl-chain-broken" for path in ("d/e/", "d/e/x")}


def test_a_new_acl_alone_that_is_filtered_hides_the_document_of_another_datasource(
    tmp_path: Path,
) -> None:
    job = Nights(tmp_path, f"- drop: {{principal: eve}}\n{DECISION}")
    job.run(document("x", B), alone("y", "ann", A))
    job.run(alone("x", "eve", A))
    assert job.changed() == {("b", "x"): "acl-unknown"}


def test_an_acl_that_is_stated_after_such_a_part_is_newer_though_others_were_not_kept(
    tmp_path: Path,
) -> None:
    job = Nights(tmp_path)
    job.run(folder("d/", "ann"), document("x"), document("y"), rejected(None))
    assert job.run(folder("d/", "bob"), child("d/x", "d/")) == ["bob"]


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


def origins(path: Path) -> dict[str, tuple[str | None, str, str, int]]:
    """Return who reads each kept ACL, and the run, feed and line that brought it."""
    return {
        item.url.removeprefix(HOST): (
            None if item.acl is None else item.acl.principals[0].name,
            *(item.run, item.source, item.line),
        )
        for item in read_kept(path)
    }


def test_an_acl_keeps_the_run_and_the_feed_that_have_brought_it(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    job.run(alone("same", "ann"), alone("new", "ann"), alone("gone", "ann"), alone("bad", "ann"))
    full = replace(feed("docs", "full"), source="more.xml", line=7)
    for _ in range(2):
        job.run(
            *(document("page", full), alone("same", "ann", full), alone("new", "bob", full)),
            replace(rejected("bad", at=full), line=9),
        )
    first, second = ("run-1", "docs-incremental.xml", 0), ("run-2", "more.xml", 7)
    assert origins(job.store) == {
        "bad": (None, "run-2", "more.xml", 9),
        "new": ("bob", *second),
        "same": ("ann", *first),
    }
    replaced = tmp_path / "run-2" / REPLACED_ACLS
    assert origins(replaced) == {
        "bad": ("ann", *first),
        "gone": ("ann", *first),
        "new": ("ann", *first),
    }
    assert not (tmp_path / "run-3" / REPLACED_ACLS).exists()
    replace_kept(tmp_path / "imported", read_kept(job.store))
    assert origins(tmp_path / "imported") == origins(job.store)


def test_an_abandoned_run_keeps_the_acls_before_it(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    job.run(alone("x", "ann"))
    job.run(alone("x", "bob"), is_remembered=False)
    folder = tmp_path / "abandoned"
    folder.mkdir()
    for _ in range(2):  # as after a kill
        forget_sent(tmp_path / "run-2" / KEPT_ACLS, job.store, folder)
    assert origins(job.store) == {"x": (None, "abandoned", "", 0)}
    expected = {"x": ("ann", "run-1", "docs-incremental.xml", 0)}
    assert origins(folder / REPLACED_ACLS) == expected


@pytest.mark.parametrize("damage", ["text", "version"])
def test_a_file_without_kept_acls_is_refused(damage: str, tmp_path: Path) -> None:
    job = Nights(tmp_path)
    if damage == "text":
        job.store.write_text("ACLs " * 1000, "utf-8")
    else:
        with closing(sqlite3.connect(job.store)) as database:
            database.execute("PRAGMA user_version = 9")
    fix = r"feedferry state clear \S+/state.acls removes it; then send all ACLs and documents again"
    with pytest.raises(ConfigError, match=rf"state.acls: .*; expected .*: {fix}"):
        job.run(document("x"))


VERSION_2 = """
PRAGMA user_version = 2;
CREATE TABLE acls (
    url TEXT, datasource TEXT, acl BLOB, alone INTEGER, is_parent INTEGER, number INTEGER,
    is_incremental INTEGER, origin TEXT, parent TEXT, feed INTEGER, place INTEGER,
    PRIMARY KEY (url, datasource)
) WITHOUT ROWID;
CREATE TABLE feeds (number INTEGER PRIMARY KEY, run TEXT, source TEXT, UNIQUE (run, source));
CREATE TABLE doubts (number INTEGER, reject BLOB);
CREATE TABLE job_datasources (name TEXT PRIMARY KEY) WITHOUT ROWID
"""


def test_a_file_of_the_version_before_is_read(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    job.run(folder("d/", "ann"), child("d/x", "d/"), folder("e/", "ann"), child("e/x", "e/"))
    exported = [*read_kept(job.store)]
    job.store.unlink()
    with closing(sqlite3.connect(job.store)) as database, database:
        database.executescript(VERSION_2)
        database.execute("INSERT INTO feeds VALUES (1, 'run-1', 'docs-incremental.xml')")
        database.execute("INSERT INTO job_datasources VALUES ('docs')")
        for item in exported:
            values = (item.url, msgspec.msgpack.encode(item.acl), item.alone, item.is_parent)
            above = item.acl and item.acl.inherit_from
            row = (*values[:1], "docs", *values[1:], item.number, False, None, above, 1, 0)
            database.execute(f"INSERT INTO acls VALUES ({', '.join('?' * 11)})", row)
    assert [*read_kept(job.store)] == exported
    job.run(folder("d/", "bob"), folder("e/", "ann"))
    assert job.changed() == {("docs", "d/x"): "bob"}
    with closing(sqlite3.connect(job.store)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (3,)
    assert origins(tmp_path / "run-2" / REPLACED_ACLS) == {
        "d/": ("ann", "run-1", "docs-incremental.xml", 0)
    }


def test_an_acl_is_kept_with_all_that_it_states(tmp_path: Path) -> None:
    job, above = Nights(tmp_path), Inheritance.CHILD_OVERRIDES
    stated = {
        "a": own_acl("ann", alone=True, inheritance=above, inherit_fragment="f"),
        "b": own_acl("ann", alone=True, parent="d/", inherit_fragment="f"),
        "c": replace(own_acl("ann", alone=True), inherit_from=f" {HOST}zü "),
        "d": replace(own_acl("ann", alone=True, parent="d/"), withholds=True),
        "e": own_acl("ann", alone=True, parent="d/", decision=WAITING),
    }
    records = [Record(url=HOST + at, action=Action.UPDATE, acl=acl) for at, acl in stated.items()]
    job.run(*records)
    assert {item.url.removeprefix(HOST): item.acl for item in read_kept(job.store)} == stated
