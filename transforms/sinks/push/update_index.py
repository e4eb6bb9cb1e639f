"""The update of Thunderstone's search indexes: once, behind all else, in a document of its own.

**Spec:** Thunderstone dataload API: "UI - Update search indexes (call after a batch of
inserts/deletes)".
"""

from pathlib import Path

from msgspec.structs import replace

from schemas.account import Chunk
from schemas.record import Action, Record
from transforms.formats import THUNDERSTONE, WriteOptions
from transforms.storage.atomic import write_chunk

_PLAIN = WriteOptions()
_UPDATE = Action.UPDATE_INDEX


def is_update(chunk: Chunk) -> bool:
    """Whether a chunk only requests an update of the search indexes."""
    return set(chunk.records) == {_UPDATE.value}


def is_added_update(chunk: Chunk) -> bool:
    """Whether feedferry added the request itself.

    Such a chunk comes from no source, so no account counts it as a record.
    """
    return is_update(chunk) and not chunk.source


def update_document(options: WriteOptions = _PLAIN) -> bytes:
    """Return the document that requests an update of the search indexes."""
    encoder = THUNDERSTONE.make_encoder(options)
    update = encoder.encode(Record(url="", action=_UPDATE))
    return encoder.prolog() + encoder.frame([update]) + encoder.epilog()


def write_update(path: Path, *, options: WriteOptions = _PLAIN) -> Chunk:
    """Write that document; return its chunk, which has no ordinal yet."""
    chunk = write_chunk(path, update_document(options))
    return replace(chunk, records={_UPDATE.value: 1}, format=THUNDERSTONE.name)
