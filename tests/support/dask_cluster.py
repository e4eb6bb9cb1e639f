"""A Dask cluster on loopback."""

import os
import subprocess
import sys
from pathlib import Path

from support.runs import ROOT
from support.served import wait_until

FEEDFERRY = [
    sys.executable,
    "-c",
    "from feedferry.pipelines.cli.main import main; raise SystemExit(main())",
]
WAIT_SECONDS = 300


def environment() -> dict[str, str]:
    """The present environment, which may have the address of a server, for another process."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


class DaskCluster:
    """A scheduler and two workers, without nannies, so that a killed worker is not replaced.

    They have the present environment, as that of a server of object storage.
    """

    def __init__(self, port: int, log: Path) -> None:
        self.url = f"tcp://127.0.0.1:{port}"
        self._log = log
        host = ("--host", "127.0.0.1")
        self.scheduler = self._start("dask_scheduler", *host, "--port", str(port))
        workers = ("--nthreads", "1", "--no-nanny")
        self.workers = [self._start("dask_worker", self.url, *host, *workers) for _ in range(2)]
        wait_until(lambda: log.read_bytes().count(b"Register worker") == 2)

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait(WAIT_SECONDS)

    def _start(self, name: str, *args: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{name}", *args, "--no-dashboard"]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command, cwd=self._log.parent, env=environment(), stdout=log, stderr=log
            )
