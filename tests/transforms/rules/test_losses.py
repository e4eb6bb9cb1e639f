"""The losses of a conversion, as declared, are those of its adapters for each kind and field."""

import re
from collections.abc import Iterator, Mapping, Sequence

import pytest
from msgspec.structs import asdict, replace

from feedferry.schemas.membership import Membership, RecordOrMembership
from feedferry.schemas.record import Action, Crawl, History, Record
from feedferry.schemas.reject import Filtered, Reject
from feedferry.testing.format_tests import RESOLVED
from feedferry.testing.record_samples import DOCUMENT, EVERY_FIELD, field_samples, samples
from feedferry.transforms.formats import FORMATS, FeedOptions, Holds, registered
from feedferry.transforms.rules.adapt import Target, adapt, adapt_membership
from feedferry.transforms.rules.losses import Effect, LossRow, loss_table
from feedferry.transforms.rules.normalize import normalize
from kits import KITS
from support.runs import ROOT
from support.toy_format import TOY

PAGE = ROOT / "docs" / "losses.md"
WRITTEN = [format_.name for format_ in FORMATS.ours if format_.encoder]
TARGETS = {
    "gsa-feed": Target(format="gsa-feed", feedtype="incremental"),
    "gsa-feed, feedtype metadata-and-url": Target(format="gsa-feed", feedtype="metadata-and-url"),
    "gsa-feed, datasource web": Target(
        format="gsa-feed", feedtype="metadata-and-url", datasource="web"
    ),
    "gsa-feed, dialect 5.0": Target(
        format="gsa-feed", feedtype="incremental", own=(FeedOptions(dialect="5.0"),)
    ),
} | {name: Target(format=name) for name in WRITTEN if name != "gsa-feed"}

MARK = "<!-- pytest tests/transforms/rules/test_losses.py --accept writes everything below -->\n"
BASE = "gsa-feed"
"""The target with whose rows the other kinds of GSA feeds are compared."""


def rows(source: str | None, target: str) -> dict[tuple[str, str], LossRow]:
    table = loss_table(source, TARGETS[target])
    return {(row.item, row.name): row for row in table}


def names(source: str | None, target: str, effect: Effect) -> set[str]:
    return {row.name for row in rows(source, target).values() if row.effect is effect}


def reference() -> str:
    """Return the part of the page that lists the losses of all targets."""
    tables = {name: loss_table(None, target) for name, target in TARGETS.items()}
    documents = [table for name, table in tables.items() if table and name != "gsa-groups"]
    shared = [row for row in documents[0] if all(row in table for table in documents)]
    lines = ["", "## All formats but avro, jsonl and those of groups", "", *_list(shared)]
    for name, table in tables.items():
        if table:
            lines += _section(name, tables, shared)
    return "\n".join(lines) + "\n"


def _section(
    name: str, tables: Mapping[str, Sequence[LossRow]], shared: list[LossRow]
) -> Iterator[str]:
    yield from ("", f"## {name}", "")
    like = tables[BASE] if name.startswith(f"{BASE}, ") else ()
    if like:
        named = [_label(row) for row in tables[name]]
        kept = [label for row in like if (label := _label(row)) not in named]
        but = f", but not {', '.join(kept)}" if kept else ""
        yield from (f"As for [{BASE}](#{BASE}){but}, and:", "")
    yield from _list([row for row in tables[name] if row not in [*like, *shared]])


def _list(table: Sequence[LossRow]) -> Iterator[str]:
    """Yield a line for each effect, with what it concerns."""
    groups: dict[tuple[Effect, str], list[LossRow]] = {}
    for row in table:
        groups.setdefault((row.effect, _group_of(row)), []).append(row)
    items: dict[Effect, list[str]] = {}
    for (effect, _), group in groups.items():
        is_lost = effect is Effect.LOST
        what = ", ".join(_label(row) if is_lost else row.item for row in group[:-1])
        what = ", ".join(filter(None, (what, _label(group[-1]))))
        example = "" if is_lost else _example(group[0])
        items.setdefault(effect, []).append(f"{what}{example and ': '}{example}")
    yield from (
        f"- **{effect.value}**: {'; '.join(items[effect])}" for effect in Effect if effect in items
    )


def _group_of(row: LossRow) -> str:
    """Return what the rows have in common that are a single item of the page."""
    stops = row.item if row.name == row.item else f"{row.name} {row.detail}"
    return {Effect.LOST: "", Effect.STOPS: stops}.get(row.effect, row.name)


def _label(row: LossRow) -> str:
    is_partly = row.effect is Effect.LOST and row.detail
    parts = (f"`{row.name}`" * (row.name != row.item), row.detail * bool(is_partly))
    text = "; ".join(filter(None, parts))
    return f"{row.item} ({text})" if text else row.item


def _example(row: LossRow) -> str:
    if row.effect is Effect.STOPS:
        return row.detail
    return re.sub(r"^--[a-z-]+", r"`\g<0>`", row.change)


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
        *("delete-pattern", "partial-update", "mimetype-missing")
    }


def test_what_changes_the_default_is_named() -> None:
    table = rows(None, "gsa-feed") | rows(None, "lister-stream")
    assert table["size", "size"].change == "--fail-on-loss size"
    assert table["document with content", "content"].change == "--accept-loss content"
    assert table["URL to be crawled", "no-content"].change == (
        "--feedtype metadata-and-url makes a feed that it crawls"
    )


@pytest.mark.parametrize("name", TARGETS)
def test_the_adapter_of_a_target_reports_what_its_format_declares(name: str) -> None:
    document = samples()[DOCUMENT]
    assert isinstance(document, Record)
    items = (*samples().values(), *(record for _, record in field_samples(document)))
    reported = {code for item in items for code in _reported(item, TARGETS[name])}
    declared = {row.name for row in loss_table(None, TARGETS[name])}
    assert reported == declared - KITS[TARGETS[name].format].rare_losses


def _reported(item: RecordOrMembership, target: Target) -> Iterator[str]:
    if isinstance(item, Membership):
        outcome = adapt_membership(item, target)
        yield from (outcome.code,) if isinstance(outcome, Filtered) else ()
        return
    outcomes, losses = adapt(normalize(item), target)
    yield from (loss.field for loss in losses)
    codes = [each.code for each in outcomes if isinstance(each, Reject | Filtered)]
    yield from (code for code in codes if code != RESOLVED)


@pytest.mark.parametrize("actions", [{Action.ADD}, set()])
@pytest.mark.parametrize("memberships", [True, False])
def test_a_format_that_is_only_read_has_the_kinds_that_it_holds(
    actions: set[Action], memberships: bool
) -> None:
    holds = Holds(actions=actions, memberships=memberships)
    with registered(replace(TOY, encoder=None, holds=holds)):
        targets = [Target(format=name) for name in ("gsa-groups", "lister-stream")]
        items = {row.item for target in targets for row in loss_table("toy", target)}
    assert ("documents of any kind" in items) == bool(actions)
    assert ("group with members" in items) == memberships


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


def test_the_page_of_losses_matches_the_adapters(accept: bool) -> None:
    written = PAGE.read_text("utf-8").partition(MARK)[0].rstrip("\n") + "\n\n"
    if accept:
        PAGE.write_text(written + MARK + reference(), "utf-8")
    assert PAGE.read_text("utf-8") == written + MARK + reference()
