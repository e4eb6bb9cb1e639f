"""Runs of programs, most of which misbehave; these are real processes."""

import os
import select
import signal
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from feedferry.schemas.errors import ProgramError, SourceError
from feedferry.transforms.sources.programs.config import Programs, User
from feedferry.transforms.sources.programs.process import Output, run
from support.listings import shell

pytestmark = pytest.mark.slow

FOREVER = 60.0
"""More than any test waits."""


class CancellingOutput(BytesIO):
    """A listing that cancels the program as soon as it has written something."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled = Event()

    def write(self, data: Any) -> int:
        self.cancelled.set()
        return super().write(data)


def limits(**keys: Any) -> Programs:  # the fields of Programs
    return Programs(lister=("list",), **{"timeout_seconds": FOREVER, **keys})


def behave(*args: str, stdin: bytes = b"", **keys: Any) -> Output:
    return run(limits(**keys), shell("behave.sh", *args), stdin=stdin)


def script(text: str, **keys: Any) -> Output:
    return run(limits(**keys), ("/bin/sh", "-c", text))


def error_of(*args: str, **keys: Any) -> ProgramError:
    with pytest.raises(ProgramError) as caught:
        behave(*args, **keys)
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


def test_the_output_and_the_end_of_standard_error_are_returned() -> None:
    assert behave("say", "a stream") == (b"a stream", "; nothing on stderr")
    assert behave("warn", "a disk is full") == (b"", "; stderr ends 'a disk is full'")


def test_output_can_be_written_to_a_stream() -> None:
    written = BytesIO()
    run(limits(), shell("behave.sh", "say", "a listing"), listing=written)

    assert written.getvalue() == b"a listing"


@pytest.mark.parametrize("stdin", [b"", bytes(range(256)) * 4096])
def test_input_and_output_flow_at_the_same_time(stdin: bytes) -> None:
    assert behave("echo", stdin=stdin).stdout == stdin


def test_a_program_may_ignore_its_input() -> None:
    assert behave("deaf", stdin=bytes(1 << 20)).stdout == b"heard"


def test_large_output_on_both_streams_does_not_block() -> None:
    output = behave("chatter")

    assert len(output.stdout) == 300_000
    assert output.stderr == f"; stderr ends '{'x' * 4089}the end'"


def test_a_program_runs_in_its_folder_with_the_added_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s3same")
    monkeypatch.setenv("INHERITED", "yes")
    environment = {"KIND": "wiki", "TOKEN": "Bearer ${env:SECRET}"}
    output = script(
        "pwd; echo $KIND; echo $TOKEN; echo $INHERITED",
        folder=str(tmp_path),
        environment=environment,
    )

    assert output.stdout.decode().splitlines() == [str(tmp_path), "wiki", "Bearer s3same", "yes"]


def test_no_message_shows_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3same")
    user = User(name="tim", password="${env:SECRET}")

    expected = "exit code 1; expected 0; stderr ends 'denied to ***'"
    assert error_of("tell", "TOKEN", environment={"TOKEN": "${env:SECRET}"}).reason == expected
    assert behave("warn", "it was s3same", users=(user,)).stderr == "; stderr ends 'it was ***'"


def test_a_secret_whose_beginning_was_cut_off_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3same" * 100)
    output = script('yes "$S" | head -n 30 >&2', environment={"S": "${env:SECRET}"})

    assert "same" not in output.stderr


def test_a_long_secret_does_not_shorten_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x" * 5000)
    text = "head -c 20000 /dev/zero | tr '\\0' - >&2; printf %s \"$S\" >&2"
    output = script(text, environment={"S": "${env:SECRET}"})

    assert output.stderr == f"; stderr ends '{'-' * 4093}***'"


@pytest.mark.parametrize(
    ("args", "code", "reason"),
    [
        (("exit", "3"), "program-exit", "exit code 3; expected 0; stderr ends 'no such disk'"),
        (
            ("die", "SEGV"),
            "program-signal",
            "killed by SIGSEGV; expected it to exit by itself; nothing on stderr",
        ),
        (
            ("die", str(int(signal.SIGRTMIN) + 3)),
            "program-signal",
            f"killed by signal {int(signal.SIGRTMIN) + 3}; expected it to exit by itself; "
            "nothing on stderr",
        ),
    ],
)
def test_a_failed_program_is_an_error_with_its_output(
    args: tuple[str, ...], code: str, reason: str
) -> None:
    exc = error_of(*args)

    assert (exc.code, exc.reason, exc.stdout) == (code, reason, b"half")


@pytest.mark.parametrize("behaviour", ["hang", "mute", "stubborn"])
def test_a_program_is_ended_after_the_timeout(behaviour: str) -> None:
    exc = error_of(behaviour, "60", timeout_seconds=0.2)

    assert (exc.code, exc.reason) == (
        "program-timeout",
        "still running after 0.2 s; expected an end within that time (timeout); nothing on stderr",
    )


def test_a_program_with_closed_output_is_waited_for() -> None:
    assert behave("mute", "0.2").stdout == b""


def test_a_program_with_endless_output_is_ended() -> None:
    exc = error_of("endless", max_output_bytes=100_000)

    assert (exc.code, exc.reason) == (
        "program-endless",
        "more than 100000 bytes of output; expected at most that (max_output_bytes); "
        "nothing on stderr",
    )
    assert len(exc.stdout) <= 100_000
    assert behave("say", "four", max_output_bytes=4).stdout == b"four"


def test_the_whole_process_group_ends_and_no_zombie_is_left() -> None:
    output = CancellingOutput()
    with pytest.raises(ProgramError) as caught:
        run(limits(), shell("behave.sh", "family"), listing=output, cancelled=output.cancelled)

    leader, child = map(int, output.getvalue().split())
    assert (caught.value.code, has_ended(leader), has_ended(child)) == ("program-cut", True, True)
    with pytest.raises(ChildProcessError):
        os.waitpid(leader, os.WNOHANG)


def test_background_processes_end_with_the_program() -> None:
    assert has_ended(int(behave("leave-quietly").stdout))


def test_output_that_a_background_process_keeps_open_is_an_error() -> None:
    exc = error_of("leave", "0")

    assert (exc.code, exc.reason, exc.stdout) == (
        "program-timeout",
        "ended, but another process kept its output open for 2 s without writing; expected the "
        "output to end with the program; nothing on stderr",
        b"whole",
    )
    assert error_of("leave", "3").code == "program-exit"


@pytest.mark.parametrize(
    ("command", "finding"),
    [("no-such-program", "No such file or directory"), ("./notes", "Permission denied")],
)
def test_a_program_that_cannot_be_started_stops_the_run(
    tmp_path: Path, command: str, finding: str
) -> None:
    (tmp_path / "notes").write_bytes(b"")

    with pytest.raises(SourceError) as caught:
        run(limits(folder=str(tmp_path)), (command,))

    assert str(caught.value) == (
        f"{command}: {finding}; expected a program on the PATH, or one in {tmp_path} with ./ before"
        " its name"
    )


def test_a_missing_folder_stops_the_run(tmp_path: Path) -> None:
    folder = str(tmp_path / "none")

    with pytest.raises(SourceError) as caught:
        behave("where", folder=folder)

    assert str(caught.value) == (
        f"{folder}: No such file or directory; expected a folder to run programs in"
    )


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        (
            "a\0b",
            "an argument that cannot be passed (embedded null byte); expected text without NUL",
        ),
        ("a" * (1 << 20), "arguments that are too long for the system; expected a shorter doc id"),
    ],
)
def test_an_argument_that_cannot_be_passed_fails_only_this_call(argument: str, reason: str) -> None:
    exc = error_of("say", argument)

    assert (exc.code, exc.reason) == ("program-argument", reason)


def test_no_program_starts_after_a_cancellation() -> None:
    cancelled = Event()
    cancelled.set()

    with pytest.raises(ProgramError, match="cancelled"):
        run(limits(), ("no-such-program",), cancelled=cancelled)
