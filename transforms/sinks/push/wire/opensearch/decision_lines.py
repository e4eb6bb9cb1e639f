"""The decisions in the bodies of `_bulk` requests, without the documents."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import astuple

from feedferry.transforms.access.index_fields import field_names
from feedferry.transforms.access.meet import AccessKey, access_key

DELETION: Final = b"-"
"""The stored decision of a document that is deleted."""

_CACHED = 8192
_DELETE, _UPDATE = b'{"delete"', b'{"update"'
_NAMES = field_names()
_Tokens = list[str] | str


class _Id(msgspec.Struct):
    id: str = msgspec.field(name="_id")


class _AclParams(msgspec.Struct):
    fields: dict[str, _Tokens] = {}


class _AclScript(msgspec.Struct):
    params: _AclParams


class _AclUpdate(msgspec.Struct):
    script: _AclScript | None = None


_decode_action = msgspec.json.Decoder(dict[str, _Id]).decode
_decode_update = msgspec.json.Decoder(_AclUpdate).decode
_decode_document = msgspec.json.Decoder(
    msgspec.defstruct("DocumentAccess", [(name, _Tokens, "") for name in _NAMES])
).decode
_decode_stored = msgspec.json.Decoder(tuple[_Tokens, ...]).decode
_encode = msgspec.json.encode


def decisions_of(lines: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the id of the document of each record with its decision, which `read_decision` reads.

    An update that states no decision is taken for one that permits nobody.
    """
    rest = iter(lines)
    for line in rest:
        ((_, address),) = _decode_action(line).items()
        key = address.id.encode("utf-8", "surrogatepass")
        if line.startswith(_DELETE):
            yield key, DELETION
        elif not line.startswith(_UPDATE):
            yield key, b"=" + _encode(astuple(_decode_document(next(rest))))
        else:
            script = _decode_update(next(rest)).script
            fields = {} if script is None else script.params.fields
            yield key, b"~" + _encode([fields.get(name, "") for name in _NAMES])


def is_update(stored: bytes) -> bool:
    """Whether a decision is one of a document that the index may have, without the document."""
    return stored[:1] == b"~"


@lru_cache(maxsize=_CACHED)
def read_decision(stored: bytes) -> AccessKey:
    """Return a decision that is not that of a deletion."""
    values = zip(_NAMES, _decode_stored(stored[1:]), strict=True)
    return access_key(
        {name: [tokens] if isinstance(tokens, str) else tokens for name, tokens in values if tokens}
    )
