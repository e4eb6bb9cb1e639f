"""A job keeps the ACLs of its documents as they were stated, and maps them again."""

from collections.abc import Sequence
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.record import Action, Provenance, Record
from feedferry.transforms.steps import Steps, read_steps
from feedferry.transforms.steps.kept_acls import replace_kept
from feedferry.transforms.steps.stated.acl_bytes import packed, unpacked
from feedferry.transforms.steps.stated.acl_mapping import AclMapping
from feedferry.transforms.steps.stated.stated_log import (
    STATED,
    StatedLog,
    read_stated,
)
from feedferry.transforms.steps.stated.stated_store import (
    is_mapping_changed,
    map_again,
    remember_stated,
)
from feedferry.transforms.storage.atomic import AtomicFile
from feedferry.transforms.storage.files.scratch import scratch_database
from feedferry.transforms.storage.storage import LocalStorage
from support.acl_nights import HOST, deleted, document, feed, own_acl

TABLE = "- principals: {table: people.csv, unmapped: reject}\n"
WEB, FULL = feed("web"), feed("web", "full")


class Mapped:
    """A job that maps principals, and the lists of its spans."""

    def __init__(self, folder: Path, steps: str = TABLE) -> None:
        self.folder, self.store = folder, folder / "state.acls"
        (folder / "steps.yaml").write_text(f"transform:\n{steps}- acl: decision\n", "utf-8")
        replace_kept(self.store, ())

    def map(self, **names: str) -> None:
        lines = "".join(f"{old},{new}\n" for old, new in names.items())
        (self.folder / "people.csv").write_text(lines, "utf-8")

    @property
    def mapping(self) -> AclMapping:
        steps: Steps = read_steps(self.folder / "steps.yaml")
        mapping = steps.mapping(self.folder)
        assert mapping is not None
        return mapping

    def night(self, *spans: Sequence[Record], is_unsure: bool = False) -> None:
        """Convert spans of records, and remember what they state."""
        steps, written = read_steps(self.folder / "steps.yaml"), []
        applied = replace(steps, steps=steps.steps[:-1]).make(self.folder)
        for number, records in enumerate(spans):
            file = AtomicFile(LocalStorage(self.folder), f"{number}{STATED}")
            log = StatedLog(file, self.mapping, datasource=None, feedtype=None)
            for record in records:
                log.add(record, applied.apply(record))
            log.close(whole=True)
            written += log.written
        for _ in range(2):  # as after a kill
            blocks = read_stated(self.folder, written)
            remember_stated(blocks, (), self.store, self.mapping.digest, is_unsure=is_unsure)

    def changed(self) -> dict[str, str | None]:
        """Return the readers of the documents that a changed mapping changes."""
        if not is_mapping_changed(self.store, self.mapping):
            return {}
        with closing(scratch_database("", self.store)) as kept, kept:
            return {
                item.url.removeprefix(HOST): None
                if item.acl is None
                else item.acl.principals[0].name
                for item in map_again(kept, self.mapping)
            }


def test_an_acl_in_few_bytes_is_the_acl() -> None:
    choices = product(Scope, Access, (None, "", "ns"), (None, True, False), (False, True))
    principals = tuple(
        Principal(
            name=f"näme {number}",
            scope=scope,
            access=access,
            namespace=namespace,
            case_sensitive=case,
            unqualified=unqualified,
        )
        for number, (scope, access, namespace, case, unqualified) in enumerate(choices)
    )
    for inheritance in (None, *Inheritance):
        acl = Acl(
            inheritance=inheritance, inherit_from="d/", inherit_fragment="f", principals=principals
        )
        assert unpacked(packed(acl)) == acl
    assert unpacked(packed(Acl())) == Acl()


X, Y = document("x", WEB, own_acl("one")), document("y", WEB, own_acl("two"))
PATTERN = Record(url=f"{HOST}?", action=Action.DELETE_PATTERN, provenance=WEB)


@pytest.mark.parametrize(
    ("nights", "expected"),
    [
        ([[[X, Y]]], {"x": "eve"}),
        ([[[X], [Y]], [[Y]]], {"x": "eve"}),
        ([[[X, Y]], [[document("x", WEB, own_acl("two"))]]], {}),
        ([[[document("x", WEB, own_acl("two"))], [X]]], {"x": "eve"}),
        ([[[X, document("x", WEB)]]], {}),
        ([[[X, Y]], [[deleted("x", WEB)]]], {}),
        ([[[X], [deleted("x", WEB)], [X]]], {"x": "eve"}),
        ([[[X]], [[deleted("x", feed("other"))]]], {"x": "eve"}),
        ([[[X]], [[PATTERN]]], {}),
        ([[[X]], [[document("z", FULL)], [document("w", FULL, own_acl("one"))]]], {"w": "eve"}),
        ([[[X]], [[Record(url=f"{HOST}x", action=Action.UPDATE, provenance=WEB)]]], {"x": "eve"}),
    ],
)
def test_the_last_stated_acl_of_a_document_is_mapped_again(
    nights: list[list[list[Record]]], expected: dict[str, str], tmp_path: Path
) -> None:
    job = Mapped(tmp_path)
    job.map(one="ann", two="bob")
    for spans in nights:
        job.night(*spans)
    assert job.changed() == {}
    job.map(one="eve", two="bob", three="cid")
    assert job.changed() == expected
    assert job.changed() == {}


def test_a_principal_that_is_not_mapped_hides_its_documents_until_it_is(tmp_path: Path) -> None:
    job = Mapped(tmp_path)
    job.map(one="ann", two="bob")
    job.night([X, Y])
    job.map(two="bob")
    assert job.changed() == {"x": None}
    job.map(one="ann", two="bob")
    assert job.changed() == {"x": "ann"}


def test_the_documents_of_an_abandoned_run_are_sent_again(tmp_path: Path) -> None:
    job = Mapped(tmp_path)
    job.map(one="ann", two="bob")
    job.night([X])
    job.night([Y], [deleted("x", WEB)], is_unsure=True)
    assert job.changed() == {"y": "bob"}
    job.map(one="eve", two="bob")
    assert job.changed() == {"x": "eve"}


def test_a_step_that_may_change_acls_by_other_fields_cannot_be_repeated(tmp_path: Path) -> None:
    job = Mapped(tmp_path, f"{TABLE}- python: copy:copy\n")
    job.map(one="ann")
    job.night([X])
    job.map(one="ann", two="bob")
    assert job.changed() == {}
    job.map(one="eve")
    with pytest.raises(ConfigError, match="the step python may change their ACLs, too"):
        job.changed()


def test_documents_have_their_stated_acls_when_no_step_maps_any_more(tmp_path: Path) -> None:
    job = Mapped(tmp_path)
    job.map(one="ann", two="two")
    job.night([X, Y])
    (tmp_path / "steps.yaml").write_text("transform:\n- acl: decision\n", "utf-8")
    assert job.changed() == {"x": "one"}
    job.night()
    (tmp_path / "steps.yaml").write_text(f"transform:\n{TABLE}- acl: decision\n", "utf-8")
    assert job.changed() == {}


def test_a_url_that_is_no_text_is_not_listed(tmp_path: Path) -> None:
    job = Mapped(tmp_path)
    job.map(one="ann")
    bad = Record(
        url=f"{HOST}\ud800", action=Action.ADD, acl=own_acl("one"), provenance=Provenance()
    )
    job.night([bad, X])
    job.map(one="eve")
    assert job.changed() == {"x": "eve"}
