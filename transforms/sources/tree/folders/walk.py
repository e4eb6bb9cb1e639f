"""A tree as the lines of a listing, in the order of the UTF-8 bytes of their keys.

Files that are left out or cannot be read are lines as well: only a root that cannot be listed stops
a walk. A folder is listed to its end before its first line is made, so a folder that cannot be
listed is REJECTED as a whole, and no file in it seems to be deleted. Memory is bounded: the entries
of a large folder are sorted on disk. Of local files, only the keys are sorted; the status of a file
is read when its line is made. Files that no rule leaves out are blocks, whose statuses are read and
compared with a state together.

Sidecars belong to the files that they describe, even if patterns exclude their names. The
fingerprint of a file includes those of its sidecars.
"""

import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby, islice
from operator import itemgetter

import msgspec
from msgspec.structs import replace

from feedferry.schemas.errors import FatalError, SourceError
from feedferry.transforms.sources.listing import (
    EntryKind,
    FileBlock,
    ListingEntry,
    entries_of,
    is_folder,
    left_out,
    rejected,
)
from feedferry.transforms.sources.remote import again, error_text, scheme_of, translate_errors
from feedferry.transforms.sources.tree.folders.folders import (
    LISTABLE,
    FolderItems,
    ListFolder,
    folder_lister,
    key_of,
)
from feedferry.transforms.sources.tree.rules.patterns import (
    SIDECAR,
    SIDECARS,
    described_by,
    judge,
    takes_all,
)
from feedferry.transforms.sources.tree.rules.tree import Tree
from feedferry.transforms.sources.tree.rules.urls import folder_url_of, is_unicode, url_of, urls_of
from feedferry.transforms.storage.files.scratch import scratch_database

RUN_LENGTH = 20_000
"""Entries of one folder that are sorted in memory; more are sorted on disk."""

KEYS_LENGTH = 100_000
"""The same for keys of local files."""

_PART_LENGTH = 1_000
MAX_DEPTH = 100
"""Folders nested deeper than this are taken for a loop."""

_Item = tuple[str, bool, ListingEntry | str]
"""An entry or its key, with its place: its own key, or that of a file that it describes."""

_KEY, _PLACE = itemgetter(0), itemgetter(0, 1)
_NO_NAMES = frozenset({"", ".", ".."})
_SCHEMA = "CREATE TABLE entries (key TEXT, describes INTEGER, entry BLOB)"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ListingEntry | str).decode


def list_tree(tree: Tree) -> Iterator[ListingEntry]:
    """Yield the lines of a tree: all of them, or only those of the files in `tree.only`.

    Raise SourceError if its root cannot be listed, ConfigError at once if it is no tree.
    """
    return entries_of(list_blocks(tree))


def list_blocks(tree: Tree, *, marks_files: bool = False) -> Iterator[ListingEntry | FileBlock]:
    """Yield the lines of a tree as `list_tree` does, those of files in blocks where it can.

    For `marks_files`, see `folder_lister`.
    """
    run_length = RUN_LENGTH if scheme_of(tree.root) else KEYS_LENGTH
    lister = folder_lister(tree, marks_files=marks_files)
    return walk(tree, lister, run_length=run_length)


def walk(
    tree: Tree, list_folder: ListFolder, *, run_length: int = RUN_LENGTH
) -> Iterator[ListingEntry | FileBlock]:
    """Yield the lines of a tree, depth first; folders that a rule leaves out are not listed.

    Raise SourceError if the root cannot be listed.
    """
    make = LineMaker(tree)
    root = ListingEntry(key="", kind=EntryKind.FOLDER, path=tree.root)
    try:
        folders = [_OpenFolder(root, list_folder, make, run_length)]
    except OSError as exc:
        raise SourceError(f"{tree.root}: {error_text(exc)}; {LISTABLE}") from exc
    try:
        while folders:
            line = next(folders[-1].lines, None)
            if line is None:
                folders.pop().close()
            elif isinstance(line, FileBlock):
                yield line
            elif line.kind is EntryKind.FOLDER and line.key != folders[-1].key:
                try:
                    if len(folders) == MAX_DEPTH:
                        raise OSError(f"{MAX_DEPTH} folders above it")
                    folders.append(_OpenFolder(line, list_folder, make, run_length))
                except OSError as exc:
                    reason = f"{error_text(exc)}; {LISTABLE}"
                    unlistable = rejected(line.key, line.path, "unlistable-folder", reason)
                    yield replace(unlistable, url=line.url)
            elif not tree.only or line.kind is EntryKind.FOLDER or line.key in tree.only:
                yield line
    finally:
        for folder in folders:
            folder.close()


