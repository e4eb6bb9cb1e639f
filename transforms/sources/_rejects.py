"""Documents that a program gave no good answer for."""

import msgspec

from schemas import avro
from schemas.errors import ProgramError, RecordError
from schemas.record import Record
from schemas.reject import Reject, reject_record

KEPT_BYTES = 1 << 20
"""How much of what a program wrote its reject keeps."""


def reject_answer(record: Record, exc: RecordError, *, stage: str) -> Reject:
    """Return the reject of a document, with what the program wrote instead of it."""
    stdout = exc.stdout if isinstance(exc, ProgramError) else b""
    return msgspec.structs.replace(
        reject_record(record, code=exc.code, reason=exc.reason, stage=stage),
        length=len(stdout),
        data=stdout[:KEPT_BYTES],
        truncated=len(stdout) > KEPT_BYTES,
    )


def reject_document(record: Record, exc: RecordError, *, stage: str) -> Reject:
    """Return the reject of a document that is there, and goes no further; it is kept whole."""
    reject = reject_record(record, code=exc.code, reason=exc.reason, stage=stage)
    return msgspec.structs.replace(reject, data=avro.encode(record))
