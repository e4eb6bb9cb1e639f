"""Who digests a delivery: this process, or a worker process with a time limit."""

import sqlite3
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from pipelines.serve.rehearsal.digest import Interrupted
from pipelines.serve.rehearsal.index import Index
from pipelines.serve.rehearsal.set_aside import (
    DEFAULT_LIMIT,
    MAX_ATTEMPTS,
    TimeLimit,
    ended_too_often,
)
from pipelines.serve.rehearsal.worker_process import TimeLimitError, Worker, WorkerEndedError
from schemas.delivery import Delivery
from transforms.formats.base import ReadOptions

Digest = Callable[[Path, Delivery, Path, ReadOptions], None]
"""Digests a delivery that was begun: takes the path of the index, the delivery, the spool, and how
it is read."""


class UndigestibleError(Exception):
    """A delivery is not to be tried again; says why."""


class Digester(Protocol):
    """Digests deliveries into an index, one at a time."""

    def apply(self, delivery: Delivery, *, stopping: Callable[[], bool]) -> None:
        """Digest a delivery, all or nothing; raise UndigestibleError where that cannot be done.

        Raises Interrupted when `stopping` says so, sqlite3.Error or OSError where it is to be tried
        again.
        """

    def stop(self) -> None:
        """Have `apply` end soon, which was told to stop; safe from any thread."""

    def close(self) -> None:
        """Let go of everything, when `apply` has ended."""


class InProcess:
    """Digests in this process: without a time limit, as nothing here could be ended."""

    def __init__(self, index: Index, spool: Path) -> None:
        self._index = index
        self._spool = spool

    def apply(self, delivery: Delivery, *, stopping: Callable[[], bool]) -> None:
        self._index.apply(delivery, self._spool, stopping=stopping)

    def stop(self) -> None:
        self._index.interrupt()

    def close(self) -> None:
        pass


def digest_delivery(index: Path, delivery: Delivery, spool: Path, reading: ReadOptions) -> None:
    """Digest a delivery that was begun; for a worker process, which keeps the index open."""
    _index_of(index, reading).digest(delivery, spool)


class Isolated:
    """Digests in a worker process, which is ended when a delivery exceeds its time limit."""

    def __init__(
        self,
        index: Index,
        spool: Path,
        *,
        limit: TimeLimit = DEFAULT_LIMIT,
        digest: Digest = digest_delivery,
    ) -> None:
        self._index = index
        self._spool = spool
        self._limit = limit
        self._digest = digest
        self._worker = Worker()

    def apply(self, delivery: Delivery, *, stopping: Callable[[], bool]) -> None:
        if self._index.attempts(delivery.ordinal) >= MAX_ATTEMPTS:
            raise UndigestibleError(ended_too_often())
        self._index.begin(delivery)
        try:
            self._run(delivery)
        except WorkerEndedError as exc:
            if stopping():
                self._index.forget_attempts()
                raise Interrupted from exc
            raise OSError(None, str(exc)) from exc
        except TimeLimitError as exc:
            limit = f"{exc}, the limit for {delivery.bytes:,} bytes"
            raise UndigestibleError(limit) from exc
        except (sqlite3.Error, OSError):
            self._index.forget_attempts()
            raise
        except Exception as exc:  # whatever it is, what comes after this delivery is to be digested
            raise UndigestibleError(f"Internal Error: {exc!r}") from exc
        finally:
            self._index.refresh()

    def stop(self) -> None:
        self._worker.kill()

    def close(self) -> None:
        self._worker.close()

    def _run(self, delivery: Delivery) -> None:
        seconds = self._limit.of(delivery.bytes)
        arguments = (self._index.path, delivery, self._spool, self._index.reading)
        self._worker.run(self._digest, *arguments, seconds=seconds)


@lru_cache(maxsize=1)
def _index_of(path: Path, reading: ReadOptions) -> Index:
    return Index(path, reading=reading)
