"""Start the command of a job after a run. Its failure is a text, and changes nothing."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from feedferry.pipelines.job.file.job import Notify
from feedferry.pipelines.report.run_data import read_run_data
from feedferry.transforms.processes import end_group, exit_reason

_STDERR = 2
"""Data of feedferry is on stdout, so what the command prints goes to stderr."""


def notify(command: Notify, folder: Path, *, job: str, exit_code: int) -> str | None:
    """Start the command of a job, and wait for it; return why it failed, None if it did not.

    The words of the command may have secrets, so that a failure does not show them.
    """
    run = read_run_data(folder, has_chunks=False)
    environment = {
        **os.environ,
        "FEEDFERRY_REPORT": str(folder.absolute() / "report.json"),
        "FEEDFERRY_EXIT_CODE": str(exit_code),
        "FEEDFERRY_RUN": folder.name,
        "FEEDFERRY_JOB": job,
        "FEEDFERRY_WITHHELD": str(run.withheld),
        "FEEDFERRY_NEWER": str(run.newer),
    }
    sys.stderr.flush()
    try:
        process = subprocess.Popen(
            shlex.split(command.command),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=_STDERR,
            start_new_session=True,
        )
    except OSError as exc:
        return f"not started: {exc.strerror}"
    try:
        exit_code = process.wait(command.seconds)
    except subprocess.TimeoutExpired:
        return "killed at its time limit; see notify.timeout"
    finally:
        if process.returncode is None:
            end_group(process)
    return f"ended with {exit_reason(exit_code)}" if exit_code else None
