"""The plan of a job for an index states what is added, withheld and exchanged."""

import json
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from support.archives import put

FEED = """\
<gsafeed><header><datasource>docs</datasource><feedtype>full</feedtype></header><group>
<record url="http://a.example.com/1" mimetype="text/plain"><content>text</content></record>
<record url="http://a.example.com/2"><content encoding="base64binary">%%%</content></record>
</group></gsafeed>
"""
JOB = """\
version: 1
job: intranet
source: {type: gsa-feed, path: a.xml}
target: {type: opensearch, url: http://127.0.0.1:9200, index: intranet, keep_indices: 2}
safety: {accept_holes: true}
"""
STEP = (
    "step      acl: decision is added for the target: it decides who may see each document, by its"
    " ACL and all ACLs above it"
)
EXCHANGE = (
    "full feed intranet-docs: a new index is searched in place of the old one when it has all"
    " documents; old indexes kept: 2"
)
WITHHELD = "withheld  1 document that no user finds until the next version"


def plan(here: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> list[str]:
    put(here / "a.xml", FEED.encode())
    put(here / "job.yaml", JOB.encode())
    assert main(["plan", "job.yaml", *flags]) == 1
    return capsys.readouterr().out.splitlines()


def test_a_plan_states_the_step_the_withheld_documents_and_the_exchange(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {STEP, EXCHANGE, WITHHELD} <= {*plan(here, capsys)}


def test_a_plan_says_that_nothing_is_withheld(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = plan(here, capsys, "--set", "rejects.withhold=false")
    assert WITHHELD not in lines
    [notice] = [line for line in lines if line.startswith("notice    not-withheld: 1")]
    assert notice.endswith("is rejected; the target may show an earlier version as before")


def test_a_plan_as_json_has_the_datasources_of_full_feeds(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = json.loads("\n".join(plan(here, capsys, "--format", "json")))
    assert values["full_feeds"] == ["docs"]
    assert values["exchanges"] == [EXCHANGE.removeprefix("full feed ")]


@pytest.mark.parametrize(
    ("before", "after", "stop"),
    [
        ("docs", "docs", "'docs' has 2 full feeds in one run, of which each replaces the one"),
        ("docs", "Docs", "the datasources 'docs' and 'Docs'; expected one: give another name"),
    ],
)
def test_a_plan_states_that_feeds_replace_each_other(
    here: Path, capsys: pytest.CaptureFixture[str], before: str, after: str, stop: str
) -> None:
    put(here / "a.xml", FEED.replace("%%%", "YQ==").encode())
    put(here / "b.xml", FEED.replace("%%%", "YQ==").replace(f">{before}<", f">{after}<").encode())
    put(here / "job.yaml", JOB.replace("path: a.xml", "path: ['*.xml']").encode())
    assert main(["plan", "job.yaml", "--set", "loss.accept=[content]"]) == 3
    assert stop in capsys.readouterr().err


def test_a_step_of_the_user_is_not_added_again(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(here / "steps.yaml", b"transform: [{acl: {mode: decision}}]\n")
    lines = plan(here, capsys, "--set", "transform=steps.yaml")
    assert not [line for line in lines if line.startswith("step ")]
