"""Trees wherever they stand: local ones are walked, those of servers listed, others left to Beam.

Beam's file systems for Google, Azure and HDFS take their options from the pipeline, or by
`FileSystems.set_options`.
"""

import re
from collections.abc import Iterator
from functools import partial

from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem
from apache_beam.io.filesystems import FileSystems

from schemas.errors import ConfigError, SourceError
from transforms.sources.listing import Listed
from transforms.sources.tree.remote.listing import Remote, in_order, list_files, rejected
from transforms.sources.tree.remote.schemes import LISTED, check_remote, list_remote, scheme_of
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.walk import walk

_NO_FOLDER = re.compile("not a directory", re.IGNORECASE)


def list_tree(tree: Tree) -> Iterator[Listed]:
    """Yield what stands in a tree, in the order of the UTF-8 bytes of its keys.

    Raise SourceError where its root cannot be listed, ConfigError where no such tree can.
    """
    scheme = scheme_of(tree.root)
    if not scheme:
        return walk(tree)
    check_remote(tree.root)
    return list_remote(tree) if scheme in LISTED else list_with_beam(tree)


def list_with_beam(tree: Tree) -> Iterator[Listed]:
    """Yield what stands in a tree that only Beam knows; not all of its file systems keep an order.

    Those that have folders list one at a time, and do not say which of its names are folders.
    """
    files = _file_system(tree.root)
    try:
        found = in_order(_list_all(files, f"{tree.root}/"))
    except BeamIOError as exc:
        reason = f"{_words(exc)}; expected a tree that can be listed"
        raise SourceError(f"{tree.root}: {reason}") from exc
    yield from list_files(tree, found, find=partial(_find, files, tree.root))


def _file_system(root: str) -> FileSystem:
    try:
        return FileSystems.get_filesystem(root)
    except (ValueError, BeamIOError) as exc:
        scheme = scheme_of(root)
        raise ConfigError(
            f"{scheme}: Beam has no file system for it, or not its options ({exc}); expected it:"
            " pip install 'apache-beam[gcp]', 'apache-beam[azure]' or hdfs"
        ) from exc


def _list_all(files: FileSystem, top: str) -> Iterator[Remote]:
    """Yield all files, in no order; raise BeamIOError where the top cannot be listed."""
    folders = [iter(files._list(top))]
    while folders:
        metadata = next(folders[-1], None)
        if metadata is None:
            folders.pop()
        elif metadata.size_in_bytes or not files.has_dirs():
            yield _remote(metadata, top)
        else:
            yield from _open_folder(files, metadata, top, folders)


def _open_folder(
    files: FileSystem, metadata: FileMetadata, top: str, folders: list[Iterator[FileMetadata]]
) -> Iterator[Remote]:
    """Go on in what may be a folder, or yield what it is: only who tries to list it can tell."""
    path = metadata.path.removesuffix("/")
    try:
        folders.append(iter(list(files._list(f"{path}/"))))
    except BeamIOError as exc:
        words = _words(exc)
        if _NO_FOLDER.search(words):
            yield _remote(metadata, top)
        else:
            reason = f"{words}; expected a folder that can be listed"
            yield rejected(f"{path.removeprefix(top)}/", path, "unlistable-folder", reason)


def _remote(metadata: FileMetadata, top: str) -> Remote:
    seconds = metadata.last_updated_in_seconds
    return Remote(
        key=metadata.path.removeprefix(top),
        path=metadata.path,
        size=metadata.size_in_bytes,
        modified_ns=round(seconds * 1_000_000) * 1000 if seconds else None,
    )


def _find(files: FileSystem, root: str, key: str) -> Remote | None:
    path = f"{root}/{key}"
    return _remote(files.metadata(path), f"{root}/") if files.exists(path) else None


def _words(exc: BeamIOError) -> str:
    """What the file system said, without Beam's words around it."""
    causes = (exc.exception_details or {}).values()
    return "; ".join(map(str, causes)) or str(exc)
