"""The state of a source in object storage: an object for each generation, `STATE/000000012.db`.

A run downloads the newest generation, and puts the next one if there is none. So of two runs that
have read one generation, the second one is refused. The generation before the newest is kept.
"""

import re
import shutil
from pathlib import Path

from schemas.errors import FatalError
from transforms.storage.state import open_state
from transforms.storage.storage import Storage

_GENERATION = re.compile(r"\d{9}\.db")
_COPY_BYTES = 1 << 20


class RemoteState:
    """The generations of a state; `path` is the copy of the newest one, on this machine."""

    def __init__(self, storage: Storage, path: Path) -> None:
        self.path = path
        self._storage = storage
        self._generations = sorted(filter(_GENERATION.fullmatch, storage.sizes()))
        if self._generations:
            with storage.open(self._generations[-1]) as source, path.open("wb") as copy:
                shutil.copyfileobj(source, copy, _COPY_BYTES)

    def save(self) -> None:
        """Put the copy as the next generation if it was updated; raise FatalError if there is one.

        The last but one generation is kept, and those before it are removed.
        """
        with open_state(self.path) as state:
            name = f"{state.head.generation:09d}.db"
        if not self.path.exists() or name in self._generations:
            return
        if not self._storage.put_if_absent(name, self.path.read_bytes()):
            raise FatalError(
                f"{self._storage.locate(name)}: another run has updated this state; start again"
                " with ⟦fresh⟧ to compare the source with the new state"
            )
        self._storage.remove_files(self._generations[:-1])
        self._generations = [*self._generations[-1:], name]
