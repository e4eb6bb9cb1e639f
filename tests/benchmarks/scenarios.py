"""The scenarios: an input, the commands that are compared on it, and the aims."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import feeds, receiver, sources, varied_inputs, verbs
from benchmarks.loops import LOOPS, SCRIPTS
from benchmarks.measure import Measured, RunError, measure

MB = 1_000_000
_HERE = Path(__file__).resolve().parent
_FILES = 'find "$1" -type f | sort | tr "\\n" "\\0" | xargs -0 cat'
_PIPES = {"base64": f'{_FILES} | base64 -w0 > "$2"', "cat": f'{_FILES} > "$2"'}
"""Commands of the shell; they write `$2` of the files below `$1`."""
_TREE = "gsa-feed --from files --base-url https://docs.example.com/ --datasource docs"
_ROWS = "gsa-feed --from database --datasource reports"
_FEEDFERRY = "from feedferry.pipelines.cli.main import main; raise SystemExit(main())"
_TOOLS = {
    "xmllint": ("xmllint", "libxml2-utils"),
    "xsltproc": ("xsltproc", "xsltproc"),
    "curl": ("curl", "curl"),
}
"""Programs of commands by their first word, and the Debian packages that have them."""

_COUNTED_SHARE = 10
"""Calls are counted for this part of an input, because counting is slow."""


class Aim(NamedTuple):
    """A bar for one figure of a command: at least, or with `is_most` at most."""

    command: str
    figure: str
    bar: float
    is_most: bool = False


class Scenario(NamedTuple):
    """An input and the commands to compare: ratios are to the first.

    `make` writes `size` bytes, or as many records of `record_bytes` each.
    """

    name: str
    make: Callable[[Path, int], int]
    size: int
    commands: tuple[str, ...]
    aims: tuple[Aim, ...] = ()
    record_bytes: int = 0


class Figures(NamedTuple):
    """Medians of one command, without its start-up but for `startup_cpu`.

    `ratio` is the median of those of each turn, `cpu_ratio` that of the medians. `spread` is the
    range of the wall-clock times by their median, `cpu_spread` that of processor times. `calls` is
    the number of function calls for a record, None where it is not known.
    """

    command: str
    seconds: float
    ratio: float
    cpu_ratio: float
    spread: float
    cpu_spread: float
    cpu: float
    cpu_micros: float
    calls: float | None
    startup_cpu: float
    max_mb: float
    sum_mb: float


class Outcome(NamedTuple):
    """All figures of one scenario."""

    scenario: Scenario
    feed_bytes: int
    records: int
    figures: tuple[Figures, ...]


PUSHING = ("curl", receiver.HASHING, "push")
"""Commands that send a chunk to a receiver; processor time is that of the client."""

SCENARIOS = (
    Scenario(
        "small",
        feeds.small,
        400_000,
        (
            "lxml loop",
            "xmllint",
            "lxml script to gsa-feed",
            "xsltproc to-gsa-feed",
            "gsa-feed --jobs 1",
            "avro --jobs 1",
        ),
        (Aim("gsa-feed --jobs 1", "ratio", 1.3), Aim("avro --jobs 1", "ratio", 0.8)),
        record_bytes=417,
    ),
    Scenario(
        "shapes",
        feeds.shapes,
        300_000,
        ("lxml loop", "gsa-feed --jobs 1"),
        (Aim("gsa-feed --jobs 1", "cpu_micros", 12, is_most=True),),
        record_bytes=422,
    ),
    Scenario(
        "documents",
        feeds.documents,
        300 * MB,
        (
            "xmllint",
            "lxml loop",
            "lxml script to thunderstone",
            "xsltproc to-thunderstone",
            "thunderstone --jobs 1",
        ),
        (Aim("thunderstone --jobs 1", "ratio", 0.58),),
    ),
    Scenario(
        "texts",
        feeds.texts,
        200_000,
        ("gsa-feed --jobs 1", "opensearch --jobs 1"),
        (Aim("opensearch --jobs 1", "ratio", 0.5),),
        record_bytes=1_600,
    ),
    Scenario(
        "indexed",
        feeds.documents,
        300 * MB,
        ("gsa-feed --jobs 1", "opensearch --jobs 1"),
    ),
    Scenario(
        "acls",
        feeds.protected,
        100_000,
        ("gsa-feed --jobs 1", "opensearch --jobs 1"),
        record_bytes=750,
    ),
    Scenario(
        "items",
        feeds.items,
        300 * MB,
        ("xmllint", "lxml script from thunderstone", "gsa-feed --datasource docs --jobs 1"),
        (Aim("gsa-feed --datasource docs --jobs 1", "ratio", 0.5),),
    ),
    Scenario(
        "listing",
        feeds.listing,
        10_000_000,
        ("split loop", "read", "avro --jobs 1"),
        (Aim("avro --jobs 1", "ratio", 0.25),),
        record_bytes=71,
    ),
    Scenario(
        "rows",
        sources.table,
        1_000_000,
        ("driver loop", f"{_ROWS} --jobs 1", f"{_ROWS} --jobs 2"),
        (Aim(f"{_ROWS} --jobs 1", "ratio", 0.4),),
        record_bytes=sources.ROW_BYTES,
    ),
    Scenario(
        "file-rows",
        sources.file_table,
        1_000_000,
        ("driver loop", f"{_ROWS} --jobs 1"),
        (Aim(f"{_ROWS} --jobs 1", "ratio", 0.2),),
        record_bytes=sources.ROW_BYTES,
    ),
    Scenario(
        "files",
        sources.small_files,
        50_000,
        ("cat", f"{_TREE} --jobs 1"),
        (Aim(f"{_TREE} --jobs 1", "ratio", 0.3),),
        record_bytes=sources.SMALL_FILE_BYTES,
    ),
    Scenario(
        "tree",
        sources.tree,
        2_000,
        ("base64", f"{_TREE} --jobs 1", f"{_TREE} --jobs 2"),
        (Aim(f"{_TREE} --jobs 1", "ratio", 1.0),),
        record_bytes=sources.FILE_BYTES,
    ),
    Scenario(
        "compare",
        feeds.small,
        400_000,
        ("read twice", "diff", "verify"),
        (Aim("diff", "ratio", 0.5), Aim("diff", "max_mb", 1000, is_most=True)),
        record_bytes=417,
    ),
    Scenario(
        "check",
        feeds.small,
        400_000,
        ("read once", "validate --no-dtd", "validate", "compact"),
        (Aim("validate", "max_mb", 500, is_most=True),),
        record_bytes=417,
    ),
    Scenario(
        "steps",
        feeds.protected,
        100_000,
        ("no step", "read once", *(f"step {name}" for name in verbs.STEPS)),
        record_bytes=750,
    ),
    Scenario("walk", sources.many, 1_000_000, ("walk",), (), record_bytes=1),
    Scenario(
        "push",
        receiver.finished_run,
        990 * MB,
        PUSHING,
        (Aim("push", "ratio", 0.95), Aim("push", "max_mb", 100, is_most=True)),
    ),
    Scenario(
        "varied-jobs",
        partial(varied_inputs.feed, name="mixed"),
        300_000,
        ("gsa-feed --jobs 1", "gsa-feed --jobs 2"),
        (
            Aim("gsa-feed --jobs 2", "ratio", 1.7),
            Aim("gsa-feed --jobs 1", "max_mb", 200, is_most=True),
            Aim("gsa-feed --jobs 2", "max_mb", 200, is_most=True),
        ),
        record_bytes=1_700,
    ),
    Scenario(
        "jobs",
        feeds.documents,
        2_000 * MB,
        ("thunderstone --jobs 1", "thunderstone --jobs 2"),
        (
            Aim("thunderstone --jobs 2", "ratio", 1.85),
            Aim("thunderstone --jobs 1", "startup_cpu", 1.1, is_most=True),
            Aim("thunderstone --jobs 2", "startup_cpu", 1.9, is_most=True),
            Aim("thunderstone --jobs 1", "max_mb", 200, is_most=True),
            Aim("thunderstone --jobs 2", "max_mb", 200, is_most=True),
        ),
    ),
)


def label_of(command: str) -> str:
    """Return a command without its options but --jobs."""
    first, _, options = command.partition(" --")
    return f"{first} --jobs {options[-1]}" if "--jobs" in command else command


def missing_tools(scenario: Scenario) -> dict[str, str]:
    """Return the commands whose program is not installed, with the package that has it."""
    tools = {command: _TOOLS.get(command.split()[0]) for command in scenario.commands}
    return {
        command: tool[1] for command, tool in tools.items() if tool and not shutil.which(tool[0])
    }


def play(
    scenario: Scenario,
    folder: Path,
    *,
    repeat: int,
    startups: dict[str, list[Measured]] | None = None,
) -> Outcome:
    """Make the feed, run all commands `repeat` times in turn, and take the medians.

    Function calls are counted, unless `startups` has runs of commands with one record, to which new
    commands are added.
    """
    has_calls, startups = startups is None, {} if startups is None else startups
    stem = "-".join(scenario.name.replace(",", "").split())
    feed, small_feed = folder / f"{stem}.xml", folder / "one-record.xml"
    records = scenario.make(feed, scenario.size)
    scenario.make(small_feed, 1)
    new = [command for command in scenario.commands if command not in startups]
    startups |= _in_turn(new, small_feed, repeat=max(repeat, 3))
    runs = _in_turn(scenario.commands, feed, repeat=repeat)
    first = scenario.commands[0]
    reference = _net_times(runs[first], startups[first])
    figures = [
        _figures(command, runs[command], startups[command], reference, records)
        for command in scenario.commands
    ]
    feed_bytes = _size(feed, records)
    _remove(feed)
    counted = [
        each._replace(calls=count_calls(each.command, scenario, small_feed)) if has_calls else each
        for each in figures
    ]
    _remove(small_feed)
    return Outcome(scenario, feed_bytes, records, tuple(counted))


def count_calls(command: str, scenario: Scenario, small_feed: Path) -> float | None:
    """Return the function calls of a conversion of feeds for each record; None for other work."""
    if command in PUSHING or "--jobs 1" not in command or "--from" in command:
        return None
    part = small_feed.with_name("part.xml")
    records = scenario.make(part, max(scenario.size // _COUNTED_SHARE, 1))
    calls = [_calls(path, command.split(maxsplit=1)[0]) for path in (small_feed, part)]
    _remove(part)
    return (calls[1] - calls[0]) / max(records - 1, 1)


def _calls(path: Path, target: str) -> int:
    words = (sys.executable, str(_HERE / "calls.py"), str(path), target)
    counted = subprocess.run(words, capture_output=True, check=False, text=True)
    if counted.returncode:
        raise RunError(f"{' '.join(words)}: {counted.stderr[-2000:]}")
    return int(counted.stdout)


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
        return measure(list(words_of(command, feed, output)), cwd=feed.parent)
    finally:
        shutil.rmtree(output, ignore_errors=True)


def words_of(command: str, feed: Path, output: Path) -> Iterator[str]:
    """Yield the command line that converts or reads a feed; it may write below `output`."""
    if command in SCRIPTS or command.startswith("xsltproc"):
        output.mkdir()
    written = str(output / "written.xml")
    if command == "xmllint":
        yield from ("xmllint", "--stream", "--noout", str(feed))
    elif command.startswith("xsltproc"):
        sheet = _HERE / f"{command.split()[1]}.xsl"
        yield from ("xsltproc", "--novalid", "--nonet", "--huge", "-o", written, str(sheet))
        yield str(feed)
    elif command in _PIPES:
        yield from ("sh", "-c", _PIPES[command], "sh", str(feed), str(feed.parent / "encoded"))
    elif command in LOOPS or command in SCRIPTS:
        yield from (sys.executable, str(_HERE / "loops.py"), command, str(feed), written)
    elif command in verbs.VERBS:
        yield from (sys.executable, "-c", _FEEDFERRY, *verbs.words_of_verb(command, feed, output))
    else:
        target, *flags = command.split()
        yield from (sys.executable, "-c", _FEEDFERRY, "convert", str(feed))
        yield from ("-o", str(output), "--to", target, "--accept-loss", "acl,content")
        yield from ("--fresh", "-q")
        yield from flags


class _NetTimes(NamedTuple):
    """Wall-clock time of each run and the median processor time, both without the start-up."""

    seconds: list[float]
    cpu: float


def _net_times(runs: list[Measured], startups: list[Measured]) -> _NetTimes:
    startup = median(run.seconds for run in startups)
    startup_cpu = median(run.cpu_seconds for run in startups)
    cpu = median(run.cpu_seconds for run in runs) - startup_cpu
    return _NetTimes([max(run.seconds - startup, 0.001) for run in runs], max(cpu, 0.001))


def _figures(
    command: str,
    runs: list[Measured],
    startups: list[Measured],
    reference: _NetTimes,
    records: int,
) -> Figures:
    seconds, cpu = _net_times(runs, startups)
    cpus = [run.cpu_seconds for run in runs]
    return Figures(
        command=command,
        seconds=median(seconds),
        ratio=median(first / own for first, own in zip(reference.seconds, seconds, strict=True)),
        cpu_ratio=reference.cpu / cpu,
        spread=(max(seconds) - min(seconds)) / median(seconds),
        cpu_spread=(max(cpus) - min(cpus)) / median(cpus),
        cpu=cpu,
        cpu_micros=cpu / records * 1e6,
        calls=None,
        startup_cpu=median(run.cpu_seconds for run in startups),
        max_mb=max(run.max_bytes for run in runs) / MB,
        sum_mb=max(run.sum_bytes for run in runs) / MB,
    )
