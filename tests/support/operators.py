"""A job as its operator runs it: real processes, killed at chosen moments, and a real receiver."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from feedferry.pipelines.folders.job_folders import runs_of
from feedferry.schemas.run_record import Phase, RunRecord
from support.ports import kept_port
from support.runs import ROOT
from support.served import BOUND_SECONDS, COMMAND, Served, serving, wait_until

RUN_SECONDS = 300.0


class Operator:
    """Runs the job in `folder`; `secrets` are environment variables of its runs."""

    def __init__(self, folder: Path, job: str, text: str, **secrets: str) -> None:
        self.folder = folder
        self.name = job
        self.file = folder / f"{job}.yaml"
        self.home = folder / "runs" / job
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), **secrets}
        self.file.write_text(text, "utf-8")

    def runs(self) -> list[Path]:
        """Return the folders of the runs, the oldest first."""
        return [self.home / record.id for record in runs_of(self.home)]

    def record(self) -> RunRecord:
        """Return the record of the newest run."""
        return runs_of(self.home)[-1]

    def feedferry(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run the command to its end, in a folder that is not that of the job."""
        return subprocess.run(
            [*COMMAND, *words],
            capture_output=True,
            text=True,
            cwd="/",
            env=self._environment,
            timeout=RUN_SECONDS,
            check=False,
        )

    def run(self, *flags: str) -> "subprocess.CompletedProcess[str]":
        return self.feedferry("run", str(self.file), *flags)

    def run_killed(self, phase: Phase, is_due: Callable[[Path], bool]) -> Path:
        """Kill a run in a phase, when its folder is as expected; return that folder."""
        process = subprocess.Popen(
            [*COMMAND, "run", str(self.file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env=self._environment,
            start_new_session=True,
        )

        def has_come() -> bool:
            runs = self.runs()
            return process.poll() is not None or bool(
                runs and self.record().phase is phase and is_due(runs[-1])
            )

        wait_until(has_come)
        was_running = process.poll() is None
        if was_running:
            os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate(timeout=BOUND_SECONDS)
        assert was_running, output
        assert self.record().phase is phase
        return self.runs()[-1]


def has_spans(count: int) -> Callable[[Path], bool]:
    """Whether a conversion has finished some of its spans."""
    return lambda run: len(list(run.glob(".work/*/*.0.json"))) >= count


def has_receipts(count: int) -> Callable[[Path], bool]:
    """Whether a push has some receipts."""
    return lambda run: (
        sum(path.read_bytes().count(b"\n") for path in run.glob("push/*/receipts-*.jsonl")) >= count
    )


class Appliance:
    """A rehearsal appliance at an address that stays the same while it is down."""

    def __init__(self, port: int, spool: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._port = port
        self._spool = spool

    @contextmanager
    def up(self, *flags: str) -> Iterator[Served]:
        with serving(self._spool, "--port", str(self._port), *flags) as served:
            yield served


@contextmanager
def appliance(spool: Path) -> Iterator[Appliance]:
    with kept_port() as port:
        yield Appliance(port, spool)


def contents(served: Served) -> dict[str, str | None]:
    """Return the digest of the content of each document that the appliance has."""
    return {document["url"]: document["sha256"] for document in served.documents()}
