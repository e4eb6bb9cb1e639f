"""Gathers what the page of a receiver shows."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from transforms.receiver import page
from transforms.receiver.index import Index
from transforms.receiver.spool import Spool

HISTORY_SECONDS = 3600.0


class Overview:
    """Makes the page; `now` is the clock of the backlog in the index, in seconds since 1970.

    `backlog` counts what is not digested yet. `notices` must be known to who looks at the page.
    """

    def __init__(
        self,
        index: Index,
        spool: Spool,
        *,
        backlog: Callable[[], int],
        notices: tuple[str, ...] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._index = index
        self._spool = spool
        self._backlog = backlog
        self._notices = notices
        self._now = now

    def show(self, url: str) -> bytes:
        """Return the page of a receiver that is reached there."""
        now = self._now()
        history = self._index.backlog_history(now - HISTORY_SECONDS)
        view = page.View(
            title="feedferry",
            url=url,
            now=datetime.fromtimestamp(now, UTC),
            backlog=self._backlog(),
            history=tuple((now - at, count) for at, count in history),
            feeds=tuple(self._index.feeds(per_datasource=page.FEEDS_OF_EACH)),
            totals=tuple(self._index.totals()),
            spool_bytes=self._spool.bytes,
            free_bytes=self._spool.free_bytes,
            notices=self._notices,
        )
        return page.render(view)
