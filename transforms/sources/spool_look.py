"""A look at the full feeds of a spool: whether they have an end, and anything in them.

Both decide over what came before, and neither stands in the journal. A full feed whose end is
missing is one that its client could not finish; an appliance takes nothing of it.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from schemas.delivery import Delivery
from transforms.sources.spool import Looked, is_whole

_END = re.compile(rb"</(?:gsafeed|xmlgroups)\s*>|<(?:gsafeed|xmlgroups)\b[^<>]*/>")
_RECORD = re.compile(rb"<(?:record|acl|membership)\b")
_TAIL_BYTES = 64 << 10
_BLOCK_BYTES = 1 << 20
_KEPT_BYTES = 64


def look(deliveries: Iterable[Delivery], root: Path) -> Looked:
    """Look at the file of each full feed, at both of its ends."""
    torn, empty, unreadable = set(), set(), set()
    for delivery in deliveries:
        if delivery.path is None or not is_whole(delivery):
            continue
        try:
            with (root / delivery.path).open("rb") as stream:
                if not _has_end(stream):
                    torn.add(delivery.ordinal)
                elif not _has_record(stream):
                    empty.add(delivery.ordinal)
        except OSError:  # its reader rejects it
            unreadable.add(delivery.ordinal)
    return Looked(torn=frozenset(torn), empty=frozenset(empty), unreadable=frozenset(unreadable))


def _has_end(stream: IO[bytes]) -> bool:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(size - _TAIL_BYTES, 0))
    return _END.search(_plain(stream.read())) is not None


def _has_record(stream: IO[bytes]) -> bool:
    """Most have one at once; only what has none is read to its end."""
    stream.seek(0)
    kept = b""
    while block := _plain(stream.read(_BLOCK_BYTES)):
        if _RECORD.search(kept + block):
            return True
        kept = block[-_KEPT_BYTES:]
    return False


def _plain(block: bytes) -> bytes:
    """Without the zeros that ASCII has in UTF-16 and UTF-32."""
    return block.replace(b"\0", b"")
