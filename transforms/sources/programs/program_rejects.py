"""What becomes of documents that a program gave no good answer for."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from schemas.carried_bytes import carried_bytes
from schemas.errors import FormatError, ProgramError, RecordError, UnavailableError
from schemas.record import Record
from schemas.reject import Reject, reject_record
from transforms.sources.programs.subprocess_run import stderr_text

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
    return msgspec.structs.replace(reject, data=carried_bytes(record))


@contextmanager
def explained(stdout: bytes, stderr_tail: bytes) -> Iterator[None]:
    """Raise ProgramError, with the end of standard error, for an answer that is not understood."""
    try:
        yield
    except UnavailableError as exc:
        raise _explain("repository-unavailable", str(exc), stdout, stderr_tail) from exc
    except FormatError as exc:
        raise _explain("no-stream", str(exc), stdout, stderr_tail) from exc
    except RecordError as exc:
        raise _explain(exc.code, exc.reason, stdout, stderr_tail) from exc


def _explain(code: str, reason: str, stdout: bytes, stderr_tail: bytes) -> ProgramError:
    return ProgramError(code, reason + stderr_text(stderr_tail), stdout)
