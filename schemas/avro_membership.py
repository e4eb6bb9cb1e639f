"""Memberships as Avro datums, by their published schema.

**Spec:** Apache Avro 1.12, "Binary Encoding" and "Schema Resolution".

Encoded without fastavro, as records are, because a group may have millions of members.
"""

import io
from typing import IO, Any

from schemas.acl import Scope
from schemas.avro import check_end, convert, read_datum
from schemas.avro_parts import (
    FLAG,
    STATED_FLAG,
    array,
    extra_part,
    not_unicode,
    optional_text,
    put_provenance,
    symbols,
    text_part,
)
from schemas.membership import Member, Membership

_SCOPE = symbols(Scope)


def encode(membership: Membership) -> bytes:
    """Return one schemaless datum; raise RecordError for a value that Avro cannot hold."""
    try:
        parts = [
            _member(membership.group),
            array(_member, membership.members),
            optional_text(membership.origin),
            array(extra_part, membership.extras),
        ]
        put_provenance(parts, membership.provenance)
    except UnicodeEncodeError as exc:
        raise not_unicode(exc) from exc
    return b"".join(parts)


def decode(datum: bytes) -> Membership:
    """Return the membership of one datum; raise RecordError for any other bytes."""
    stream = io.BytesIO(datum)
    membership = decode_next(stream)
    check_end(stream, "membership")
    return membership


def decode_next(stream: IO[bytes], *, written: Any = None) -> Membership:
    """Return the membership of the next datum in `stream`; see `avro.decode_next`."""
    return convert(read_datum(stream, "membership", written), Membership)


def _member(member: Member) -> bytes:
    parts = (
        text_part(member.name),
        _SCOPE[member.scope._value_],
        optional_text(member.namespace),
        STATED_FLAG[member.case_sensitive],
        FLAG[member.unqualified],
    )
    return b"".join(parts)
