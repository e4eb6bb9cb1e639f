"""What psycopg does otherwise for feedferry: pages of rows in a thread, and odd dates.

psycopg asks libpq for each part of a result that arrives, and needs the lock of the interpreter for
it: once for a few kilobytes, while another thread converts the page before. One call of libpq that
waits for the whole result does not need the lock.
"""

import threading
from collections.abc import Iterator
from itertools import islice
from typing import Self

import psycopg
from psycopg.abc import AdaptContext, Buffer, Params
from psycopg.adapt import Loader, Transformer
from psycopg.pq import ExecStatus, Format, PGresult

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


class OddDateLoader(Loader):
    """Loads `infinity`, years before 1 or after 9999 and 24:00 as texts, other dates as psycopg."""

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        strict = psycopg.adapters.get_loader(oid, Format.TEXT) or Loader
        self._load = strict(oid, context).load

    def load(self, data: Buffer) -> object:
        try:
            return self._load(data)
        except psycopg.DataError:
            return bytes(data).decode()
