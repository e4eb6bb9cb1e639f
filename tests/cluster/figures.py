"""Measure conversions on Flink beside those of this machine, and of S3 beside those of a folder.

From the root: `PYTHONPATH=tests .venv/bin/python -m cluster.figures` prints a table for
docs/cluster.md.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import NamedTuple

from benchmarks.feeds import documents
from cluster.flink import FlinkCluster, environment, flink_cluster
from support import remotes
from support.ports import kept_port
from support.seaweed import seaweed

FEEDFERRY = [
    sys.executable,
    "-c",
    "from feedferry.pipelines.cli.main import main; raise SystemExit(main())",
]
SAMPLE_SECONDS = 0.3
TICKS = os.sysconf("SC_CLK_TCK")
SPANS = ("--span-bytes", "32MiB")
TO = ("--to", "gsa-feed", "--accept-loss", "acl", *SPANS)
MB = 1_000_000


class Process(NamedTuple):
    """A process as it was last seen."""

    kind: str
    cpu_seconds: float
    peak_bytes: int


class Processes:
    """All processes of some roots and of what they start, sampled until the block ends."""

    def __init__(self, roots: dict[int, str]) -> None:
        self._roots = roots
        self._before = {pid: process.cpu_seconds for pid, process in self._sample().items()}
        self.seen: dict[int, Process] = {}

    def watch(self, end: threading.Event) -> None:
        while not end.wait(SAMPLE_SECONDS):
            self.seen |= self._sample()

    def cpu_seconds(self) -> dict[str, float]:
        """Return the seconds since the begin, by kind of process."""
        seconds: dict[str, float] = defaultdict(float)
        for pid, process in self.seen.items():
            seconds[process.kind] += process.cpu_seconds - self._before.get(pid, 0.0)
        return seconds

    def peaks(self) -> dict[str, int]:
        peaks: dict[str, int] = defaultdict(int)
        for process in self.seen.values():
            peaks[process.kind] = max(peaks[process.kind], process.peak_bytes)
        return peaks

    def _sample(self) -> dict[int, Process]:
        return dict(self._below(self._roots))

    def _below(self, roots: dict[int, str]) -> Iterator[tuple[int, Process]]:
        for pid, kind in roots.items():
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                status = Path(f"/proc/{pid}/status").read_text()
                peak = re.search(r"VmHWM:\s+(\d+)", status)
                if peak is None:  # it has ended
                    continue
                yield pid, Process(kind, sum(map(int, fields[11:13])) / TICKS, int(peak[1]) << 10)
                children = {
                    int(word): kind if kind == "driver" else f"{kind} worker"
                    for path in Path(f"/proc/{pid}/task").glob("*/children")
                    for word in path.read_text().split()
                }
                yield from self._below(children)


@contextmanager
def watched(roots: dict[int, str]) -> Iterator[Processes]:
    processes, end = Processes(roots), threading.Event()
    thread = threading.Thread(target=processes.watch, args=(end,))
    thread.start()
    try:
        yield processes
    finally:
        end.set()
        thread.join()


def requests(port: int) -> dict[str, int]:
    """Return the requests to the S3 server so far, by kind."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    kinds: dict[str, int] = defaultdict(int)
    for labels, number in re.findall(
        r"^SeaweedFS_s3_request_total\{(.*)\} (\S+)", text, re.MULTILINE
    ):
        kind = re.search('type="([^"]+)"', labels)
        kinds[kind[1] if kind else labels] += int(float(number))
    return kinds


def play(name: str, size: int, words: Sequence[str], cluster: FlinkCluster | None) -> None:
    """Convert once, and print a line of the table."""
    begin = time.perf_counter()
    command = [*FEEDFERRY, "convert", *words]
    driver = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL)
    roots = {driver.pid: "driver"}
    if cluster is not None:
        roots |= {process.pid: "TaskManager" for process in cluster.task_managers}
        roots |= {cluster.job_manager.pid: "JobManager", cluster.job_service.pid: "job service"}
        roots |= {cluster.pool.pid: "pool"}
    with watched(roots) as processes:
        if driver.wait(1800):
            raise SystemExit(f"{name}: exit code {driver.returncode}")
    seconds = time.perf_counter() - begin
    cpu = processes.cpu_seconds()
    vertices = [] if cluster is None else cluster.last_job()["vertices"]
    shuffled = sum(vertex["metrics"]["write-bytes"] for vertex in vertices)
    print(f"| {name} | {size / seconds / MB:.0f} MB/s | {sum(cpu.values()):.1f} s |", end="")
    print(f" {shuffled:,} | {os.getloadavg()[0]:.1f} |")
    print("    CPU:", ", ".join(f"{kind} {value:.1f}" for kind, value in cpu.items()))
    print("    peak:", ", ".join(f"{k} {v / MB:.0f} MB" for k, v in processes.peaks().items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    size = parser.parse_args().megabytes * MB
    with tempfile.TemporaryDirectory() as name, kept_port() as port:
        folder = Path(name)
        documents(folder / "a.xml", size)
        (folder / "s3").mkdir()
        (folder / "flink").mkdir()
        outputs = {"folder": str(folder), "S3": f"s3://{remotes.BUCKET}"}
        with (
            seaweed(folder / "s3", metrics_port=port) as endpoint,
            remotes.s3_at(endpoint),
            flink_cluster(folder / "flink") as cluster,
        ):
            places = {f"--jobs {jobs}": ["--jobs", str(jobs)] for jobs in (1, 2)}
            for slots in (1, 2, 4):
                flags = [*cluster.flags, "--", *cluster.beam_flags]
                flags[flags.index("--parallelism") + 1] = str(slots)
                places[f"Flink, {slots} slots"] = flags
            for (title, flags), (kind, root) in product(places.items(), outputs.items()):
                before = requests(port)
                output = f"{root}/{title.replace(' ', '')}"
                words = [str(folder / "a.xml"), *TO, "-q", "-o", output, *flags]
                play(f"{title}, {kind}", size, words, cluster if "Flink" in title else None)
                asked = {word: n - before.get(word, 0) for word, n in requests(port).items()}
                print("    requests:", {word: n for word, n in asked.items() if n}, flush=True)


if __name__ == "__main__":
    main()
