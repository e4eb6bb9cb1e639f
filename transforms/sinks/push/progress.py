"""The progress of a push, for a display in another thread."""

import threading
from collections.abc import Callable, Iterable

from transforms.sinks.push.model import count_records
from transforms.sinks.push.outcome import ChunkOutcome
from transforms.sinks.push.update_index import is_added_update


class PushProgress:
    """Counts settled bytes and records, and passes messages for the operator to `notify`."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self.notify = notify
        self._lock = threading.Lock()
        self.bytes = self.records = self.rejects = 0

    def add_earlier(self, outcomes: Iterable[ChunkOutcome]) -> None:
        """Count what earlier pushes settled."""
        for outcome in outcomes:
            chunk, settled = outcome.chunk, outcome.accepted + outcome.refused
            self.add(
                size=int(chunk.bytes * settled / (count_records(chunk) or 1)),
                records=0 if is_added_update(chunk) else outcome.accepted,
                rejects=outcome.refused,
            )

    def add(self, *, size: int, records: int, rejects: int) -> None:
        with self._lock:
            self.bytes += size
            self.records += records
            self.rejects += rejects
