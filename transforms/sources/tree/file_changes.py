"""Changes of the files of a tree since its state was updated.

Each key has at most one line for the present document:

- unchanged: FILTERED, `unchanged`. If only its latest time differs, or is so recent that the file
  may have been written again within the same tick, it is a FILE with its `sent_document`: the
  reader compares the digest.
- new or changed: the line of the listing. If the URL has changed, the former URL is gone.

An entry of the state is gone if it is missing, or FILTERED by a rule. Documents whose present state
is unknown stay as they were sent: those REJECTED or vanished, and all documents below such a
folder.

The members of an archive that is gone are gone too. Those of a changed archive are in `members`,
and its reader deletes the members that are missing. This may be too late if another document can
have their URLs: then the names in the archive are read at once, and missing members are gone. A
changed document is its own only member, because it may be an archive now, and an archive may be a
document now. If all documents are sent as if they were new, members have no digest.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from operator import itemgetter

from msgspec.structs import replace

from feedferry.schemas.sent_document import NO_DIGEST, UNCHANGED, SentDocument, StateRow
from feedferry.schemas.units import counted
from feedferry.transforms.sources.changes.detector import ChangeDetector
from feedferry.transforms.sources.listing import (
    EntryKind,
    FileBlock,
    ListingEntry,
    entries_of,
    is_folder,
)

VANISHED = "vanished"

MemberKeys = Callable[[ListingEntry], Set[str] | None]
"""Returns the keys of the members that an archive has now, None if they are not known."""

_KEY, _TIME = itemgetter(0), itemgetter(3)
_FILE = EntryKind.FILE
_SENT = (EntryKind.FILE, EntryKind.FOLDER)
_YOUNG_NS = 2_000_000_000  # the ticks of FAT, the coarsest of all


def compare(
    listed: Iterable[ListingEntry | FileBlock],
    detector: ChangeDetector,
    *,
    rules: str,
    is_refresh: bool,
    member_keys: MemberKeys,
) -> Iterator[ListingEntry]:
    """Yield documents to send and those left out, in constant memory; `detector` gets the others.

    With other `rules` than those of the state, and with `is_refresh`, all documents are sent as if
    they were new; deletions are the same. Documents that share a URL after a rewriting are last;
    all of them are sent if one is changed or gone, because it has replaced the others.
    """
    sends_all = is_refresh or rules != detector.state.head.rules
    comparison = _Comparison(detector, member_keys, sends_all=sends_all)
    return comparison.lines(entries_of(listed) if sends_all else listed)


def merge_unchanged(
    lines: Iterable[ListingEntry], detector: ChangeDetector
) -> Iterator[ListingEntry]:
    """Yield all lines, with one for unchanged documents that follow one another: the first of them.

    `detector` gets the number of documents; folders do not count.
    """
    count = 0
    first = None
    for line in lines:
        if line.code == UNCHANGED:
            detector.listed += 0 if is_folder(line.key) else line.count
            first, count = first or line, count + line.count
            continue
        if first is not None:
            yield replace(first, count=count)
            first, count = None, 0
        detector.listed += line.kind is _FILE
        yield line
    if first is not None:
        yield replace(first, count=count)


class _Comparison:
    def __init__(
        self, detector: ChangeDetector, member_keys: MemberKeys, *, sends_all: bool
    ) -> None:
        state = detector.state
        self._detector = detector
        self._state = state
        self._member_keys = member_keys
        sharing = state.sharing(detector.rewrite)
        self._shared = {document.parent or document.key for document in sharing}
        self._sharing: list[ListingEntry] = []
        self._has_changed = False  # any of those
        self._sends_all = sends_all
        self._young_from_ns = state.head.listed_at_ns - _YOUNG_NS
        self._unknown: tuple[str, ...] = ()  # prefixes of keys whose present state is unknown

    def lines(self, listed: Iterable[ListingEntry | FileBlock]) -> Iterator[ListingEntry]:
        items = ((item, _keys_of(item)) for item in listed)
        for item, known in self._detector.joined(items):
            if isinstance(item, FileBlock):
                yield from self._files(item, known)
            elif item is not None:
                yield from self._line(item, known)
            else:
                self._add_missing(known)
        if self._has_changed:
            yield from self._sharing
        else:
            yield from (_unchanged(line.key, line.url) for line in self._sharing)

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
            and (not self._shared or self._shared.isdisjoint(map(_KEY, rows)))
        )

    def _line(self, line: ListingEntry, known: Sequence[StateRow]) -> Iterator[ListingEntry]:
        """Yield the line of an entry; documents of the state before it are missing."""
        has_former = bool(known) and known[-1][0] == line.key
        self._add_missing(known[:-1] if has_former else known)
        former = known[-1:] if has_former else ()
        row = (line.key, line.url, line.size, line.latest_ns, line.fingerprint)
        if line.kind is _FILE and self._are_plainly_unchanged((row,), (*former,)):
            yield _unchanged(line.key, line.url)
        else:
            yield from self._listed(line, _document(former[0]) if former else None)

    def _listed(self, line: ListingEntry, known: SentDocument | None) -> Iterator[ListingEntry]:
        if line.kind is EntryKind.REJECTED or line.code == VANISHED:
            self._leave(line.key)
            kept = self._state.count_below(line.key) if is_folder(line.key) else 0
            if kept and line.kind is EntryKind.REJECTED:
                stay = "stays" if kept == 1 else "stay"
                detail = f"{counted(kept, 'document')} below it {stay} at the target as before"
                line = replace(line, reason=f"{line.reason}; {detail}")
        elif line.kind in _SENT and known is not None:
            yield from self._known(line, known)
            return
        elif known is not None:
            self._add_gone(known)
        yield line

    def _leave(self, key: str) -> None:
        """Keep the state of a key and of all keys below it; few prefixes overlap."""
        prefix = key if is_folder(key) else f"{key}/"
        earlier = (other for other in self._unknown if other >= key or key.startswith(other))
        self._unknown = (*earlier, prefix)

    def _known(self, line: ListingEntry, known: SentDocument) -> Iterator[ListingEntry]:
        has_moved = known.url not in ("", line.url)
        is_alike = not (self._sends_all or has_moved) and self._is_alike(line, known)
        is_unchanged = is_alike and self._has_same_time(line, known)
        is_shared = line.key in self._shared
        if is_unchanged and not is_shared:
            yield _unchanged(line.key, line.url)
            return
        members: Sequence[SentDocument] = ()
        if has_moved:
            self._add_gone(known)
        elif line.kind is _FILE:
            members = [known] if known.url else self._members(line, is_unchanged=is_unchanged)
        before = self._state.find(known.key) if is_alike and not is_shared else None
        sent = replace(line, sent_document=before, members=tuple(members))
        if is_shared:
            self._sharing.append(sent)
            self._has_changed = self._has_changed or not is_unchanged
        else:
            yield sent

    def _is_alike(self, line: ListingEntry, known: SentDocument) -> bool:
        """Whether all inputs of the record but its time and content are the same."""
        is_of_size = line.size == known.size or line.kind is EntryKind.FOLDER
        return is_of_size and line.fingerprint == known.fingerprint

    def _has_same_time(self, line: ListingEntry, known: SentDocument) -> bool:
        """Whether the times prove that it is unchanged; the time of a folder means its files."""
        if line.kind is EntryKind.FOLDER:
            return True
        at = line.latest_ns
        return at is not None and at == known.modified_ns and at < self._young_from_ns

    def _members(self, archive: ListingEntry, *, is_unchanged: bool) -> list[SentDocument]:
        """Return the members of an archive that its reader compares; the others are gone.

        Only a rewriting makes URLs that other documents may have. Without it, the URLs of members
        begin with that of their archive.
        """
        is_shared = archive.key in self._shared
        has_common_urls = is_shared or self._detector.rewrite is not None
        present = self._member_keys(archive) if has_common_urls and not is_unchanged else None
        members = []
        for member in self._state.members_of(archive.key):
            is_missing = present is not None and member.key not in present
            if is_missing or not member.url.startswith(f"{archive.url}/"):
                self._add_gone(member, is_expected=True)
            else:
                is_new = self._sends_all or is_shared
                members.append(replace(member, digest=NO_DIGEST) if is_new else member)
        return members

    def _add_missing(self, known: Iterable[StateRow]) -> None:
        for row in known:
            if not row[0].startswith(self._unknown):
                self._add_gone(_document(row))

    def _add_gone(self, known: SentDocument, *, is_expected: bool = False) -> None:
        """Add a document, or an archive with its members."""
        members = () if known.url else self._state.members_of(known.key)
        for each in (known, *members):
            self._has_changed = self._has_changed or (each.parent or each.key) in self._shared
            is_folder_ = is_folder(each.key)
            self._detector.add_gone(each.key, each.url, is_expected=is_expected or is_folder_)


def _keys_of(item: ListingEntry | FileBlock) -> Sequence[str]:
    return item.keys if isinstance(item, FileBlock) else (item.key,)


def _unchanged(key: str, url: str, count: int = 1) -> ListingEntry:
    """Return the line of unchanged documents in a row, of the first of them."""
    kind = EntryKind.FILTERED
    return ListingEntry(key=key, kind=kind, url=url, code=UNCHANGED, count=count)


def _document(row: StateRow) -> SentDocument:
    """Return a document without its digest."""
    key, url, size, modified_ns, fingerprint = row
    return SentDocument(
        key=key, url=url, size=size, modified_ns=modified_ns, fingerprint=fingerprint
    )
