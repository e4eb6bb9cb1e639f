"""Random nights of a job: what is kept of ACLs decides as a model that forgets nothing.

Documents of earlier nights that inherit have the decisions of the model, too.
"""

import random
from collections import Counter
from collections.abc import Sequence
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
    """The last ACL of a URL in a datasource: one name that it permits, or UNKNOWN."""

    name: str
    is_alone: bool
    is_parent: bool
    parent: str | None = None


class Model:
    """The ACLs of all nights, by path and datasource, and the documents of an index."""

    def __init__(self) -> None:
        self.acls: dict[str, dict[str, Kept]] = {}
        self.sent: dict[tuple[str, str], tuple[Record, str]] = {}

    def copy(self) -> "Model":
        model = Model()
        model.acls = {path: {**of_path} for path, of_path in self.acls.items()}
        model.sent = {**self.sent}
        return model

    def begin(self, at: Provenance) -> None:
        if at.feedtype == "full":
            for of_path in self.acls.values():
                of_path.pop(at.datasource or "", None)
            self.sent = {key: sent for key, sent in self.sent.items() if key[0] != at.datasource}

    def add(self, item: ReadResult) -> None:
        assert isinstance(item, Record | Reject)
        of_path = self.acls.setdefault((item.url or "").removeprefix(HOST), {})
        if isinstance(item, Reject):
            datasource = item.source.partition("-")[0]
            is_parent = datasource in of_path and of_path[datasource].is_parent
            of_path[datasource] = Kept(UNKNOWN, is_alone=True, is_parent=is_parent)
            return
        datasource, acl = item.provenance.datasource or "", item.acl
        if item.action is Action.DELETE:
            of_path.pop(datasource, None)
        elif acl is not None:
            above = acl.inherit_from and acl.inherit_from.removeprefix(HOST)
            name = acl.principals[0].name if acl.principals else ""
            of_path[datasource] = Kept(name, acl.alone, acl.inheritance is not None, above)
        elif datasource in of_path and not of_path[datasource].is_alone:
            del of_path[datasource]

    def find(self, path: str, datasource: str, *, is_parent: bool) -> Kept | None:
        """Return the ACL of a path for a datasource, which is UNKNOWN if several differ."""
        acls = {
            at: acl
            for at, acl in self.acls.get(path, {}).items()
            if acl.is_alone or (is_parent and acl.is_parent)
        }
        different = {acls[datasource]} if datasource in acls else {*acls.values()}
        if len(different) > 1:
            return Kept(UNKNOWN, is_alone=True, is_parent=True)
        return different.pop() if different else None

    def outcome(self, item: Record) -> str:
        """Return the names that must all be permitted, the code of a reject, or none."""
        if item.action is Action.DELETE:
            return ""
        datasource, acl = item.provenance.datasource or "", item.acl
        if acl is None:
            kept = self.find(item.url.removeprefix(HOST), datasource, is_parent=False)
            if kept is None:
                return "public"
            if kept.name == UNKNOWN:
                return "acl-unknown"
            name, above = kept.name, kept.parent
        else:
            name = acl.principals[0].name if acl.principals else ""
            above = acl.inherit_from and acl.inherit_from.removeprefix(HOST)
        names = {name} - {""}
        while above is not None:
            parent = self.find(above, datasource, is_parent=True)
            if parent is None or parent.name == UNKNOWN:
                return "acl-chain-broken"
            names.add(parent.name)
            above = parent.parent
        return " ".join(sorted(names)) if item.action is Action.ADD else ""

    def send(self, items: Sequence[ReadResult], changed: dict[tuple[str, str], str]) -> None:
        """Send the records of a night to the index, after the decisions that have changed."""
        for key, readers in changed.items():
            if key in self.sent:
                self.sent[key] = self.sent[key][0], " ".join(sorted(readers.split()))
        for item in items:
            if isinstance(item, Record) and item.provenance.datasource is not None:
                key = item.provenance.datasource, item.url.removeprefix(HOST)
                self.sent.pop(key, None)
                if item.action is Action.ADD and item.acl is not None and item.acl.inherits:
                    self.sent[key] = item, self.outcome(item)
            elif isinstance(item, Reject):
                path = (item.url or "").removeprefix(HOST)
                self.sent.pop((item.source.partition("-")[0], path), None)

    def stale(self) -> list[tuple[str, str]]:
        """Return the documents in the index with readers that they may not have."""
        return [
            key
            for key, (item, readers) in self.sent.items()
            if not readers.startswith("acl-") and readers != self.outcome(item)
        ]


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


def decided(outcomes: Sequence[str]) -> list[str]:
    """Return outcomes without those that no user sees, whether they wait or are rejected."""
    return [text for text in outcomes if not text.startswith("acl-chain-")]


def check_nights(seed: int) -> Counter[str]:
    """Compare the nights of a job with the model; count the outcomes of documents."""
    chance, model, kinds = random.Random(seed), Model(), Counter[str]()
    with TemporaryDirectory(prefix="feedferry-nights-") as name:
        job = Nights(Path(name))
        for _ in range(chance.randrange(3, 9)):
            at = feed(chance.choice("abc"), "full" if chance.random() < 0.15 else "incremental")
            first = document("first", at, own_acl("ann"))
            items = [first, *(random_item(chance, at) for _ in range(chance.randrange(8)))]
            is_remembered, before = chance.random() < 0.8, model.copy()
            model.begin(at)
            for item in items:
                model.add(item)
            records = [item for item in items if isinstance(item, Record)]
            expected = [*filter(None, map(model.outcome, records))]
            results = job.run(*items, is_remembered=is_remembered)
            found = [" ".join(sorted(text.split())) for text in results]
            assert decided(found) == decided(expected), (seed, items)
            kinds.update(text.split()[0] for text in expected)
            if not is_remembered:
                model = before
                continue
            changed = job.changed()
            model.send(items, changed)
            assert model.stale() == [], (seed, items)
            kinds["changed"] += len(changed)
    return kinds


@pytest.mark.slow
def test_random_nights_decide_as_a_model_that_forgets_nothing() -> None:
    kinds = sum((check_nights(seed) for seed in range(150)), Counter[str]())
    assert min(kinds["public"], kinds["acl-unknown"], kinds["acl-chain-broken"]) > 10
    assert kinds["ann"] > 100
    assert kinds["changed"] > 50
