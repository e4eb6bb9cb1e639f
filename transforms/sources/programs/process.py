"""Run a program with limits, and end all processes that it started.

Standard output and standard error are read at the same time, so that a full pipe cannot block the
program. The program leads a process group, and no process of the group is left when `run` returns
or raises.
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
from typing import IO

import msgspec

from schemas.errors import ProgramError, SourceError
from transforms.sources.programs.config import Programs
from transforms.sources.programs.redact import Mask
from transforms.sources.secrets import resolve, secrets_in

TAIL_BYTES = 4 << 10
_BLOCK_BYTES = 1 << 18
_SIGNALS = {number.value: number.name for number in signal.Signals}
_POLL_SECONDS = 0.1
"""How often cancellation and the end of the program are checked while its output stays open."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A command and its limits.

    `environment` is added to the environment of feedferry; its references to secrets are resolved
    when the program starts. `grace_seconds` is the time between SIGTERM and SIGKILL, and the
    longest silence on an output that stays open after the program has ended. `timeout_key` and
    `output_key` name the limits in messages.
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
    """The output of a program that exited with 0; `stdout` is empty if it went to a file."""

    stdout: bytes
    stderr_tail: bytes


class CancelToken:
    """Ends all programs that run with it; safe from any thread."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """End running programs, and start no further ones."""
        self._cancelled.set()

    def check(self) -> None:
        """Raise ProgramError after `cancel`."""
        if self._cancelled.is_set():
            raise ProgramError("program-cut", "cancelled; expected its result to be discarded")

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`, or until `cancel`."""
        self._cancelled.wait(seconds)


def call_of(programs: Programs, command: tuple[str, ...]) -> Call:
    """Return the call of a command with the limits of its programs file."""
    return Call(
        command=command,
        folder=programs.folder,
        environment=programs.environment,
        timeout_seconds=programs.timeout_seconds,
        max_output_bytes=programs.max_output_bytes,
    )


def run(
    call: Call,
    *,
    stdin: bytes = b"",
    output: IO[bytes] | None = None,
    hidden: tuple[str, ...] = (),
    token: CancelToken | None = None,
) -> Output:
    """Run a program to its end; return its output, or write it to `output` as it arrives.

    Raise SourceError if the program cannot be started, and ProgramError with the code
    program-exit, program-signal, program-timeout, program-endless or program-argument. Messages
    show neither the texts in `hidden` nor the secrets in the environment.
    """
    token = token or CancelToken()
    token.check()
    mask = Mask((*hidden, *secrets_in(call.environment.values())))
    environment = {name: resolve(text) for name, text in call.environment.items()}
    with _started(call, environment, is_fed=bool(stdin)) as process:
        pump = _Pump(call, process, output or io.BytesIO(), token, mask)
        try:
            pump.run(stdin)
            _check_exit(pump.wait())
        except ProgramError as exc:
            reason = exc.reason + stderr_text(pump.tail())
            raise ProgramError(exc.code, reason, pump.stdout()) from exc
    return Output(stdout=pump.stdout(), stderr_tail=pump.tail())


def stderr_text(tail: bytes) -> str:
    """Return the last part of a message: the end of standard error."""
    text = tail.decode("utf-8", "replace").strip()
    return f"; stderr ends {text!r}" if text else "; nothing on stderr"


