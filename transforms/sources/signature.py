"""Signatures of files: detect that a file changes during a run.

A run reads a file more than once: to find its format, to split it, and once for each span. A file
that changes meanwhile would yield records of two versions. A signature is taken when the run
begins, is a part of each span, and is compared before and after the span is read.
"""

import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from schemas.errors import SourceError
from schemas.span import FileSignature, Span
from transforms.sources.tree.remote import version_of

_SECOND = 1_000_000_000


def sign_path(path: str) -> FileSignature | None:
    """Return the signature of a local file; None for a pipe, a remote file or a missing file."""
    try:
        return None if "://" in path else _sign(Path(path).stat())
    except OSError:  # the error is reported when it is opened
        return None


def sign_stream(stream: IO[bytes]) -> FileSignature | None:
    """Return the present signature of an open file; None if it has nsignature."""
    try:
        number = stream.fileno()
    except (AttributeError, OSError):  # it is not local
        return version_of(stream)
    return _sign(os.fstat(number))


def require_unchanged(span: Span, stream: IO[bytes]) -> None:
    """Raise SourceError if an open file is not the one that the span was cut from."""
    if span.signature is None:
        return
    now = sign_stream(stream)
    if now is not None and not _is_compatible(span.signature, now):
        raise SourceError(
            f"{span.source}: changed while it was converted: it had {_describe(span.signature)},"
            f" and has {_describe(now)} now; expected it to stay as it is; start again"
            " when nothing writes to it any more, and all of it is converted"
        )


def require_present(span: Span, exc: BaseException) -> None:
    """Raise SourceError if opening a file failed because it was removed during the run.

    A signature without a time belongs to a file that this run has not opened yet.
    """
    if span.signature is None or span.signature.modified_ns is None:
        return
    if isinstance(exc, FileNotFoundError):
        raise SourceError(
            f"{span.source}: removed while it was converted: it had {_describe(span.signature)};"
            " expected it to stay as it is; start again when it is there, and all of it is"
            " converted"
        ) from exc


def _sign(status: os.stat_result) -> FileSignature | None:
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileSignature(size=status.st_size, modified_ns=status.st_mtime_ns)


def _is_compatible(before: FileSignature, now: FileSignature) -> bool:
    if before.size != now.size:
        return False
    if before.version and now.version and before.version != now.version:
        return False
    return _is_compatible_time(before.modified_ns, now.modified_ns)


def _is_compatible_time(before: int | None, now: int | None) -> bool:
    """Compare times; file systems such as NFS may round a time to seconds after a while."""
    if before is None or now is None or before == now:
        return True
    is_rounded = before % _SECOND == 0 or now % _SECOND == 0
    return is_rounded and before // _SECOND == now // _SECOND


def _describe(signature: FileSignature) -> str:
    size = "an unknown size" if signature.size is None else f"{signature.size:,} bytes"
    if signature.modified_ns is None:
        return size
    try:
        modified = datetime.fromtimestamp(signature.modified_ns / _SECOND, UTC).isoformat(" ")
    except (ValueError, OverflowError, OSError):  # a year that datetime cannot hold
        modified = f"{signature.modified_ns} ns"
    return f"{size} of {modified}"
