"""Rejects of documents that a program failed on."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from schemas.carried_bytes import carried_bytes
from schemas.errors import FormatError, ProgramError, RecordError, UnavailableError
from schemas.record import Record
from schemas.reject import Reject, reject_record
from transforms.sources.programs.process import stderr_text

MAX_KEPT_BYTES = 1 << 20
"""Most bytes of a program's output in its reject."""


def reject_output(record: Record, exc: RecordError, *, stage: str) -> Reject:
    """Return the reject of a listed document, with the output of the program as its bytes."""
    stdout = exc.stdout if isinstance(exc, ProgramError) else b""
    return msgspec.structs.replace(
        reject_record(record, code=exc.code, reason=exc.reason, stage=stage),
        length=len(stdout),
        data=stdout[:MAX_KEPT_BYTES],
        truncated=len(stdout) > MAX_KEPT_BYTES,
    )


def reject_document(record: Record, exc: RecordError, *, stage: str) -> Reject:
    """Return the reject of a retrieved document, with the whole record as its bytes."""
    reject = reject_record(record, code=exc.code, reason=exc.reason, stage=stage)
    return msgspec.structs.replace(reject, data=carried_bytes(record))


@contextmanager
def program_errors(stdout: bytes, stderr_tail: bytes) -> Iterator[None]:
    """Raise ProgramError, with the end of standard error, for output that cannot be used."""
    try:
        yield
    except (UnavailableError, FormatError, RecordError) as exc:
        if isinstance(exc, RecordError):
            code, reason = exc.code, exc.reason
        else:
            is_unavailable = isinstance(exc, UnavailableError)
            code, reason = "repository-unavailable" if is_unavailable else "no-stream", str(exc)
        raise ProgramError(code, reason + stderr_text(stderr_tail), stdout) from exc
