"""The state of a source in object storage."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from feedferry.pipelines.options.convert_options import ACLS_SUFFIX
from feedferry.schemas.errors import FatalError
from feedferry.transforms.storage.run_folders.find_storage import LEASE
from feedferry.transforms.storage.run_folders.mirrors import mirroring
from feedferry.transforms.storage.state import open_state
from feedferry.transforms.storage.storage import Storage

_COPY_BYTES = 1 << 20
_GENERATION = re.compile(r"\d{9}\.db")


class RemoteState:
    """The state of a source in object storage: a file for each generation, `STATE/000000012.db`.

    The ACLs that are kept next to it are in `STATE/000000012.acls`, which is put first. A run
    downloads the newest state to `path`, and puts the next one if there is none. So of two runs
    that have read one generation, the second one is refused.
    """

    def __init__(self, storage: Storage, path: Path) -> None:
        self.path = path
        self._storage = storage
        self._acls = path.with_name(f"{path.name}{ACLS_SUFFIX}")
        names = self._names = storage.sizes()
        self._generations = sorted(filter(_GENERATION.fullmatch, names))
        for name in self._generations[-1:]:
            self._download(name, path)
            if _acls_of(name) in names:
                self._download(_acls_of(name), self._acls)

    def save(self) -> None:
        """Put the copy as the next generation if it was updated; raise FatalError if there is one.

        The last but one generation is kept, and those before it are removed.
        """
        with open_state(self.path) as state:
            name = f"{state.head.generation:09d}.db"
        if not self.path.exists() or name in self._generations:
            return
        if self._acls.exists() and name not in self._storage.sizes():
            self._storage.put(_acls_of(name), self._acls.read_bytes())
        if not self._storage.put_if_absent(name, self.path.read_bytes()):
            raise FatalError(
                f"{self._storage.locate(name)}: another run has updated this state; start again"
                " with ⟦fresh⟧ to compare the source with the new state"
            )
        old = self._generations[:-1]
        acls = [acls for acls in map(_acls_of, old) if acls in self._names]
        self._storage.remove_files([*old, *acls])
        self._generations = [*self._generations[-1:], name]

    def _download(self, name: str, path: Path) -> None:
        with self._storage.open(name) as source, path.open("wb") as copy:
            shutil.copyfileobj(source, copy, _COPY_BYTES)


def _acls_of(name: str) -> str:
    return f"{name.removesuffix('.db')}{ACLS_SUFFIX}"


@contextmanager
def leased_state(uri: str, folder: Path) -> Iterator[RemoteState]:
    """Lease a state, and copy it into a folder; raise BusyError if another run has leased it."""
    from feedferry.transforms.storage.objects.lease import Lease
    from feedferry.transforms.storage.objects.object_storage import ObjectStorage

    storage = ObjectStorage.of(uri)
    with Lease(storage, LEASE), mirroring(folder, storage):
        yield RemoteState(storage, folder / "state.db")
