"""A tree as the lines of a listing, in the order of the UTF-8 bytes of their keys.

Files that are left out or cannot be read are lines as well: only a root that cannot be listed stops
a walk. A folder is listed to its end before its first line is made, so a folder that cannot be
listed is REJECTED as a whole, and no file in it seems to be deleted. Memory is bounded: the entries
of a large folder are sorted on disk.

Sidecars belong to the files that they describe, even if patterns exclude their names. The
fingerprint of a file includes those of its sidecars.
"""

import errno
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

import msgspec

from schemas.errors import SourceError
from transforms.sources.listing import EntryKind, ListingEntry
from transforms.sources.tree.external_sort import ExternalSort, SortCodec
from transforms.sources.tree.local_folders import LocalFolders
from transforms.sources.tree.patterns import SIDECAR, SIDECARS, described_by
from transforms.sources.tree.remote import error_text, scheme_of, translate_errors
from transforms.sources.tree.remote_folders import remote_folders
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.urls import line_maker

RUN_LENGTH = 50_000
"""Entries of one folder that are sorted in memory; more are sorted on disk."""

MAX_DEPTH = 100
"""Folders nested deeper than this are taken for a loop."""

ListFolder = Callable[[ListingEntry], Iterable[ListingEntry]]
"""Lists the entries of a folder in any order; raises what its library raises.

The entry of a folder has the kind FOLDER and a key that ends in `/`. An entry with the key of the
listed folder itself is a line of the listing.
"""

_LISTABLE = "expected a folder that can be listed"


class _SortedItem(msgspec.Struct, frozen=True, array_like=True):
    """An entry in the place of its key; a sidecar is also in the place of the file it describes."""

    key: str
    is_description: bool
    entry: ListingEntry


_CODEC = SortCodec[_SortedItem](
    key=lambda item: (item.key, item.is_description),
    encode=msgspec.json.Encoder().encode,
    decode=msgspec.json.Decoder(_SortedItem).decode,
)


def list_tree(tree: Tree) -> Iterator[ListingEntry]:
    """Yield the lines of a tree: all of them, or only those of the files in `tree.only`.

    Raise SourceError if its root cannot be listed, ConfigError at once if it is no tree.
    """
    folders = remote_folders(tree) if scheme_of(tree.root) else LocalFolders(tree)
    return walk(tree, folders)


def walk(
    tree: Tree, list_folder: ListFolder, *, run_length: int = RUN_LENGTH
) -> Iterator[ListingEntry]:
    """Yield the lines of a tree, depth first; folders that a rule leaves out are not listed.

    Raise SourceError if the root cannot be listed.
    """
    line_of = line_maker(tree)
    root = ListingEntry(key="", kind=EntryKind.FOLDER, path=tree.root)
    try:
        folders = [_OpenFolder(root, list_folder, run_length)]
    except OSError as exc:
        raise SourceError(f"{tree.root}: {error_text(exc)}; {_LISTABLE}") from exc
    try:
        while folders:
            entry = next(folders[-1].entries, None)
            if entry is None:
                folders.pop().close()
                continue
            line = line_of(entry)
            if line.kind is EntryKind.FOLDER and line.key != folders[-1].key:
                if len(folders) == MAX_DEPTH:
                    yield _unlistable(line, f"{MAX_DEPTH} folders above it; expected fewer")
                    continue
                try:
                    folders.append(_OpenFolder(entry, list_folder, run_length))
                except OSError as exc:
                    yield _unlistable(line, f"{error_text(exc)}; {_LISTABLE}")
            elif not tree.only or line.kind is EntryKind.FOLDER or line.key in tree.only:
                yield line
    finally:
        for folder in folders:
            folder.close()


class _OpenFolder:
    """A folder on the way: its sorted entries, each file with its sidecars."""

    def __init__(self, folder: ListingEntry, list_folder: ListFolder, run_length: int) -> None:
        self.key = folder.key
        self._sorted = _sort(folder, list_folder, run_length)
        self.entries = _with_sidecars(self._sorted)

    def close(self) -> None:
        self._sorted.close()


def _sort(
    folder: ListingEntry, list_folder: ListFolder, run_length: int
) -> ExternalSort[_SortedItem]:
    """Return the entries of a folder; a connection that has ended is opened again once."""
    try:
        return _sort_once(folder, list_folder, run_length)
    except OSError as exc:
        if exc.errno != errno.EIO:
            raise
    return _sort_once(folder, list_folder, run_length)


def _sort_once(
    folder: ListingEntry, list_folder: ListFolder, run_length: int
) -> ExternalSort[_SortedItem]:
    with translate_errors(folder.path):
        return ExternalSort(_items(list_folder(folder)), _CODEC, run_length=run_length)


def _items(entries: Iterable[ListingEntry]) -> Iterator[_SortedItem]:
    for entry in entries:
        yield _SortedItem(entry.key, False, entry)
        if described := described_by(entry.key):
            yield _SortedItem(described, True, entry)


def _with_sidecars(items: Iterable[_SortedItem]) -> Iterator[ListingEntry]:
    """Yield the entries of a folder in their order, each file with its sidecars.

    The key of a sidecar begins with the key of its file, so few of them are remembered at a time.
    """
    known: set[str] = set()
    for key, group in groupby(items, key=lambda item: item.key):
        found = list(group)
        sidecars = [item.entry for item in found if item.is_description]
        for item in found[: len(found) - len(sidecars)]:
            if key in known:
                known.remove(key)
                yield _as_sidecar(item.entry)
            else:
                known.update(sidecar.key for sidecar in sidecars)
                yield _described(item.entry, sidecars) if sidecars else item.entry


def _as_sidecar(entry: ListingEntry) -> ListingEntry:
    return ListingEntry(key=entry.key, kind=EntryKind.FILTERED, path=entry.path, code=SIDECAR)


def _described(entry: ListingEntry, sidecars: list[ListingEntry]) -> ListingEntry:
    """Return a file with its sidecars; any entry with the name of a sidecar counts as one.

    A link that is not followed may lead to the ACL of the file, and without that ACL the file would
    be public. So the file is rejected when the sidecar cannot be read.
    """
    sidecars.sort(key=lambda sidecar: _suffix_place(sidecar.key))
    marks = (
        f"{sidecar.key.removeprefix(entry.key)}={sidecar.size}:{sidecar.modified_ns}"
        f":{sidecar.fingerprint}".rstrip(":")
        for sidecar in sidecars
    )
    return msgspec.structs.replace(
        entry,
        sidecars=tuple(sidecar.path for sidecar in sidecars),
        fingerprint=" ".join(filter(None, (*marks, entry.fingerprint))),
    )


def _suffix_place(key: str) -> int:
    return next(place for place, suffix in enumerate(SIDECARS) if key.endswith(suffix))


def _unlistable(folder: ListingEntry, reason: str) -> ListingEntry:
    return msgspec.structs.replace(
        folder, kind=EntryKind.REJECTED, code="unlistable-folder", reason=reason
    )
