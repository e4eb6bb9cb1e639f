"""A disk for tests: it records its operations, and can fail at one of them."""

import os
from pathlib import Path

from feedferry.transforms.storage.files.journal import Disk


class RecordingDisk(Disk):
    """Does what a disk does and remembers it, as words such as `sync deliveries.jsonl`.

    After `fail_at`, an operation and all later ones fail.
    """

    def __init__(self, root: Path) -> None:
        self.done: list[str] = []
        self._root = root
        self._left: int | None = None

    def fail_at(self, operation: int) -> None:
        """Forget what was done; have an operation fail, counted from 1, and all after it."""
        self.done = []
        self._left = operation

    def write(self, file: int, block: bytes, offset: int) -> None:
        self._note("write", self._path(file))
        super().write(file, block, offset)

    def sync(self, file: int) -> None:
        self._note("sync", self._path(file))
        super().sync(file)

    def rename(self, path: Path, new: Path) -> None:
        self._note("rename", path, new)
        super().rename(path, new)

    def sync_folder(self, folder: Path) -> None:
        self._note("sync folder", folder)
        super().sync_folder(folder)

    def _note(self, *words: object) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                raise OSError(5, "Input/output error")
        self.done.append(" ".join(map(self._shown, words)))

    def _shown(self, word: object) -> str:
        if isinstance(word, Path) and word.is_relative_to(self._root):
            return str(word.relative_to(self._root))
        return str(word)

    def _path(self, file: int) -> Path:
        return Path(os.readlink(f"/proc/self/fd/{file}"))
