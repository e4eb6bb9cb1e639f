"""One run of a program: fed, bounded, ended with all that it started, and explained.

Its standard output and standard error are read at once, so that neither fills up and stops it. It
leads a process group of its own, and none of that group is left when `run` returns or raises.
"""

import errno
import io
import os
import select
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, cast

import msgspec

from schemas.errors import ProgramError, SourceError
from transforms.sources.programs.programs_file import Programs
from transforms.sources.programs.redact import Mask
from transforms.sources.secrets import resolve, secrets_in

TAIL_BYTES = 4 << 10
_BLOCK_BYTES = 1 << 18
_SIGNALS = {number.value: number.name for number in signal.Signals}
_SLICE_SECONDS = 0.1
"""How long it may take until a leash that was cut is noticed, or the end of a program whose output
is held open by what it left behind."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What to run, and its bounds.

    `environment` is added to ours, its references resolved when the program is started. Between
    being asked to end and being killed a program has `grace_seconds`; as long may its output stay
    open and silent after it. The keys are the user's words for the bounds.
    """

    command: tuple[str, ...]
    folder: str = "."
    environment: dict[str, str] = {}
    timeout_seconds: float | None = None
    max_output_bytes: int = 1 << 28
    grace_seconds: float = 2.0
    timeout_key: str = "timeout"
    output_key: str = "max_output_bytes"


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """What a program that exited with 0 left; `stdout` is empty if it was written elsewhere."""

    stdout: bytes
    stderr_tail: bytes


class Leash:
    """What runs on it ends when it is cut."""

    def __init__(self) -> None:
        self._cut = threading.Event()

    def cut(self) -> None:
        """End all that runs, and all that would be started."""
        self._cut.set()

    def check(self) -> None:
        """Raise ProgramError if it is cut."""
        if self._cut.is_set():
            raise ProgramError("program-cut", "ended by us; expected nobody to look at this")

    def sleep(self, seconds: float) -> None:
        """Wait, unless it is cut."""
        self._cut.wait(seconds)


def call_of(programs: Programs, command: tuple[str, ...], *, answers: int = 1) -> Call:
    """Return the call of one of the programs, from which so many answers may come."""
    return Call(
        command=command,
        folder=programs.folder,
        environment=programs.environment,
        timeout_seconds=programs.timeout_seconds,
        max_output_bytes=programs.max_output_bytes * answers,
    )


def run(
    call: Call,
    *,
    stdin: bytes = b"",
    output: IO[bytes] | None = None,
    hidden: tuple[str, ...] = (),
    leash: Leash | None = None,
) -> Output:
    """Run a program to its end and return its output, or write that to `output` as it comes.

    Raise SourceError if it cannot be started, and ProgramError with one of the codes program-exit,
    program-signal, program-timeout, program-endless and program-argument. The texts that are
    `hidden`, and the secrets of its environment, are shown in none of them.
    """
    leash = leash or Leash()
    leash.check()
    mask = Mask((*hidden, *secrets_in(call.environment.values())))
    environment = {name: resolve(text) for name, text in call.environment.items()}
    with _started(call, environment, is_fed=bool(stdin)) as process:
        pump = _Pump(call, process, output or io.BytesIO(), leash, mask)
        try:
            pump.run(stdin)
            _check_exit(pump.wait())
        except ProgramError as exc:
            reason = exc.reason + stderr_text(pump.tail())
            raise ProgramError(exc.code, reason, pump.stdout()) from exc
    return Output(stdout=pump.stdout(), stderr_tail=pump.tail())


def stderr_text(tail: bytes) -> str:
    """Return the end of a program's standard error as the end of a message."""
    text = tail.decode("utf-8", "replace").strip()
    return f"; stderr ends {text!r}" if text else "; nothing on stderr"


