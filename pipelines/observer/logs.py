"""Logs: on stderr by `-v`, in the file of `--log-file`, and in the files of runs.

A line has the time, the level, the job, the run and the message::

    2026-11-22T02:00:01.123Z INFO people 20261122T020000Z-ab12 chunks/000001.xml: accepted

or the same as JSON. Several processes append to one file, each line in one piece.
"""

import enum
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.printable import printable

_LOGGERS = ("", "feedferry", "apache_beam")
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
_SHOWN = {"is_shown": True}
_log = logging.getLogger(__name__)


class OutputFormat(enum.Enum):
    """The form of an account, or of the lines of a log."""

    TEXT = "text"
    JSON = "json"


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The files and the level of the log. `verbosity` is -1 for `-q`, else the number of `-v`.

    Lines have `format`, by default text. `service` is a package whose progress is on stderr without
    `-v` too. `trace` is the id of the trace of a run. Without `has_stderr`, as for the Python API,
    the log is in files only.
    """

    verbosity: int = 0
    files: tuple[str, ...] = ()
    format: OutputFormat | None = None
    job: str | None = None
    run: str | None = None
    trace: str | None = None
    service: str | None = None
    has_stderr: bool = True


class _Current(msgspec.Struct):
    settings: LogSettings = LogSettings(has_stderr=False)


_current = _Current()


def log_settings() -> LogSettings:
    """Return the present settings, for a worker process."""
    return _current.settings


def configure_logging(settings: LogSettings) -> None:
    """Log as the settings say, and no longer as earlier ones did.

    stderr has errors at -1 (`-q`), warnings at 0, progress at 1 (`-v`) and everything at 2 (`-vv`),
    files at least progress. Libraries log two levels less. Beam logs only at `-vv`, because its
    errors reach the user as exceptions. Call this before Beam is imported, which logs while it
    loads. Raises ConfigError for a file that cannot be opened; nothing has changed then.
    """
    service = settings.service if settings.verbosity == 0 else None
    level = min(settings.verbosity + 1, len(_LEVELS) - 1)
    own, others = _LEVELS[level], _LEVELS[max(level - 2, 0)]
    files = [_open(path) for path in settings.files]
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, LogStream | LogFile)]:
        root.removeHandler(handler)
        handler.close()
    outputs: list[logging.Handler] = [*files]
    if settings.has_stderr:
        outputs.append(stream := LogStream())
        stream.addFilter(_threshold(own, others, service))
    if files or service:
        own, others = min(own, logging.INFO), min(others, logging.ERROR)
    for file in files:
        file.addFilter(_threshold(own, others))
    for output in outputs:
        output.setFormatter(LineFormatter(settings))
        root.addHandler(output)
    root.setLevel(others)
    logging.getLogger("feedferry").setLevel(own)
    beam = logging.WARNING if settings.verbosity > 1 else logging.CRITICAL + 1
    logging.getLogger("apache_beam").setLevel(beam)
    _current.settings = settings


@contextmanager
def log_to(
    path: Path,
    *,
    job: str | None = None,
    run: str | None = None,
    file: str | None = None,
    format: OutputFormat | None = None,
) -> Iterator[None]:
    """Also append the log of this block to a file; all its lines state the job and the run.

    `file` and `format` are those of the job file, if it states them.
    """
    before, levels = _current.settings, [logging.getLogger(name).level for name in _LOGGERS]
    names = [Path(name).absolute() for name in (path, file) if name is not None]
    files = tuple(dict.fromkeys((*before.files, *map(str, names))))
    settings = replace(before, files=files, format=before.format or format, job=job, run=run)
    configure_logging(settings)
    try:
        yield
    finally:
        configure_logging(before)
        if not before.has_stderr:  # the levels of the program that uses the API
            for name, level in zip(_LOGGERS, levels, strict=True):
                logging.getLogger(name).setLevel(level)


@contextmanager
def logged_trace(trace_id: str) -> Iterator[None]:
    """State the id of a trace in the lines of the logs that this block opens."""
    before = _current.settings.trace
    _current.settings = replace(_current.settings, trace=trace_id)
    try:
        yield
    finally:
        _current.settings = replace(_current.settings, trace=before)


class LineFormatter(logging.Formatter):
    """Formats a record as one line with its time, level, job and run."""

    def __init__(self, settings: LogSettings) -> None:
        super().__init__()
        self._settings = settings

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        values = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "job": self._settings.job,
            "run": self._settings.run,
            **({"trace_id": trace} if (trace := self._settings.trace) else {}),
            "message": record.getMessage(),
        }
        if record.exc_info:
            values["traceback"] = self.formatException(record.exc_info)
        if self._settings.format is OutputFormat.JSON:
            return msgspec.json.encode(values).decode()
        return " ".join(value or "-" for value in values.values()).replace("\n", "\n  ")


class LogStream(logging.Handler):
    """Writes to stderr as it is at the time: a display of progress may replace it."""

    def emit(self, record: logging.LogRecord) -> None:
        if not getattr(record, "is_shown", False):
            sys.stderr.write(self.format(record) + "\n")


class LogFile(logging.Handler):
    """Appends to a file. A full disk does not end the command: its own files report that."""

    def __init__(self, path: str) -> None:
        # Before the handler is registered: at its end, logging closes all that are.
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        super().__init__()

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record) + "\n"
        with suppress(OSError):
            os.write(self._file, line.encode())

    def close(self) -> None:
        super().close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _open(path: str) -> LogFile:
    try:
        return LogFile(path)
    except OSError as exc:
        raise ConfigError(f"log file {path}: {exc.strerror}; expected a file to write") from exc


def _threshold(
    own: int, others: int, service: str | None = None
) -> Callable[[logging.LogRecord], bool]:
    """Return a filter of records by their level, which makes their messages printable.

    Progress of the package `service` passes it.
    """

    def is_logged(record: logging.LogRecord) -> bool:
        record.msg, record.args = printable(record.getMessage(), kept="\n"), ()
        if service is not None and record.name.startswith(service):
            return record.levelno >= logging.INFO
        is_own = record.name.partition(".")[0] == "feedferry"
        return record.levelno >= (own if is_own else others)

    return is_logged
