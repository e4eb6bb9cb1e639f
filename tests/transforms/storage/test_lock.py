"""Exclusive locks between processes."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from feedferry.schemas.errors import BusyError
from feedferry.transforms.storage.files.lock import Lock
from support.runs import ROOT

HOLD = """
import sys, time
from pathlib import Path
from feedferry.transforms.storage.files.lock import Lock
with Lock(Path(sys.argv[1]), where="here", by="run"):
    print("locked", flush=True)
    time.sleep(600)
"""


def take(path: Path) -> Lock:
    return Lock(path, where="here", by="run")


def refusal(path: Path) -> str:
    with pytest.raises(BusyError) as caught:
        take(path)
    return str(caught.value)


def test_a_second_holder_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    with take(tmp_path / "lock"):
        assert refusal(tmp_path / "lock") == (
            f"here: in use by another run, process {os.getpid()} on {socket.gethostname()}; "
            "start again when that has ended"
        )


def test_a_holder_that_has_not_written_its_name_is_not_named(tmp_path: Path) -> None:
    with take(tmp_path / "lock"):
        (tmp_path / "lock").write_bytes(b"")
        assert refusal(tmp_path / "lock") == (
            "here: in use by another run; start again when that has ended"
        )


@pytest.mark.slow
def test_a_killed_process_holds_no_lock(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        message = refusal(tmp_path / "lock")
        process.send_signal(signal.SIGKILL)

    assert f"process {process.pid} on" in message
    take(tmp_path / "lock").close()


def test_a_lock_whose_file_was_removed_is_taken_on_a_new_file(tmp_path: Path) -> None:
    with take(tmp_path / "lock") as first:
        first.remove()
        with take(tmp_path / "lock"):
            assert "in use by another run" in refusal(tmp_path / "lock")
