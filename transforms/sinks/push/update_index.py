"""The request that updates Thunderstone's search indexes: once, after all other chunks.

**Spec:** Thunderstone dataload API: "UI - Update search indexes (call after a batch of
inserts/deletes)".
"""

from pathlib import Path

from msgspec.structs import replace

from schemas.account import Chunk
from schemas.record import Action, Record
from transforms.formats import THUNDERSTONE, WriteOptions
from transforms.storage.atomic import write_chunk

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
