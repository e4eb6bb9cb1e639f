"""A tree as the lines of a listing, in the order of the UTF-8 bytes of their keys.

Files that are left out or cannot be read are lines as well: only a root that cannot be listed stops
a walk. A folder is listed to its end before its first line is made, so a folder that cannot be
listed is REJECTED as a whole, and no file in it seems to be deleted. Memory is bounded: the entries
of a large folder are sorted on disk.

Sidecars belong to the files that they describe, even if patterns exclude their names. The
fingerprint of a file includes those of its sidecars.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter

import msgspec
from msgspec.structs import replace

from schemas.errors import FatalError, SourceError
from transforms.sources.listing import EntryKind, ListingEntry, is_folder, left_out, rejected
from transforms.sources.remote import again, error_text, translate_errors
from transforms.sources.tree.folders import LISTABLE, ListFolder, folder_lister
from transforms.sources.tree.patterns import SIDECAR, SIDECARS, described_by, judge
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.urls import folder_url_of, is_unicode, url_of
from transforms.storage.scratch import scratch_database

RUN_LENGTH = 20_000
"""Entries of one folder that are sorted in memory; more are sorted on disk."""

MAX_DEPTH = 100
"""Folders nested deeper than this are taken for a loop."""

_Item = tuple[str, bool, ListingEntry]
"""An entry with its place: its own key, or that of the file that it describes, and whether so."""

_KEY, _PLACE = itemgetter(0), itemgetter(0, 1)
_NO_NAMES = frozenset({"", ".", ".."})
_SCHEMA = "CREATE TABLE entries (key TEXT, describes INTEGER, entry BLOB)"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ListingEntry).decode


def list_tree(tree: Tree) -> Iterator[ListingEntry]:
    """Yield the lines of a tree: all of them, or only those of the files in `tree.only`.

    Raise SourceError if its root cannot be listed, ConfigError at once if it is no tree.
    """
    return walk(tree, folder_lister(tree))


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
        raise SourceError(f"{tree.root}: {error_text(exc)}; {LISTABLE}") from exc
    try:
        while folders:
            entry = next(folders[-1].entries, None)
            if entry is None:
                folders.pop().close()
                continue
            line = line_of(entry)
            if line.kind is EntryKind.FOLDER and line.key != folders[-1].key:
                try:
                    if len(folders) == MAX_DEPTH:
                        raise OSError(f"{MAX_DEPTH} folders above it")
                    folders.append(_OpenFolder(entry, list_folder, run_length))
                except OSError as exc:
                    reason = f"{error_text(exc)}; {LISTABLE}"
                    unlistable = rejected(line.key, line.path, "unlistable-folder", reason)
                    yield replace(unlistable, url=line.url)
            elif not tree.only or line.kind is EntryKind.FOLDER or line.key in tree.only:
                yield line
    finally:
        for folder in folders:
            folder.close()


def line_maker(tree: Tree) -> Callable[[ListingEntry], ListingEntry]:
    """Return the function that gives an entry its URL, and the code of the rule that leaves it out.

    A name that cannot be part of a URL is REJECTED. An entry without a path has no URL.
    """
    code_of = judge(tree)

    def line_of(entry: ListingEntry) -> ListingEntry:
        key, is_file = entry.key, not is_folder(entry.key)
        if is_file and not _NO_NAMES.isdisjoint(key.split("/")):
            reason = f"{key!r}; expected no '//', '.' or '..' in a path"
            return rejected(key, entry.path, "file-name", reason)
        if not key.isascii() and not is_unicode(key):
            reason = f"{key!r}; expected a name in UTF-8, or ⟦name_charset⟧"
            return rejected(key, entry.path, "file-name", reason)
        url = (url_of if is_file else folder_url_of)(tree, key) if entry.path else ""
        code = code_of(key) if key and entry.code != SIDECAR else None
        if code is None and entry.kind is not EntryKind.FILTERED:
            return replace(entry, url=url)
        return replace(left_out(key, entry.path, code or entry.code), url=url)

    return line_of


class _OpenFolder:
    """A folder on the way: its sorted entries, each file with its sidecars."""

    def __init__(self, folder: ListingEntry, list_folder: ListFolder, run_length: int) -> None:
        self.key = folder.key
        self._database: sqlite3.Connection | None = None
        self.entries = again(partial(self._sort, folder, list_folder, run_length))

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def _sort(
        self, folder: ListingEntry, list_folder: ListFolder, run_length: int
    ) -> Iterator[ListingEntry]:
        try:
            with translate_errors(folder.path):
                entries = iter(list_folder(folder))
                first = list(islice(entries, run_length + 1))
                if len(first) > run_length:
                    return _with_sidecars(self._sort_on_disk(_items(chain(first, entries))))
                if any(entry.key.endswith(SIDECARS) for entry in first):
                    return _with_sidecars(sorted(_items(first), key=_PLACE))
                return iter(sorted(first, key=attrgetter("key")))
        except BaseException:
            self.close()
            raise

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


def _items(entries: Iterable[ListingEntry]) -> Iterator[_Item]:
    for entry in entries:
        yield entry.key, False, entry
        if described := described_by(entry.key):
            yield described, True, entry


def _with_sidecars(items: Iterable[_Item]) -> Iterator[ListingEntry]:
    """Yield the entries of a folder in their order, each file with its sidecars.

    The key of a sidecar begins with the key of its file, so few of them are remembered at a time.
    """
    known: set[str] = set()
    for key, group in groupby(items, key=_KEY):
        placed = [*group]
        sidecars = [entry for _, describes, entry in placed if describes]
        for entry in (entry for _, describes, entry in placed if not describes):
            if key in known:
                known.remove(key)
                yield left_out(key, entry.path, SIDECAR)
            else:
                known.update(sidecar.key for sidecar in sidecars)
                yield _described(entry, sidecars) if sidecars else entry


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
