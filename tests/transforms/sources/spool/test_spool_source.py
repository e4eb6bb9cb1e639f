"""Spools as the source of a run."""

from pathlib import Path
from typing import Any

import pytest

from feedferry.schemas.choices import SpoolHistory
from feedferry.schemas.delivery import JOURNAL
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ReadOptions
from feedferry.transforms.sources import SPOOLS, SourceOptions, SourceRun
from feedferry.transforms.sources.spool.spool_source import Spool
from support.archives import document, gsa_feed, put
from support.spools import HandSpool

ONE = gsa_feed(document(1))
GROUPS = b"<xmlgroups></xmlgroups>"

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def spool(here: Path) -> HandSpool:
    """A full feed of `crm`, then one of `wiki`."""
    spool = HandSpool(here / "spool")
    spool.feed(ONE, "crm", "full")
    spool.feed(ONE, "wiki")
    return spool


def spool_span(name: str = "spool", *, ordinal: int = 0) -> Span:
    (span,) = SPOOLS.list_inputs((name,), first=ordinal)
    return span


def loaded(**more: Any) -> Spool:
    return SPOOLS.load(spool_span(), SourceOptions(**{"to_format": "gsa-feed", **more}))


def refusal(**more: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(**more)
    return str(caught.value)


def source_run(span: Span, config: Any, *, work: Path, **options: Any) -> SourceRun[Any]:
    """Return a source in a run whose folder is `work`."""
    return SourceRun(
        span=span,
        config=config,
        work=work,
        reading=ReadOptions(),
        options=SourceOptions(**{"to_format": "gsa-feed", **options}),
    )


def cut(spool: Spool, ordinal: int = 0) -> list[tuple[str, str, str]]:
    parts = SPOOLS.split(source_run(spool_span(ordinal=ordinal), spool, work=Path()))
    return [(part.name, part.format, part.source) for part in parts]


def test_a_folder_with_a_journal_and_a_folder_of_feeds_is_a_spool(
    here: Path, spool: HandSpool
) -> None:
    put(here / "new" / JOURNAL, b"")
    (here / "new/incoming").mkdir()
    put(here / "file", b"")
    names = ("spool", "new", "spool/feeds", "nowhere", "file", "http://example.com/spool")
    assert [name for name in names if SPOOLS.matches(name)] == ["spool", "new"]


def test_a_spool_is_one_span(here: Path, spool: HandSpool) -> None:
    assert spool_span("spool//", ordinal=3) == Span(
        source="spool", path=f"{here}/spool", source_ordinal=3, format="spool"
    )


@pytest.mark.parametrize("name", ["nowhere", "spool/feeds", "s3://bucket/spool"])
def test_a_folder_without_a_journal_is_no_spool(spool: HandSpool, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        spool_span(name)
    assert str(caught.value) == (
        f"INPUT: {name!r} has no deliveries.jsonl; expected the folder of feedferry serve --spool"
    )


def test_a_spool_is_loaded_with_its_options(here: Path, spool: HandSpool) -> None:
    selection = loaded(history=SpoolHistory.ALL, only=("wiki",))
    assert (selection.root, selection.history, selection.only) == (
        f"{here}/spool",
        SpoolHistory.ALL,
        ("wiki",),
    )


def test_a_spool_that_grows_is_the_same_source_and_another_in_its_place_is_not(
    spool: HandSpool,
) -> None:
    before = loaded()
    spool.feed(ONE)
    assert loaded() == before
    put(spool.root / JOURNAL, b"")
    HandSpool(spool.root).data(ONE)
    assert loaded() != before


def test_a_spool_without_a_feed_is_refused(spool: HandSpool) -> None:
    put(spool.root / JOURNAL, b'{"ordinal":1')
    assert refusal() == "INPUT: 'spool' holds no feed so far; expected at least one"


def test_a_full_feed_that_would_erase_others_is_refused(spool: HandSpool) -> None:
    assert refusal(datasource="docs") == (
        "--datasource docs: for feeds of 'crm', 'wiki', of which a full one would erase the others;"
        " expected --only NAME, or --feedtype full, which makes one feed of all"
    )


def test_groups_that_would_erase_others_are_refused(spool: HandSpool) -> None:
    spool.groups(GROUPS, "ldap", "replace")
    spool.groups(GROUPS, "ggg")
    assert refusal(datasource="others", to_format="gsa-groups") == (
        "--datasource others: for feeds of 'ggg', 'ldap', of which a full one would erase the"
        " others; expected --only NAME, or --feedtype full, which makes one feed of all"
    )


@pytest.mark.parametrize(
    "more",
    [
        {"feedtype": "full"},
        {"feedtype": "incremental"},
        {"only": ("crm",)},
        {"to_format": "jsonl"},
        {"to_format": "gsa-groups"},
    ],
    ids=["full", "incremental", "one", "archive", "others"],
)
def test_a_datasource_may_be_given_where_nothing_is_erased(
    spool: HandSpool, more: dict[str, Any]
) -> None:
    assert loaded(datasource="docs", **more).source == "spool"


def test_incremental_feeds_may_be_put_together(spool: HandSpool) -> None:
    spool.feed(ONE, "people")
    assert loaded(datasource="docs", only=("wiki", "people")).source == "spool"


def test_each_feed_is_a_source_after_that_of_the_spool(spool: HandSpool) -> None:
    assert cut(loaded(), ordinal=4) == [
        ("00005-00000", "gsa-feed", "spool#1"),
        ("00006-00000", "gsa-feed", "spool#2"),
    ]


def test_the_span_of_the_selection_comes_first_and_is_kept(spool: HandSpool) -> None:
    spool.feed(ONE, "wiki", "full")
    before = cut(loaded())
    assert before == [
        ("00000-00000", "spool-selection", "spool"),
        ("00001-00000", "gsa-feed", "spool#1"),
        ("00002-00000", "gsa-feed", "spool#3"),
    ]
    spool.feed(ONE, "wiki", "full")
    assert cut(loaded()) == before
