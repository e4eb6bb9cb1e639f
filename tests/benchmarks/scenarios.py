"""The scenarios: an input, the commands that are compared on it, and the aims."""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import feeds, receiver, sources
from benchmarks.loops import LOOPS
from benchmarks.measure import Measured, measure

MB = 1_000_000
_SCRIPTS = Path(__file__).resolve().parent
_FILES = 'find "$1" -type f | sort | tr "\\n" "\\0" | xargs -0 cat'
_PIPES = {"base64": f'{_FILES} | base64 -w0 > "$2"', "cat": f'{_FILES} > "$2"'}
"""Commands of the shell; they write `$2` of the files below `$1`."""
_TREE = "gsa-feed --from files --base-url https://docs.example.com/ --datasource docs"
_ROWS = "gsa-feed --from database --datasource reports"
_FEEDFERRY = "from pipelines.cli.main import main; raise SystemExit(main())"


class Scenario(NamedTuple):
    """An input and the commands to compare. `make` writes `size` bytes or records."""

    name: str
    make: Callable[[Path, int], int]
    size: int
    commands: tuple[str, ...]
    aims: tuple[str, ...]


class Figures(NamedTuple):
    """Medians of one command; `seconds` without the start-up."""

    command: str
    seconds: float
    startup_seconds: float
    sum_bytes: int
    max_bytes: int


class Outcome(NamedTuple):
    """All figures of one scenario."""

    scenario: Scenario
    feed_bytes: int
    records: int
    figures: tuple[Figures, ...]


PUSHING = ("curl", "push")
"""Commands that send a chunk to a receiver."""

SCENARIOS = (
    Scenario(
        "documents",
        feeds.documents,
        300 * MB,
        ("xmllint", "lxml loop", "thunderstone --jobs 1"),
        ("thunderstone --jobs 1: 0.40 of the MB/s of xmllint",),
    ),
    Scenario(
        "small",
        feeds.small,
        400_000,
        ("xmllint", "lxml loop", "avro --jobs 1", "gsa-feed --jobs 1"),
        ("avro and gsa-feed: 120,000 records/s",),
    ),
    Scenario(
        "jobs",
        feeds.documents,
        2_000 * MB,
        ("thunderstone --jobs 1", "thunderstone --jobs 2"),
        ("--jobs 2: 1.6 times --jobs 1", "every process: under 400 MB"),
    ),
    Scenario(
        "memory",
        feeds.documents,
        4_000 * MB,
        ("thunderstone --jobs 1", "thunderstone --jobs 2"),
        ("every process: under 400 MB, as with half the feed",),
    ),
    Scenario(
        "listing",
        feeds.listing,
        10_000_000,
        ("split loop", "read", "avro --jobs 1"),
        ("read: 1,000,000 records/s", "every process: memory as for one record"),
    ),
    Scenario(
        "tree",
        sources.tree,
        2_000,
        ("base64", f"{_TREE} --jobs 1", f"{_TREE} --jobs 2"),
        ("--jobs 1: 0.50 of the MB/s of base64",),
    ),
    Scenario(
        "files",
        sources.small_files,
        10_000,
        ("cat", f"{_TREE} --jobs 1"),
        ("--jobs 1: 0.30 of the MB/s of cat",),
    ),
    Scenario(
        "walk",
        sources.many,
        1_000_000,
        ("walk",),
        ("every process: memory as for one file",),
    ),
    Scenario(
        "rows",
        sources.table,
        1_000_000,
        (f"{_ROWS} --jobs 1", f"{_ROWS} --jobs 2"),
        ("--jobs 1: 60,000 records/s", "--jobs 2: 1.5 times that", "every process: under 300 MB"),
    ),
    Scenario(
        "push",
        receiver.finished_run,
        990 * MB,
        PUSHING,
        ("push: 400 MB/s", "push: 0.80 of the MB/s of curl", "every process: under 100 MB"),
    ),
)
COUNTED = ("small", "listing", "tree", "files", "walk", "rows")
"""Scenarios with a number of records as their size."""


def play(scenario: Scenario, folder: Path, *, repeat: int) -> Outcome:
    """Make the feed, run all commands `repeat` times in turn, and take the medians."""
    feed, small_feed = folder / f"{scenario.name}.xml", folder / "one-record.xml"
    records = scenario.make(feed, scenario.size)
    scenario.make(small_feed, 1)
    startups = _in_turn(scenario.commands, small_feed, repeat=max(repeat, 3))
    runs = _in_turn(scenario.commands, feed, repeat=repeat)
    figures = [_figures(command, runs[command], startups[command]) for command in scenario.commands]
    feed_bytes = _size(feed, records)
    _remove(feed)
    _remove(small_feed)
    return Outcome(scenario, feed_bytes, records, tuple(figures))


def _size(feed: Path, records: int) -> int:
    if feed.is_dir():
        return sum(path.stat().st_size for path in feed.rglob("*") if path.is_file())
    is_mapping = feed.stat().st_size < records
    return records * sources.ROW_BYTES if is_mapping else feed.stat().st_size


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _in_turn(commands: Sequence[str], feed: Path, *, repeat: int) -> dict[str, list[Measured]]:
    """Run A B C A B C …, so that other load on the machine affects all commands."""
    runs: dict[str, list[Measured]] = {command: [] for command in commands}
    for command in [*commands] * repeat:
        runs[command].append(_run(command, feed))
    return runs


def _run(command: str, feed: Path) -> Measured:
    output = feed.parent / "output"
    if command in PUSHING:
        with receiver.receiving(feed.parent) as server:
            words = list(receiver.command_line(command, feed, server))
            return receiver.add_memory(measure(words, cwd=feed.parent), server)
    try:
        return measure(list(_words(command, feed, output)), cwd=feed.parent)
    finally:
        shutil.rmtree(output, ignore_errors=True)


def _words(command: str, feed: Path, output: Path) -> Iterator[str]:
    if command == "xmllint":
        yield from ("xmllint", "--stream", "--noout", str(feed))
    elif command in _PIPES:
        yield from ("sh", "-c", _PIPES[command], "sh", str(feed), str(feed.parent / "encoded"))
    elif command in LOOPS:
        yield from (sys.executable, str(_SCRIPTS / "loops.py"), command, str(feed))
    else:
        target, *flags = command.split()
        yield from (sys.executable, "-c", _FEEDFERRY, "convert", str(feed))
        yield from ("-o", str(output), "--to", target, "--accept-loss", "acl", "--fresh", "-q")
        yield from flags


def _figures(command: str, runs: list[Measured], startups: list[Measured]) -> Figures:
    startup = median(run.seconds for run in startups)
    return Figures(
        command,
        max(median(run.seconds for run in runs) - startup, 0.001),
        startup,
        max(run.sum_bytes for run in runs),
        max(run.max_bytes for run in runs),
    )
