"""Each rule finds its bad example, once, and nothing in its good one."""

import io
import re
import tempfile
from importlib.resources import files
from pathlib import Path

import pytest

from feedferry.schemas.acl import Acl, Inheritance
from feedferry.schemas.codes import all_codes
from feedferry.schemas.record import Action, Record
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ReadOptions, by_name, sniff
from feedferry.transforms.validate import cross_checks
from feedferry.transforms.validate.cross_checks import CrossChecks
from feedferry.transforms.validate.markup_checks import markup_findings
from feedferry.transforms.validate.rules import Finding, all_rules
from feedferry.transforms.validate.validation import Validation
from support.rule_samples import SAMPLES
from support.runs import ROOT

PAGE = ROOT / "docs" / "validate.md"
BEGIN = "<!-- rules: this list is written by pytest --accept -->"
END = "<!-- rules: end -->"
STATEMENTS = [
    tuple(line.split("\t"))
    for line in Path(__file__).with_name("statements.tsv").read_text("utf-8").splitlines()
]
"""The statements of the specifications, in short, and what is said about each."""

"""The specification of most rules, which their table does not repeat."""

OF_FILES = frozenset({"feed-too-large", "too-many-members"})
"""Rules whose bad examples are too large for a table."""


def findings(document: str) -> list[Finding]:
    data = document.encode()
    name = sniff(data)
    assert name is not None
    format_, span = by_name(name), Span(source="feed.xml", format=name)
    with tempfile.TemporaryDirectory() as folder:
        cross = CrossChecks(Path(folder))
        options = ReadOptions()
        names = format_.element_names
        assert names is not None
        results = format_.read(io.BytesIO(data), span=span, options=options)
        return [
            *markup_findings(io.BytesIO(data), format_, span=span, options=options),
            *Validation(cross).findings(results, has_header=bool(names.header)),
            *cross.findings(),
        ]


@pytest.mark.parametrize("code", SAMPLES)
def test_a_rule_finds_its_bad_example_and_nothing_in_the_good_one(code: str) -> None:
    bad, good = SAMPLES[code]
    found = [(finding.code, finding.severity) for finding in findings(bad)]
    assert found == [(code, all_rules()[code].severity)]
    assert findings(good) == []


def test_a_parent_by_a_fragment_is_the_url_that_an_appliance_gets() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cross = CrossChecks(Path(folder))
        parent = "http://adaptor.example.com/doc/"
        folders = Acl(inheritance=Inheritance.CHILD_OVERRIDES, alone=True)
        child = Acl(inherit_from=parent, inherit_fragment="all folders")
        for url, acl in ((f"{parent}?all%20folders", folders), (f"{parent}a", child)):
            cross.add(Record(url=url, action=Action.ADD, acl=acl))
        assert [*cross.findings()] == []


@pytest.mark.parametrize(("old", "new"), [("<group>\n", ""), ("<record", "</group>\n<record")])
def test_a_record_outside_a_group_is_a_finding(old: str, new: str) -> None:
    _, good = SAMPLES["url-host"]
    assert [finding.code for finding in findings(good.replace(old, new, 1))] == ["dtd"]


@pytest.mark.parametrize("most", [1, 2, 50_000])
def test_children_of_a_parent_are_counted_in_one_finding(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_checks, "_MAX_PARENTS", most)
    with tempfile.TemporaryDirectory() as folder:
        cross = CrossChecks(Path(folder))
        for number in range(9):
            acl = Acl(inherit_from=f"http://www.example.com/{number % 3}/")
            cross.add(Record(url=f"{acl.inherit_from}{number}", action=Action.ADD, acl=acl))
        details = sorted(finding.detail for finding in cross.findings())
    assert details == [
        f"'http://www.example.com/{number}/{number}', and 2 more: inherits from"
        f" 'http://www.example.com/{number}/'; expected a URL with an acl"
        for number in range(3)
    ]


def test_all_rules_but_those_of_whole_files_have_examples() -> None:
    assert {*all_rules()} - OF_FILES == {*SAMPLES}


def test_codes_of_rules_are_unique_and_differ_from_those_of_rejects_and_notices() -> None:
    table = (
        files("feedferry.transforms.validate").joinpath("rules.tsv").read_text("utf-8").splitlines()
    )
    assert len(all_rules()) == sum(not line.startswith("#") for line in table)
    assert not {*all_rules()} & {name for kind, name in all_codes() if kind in ("reject", "notice")}


def test_each_statement_of_the_specifications_has_a_finding_or_a_reason() -> None:
    known = {*all_rules()} | {name for kind, name in all_codes() if kind in ("reject", "notice")}
    verbs = {"convert", "diff", "serve", "=peeker"}
    found = set[str]()
    for _, answer in STATEMENTS:
        codes, _, reason = answer.partition("none")
        assert codes or reason.startswith(": ")
        found.update(re.findall(r"`(.*?)`", answer))
    assert found - verbs <= known
    assert {*all_rules()} <= found


def test_the_page_has_all_rules(accept: bool) -> None:
    before, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    rows = (
        f"- `{rule.code}` ({rule.severity.value}): {rule.meaning}" for rule in all_rules().values()
    )
    expected = "\n\n".join((before + begin, "\n".join(rows), end + after))
    if accept:
        PAGE.write_text(expected, "utf-8")
    assert PAGE.read_text("utf-8") == expected, "write it with: pytest --accept"
