"""Signals drain what runs, and the second one has its previous effect."""

import importlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from feedferry.pipelines.observer.signals import (
    DeadlinePassed,
    Terminated,
    deadline_raised,
    draining,
    raised,
    uninterrupted,
)
from feedferry.pipelines.options.display_options import DisplayOptions
from feedferry.pipelines.terminal.display import TerminalObserver


def test_the_first_signal_drains(capfd: pytest.CaptureFixture[str]) -> None:
    drained: list[bool] = []
    before = signal.getsignal(signal.SIGTERM)

    def drain() -> None:
        drained.append(True)
        TerminalObserver(DisplayOptions()).interrupted()

    with draining(drain) as received:
        os.kill(os.getpid(), signal.SIGTERM)

    assert (drained, received.exit_code(0)) == ([True], 143)
    assert signal.getsignal(signal.SIGTERM) is before
    assert capfd.readouterr().err == (
        "feedferry: Finishing the current chunk. Press Ctrl-C again to stop now.\n"
    )


def test_the_second_signal_has_its_previous_effect() -> None:
    drained: list[bool] = []

    def interrupt_twice() -> None:
        with draining(lambda: drained.append(True)):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        interrupt_twice()
    assert drained == [True]


def test_an_ignored_signal_stays_ignored() -> None:
    drained: list[bool] = []
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with draining(lambda: drained.append(True)) as received:
            os.kill(os.getpid(), signal.SIGINT)
            is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert (drained, received.signal, is_ignored) == ([], None, True)


def wait() -> None:
    """Wait in short steps: a signal may come just before a long one begins."""
    while True:
        time.sleep(0.01)


def test_a_deadline_ends_the_block_and_its_timer_ends_with_the_block() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(DeadlinePassed), deadline_raised(time.time() - 1):
        wait()
    with deadline_raised(time.time() + 3600):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_a_deadline_that_passes_at_once_leaves_no_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    def set_timer(_timer: int, seconds: float) -> None:
        if seconds:
            signal.raise_signal(signal.SIGALRM)

    before = signal.getsignal(signal.SIGALRM)
    monkeypatch.setattr(signal, "setitimer", set_timer)
    with pytest.raises(DeadlinePassed), deadline_raised(time.time()):
        pass
    assert signal.getsignal(signal.SIGALRM) is before


def test_a_signal_that_a_finalizer_swallows_is_raised_again() -> None:
    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def wait_for_the_signal() -> None:
        Finalized()
        time.sleep(60)

    hook = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt), raised():
        wait_for_the_signal()
    assert sys.unraisablehook is hook


SWALLOWING = """\
import signal
try:
    signal.raise_signal(signal.{signal})
    is_whole = True
except BaseException:
    is_whole = False
"""
"""A module that ignores an exception while it is imported, as compiled modules do."""


def import_and_wait(name: str) -> None:
    importlib.import_module(name)
    time.sleep(60)


@pytest.mark.parametrize(
    ("sent", "expected"), [("SIGINT", KeyboardInterrupt), ("SIGTERM", Terminated)]
)
def test_a_signal_does_not_interrupt_an_import_and_is_raised_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: str, expected: type[BaseException]
) -> None:
    (tmp_path / f"swallows_{sent}.py").write_text(SWALLOWING.format(signal=sent))
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(expected), raised():
        import_and_wait(f"swallows_{sent}")

    assert sys.modules[f"swallows_{sent}"].is_whole


def test_a_deadline_does_not_interrupt_an_import_and_is_raised_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "swallows_deadline.py").write_text(SWALLOWING.format(signal="SIGALRM"))
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(DeadlinePassed), deadline_raised(time.time() + 3600):
        import_and_wait("swallows_deadline")

    assert sys.modules["swallows_deadline"].is_whole


@uninterrupted
def send_and_work() -> None:
    signal.raise_signal(signal.SIGTERM)
    work.append("done")


work: list[str] = []


def test_a_signal_is_raised_after_a_function_that_is_not_to_be_interrupted() -> None:
    def send_and_wait() -> None:
        send_and_work()
        time.sleep(60)

    work.clear()
    with pytest.raises(Terminated), raised():
        send_and_wait()

    assert work == ["done"]
