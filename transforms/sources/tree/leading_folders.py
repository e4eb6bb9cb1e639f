"""The folders that a user must be able to search to read a file of a local tree.

They are those from the root of the tree down to the file. The folders above the root do not count:
a mount or an export may bypass them. If links are followed, the folders of the real path count too,
from the root of the file system if the path leads out of the tree.
"""

import os
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from transforms.sources.tree.tree import Tree


class LeadingFolders:
    """The folders that lead to a file or folder of a tree, as paths."""

    def __init__(self, tree: Tree) -> None:
        self.root = str(Path(tree.root).absolute())  # as the paths in the listing begin
        self._real_root = os.path.realpath(self.root)
        self._follows_links = tree.follow_links
        self._of_folder = lru_cache(maxsize=1)(lambda folder: [*self.of_tree(f"{folder}/file")])

    def of_tree(self, path: str) -> Iterator[str]:
        """Yield the folders from the root down to that of a path."""
        return _between(self.root, path)

    def of_links(self, path: str) -> Iterator[str]:
        """Yield the folders of the real path, if links lead elsewhere."""
        if not self._follows_links:
            return
        real = os.path.realpath(path)
        expected = os.path.join(self._real_root, below(self.root, path))
        if real != (expected.rstrip("/") or "/"):
            is_inside = real.startswith(self._real_root.rstrip("/") + "/")
            yield from _between(self._real_root if is_inside else "/", real)

    def are_closed(self, path: str) -> bool:
        """Whether others may not search one of the folders of a path now."""
        of_tree = self._of_folder(path.rpartition("/")[0])
        return any(map(is_closed, of_tree)) or any(map(is_closed, self.of_links(path)))


def is_closed(folder: str) -> bool:
    """Whether others may not search a folder."""
    return not os.stat(folder).st_mode & stat.S_IXOTH


def below(root: str, path: str) -> str:
    """Return a path below a root, without slashes at its ends."""
    return path.removeprefix(root).strip("/")


def _between(root: str, path: str) -> Iterator[str]:
    """Yield the folders from a root down to the folder of a path below it."""
    yield root
    folder = root.rstrip("/")
    for name in below(root, path).split("/")[:-1]:
        folder = f"{folder}/{name}"
        yield folder
