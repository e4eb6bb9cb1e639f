"""Compare feedferry with xmllint, lxml and other programs, on inputs that the command makes.

In the folder `tests`: `python -m benchmarks`. It takes about half an hour and 9 GB of disk.
`--quick` takes a few minutes; most of that is start-up. `python -m benchmarks varied` compares
inputs that vary with uniform ones, in about 20 minutes. `python -m benchmarks growth` measures how
time and memory grow with the input and the workers, and draws both.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import growth
from benchmarks.measure import RunError
from benchmarks.scenarios import (
    MB,
    SCENARIOS,
    Aim,
    Figures,
    Outcome,
    Scenario,
    label_of,
    missing_tools,
    play,
)
from benchmarks.varied import VARIED, measure_varied

_ROOT = Path(__file__).resolve().parents[2]
_QUICK_SHARE = 10
_FEED_TO_DISK = 2.3
"""Disk space for a feed and the converted chunks, by the size of the feed."""

_LEAST_SECONDS = 0.2
"""A command that takes less than this beyond its start-up is not judged by its ratio."""

_COLUMNS = (
    "command",
    "seconds",
    "spread",
    "MB/s",
    "records/s",
    "ratio",
    "CPU ratio",
    "CPU s",
    "µs/record",
    "calls",
    "start-up CPU s",
    "MB a process",
    "MB all",
)
_FIGURES = {
    "ratio": "ratio",
    "cpu_micros": "µs/record",
    "startup_cpu": "start-up CPU s",
    "max_mb": "MB a process",
}


def main(words: Sequence[str] | None = None) -> int:
    """Measure, and print a table for each scenario."""
    options = _options(words)
    os.environ["PYTHONPATH"] = str(_ROOT)
    if options.scratch:
        Path(options.scratch).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="feedferry-benchmark-", dir=options.scratch) as name:
        folder = Path(name)
        try:
            if options.what == "growth":
                print("\n".join(growth.measure_growth(folder, options.sizes, options.to)))
                return 0
            if options.what == "varied":
                lines = measure_varied(folder, _chosen(options, VARIED), options.repeat)
                for line in lines:
                    print(line, flush=True)
                return 0
            for scenario in _chosen(options, SCENARIOS):
                _check_space(scenario, folder)
                outcome = play(scenario, folder, repeat=options.repeat)
                print("\n".join(_table(outcome)), flush=True)
        except RunError as exc:
            print(exc, file=sys.stderr)
            return 1
    return 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [scenario.name for scenario in (*SCENARIOS, *VARIED)]
    parser.add_argument(
        "what", nargs="?", choices=["scenarios", "growth", "varied"], default="scenarios"
    )
    parser.add_argument("--only", action="append", choices=names, help="may be repeated")
    parser.add_argument("--quick", action="store_true", help="a tenth of each feed, one run each")
    parser.add_argument("--size", type=int, help="MB of a feed, or records where those are counted")
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the median is shown")
    parser.add_argument("--scratch", help="folder for feeds and chunks; they are removed")
    parser.add_argument("--sizes", type=float, nargs="+", help="GB of the feeds for growth")
    parser.add_argument("--to", type=Path, help="folder for the plots of growth")
    parser.set_defaults(sizes=[0.1, 1, 4, 10], to=_ROOT / "build/growth")
    options = parser.parse_args(words)
    options.repeat = 1 if options.quick else options.repeat
    return options


def _chosen(options: argparse.Namespace, scenarios: Sequence[Scenario]) -> Iterator[Scenario]:
    """Yield the scenarios in their sizes, without the commands that are not installed."""
    for scenario in scenarios:
        if options.only and scenario.name not in options.only:
            continue
        size = scenario.size // (_QUICK_SHARE if options.quick else 1)
        if options.size:
            size = options.size * (1 if scenario.record_bytes else MB)
        missing = missing_tools(scenario)
        for command, package in missing.items():
            print(f"{scenario.name}: no {command}; install {package}", file=sys.stderr)
        commands = tuple(command for command in scenario.commands if command not in missing)
        yield scenario._replace(size=size, commands=commands)


def _check_space(scenario: Scenario, folder: Path) -> None:
    """Raise RunError if the disk is too small for the input and the output."""
    needed = scenario.size * (scenario.record_bytes or 1) * _FEED_TO_DISK
    free = shutil.disk_usage(folder).free
    if needed > free:
        found = f"{free // MB} MB free in {folder}"
        raise RunError(f"{scenario.name}: {found}; expected {needed / MB:.0f} MB: see --scratch")


def _table(outcome: Outcome) -> Iterator[str]:
    scenario = outcome.scenario
    yield f"\n{scenario.name}: {outcome.feed_bytes / MB:,.0f} MB, {outcome.records:,} records"
    yield f"(start-up subtracted; the ratio is to {label_of(scenario.commands[0])})"
    rows = [_COLUMNS, *(_row(figures, outcome) for figures in outcome.figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        first, *others = (f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        yield "  ".join((first.strip().ljust(widths[0]), *others))
    figures_of = {figures.command: figures for figures in outcome.figures}
    yield from (_judge(aim, figures_of[aim.command]) for aim in scenario.aims)


def _judge(aim: Aim, figures: Figures) -> str:
    """Return an aim with the figure that was measured."""
    found: float = getattr(figures, aim.figure)
    is_reached = found <= aim.bar if aim.is_most else found >= aim.bar
    verdict = "reached" if is_reached else "missed"
    if aim.figure in ("ratio", "cpu_micros") and figures.seconds < _LEAST_SECONDS:
        verdict = "the input is too small to tell"
    bound = "at most" if aim.is_most else "at least"
    name = f"{label_of(aim.command)}: {_FIGURES[aim.figure]}"
    return f"aim: {name} {bound} {aim.bar:g}: {found:.2f}, {verdict}"


def _row(figures: Figures, outcome: Outcome) -> tuple[str, ...]:
    return (
        label_of(figures.command),
        f"{figures.seconds:.2f}",
        f"{figures.spread:.0%}",
        f"{outcome.feed_bytes / MB / figures.seconds:,.0f}",
        f"{outcome.records / figures.seconds:,.0f}",
        f"{figures.ratio:.2f}",
        f"{figures.cpu_ratio:.2f}",
        f"{figures.cpu:.2f}",
        f"{figures.cpu_micros:.1f}",
        "" if figures.calls is None else f"{figures.calls:,.1f}",
        f"{figures.startup_cpu:.2f}",
        f"{figures.max_mb:,.0f}",
        f"{figures.sum_mb:,.0f}",
    )


if __name__ == "__main__":
    sys.exit(main())
