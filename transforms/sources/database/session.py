"""One connection to a database, opened when it is needed, and opened anew when it was lost."""

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from transforms.sources.database.engine import hurry
from transforms.sources.database.errors import (
    TORN_VALUES,
    Fault,
    TornValueError,
    error_of,
    fault_of,
    said_by,
)
from transforms.sources.database.mapping import Mapping

_LONGEST_SECONDS = 300.0
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Pauses(msgspec.Struct, frozen=True, kw_only=True):
    """How a pause between two tries is made, and by what chance it is shortened."""

    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random


USUAL = Pauses()


@contextmanager
def stream(
    connection: sa.Connection,
    statement: sa.Executable,
    given: dict[str, object] | None = None,
    *,
    rows: int,
) -> Iterator[sa.CursorResult[Any]]:
    """Yield the result of a statement, kept at the server where the driver can, so many at a time.

    Its cursor is closed, too, when the connection is lost, which SQLAlchemy does not do.
    """
    result = connection.execute(statement, given, execution_options={"yield_per": rows})
    cursor: Any = result.cursor
    try:
        yield result
    finally:
        with suppress(Exception):
            cursor.close()


class Session:
    """Runs what reads of a database, and again if it goes wrong in a way that passes.

    With `autocommit` each statement is a transaction of its own, which ends with it. While it
    hurries, values that Python has no form for raise TornValueError, and are texts else.
    """

    def __init__(
        self, mapping: Mapping, engine: sa.Engine, *, pauses: Pauses = USUAL, autocommit: bool
    ) -> None:
        self._mapping = mapping
        self._engine = engine
        self._dialect = engine.dialect
        self._pauses = pauses
        self.hurries = False
        self._options = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
        self._connection: sa.Connection | None = None

    def run(self, call: Callable[[sa.Connection], _T], *, where: str) -> _T:
        """Return what `call` returns; it must be one that can be called again.

        Each pause doubles, and chance takes a part of it. Raise SourceError when all tries went
        wrong, ConfigError for SQL that is not understood, TornValueError if a value cannot be read.
        """
        tries = 1
        while True:
            try:
                return call(self._connected())
            except (*TORN_VALUES, sa.exc.SQLAlchemyError, self._dialect.loaded_dbapi.Error) as exc:
                self.close()
                self._give_up(exc, where=where, tries=tries)
            seconds = self._longest(tries) * self._pauses.chance()
            _log.info("%s: try %d failed; next try in %.0f s", where, tries, seconds)
            self._pauses.sleep(seconds)
            tries += 1

    def close(self) -> None:
        """Close the connection; what goes wrong with one that is lost is not told."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _give_up(self, exc: Exception, *, where: str, tries: int) -> None:
        """Raise what is told of an error, unless it passes and there are tries left."""
        fault = fault_of(exc, self._dialect)
        if fault is Fault.VALUE:
            raise TornValueError(said_by(exc)) from None
        if fault is not Fault.PASSING or tries > self._mapping.retries:
            raise error_of(exc, self._mapping, where=where, tries=tries) from None

    def _longest(self, tries: int) -> float:
        return min(self._mapping.backoff_seconds * 2.0 ** (tries - 1), _LONGEST_SECONDS)

    def _connected(self) -> sa.Connection:
        if self._connection is None:
            self._connection = self._engine.connect().execution_options(**self._options)
            if self.hurries:
                hurry(self._connection)
        return self._connection
