"""The formats, by name. Outside Python a format's name is kebab-case."""

import re
from collections.abc import Callable

from transforms.formats import avro, gsa_feed, native, thunderstone
from transforms.formats._encoding import detect
from transforms.formats._options import (
    Cutter,
    Encoder,
    Reader,
    ReadOptions,
    WriteOptions,
)

__all__ = [
    "CUTTERS",
    "READERS",
    "WRITERS",
    "Cutter",
    "Encoder",
    "ReadOptions",
    "Reader",
    "WriteOptions",
    "sniff",
]

READERS: dict[str, Reader] = {
    "gsa-feed": gsa_feed.read,
    "thunderstone": thunderstone.read,
    "avro": avro.read,
    "native": native.read,
}
CUTTERS: dict[str, Cutter] = {
    "gsa-feed": gsa_feed.cut,
    "thunderstone": thunderstone.cut,
    "avro": avro.cut,
    "native": native.cut,
}
WRITERS: dict[str, Callable[[WriteOptions], Encoder]] = {
    "gsa-feed": gsa_feed.encoder,
    "thunderstone": thunderstone.encoder,
    "avro": avro.encoder,
    "native": native.encoder,
}

_ROOTS = {"gsafeed": "gsa-feed", "ThunderstoneReplication": "thunderstone"}
_ROOT = re.compile(rf"<(?:\w+:)?({'|'.join(_ROOTS)})(?=[\s/>])")


def sniff(head: bytes) -> str | None:
    """Return the name of the format of a stream that begins with `head`, None if none fits."""
    if head.startswith(avro.MAGIC):
        return "avro"
    if head.lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"{"):
        return "native"
    codec, mark = detect(head, source="")
    root = _ROOT.search(head[mark:].decode(codec, "replace"))
    return _ROOTS[root[1]] if root else None
