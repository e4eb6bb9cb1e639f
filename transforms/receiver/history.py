"""How the backlog of a receiver changed over time: a file of its own, which waits for no feed."""

import sqlite3
import threading
from pathlib import Path

_KEPT_SECONDS = 7 * 86400
_SCHEMA = "CREATE TABLE IF NOT EXISTS backlog (at REAL NOT NULL, count INTEGER NOT NULL)"
_INDEX = "CREATE INDEX IF NOT EXISTS backlog_at ON backlog (at)"


class History:
    """Counts and when they were taken; safe from several threads. Older than a week they go."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = OFF", _SCHEMA, _INDEX):
            self._connection.execute(statement)

    def note(self, now: float, count: int) -> None:
        """Keep a count; one that is what the last two were moves the last one."""
        with self._lock:
            execute = self._connection.execute
            last = execute("SELECT rowid, count FROM backlog ORDER BY at DESC LIMIT 2").fetchall()
            if [count, count] == [row[1] for row in last]:
                execute("UPDATE backlog SET at = ? WHERE rowid = ?", (now, last[0][0]))
                return
            execute("DELETE FROM backlog WHERE at < ?", (now - _KEPT_SECONDS,))
            execute("INSERT INTO backlog VALUES (?, ?)", (now, count))

    def since(self, moment: float) -> list[tuple[float, int]]:
        """Return what was counted from a moment on, oldest first."""
        with self._lock:
            query = "SELECT at, count FROM backlog WHERE at >= ? ORDER BY at"
            return self._connection.execute(query, (moment,)).fetchall()

    def close(self) -> None:
        self._connection.close()
