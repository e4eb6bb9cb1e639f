"""What is gone from a source since its state was updated: for trees and databases.

A source lists its present keys in their order, in batches, which `joined` merges with the state.
The source decides which entries of the state are gone, and passes them to `add_gone`. What an entry
is (a file, the member of an archive, a row) only the source knows.

All deletions are listed before all documents. So a document that takes over the URL of another one
is sent after the deletion of that. The URL of an entry that is gone is not deleted if an entry that
remains has it, too: the line of the entry has no URL then, and only removes the key from the state.
A URL that several such entries have is deleted once.

A run that would delete too much is stopped: a folder that is not mounted looks empty, and a wrong
filter looks like many deletions. So the listing is complete before any document is read.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TypeVar

from feedferry.schemas.errors import FeedferryError, StoppedError
from feedferry.schemas.sent_document import StateRow
from feedferry.schemas.source_options import SourceOptions
from feedferry.transforms.sources.listing import EntryKind, ListingEntry
from feedferry.transforms.storage.files.scratch import scratch_database
from feedferry.transforms.storage.state import SourceState

_Item = TypeVar("_Item")
_KEY = itemgetter(0)
_SCHEMA = """
CREATE TABLE gone (key TEXT PRIMARY KEY, url TEXT, is_expected INTEGER) WITHOUT ROWID;
CREATE INDEX gone_url ON gone (url, key);
"""
_LINES = """
SELECT key, url, is_expected, EXISTS (
    SELECT 1 FROM gone AS later WHERE later.url = gone.url AND later.key > gone.key
) FROM gone ORDER BY key
"""


class ChangeDetector:
    """Collects the entries of a state that are gone, in a temporary file of SQLite.

    `rewrite` makes the URLs that are sent of those in the state. `listed` is the number of present
    documents.
    """

    def __init__(self, state: SourceState, rewrite: Callable[[str], str] | None = None) -> None:
        self.state = state
        self.rewrite = rewrite
        self.listed = 0
        self._database = scratch_database(_SCHEMA)

    def joined(
        self, listed: Iterable[tuple[_Item, Sequence[str]]]
    ) -> Iterator[tuple[_Item | None, Sequence[StateRow]]]:
        """Yield each item with the rows of the state up to its last key; then the other rows.

        A key out of order would make other documents look deleted.
        """
        pages = self.state.outermost()
        page, at, last = next(pages, ()), 0, ""
        for item, keys in listed:
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

    def add_gone(self, key: str, url: str, *, is_expected: bool = False) -> None:
        """Add an entry that is gone, or has another URL now.

        The limit for deletions does not concern deletions that are expected, such as those that the
        source states.
        """
        row = key, url, is_expected
        self._database.execute("INSERT OR REPLACE INTO gone VALUES (?, ?, ?)", row)

    def deletions(self, limits: SourceOptions | None = None) -> Iterator[ListingEntry]:
        """Yield the lines of all entries that are gone, in the order of their keys.

        Then raise StoppedError if they exceed the limits.
        """
        missing = 0
        for key, url, is_expected, is_repeated in self._database.execute(_LINES):
            deleted = "" if is_repeated or (url and self._remains(url)) else url
            missing += bool(deleted) and not is_expected
            yield ListingEntry(key=key, kind=EntryKind.GONE, url=deleted)
        if limits is not None:
            known = self.state.head.documents
            check_safety(self.listed, missing, known=known, options=limits)

    def close(self) -> None:
        self._database.close()

    def _remains(self, url: str) -> bool:
        """Return whether an entry that is not gone has a URL."""
        query = "SELECT 1 FROM gone WHERE key = ?"
        return any(
            self._database.execute(query, (entry.key,)).fetchone() is None
            for entry in self.state.with_url(url, self.rewrite)
        )


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
