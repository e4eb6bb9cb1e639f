"""What a span lets a state know: all that its reader saw and nobody rejected behind it."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from schemas.account import SpanFile
from schemas.known import Seen
from schemas.record import Action
from schemas.reject import Reject
from transforms.storage.atomic import LineFile, WrittenFile

SEEN = ".seen.jsonl"
"""How the names of these files end."""


_decoder = msgspec.json.Decoder(Seen)


def read_seen(folder: Path, files: Iterable[SpanFile]) -> Iterator[Seen]:
    """Yield what all spans of a run saw, in the order of the files of its account."""
    for file in files:
        if file.path.endswith(SEEN):
            with (folder / file.path).open("rb") as lines:
                yield from map(_decoder.decode, lines)


def rejected(seen: Seen) -> Seen:
    """Return what to remember of a row that was rejected behind its reader."""
    return Seen(known=msgspec.structs.replace(seen.known, digest=""))


class SeenFile:
    """Gathers what is seen; holds all of it, which is bounded by what a span may have.

    A file that was rejected is not known. A row is, but without a digest, so that the next run
    reads it by its key. An archive of which a member was rejected is known without its time, so
    that the next run reads it again: its other members are known by it.
    """

    def __init__(self, path: Path, *, keeps_rejected: bool) -> None:
        self._path = path
        self.written: WrittenFile | None = None
        self._keeps_rejected = keeps_rejected
        self._seen: dict[tuple[str, bool], Seen] = {}
        self._places: dict[tuple[str, bool], tuple[str, bool]] = {}
        self._spoiled: set[str] = set()

    def add(self, seen: Seen) -> None:
        """Take what the reader saw, before it yields what came of it."""
        place = seen.known.key, seen.is_gone
        self._seen[place] = seen
        self._places[seen.known.url, seen.is_gone] = place

    def reject(self, reject: Reject) -> None:
        """Take back what was seen of the url that was rejected, if anything was."""
        is_gone = reject.action == Action.DELETE.value
        place = self._places.get((reject.url or "", is_gone))
        if reject.url is None or place not in self._seen:
            return
        seen = self._seen.pop(place)
        if seen.known.parent is not None:
            self._spoiled.add(seen.known.parent)
        if self._keeps_rejected:
            self._seen[place] = rejected(seen)

    def write(self) -> None:
        """Write a line for each, if there are any."""
        if self._seen:
            lines = LineFile(self._path)
            for one in self._seen.values():
                lines.add(msgspec.json.encode(self._kept(one)))
            lines.close(whole=True)
            self.written = lines.written

    def _kept(self, seen: Seen) -> Seen:
        if seen.known.key not in self._spoiled:
            return seen
        known = msgspec.structs.replace(seen.known, modified_ns=None)
        return msgspec.structs.replace(seen, known=known)
