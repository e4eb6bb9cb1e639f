"""Measure what a job keeps of ACLs on a first load, in bytes and processor time of each record.

In the folder `tests`: `python -m benchmarks.kept_acls [--size RECORDS]`. Each document has three
principals: of its own, or of 10,000 ACLs; it inherits from one of 900 folders, or not. `kept` are
the ACLs that inherit, `stated` those of a job that maps principals. The bare time is that of a loop
that stores each URL and its ACL as JSON in a table of SQLite.
"""

import argparse
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median

import msgspec

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.record import Action, Provenance, Record
from feedferry.transforms.steps import Steps, read_steps
from feedferry.transforms.steps.kept_acls import KEPT_ACLS, remember_acls, replace_kept
from feedferry.transforms.steps.stated.stated_log import STATED, StatedLog, read_stated
from feedferry.transforms.steps.stated.stated_store import remember_stated
from feedferry.transforms.storage.atomic import AtomicFile
from feedferry.transforms.storage.storage import LocalStorage

_HOST = "http://intranet.example.com"
_FOLDERS, _PRINCIPALS = 900, 3
_Cost = Callable[[Sequence[Record], Path], int]


def main(words: Sequence[str] | None = None) -> None:
    """Print the median of each measure, and its ratio to the bare time before it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kept_acls", description=__doc__)
    parser.add_argument("--size", type=int, default=100_000, help="records")
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the median is shown")
    options = parser.parse_args(words)
    for label, acls, inherits, costs in (
        ("kept, all distinct", options.size, True, _kept),
        ("kept, 10,000 distinct", 10_000, True, _kept),
        ("stated, all distinct", options.size, False, _stated),
        ("stated, 10,000 distinct", 10_000, False, _stated),
        ("stated, all distinct, inheriting", options.size, True, _stated),
    ):
        records = _records(options.size, acls, inherits=inherits)
        pairs = [[_cost(of, records) for of in (_bare, costs)] for _ in range(options.repeat)]
        micros = median(cost.micros for _, cost in pairs)
        ratio = median(cost.micros / bare.micros for bare, cost in pairs)
        size = pairs[0][1].bytes
        print(
            f"{label}: {size:.0f} bytes, {micros:.1f} µs, {ratio:.2f} × the bare loop", flush=True
        )


class _Measured(msgspec.Struct, frozen=True):
    bytes: float
    micros: float


def _cost(of: _Cost, records: Sequence[Record]) -> _Measured:
    with tempfile.TemporaryDirectory(prefix="feedferry-benchmark-") as name:
        begin = time.process_time()
        size = of(records, Path(name))
        micros = (time.process_time() - begin) * 1e6
    return _Measured(size / len(records), micros / len(records))


def _records(size: int, acls: int, *, inherits: bool) -> list[Record]:
    return [
        Record(
            url=f"{_HOST}/team{number % _FOLDERS:03}/document-{number:07}.html",
            action=Action.ADD,
            acl=_acl(number % acls, f"{_HOST}/team{number % _FOLDERS:03}/" if inherits else None),
            provenance=_feed(number),
        )
        for number in range(size)
    ]


def _acl(number: int, parent: str | None) -> Acl:
    principals = tuple(
        Principal(
            name=f"person{number * _PRINCIPALS + each:06}",
            scope=Scope.USER if each else Scope.GROUP,
            access=Access.PERMIT,
        )
        for each in range(_PRINCIPALS)
    )
    return Acl(principals=principals, inherit_from=parent)


def _feed(line: int) -> Provenance:
    return Provenance(source="feed.xml", datasource="intranet", feedtype="full", line=line + 2)


def _folders() -> list[Record]:
    stated = Acl(alone=True, inheritance=Inheritance.PARENT_OVERRIDES)
    return [
        Record(
            url=f"{_HOST}/team{number:03}/", action=Action.UPDATE, acl=stated, provenance=_feed(0)
        )
        for number in range(_FOLDERS)
    ]


class _Inputs:
    """The records of a job without a file of ACLs, as a step reads them."""

    sends_decisions = can_be_read = is_full = True
    run = "first"

    def __init__(self, records: Sequence[Record], kept_acls: Path) -> None:
        self._records = records
        self.kept_acls = kept_acls

    def records(self) -> Sequence[Record]:
        return self._records

    def may_inherit(self) -> bool:
        return True

    def feed_of(self, feed: Provenance) -> tuple[str | None, str | None]:
        return feed.datasource, feed.feedtype


def _kept(records: Sequence[Record], folder: Path) -> int:
    """Return the size of the ACLs that a job keeps after a first run."""
    steps, path, work = _steps(folder, "- acl: decision"), folder / "state.acls", folder / "work"
    work.mkdir()
    steps.prepare(_Inputs([*_folders(), *records], path), work)  # type: ignore[arg-type]
    remember_acls(work / KEPT_ACLS, path)
    return path.stat().st_size


def _stated(records: Sequence[Record], folder: Path) -> int:
    """Return the size of the stated ACLs that a job keeps after a first run."""
    (folder / "people.csv").write_text("one,another\n", "utf-8")
    steps = _steps(folder, "- principals: {table: people.csv}\n- acl: decision")
    mapping, path = steps.mapping(folder), folder / "state.acls"
    assert mapping is not None
    replace_kept(path, ())
    file = AtomicFile(LocalStorage(folder), f"0{STATED}")
    log = StatedLog(file, mapping, datasource=None, feedtype=None)
    for record in records:
        log.add(record, (record,))
    log.close(whole=True)
    remember_stated(read_stated(folder, log.written), (), path, mapping.digest)
    return path.stat().st_size


def _steps(folder: Path, text: str) -> Steps:
    (folder / "steps.yaml").write_text(f"transform:\n{text}\n", "utf-8")
    return read_steps(folder / "steps.yaml")


def _bare(records: Sequence[Record], folder: Path) -> int:
    path = folder / "bare.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("CREATE TABLE acls (url TEXT PRIMARY KEY, acl BLOB) WITHOUT ROWID")
        for record in records:
            row = record.url, msgspec.json.encode(record.acl)
            database.execute("INSERT INTO acls VALUES (?, ?)", row)
    return path.stat().st_size


if __name__ == "__main__":
    main(sys.argv[1:])
