import os
import signal

import pytest

from pipelines.cli.signals import draining


def test_the_first_signal_drains(capfd: pytest.CaptureFixture[str]) -> None:
    drained: list[bool] = []
    with draining(lambda: drained.append(True)) as heard:
        os.kill(os.getpid(), signal.SIGTERM)

    assert (drained, heard.exit_code(0)) == ([True], 143)
    assert capfd.readouterr().err == (
        "feedferry: the chunk that is under way is finished; once more ends at once\n"
    )


def test_the_second_has_the_effect_that_it_had_before() -> None:
    drained: list[bool] = []

    def interrupt_twice() -> None:
        with draining(lambda: drained.append(True)):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        interrupt_twice()
    assert drained == [True]


def test_a_signal_that_is_ignored_stays_so() -> None:
    drained: list[bool] = []
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with draining(lambda: drained.append(True)) as heard:
            os.kill(os.getpid(), signal.SIGINT)
            is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert (drained, heard.signal, is_ignored) == ([], None, True)


def test_without_a_signal_the_exit_code_is_the_one_that_it_would_be() -> None:
    with draining(lambda: None) as heard:
        pass
    assert heard.exit_code(75) == 75


def test_behind_it_signals_are_what_they_were() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with draining(lambda: None):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
