"""The conversion of one delivery in a gateway: in a worker process, with a time limit."""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from pipelines.serve.rehearsal.digest import Interrupted
from pipelines.serve.rehearsal.set_aside import DEFAULT_LIMIT, TimeLimit
from pipelines.serve.rehearsal.worker_process import (
    Runner,
    TimeLimitError,
    Worker,
    WorkerEndedError,
)
from schemas.account import Account, merge
from schemas.errors import FatalError, FeedferryError, FormatError
from schemas.span import Span
from transforms.convert import Settings, convert
from transforms.sources.files import cut_file
from transforms.sources.span_reader import SpanReader

Convert = Callable[[list[Span], Settings, int], Account]
"""Converts the spans of a delivery, none larger than a number of bytes."""


class SetAside(Exception):  # noqa: N818 - nothing went wrong here
    """A delivery cannot be forwarded, now or later; says why."""


def convert_spans(spans: list[Span], settings: Settings, span_bytes: int) -> Account:
    """Convert a delivery, the last span; raise SetAside where nothing can ever be read of it."""
    cut = partial(cut_file, span_bytes=span_bytes, options=settings.reading)
    parts = (part for span in spans for part in cut(span))
    try:
        account = merge(convert(part, settings) for part in parts)
    except FormatError as exc:
        raise SetAside(str(exc)) from exc
    if account.exit_code == FatalError.exit_code and _is_unreadable(spans[-1], settings):
        raise SetAside(str(account.stopped))
    return account


class Conversion:
    """Runs conversions, one at a time; `stop` and `close` are safe from any thread."""

    def __init__(
        self,
        *,
        limit: TimeLimit = DEFAULT_LIMIT,
        convert: Convert = convert_spans,
        worker: Runner | None = None,
    ) -> None:
        self._limit = limit
        self._convert = convert
        self._worker = worker or Worker()
        self._stopping = threading.Event()

    def run(self, spans: list[Span], settings: Settings, *, span_bytes: int, size: int) -> Account:
        """Return the account of a delivery of `size` bytes; raise SetAside where there is none.

        Raises WorkerEndedError where the process ended, Interrupted after `stop`.
        """
        arguments = (spans, settings, span_bytes)
        if self._stopping.is_set():
            raise Interrupted
        try:
            return self._worker.run(self._convert, *arguments, seconds=self._limit.of(size))
        except TimeLimitError as exc:
            raise SetAside(f"{exc}, the limit for {size:,} bytes") from exc
        except WorkerEndedError as exc:
            if self._stopping.is_set():
                raise Interrupted from exc
            raise
        except (SetAside, FeedferryError, OSError):
            raise
        except Exception as exc:  # whatever it is, the other deliveries are to go on
            raise SetAside(f"Internal Error: {exc!r}") from exc

    def stop(self) -> None:
        """End the conversion that runs; none is begun any more."""
        self._stopping.set()
        self._worker.kill()

    def close(self) -> None:
        """End the worker process, when no conversion runs."""
        self._worker.close()


def _is_unreadable(span: Span, settings: Settings) -> bool:
    """Whether it is the feed that is at fault, and not the disk that it is on or goes to."""
    with suppress(FeedferryError, OSError):
        try:
            for _ in SpanReader(span, options=settings.reading).results():
                pass
        except FormatError:
            return True
    return False
