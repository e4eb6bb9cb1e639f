"""Compare records that are converted by columns with records that are converted one by one.

In the root of the repository: `PYTHONPATH=.:tests python tests/benchmarks/batches.py [WORD...]`.
Each input whose name has one of the words is converted; all take about ten minutes. The figures are
processor time for each record, without start-up: of the cut and the conversion, in this process; of
a loop in this process, with lxml or, for listings, one that splits lines; and, for documents, of
`xmllint --stream --noout`, to which the ratio then is. Runs of all take turns. The bytes are
compared.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import feeds, varied_inputs
from benchmarks.loops import LOOPS
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.convert import convert
from feedferry.transforms.conversion.file_spans import cut
from feedferry.transforms.formats import ReadOptions, WriteOptions
from feedferry.transforms.rules.adapt import Target

_RUNS = 3
_SPAN_BYTES = 32 << 20
_TEXT = "The boat left Z\u00fcrich with the tide &amp; a &lt;b>crew&lt;/b>. "
_ACL = '<acl>\n<principal scope="user" access="permit">user{}</principal>\n</acl>\n'


class _Input(NamedTuple):
    """A function that writes a file, and returns the number of its records; its format."""

    write: Callable[[Path], int]
    format: str = "gsa-feed"
    targets: tuple[str, ...] = ("gsa-feed", "avro", "thunderstone", "jsonl")
    loop: str = "lxml loop"
    has_documents: bool = False


class _Times(NamedTuple):
    """Processor time of the cut and the conversion, and the hashes of the chunks."""

    cut: float
    convert: float
    hashes: list[str]


def main(words: list[str]) -> int:
    """Print a line for each input and target."""
    print(f"{'records':28}{'target':14}" + "".join(f"{name:>12}" for name in _COLUMNS))
    for name, given in _INPUTS.items():
        if words and not any(word in name for word in words):
            continue
        with tempfile.TemporaryDirectory(prefix="feedferry-benchmark-") as folder:
            path = Path(folder, "input")
            count = given.write(path)
            for to in given.targets:
                print(f"{name:28}{to:14}{_compare(given, path, to, count=count)}", flush=True)
    return 0


_COLUMNS = ("one by one", "by columns", "cut", "loop", "xmllint", "ratio")


def _compare(given: _Input, path: Path, to: str, *, count: int) -> str:
    """Return the medians of runs in turn."""
    runs = [
        (
            _convert(path, given.format, to, 0),
            _convert(path, given.format, to, 1024),
            _loop(given.loop, path),
            _xmllint(path) if given.has_documents else 0,
        )
        for _ in range(_RUNS)
    ]
    if any(single.hashes != batched.hashes for single, batched, *_ in runs):
        raise AssertionError(f"{path} to {to}: other bytes")
    ratio = median((run[3] or run[2]) / (run[1].cut + run[1].convert) for run in runs)
    seconds = (
        median(run[0].convert for run in runs),
        median(run[1].convert for run in runs),
        median(run[1].cut for run in runs),
        median(run[2] for run in runs),
        median(run[3] for run in runs),
    )
    micros = "".join(f"{of_all / count * 1e6:>9.1f} µs" for of_all in seconds)
    return f"{micros}{ratio:>12.2f}"


def _records(path: Path, *, count: int, metas: tuple[int, ...], size: int) -> int:
    """Write records with so many metadata in turn, and a content of so many characters."""
    path.write_text("".join(_feed(count, metas, size)), "utf-8")
    return count


def _feed(count: int, metas: tuple[int, ...], size: int) -> Iterator[str]:
    feedtype = "<feedtype>incremental</feedtype>"
    yield f"<gsafeed>\n<header><datasource>d</datasource>{feedtype}</header>\n<group>\n"
    for number, most in zip(range(count), cycle(metas), strict=False):
        time_of_day = f"{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"
        yield f'<record url="http://www.example.com/docs/{number}.html?a=1&amp;b={number}"'
        yield f' mimetype="text/html" last-modified="Tue, 06 Nov 2007 {time_of_day} GMT">\n'
        if size > 1_000:
            yield _ACL.format(number % 3)
        pairs = (f'<meta name="name{at}" content="value {number * at}"/>\n' for at in range(most))
        yield f"<metadata>\n{''.join(pairs)}</metadata>\n"
        if size:
            yield f"<content>{_TEXT * (size // len(_TEXT))}</content>\n"
        yield "</record>\n"
    yield "</group>\n</gsafeed>\n"


def _items(path: Path, *, count: int) -> int:
    """Write Thunderstone data with the metadata of small records."""
    with path.open("w", encoding="utf-8") as stream:
        stream.write("<ThunderstoneReplication>\n")
        stream.writelines(map(_item, range(count)))
        stream.write("</ThunderstoneReplication>\n")
    return count


def _item(number: int) -> str:
    return (
        "<Item><Type>U</Type>"
        f"<Url>http://www.example.com/dir{number % 97}/page{number}.html?a=1&amp;b=2</Url>"
        f"<Meta>Name: Jenny Wong {number}\nTitle: Metadata Developer &amp; co\n"
        f"Phone: x{number}\nFloor: {number % 30}\nDepartment: Search quality {number % 1000}</Meta>"
        f"<Modified>2007-11-06 12:45:{number % 60:02d}</Modified><MimeType>text/html</MimeType>"
        "</Item>\n"
    )


def _documents_as_items(path: Path, *, size_bytes: int) -> int:
    """Write a feed of documents as Thunderstone data: a quarter has a Body, the others RawData."""
    feed = path.with_name("documents.xml")
    count = feeds.documents(feed, size_bytes)
    with tempfile.TemporaryDirectory(prefix="feedferry-benchmark-") as folder:
        settings = _settings(Path(folder), "thunderstone", 1024, is_feed=True)
        [chunk] = convert(Span(source=str(feed), format="gsa-feed"), settings).chunks
        shutil.move(Path(folder, chunk.path), path)
    feed.unlink()
    return count


_INPUTS = {
    **{
        f"varied: {name}": _Input(
            partial(varied_inputs.feed, records=10_000 if name == "base64" else 40_000, name=name),
            targets=("gsa-feed", "avro"),
        )
        for name in varied_inputs.FEEDS
    },
    "small records": _Input(partial(feeds.small, records=150_000)),
    "five shapes in turn": _Input(partial(_records, count=60_000, metas=(3, 4, 5, 6, 7), size=0)),
    "text of 300 bytes": _Input(partial(_records, count=40_000, metas=(1,), size=300)),
    "text of 3 kB, ACL": _Input(partial(_records, count=15_000, metas=(1,), size=3_000)),
    "documents of 30 kB": _Input(
        partial(feeds.documents, size_bytes=80_000_000), has_documents=True
    ),
    "listing": _Input(
        partial(feeds.listing, records=500_000),
        format="lister-stream",
        targets=("avro", "jsonl", "lister-stream"),
        loop="split loop",
    ),
    "small Items": _Input(partial(_items, count=150_000), format="thunderstone"),
    "documents as Items": _Input(
        partial(_documents_as_items, size_bytes=80_000_000),
        format="thunderstone",
        has_documents=True,
    ),
}


def _loop(name: str, path: Path) -> float:
    begun = time.process_time()
    stdout = sys.stdout
    try:
        with open(os.devnull, "w") as sys.stdout:
            LOOPS[name](str(path))
    finally:
        sys.stdout = stdout
    return time.process_time() - begun


def _xmllint(path: Path) -> float:
    before = os.times()
    subprocess.run(["xmllint", "--stream", "--noout", "--huge", path], check=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def _convert(path: Path, format_: str, to: str, batch_records: int) -> _Times:
    with tempfile.TemporaryDirectory(prefix="feedferry-benchmark-") as folder:
        settings = _settings(Path(folder), to, batch_records, is_feed=format_ == "gsa-feed")
        whole = Span(source=str(path), format=format_)
        begun = time.process_time()
        spans = cut(whole, span_bytes=_SPAN_BYTES, options=ReadOptions())
        middle = time.process_time()
        chunks = [chunk for span in spans for chunk in convert(span, settings).chunks]
        ended = time.process_time()
        hashes = [chunk.sha256 for chunk in chunks]
        return _Times(middle - begun, ended - middle, hashes)


def _settings(folder: Path, to: str, batch_records: int, *, is_feed: bool) -> Settings:
    """Return settings of a conversion; Items are in no feed, so a target with feeds needs one."""
    target = Target(format=to)
    if to == "gsa-feed" and not is_feed:
        target = Target(format=to, datasource="d", feedtype="incremental")
    return Settings(
        folder=str(folder),
        target=target,
        reading=ReadOptions(),
        writing=WriteOptions(),
        max_chunk_bytes=1 << 30,
        refused=frozenset(),
        batch_records=batch_records,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
