"""What many spans and chunks cost: `PYTHONPATH=.. python -m benchmarks.scale [SHARE]` in `tests`.

Each row is a process of its own; its workers are not counted. SHARE makes everything smaller.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from benchmarks import feeds
from feedferry.pipelines.folders.manifest import read_manifest, receipts_folder, write_manifest
from feedferry.pipelines.options.push_options import parse_push
from feedferry.pipelines.report.run_report import write_report
from feedferry.schemas.account import Account, Chunk, SpanFile
from feedferry.schemas.receipt import ChunkState, Receipt
from feedferry.schemas.span import Span
from feedferry.transforms.sinks.push.push_plan import plan_chunks
from feedferry.transforms.sinks.push.receipts import Receipts
from feedferry.transforms.storage.run_folders.attempts import Attempt
from feedferry.transforms.storage.storage import LocalStorage

_SPANS = 20_000
_ACCOUNTS = 100_000
_BLOCK = 1000
_CHUNKS = 1_000_000
_RECORDS_OF_SPAN = 10
_SPAN_BYTES = 4_100
_URL = "http://127.0.0.1:19900"
_LEFT = 1000
"""Chunks without a receipt."""


def _convert(folder: Path, share: float) -> None:
    """A feed that two workers convert in 20,000 spans."""
    from feedferry.pipelines.cli.main import main as feedferry

    feeds.small(folder / "feed.xml", int(_SPANS * share * _RECORDS_OF_SPAN))
    words = ["convert", str(folder / "feed.xml"), "-o", str(folder / "out"), "--to", "gsa-feed"]
    words += ["--datasource", "benchmark", "--span-bytes", str(_SPAN_BYTES), "--jobs", "2"]
    feedferry([*words, "--quiet"])
    print(sum(1 for _ in (folder / "out/chunks").iterdir()), end=" ")


def _merge(folder: Path, share: float) -> None:
    """The accounts of 100,000 spans, as workers send them."""
    import apache_beam as beam

    from feedferry.pipelines.convert.workers.beam_job import run_to_file
    from feedferry.pipelines.convert.workers.runners import LocalRunner
    from feedferry.pipelines.options.convert_options import ConvertOptions
    from feedferry.transforms.stages import Merge

    blocks = range(int(_ACCOUNTS * share) // _BLOCK)
    pipeline = beam.Pipeline(runner=LocalRunner())
    total = pipeline | beam.Create(blocks) | beam.FlatMap(accounts_of) | Merge()
    options = ConvertOptions(inputs=(), output="", to_format="gsa-feed")
    text = run_to_file(pipeline, total, str(folder), options=options)
    print(msgspec.json.decode(text, type=Account).spans, end=" ")


def _collect(folder: Path, share: float) -> None:
    """The million chunks of 20,000 spans, from the accounts that these have stored."""
    from feedferry.pipelines.convert.publication.span_accounts import collect
    from feedferry.transforms.conversion.conversion_settings import Settings
    from feedferry.transforms.formats import ReadOptions, WriteOptions
    from feedferry.transforms.rules.adapt import Target

    spans = int(_SPANS * share)
    _make("make_accounts", folder, spans)
    settings = Settings(
        folder=str(folder),
        target=Target(format="gsa-feed"),
        reading=ReadOptions(),
        writing=WriteOptions(),
        max_chunk_bytes=1 << 20,
    )
    names = [f"00000-{number:05d}.0.json" for number in range(spans)]
    chunks = collect(Account(stored=names), settings, lambda account: None).chunks
    print(sum(chunk.bytes for chunk in chunks), end=" ")


def _progress(folder: Path, share: float) -> None:
    """The progress of 100,000 finished spans, ten times."""
    from feedferry.pipelines.convert.workers.progress import ConvertProgress
    from feedferry.transforms.conversion.span_progress import SpanProgress, progress_log

    log = progress_log(str(folder))
    for number in range(int(_ACCOUNTS * share)):
        log.finish(f"{number:05d}-00000", SpanProgress(4000, 10, 0))
    progress = ConvertProgress(str(folder), [])
    progress.snapshot()
    begun = time.process_time()
    for _ in range(10):
        records = progress.snapshot().records
    print(records, f"({(time.process_time() - begun) * 100:.2f} ms each time)", end=" ")


def _plan_push(folder: Path, share: float) -> None:
    """A push of a million chunks, of which a thousand are left, up to its first request."""
    from feedferry.pipelines.cli.main import main as feedferry

    _make("make_run", folder, int(_CHUNKS * share))
    feedferry(["push", str(folder), "--to", _URL, "--dry-run"])


def _report(folder: Path, share: float) -> None:
    """The report of a run with a million chunks that are pushed."""
    _make("make_run", folder, int(_CHUNKS * share))
    write_report(folder)
    print((folder / "report.html").stat().st_size, end=" ")


_ROWS: dict[str, Callable[[Path, float], None]] = {
    "convert": _convert,
    "merge": _merge,
    "collect": _collect,
    "progress": _progress,
    "push": _plan_push,
    "report": _report,
}


def accounts_of(block: int) -> Iterator[bytes]:
    """Yield the accounts of some spans; a worker makes them, as a conversion does."""
    counts = {"ADD": 10}
    for number in range(block * _BLOCK, (block + 1) * _BLOCK):
        stored = [f"00000-{number:05d}.0.json"]
        yield msgspec.json.encode(Account(read=counts, written=counts, spans=1, stored=stored))


def make_accounts(name: str, count: int) -> None:
    """Store the accounts of spans with fifty chunks each, as their attempts do."""
    for number in range(count):
        span = Span(source="monday.xml", ordinal=number)
        attempt = Attempt(LocalStorage(Path(name)), span)
        paths = [f"{span.name}/attempt/{span.name}-{at:03d}.xml" for at in range(_CHUNKS // _SPANS)]
        chunks = [replace(_chunk(number), path=path) for path in paths]
        files = [
            SpanFile(path=chunk.path, bytes=chunk.bytes, sha256=chunk.sha256, modified_ns=number)
            for chunk in chunks
        ]
        attempt.commit(Account(spans=1, chunks=chunks, files=files))


def _chunk(ordinal: int) -> Chunk:
    url = f"http://www.example.com/some/where/{ordinal:08d}"
    return Chunk(
        ordinal=ordinal,
        path=f"chunks/{ordinal:08d}-000.xml",
        bytes=4000,
        sha256=f"{ordinal:064x}",
        records={"ADD": 10},
        first_url=f"{url}/first.html",
        last_url=f"{url}/last.html",
        source="/data/feeds/2026/monday.xml",
        span=ordinal,
        format="gsa-feed",
        datasource="benchmark",
        feedtype="incremental",
    )


def _make(function: str, folder: Path, count: int) -> None:
    """Make a run in a process of its own, because making it takes memory too."""
    code = f"from benchmarks.scale import {function}; {function}({str(folder)!r}, {count})"
    subprocess.run([sys.executable, "-c", code], check=True)


def make_run(name: str, count: int) -> None:
    """Make a finished run of small chunks, and the receipts of most of them."""
    folder = Path(name)
    (folder / "report.json").write_text("{}")
    write_manifest(folder, map(_chunk, range(1, count + 1)))
    settings = parse_push({"inputs": (name,), "url": _URL})[1]
    planned = plan_chunks(read_manifest(folder), settings)
    receipts = receipts_folder(folder, settings)
    receipts.mkdir(parents=True)
    header = Receipts(receipts, planned, settings).header
    with (receipts / "receipts-001.jsonl").open("wb") as stream:
        stream.write(msgspec.json.encode(header) + b"\n")
        for ordinal in range(1, count - _LEFT + 1):
            for receipt in _receipts(ordinal):
                stream.write(msgspec.json.encode(receipt) + b"\n")


def _receipts(ordinal: int) -> Iterator[Receipt]:
    sending = Receipt(
        chunk=ordinal,
        sha256=f"{ordinal:064x}",
        state=ChunkState.SENDING,
        feedtype="incremental",
        at="2026-11-21T20:00:00.123+00:00",
    )
    yield sending
    accepted = ChunkState.ACCEPTED
    yield replace(sending, state=accepted, bytes=4500, status=200, reply="Success", seconds=0.012)


def main() -> int:
    """Measure all rows, or as a process of its own one of them."""
    if len(sys.argv) > 2:
        name, share = sys.argv[1], float(sys.argv[2])
        with tempfile.TemporaryDirectory(prefix="feedferry-benchmark-") as folder:
            _ROWS[name](Path(folder), share)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        seconds = usage.ru_utime + usage.ru_stime
        print(f"{name:8}  {seconds:5.1f} s of CPU  {usage.ru_maxrss / 1000:5,.0f} MB", flush=True)
        return 0
    all_of = sys.argv[1] if len(sys.argv) > 1 else "1"
    for name in _ROWS:
        subprocess.run([sys.executable, "-m", "benchmarks.scale", name, all_of], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
