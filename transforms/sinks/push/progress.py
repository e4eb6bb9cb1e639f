"""How far a push is, and what it says on its way."""

import threading
from collections.abc import Callable

from transforms.sinks.push.outcome import ChunkOutcome, count_of
from transforms.sinks.push.update_index import is_added_update


class PushProgress:
    """Counts what is settled, for whoever looks on from another thread; passes on what is said."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self._lock = threading.Lock()
        self.bytes = self.records = self.rejects = 0

    def begin(self, outcomes: tuple[ChunkOutcome, ...]) -> None:
        """Count what earlier pushes settled."""
        for fate in outcomes:
            share = (fate.accepted + fate.refused) / (count_of(fate.chunk) or 1)
            size = int(fate.chunk.bytes * share)
            records = 0 if is_added_update(fate.chunk) else fate.accepted
            self.settled(size=size, records=records, rejects=fate.refused)

    def settled(self, *, size: int, records: int, rejects: int) -> None:
        """Count a part of a chunk."""
        with self._lock:
            self.bytes += size
            self.records += records
            self.rejects += rejects
