"""Compare inputs that vary with uniform ones, as `python -m benchmarks varied` prints them."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import feeds, sources, varied_inputs
from benchmarks.measure import Measured
from benchmarks.scenarios import MB, Outcome, Scenario, play

_TARGETS = ("gsa-feed", "avro", "jsonl", "thunderstone")
_FEED = "--datasource docs --feedtype incremental"
_ROWS = "--from database --datasource reports --feedtype incremental"
_TREE = "--from files --base-url https://docs.example.com/ --datasource docs"
_UNIFORM = "uniform"
_RECORDS = {"base64": 10_000, _UNIFORM: 300_000}
"""How many records take long enough to be measured, of feeds whose records are large or alike."""

_COLUMNS = ("input", "records", "MB", "next to", "\u00b5s", *_TARGETS, "spread", "MB a process")


def _commands(loop: str, flags: str = "", *targets: str) -> tuple[str, ...]:
    """A loop, and conversions; Thunderstone has no feeds, and its items are in none."""
    stated = dict.fromkeys(targets, flags) | {"thunderstone": ""}
    return (loop, *(" ".join([target, *stated[target].split(), "--jobs 1"]) for target in targets))


def _feed(name: str) -> Scenario:
    """A feed; records without a content that are to be crawled have no place in Thunderstone."""
    has_contents = varied_inputs.FEEDS[name][0] == "incremental"
    return Scenario(
        f"feed, {name}",
        partial(varied_inputs.feed, name=name),
        _RECORDS.get(name, 50_000),
        _commands("lxml loop", "", *_TARGETS[: 4 if has_contents else 3]),
        record_bytes=1_000,
    )


VARIED = (
    *map(_feed, varied_inputs.FEEDS),
    *(
        Scenario(
            f"items, {name}",
            partial(varied_inputs.items, is_varied=name != _UNIFORM),
            _RECORDS.get(name, 50_000),
            _commands("lxml loop", _FEED, *_TARGETS),
            record_bytes=1_000,
        )
        for name in ("varied", _UNIFORM)
    ),
    *(
        Scenario(
            f"groups, {name}",
            partial(varied_inputs.groups, is_varied=name != _UNIFORM),
            20_000,
            _commands("lxml loop", "", "avro", "jsonl"),
            record_bytes=1_000,
        )
        for name in ("varied", _UNIFORM)
    ),
    *(
        Scenario(
            f"listing, {name}",
            make,
            500_000,
            _commands("split loop", "", "avro", "jsonl"),
            record_bytes=100,
        )
        for name, make in (("varied", varied_inputs.listing), (_UNIFORM, feeds.listing))
    ),
    *(
        Scenario(
            f"{server}, {name}",
            make,
            100_000,
            _commands("driver loop", _ROWS, "gsa-feed", "avro"),
            record_bytes=sources.ROW_BYTES,
        )
        for server, name, make in (
            ("SQLite", "varied", varied_inputs.file_table),
            ("SQLite", _UNIFORM, sources.file_table),
            ("PostgreSQL", "varied", varied_inputs.table),
            ("PostgreSQL", _UNIFORM, sources.table),
        )
    ),
    *(
        Scenario(
            f"files, {name}",
            make,
            20_000,
            _commands("cat", _TREE, "gsa-feed", "avro"),
            record_bytes=varied_inputs.FILE_BYTES,
        )
        for name, make in (("varied", varied_inputs.files), (_UNIFORM, sources.small_files))
    ),
)
"""Each kind of input as it varies, and then a uniform one."""


def measure_varied(folder: Path, scenarios: Iterator[Scenario], repeat: int) -> Iterator[str]:
    """Yield the lines of a table: processor time for each record, and the ratio to a loop."""
    yield _line(_COLUMNS)
    startups = defaultdict[str, dict[str, list[Measured]]](dict)
    for scenario in scenarios:
        of_kind = startups[scenario.name.partition(",")[0]]
        yield _row(play(scenario, folder, repeat=repeat, startups=of_kind))


def _row(outcome: Outcome) -> str:
    loop, *conversions = outcome.figures
    by_target = {each.command.split()[0]: each for each in conversions}
    cells = (
        f"{each.cpu_micros:.1f} {each.cpu_ratio:5.2f}" if (each := by_target.get(target)) else ""
        for target in _TARGETS
    )
    return _line(
        (
            outcome.scenario.name,
            f"{outcome.records:,}",
            f"{outcome.feed_bytes / MB:.0f}",
            loop.command,
            f"{loop.cpu_micros:.1f}",
            *cells,
            f"{max(each.cpu_spread for each in outcome.figures):.0%}",
            f"{max(each.max_mb for each in outcome.figures):.0f}",
        )
    )


def _line(cells: tuple[str, ...]) -> str:
    first, *others = cells
    widths = (9, 5, 12, 8, *(14,) * len(_TARGETS), 8, 14)
    return first.ljust(26) + "".join(
        cell.rjust(width) for cell, width in zip(others, widths, strict=True)
    )
