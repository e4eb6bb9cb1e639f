"""Workers load what they share once, without threads of its own."""

import subprocess
import sys

import pytest

from support.runs import ROOT

PROGRAM = """
import os
from pipelines.convert.worker import load_numpy
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
