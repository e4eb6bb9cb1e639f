"""Calls of programs: repeated after temporary failures, several at once, with rejects in order."""

import logging
import math
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import TypeVar

from msgspec.structs import replace

from feedferry.schemas.avro import carried_bytes
from feedferry.schemas.errors import FormatError, ProgramError, RecordError, UnavailableError
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject, reject_record
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.formats.command_stream.doc_ids import id_maker
from feedferry.transforms.formats.command_stream.stream_formats import StreamOptions
from feedferry.transforms.net.retry import RetryPolicy, retry
from feedferry.transforms.sources.programs.config import Programs
from feedferry.transforms.sources.programs.process import run

TEMPORARY = frozenset(
    {"program-exit", "program-signal", "program-timeout", "repository-unavailable"}
)
"""Codes of failures after which a call is repeated."""

Job = Callable[[Event], list[ReadResult]]
"""Work that runs programs, and ends them when the event is set."""

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


def map_ordered(
    items: Iterable[Job | ReadResult], *, parallel: int
) -> Generator[ReadResult, None, None]:
    """Run up to `parallel` jobs at once; yield their results and all other items in input order.

    At most twice as many items are taken before the first result is ready. If a job raises, or the
    caller closes the generator, all running programs are ended first.
    """
    cancelled = Event()
    pending: deque[Future[list[ReadResult]]] = deque()
    with ThreadPoolExecutor(parallel, thread_name_prefix="program") as pool:
        try:
            for item in items:
                pending.append(pool.submit(item, cancelled) if callable(item) else _done(item))
                while pending and (pending[0].done() or len(pending) >= 2 * parallel):
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        finally:
            cancelled.set()
            pool.shutdown(cancel_futures=True)


class ProgramCalls:
    """The calls of the programs of one source, repeated after temporary failures."""

    def __init__(self, programs: Programs, options: ReadOptions = ReadOptions()) -> None:
        self.programs = programs
        self.options = options
        self.id_of = id_maker(options.of(StreamOptions).docids)

    def call(
        self,
        command: tuple[str, ...],
        parse: Callable[[bytes], _Result],
        *,
        stdin: bytes = b"",
        cancelled: Event,
    ) -> _Result:
        """Run a program; return what `parse` makes of its output.

        Raise ProgramError, with the end of standard error, for output that cannot be used.
        """

        def run_and_parse() -> _Result:
            output = run(self.programs, command, stdin=stdin, cancelled=cancelled)
            try:
                return parse(output.stdout)
            except RecordError as exc:
                raise ProgramError(exc.code, exc.reason + output.stderr, output.stdout) from exc
            except (UnavailableError, FormatError) as exc:
                is_unavailable = isinstance(exc, UnavailableError)
                code = "repository-unavailable" if is_unavailable else "no-stream"
                raise ProgramError(code, str(exc) + output.stderr, output.stdout) from exc

        return self.attempt(run_and_parse, cancelled)

    def attempt(self, call: Callable[[], _Result], cancelled: Event) -> _Result:
        """Return the result of `call`, or raise its last error; `cancelled` ends a pause."""
        policy = RetryPolicy(
            first_seconds=self.programs.backoff_seconds,
            max_attempts=self.programs.retries + 1,
            max_total_seconds=math.inf,
        )
        return retry(
            call,
            policy,
            is_temporary=lambda error: isinstance(error, RecordError) and error.code in TEMPORARY,
            sleep=cancelled.wait,
            notify=_log_retry,
        )


def reject_document(record: Record, exc: RecordError, *, stage: str) -> Reject:
    """Return the reject of a retrieved document, with the whole record as its bytes."""
    reject = reject_record(record, exc, stage=stage)
    return replace(reject, data=carried_bytes(record))


def _done(result: ReadResult) -> Future[list[ReadResult]]:
    future: Future[list[ReadResult]] = Future()
    future.set_result([result])
    return future


def _log_retry(error: Exception, seconds: float) -> None:
    code = getattr(error, "code", "")  # its reason may show a secret
    _log.info("program: %s; next attempt in %.0f s", code, seconds)
