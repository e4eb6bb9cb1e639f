"""Gathers what the page of a receiver shows."""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from pipelines.serve.rehearsal import page
from pipelines.serve.rehearsal.backlog_history import History
from pipelines.serve.rehearsal.index import Index
from pipelines.serve.rehearsal.set_aside import SetAside
from pipelines.serve.spool_writer import Spool

HISTORY_SECONDS = 3600.0


class Overview:
    """Makes the page; `now` is the clock of the history, in seconds since 1970.

    `notices` must be known to who looks at the page.
    """

    def __init__(
        self,
        index: Index,
        spool: Spool,
        *,
        history: History,
        notices: tuple[str, ...] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._index = index
        self._spool = spool
        self._history = history
        self._notices = notices
        self._now = now

    def show(self, url: str, set_aside: Iterable[SetAside] = ()) -> bytes:
        """Return the page of a receiver that is reached there, with what is set aside."""
        now = self._now()
        backlog = self._history.note()
        history = self._history.since(now - HISTORY_SECONDS)
        view = page.View(
            title="feedferry",
            url=url,
            now=datetime.fromtimestamp(now, UTC),
            backlog=backlog,
            history=tuple((max(now - at, 0), count) for at, count in history),
            feeds=tuple(self._index.feeds(per_datasource=page.FEEDS_OF_EACH)),
            totals=tuple(self._index.totals()),
            groups=self._index.groups_count(),
            spool_bytes=self._spool.bytes,
            free_bytes=self._spool.free_bytes,
            notices=self._notices,
            set_aside=tuple(set_aside),
            spool=str(self._spool.folder),
        )
        return page.render(view)