class LineMaker:
    """Gives an entry its URL, and the code of the rule that leaves it out.

    A name that cannot be part of a URL is REJECTED. An entry without a path has no URL.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._code_of = judge(tree)

    def __call__(self, entry: ListingEntry) -> ListingEntry:
        key, is_file = entry.key, not is_folder(entry.key)
        if is_file and not _NO_NAMES.isdisjoint(key.split("/")):
            reason = f"{key!r}; expected no '//', '.' or '..' in a path"
            return rejected(key, entry.path, "file-name", reason)
        if not key.isascii() and not is_unicode(key):
            reason = f"{key!r}; expected a name in UTF-8, or ⟦name_charset⟧"
            return rejected(key, entry.path, "file-name", reason)
        url = (url_of if is_file else folder_url_of)(self._tree, key) if entry.path else ""
        code = self._code_of(key) if key and entry.code != SIDECAR else None
        if code is None and entry.kind is not EntryKind.FILTERED:
            return replace(entry, url=url)
        return replace(left_out(key, entry.path, code or entry.code), url=url)

    def of_files(
        self, folder: str, listed: FolderItems, keys: Sequence[str]
    ) -> Iterator[ListingEntry | FileBlock]:
        """Yield the lines of plain files that follow one another in a folder."""
        for begin in range(0, len(keys), _PART_LENGTH):
            part = keys[begin : begin + _PART_LENGTH]
            if takes_all(self._tree, folder, [key[len(folder) :] for key in part]):
                yield self._block_of(listed, part)
                continue
            for code, run in groupby(part, self._code_of):
                if code is None:
                    yield self._block_of(listed, [*run])
                else:
                    yield from map(self, map(listed.read, run))

    def _block_of(self, listed: FolderItems, keys: Sequence[str]) -> FileBlock:
        urls = urls_of(self._tree, keys)

        def entry_at(place: int) -> ListingEntry:
            entry = listed.read(keys[place])
            is_file = entry.kind is EntryKind.FILE
            return replace(entry, url=urls[place]) if is_file else self(entry)

        return FileBlock(keys, partial(listed.rows, keys, urls), entry_at)


class _OpenFolder:
    """A folder on the way: its lines in order, each file with its sidecars."""

    def __init__(
        self, folder: ListingEntry, list_folder: ListFolder, make: LineMaker, run_length: int
    ) -> None:
        self.key = folder.key
        self._items = FolderItems()
        self._database: sqlite3.Connection | None = None
        self._make = make
        self.lines = again(partial(self._sort, folder, list_folder, run_length))

    def close(self) -> None:
        self._items.close()
        if self._database is not None:
            self._database.close()

    def _sort(
        self, folder: ListingEntry, list_folder: ListFolder, run_length: int
    ) -> Iterator[ListingEntry | FileBlock]:
        self._items = FolderItems()
        try:
            with translate_errors(folder.path):
                self._items = list_folder(folder)
                entries = iter(self._items.items)
                first = list(islice(entries, run_length + 1))
                others = sorted([item for item in first if not isinstance(item, str)], key=key_of)
                keys = sorted([item for item in first if isinstance(item, str)])
                names = "\0".join((*keys, *map(key_of, others), ""))
                if len(first) > run_length:
                    placed = self._sort_on_disk(_items(chain(first, entries)))
                elif not any(f"{suffix}\0" in names for suffix in SIDECARS):
                    return self._merged(folder.key, keys, others)
                else:
                    placed = iter(sorted(_items(first), key=_PLACE))
                return map(self._make, self._with_sidecars(placed))
        except BaseException:
            self.close()
            raise

    def _merged(
        self, folder: str, keys: Sequence[str], others: Sequence[ListingEntry]
    ) -> Iterator[ListingEntry | FileBlock]:
        """Yield the lines of plain files and of other entries, both sorted, in one order."""
        begin = 0
        for entry in others:
            end = bisect_left(keys, entry.key, begin)
            yield from self._make.of_files(folder, self._items, keys[begin:end])
            yield self._make(entry)
            begin = end
        yield from self._make.of_files(folder, self._items, keys[begin:])

    def _sort_on_disk(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """Sort in a temporary database, which is removed when it is closed."""
        try:
            self._database = database = scratch_database(_SCHEMA)
            rows = ((key, describes, _encode(entry)) for key, describes, entry in items)
            database.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
            found = database.execute("SELECT * FROM entries ORDER BY key, describes")
        except sqlite3.Error as exc:
            reason = f"the folder of temporary files: {exc}; expected to write there"
            raise FatalError(reason) from exc
        return ((key, bool(describes), _decode(entry)) for key, describes, entry in found)

    def _with_sidecars(self, items: Iterable[_Item]) -> Iterator[ListingEntry]:
        """Yield the entries of a folder in their order, each file with its sidecars.

        The key of a sidecar begins with the key of its file, so few of them are remembered at a
        time.
        """
        known: set[str] = set()
        for key, group in groupby(items, key=_KEY):
            placed = [(describes, self._items.entry_of(item)) for _, describes, item in group]
            sidecars = [entry for describes, entry in placed if describes]
            for entry in (entry for describes, entry in placed if not describes):
                if key in known:
                    known.remove(key)
                    yield left_out(key, entry.path, SIDECAR)
                else:
                    known.update(sidecar.key for sidecar in sidecars)
                    yield _described(entry, sidecars) if sidecars else entry


def _items(entries: Iterable[ListingEntry | str]) -> Iterator[_Item]:
    for entry in entries:
        key = key_of(entry)
        yield key, False, entry
        if described := described_by(key):
            yield described, True, entry


def _described(entry: ListingEntry, sidecars: list[ListingEntry]) -> ListingEntry:
    """Return a file with its sidecars; any entry with the name of a sidecar counts as one.

    A link that is not followed may lead to the ACL of the file, and without that ACL the file would
    be public. So the file is rejected when the sidecar cannot be read.
    """
    sidecars.sort(key=lambda sidecar: sidecar.key)
    marks = (
        f"{sidecar.key.removeprefix(entry.key)}={sidecar.size}:{sidecar.latest_ns}"
        f":{sidecar.fingerprint}".rstrip(":")
        for sidecar in sidecars
    )
    return replace(
        entry,
        sidecars=tuple(sidecar.path for sidecar in sidecars),
        fingerprint=" ".join(filter(None, (*marks, entry.fingerprint))),
    )
