"""Changes of a source since its state was updated: a merge of listing and state, ordered by key.

Each key has at most one line for a deletion, and then one line for the present document:

- unchanged: FILTERED, `unchanged`. If only its latest time differs, or is so recent that the file
  may have been written again within the same tick, it is a FILE with its `sent_document`: the
  reader compares the digest.
- new or changed: the line of the listing. If the URL has changed, the former URL is GONE first.
- missing, or FILTERED by a rule: GONE. Documents whose present state is unknown stay as they were
  sent: those REJECTED or vanished, and all documents below such a folder.

A GONE line without a URL deletes no document and only removes a key from the state: an archive,
which is no document itself, or a document whose URL now belongs to another document. The members of
an archive that is GONE are GONE too. Those of a changed archive are in `members`, and its reader
deletes the members that are missing or have another URL. A changed document is its own only member,
because it may be an archive now, and an archive may be a document now. If all documents are sent as
if they were new, members have no digest. A file that is new in place of a folder comes after the
deletions of what was in the folder: it may be an archive whose members have the same keys and URLs.

A run that would delete too much is stopped: a folder that is not mounted looks empty, and a wrong
filter looks like many deletions. So the listing is counted before any document is read.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import closing
from heapq import heappop, heappush
from operator import itemgetter

import msgspec

from feedferry.schemas.errors import FeedferryError, StoppedError
from feedferry.schemas.sent_document import NO_DIGEST, UNCHANGED, SentDocument, StateRow
from feedferry.schemas.source_options import SourceOptions
from feedferry.transforms.sources.listing import (
    EntryKind,
    FileBlock,
    ListingEntry,
    entries_of,
    is_folder,
)
from feedferry.transforms.storage.files.scratch import scratch_database
from feedferry.transforms.storage.state import SourceState

VANISHED = "vanished"

_KEY, _TIME = itemgetter(0), itemgetter(3)
_FILE = EntryKind.FILE
_SENT = (EntryKind.FILE, EntryKind.FOLDER)
_SCHEMA = "CREATE TABLE claimed (url TEXT PRIMARY KEY) WITHOUT ROWID"
_YOUNG_NS = 2_000_000_000  # the ticks of FAT, the coarsest of all


def compare(
    listed: Iterable[ListingEntry | FileBlock],
    state: SourceState,
    *,
    rules: str,
    is_refresh: bool,
    rewrite: Callable[[str], str] | None = None,
) -> Iterator[ListingEntry]:
    """Yield documents to send and to delete, and those left out, in constant memory.

    With other `rules` than those of the state, and with `is_refresh`, all documents are sent as if
    they were new; deletions are the same. Documents that share a URL after `rewrite` are last; all
    of them are sent if one is changed or gone, because it has replaced the others. Which members an
    archive still has is not known before it is read, so the members of such archives are deleted
    first, and the archives are new after that.
    """
    shared = {document.parent or document.key for document in state.sharing(rewrite)}
    with closing(_Claims(state, rewrite)) as claims:
        sends_all = is_refresh or rules != state.head.rules
        yield from _Comparison(state, claims, shared, sends_all=sends_all).lines(listed)


def check_changes(
    lines: Iterable[ListingEntry], *, known: int, options: SourceOptions
) -> Iterator[ListingEntry]:
    """Yield all lines, with one for unchanged documents that follow one another: the first of them.

    Then raise StoppedError if too many documents are missing. Folders and deletions without a URL
    do not count.
    """
    listed = gone = count = 0
    first = None
    for line in lines:
        if line.code == UNCHANGED:
            listed += 0 if is_folder(line.key) else line.count
            first, count = first or line, count + line.count
            continue
        if first is not None:
            yield msgspec.structs.replace(first, count=count)
            first, count = None, 0
        if line.kind is EntryKind.FILE:
            listed += 1
        elif line.kind is EntryKind.GONE and line.url and not is_folder(line.key):
            gone += line.count
        yield line
    if first is not None:
        yield msgspec.structs.replace(first, count=count)
    check_safety(listed, gone, known=known, options=options)


def check_safety(listed: int, gone: int, *, known: int, options: SourceOptions) -> None:
    """Raise StoppedError if too many of the documents in the state are missing in the source."""
    if known and listed < options.min_records:
        raise StoppedError(
            f"{listed} documents are in the source, and the state has {known}; expected "
            f"{options.min_records} or more; no document was read: check whether the source is "
            "complete; if it is, ⟦min_records⟧ allows fewer"
        )
    if gone * 100 > options.max_delete_percent * known:
        raise StoppedError(
            f"{gone} of {known} documents in the state are gone; expected at most "
            f"{options.max_delete_percent}% of them; no document was read: check whether the "
            "source is complete; if it is, ⟦max_delete_percent⟧ allows more"
        )


class _Comparison:
    def __init__(
        self, state: SourceState, claims: "_Claims", shared: Set[str], *, sends_all: bool
    ) -> None:
        self._state = state
        self._claims = claims
        self._shared = shared
        self._above_gone: list[ListingEntry] = []
        self._sharing: list[ListingEntry] = []
        self._has_changed = False  # any of those
        self._sends_all = sends_all
        self._young_from_ns = state.head.listed_at_ns - _YOUNG_NS
        self._unknown: tuple[str, ...] = ()  # prefixes of keys whose present state is unknown
        self._members: list[tuple[str, SentDocument]] = []  # a heap, of archives that are gone

    def lines(self, listed: Iterable[ListingEntry | FileBlock]) -> Iterator[ListingEntry]:
        items = entries_of(listed) if self._sends_all else listed
        for item, known in _join(items, self._state.outermost()):
            if isinstance(item, FileBlock):
                yield from self._files(item, known)
            elif item is not None:
                yield from self._line(item, known)
            else:
                for row in known:
                    yield from self._missing(_document(row))
        while self._members:
            yield self._deletion(heappop(self._members)[1])
        yield from self._above_gone
        if not self._has_changed:
            yield from (_unchanged(line.key, line.url) for line in self._sharing)
            return
        archives = {member.parent for line in self._sharing for member in line.members} - {None}
        for line in self._sharing:
            if line.key in archives:
                yield _replaced(SentDocument(key=line.key, url=""))
                yield from map(_replaced, line.members)
        for line in self._sharing:
            yield msgspec.structs.replace(line, members=()) if line.key in archives else line

    def _files(self, block: FileBlock, known: Sequence[StateRow]) -> Iterator[ListingEntry]:
        """Yield the lines of a block, which is halved until files are unchanged, or single."""
        parts = [(range(len(block.keys)), block.rows(), known)]
        while parts:
            places, rows, known = parts.pop()
            if self._are_plainly_unchanged(rows, known):
                yield _unchanged(*rows[0][:2], count=len(rows))
            elif len(rows) == 1:
                yield from self._line(block.entry_at(places[0]), known)
            else:
                half = len(rows) // 2
                end = bisect_right(known, rows[half - 1][0], key=_KEY)
                parts.append((places[half:], rows[half:], known[end:]))
                parts.append((places[:half], rows[:half], known[:end]))

    def _are_plainly_unchanged(self, rows: Sequence[StateRow], known: Sequence[StateRow]) -> bool:
        """Whether files need nothing but to be counted: no other document shares their URLs."""
        return (
            rows == known
            and not self._sends_all
            and rows[0][3] is not None  # as of some remote files
            and max(map(_TIME, rows)) < self._young_from_ns
            and not (self._members and self._members[0][0] <= rows[-1][0])
            and (not self._shared or self._shared.isdisjoint(map(_KEY, rows)))
        )

    def _line(self, line: ListingEntry, known: Sequence[StateRow]) -> Iterator[ListingEntry]:
        """Yield the lines of an entry, after those of missing documents before it."""
        has_former = bool(known) and known[-1][0] == line.key
        for row in known[:-1] if has_former else known:
            yield from self._missing(_document(row))
        yield from self._members_until(line.key)
        former = known[-1:] if has_former else ()
        row = (line.key, line.url, line.size, line.latest_ns, line.fingerprint)
        if line.kind is _FILE and self._are_plainly_unchanged((row,), (*former,)):
            yield _unchanged(line.key, line.url)
        else:
            yield from self._listed(line, _document(former[0]) if former else None)

    def _missing(self, known: SentDocument) -> Iterator[ListingEntry]:
        yield from self._members_until(known.key)
        if known.key.startswith(self._unknown):
            self._claims.hold(known)
        else:
            yield from self._gone(known)

    def _listed(self, line: ListingEntry, known: SentDocument | None) -> Iterator[ListingEntry]:
        if line.kind is EntryKind.REJECTED or line.code == VANISHED:
            self._leave(line, known)
        elif line.kind in _SENT:
            yield from self._sent(line, known)
            return
        elif known is not None:
            yield from self._gone(known)
        yield line

    def _leave(self, line: ListingEntry, known: SentDocument | None) -> None:
        """Keep the state of a key and of all keys below it; few prefixes overlap."""
        key = line.key
        prefix = key if is_folder(line.key) else f"{key}/"
        earlier = (other for other in self._unknown if other >= key or key.startswith(other))
        self._unknown = (*earlier, prefix)
        if known is not None:
            self._claims.hold(known)

    def _sent(self, line: ListingEntry, known: SentDocument | None) -> Iterator[ListingEntry]:
        if known is None or known.url != line.url:
            self._claims.claim(line.url, key=line.key)
        if known is None:
            if any(self._state.since(f"{line.key}/", before=f"{line.key}0")):
                self._above_gone.append(line)  # after the deletions of what was in the folder
            else:
                yield line
            return
        has_moved = known.url not in ("", line.url)
        if not has_moved:
            self._claims.hold(known)
        is_alike = not (self._sends_all or has_moved) and self._is_alike(line, known)
        is_unchanged, is_shared = (
            is_alike and self._has_same_time(line, known),
            line.key in self._shared,
        )
        if is_unchanged and not is_shared:
            yield _unchanged(line.key, line.url)
            return
        if has_moved and not self._claims.has(known):
            yield self._deletion(known)
        sent = msgspec.structs.replace(
            line,
            sent_document=self._state.find(known.key) if is_alike and not is_shared else None,
            members=() if has_moved or line.kind is EntryKind.FOLDER else self._before(known),
        )
        if is_shared:
            self._sharing.append(sent)
            self._has_changed = self._has_changed or not is_unchanged
        else:
            yield sent

    def _is_alike(self, line: ListingEntry, known: SentDocument) -> bool:
        """Whether all inputs of the record but its time and content are the same."""
        is_of_size = line.size == known.size or line.kind is EntryKind.FOLDER
        return is_of_size and line.fingerprint == known.fingerprint

    def _before(self, known: SentDocument) -> tuple[SentDocument, ...]:
        """Return the sent documents of a file: itself, or the members of an archive."""
        if known.url:
            return () if self._claims.has(known) else (known,)
        members = self._state.members_of(known.key)
        if self._sends_all or known.key in self._shared:
            members = tuple(msgspec.structs.replace(member, digest=NO_DIGEST) for member in members)
        if known.key in self._shared:
            return members
        return tuple(map(self._claims.without_claimed_url, members))

    def _has_same_time(self, line: ListingEntry, known: SentDocument) -> bool:
        """Whether the times prove that it is unchanged; the time of a folder means its files."""
        if line.kind is EntryKind.FOLDER:
            return True
        at = line.latest_ns
        return at is not None and at == known.modified_ns and at < self._young_from_ns

    def _gone(self, known: SentDocument) -> Iterator[ListingEntry]:
        yield self._deletion(known)
        if not known.url:
            for member in self._state.members_of(known.key):
                heappush(self._members, (member.key, member))

    def _members_until(self, key: str) -> Iterator[ListingEntry]:
        while self._members and self._members[0][0] <= key:
            yield self._deletion(heappop(self._members)[1])

    def _deletion(self, known: SentDocument) -> ListingEntry:
        self._has_changed = self._has_changed or (known.parent or known.key) in self._shared
        url = "" if known.url and self._claims.has(known) else known.url
        return ListingEntry(key=known.key, kind=EntryKind.GONE, url=url)


def _unchanged(key: str, url: str, count: int = 1) -> ListingEntry:
    """Return the line of unchanged documents in a row, of the first of them."""
    kind = EntryKind.FILTERED
    return ListingEntry(key=key, kind=kind, url=url, code=UNCHANGED, count=count)


def _replaced(known: SentDocument) -> ListingEntry:
    """Return the deletion of a document that is sent again after it, and counts as none."""
    return ListingEntry(key=known.key, kind=EntryKind.GONE, url=known.url, count=0)


def _document(row: StateRow) -> SentDocument:
    """Return a document without its digest."""
    key, url, size, modified_ns, fingerprint = row
    return SentDocument(
        key=key, url=url, size=size, modified_ns=modified_ns, fingerprint=fingerprint
    )


class _Claims:
    """URLs of present documents that the state has for other keys, and that must not be deleted.

    Two documents may have one URL, by a template, and a moved document may keep its URL. With
    `rewrite`, the URLs of new documents are compared as it makes them.
    """

    def __init__(self, state: SourceState, rewrite: Callable[[str], str] | None) -> None:
        self._state = state
        self._rewrite = rewrite
        self.shares_urls = bool(state.sharing(None))
        self._database = scratch_database(_SCHEMA)

    def claim(self, url: str, *, key: str) -> None:
        """Protect a URL from deletion, for the document with this key."""
        if url and (self._rewrite is not None or self._state.has_elsewhere(url, key=key)):
            row = (self._sent_url(url),)
            self._database.execute("INSERT OR IGNORE INTO claimed VALUES (?)", row)

    def hold(self, known: SentDocument) -> None:
        """Claim the URL of a document that stays, or those of the members of an archive."""
        if self.shares_urls:
            for document in (known,) if known.url else self._state.members_of(known.key):
                if self._state.has_elsewhere(document.url, key=document.key):
                    self.claim(document.url, key=document.key)

    def has(self, known: SentDocument) -> bool:
        """Whether the URL is claimed, or a later document decides about its deletion."""
        query = "SELECT 1 FROM claimed WHERE url = ?"
        if self._database.execute(query, (self._sent_url(known.url),)).fetchone() is not None:
            return True
        return self.shares_urls and self._state.has_later(known.url, key=known.key)

    def without_claimed_url(self, member: SentDocument) -> SentDocument:
        """Return a member, without its URL if a document before its archive has taken that over."""
        return msgspec.structs.replace(member, url="") if self.has(member) else member

    def close(self) -> None:
        self._database.close()

    def _sent_url(self, url: str) -> str:
        return url if self._rewrite is None else self._rewrite(url)


def _join(
    listed: Iterable[ListingEntry | FileBlock], pages: Iterator[Sequence[StateRow]]
) -> Iterator[tuple[ListingEntry | FileBlock | None, Sequence[StateRow]]]:
    """Yield each item with the rows of the state up to its last key; at the end, the other rows.

    A line out of order would make other documents look deleted.
    """
    page, at, last = next(pages, ()), 0, ""
    for item in listed:
        keys = item.keys if isinstance(item, FileBlock) else (item.key,)
        first, end = keys[0], keys[-1]
        if first < last:
            raise FeedferryError(
                f"{first!r} listed after {last!r}: a defect of feedferry; no document was read"
            )
        last = end
        known: list[StateRow] = []
        while page:
            begin, at = at, bisect_right(page, end, at, key=_KEY)
            known += page[begin:at]
            if at < len(page):
                break
            page, at = next(pages, ()), 0
        yield item, known
    yield None, page[at:]
    yield from ((None, page) for page in pages)
