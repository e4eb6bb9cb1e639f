"""Measure a second run with a state, in which 1 % has changed, by the processor time of processes.

In the folder `tests`: `python -m benchmarks.nights WHAT`, with `sqlite`, `postgresql`, `files` or
`files-posix`. Rows are compared with the bare driver that reads them, and a program that reads the
state. Files are compared with `find -printf`. The time of a run with one document is subtracted.
"""

import argparse
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median

import psycopg

from benchmarks import sources
from benchmarks.measure import measure

_ROOT = Path(__file__).resolve().parents[2]
_FEEDFERRY = "from feedferry.pipelines.cli.main import main; raise SystemExit(main())"
_READ_STATE = (
    "import sqlite3, sys;"
    " rows = sqlite3.connect(sys.argv[1]).execute('SELECT * FROM known ORDER BY key');"
    " print(sum(1 for _ in rows))"
)
_FILES = ("--from", "files", "--base-url", "https://docs.example.com/")
_FLAGS = {
    "sqlite": ("--from", "database"),
    "postgresql": ("--from", "database"),
    "files": _FILES,
    "files-posix": (*_FILES, "--acl", "posix"),
}
_FORMATS = {"files": "%p %s %T@ %C@\\n", "files-posix": "%p %s %T@ %C@ %m %u %g\\n"}
_OLD_SECONDS = 2.5
"""Younger files are read again."""


def main(words: Sequence[str] | None = None) -> None:
    """Measure in turn, and print the medians."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nights", description=__doc__)
    parser.add_argument("what", choices=_FLAGS)
    parser.add_argument("--size", type=int, default=200_000, help="rows or files")
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the median is shown")
    options = parser.parse_args(words)
    os.environ["PYTHONPATH"] = str(_ROOT)
    with tempfile.TemporaryDirectory(prefix="feedferry-benchmark-") as name:
        _measure(options.what, Path(name), options.size, options.repeat)


def _measure(what: str, folder: Path, size: int, repeat: int) -> None:
    source, single = folder / "source", folder / "single"
    _make(what, source, size)
    _make(what, single, 1)
    if what in _FORMATS:
        time.sleep(_OLD_SECONDS)
    for path in (single, source):
        run = _convert(what, path, path.with_suffix(".state"), folder)
        print(f"first run of {path.name}: {measure(run, cwd=folder).cpu_seconds:.2f} s")
    _change(what, source, size)
    bare = [_bare(what, source), _python(_READ_STATE, source.with_suffix(".state"))]
    times: dict[str, list[float]] = {"bare": [], "second run": [], "start-up": []}
    for _ in range(repeat):
        commands = bare[:1] if what in _FORMATS else bare
        times["bare"].append(sum(measure(each, cwd=folder).cpu_seconds for each in commands))
        for label, path in (("second run", source), ("start-up", single)):
            state = shutil.copy(path.with_suffix(".state"), folder / "state")
            run = _convert(what, path, Path(state), folder)
            times[label].append(measure(run, cwd=folder).cpu_seconds)
    columns = zip(times["bare"], times["second run"], times["start-up"], strict=True)
    ratios = [(second - start_up) / bare for bare, second, start_up in columns]
    medians = {label: median(each) for label, each in times.items()}
    net = medians["second run"] - medians["start-up"]
    print({label: round(each, 2) for label, each in medians.items()})
    print(
        f"{what}: {net / size * 1e6:.1f} µs each, {median(ratios):.2f} times the bare time"
        f" ({min(ratios):.2f} to {max(ratios):.2f})"
    )


def _python(code: str, *words: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, words)]


def _convert(what: str, path: Path, state: Path, folder: Path) -> list[str]:
    shutil.rmtree(folder / "out", ignore_errors=True)
    target = ("--to", "gsa-feed", "--datasource", "docs", "--fresh", "-q", "--jobs", "1")
    words = ("convert", path, "-o", folder / "out", *target, "--state", state, *_FLAGS[what])
    return _python(_FEEDFERRY, *words)


def _bare(what: str, path: Path) -> list[str]:
    if what in _FORMATS:
        return ["find", str(path), "-type", "f", "-printf", _FORMATS[what]]
    loops = Path(__file__).with_name("loops.py")
    return [sys.executable, str(loops), "driver loop", str(path), "-"]


def _make(what: str, path: Path, size: int) -> None:
    if what in _FORMATS:
        sources.many(path, max(size, 2))
    else:
        make = sources.file_table if what == "sqlite" else sources.table
        make(path, size)


def _change(what: str, path: Path, size: int) -> None:
    """Change one document in a hundred."""
    if what in _FORMATS:
        for file in sorted(path.rglob("*.txt"))[7::100]:
            file.write_bytes(b"xy")
        return
    if what == "sqlite":
        with closing(sqlite3.connect(path.with_suffix(".db"))) as connection, connection:
            connection.execute("UPDATE rows SET title = title || '!' WHERE id % 100 = 7")
        return
    keys = dict(line.partition(": ")[::2] for line in path.read_text("utf-8").splitlines())
    uri = keys["connection"].replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(uri, autocommit=True) as server:
        table = keys["table"]
        server.execute(f"UPDATE {table} SET title = title || '!' WHERE id % 100 = 7".encode())


if __name__ == "__main__":
    main()
