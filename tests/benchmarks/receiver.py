"""A receiver for each measured push, and the finished runs that are pushed."""

import hashlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks import feeds
from benchmarks.measure import Measured, RunError, peak_bytes
from feedferry.schemas.account import Chunk

DATASOURCE = "benchmark"
FEED = "chunks/000001.xml"
_SERVE = "from feedferry.pipelines.cli.main import main; raise SystemExit(main())"
_STOP_SECONDS = 60

HASHING = "curl beside openssl"
"""The command that sends a chunk and computes its SHA-256 at the same time, in two processes."""
_BESIDE = 'openssl dgst -sha256 "$0" > /dev/null & "$@" && wait "$!"'


class RunningReceiver(NamedTuple):
    """The URL and the process of a receiver."""

    url: str
    pid: int


def finished_run(path: Path, size: int) -> int:
    """Make a finished run of one chunk of `size` bytes; return the number of its records."""
    (path / "chunks").mkdir(parents=True)
    feed = path / FEED
    records = feeds.documents(feed, size)
    with feed.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    chunk = Chunk(
        ordinal=1,
        path=FEED,
        bytes=feed.stat().st_size,
        sha256=digest,
        records={"ADD": records},
        first_url="",
        last_url="",
        source="",
        span=0,
        format="gsa-feed",
        datasource=DATASOURCE,
        feedtype="incremental",
    )
    (path / "manifest.jsonl").write_bytes(msgspec.json.encode(chunk) + b"\n")
    (path / "report.json").write_text("{}")
    return records


@contextmanager
def receiving(folder: Path) -> Iterator[RunningReceiver]:
    """Run a receiver on loopback, on a free port and an empty spool that is removed."""
    spool = folder / "spool"
    words = ("serve", "--spool", str(spool), "--port", "0", "--min-free", "0", "-q")
    process = subprocess.Popen([sys.executable, "-c", _SERVE, *words], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        if not url:
            raise RunError("the receiver did not start")
        yield RunningReceiver(url.rstrip("/"), process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=_STOP_SECONDS)
        shutil.rmtree(spool, ignore_errors=True)


def command_line(command: str, run: Path, server: RunningReceiver) -> Iterator[str]:
    """Yield the command line of `curl`, alone or beside `openssl`, or `push` with a run."""
    if command == HASHING:
        yield from ("sh", "-c", _BESIDE, str(run / FEED))
        yield from command_line("curl", run, server)
    elif command == "curl":
        yield from ("curl", "-sS", "--fail", "--noproxy", "*", f"{server.url}/xmlfeed")
        for field in (f"datasource={DATASOURCE}", "feedtype=incremental", f"data=@{run / FEED}"):
            yield from ("-F", field)
    else:
        yield from (sys.executable, "-c", _SERVE, "push", str(run), "--to", server.url, "-q")


def add_memory(measured: Measured, server: RunningReceiver) -> Measured:
    """Add the memory of the receiver to that of the client."""
    peak = peak_bytes(server.pid)
    return measured._replace(
        sum_bytes=measured.sum_bytes + peak, max_bytes=max(measured.max_bytes, peak)
    )