class _Pump:
    """Feeds a program and collects its output, in the thread of the caller."""

    def __init__(
        self,
        call: Call,
        process: subprocess.Popen[bytes],
        output: IO[bytes],
        token: CancelToken,
        mask: Mask,
    ) -> None:
        self._call = call
        self._process = process
        self._output = output
        self._token = token
        self._mask = mask
        self._max_stderr = 2 * (TAIL_BYTES + mask.longest)  # masking shortens it
        self._count = 0
        self._stderr = b""
        self._start = self._last_output = time.monotonic()
        self._has_ended = False

    def run(self, stdin: bytes) -> None:
        """Copy until all pipes are closed; raise ProgramError when a limit is exceeded."""
        with selectors.DefaultSelector() as selector:
            for stream in (self._process.stdout, self._process.stderr):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ)
            if self._process.stdin is not None:
                os.set_blocking(self._process.stdin.fileno(), False)
                selector.register(self._process.stdin, selectors.EVENT_WRITE, memoryview(stdin))
            while selector.get_map():
                for key, _ in selector.select(self._select_seconds()):
                    self._move(key, selector)
                self._check_silence()

    def wait(self) -> int:
        """Return the exit code of a program whose output is closed."""
        while self._process.returncode is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(self._select_seconds())
        return self._process.returncode

    def stdout(self) -> bytes:
        return self._output.getvalue() if isinstance(self._output, io.BytesIO) else b""

    def tail(self) -> bytes:
        """Return the end of standard error without secrets, including secrets that were cut."""
        is_cut = len(self._stderr) == self._max_stderr
        unsafe_bytes = self._mask.longest if is_cut else 0
        return self._mask.bytes(self._stderr)[unsafe_bytes:][-TAIL_BYTES:]

    def _select_seconds(self) -> float:
        self._token.check()
        limit = self._call.timeout_seconds
        if limit is None:
            return _POLL_SECONDS
        remaining = self._start + limit - time.monotonic()
        if remaining <= 0:
            raise ProgramError(
                "program-timeout",
                f"still running after {limit:g} s; expected an end within that time "
                f"({self._call.timeout_key})",
            )
        return min(remaining, _POLL_SECONDS)

    def _move(self, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
        if key.fileobj is self._process.stdin:
            self._feed(key, selector)
            return
        block = os.read(key.fd, _BLOCK_BYTES)
        self._last_output = time.monotonic()
        if not block:
            selector.unregister(key.fileobj)
        elif key.fileobj is self._process.stderr:
            self._stderr = (self._stderr + block)[-self._max_stderr :]
        else:
            self._take(block)

    def _feed(self, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
        """Write as many bytes as a pipe takes without blocking; the program may ignore the rest."""
        remaining: memoryview = key.data
        try:
            remaining = remaining[os.write(key.fd, remaining[: select.PIPE_BUF]) :]
        except BrokenPipeError:
            remaining = remaining[:0]
        if remaining:
            selector.modify(key.fileobj, selectors.EVENT_WRITE, remaining)
            return
        selector.unregister(key.fileobj)
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _take(self, block: bytes) -> None:
        self._count += len(block)
        limit = self._call.max_output_bytes
        if self._count > limit:
            reason = f"more than {limit} bytes of output; expected at most that"
            raise ProgramError("program-endless", f"{reason} ({self._call.output_key})")
        self._output.write(block)

    def _check_silence(self) -> None:
        """Raise ProgramError if the program has ended and another process keeps its output open."""
        now = time.monotonic()
        if not self._has_ended and self._process.poll() is not None:
            self._has_ended, self._last_output = True, now
        silence = self._call.grace_seconds
        if self._has_ended and now - self._last_output > silence:
            _check_exit(self._process.returncode)
            raise ProgramError(
                "program-timeout",
                f"ended, but another process kept its output open for {silence:g} s without "
                "writing; expected the output to end with the program",
            )


@contextmanager
def _started(
    call: Call, environment: Mapping[str, str], *, is_fed: bool
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program; end it and its process group at the end of the block."""
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
    except ValueError as exc:  # NUL or an unpaired surrogate
        reason = f"an argument that cannot be passed ({exc}); expected text without NUL"
        raise ProgramError("program-argument", reason) from exc
    except OSError as exc:
        if exc.errno == errno.E2BIG:
            reason = "arguments that are too long for the system; expected a shorter doc id"
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
    """Send SIGTERM to a running group, and SIGKILL after the grace time."""
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
        raise ProgramError("program-signal", f"killed by {name}; expected it to exit by itself")
