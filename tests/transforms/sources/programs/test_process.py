"""Runs of programs, mostly of such as misbehave; these are real processes."""

import os
import select
import signal
import threading
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigError, ProgramError, SourceError
from support.listings import shell
from transforms.sources.programs import process
from transforms.sources.programs.config import Programs
from transforms.sources.programs.process import Call, CancelToken, call_of, run

pytestmark = pytest.mark.slow

FOREVER = 60.0
"""More than any test waits."""


class Heard(BytesIO):
    """Output, and a clock for which the time of a program is over when the first byte has come."""

    def monotonic(self) -> float:
        return time.monotonic() + (FOREVER if self.tell() else 0)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    """However slow the start of a program is, it says what it has to say in time."""
    output = Heard()
    monkeypatch.setattr(process, "time", output)
    return output


def behave(*args: str, **bounds: Any) -> Call:  # the fields of a Call
    kept = {"timeout_seconds": FOREVER, "grace_seconds": FOREVER, **bounds}
    return Call(command=shell("behave.sh", *args), **kept)


def trouble_of(call: Call, **given: Any) -> ProgramError:  # the arguments of run
    with pytest.raises(ProgramError) as caught:
        run(call, **given)
    return caught.value


def has_ended(pid: int) -> bool:
    """Whether a process that was killed has ended, or does so now."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ended, _, _ = select.select([process], [], [], FOREVER)
    os.close(process)
    return bool(ended)


def test_the_output_of_a_program_is_returned() -> None:
    assert run(behave("say", "a stream")).stdout == b"a stream"


def test_the_end_of_standard_error_is_returned() -> None:
    assert run(behave("warn", "a disk is full")).stderr_tail == b"a disk is full"


def test_output_can_be_written_to_a_stream() -> None:
    written = BytesIO()
    run(behave("say", "a listing"), output=written)

    assert written.getvalue() == b"a listing"


def test_input_and_output_flow_at_the_same_time() -> None:
    question = bytes(range(256)) * 4096

    assert run(behave("echo"), stdin=question).stdout == question


def test_without_input_standard_input_is_empty() -> None:
    assert run(behave("echo")).stdout == b""


def test_a_program_may_ignore_its_input() -> None:
    assert run(behave("deaf"), stdin=bytes(1 << 20)).stdout == b"heard"


def test_large_output_on_both_streams_does_not_block() -> None:
    output = run(behave("chatter"))

    assert (len(output.stdout), len(output.stderr_tail)) == (300_000, 4096)


def test_the_end_of_standard_error_is_kept() -> None:
    assert run(behave("chatter")).stderr_tail.endswith(b"xthe end")


def test_a_program_runs_in_its_folder(tmp_path: Path) -> None:
    assert run(behave("where", folder=str(tmp_path))).stdout == f"{tmp_path}\n".encode()


def test_a_program_has_the_added_variables() -> None:
    call = behave("variable", "KIND", environment={"KIND": "wiki"})

    assert run(call).stdout == b"wiki"


def test_a_program_inherits_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIND", "wiki")

    assert run(behave("variable", "KIND")).stdout == b"wiki"


def test_a_secret_is_resolved_when_the_program_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    call = behave("variable", "TOKEN", environment={"TOKEN": "Bearer ${env:SECRET}"})
    monkeypatch.setenv("SECRET", "s3same")

    assert run(call).stdout == b"Bearer s3same"


def test_a_missing_secret_is_a_config_error() -> None:
    call = behave("variable", "TOKEN", environment={"TOKEN": "${env:NO_SUCH_SECRET}"})

    with pytest.raises(ConfigError) as caught:
        run(call)

    assert str(caught.value) == (
        "${env:NO_SUCH_SECRET}: not set; expected a variable of the environment"
    )


def test_a_secret_of_the_environment_is_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    call = behave("tell", "TOKEN", environment={"TOKEN": "${env:SECRET}"})
    monkeypatch.setenv("SECRET", "s3same")

    expected = "exit code 1; expected 0; stderr ends 'denied to ***'"
    assert trouble_of(call).reason == expected


def test_hidden_texts_are_in_no_message() -> None:
    call = behave("tell", "TOKEN", environment={"TOKEN": "pa55"})

    expected = "exit code 1; expected 0; stderr ends 'denied to ***'"
    assert trouble_of(call, hidden=("pa55", "")).reason == expected


def test_hidden_texts_are_not_in_standard_error_of_a_success() -> None:
    output = run(behave("warn", "it was pa55"), hidden=("pa55",))

    assert output.stderr_tail == b"it was ***"


def test_a_truncated_secret_in_standard_error_is_hidden() -> None:
    secret = "s3same" * 100
    script = 'yes "$S" | head -n 30 >&2'
    call = Call(command=("/bin/sh", "-c", script), environment={"S": secret})

    assert b"same" not in run(call, hidden=(secret,)).stderr_tail


def test_a_long_secret_does_not_shorten_standard_error() -> None:
    script = 'head -c 20000 /dev/zero >&2; printf %s "$S" >&2'
    call = Call(command=("/bin/sh", "-c", script), environment={"S": "x" * 5000})

    assert run(call, hidden=("x" * 5000,)).stderr_tail == bytes(4093) + b"***"


def test_a_non_zero_exit_code_is_an_error() -> None:
    exc = trouble_of(behave("exit", "3"))

    expected = ("program-exit", "exit code 3; expected 0; stderr ends 'no such disk'", b"half")
    assert (exc.code, exc.reason, exc.stdout) == expected


def test_a_killed_program_is_an_error_with_the_signal() -> None:
    exc = trouble_of(behave("die", "SEGV"))

    expected = (
        "program-signal",
        "killed by SIGSEGV; expected it to exit by itself; nothing on stderr",
        b"half",
    )
    assert (exc.code, exc.reason, exc.stdout) == expected


def test_a_signal_without_a_name_has_its_number() -> None:
    exc = trouble_of(behave("die", str(int(signal.SIGRTMIN) + 3)))

    number = int(signal.SIGRTMIN) + 3
    assert exc.reason.startswith(f"killed by signal {number}; ")


def test_a_program_is_ended_after_the_timeout(heard: Heard) -> None:
    exc = trouble_of(behave("hang"), output=heard)

    expected = (
        "program-timeout",
        "still running after 60 s; expected an end within that time (timeout); nothing on stderr",
        b"half",
    )
    assert (exc.code, exc.reason, exc.stdout) == expected


def test_a_silent_program_is_ended_after_the_timeout() -> None:
    assert trouble_of(behave("mute", "60", timeout_seconds=0.2)).code == "program-timeout"


def test_a_program_with_closed_output_is_waited_for() -> None:
    assert run(behave("mute", "0.2")).stdout == b""


def test_a_program_that_ignores_sigterm_is_killed() -> None:
    call = behave("stubborn", timeout_seconds=0.2, grace_seconds=0.1)

    assert trouble_of(call).code == "program-timeout"


def test_a_program_with_endless_output_is_ended() -> None:
    exc = trouble_of(behave("endless", max_output_bytes=100_000))

    expected = (
        "more than 100000 bytes of output; expected at most that (max_output_bytes); "
        "nothing on stderr"
    )
    assert (exc.code, exc.reason) == ("program-endless", expected)


def test_endless_output_is_kept_up_to_the_limit() -> None:
    assert len(trouble_of(behave("endless", max_output_bytes=100_000)).stdout) <= 100_000


def test_output_of_exactly_the_limit_is_accepted() -> None:
    assert run(behave("say", "four", max_output_bytes=4)).stdout == b"four"


def test_the_whole_process_group_ends_after_a_timeout(heard: Heard) -> None:
    exc = trouble_of(behave("family"), output=heard)

    assert [has_ended(int(pid)) for pid in exc.stdout.split()] == [True, True]


def test_background_processes_end_with_the_program() -> None:
    assert has_ended(int(run(behave("leave-quietly")).stdout))


def test_output_that_a_background_process_keeps_open_is_an_error() -> None:
    exc = trouble_of(behave("leave", "0", grace_seconds=0.2))

    expected = (
        "program-timeout",
        "ended, but another process kept its output open for 0.2 s without writing; expected the "
        "output to end with the program; nothing on stderr",
        b"whole",
    )
    assert (exc.code, exc.reason, exc.stdout) == expected


def test_an_exit_code_wins_over_output_that_stays_open() -> None:
    assert trouble_of(behave("leave", "3", grace_seconds=0.2)).code == "program-exit"


def test_no_zombie_is_left(heard: Heard) -> None:
    leader, _ = map(int, trouble_of(behave("family"), output=heard).stdout.split())

    with pytest.raises(ChildProcessError):
        os.waitpid(leader, os.WNOHANG)


def test_a_missing_program_stops_the_run(tmp_path: Path) -> None:
    call = Call(command=("no-such-program",), folder=str(tmp_path))

    with pytest.raises(SourceError) as caught:
        run(call)

    assert str(caught.value) == (
        "no-such-program: No such file or directory; expected a program on the PATH, or one in "
        f"{tmp_path} with ./ before its name"
    )


def test_a_file_that_is_not_executable_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "notes").write_bytes(b"")

    with pytest.raises(SourceError) as caught:
        run(Call(command=("./notes",), folder=str(tmp_path)))

    assert str(caught.value) == (
        "./notes: Permission denied; expected a program on the PATH, or one in "
        f"{tmp_path} with ./ before its name"
    )


def test_a_missing_folder_stops_the_run(tmp_path: Path) -> None:
    folder = str(tmp_path / "none")

    with pytest.raises(SourceError) as caught:
        run(behave("where", folder=folder))

    assert str(caught.value) == (
        f"{folder}: No such file or directory; expected a folder to run programs in"
    )


def test_an_argument_with_nul_fails_only_this_call() -> None:
    exc = trouble_of(behave("say", "a\0b"))

    assert (exc.code, exc.reason) == (
        "program-argument",
        "an argument that cannot be passed (embedded null byte); expected text without NUL",
    )


def test_a_long_argument_fails_only_this_call() -> None:
    exc = trouble_of(behave("say", "a" * (1 << 20)))

    assert (exc.code, exc.reason) == (
        "program-argument",
        "arguments that are too long for the system; expected a shorter doc id",
    )


def test_cancelling_ends_a_running_program() -> None:
    token = CancelToken()
    timer = threading.Timer(0.1, token.cancel)
    timer.start()
    exc = trouble_of(behave("hang"), token=token)
    timer.join()

    assert exc.code == "program-cut"


def test_a_cancelled_token_starts_no_program() -> None:
    token = CancelToken()
    token.cancel()

    assert trouble_of(Call(command=("no-such-program",)), token=token).code == "program-cut"


def test_a_cancelled_token_does_not_sleep() -> None:
    token = CancelToken()
    token.cancel()

    token.sleep(3600)


def test_a_call_has_the_limits_of_its_programs_file() -> None:
    programs = Programs(
        lister=("list",),
        folder="/srv",
        environment={"A": "b"},
        timeout_seconds=5,
        max_output_bytes=100,
    )

    assert call_of(programs, ("get", "1")) == Call(
        command=("get", "1"),
        folder="/srv",
        environment={"A": "b"},
        timeout_seconds=5,
        max_output_bytes=100,
    )
