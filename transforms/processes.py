"""Processes that this one starts. Each leads a process group, which is ended as a whole.

A *child* runs a module of this program. Its standard input is a pipe that this process holds open,
so that a child ends with it, even if it is killed. A Ctrl-C of the terminal reaches no group but
that of the terminal's own process, so that a child leaves it to its parent.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import FrameType

_STDIN = 0
_ORPHAN_EXIT = 1


def start_child(
    module: str,
    *words: str,
    stdout: int = subprocess.DEVNULL,
    stderr: int | None = None,
    pass_fds: tuple[int, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a module as a child, without a shell and without the working folder on its path."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *words],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env=environment,
        pass_fds=pass_fds,
        start_new_session=True,
    )


def end_group(process: subprocess.Popen[bytes], *, grace_seconds: float = 0.0) -> int:
    """End a process and its group; return the exit code.

    A running process gets SIGTERM first if there is a grace time.
    """
    if grace_seconds and process.poll() is None:
        _signal_group(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace_seconds)
    _signal_group(process, signal.SIGKILL)
    return process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def exit_reason(code: int) -> str:
    """Return an exit code in words.

    >>> exit_reason(3), exit_reason(-9), exit_reason(-35)
    ('exit code 3', 'SIGKILL', 'signal 35')
    """
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def leave_signals_to_parent() -> None:
    """Do nothing at SIGINT and SIGTERM, which a service manager sends to all processes."""

    def ignore(number: int, frame: FrameType | None) -> None:
        """Programs that the child starts would inherit SIG_IGN, but inherit no function."""

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ignore)


def end_at_eof(pipe: int = _STDIN) -> None:
    """End this process when all processes that hold a pipe open have ended, without clean-up."""

    def wait() -> None:
        os.read(pipe, 1)
        os._exit(_ORPHAN_EXIT)

    threading.Thread(target=wait, name="parent", daemon=True).start()
