"""Decisions as bytes, with the kind of record that has them."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from feedferry.transforms.access.index_fields import field_names
from feedferry.transforms.access.meet import AccessKey, access_key

DELETION: Final = b"-"
DOCUMENT: Final = b"="
UPDATE: Final = b"~"
"""The kind of record of a stored decision."""

_NAMES = field_names()
Tokens = list[str] | str

_FIELD = rb'"acl_[0-9]_(?:deny|permit)_[0-9]":\[(?:"(?:[^"\\]|\\.)*",?)*+\]'
_DECISION = re.compile(rb"," + _FIELD + rb"|" + _FIELD + rb",?")
"""A field of a decision, with the comma by which it is separated."""

_decode_stored = msgspec.json.Decoder(tuple[list[str] | str, ...]).decode
_encode = msgspec.json.encode


def stored_decision(fields: Mapping[str, Tokens]) -> bytes:
    """Return fields as bytes; those of decisions with the same tokens in each field are equal."""
    return store_values([fields.get(name, "") for name in _NAMES])


def read_decision(stored: bytes) -> AccessKey:
    """Return a decision from its bytes."""
    return access_key(dict(zip(_NAMES, _decode_stored(stored), strict=True)))


def stored_fields(stored: bytes) -> dict[str, Tokens]:
    """Return the fields of a stored decision that have tokens."""
    values = zip(_NAMES, _decode_stored(stored), strict=True)
    return {name: tokens for name, tokens in values if tokens}


def store_values(values: Iterable[Tokens]) -> bytes:
    return _encode([value and _sorted(value) for value in values])


def _sorted(tokens: Tokens) -> list[str]:
    if isinstance(tokens, str):
        return [tokens]
    return sorted({*tokens}) if len(tokens) > 1 else tokens


def without_decision(document: bytes) -> bytes:
    """Return the JSON of a document with spaces in place of its decision."""
    return _DECISION.sub(_spaces, document)


def _spaces(match: re.Match[bytes]) -> bytes:
    return b" " * len(match[0])
