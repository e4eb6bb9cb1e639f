"""What a state keeps of a database: entries of three kinds, each with a form of its own.

After a successful run, only the entries that the next run needs are kept. If keys are compared, or
without a timestamp, that is every row. Otherwise it is the rows that the next run reads again, the
rows without a timestamp, and the rejected rows: rows below the watermark and its lag are forgotten.
"""

from collections.abc import Iterator
from heapq import merge
from operator import attrgetter
from typing import NamedTuple

import msgspec

from feedferry.schemas.sent_document import DELETION_SENT, SentDocument
from feedferry.transforms.storage.state import SourceState

_URL_PREFIX = '"'  # the key of a row is a JSON array
_AFTER_URLS = chr(ord(_URL_PREFIX) + 1)


class SentRow(NamedTuple):
    """A row, by its key as JSON.

    Its fingerprint is its timestamp. Without a digest, it was rejected, and it is read again by its
    key until it is accepted. Without a URL, its deletion was sent.
    """

    key: str
    url: str


class SentDeletion(NamedTuple):
    """A key of the query for deletes whose deletion was sent.

    It is kept while the query returns it, so that the deletion is sent once, and again by a
    refresh. Its fingerprint is the URL.
    """

    key: str
    url: str

    def entry(self) -> SentDocument:
        return SentDocument(key=self.key, url="", fingerprint=self.url, digest=DELETION_SENT)


class FormerUrl(NamedTuple):
    """The former URL of a row with a new URL, until the next run has deleted it.

    Its key is the URL, as JSON.
    """

    url: str

    def entry(self) -> SentDocument:
        return SentDocument(key=msgspec.json.encode(self.url).decode(), url="")


def is_row(entry: SentDocument) -> bool:
    """Return whether an entry is a row; states have many rows, and few other entries."""
    return entry.digest != DELETION_SENT and not entry.key.startswith(_URL_PREFIX)


def kind_of(entry: SentDocument) -> SentRow | SentDeletion | FormerUrl:
    """Return an entry of a state as an object of its kind."""
    if is_row(entry):
        return SentRow(entry.key, entry.url)
    if entry.digest == DELETION_SENT:
        return SentDeletion(entry.key, entry.fingerprint)
    return FormerUrl(msgspec.json.decode(entry.key, type=str))


def entries_without_rows(state: SourceState) -> Iterator[SentDocument]:
    """Yield the entries of a state that are no rows, in the order of keys."""
    former_urls = state.since(_URL_PREFIX, before=_AFTER_URLS)
    return merge(former_urls, state.with_digest(DELETION_SENT), key=attrgetter("key"))
