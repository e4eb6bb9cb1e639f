"""A worker process of a local run: Beam's worker, which ends with the command.

It is started as `python -P -m pipelines.convert.worker LOG`, with the settings of its log as JSON.
Its standard input is a pipe that the command holds open and never writes to. When the command ends,
even by SIGKILL, the pipe closes.
"""

import os
import signal
import sys
import threading
from types import FrameType

import msgspec

from pipelines.cli.logs import LogSettings, configure_logging

_STDIN = 0
_ORPHAN_EXIT = 1


def main(log: LogSettings) -> None:
    """Work until the command ends the connection; leave a Ctrl-C of the terminal to the command."""
    # A function, because programs that a worker starts would inherit SIG_IGN.
    signal.signal(signal.SIGINT, _do_nothing)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_the_command, name="parent", daemon=True).start()
    configure_logging(log)
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main(sys.argv)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass


def _end_with_the_command() -> None:
    while os.read(_STDIN, 1):
        pass
    os._exit(_ORPHAN_EXIT)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=LogSettings))
