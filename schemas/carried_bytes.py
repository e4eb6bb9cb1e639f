"""The bytes of a record in its reject."""

import json

import msgspec

from schemas import avro
from schemas.membership import RecordOrMembership
from schemas.reject import record_error


def carried_bytes(record: RecordOrMembership) -> bytes:
    """Return the record as an Avro datum, or as JSON if Avro cannot hold it.

    The JSON has the fields of the native format. It is ASCII and can therefore hold lone
    surrogates.
    """
    try:
        return avro.encode(record)
    except Exception as exc:
        record_error(exc)
        return json.dumps(msgspec.to_builtins(record, enc_hook=repr), default=repr).encode()
