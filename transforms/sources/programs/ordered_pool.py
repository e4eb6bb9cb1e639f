"""Concurrent jobs whose results keep the order of their input."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from transforms.formats.base import ReadResult
from transforms.sources.programs.process import CancelToken

Job = Callable[[CancelToken], list[ReadResult]]
"""Work that runs programs, and ends them when the token is cancelled."""

_MAX_PENDING = 1000
"""Most results, of jobs or passed on, that wait for the job before them."""


def map_ordered(
    items: Iterable[Job | ReadResult], *, parallel: int
) -> Generator[ReadResult, None, None]:
    """Run up to `parallel` jobs at once; yield their results and all other items in input order.

    At most twice as many jobs are started before the first result is taken. If a job raises, or
    the caller closes the generator, all running programs are ended first.
    """
    token = CancelToken()
    pending: deque[Future[list[ReadResult]] | ReadResult] = deque()
    jobs = 0
    with ThreadPoolExecutor(parallel, thread_name_prefix="program") as pool:
        try:
            for item in items:
                jobs += callable(item)
                pending.append(pool.submit(item, token) if callable(item) else item)
                while pending and (
                    _is_ready(pending[0]) or jobs >= 2 * parallel or len(pending) >= _MAX_PENDING
                ):
                    jobs -= isinstance(pending[0], Future)
                    yield from _results(pending.popleft())
            while pending:
                yield from _results(pending.popleft())
        finally:
            token.cancel()
            pool.shutdown(cancel_futures=True)


def _is_ready(item: Future[list[ReadResult]] | ReadResult) -> bool:
    return not isinstance(item, Future) or item.done()


def _results(item: Future[list[ReadResult]] | ReadResult) -> list[ReadResult]:
    return item.result() if isinstance(item, Future) else [item]
