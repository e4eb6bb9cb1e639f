"""What has changed in a source since its state was moved: a merge of both, in the order of keys.

Of each key comes at most one line of what is to be deleted, and then one of what stands there:

- as it was: FILTERED, `unchanged`. Where only its time differs, or is so young that it may have
  been written again within the same tick, it is a FILE with what is `known` of it: whoever reads it
  compares the digest.
- new or changed: as it was listed. If it has another url than before, that is GONE first.
- not there any more, or FILTERED by a rule: GONE. What cannot be told stays as it was sent: what is
  REJECTED or vanished, and all below a folder that is.

A GONE line without a url deletes nothing and is only to be forgotten: an archive, which was no
document itself, or a document whose url another one has now. The members of an archive that is
GONE are so too; of one that has changed they are in `members`, and whoever reads it deletes those
that it does not find, or finds at another url. A document that has changed is its own only member,
for it may be found to be an archive now, as an archive may be found to be a document. Where all is
sent as if it were new, members have no digest.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from heapq import heappop, heappush

import msgspec

from schemas.errors import FeedferryError
from schemas.known import UNCHANGED, Known
from transforms.sources.listing import EntryKind, ListingEntry
from transforms.storage.state import SourceState

VANISHED = "vanished"
_SENT = (EntryKind.FILE, EntryKind.FOLDER)
_YOUNG_NS = 2_000_000_000  # the ticks of FAT, the coarsest there are


def compare(
    listed: Iterable[ListingEntry], state: SourceState, *, rules: str, is_refresh: bool
) -> Iterator[ListingEntry]:
    """Yield what is to be sent and deleted, and what is not; the state need fit no memory.

    With other `rules` than those of the state, and with `is_refresh`, all is sent as if it were
    new; deletions are the same.
    """
    with closing(_Claims(state)) as claims:
        is_anew = is_refresh or rules != state.rules
        yield from _Comparison(state, claims, is_anew=is_anew).lines(listed)


def is_folder(line: ListingEntry) -> bool:
    """Whether the line is about a folder, whatever became of it; the key of the root is empty."""
    return not line.key or line.key.endswith("/")


class _Comparison:
    def __init__(self, state: SourceState, claims: "_Claims", *, is_anew: bool) -> None:
        self._state = state
        self._claims = claims
        self._is_anew = is_anew
        self._young_from_ns = state.listed_at_ns - _YOUNG_NS
        self._untold: tuple[str, ...] = ()  # beginnings of keys below what cannot be told
        self._members: list[tuple[str, Known]] = []  # a heap: those of archives that are gone

    def lines(self, listed: Iterable[ListingEntry]) -> Iterator[ListingEntry]:
        for met in _join(listed, self._state.outermost()):
            if isinstance(met, Known):
                yield from self._members_until(met.key)
                yield from self._not_listed(met)
            else:
                yield from self._members_until(met[0].key)
                yield from self._listed(*met)
        while self._members:
            yield self._deletion(heappop(self._members)[1])

    def _listed(self, line: ListingEntry, known: Known | None) -> Iterator[ListingEntry]:
        if _is_untold(line):
            self._leave(line, known)
        elif line.kind in _SENT:
            yield from self._sent(line, known)
            return
        elif known is not None:
            yield from self._gone(known)
        yield line

    def _not_listed(self, known: Known) -> Iterator[ListingEntry]:
        if known.key.startswith(self._untold):
            self._claims.hold(known)
        else:
            yield from self._gone(known)

    def _leave(self, line: ListingEntry, known: Known | None) -> None:
        """Keep what the state has of it, and of all below; few keys begin like one another."""
        key = line.key
        beginning = key if is_folder(line) else f"{key}/"
        before = (one for one in self._untold if one >= key or key.startswith(one))
        self._untold = (*before, beginning)
        if known is not None:
            self._claims.hold(known)

    def _sent(self, line: ListingEntry, known: Known | None) -> Iterator[ListingEntry]:
        if known is None or known.url != line.url:
            self._claims.claim(line.url, key=line.key)
        if known is None:
            yield line
            return
        has_moved = known.url not in ("", line.url)
        if not has_moved:
            self._claims.hold(known)
        is_alike = not self._is_anew and not has_moved and _is_alike(line, known)
        if is_alike and self._has_same_time(line, known):
            yield ListingEntry(key=line.key, kind=EntryKind.FILTERED, url=line.url, code=UNCHANGED)
            return
        if has_moved and not self._claims.has(known):
            yield self._deletion(known)
        yield msgspec.structs.replace(
            line,
            known=known if is_alike else None,
            members=() if has_moved or line.kind is EntryKind.FOLDER else self._before(known),
        )

    def _before(self, known: Known) -> tuple[Known, ...]:
        """What was sent of a file: itself, or the members of an archive."""
        if known.url:
            return () if self._claims.has(known) else (known,)
        members = self._state.members_of(known.key)
        if self._is_anew:
            return tuple(msgspec.structs.replace(member, digest="") for member in members)
        return members

    def _has_same_time(self, line: ListingEntry, known: Known) -> bool:
        """Whether the times show that it is the same; of a folder they only show its files."""
        if line.kind is EntryKind.FOLDER:
            return True
        at = line.modified_ns
        return at is not None and at == known.modified_ns and at < self._young_from_ns

    def _gone(self, known: Known) -> Iterator[ListingEntry]:
        yield self._deletion(known)
        if not known.url:
            for member in self._state.members_of(known.key):
                heappush(self._members, (member.key, member))

    def _members_until(self, key: str) -> Iterator[ListingEntry]:
        while self._members and self._members[0][0] <= key:
            yield self._deletion(heappop(self._members)[1])

    def _deletion(self, known: Known) -> ListingEntry:
        url = "" if known.url and self._claims.has(known) else known.url
        return ListingEntry(key=known.key, kind=EntryKind.GONE, url=url)


class _Claims:
    """Urls of documents that stand, where the state has them for others: not to be deleted.

    Two documents may have one url, by a template, and a document that is moved may keep its own.
    These urls stand in a file that has no name and ends with the process.
    """

    def __init__(self, state: SourceState) -> None:
        self._state = state
        self._shares_urls = state.shares_urls()
        self._is_empty = True
        self._connection = sqlite3.connect("", isolation_level=None)
        self._connection.execute("CREATE TABLE claimed (url TEXT PRIMARY KEY) WITHOUT ROWID")

    def claim(self, url: str, *, key: str) -> None:
        """Keep the url from being deleted, for the document of this key."""
        if url and self._state.has_elsewhere(url, key=key):
            self._connection.execute("INSERT OR IGNORE INTO claimed VALUES (?)", (url,))
            self._is_empty = False

    def hold(self, known: Known) -> None:
        """Claim what a document that stays has, or the members of an archive."""
        if self._shares_urls:
            for one in (known,) if known.url else self._state.members_of(known.key):
                self.claim(one.url, key=one.key)

    def has(self, known: Known) -> bool:
        """Whether the url is claimed, or its deletion a matter of a document that follows."""
        return self._is_claimed(known.url) or self._is_left(known)

    def _is_claimed(self, url: str) -> bool:
        if self._is_empty:
            return False
        rows = self._connection.execute("SELECT 1 FROM claimed WHERE url = ?", (url,))
        return rows.fetchone() is not None

    def _is_left(self, known: Known) -> bool:
        return self._shares_urls and self._state.has_later(known.url, key=known.key)

    def close(self) -> None:
        self._connection.close()


def _join(
    listed: Iterable[ListingEntry], outermost: Iterator[Known]
) -> Iterator[tuple[ListingEntry, Known | None] | Known]:
    """Yield each line with what is known of it, and in its place what is known and not listed."""
    known = next(outermost, None)
    for line in _in_order(listed):
        while known is not None and known.key < line.key:
            yield known
            known = next(outermost, None)
        if known is not None and known.key == line.key:
            yield line, known
            known = next(outermost, None)
        else:
            yield line, None
    while known is not None:
        yield known
        known = next(outermost, None)


def _in_order(listed: Iterable[ListingEntry]) -> Iterator[ListingEntry]:
    """Yield all lines; one out of order would look as if others were gone."""
    last = ""
    for line in listed:
        if line.key < last:
            raise FeedferryError(
                f"{line.key!r} listed behind {last!r}: a defect of feedferry; nothing was read"
            )
        last = line.key
        yield line


def _is_untold(line: ListingEntry) -> bool:
    return line.kind is EntryKind.REJECTED or line.code == VANISHED


def _is_alike(line: ListingEntry, known: Known) -> bool:
    """Whether all that it is made of is as it was, as far as can be told without its time."""
    is_same_size = line.kind is EntryKind.FOLDER or line.size == known.size
    return is_same_size and line.fingerprint == known.fingerprint
