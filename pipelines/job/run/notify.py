"""Start the command of a job after a run. Its failure is a text, and changes nothing."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from feedferry.pipelines.job.file.job import Notify
from feedferry.transforms.processes import end_group

_STDERR = 2
"""Data of feedferry is on stdout, so what the command prints goes to stderr."""


def notify(command: Notify, folder: Path, *, job: str, exit_code: int) -> str | None:
    """Start the command of a job, and wait for it; return why it failed, None if it did not.

    The words of the command may have secrets, so that a failure does not show them.
    """
    environment = {
        **os.environ,
        "FEEDFERRY_REPORT": str(folder.absolute() / "report.json"),
        "FEEDFERRY_EXIT_CODE": str(exit_code),
        "FEEDFERRY_RUN": folder.name,
        "FEEDFERRY_JOB": job,
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
        code = process.wait(command.seconds)
    except subprocess.TimeoutExpired:
        end_group(process)
        return "killed at its time limit; see notify.timeout"
    except BaseException:  # a signal
        end_group(process)
        raise
    return f"ended with exit code {code}" if code else None
