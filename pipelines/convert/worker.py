"""A worker process of a local run: Beam's worker, which does not outlive the command.

It is started as `python -P -m pipelines.convert.worker VERBOSITY`. Its standard input is a pipe
that the command holds open and never writes to. When the command ends, also by SIGKILL, the pipe
closes.
"""

import os
import signal
import sys
import threading
from types import FrameType

from pipelines.cli import logs

_STDIN = 0
_ORPHANED_EXIT = 1


def main(verbosity: int) -> None:
    """Work until the command sends no more; a Ctrl-C of the terminal is the command's to handle."""
    # A function, as programs that a worker starts would inherit SIG_IGN.
    signal.signal(signal.SIGINT, _leave_to_the_command)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_the_command, name="parent", daemon=True).start()
    logs.configure(verbosity)
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main(sys.argv)


def _leave_to_the_command(number: int, frame: FrameType | None) -> None:
    pass


def _end_with_the_command() -> None:
    while os.read(_STDIN, 1):
        pass
    os._exit(_ORPHANED_EXIT)


if __name__ == "__main__":
    main(int(sys.argv[1]))