class _Pump:
    """Moves what a program reads and writes, in the thread of its caller."""

    def __init__(
        self,
        call: Call,
        process: subprocess.Popen[bytes],
        output: IO[bytes],
        leash: Leash,
        mask: Mask,
    ) -> None:
        self._call = call
        self._process = process
        self._output = output
        self._leash = leash
        self._mask = mask
        self._most_kept = 2 * (TAIL_BYTES + mask.longest)  # what is masked is shorter
        self._count = 0
        self._stderr = b""
        self._began = self._heard = time.monotonic()
        self._has_ended = False

    def run(self, stdin: bytes) -> None:
        """Move all there is; raise ProgramError when a bound is passed."""
        with selectors.DefaultSelector() as selector:
            for stream in (self._process.stdout, self._process.stderr):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ)
            if self._process.stdin is not None:
                os.set_blocking(self._process.stdin.fileno(), False)
                selector.register(self._process.stdin, selectors.EVENT_WRITE, memoryview(stdin))
            while selector.get_map():
                for key, _ in selector.select(self._patience()):
                    self._move(key, selector)
                self._check_silence()

    def wait(self) -> int:
        """Return the exit code of a program that has said all it will."""
        while self._process.returncode is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(self._patience())
        return self._process.returncode

    def stdout(self) -> bytes:
        return self._output.getvalue() if isinstance(self._output, io.BytesIO) else b""

    def tail(self) -> bytes:
        """The end of standard error, without what is hidden, be it the end of a secret."""
        is_cut = len(self._stderr) == self._most_kept
        doubtful = self._mask.longest if is_cut else 0
        return self._mask.bytes(self._stderr)[doubtful:][-TAIL_BYTES:]

    def _patience(self) -> float:
        self._leash.check()
        limit = self._call.timeout_seconds
        if limit is None:
            return _SLICE_SECONDS
        left = self._began + limit - time.monotonic()
        if left <= 0:
            found = f"still running after {limit:g} s"
            expected = f"an end within that ({self._call.timeout_key})"
            raise ProgramError("program-timeout", f"{found}; expected {expected}")
        return min(left, _SLICE_SECONDS)

    def _move(self, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
        if key.fileobj is self._process.stdin:
            self._feed(key, selector)
            return
        block = os.read(key.fd, _BLOCK_BYTES)
        self._heard = time.monotonic()
        if not block:
            selector.unregister(key.fileobj)
        elif key.fileobj is self._process.stderr:
            self._stderr = (self._stderr + block)[-self._most_kept :]
        else:
            self._take(block)

    def _feed(self, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
        """Hand over what a pipe surely takes; a program need not read all it is given."""
        left: memoryview = key.data
        try:
            left = left[os.write(key.fd, left[: select.PIPE_BUF]) :]
        except BrokenPipeError:
            left = left[:0]
        if left:
            selector.modify(key.fileobj, selectors.EVENT_WRITE, left)
        else:
            selector.unregister(key.fileobj)
            cast(IO[bytes], key.fileobj).close()

    def _take(self, block: bytes) -> None:
        self._count += len(block)
        most = self._call.max_output_bytes
        if self._count > most:
            expected = f"at most that ({self._call.output_key})"
            reason = f"more than {most} bytes of output; expected {expected}"
            raise ProgramError("program-endless", reason)
        self._output.write(block)

    def _check_silence(self) -> None:
        """A program may have ended, while one that it started keeps its output open."""
        now = time.monotonic()
        if not self._has_ended and self._process.poll() is not None:
            self._has_ended, self._heard = True, now
        silence = self._call.grace_seconds
        if self._has_ended and now - self._heard > silence:
            _check_exit(self._process.returncode)
            raise ProgramError(
                "program-timeout",
                f"ended, but a program that it left behind held its output open, {silence:g} s "
                "without a byte; expected output that ends with it",
            )


@contextmanager
def _started(
    call: Call, environment: Mapping[str, str], *, is_fed: bool
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program; end it, and all of its group, with the block."""
    process = _start(call, environment, is_fed=is_fed)
    try:
        yield process
    finally:
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        _end(process, call.grace_seconds)


def _start(call: Call, environment: Mapping[str, str], *, is_fed: bool) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [word.encode() for word in call.command],
            bufsize=0,
            stdin=subprocess.PIPE if is_fed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=call.folder,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    except ValueError as exc:  # a NUL, or half of a surrogate pair
        reason = f"an argument that no program can be given ({exc}); expected text without NUL"
        raise ProgramError("program-argument", reason) from exc
    except OSError as exc:
        if exc.errno == errno.E2BIG:
            reason = "arguments that are too long for any program; expected a shorter doc id"
            raise ProgramError("program-argument", reason) from exc
        raise _not_started(call, exc) from exc


def _not_started(call: Call, exc: OSError) -> SourceError:
    if exc.filename == call.folder:
        return SourceError(f"{call.folder}: {exc.strerror}; expected a folder to run programs in")
    name = call.command[0]
    return SourceError(
        f"{name}: {exc.strerror}; expected a program on the PATH, or one in {call.folder} with "
        "./ before its name"
    )


def _end(process: subprocess.Popen[bytes], grace_seconds: float) -> None:
    """Ask the group to end if its leader has not; kill what is left of it."""
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace_seconds)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _check_exit(returncode: int) -> None:
    if returncode > 0:
        raise ProgramError("program-exit", f"exit code {returncode}; expected 0")
    if returncode < 0:
        name = _SIGNALS.get(-returncode, f"signal {-returncode}")
        raise ProgramError("program-signal", f"killed by {name}; expected an end of its own")
