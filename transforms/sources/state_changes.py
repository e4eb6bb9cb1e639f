"""The state changes of a span: documents that its reader returned, and no later step rejected."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.schemas.account import SpanFile
from feedferry.schemas.record import Action
from feedferry.schemas.reject import Reject
from feedferry.schemas.sent_document import NO_DIGEST, SentDocument, StateChange
from feedferry.transforms.sources.listing import is_folder
from feedferry.transforms.storage.atomic import AtomicFile, paths_of, read_lines, whole_file
from feedferry.transforms.storage.state import SourceState

SEEN = ".seen.jsonl"
"""Suffix of these files."""

SHARED = ".shared.jsonl"
"""Suffix of the lists of URLs that documents may share, each with the key of a document."""

_encoder = msgspec.json.Encoder()


def store_changes(changes: Iterable[StateChange], path: Path) -> Iterator[StateChange]:
    """Return changes from a file that they are written to: a state that is read cannot change."""
    with whole_file(path) as stream:
        stream.writelines(_encoder.encode(change) + b"\n" for change in changes)
    return read_lines([path], StateChange)


def read_changes(folder: Path, files: Iterable[SpanFile]) -> Iterator[StateChange]:
    """Yield the changes of the spans of a run, in the order of the files of its account."""
    return read_lines(paths_of(folder, files, SEEN), StateChange)


def unsure_changes(
    folder: Path, files: Iterable[SpanFile], state: SourceState
) -> Iterator[StateChange]:
    """Return what a state has of the documents of a run that was sent in part.

    They have no digest, because it is not known what the appliance has. A document whose URL has
    changed keeps the former one, so that it is deleted.
    """

    def unsure(document: SentDocument) -> StateChange:
        sent = state.find(document.key) or document
        fingerprint = "" if is_folder(sent.key) else sent.fingerprint
        return StateChange(
            document=replace(sent, fingerprint=fingerprint, modified_ns=None, digest=NO_DIGEST)
        )

    changes = read_changes(folder, files)
    unsent = (unsure(change.document) for change in changes if not change.is_deleted)
    return store_changes(unsent, folder / "unsure.jsonl")


def rejected(change: StateChange) -> StateChange:
    """Return what a state remembers of a row that was rejected after it was read."""
    return StateChange(document=replace(change.document, digest=NO_DIGEST))


class StateChangeFile:
    """Collects the changes of a span in memory; the size of the span bounds them.

    A rejected file is not remembered. A rejected row is remembered without a digest, so that the
    next run reads it by its key. An archive with a rejected member is remembered without a time, so
    that the next run reads it again; its other members are compared by their digests.
    """

    def __init__(self, file: AtomicFile, *, keeps_rejected: bool) -> None:
        self._file = file
        self._keeps_rejected = keeps_rejected
        self._changes: dict[tuple[str, bool], StateChange] = {}
        self._places: dict[tuple[str, bool], tuple[str, bool]] = {}
        self._incomplete_archives: set[str] = set()

    @property
    def written(self) -> SpanFile | None:
        return self._file.written

    def add(self, change: StateChange) -> None:
        """Add a document, before the reader yields its outcome."""
        place = change.document.key, change.is_deleted
        self._changes[place] = change
        self._places[change.document.url, change.is_deleted] = place

    def reject(self, reject: Reject) -> None:
        """Remove the document whose URL was rejected, if the reader returned one."""
        is_deleted = reject.action == Action.DELETE.value
        place = self._places.get((reject.url or "", is_deleted))
        if reject.url is None or place not in self._changes:
            return
        change = self._changes[place]
        if change.document.parent is not None:
            self._incomplete_archives.add(change.document.parent)
        if self._keeps_rejected:
            self._changes[place] = rejected(change)
        else:
            del self._changes[place]

    def write(self) -> None:
        """Write a line for each document; without documents, there is no file."""
        for change in self._changes.values():
            if change.document.key in self._incomplete_archives:
                incomplete = replace(change.document, modified_ns=None)
                self._write(replace(change, document=incomplete))
            else:
                self._write(change)
        self._file.close(whole=True)

    def _write(self, change: StateChange) -> None:
        self._file.write(_encoder.encode(change) + b"\n")
