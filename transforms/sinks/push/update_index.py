"""The request that updates Thunderstone's search indexes: once, after all other chunks.

**Spec:** Thunderstone dataload API: "UI - Update search indexes (call after a batch of
inserts/deletes)".
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from schemas.account import Chunk
from schemas.record import Action, Record
from transforms.chunk import write_chunk
from transforms.formats import THUNDERSTONE, WriteOptions
from transforms.sinks.push.model import ApplianceProtocol
from transforms.sinks.push.settings import PushSettings

UPDATE_FILE = "update-index.xml"
"""The request that updates search indexes, if no run has made one."""

_DEFAULT_OPTIONS = WriteOptions()


def is_update(chunk: Chunk) -> bool:
    """Whether a chunk only requests an update of the search indexes."""
    return set(chunk.records) == {Action.UPDATE_INDEX.value}


def is_added_update(chunk: Chunk) -> bool:
    """Whether feedferry added the request. It comes from no source and is no record."""
    return is_update(chunk) and not chunk.source


def update_document(options: WriteOptions = _DEFAULT_OPTIONS) -> bytes:
    """Return the document that requests an update of the search indexes."""
    encoder = THUNDERSTONE.make_encoder(options)
    update = encoder.encode(Record(url="", action=Action.UPDATE_INDEX))
    return encoder.prolog() + encoder.frame([update]) + encoder.epilog()


def write_update(path: Path, *, options: WriteOptions = _DEFAULT_OPTIONS) -> Chunk:
    """Write that document; return its chunk, without an ordinal."""
    chunk = write_chunk(path, update_document(options))
    return replace(chunk, records={Action.UPDATE_INDEX.value: 1}, format=THUNDERSTONE.name)


def with_update(chunks: Sequence[Chunk], folder: Path, settings: PushSettings) -> list[Chunk]:
    """Return the chunks in order; for Thunderstone, the last one updates the search indexes."""
    ordered = sorted(chunks, key=lambda chunk: chunk.ordinal)
    if not settings.update_index:
        return [chunk for chunk in ordered if not is_update(chunk)]
    if not _adds_update(ordered, settings):
        return ordered
    path = folder / UPDATE_FILE
    update = write_update(path)
    return [*ordered, replace(update, path=str(path.absolute()), ordinal=_next_ordinal(ordered))]


def with_planned_update(chunks: Sequence[Chunk], settings: PushSettings) -> list[Chunk]:
    """Return the chunks in order, with the update that `with_update` adds; make no file."""
    ordered = sorted(chunks, key=lambda chunk: chunk.ordinal)
    if _adds_update(ordered, settings):
        update = Chunk(
            ordinal=_next_ordinal(ordered),
            path=UPDATE_FILE,
            bytes=len(update_document()),
            sha256="",
            records={Action.UPDATE_INDEX.value: 1},
            first_url="",
            last_url="",
            source="",
            span=0,
            format=THUNDERSTONE.name,
        )
        ordered.append(update)
    return ordered


def _adds_update(ordered: Sequence[Chunk], settings: PushSettings) -> bool:
    """Whether a push adds an update of search indexes, because the last chunk is none."""
    is_thunderstone = settings.appliance.protocol is ApplianceProtocol.RECVDATA
    is_updated = bool(ordered) and is_update(ordered[-1])
    return settings.update_index and is_thunderstone and not is_updated


def _next_ordinal(ordered: Sequence[Chunk]) -> int:
    return ordered[-1].ordinal + 1 if ordered else 1
