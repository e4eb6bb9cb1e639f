"""The cost of steps: function calls for a record whose names and values were looked up before."""

import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from types import FrameType

import msgspec
import pytest

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.record import Action, Content, Meta, Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.formats import ReadResult
from feedferry.transforms.formats.fast_path.columns.column_kinds import ColumnKind
from feedferry.transforms.formats.fast_path.columns.holes import TextHole
from feedferry.transforms.formats.fast_path.columns.marks import hole
from feedferry.transforms.steps import AppliedSteps, StepResult, read_steps
from support.stated_inputs import StatedInputs

HOST = "http://docs.example.com/"
FOLDERS, RECORDS = 7, 60


def principals(number: int) -> tuple[Principal, ...]:
    """Return one to six principals, with few names in many sets."""
    return tuple(
        Principal(name=f"ACME\\user{number * at % 11}", scope=Scope.USER, access=Access.PERMIT)
        for at in range(1, number % 6 + 2)
    )


def page(number: int) -> Record:
    """Return a record that differs from the others in its URL, its ACL and its metadata."""
    names = range(number % 8 + 1)
    return Record(
        url=f"{HOST}{number}.html",
        action=Action.ADD,
        mimetype="text/html",
        content=Content(b"text"),
        metadata=tuple(Meta(f"name{number * at % 30}", f"value {number}") for at in names),
        acl=Acl(
            principals=principals(number),
            inheritance=Inheritance.LEAF_NODE,
            inherit_from=f"{HOST}f{number % FOLDERS}/",
        ),
        provenance=Provenance(datasource="docs"),
    )


def folder_acl(number: int) -> Record:
    acl = Acl(principals=principals(number), inheritance=Inheritance.CHILD_OVERRIDES, alone=True)
    return Record(url=f"{HOST}f{number}/", action=Action.ADD, acl=acl)


def made(folder: Path, *entries: str) -> AppliedSteps:
    path = folder / "steps.yaml"
    path.write_text("transform:\n" + "".join(f"- {entry}\n" for entry in entries))
    (folder / "people.csv").write_text("ACME\\user3,ann\n")
    steps = read_steps(path)
    steps.prepare(StatedInputs([folder_acl(number) for number in range(FOLDERS)]), folder)
    return steps.make(folder)


def calls_of(work: Callable[[], object]) -> int:
    """Return the number of calls of functions that are written in Python."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


URLS = f"urls: {{rewrite: [['{HOST}', 'https://new.example.com/']]}}"
EXPRESSION = rf"urls: {{rewrite: [['re:{HOST}(.*)', 'https://new.example.com/\1']]}}"
MAPPED = "principals: {rewrite: [['ACME\\*', '*@example.com']]}"
UNMAPPED = "principals: {table: people.csv}"
FILTER = "drop: {mimetype: text/*, principal: 'ACME\\*', metadata: {name3: '*x*'}}"


@pytest.mark.parametrize(
    ("entries", "most"),
    [
        (["keep: {url: 'http://docs.example.com/*'}"], 8),
        (["drop: {mimetype: image/*}"], 6),
        (["keep: {principal: 'ACME\\user*'}"], 7),
        (["drop: {metadata: {name3: '*x*', name4: '*y*'}}"], 12),
        ([FILTER], 18),
        ([URLS], 10),
        ([EXPRESSION], 10),
        (["metadata: {rename: {name1: title}, drop: 'name2*', set: {site: a}}"], 9),
        (["metadata: {move: {'metadata:name7': title}}"], 12),
        ([MAPPED], 9),
        ([UNMAPPED], 9),
        (["principals: {case: lower}"], 9),
        (["acl: effective"], 5),
        ([URLS, MAPPED], 15),
    ],
)
def test_what_was_looked_up_before_is_not_decided_again(
    entries: list[str], most: int, tmp_path: Path
) -> None:
    applied = made(tmp_path, *entries)
    decode, stored = (
        msgspec.msgpack.Decoder(Record).decode,
        [msgspec.msgpack.encode(page(number)) for number in range(RECORDS)],
    )
    first, later = ([*map(decode, stored)] for _ in range(2))
    expected = [applied.apply(record) for record in first]
    assert not any(isinstance(item, Reject) for items in expected for item in items)
    results: list[list[StepResult]] = []
    calls = calls_of(lambda: results.extend(map(applied.apply, later)))
    assert results == expected
    assert calls / RECORDS <= most


class InputsWithoutParents(StatedInputs):
    """Inputs without ACLs that inherit, which are not to be read."""

    def records(self) -> Iterable[ReadResult]:
        raise AssertionError("read")

    def may_inherit(self) -> bool:
        return False


@pytest.mark.parametrize(("before", "is_read"), [(URLS, False), ("python: copy:copy", True)])
def test_inputs_in_which_no_acl_inherits_are_not_read_before(
    before: str, is_read: bool, tmp_path: Path
) -> None:
    path = tmp_path / "steps.yaml"
    path.write_text(f"transform: [{{{before}}}, {{acl: decision}}]\n")
    steps = read_steps(path)
    assert (steps.reading_step(may_inherit=False) is not None) == is_read
    with pytest.raises(AssertionError) if is_read else nullcontext():
        steps.prepare(InputsWithoutParents([]), tmp_path)
    if not is_read:
        [rejected] = steps.make(tmp_path).apply(page(1))  # closed, should an ACL inherit
        assert isinstance(rejected, Reject)
        assert rejected.code == "acl-chain-broken"


def test_a_model_without_a_parent_keeps_its_acl_and_is_not_looked_into(tmp_path: Path) -> None:
    applied = made(tmp_path, "acl: decision")
    assert applied.is_of_model
    name = hole(ColumnKind.TEXT, 1)
    assert isinstance(name, TextHole)
    permit = Principal(name=name, scope=Scope.USER, access=Access.PERMIT)
    record = msgspec.structs.replace(page(1), acl=Acl(principals=(permit,)))
    [result] = applied.apply(record)
    assert result is record


@pytest.mark.parametrize(("entry", "most"), [("acl: effective", 25), ("acl: decision", 35)])
def test_each_pair_of_an_acl_and_a_parent_is_decided_in_few_calls(
    entry: str, most: int, tmp_path: Path
) -> None:
    applied = made(tmp_path, entry)
    for number in range(RECORDS):
        applied.apply(page(number))
    pairs = [
        msgspec.structs.replace(page(number), acl=msgspec.structs.replace(acl, inherit_from=parent))
        for number in range(RECORDS)
        for parent in (f"{HOST}f{(number + 1) % FOLDERS}/",)
        if (acl := page(number).acl) is not None
    ]
    calls = calls_of(lambda: [applied.apply(record) for record in pairs])
    assert calls / RECORDS <= most
