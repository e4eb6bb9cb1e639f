"""Processes are ended with their groups, and children end with their parent."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from feedferry.transforms.processes import end_group, exit_reason, start_child

pytestmark = pytest.mark.slow

ORPHAN = """\
import os, sys
from feedferry.transforms.processes import start_child
start_child("support.idle_child", stdout=1)
sys.stdin.read(1)
os._exit(0)
"""


@pytest.mark.parametrize("grace_seconds", [0.0, 60.0])
def test_the_end_of_a_group_ends_what_it_started(grace_seconds: float) -> None:
    command = ["sh", "-c", "sleep 600 & echo started; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        assert end_group(process, grace_seconds=grace_seconds) == (-15 if grace_seconds else -9)
        assert process.stdout.read() == b""  # the other process holds it open until it has ended
        assert end_group(process) == process.returncode


def test_a_child_ends_when_its_parent_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", ORPHAN]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        parent.stdin.close()
        assert parent.stdout.read() == b""  # the child holds it open until it has ended


def test_a_child_imports_nothing_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.chdir(tmp_path)
    with start_child("support.idle_child", stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        assert end_group(child) == -9


@pytest.mark.parametrize(
    ("code", "reason"), [(3, "exit code 3"), (-9, "SIGKILL"), (-45, "signal 45")]
)
def test_an_exit_code_has_words(code: int, reason: str) -> None:
    assert exit_reason(code) == reason
