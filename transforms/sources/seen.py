"""The documents of a span for a state: seen by its reader, and not rejected later."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from schemas.account import SpanFile
from schemas.known import Seen
from schemas.record import Action
from schemas.reject import Reject
from transforms.storage.atomic import LineFile, WrittenFile

SEEN = ".seen.jsonl"
"""Suffix of these files."""

_decoder = msgspec.json.Decoder(Seen)


def read_seen(folder: Path, files: Iterable[SpanFile]) -> Iterator[Seen]:
    """Yield what the spans of a run saw, in the order of the files of its account."""
    for file in files:
        if file.path.endswith(SEEN):
            with (folder / file.path).open("rb") as lines:
                yield from map(_decoder.decode, lines)


def rejected(seen: Seen) -> Seen:
    """Return what a state remembers of a row that was rejected after it was read."""
    return Seen(known=replace(seen.known, digest=""))


class SeenFile:
    """Collects what a reader saw, in memory; the size of a span bounds it.

    A rejected file is not remembered. A rejected row is remembered without a digest, so that the
    next run reads it by its key. An archive with a rejected member is remembered without a time, so
    that the next run reads it again; its other members are compared by their digests.
    """

    def __init__(self, path: Path, *, keeps_rejected: bool) -> None:
        self._path = path
        self.written: WrittenFile | None = None
        self._keeps_rejected = keeps_rejected
        self._seen: dict[tuple[str, bool], Seen] = {}
        self._places: dict[tuple[str, bool], tuple[str, bool]] = {}
        self._incomplete_archives: set[str] = set()

    def add(self, seen: Seen) -> None:
        """Add a document, before the reader yields its outcome."""
        place = seen.known.key, seen.is_gone
        self._seen[place] = seen
        self._places[seen.known.url, seen.is_gone] = place

    def reject(self, reject: Reject) -> None:
        """Remove the document whose URL was rejected, if the reader saw one."""
        is_gone = reject.action == Action.DELETE.value
        place = self._places.get((reject.url or "", is_gone))
        if reject.url is None or place not in self._seen:
            return
        seen = self._seen.pop(place)
        if seen.known.parent is not None:
            self._incomplete_archives.add(seen.known.parent)
        if self._keeps_rejected:
            self._seen[place] = rejected(seen)

    def write(self) -> None:
        """Write a line for each document; without documents, there is no file."""
        if self._seen:
            lines = LineFile(self._path)
            for seen in self._seen.values():
                lines.add(msgspec.json.encode(self._without_time(seen)))
            lines.close(whole=True)
            self.written = lines.written

    def _without_time(self, seen: Seen) -> Seen:
        """Return an incomplete archive without its time, any other document as it is."""
        if seen.known.key not in self._incomplete_archives:
            return seen
        return replace(seen, known=replace(seen.known, modified_ns=None))
