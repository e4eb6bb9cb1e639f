"""A server does not outlive the tests that started it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.runs import ROOT
from support.search_servers import OPENSEARCH_2

pytestmark = pytest.mark.slow

_START = """\
import os, signal, sys
from pathlib import Path
from support import search_servers
with search_servers.search_server(search_servers.OPENSEARCH_2, Path(sys.argv[1])):
    print("ready", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
_BOUND_SECONDS = 120


def is_running(folder: Path) -> bool:
    """Whether a process has the folder of a server in its command."""
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path("/proc", number, "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in command and b"SearchNode" in command:
            return True
    return False


@pytest.mark.parametrize("_server", [OPENSEARCH_2], indirect=True)  # all have the same class
@pytest.mark.usefixtures("server")
def test_a_server_ends_when_its_tests_are_killed(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    command = [sys.executable, "-P", "-c", _START, str(tmp_path)]
    process = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, check=False
    )
    assert process.stdout == b"ready\n"
    end = time.monotonic() + _BOUND_SECONDS
    while is_running(tmp_path):
        assert time.monotonic() < end
        time.sleep(0.1)
