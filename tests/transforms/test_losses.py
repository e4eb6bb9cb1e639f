"""The losses of a conversion are those of its adapters, for each field that a record can have."""

import re

import pytest
from msgspec.structs import asdict

from schemas.record import Action, Crawl, History, Record
from support.runs import ROOT
from transforms.adapt import Target
from transforms.formats import FORMATS
from transforms.losses import EVERY_FIELD, Effect, LossRow, field_samples, loss_table, samples

PAGE = ROOT / "docs" / "losses.md"
WRITTEN = [format_.name for format_ in FORMATS if format_.encoder]
TARGETS = {
    "gsa-feed": Target(format="gsa-feed", feedtype="incremental"),
    "gsa-feed, feedtype metadata-and-url": Target(format="gsa-feed", feedtype="metadata-and-url"),
    "gsa-feed, datasource web": Target(
        format="gsa-feed", feedtype="metadata-and-url", datasource="web"
    ),
    "gsa-feed, dialect 5.0": Target(format="gsa-feed", feedtype="incremental", dialect="5.0"),
} | {name: Target(format=name) for name in WRITTEN if name != "gsa-feed"}

HEAD = """# What is lost where

What each target cannot hold, and what a run does about it by default. `feedferry loss --from FORMAT
--to FORMAT` prints the rows of one conversion. This page is made by running the adapters on sample
records.

- **stops the run**: `--accept-loss FIELD` converts without the field.
- **lost and counted**: the report has the count and examples; `--fail-on-loss FIELD` stops the run.
- **rejected**: the record is set aside with its reason, as `feedferry rejects show` shows it.
- **filtered**: the target does not need the record.

The field or the code is in parentheses if it has another name. The last column has the formats
whose files can hold the field or the kind of record; avro and jsonl hold all of them. A tree, a
database or programs can have any field that their configuration states.
"""


def rows(source: str | None, target: str) -> dict[tuple[str, str], LossRow]:
    table = loss_table(source, TARGETS[target])
    return {(row.item, row.name): row for row in table}


def names(source: str | None, target: str, effect: Effect) -> set[str]:
    return {row.name for row in rows(source, target).values() if row.effect is effect}


def page() -> str:
    """Return the page of all targets."""
    lines = [HEAD]
    for name, target in TARGETS.items():
        lines += [f"## {name}", ""]
        table = loss_table(None, target)
        sources = {
            source.name: rows(source.name, name)
            for source in FORMATS
            if not source.keeps_everything
        }
        if not table:
            lines += ["Nothing is lost.", ""]
            continue
        lines += ["| what | by default | example | in files of |", "|---|---|---|---|"]
        lines += [
            _line(row, [key for key in sources if _occurs(row, sources[key])]) for row in table
        ]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _occurs(row: LossRow, table: dict[tuple[str, str], LossRow]) -> bool:
    return (row.item, row.name) in table


def _line(row: LossRow, sources: list[str]) -> str:
    name = "" if row.name == row.item else f" (`{row.name}`)"
    flag = "" if row.effect in (Effect.LOST, Effect.STOPS) else row.change
    example = "; ".join(filter(None, (row.detail, flag))).replace("|", "\\|")
    example = re.sub(r"(?<=; )(--[a-z-]+)", r"`\1`", example)
    return f"| {row.item}{name} | {row.effect.value} | {example} | {', '.join(sources)} |"


def test_the_sample_states_every_field_of_a_record() -> None:
    full = samples()[EVERY_FIELD]
    assert isinstance(full, Record)
    parts = (full, full.crawl or Crawl(), full.history or History())
    missing = [
        name
        for part in parts
        for name, value in asdict(part).items()
        if value in (None, ()) and name != "provenance"
    ]
    assert missing == []
    sampled = {name for name, _ in field_samples(full)}
    assert {name.replace("-", "_") for name in sampled} == {
        *Record.__struct_fields__,
        *Crawl.__struct_fields__,
    } - {"url", "action", "arrival", "content", "mimetype", "crawl", "provenance"}


def test_there_is_a_sample_of_each_action() -> None:
    assert {str(record.action.value) for record in samples().values()} == {
        *(action.value for action in Action),
        "MEMBERSHIP",
    }


def test_a_gsa_feed_loses_protection_and_hints_at_thunderstone() -> None:
    assert names("gsa-feed", "thunderstone", Effect.STOPS) == {"acl"}
    assert names("gsa-feed", "thunderstone", Effect.LOST) == {
        *("overwrite-acls", "lock", "crawl-immediately", "crawl-once", "authmethod", "pagerank"),
        *("feedrank", "scoring", "display-url", "extras", "metadata"),
    }
    assert names("gsa-feed", "thunderstone", Effect.REJECTED) == {"crawled"}


def test_a_dataload_loses_what_only_an_appliance_of_its_kind_has() -> None:
    assert names("thunderstone", "gsa-feed", Effect.LOST) == {
        *("size", "visited", "next-check", "history", "charset", "body", "fields", "extras"),
        *("metadata", "mimetype"),
    }
    assert names("thunderstone", "gsa-feed", Effect.REJECTED) == {
        *("delete-pattern", "partial-update", "mimetype-missing"),
    }


def test_what_changes_the_default_is_named() -> None:
    found = rows(None, "gsa-feed") | rows(None, "lister-stream")
    assert found["size", "size"].change == "--fail-on-loss size"
    assert found["document with content", "content"].change == "--accept-loss content"
    assert found["URL to be crawled", "no-content"].change == (
        "--feedtype metadata-and-url makes a feed that it crawls"
    )


@pytest.mark.parametrize("target", ["avro", "jsonl"])
def test_canonical_formats_lose_nothing(target: str) -> None:
    assert rows(None, target) == {}


@pytest.mark.parametrize("name", [*WRITTEN, "groups-csv"])
def test_a_format_loses_nothing_to_itself(name: str) -> None:
    """A content feed has no URLs to be crawled; the deletion of a whole host needs a flag."""
    target = "jsonl" if name == "groups-csv" else name
    lost = {
        row.name for row in loss_table(name, TARGETS[target]) if row.effect is not Effect.FILTERED
    }
    assert lost == {"gsa-feed": {"no-content"}, "thunderstone": {"wide-delete"}}.get(name, set())


def test_the_page_of_losses_matches_the_adapters(pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("--accept"):
        PAGE.write_text(page(), "utf-8")
    assert PAGE.read_text("utf-8") == page()
