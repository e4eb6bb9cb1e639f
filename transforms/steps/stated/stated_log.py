"""The statements of a span about who may see documents, for the store of a job."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.schemas.account import SpanFile
from feedferry.schemas.acl import Acl
from feedferry.schemas.feed import FULL
from feedferry.schemas.record import DELETIONS, Action, Provenance, Record
from feedferry.transforms.steps.stated.acl_bytes import packed
from feedferry.transforms.steps.stated.acl_mapping import AclMapping
from feedferry.transforms.steps.step import StepResult, with_acl
from feedferry.transforms.storage.atomic import AtomicFile, paths_of, read_lines

STATED = ".stated.jsonl"
"""The suffix of the list of a span."""

GONE, PATTERN, FULL_FEED = 0, -1, -2
UNKNOWN = -3
"""The key of an ACL that is not known any more."""

UNSURE_DIGEST = b"?"
"""In place of a digest: it is not known with which principals documents were sent."""

_KEYS = 65_536
_BLOCK = 1024


class StatedAclRow(msgspec.Struct, frozen=True, array_like=True):
    """An ACL in bytes by a key of both, with the digest of what the steps make of it."""

    key: int
    acl: bytes | None
    mapped: bytes


class StatedBlock(msgspec.Struct, frozen=True, array_like=True):
    """What records of a datasource state, in order: the URL of each, and the key of its ACL.

    Each ACL is in a block of the span up to the first in which it has a document. In place of a
    key, `GONE` says that the document has no ACL any more, `PATTERN` the same of all documents
    whose URLs match it, and `FULL_FEED` of all documents of the datasource.
    """

    datasource: str
    urls: list[str]
    keys: list[int]
    acls: list[StatedAclRow]


class StatedLog:
    """Writes the list of one span. `datasource` and `feedtype` replace those of records.

    A run that `withholds` hides the documents that are set aside.
    """

    def __init__(
        self,
        file: AtomicFile,
        mapping: AclMapping,
        *,
        datasource: str | None,
        feedtype: str | None,
        withholds: bool = True,
    ) -> None:
        self._file = file
        self._withholds = withholds
        self._mapping = mapping
        self._datasource, self._feedtype = datasource, feedtype
        self._keys: dict[Acl, int] = {}
        self._feed: Provenance | None = None
        self._block = StatedBlock("", [], [], [])

    @property
    def written(self) -> list[SpanFile]:
        """The complete file, after it was closed."""
        return [self._file.written] if self._file.written else []

    def add(self, before: Record, items: Iterable[StepResult]) -> None:
        """Add a record and what the steps have made of it."""
        feed = before.provenance
        if feed is not self._feed:
            self._enter(feed)
        for item in items:
            if isinstance(item, Record):
                self._add(before, item)

    def add_undecided(self, before: Record, url: str) -> None:
        """Add a record whose URL and ACL the steps have accepted, but have not decided about.

        A document without an ACL states none of its own; the one that arrived alone stays.
        """
        if before.provenance is not self._feed:
            self._enter(before.provenance)
        if (stated := with_acl(before).acl) is not None:
            key = self._keys.get(stated)
            self._state(url, self._store(stated) if key is None else key)

    def forget(self, urls: Iterable[str], datasource: str | None) -> None:
        """Add documents that are set aside: no new name opens those that are hidden again.

        Others have an ACL that is not known any more, so that a new name hides them.
        """
        stated = datasource or (self._feed and self._feed.datasource)
        place, current = self._datasource or stated or "", self._block.datasource
        self._enter_datasource(place)
        for url in urls:
            if not self._withholds:
                self._block.acls.append(StatedAclRow(UNKNOWN, None, UNSURE_DIGEST))
            self._state(url, GONE if self._withholds else UNKNOWN)
        self._enter_datasource(current)

    def close(self, *, whole: bool) -> None:
        if whole:
            self._write()
        self._file.close(whole=whole)

    def _enter(self, feed: Provenance) -> None:
        known, self._feed = self._feed, feed
        if known is not None and (known.datasource, known.feedtype, known.source) == (
            feed.datasource,
            feed.feedtype,
            feed.source,
        ):
            return
        self._enter_datasource(self._datasource or feed.datasource or "")
        if (self._feedtype or feed.feedtype) == FULL:
            self._state("", FULL_FEED)

    def _enter_datasource(self, name: str) -> None:
        if name != self._block.datasource:
            self._write()
            self._block = StatedBlock(name, [], [], [])

    def _add(self, before: Record, item: Record) -> None:
        action = item.action
        stated = None if action in DELETIONS else with_acl(before).acl
        if stated is not None:
            key = self._keys.get(stated)
            self._state(item.url, self._store(stated, item) if key is None else key)
        elif action is Action.DELETE_PATTERN:
            self._state(item.url, PATTERN)
        elif action is Action.DELETE or (action is Action.ADD and item.acl is None):
            self._state(item.url, GONE)

    def _state(self, url: str, key: int) -> None:
        if not url.isascii() and not _is_text(url):
            return
        block = self._block
        block.urls.append(url.strip())
        block.keys.append(key)
        if len(block.keys) == _BLOCK:
            self._write()

    def _store(self, stated: Acl, item: Record | None = None) -> int:
        """Add an ACL; return its key."""
        if len(self._keys) == _KEYS:
            self._keys.clear()
        mapped = self._mapping.digest_of(self._mapping.mapped(stated, item))
        row = stated_row(stated, mapped)
        self._block.acls.append(row)
        self._keys[stated] = row.key
        return row.key

    def _write(self) -> None:
        block = self._block
        if block.keys or block.acls:
            self._file.write(msgspec.json.encode(block) + b"\n")
            self._block = StatedBlock(block.datasource, [], [], [])


def stated_row(acl: Acl | None, mapped: bytes) -> StatedAclRow:
    """Return an ACL and the digest of its mapped form with their key, which is above 0 if known."""
    if acl is None:
        return StatedAclRow(UNKNOWN, None, mapped)
    if acl.alone or acl.decision or acl.withholds:
        acl = replace(acl, alone=False, decision=(), withholds=False)
    data = packed(acl)
    digest = blake2b(data + mapped, digest_size=8).digest()
    return StatedAclRow(int.from_bytes(digest, "big") >> 1 or 1, data, mapped)


def _is_text(url: str) -> bool:
    """Whether a URL is Unicode text; the writer rejects a record whose URL is none."""
    try:
        url.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_stated(folder: Path, files: Iterable[SpanFile]) -> Iterator[StatedBlock]:
    """Yield the blocks of all spans of a run, in the order of the spans."""
    return read_lines(paths_of(folder, files, STATED), StatedBlock)
