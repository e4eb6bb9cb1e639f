"""Compare records that are converted by columns with records that are converted one by one.

In the root of the repository: `python tests/benchmarks/batches.py`. It takes about three minutes.
The figures are processor time in one process, without start-up, for each record; the bytes are
compared.
"""

import runpy
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from statistics import median

from schemas.span import Span
from transforms.conversion_settings import Settings
from transforms.convert import convert
from transforms.formats import ReadOptions, WriteOptions
from transforms.rules.adapt import Target

_RUNS = 3
_LOOP = runpy.run_path(str(Path(__file__).with_name("loops.py")))["LOOPS"]["lxml loop"]
_TARGETS = ("gsa-feed", "avro", "thunderstone")
_TEXT = "The boat left Z\u00fcrich with the tide &amp; a &lt;b>crew&lt;/b>. "
_ACL = '<acl>\n<principal scope="user" access="permit">user{}</principal>\n</acl>\n'
_FEEDS = {
    "metadata, one shape": (60_000, (5,), 0),
    "metadata, five shapes": (60_000, (3, 4, 5, 6, 7), 0),
    "text of 300 bytes": (40_000, (1,), 300),
    "text of 3 kB, ACL": (15_000, (1,), 3_000),
}
"""The number of records, of metadata in each in turn, and of characters of content."""


def main() -> int:
    """Print a line for each feed and target."""
    print(f"{'records':24}{'target':14}{'one by one':>12}{'by columns':>12}{'lxml loop':>11}")
    for name, (count, metas, size) in _FEEDS.items():
        with tempfile.TemporaryDirectory(prefix="feedferry-benchmark-") as folder:
            path = Path(folder, "feed.xml")
            path.write_text("".join(_feed(count, metas, size)), "utf-8")
            loop = median(_seconds_of_loop(path) for _ in range(_RUNS))
            for to in _TARGETS:
                single, batched = (_convert(path, to, records) for records in (0, 1024))
                if single[1] != batched[1]:
                    raise AssertionError(f"{name} to {to}: other bytes")
                micros = (seconds / count * 1e6 for seconds in (single[0], batched[0], loop))
                print(f"{name:24}{to:14}" + "{:>9.1f} µs{:>9.1f} µs{:>8.1f} µs".format(*micros))
                sys.stdout.flush()
    return 0


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


def _seconds_of_loop(path: Path) -> float:
    begun = time.process_time()
    _LOOP(str(path))
    return time.process_time() - begun


def _convert(path: Path, to: str, batch_records: int) -> tuple[float, list[str]]:
    """Return the processor time of the median run, and the hashes of the chunks."""
    runs = []
    for _ in range(_RUNS):
        with tempfile.TemporaryDirectory(prefix="feedferry-benchmark-") as folder:
            settings = Settings(
                folder=folder,
                target=Target(format=to),
                reading=ReadOptions(),
                writing=WriteOptions(),
                max_chunk_bytes=1 << 30,
                refused=frozenset(),
                batch_records=batch_records,
            )
            begun = time.process_time()
            account = convert(Span(source=str(path), format="gsa-feed"), settings)
            runs.append((time.process_time() - begun, [chunk.sha256 for chunk in account.chunks]))
    return sorted(runs)[len(runs) // 2]


if __name__ == "__main__":
    sys.exit(main())
