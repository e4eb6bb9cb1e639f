"""The cursor of psycopg that fetches pages of rows in a thread.

psycopg asks libpq for each part of a result that arrives, and needs the lock of the interpreter for
it: once for a few kilobytes, while another thread converts the page before. One call of libpq that
waits for the whole result does not need the lock.
"""

import threading
from collections.abc import Iterator
from itertools import islice
from typing import Self

import psycopg
from psycopg.abc import Params
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus, PGresult

_Row = tuple[object, ...]  # the types of columns


class PageCursor(psycopg.ClientCursor[_Row]):
    """Has whole results; in the main thread, which handles signals, it waits as psycopg does."""

    _rows: Iterator[_Row] | None = None
    """The rest of a whole result."""

    def execute(self, query: str, params: Params | None = None) -> Self:  # type: ignore[override]  # SQLAlchemy's are texts
        self._rows = None
        is_interrupted = threading.current_thread() is threading.main_thread()
        if is_interrupted or not self.connection.autocommit:
            return super().execute(query, params)
        statement = self.mogrify(query, params).encode(self.connection.info.encoding)
        result = self.connection.pgconn.exec_(statement)
        if not isinstance(result, PGresult) or result.status != ExecStatus.TUPLES_OK:
            return super().execute(query, params)  # which raises the error
        loader = Transformer(self.connection)
        loader.set_pgresult(result)
        self._rows = iter(loader.load_rows(0, result.ntuples, tuple))
        self.pgresult = result
        return self

    def fetchone(self) -> _Row | None:
        return super().fetchone() if self._rows is None else next(self._rows, None)

    def fetchmany(self, size: int = 0) -> list[_Row]:
        if self._rows is None:
            return super().fetchmany(size)
        return [*islice(self._rows, size or self.arraysize)]

    def fetchall(self) -> list[_Row]:
        return super().fetchall() if self._rows is None else [*self._rows]
