"""Jobs side by side, their outcomes in order."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor

from transforms.formats.base import Found
from transforms.sources.programs.subprocess_run import Leash

Job = Callable[[Leash], list[Found]]
"""Work that runs its programs on a leash."""

_MOST_WAITING = 1000
"""How much may wait for the job whose turn it is, what needed none among it."""


def abreast(jobs: Iterable[Job | Found], *, parallel: int) -> Generator[Found, None, None]:
    """Yield the outcomes of all jobs in their order, while up to `parallel` of them run.

    What needs no job keeps its place among them. The outcomes of fewer than twice as many jobs
    wait in memory. When one raises, or nobody wants more, all that runs is ended before this
    returns.
    """
    leash = Leash()
    with ThreadPoolExecutor(parallel, thread_name_prefix="program") as pool:
        line = _Line(pool, leash, most_jobs=2 * parallel)
        try:
            for job in jobs:
                line.join(job)
                while line.is_full or line.is_ready:
                    yield from line.serve()
            while line.is_waiting:
                yield from line.serve()
        finally:
            leash.cut()
            pool.shutdown(cancel_futures=True)


class _Line:
    """Jobs that run or wait, and what stands between them."""

    def __init__(self, pool: Executor, leash: Leash, *, most_jobs: int) -> None:
        self._pool = pool
        self._leash = leash
        self._most_jobs = most_jobs
        self._jobs = 0
        self._waiting: deque[Future[list[Found]] | Found] = deque()

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        return self._jobs >= self._most_jobs or len(self._waiting) >= _MOST_WAITING

    @property
    def is_ready(self) -> bool:
        """Whether there is one whose turn it is, and who need not be waited for."""
        if not self._waiting:
            return False
        first = self._waiting[0]
        return not isinstance(first, Future) or first.done()

    def join(self, job: Job | Found) -> None:
        if callable(job):
            self._jobs += 1
            self._waiting.append(self._pool.submit(job, self._leash))
        else:
            self._waiting.append(job)

    def serve(self) -> list[Found]:
        first = self._waiting.popleft()
        if not isinstance(first, Future):
            return [first]
        self._jobs -= 1
        return first.result()
