"""A listing: a file with a line for each thing in a source, so that spans are ranges of one file.

The listing is written before the pipeline starts, and a run that is started again uses it again.
The lines are JSON, in the order of the bytes of their keys; deletions come first.
"""

import enum
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

import msgspec
from msgspec.structs import replace

from feedferry.schemas.sent_document import SentDocument, StateRow
from feedferry.schemas.span import Span
from feedferry.schemas.span_size import AUTO, auto_span_bytes
from feedferry.transforms.sources.files import sign_path
from feedferry.transforms.storage.atomic import whole_file

LISTING = "listing"
"""The format of a span that is a range of a listing."""

LINE_BYTES = 1 << 10
"""The size of a document in a span, besides its own bytes."""


class EntryKind(enum.Enum):
    """The kind of an entry of a listing.

    A FILE is read; of a FOLDER only the ACL is sent; a GONE document is deleted at its URL. A
    FILTERED or REJECTED entry is counted.
    """

    FILE = "FILE"
    FOLDER = "FOLDER"
    GONE = "GONE"
    FILTERED = "FILTERED"
    REJECTED = "REJECTED"


class ListingEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document that is in a source, or was.

    `key` is unique: in a tree the path below its root, with `/` between its parts. `path` is the
    place to open. `code` says why the entry is filtered or rejected, `reason` what was found.
    `changed_ns` is the change time (ctime) of a local file. `fingerprint` is one text of the other
    inputs of the record, `sidecars` the paths of files that describe it. `sent_document` is the
    entry in the state. `count` is the number of FILTERED entries that the entry represents.
    `members` are the documents that were sent of it, each at a URL of its own: the members of an
    archive, or the documents of a row.
    """

    key: str
    kind: EntryKind = EntryKind.FILE
    path: str = ""
    url: str = ""
    size: int = 0
    modified_ns: int | None = None
    changed_ns: int | None = None
    fingerprint: str = ""
    sidecars: tuple[str, ...] = ()
    code: str = ""
    count: int = 1
    reason: str = ""
    sent_document: SentDocument | None = None
    members: tuple[SentDocument, ...] = ()

    @property
    def latest_ns(self) -> int | None:
        """The later of its times: a write changes the ctime, if it does not change the mtime."""
        if self.modified_ns is None or self.changed_ns is None:
            return self.changed_ns if self.modified_ns is None else self.modified_ns
        return max(self.modified_ns, self.changed_ns)


class FileBlock(NamedTuple):
    """Files that follow one another in a listing; they are read before the next item is.

    `rows` returns what a state would have of them, and `entry_at` makes the entry of one of them,
    which is of another kind if the file has changed meanwhile.
    """

    keys: Sequence[str]
    rows: Callable[[], Sequence[StateRow]]
    entry_at: Callable[[int], ListingEntry]


def entries_of(items: Iterable[ListingEntry | FileBlock]) -> Iterator[ListingEntry]:
    """Yield the entries of blocks one by one, and other entries as they are."""
    for item in items:
        if isinstance(item, FileBlock):
            yield from map(item.entry_at, range(len(item.keys)))
        else:
            yield item


def file_entry(
    key: str, path: str, size: int | None, modified_ns: int | None, fingerprint: str = ""
) -> ListingEntry:
    """Return the entry of a file; a size of None is unknown, a file without bytes is left out."""
    if size == 0:
        return left_out(key, path, "empty")
    return ListingEntry(
        key=key, path=path, size=size or 0, modified_ns=modified_ns, fingerprint=fingerprint
    )


def left_out(key: str, path: str, code: str) -> ListingEntry:
    """Return an entry that is left out by the rule of a code."""
    return ListingEntry(key=key, kind=EntryKind.FILTERED, path=path, code=code)


def rejected(key: str, path: str, code: str, reason: str) -> ListingEntry:
    """Return an entry that cannot be read."""
    return ListingEntry(key=key, kind=EntryKind.REJECTED, path=path, code=code, reason=reason)


def is_folder(key: str) -> bool:
    """Whether an entry of any kind is about a folder; the key of the root is empty."""
    return not key or key.endswith("/")


class _EntrySize(msgspec.Struct, frozen=True):
    size: int = 0
    count: int = 1


_entries = msgspec.json.Decoder(ListingEntry)
_sizes = msgspec.json.Decoder(_EntrySize)


def plain_path(text: str) -> str:
    """Return the path of an entry; one that is not UTF-8 is in hexadecimal after NUL."""
    return os.fsdecode(bytes.fromhex(text[1:])) if text.startswith("\0") else text


def write_listing(entries: Iterable[ListingEntry], path: Path) -> None:
    """Write all entries, atomically."""
    encoder = msgspec.json.Encoder()
    with whole_file(path) as stream:
        stream.writelines(encoder.encode(entry) + b"\n" for entry in entries)


def write_changes(
    documents: Iterable[ListingEntry], deletions: Iterable[ListingEntry], path: Path
) -> None:
    """Write the deletions, which are known after the documents, and then the documents."""
    encoder = msgspec.json.Encoder()
    with whole_file(path) as stream, TemporaryFile(dir=path.parent) as later:
        later.writelines(encoder.encode(entry) + b"\n" for entry in documents)
        stream.writelines(encoder.encode(entry) + b"\n" for entry in deletions)
        later.seek(0)
        shutil.copyfileobj(later, stream)


def read_listing(stream: IO[bytes]) -> Iterator[tuple[int, ListingEntry]]:
    """Yield the entries of a listing with plain paths, each with its offset in the stream."""
    offset = 0
    for line in stream:
        entry = _entries.decode(line)
        if rb'"\u0000' in line:
            sidecars = tuple(map(plain_path, entry.sidecars))
            entry = replace(entry, path=plain_path(entry.path), sidecars=sidecars)
        yield offset, entry
        offset += len(line)


def size_listing(stream: IO[bytes]) -> tuple[int, int]:
    """Return the bytes of all entries, and their number."""
    size = number = 0
    for line in stream:
        entry = _sizes.decode(line)
        size += entry.size
        number += entry.count
    return size, number


def cut_listing(whole: Span, *, span_bytes: int) -> Iterator[Span]:
    """Yield spans of a listing, each with about `span_bytes` of listed content, in order."""
    if span_bytes == AUTO:
        with open(whole.path, "rb") as stream:
            size, number = size_listing(stream)
        span_bytes = auto_span_bytes([size + LINE_BYTES * number])
    whole = replace(whole, format=LISTING, signature=sign_path(whole.path))
    ordinal = begin = end = size = 0
    with open(whole.path, "rb") as stream:
        for line in stream:
            more = LINE_BYTES + _sizes.decode(line).size
            if size and size + more > span_bytes:
                yield replace(whole, ordinal=ordinal, offset=begin, length=end - begin)
                ordinal, begin, size = ordinal + 1, end, 0
            end += len(line)
            size += more
    if size:
        yield replace(whole, ordinal=ordinal, offset=begin, length=end - begin)
