"""The formats, by name. Outside Python a format's name is kebab-case."""

import re
from collections.abc import Callable
from types import ModuleType

from transforms.formats.base import (
    Cutter,
    Docids,
    Encoder,
    Found,
    Mode,
    NotFound,
    Reader,
    ReadOptions,
    WriteOptions,
    write_all,
)
from transforms.formats.canonical import avro, jsonl
from transforms.formats.command_stream import authorizer, lister, retriever
from transforms.formats.command_stream.sniff import sniff_stream
from transforms.formats.gsa import feed, groups, groups_csv
from transforms.formats.thunderstone import dataload
from transforms.formats.unknown_formats import look_of
from transforms.formats.xml.encoding import detect

__all__ = [
    "CUTTERS",
    "KEEPS_EVERYTHING",
    "READERS",
    "WRITERS",
    "Cutter",
    "Docids",
    "Encoder",
    "Found",
    "Mode",
    "NotFound",
    "ReadOptions",
    "Reader",
    "WriteOptions",
    "look_of",
    "sniff",
    "write_all",
]

READERS: dict[str, Reader] = {
    "gsa-feed": feed.read_feed,
    "thunderstone": dataload.read_feed,
    "lister-stream": lister.read,
    "retriever-stream": retriever.read,
    "authorizer-stream": authorizer.read,
    "gsa-groups": groups.read_feed,
    "groups-csv": groups_csv.read,
    "avro": avro.read,
    "native": jsonl.read,
}
CUTTERS: dict[str, Cutter] = {
    "gsa-feed": feed.cut,
    "thunderstone": dataload.cut,
    "lister-stream": lister.cut,
    "retriever-stream": retriever.cut,
    "authorizer-stream": authorizer.cut,
    "gsa-groups": groups.cut,
    "groups-csv": groups_csv.cut,
    "avro": avro.cut,
    "native": jsonl.cut,
}
WRITERS: dict[str, Callable[[WriteOptions], Encoder]] = {
    "gsa-feed": feed.encoder,
    "thunderstone": dataload.encoder,
    "lister-stream": lister.encoder,
    "retriever-stream": retriever.encoder,
    "authorizer-stream": authorizer.encoder,
    "gsa-groups": groups.encoder,
    "avro": avro.encoder,
    "native": jsonl.encoder,
}

_MODULES: dict[str, ModuleType] = {
    "gsa-feed": feed,
    "thunderstone": dataload,
    "lister-stream": lister,
    "retriever-stream": retriever,
    "authorizer-stream": authorizer,
    "gsa-groups": groups,
    "groups-csv": groups_csv,
    "avro": avro,
    "native": jsonl,
}

KEEPS_EVERYTHING = frozenset(
    name for name, module in _MODULES.items() if getattr(module, "KEEPS_EVERYTHING", False) is True
)
"""The formats whose module states `KEEPS_EVERYTHING = True`.

A record is written to these without losing a field. A format that does not state this is treated
as one that loses ACLs, so its records are always adapted.
"""

LONE = frozenset({"retriever-stream"})
"""Formats of which a stream holds one record."""

_ROOTS = {
    "gsafeed": "gsa-feed",
    "ThunderstoneReplication": "thunderstone",
    "xmlgroups": "gsa-groups",
}
_CSV_HEADER = re.compile(rb'(?:\xef\xbb\xbf)?"?group"?,"?member"?,"?scope"?[,\r\n]', re.IGNORECASE)
_ROOT = re.compile(rf"<(?:\w+:)?({'|'.join(_ROOTS)})(?=[\s/>])")


def sniff(head: bytes, *, source: str = "", encoding: str = "") -> str | None:
    """Return the name of the format of a stream that begins with `head`, None if none fits.

    An XML document is read in `encoding` if it is given, whatever it declares.
    Raise EncodingError, which names the source, for a document in an unknown encoding.
    """
    if head.startswith(avro.MAGIC):
        return "avro"
    if head.lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"{"):
        return "native"
    stream = sniff_stream(head)
    if stream:
        return stream
    if _CSV_HEADER.match(head):
        return "groups-csv"
    codec, mark = detect(head, source=source, encoding=encoding)
    root = _ROOT.search(head[mark:].decode(codec, "replace"))
    return _ROOTS[root[1]] if root else None
