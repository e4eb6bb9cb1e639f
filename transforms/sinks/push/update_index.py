"""The update of Thunderstone's search indexes: once, behind all else, in a document of its own.

**Spec:** Thunderstone dataload API: "UI - Update search indexes (call after a batch of
inserts/deletes)".
"""

from pathlib import Path

from msgspec.structs import replace

from schemas.account import Chunk
from schemas.record import Action, Record
from transforms.formats import WRITERS, WriteOptions
from transforms.sinks.files import write_chunk

_PLAIN = WriteOptions()
_UPDATE = Action.UPDATE_INDEX


def is_update(chunk: Chunk) -> bool:
    """Whether a chunk only has the search indexes updated."""
    return set(chunk.records) == {_UPDATE.value}


def write_update(path: Path, *, options: WriteOptions = _PLAIN) -> Chunk:
    """Write that document; return its chunk, which has no ordinal yet."""
    encoder = WRITERS["thunderstone"](options)
    update = encoder.encode(Record(url="", action=_UPDATE))
    text = encoder.prolog() + encoder.frame([update]) + encoder.epilog()
    return replace(write_chunk(path, text), records={_UPDATE.value: 1}, format="thunderstone")
