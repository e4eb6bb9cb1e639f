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
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import IO, NamedTuple

from feedferry.schemas.errors import ProgramError, SourceError
from feedferry.transforms.config.secrets import resolve
from feedferry.transforms.net.redaction import Mask
from feedferry.transforms.processes import end_group, exit_reason
from feedferry.transforms.sources.programs.config import Programs

TAIL_CHARS = 4 << 10
"""Most characters of standard error in a message."""

GRACE_SECONDS = 2.0
"""Time between SIGTERM and SIGKILL; the longest silence on an output that outlives its program."""

_BLOCK_BYTES = 1 << 18
_POLL_SECONDS = 0.1
"""How often cancellation and the end of the program are checked while its output stays open."""


class Output(NamedTuple):
    """The output of a program that exited with 0, and the end of its standard error in words."""

    stdout: bytes
    stderr: str


def run(
    programs: Programs,
    command: tuple[str, ...],
    *,
    stdin: bytes = b"",
    listing: IO[bytes] | None = None,
    cancelled: Event | None = None,
) -> Output:
    """Run one of the programs to its end; return its output.

    With `listing`, the output is written there, and the limits are those of the lister. The program
    is ended when `cancelled` is set. Raise SourceError if it cannot be started, and ProgramError
    with the code program-exit, program-signal, program-timeout, program-endless, program-argument
    or program-cut. No message shows a secret.
    """
    cancelled = cancelled or Event()
    _check_not_cancelled(cancelled)
    limits = _Limits(programs.timeout_seconds, programs.max_output_bytes)
    if listing is not None:
        seconds, size = programs.lister_timeout_seconds, programs.max_listing_bytes
        limits = _Limits(seconds, size, "lister_timeout", "max_listing_bytes")
    mask = Mask(programs.secrets())
    max_stderr = 2 * (TAIL_CHARS + mask.longest)  # masking shortens it
    process = _start(programs, command, is_fed=bool(stdin))
    pump = _Pump(process, limits, listing or io.BytesIO(), cancelled, max_stderr)
    try:
        pump.run(stdin)
        _check_exit(pump.wait())
    except ProgramError as exc:
        reason = exc.reason + _stderr_text(pump.stderr, max_stderr, mask)
        raise ProgramError(exc.code, reason, pump.stdout()) from exc
    finally:
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        end_group(process, grace_seconds=GRACE_SECONDS)
    return Output(pump.stdout(), _stderr_text(pump.stderr, max_stderr, mask))


class _Limits(NamedTuple):
    """The limits of a call, and their keys in the programs file."""

    timeout_seconds: float | None
    max_bytes: int
    timeout_key: str = "timeout"
    output_key: str = "max_output_bytes"


