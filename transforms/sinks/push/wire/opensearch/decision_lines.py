"""The decisions in the bodies of `_bulk` requests, without the documents."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import astuple

from feedferry.transforms.access.index_fields import field_names
from feedferry.transforms.access.meet import AccessKey, access_key

DELETION: Final = b"-"
DOCUMENT: Final = b"="
UPDATE: Final = b"~"
"""The kind of record of a stored decision."""

_DELETE, _UPDATE = b'{"delete"', b'{"update"'
_NAMES = field_names()
Tokens = list[str] | str


class _Id(msgspec.Struct):
    id: str = msgspec.field(name="_id")


class _AclParams(msgspec.Struct):
    fields: dict[str, Tokens] = {}


class _AclScript(msgspec.Struct):
    params: _AclParams


class _AclUpdate(msgspec.Struct):
    script: _AclScript | None = None


_decode_action = msgspec.json.Decoder(dict[str, _Id]).decode
_decode_update = msgspec.json.Decoder(_AclUpdate).decode
_decode_document = msgspec.json.Decoder(
    msgspec.defstruct("DocumentAccess", [(name, Tokens, "") for name in _NAMES])
).decode
_decode_stored = msgspec.json.Decoder(tuple[list[str] | str, ...]).decode
_encode = msgspec.json.encode


def decisions_of(lines: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the id of the document of each record, with a stored decision and what it is of.

    The first byte says what it is of: a deletion, a document, or an update. An update that states
    no decision is taken for one that permits no user.
    """
    rest = iter(lines)
    for line in rest:
        ((_, address),) = _decode_action(line).items()
        key = address.id.encode("utf-8", "surrogatepass")
        if line.startswith(_DELETE):
            yield key, DELETION
        elif not line.startswith(_UPDATE):
            yield key, DOCUMENT + _store(astuple(_decode_document(next(rest))))
        else:
            script = _decode_update(next(rest)).script
            yield key, UPDATE + stored_decision({} if script is None else script.params.fields)


def access_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a body without all that `decisions_of` does not read."""
    for key, stored in decisions_of(lines):
        address = _Id(key.decode("utf-8", "surrogatepass"))
        kind, decision = stored[:1], stored[1:]
        if kind == DELETION:
            yield _encode({"delete": address}) + b"\n"
            continue
        values = zip(_NAMES, _decode_stored(decision), strict=True)
        fields = {name: tokens for name, tokens in values if tokens}
        if kind == DOCUMENT:
            yield _encode({"index": address}) + b"\n" + _encode(fields) + b"\n"
        else:
            script = _AclUpdate(_AclScript(_AclParams(fields)))
            yield _encode({"update": address}) + b"\n" + _encode(script) + b"\n"


def stored_decision(fields: Mapping[str, Tokens]) -> bytes:
    """Return fields as bytes; those of decisions with the same tokens in each field are equal."""
    return _store([fields.get(name, "") for name in _NAMES])


def read_decision(stored: bytes) -> AccessKey:
    """Return a decision from its bytes."""
    return access_key(dict(zip(_NAMES, _decode_stored(stored), strict=True)))


def _store(values: Iterable[Tokens]) -> bytes:
    return _encode([value and _sorted(value) for value in values])


def _sorted(tokens: Tokens) -> list[str]:
    if isinstance(tokens, str):
        return [tokens]
    return sorted({*tokens}) if len(tokens) > 1 else tokens
