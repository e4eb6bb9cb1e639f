"""Compare feedferry with xmllint and a plain lxml loop, on feeds that the command makes.

In the folder `tests`: `python -m benchmarks`. It takes about half an hour and 9 GB of disk.
`--quick` takes a few minutes; most of that is start-up.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.measure import RunError
from benchmarks.scenarios import COUNTED, MB, SCENARIOS, Figures, Outcome, Scenario, play
from benchmarks.sources import FILE_BYTES, ROW_BYTES, SMALL_FILE_BYTES

_ROOT = Path(__file__).resolve().parents[2]
_QUICK_SHARE = 10
_FEED_TO_DISK = 2.3
"""Disk space for a feed and the converted chunks, by the size of the feed."""

_RECORD_BYTES = {
    "tree": FILE_BYTES,
    "files": SMALL_FILE_BYTES,
    "rows": ROW_BYTES,
    "listing": 71,
    "small": 417,
}
"""Bytes of a record, for scenarios with a number of records as their size."""

_COLUMNS = (
    "command",
    "seconds",
    "MB/s",
    "records/s",
    "ratio",
    "start-up s",
    "MB a process",
    "MB all",
)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, and print a table for each scenario."""
    options = _options(words)
    os.environ["PYTHONPATH"] = str(_ROOT)
    if options.scratch:
        Path(options.scratch).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="feedferry-benchmark-", dir=options.scratch) as folder:
        for scenario in _chosen(options):
            if fault := _missing(scenario, Path(folder)):
                print(f"{scenario.name}: {fault}", file=sys.stderr)
                return 2
            try:
                outcome = play(scenario, Path(folder), repeat=options.repeat)
            except RunError as exc:
                print(f"{scenario.name}: {exc}", file=sys.stderr)
                return 1
            print("\n".join(_table(outcome)), flush=True)
    return 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument("--only", action="append", choices=names, help="may be repeated")
    parser.add_argument("--quick", action="store_true", help="a tenth of each feed, one run each")
    parser.add_argument("--size", type=int, help="MB of a feed, or records where those are counted")
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the median is shown")
    parser.add_argument("--scratch", help="folder for feeds and chunks; they are removed")
    options = parser.parse_args(words)
    options.repeat = 1 if options.quick else options.repeat
    return options


def _chosen(options: argparse.Namespace) -> Iterator[Scenario]:
    for scenario in SCENARIOS:
        if options.only and scenario.name not in options.only:
            continue
        size = scenario.size // (_QUICK_SHARE if options.quick else 1)
        if options.size:
            size = options.size * (1 if scenario.name in COUNTED else MB)
        yield scenario._replace(size=size)


def _missing(scenario: Scenario, folder: Path) -> str | None:
    """Return why a scenario cannot be run, None if it can."""
    if "xmllint" in scenario.commands and not shutil.which("xmllint"):
        return "no xmllint on the path; install libxml2-utils"
    needed = scenario.size * _RECORD_BYTES.get(scenario.name, 1) * _FEED_TO_DISK
    free = shutil.disk_usage(folder).free
    if needed > free:
        return f"{free // MB} MB free in {folder}; expected {needed / MB:.0f} MB: see --scratch"
    return None


def _table(outcome: Outcome) -> Iterator[str]:
    scenario = outcome.scenario
    yield f"\n{scenario.name}: {outcome.feed_bytes / MB:,.0f} MB, {outcome.records:,} records"
    yield f"(start-up subtracted; the ratio is to {scenario.commands[0]})"
    rows = [_COLUMNS, *(_row(figures, outcome) for figures in outcome.figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        first, *others = (f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        yield "  ".join((first.strip().ljust(widths[0]), *others))
    yield from (f"aim: {aim}" for aim in scenario.aims)


def _row(figures: Figures, outcome: Outcome) -> tuple[str, ...]:
    return (
        figures.command,
        f"{figures.seconds:.2f}",
        f"{outcome.feed_bytes / MB / figures.seconds:,.0f}",
        f"{outcome.records / figures.seconds:,.0f}",
        f"{outcome.figures[0].seconds / figures.seconds:.2f}",
        f"{figures.startup_seconds:.2f}",
        f"{figures.max_bytes / MB:,.0f}",
        f"{figures.sum_bytes / MB:,.0f}",
    )


if __name__ == "__main__":
    sys.exit(main())
