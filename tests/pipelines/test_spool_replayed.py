"""A spool that is converted, and delivered again, leaves what the deliveries themselves left."""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feedferry.pipelines.serve.rehearsal.index import Index
from feedferry.transforms.sources.spool import read_deliveries
from support.archives import ACL, gsa_feed
from support.rehearsal import digest_missing
from support.runs import convert, keep_levels, manifest
from support.spools import HandSpool

pytestmark = pytest.mark.slow

HOST = "http://www.example.com"
SOURCES = ("crm", "wiki")

Step = tuple[str, str, list[tuple[int, str]]]
"""A delivery: its datasource and feedtype, and of each record the number and what it is."""

records = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(("one", "two", "secret", "delete", "acl"))),
    max_size=3,
)
steps = st.lists(
    st.tuples(st.sampled_from(SOURCES), st.sampled_from(("full", "incremental")), records),
    min_size=1,
    max_size=6,
)


def record(source: str, number: int, what: str) -> str:
    url = f"{HOST}/{source}/{number}"
    if what == "delete":
        return f'<record url="{url}" action="delete"/>'
    if what == "acl":
        return ACL.replace("<acl>", f'<acl url="{url}">')
    inside = ACL if what == "secret" else ""
    text = f"<content>{what}</content>"
    return f'<record url="{url}" mimetype="text/plain">{inside}{text}</record>'


def deliver(spool: HandSpool, step: Step) -> None:
    source, feedtype, changes = step
    lines = [record(source, number, what) for number, what in changes]
    spool.feed(gsa_feed(*lines, datasource=source, feedtype=feedtype), source, feedtype)


def held(spool: HandSpool) -> list[tuple[object, ...]]:
    """What an appliance holds behind all that was delivered."""
    with Index(spool.root / "index.db") as index:
        for delivery in read_deliveries(spool.root):
            digest_missing(index, delivery, spool.root)
        return [
            (
                document.url,
                document.datasource,
                document.sha256,
                document.acl and document.acl.principals,
            )
            for document in index.documents()
        ]


def replayed(folder: Path, deliveries: Iterable[Step], history: str) -> tuple[object, object]:
    """What the deliveries left, and what those that a run made of them left."""
    spool, again = HandSpool(folder / "spool"), HandSpool(folder / "again")
    for step in deliveries:
        deliver(spool, step)
    out = folder / "out"
    target = ("--to", "gsa-feed", "--history", history, "--allow-empty-full")
    words = (str(spool.root), "-o", str(out), *target, "-q")
    with keep_levels():
        assert convert(*words) in (0, 1)
    again.root.mkdir()
    for line in manifest(out):
        again.feed((out / line["path"]).read_bytes(), line["datasource"], line["feedtype"])
    return held(spool), held(again)


@pytest.mark.parametrize("history", ["latest", "all"])
@settings(max_examples=12, deadline=None, suppress_health_check=[*HealthCheck])
@given(deliveries=steps)
def test_what_is_replayed_is_what_was_delivered(history: str, deliveries: list[Step]) -> None:
    with TemporaryDirectory() as folder:
        before, after = replayed(Path(folder), deliveries, history)
    assert after == before


@pytest.mark.parametrize("history", ["latest", "all"])
def test_what_an_empty_full_feed_removed_does_not_come_back(tmp_path: Path, history: str) -> None:
    deliveries: list[Step] = [
        ("crm", "full", [(1, "one")]),
        ("crm", "full", []),
        ("crm", "incremental", [(2, "two")]),
    ]
    before, after = replayed(tmp_path, deliveries, history)
    assert after == before


@pytest.mark.parametrize("history", ["latest", "all"])
def test_a_torn_full_feed_removes_nothing(tmp_path: Path, history: str) -> None:
    spool = HandSpool(tmp_path / "spool")
    deliver(spool, ("crm", "full", [(1, "one"), (2, "two")]))
    lines = [record("crm", number, "two") for number in (1, 2)]
    spool.feed(gsa_feed(*lines)[:-100], "crm", "full")
    before, after = replayed(tmp_path, [], history)
    assert after == before
    assert len(held(spool)) == 2
