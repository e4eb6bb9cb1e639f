"""The backlog of a receiver over the last hours, for the chart of its page."""

import threading
import time
from collections import deque
from collections.abc import Callable

MAX_SAMPLES = 100_000


class BacklogHistory:
    """Samples of the backlog; safe from several threads.

    `count` returns the backlog, `now` the time in seconds since 1970.
    """

    def __init__(self, count: Callable[[], int], *, now: Callable[[], float] = time.time) -> None:
        self._count = count
        self._now = now
        self._lock = threading.Lock()
        self._samples: deque[tuple[float, int]] = deque(maxlen=MAX_SAMPLES)

    def sample(self) -> int:
        """Add a sample and return the count; of equal samples, the first and the last are kept."""
        with self._lock:
            count = self._count()
            samples = self._samples
            if len(samples) > 1 and samples[-1][1] == samples[-2][1] == count:
                samples.pop()
            samples.append((self._now(), count))
            return count

    def since(self, moment: float) -> list[tuple[float, int]]:
        """Return the samples from a moment on."""
        with self._lock:
            return [(at, count) for at, count in self._samples if at >= moment]
