"""Random nights of a job: what is kept of ACLs decides as a model that forgets nothing."""

import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from feedferry.schemas.record import Action, Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.formats import ReadResult
from support.acl_nights import (
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

NAMES = ("ann", "bob", "cid")
DOCUMENTS, FOLDERS = ("x", "y", "d/z"), ("d/", "e/")
UNKNOWN = "?"


class Kept(NamedTuple):
    """The last ACL of a URL: one name that it permits, or UNKNOWN.

    One `of_several` has replaced an ACL that arrived alone in another datasource.
    """

    name: str
    datasource: str | None
    is_alone: bool
    is_parent: bool
    parent: str | None = None
    of_several: bool = False


class Model:
    """The ACLs of all nights, by path."""

    def __init__(self) -> None:
        self.acls: dict[str, Kept] = {}

    def begin(self, at: Provenance) -> None:
        if at.feedtype == "full":
            for path in [*self.acls]:
                self.delete(path, at)

    def delete(self, path: str, at: Provenance) -> None:
        acl = self.acls.get(path)
        if acl is None or acl.datasource != at.datasource:
            return
        if acl.of_several:
            self.acls[path] = acl._replace(name=UNKNOWN)
        else:
            del self.acls[path]

    def store(self, path: str, acl: Kept) -> None:
        before = self.acls.get(path)
        is_other = before is not None and before.is_alone and before.datasource != acl.datasource
        if before is not None and (before.of_several or is_other):
            acl = acl._replace(is_alone=True, of_several=True)
        self.acls[path] = acl

    def add(self, item: ReadResult) -> None:
        assert isinstance(item, Record | Reject)
        path = (item.url or "").removeprefix(HOST)
        if isinstance(item, Reject):
            self.store(path, Kept(UNKNOWN, item.source.partition("-")[0], True, is_parent=False))
            return
        at, acl = item.provenance, item.acl
        if item.action is Action.DELETE:
            self.delete(path, at)
        elif acl is not None:
            above = acl.inherit_from and acl.inherit_from.removeprefix(HOST)
            name = acl.principals[0].name if acl.principals else ""
            is_parent = acl.inheritance is not None
            self.store(path, Kept(name, at.datasource, acl.alone, is_parent, above))
        elif path in self.acls and not self.acls[path].is_alone:
            del self.acls[path]

    def outcome(self, item: Record) -> str:
        """Return the names that must all be permitted, the code of a reject, or none."""
        if item.action is Action.DELETE:
            return ""
        if item.acl is None:
            acl = self.acls.get(item.url.removeprefix(HOST))
            if acl is None or not acl.is_alone:
                return "public"
            is_other = acl.of_several and acl.datasource != item.provenance.datasource
            if acl.name == UNKNOWN or is_other:
                return "acl-unknown"
            name, above = acl.name, acl.parent
        else:
            name = item.acl.principals[0].name if item.acl.principals else ""
            above = item.acl.inherit_from and item.acl.inherit_from.removeprefix(HOST)
        names = {name} - {""}
        while above is not None:
            parent = self.acls.get(above)
            if parent is None or parent.name == UNKNOWN:
                return "acl-chain-broken"
            names.add(parent.name)
            above = parent.parent
        return " ".join(sorted(names)) if item.action is Action.ADD else ""


def random_item(chance: random.Random, at: Provenance) -> ReadResult:
    path, name = chance.choice(DOCUMENTS), chance.choice(NAMES)
    above = chance.choice(FOLDERS)
    parent = FOLDERS[0] if above == FOLDERS[1] and chance.random() < 0.5 else None
    items: list[ReadResult] = [
        alone(path, name, at),
        document(path, at),
        document(path, at),
        document(path, at, own_acl(name)),
        child(path, above, at),
        child(path, above, at),
        folder(above, name, at, parent),
        deleted(chance.choice((path, above)), at),
        rejected(chance.choice((path, above)), at=at),
    ]
    return chance.choice(items)


def check_nights(seed: int) -> Counter[str]:
    """Compare the nights of a job with the model; count the outcomes of documents."""
    chance, model, kinds = random.Random(seed), Model(), Counter[str]()
    with TemporaryDirectory(prefix="feedferry-nights-") as name:
        job = Nights(Path(name))
        for _ in range(chance.randrange(2, 6)):
            at = feed(chance.choice("ab"), "full" if chance.random() < 0.15 else "incremental")
            first = document("first", at, own_acl("ann"))
            items = [first, *(random_item(chance, at) for _ in range(chance.randrange(5)))]
            is_remembered, before = chance.random() < 0.8, dict(model.acls)
            model.begin(at)
            for item in items:
                model.add(item)
            records = [item for item in items if isinstance(item, Record)]
            expected = [*filter(None, map(model.outcome, records))]
            results = job.run(*items, is_remembered=is_remembered)
            found = [" ".join(sorted(text.split())) for text in results]
            assert found == expected, (seed, items)
            kinds.update(text.split()[0] for text in expected)
            if not is_remembered:
                model.acls = before
    return kinds


@pytest.mark.slow
def test_random_nights_decide_as_a_model_that_forgets_nothing() -> None:
    kinds = sum((check_nights(seed) for seed in range(150)), Counter[str]())
    assert min(kinds["public"], kinds["acl-unknown"], kinds["acl-chain-broken"]) > 10
    assert kinds["ann"] > 100