@dataclass
class _Pump:
    """Feeds a program and collects its output, in the thread of the caller."""

    process: subprocess.Popen[bytes]
    limits: _Limits
    output: IO[bytes]
    cancelled: Event
    max_stderr: int
    stderr: bytes = b""
    count: int = 0
    has_ended: bool = False
    start: float = field(default_factory=time.monotonic)
    last_output: float = field(default_factory=time.monotonic)

    def run(self, stdin: bytes) -> None:
        """Copy until all pipes are closed; raise ProgramError when a limit is exceeded."""
        with selectors.DefaultSelector() as selector:
            for stream in (self.process.stdout, self.process.stderr):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ)
            if self.process.stdin is not None:
                os.set_blocking(self.process.stdin.fileno(), False)
                selector.register(self.process.stdin, selectors.EVENT_WRITE, memoryview(stdin))
            while selector.get_map():
                for key, _ in selector.select(self._select_seconds()):
                    self._move(key, selector)
                self._check_silence()

    def wait(self) -> int:
        """Return the exit code of a program whose output is closed."""
        while self.process.returncode is None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(self._select_seconds())
        return self.process.returncode

    def stdout(self) -> bytes:
        return self.output.getvalue() if isinstance(self.output, io.BytesIO) else b""

    def _select_seconds(self) -> float:
        _check_not_cancelled(self.cancelled)
        limit = self.limits.timeout_seconds
        if limit is None:
            return _POLL_SECONDS
        remaining = self.start + limit - time.monotonic()
        if remaining <= 0:
            raise ProgramError(
                "program-timeout",
                f"still running after {limit:g} s; expected an end within that time "
                f"({self.limits.timeout_key})",
            )
        return min(remaining, _POLL_SECONDS)

    def _move(self, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
        if key.fileobj is self.process.stdin:
            self._feed(key, selector)
            return
        block = os.read(key.fd, _BLOCK_BYTES)
        self.last_output = time.monotonic()
        if not block:
            selector.unregister(key.fileobj)
        elif key.fileobj is self.process.stderr:
            self.stderr = (self.stderr + block)[-self.max_stderr :]
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
        if self.process.stdin is not None:
            self.process.stdin.close()

    def _take(self, block: bytes) -> None:
        self.count += len(block)
        limit = self.limits.max_bytes
        if self.count > limit:
            reason = f"more than {limit} bytes of output; expected at most that"
            raise ProgramError("program-endless", f"{reason} ({self.limits.output_key})")
        self.output.write(block)

    def _check_silence(self) -> None:
        """Raise ProgramError if the program has ended and another process keeps its output open."""
        now = time.monotonic()
        if not self.has_ended and self.process.poll() is not None:
            self.has_ended, self.last_output = True, now
        if self.has_ended and now - self.last_output > GRACE_SECONDS:
            _check_exit(self.process.returncode)
            raise ProgramError(
                "program-timeout",
                f"ended, but another process kept its output open for {GRACE_SECONDS:g} s without "
                "writing; expected the output to end with the program",
            )


def _stderr_text(data: bytes, max_bytes: int, mask: Mask) -> str:
    """Return the last part of a message: the end of standard error, without secrets.

    The beginning of data that was cut may be the end of a secret.
    """
    text = mask.text(data.decode("utf-8", "replace"))
    if len(data) == max_bytes:
        text = text[mask.longest :]
    text = text[-TAIL_CHARS:].strip()
    return f"; stderr ends {text!r}" if text else "; nothing on stderr"


def _start(
    programs: Programs, command: tuple[str, ...], *, is_fed: bool
) -> subprocess.Popen[bytes]:
    secrets = {name: resolve(text) for name, text in programs.environment.items()}
    try:
        return subprocess.Popen(
            [word.encode() for word in command],
            bufsize=0,
            stdin=subprocess.PIPE if is_fed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=programs.folder,
            env={**os.environ, **secrets},
            start_new_session=True,
        )
    except ValueError as exc:  # NUL or an unpaired surrogate
        reason = f"an argument that cannot be passed ({exc}); expected text without NUL"
        raise ProgramError("program-argument", reason) from exc
    except OSError as exc:
        if exc.errno == errno.E2BIG:
            reason = "arguments that are too long for the system; expected a shorter doc id"
            raise ProgramError("program-argument", reason) from exc
        where = f"a program on the PATH, or one in {programs.folder} with ./ before its name"
        if exc.filename == programs.folder:
            where = "a folder to run programs in"
        name = exc.filename if exc.filename == programs.folder else command[0]
        raise SourceError(f"{name}: {exc.strerror}; expected {where}") from exc


def _check_not_cancelled(cancelled: Event) -> None:
    if cancelled.is_set():
        raise ProgramError("program-cut", "cancelled; expected its result to be discarded")


def _check_exit(returncode: int) -> None:
    if returncode > 0:
        raise ProgramError("program-exit", f"exit code {returncode}; expected 0")
    if returncode < 0:
        reason = f"killed by {exit_reason(returncode)}; expected it to exit by itself"
        raise ProgramError("program-signal", reason)
