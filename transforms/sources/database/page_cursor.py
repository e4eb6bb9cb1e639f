"""The cursor of psycopg that fetches pages of rows in a thread.

psycopg asks libpq for each part of a result that arrives, and needs the lock of the interpreter for
it: once for a few kilobytes, while another thread converts the page before. One call of libpq that
waits for the whole result does not need the lock.
"""

import threading
from typing import Any, Self

import psycopg
from psycopg.abc import Params
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus, PGresult


class PageCursor(psycopg.ClientCursor[tuple[Any, ...]]):  # Any: the types of columns
    """Has whole results; in the main thread, which handles signals, it waits as psycopg does."""

    def execute(self, query: str, params: Params | None = None) -> Self:  # type: ignore[override]  # SQLAlchemy's are texts
        is_interrupted = threading.current_thread() is threading.main_thread()
        if is_interrupted or not self.connection.autocommit:
            return super().execute(query, params)
        statement = self.mogrify(query, params).encode(self.connection.info.encoding)
        result = self.connection.pgconn.exec_(statement)
        if not isinstance(result, PGresult) or result.status != ExecStatus.TUPLES_OK:
            return super().execute(query, params)  # which raises the error
        self.pgresult = result
        return self

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows."""
        rows = Transformer(self.connection)
        rows.set_pgresult(self.pgresult)
        return rows.load_rows(0, self.pgresult.ntuples if self.pgresult else 0, tuple)
