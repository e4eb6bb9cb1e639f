"""The formats, by name. Outside Python a format's name is kebab-case."""

import re
from collections.abc import Callable
from types import ModuleType

from transforms.formats import (
    authorizer_stream,
    avro,
    groups_csv,
    gsa_feed,
    gsa_groups,
    lister_stream,
    native,
    retriever_stream,
    thunderstone,
)
from transforms.formats._command_sniff import sniff_stream
from transforms.formats._encoding import detect
from transforms.formats._looks import look_of
from transforms.formats._options import (
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
    "gsa-feed": gsa_feed.read_feed,
    "thunderstone": thunderstone.read_feed,
    "lister-stream": lister_stream.read,
    "retriever-stream": retriever_stream.read,
    "authorizer-stream": authorizer_stream.read,
    "gsa-groups": gsa_groups.read_feed,
    "groups-csv": groups_csv.read,
    "avro": avro.read,
    "native": native.read,
}
CUTTERS: dict[str, Cutter] = {
    "gsa-feed": gsa_feed.cut,
    "thunderstone": thunderstone.cut,
    "lister-stream": lister_stream.cut,
    "retriever-stream": retriever_stream.cut,
    "authorizer-stream": authorizer_stream.cut,
    "gsa-groups": gsa_groups.cut,
    "groups-csv": groups_csv.cut,
    "avro": avro.cut,
    "native": native.cut,
}
WRITERS: dict[str, Callable[[WriteOptions], Encoder]] = {
    "gsa-feed": gsa_feed.encoder,
    "thunderstone": thunderstone.encoder,
    "lister-stream": lister_stream.encoder,
    "retriever-stream": retriever_stream.encoder,
    "authorizer-stream": authorizer_stream.encoder,
    "gsa-groups": gsa_groups.encoder,
    "avro": avro.encoder,
    "native": native.encoder,
}

_MODULES: dict[str, ModuleType] = {
    "gsa-feed": gsa_feed,
    "thunderstone": thunderstone,
    "lister-stream": lister_stream,
    "retriever-stream": retriever_stream,
    "authorizer-stream": authorizer_stream,
    "gsa-groups": gsa_groups,
    "groups-csv": groups_csv,
    "avro": avro,
    "native": native,
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
