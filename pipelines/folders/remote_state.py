"""The state of a source in object storage."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from feedferry.schemas.errors import FatalError
from feedferry.transforms.storage.run_folders.find_storage import LEASE
from feedferry.transforms.storage.run_folders.mirrors import mirroring
from feedferry.transforms.storage.state import open_state
from feedferry.transforms.storage.storage import Storage

_COPY_BYTES = 1 << 20
_GENERATION = re.compile(r"\d{9}\.db")


class RemoteState:
    """The state of a source in object storage: a file for each generation, `STATE/000000012.db`.

    A run downloads the newest one to `path`, and puts the next one if there is none. So of two runs
    that have read one generation, the second one is refused.
    """

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


@contextmanager
def leased_state(uri: str, folder: Path) -> Iterator[RemoteState]:
    """Lease a state, and copy it into a folder; raise BusyError if another run has leased it."""
    from feedferry.transforms.storage.objects.lease import Lease
    from feedferry.transforms.storage.objects.object_storage import ObjectStorage

    storage = ObjectStorage.of(uri)
    with Lease(storage, LEASE), mirroring(folder, storage):
        yield RemoteState(storage, folder / "state.db")
