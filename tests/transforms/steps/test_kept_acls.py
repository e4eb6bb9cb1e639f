"""The ACLs that a job keeps protect the documents of its later runs."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.errors import ConfigError, FatalError, StoppedError
from feedferry.schemas.feed import FeedHeader
from feedferry.schemas.record import Action, Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.formats import ReadResult
from feedferry.transforms.steps import read_steps
from feedferry.transforms.steps.kept_acls import (
    KEPT_ACLS,
    count_kept,
    forget_sent,
    read_kept,
    remember_acls,
    replace_kept,
)
from support.stated_inputs import StatedInputs

HOST = "http://h.example/"
DECISION = "- acl: decision"


class Nights:
    """The runs of a job; each remembers its ACLs unless it is said to fail."""

    def __init__(self, folder: Path, steps: str = DECISION) -> None:
        self.folder = folder
        self.store = folder / "state.acls"
        self._count = 0
        (folder / "steps.yaml").write_text(f"transform:\n{steps}\n", "utf-8")

    def run(self, *items: ReadResult, is_remembered: bool = True, accepted: str = "") -> list[str]:
        """Return the readers of each document, `public`, or the code of its reject."""
        self._count += 1
        work = self.folder / f"run-{self._count}"
        work.mkdir()
        steps = read_steps(self.folder / "steps.yaml")
        steps.prepare(StatedInputs(items, accepted=accepted, kept_acls=self.store), work)
        applied = steps.make(work)
        results = [
            made for item in items if isinstance(item, Record) for made in applied.apply(item)
        ]
        if is_remembered:
            remember_acls(work / KEPT_ACLS, self.store)
            remember_acls(work / KEPT_ACLS, self.store)  # as after a kill
        return [*filter(None, map(outcome, results))]


def outcome(result: object) -> str:
    if isinstance(result, Reject):
        return result.code
    assert isinstance(result, Record)
    if result.action is not Action.ADD:
        return ""
    if result.acl is None:
        return "public"
    layers = result.acl.decision or ()
    names = [
        item.name for layer in layers for item in layer.principals if item.access is Access.PERMIT
    ]
    return " ".join(names or [item.name for item in result.acl.principals])


def feed(datasource: str, feedtype: str = "incremental") -> Provenance:
    return Provenance(
        source=f"{datasource}-{feedtype}.xml", datasource=datasource, feedtype=feedtype
    )


DOCS = feed("docs")


def acl(name: str, *, alone: bool = False, parent: str | None = None, **more: object) -> Acl:
    principals = (Principal(name=name, scope=Scope.USER, access=Access.PERMIT),)
    inherit_from = None if parent is None else HOST + parent
    return Acl(principals=principals, alone=alone, inherit_from=inherit_from, **more)  # type: ignore[arg-type]


def alone(path: str, name: str, at: Provenance = DOCS) -> Record:
    return Record(url=HOST + path, action=Action.UPDATE, acl=acl(name, alone=True), provenance=at)


def folder(path: str, name: str, at: Provenance = DOCS, parent: str | None = None) -> Record:
    stated = acl(name, alone=True, parent=parent, inheritance=Inheritance.PARENT_OVERRIDES)
    return Record(url=HOST + path, action=Action.UPDATE, acl=stated, provenance=at)


def document(path: str, at: Provenance = DOCS, stated: Acl | None = None) -> Record:
    return Record(url=HOST + path, action=Action.ADD, acl=stated, provenance=at)


def child(path: str, parent: str, at: Provenance = DOCS) -> Record:
    return document(path, at, Acl(inherit_from=HOST + parent))


def deleted(path: str, at: Provenance = DOCS) -> Record:
    return Record(url=HOST + path, action=Action.DELETE, provenance=at)


def rejected(path: str | None, data: bytes = b"") -> Reject:
    url = None if path is None else HOST + path
    source = DOCS.source
    return Reject(code="malformed", reason="", stage="read", source=source, url=url, data=data)


@pytest.mark.parametrize(
    ("nights", "expected"),
    [
        ([[alone("x", "ann")], [document("x")]], ["ann"]),
        ([[alone("x", "ann")], [document("y")], [document("x")]], ["ann"]),
        ([[document("x"), alone("x", "ann")], [document("x")]], ["ann"]),
        ([[alone("x", "ann")], [alone("x", "bob")], [document("x")]], ["bob"]),
        ([[alone("x", "ann")], [document("x", stated=acl("bob"))], [document("x")]], ["public"]),
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


def test_the_bytes_of_a_job_without_related_acls_are_not_kept(tmp_path: Path) -> None:
    job = Nights(tmp_path)
    assert job.run(document("x", stated=acl("ann")), document("y")) == ["ann", "public"]
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
