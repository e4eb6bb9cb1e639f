"""How the backlog of a receiver changed of late."""

import threading
import time
from collections import deque
from collections.abc import Callable

KEPT = 100_000
"""How many counts are kept."""


class History:
    """Counts, and when they were taken; safe from several threads.

    `count` tells the backlog, `now` the time in seconds since 1970.
    """

    def __init__(self, count: Callable[[], int], *, now: Callable[[], float] = time.time) -> None:
        self._count = count
        self._now = now
        self._lock = threading.Lock()
        self._noted: deque[tuple[float, int]] = deque(maxlen=KEPT)

    def note(self) -> int:
        """Count, and return it; of a count that stays, the first and the last are kept."""
        with self._lock:
            count = self._count()
            noted = self._noted
            if len(noted) > 1 and noted[-1][1] == noted[-2][1] == count:
                noted.pop()
            noted.append((self._now(), count))
            return count

    def since(self, moment: float) -> list[tuple[float, int]]:
        """Return what was counted from a moment on."""
        with self._lock:
            return [(at, count) for at, count in self._noted if at >= moment]
