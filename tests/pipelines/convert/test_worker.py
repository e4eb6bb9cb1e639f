"""Workers load what they share once, without threads of its own."""

import subprocess
import sys

import pytest

from feedferry.pipelines.convert.workers import fork_server
from feedferry.pipelines.options.convert_options import ConvertOptions
from support.runs import ROOT

PROGRAM = """
import os
from feedferry.pipelines.convert.workers.worker import load_numpy
load_numpy()
print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
@pytest.mark.parametrize("threads", [None, "1"])
def test_numpy_is_loaded_without_threads_and_the_environment_is_kept(threads: str | None) -> None:
    environment = {"PYTHONPATH": str(ROOT)}
    if threads:
        environment["OPENBLAS_NUM_THREADS"] = threads
    loaded = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True
    )
    assert loaded.stdout.split() == ["1", str(threads)]


class KilledServer:
    """A fork server that does nothing but remember that it was killed."""

    def __init__(self) -> None:
        self.is_killed = False

    def kill(self) -> None:
        self.is_killed = True


def test_an_interrupt_while_numpy_is_loaded_leaves_no_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    server = KilledServer()
    monkeypatch.setattr(fork_server, "ForkServer", lambda: server)
    monkeypatch.setattr(fork_server, "load_numpy", interrupt)
    options = ConvertOptions(inputs=("a.xml",), output="out", to_format="avro", jobs=2)
    with pytest.raises(KeyboardInterrupt), fork_server.early_fork_server(options):
        pass
    assert server.is_killed
