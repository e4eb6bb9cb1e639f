"""Measure the reader of every format, through the stream that production uses.

In the root of the repository: `python tests/benchmarks/readers.py`. The ratio is to the reader of
gsa-feed in the same run.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from feedferry.schemas.acl import Scope
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import Action, Arrival, Content, Meta, Record
from feedferry.schemas.span import Span
from feedferry.transforms.formats import WriteOptions, by_name
from feedferry.transforms.formats.base import write_all
from feedferry.transforms.sources.files import open_span

_RUNS = 3
_DOCUMENTS = 10_000
_GROUPS = 20_000
_MEMBERS = 10
_TEXT = b"The boat left the harbour with the tide. " * 50
_HEADER = b"GSA Adaptor Data Version 1 [\n]\n"


def main() -> int:
    """Print a line for each format."""
    first = 0.0
    print(f"{'format':20}{'MB':>8}{'seconds':>9}{'MB/s':>7}{'records/s':>11}{'ratio':>7}")
    with tempfile.TemporaryDirectory(prefix="feedferry-benchmark-") as folder:
        for name, make in _MAKERS.items():
            path = Path(folder) / name
            make(name, path)
            records = sum(1 for _ in _read(name, path))
            seconds = median(_seconds(name, path) for _ in range(_RUNS))
            megabytes = path.stat().st_size / 1e6
            first = first or megabytes / seconds
            ratio = megabytes / seconds / first
            print(
                f"{name:20}{megabytes:8.1f}{seconds:9.2f}{megabytes / seconds:7.0f}"
                f"{records / seconds:11,.0f}{ratio:7.2f}",
                flush=True,
            )
            path.unlink()
    return 0


def _read(name: str, path: Path) -> Iterator[object]:
    with open_span(Span(source=str(path), path=str(path))) as stream:
        yield from by_name(name).read(stream)


def _seconds(name: str, path: Path) -> float:
    started = time.perf_counter()
    for _ in _read(name, path):
        pass
    return time.perf_counter() - started


def _documents(name: str, path: Path) -> None:
    content = Content(_TEXT)
    metadata = (Meta("Author", "a"), Meta("Title", "b"))
    records = (
        Record(
            url=f"http://www.example.com/{number}",
            action=Action.ADD,
            arrival=Arrival.PUSHED,
            content=content,
            mimetype="text/html",
            metadata=metadata,
        )
        for number in range(_DOCUMENTS)
    )
    with path.open("wb") as stream:
        write_all(by_name(name).make_encoder(WriteOptions()), records, stream)


def _memberships(name: str, path: Path) -> None:
    members = tuple(Member(name=f"user{number}", scope=Scope.USER) for number in range(_MEMBERS))
    groups = (
        Membership(group=Member(name=f"group{number}", scope=Scope.GROUP), members=members)
        for number in range(_GROUPS)
    )
    with path.open("wb") as stream:
        write_all(by_name(name).make_encoder(WriteOptions(memberships=True)), groups, stream)


def _rows(_name: str, path: Path) -> None:
    rows = (
        b"group%d,user%d,user\n" % (number // _MEMBERS, number % _MEMBERS)
        for number in range(_GROUPS * _MEMBERS)
    )
    with path.open("wb") as stream:
        stream.writelines((b"group,member,scope\n", *rows))


def _listing(_name: str, path: Path) -> None:
    lines = (b"id=/documents/%d\nlast-modified=1300000000\n" % n for n in range(_GROUPS * 10))
    with path.open("wb") as stream:
        stream.writelines((_HEADER, *lines))


def _document(_name: str, path: Path) -> None:
    with path.open("wb") as stream:
        stream.writelines((_HEADER, b"id=a\nmime-type=text/html\ncontent\n", _TEXT * 5_000))


def _answers(_name: str, path: Path) -> None:
    lines = (b"id=/documents/%d\nauthz-status=PERMIT\n" % n for n in range(_GROUPS * 5))
    with path.open("wb") as stream:
        stream.writelines((_HEADER, *lines))


_MAKERS: dict[str, Callable[[str, Path], None]] = {
    "gsa-feed": _documents,
    "thunderstone": _documents,
    "jsonl": _documents,
    "avro": _documents,
    "gsa-groups": _memberships,
    "groups-csv": _rows,
    "lister-stream": _listing,
    "retriever-stream": _document,
    "authorizer-stream": _answers,
}

if __name__ == "__main__":
    sys.exit(main())
