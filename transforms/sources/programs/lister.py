"""The lister: a program that writes a lister stream of all documents.

**Spec:** GSA adaptor library, CommandLineAdaptor, getDocIds. Unlike the library, we stop the run
if the lister exits with another code than 0, is killed, exceeds its limits, or writes a stream
that cannot be read to its end.
"""

import os
import shlex
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from schemas.errors import FatalError, ProgramError, SourceError
from schemas.span import Span
from transforms.formats import LISTER_STREAM
from transforms.formats.base import Reader, ReadOptions
from transforms.sources.programs.config import Programs
from transforms.sources.programs.process import call_of, run
from transforms.sources.programs.redact import Mask


def list_documents(
    programs: Programs,
    path: Path,
    *,
    read: Reader | None = None,
    options: ReadOptions | None = None,
) -> None:
    """Write the output of the lister to `path`, atomically.

    Raise SourceError if the lister fails or reports that the repository is unavailable, and
    FormatError if its output is not a lister stream. No message shows a secret.
    """
    partial_path = path.with_name(path.name + ".partial")
    mask = Mask(programs.secrets())
    try:
        with mask.errors():
            with partial_path.open("wb") as stream:
                _run(programs, stream)
            _read_all(programs, partial_path, read or LISTER_STREAM.read, options)
        os.replace(partial_path, path)
    except OSError as exc:
        raise FatalError(f"{path}: {exc.strerror}; expected to write there") from exc
    finally:
        with suppress(OSError):
            partial_path.unlink(missing_ok=True)


def _run(programs: Programs, stream: IO[bytes]) -> None:
    call = msgspec.structs.replace(
        call_of(programs, programs.lister),
        timeout_seconds=programs.lister_timeout_seconds,
        max_output_bytes=programs.max_listing_bytes,
        timeout_key="lister_timeout",
        output_key="max_listing_bytes",
    )
    try:
        run(call, output=stream)
    except ProgramError as exc:
        code = exc.code.replace("program", "lister")
        raise SourceError(f"{shlex.join(programs.lister)} ({code}): {exc.reason}") from exc


def _read_all(programs: Programs, path: Path, read: Reader, options: ReadOptions | None) -> None:
    """Read the listing to its end, where a stream can still report that it is incomplete."""
    with path.open("rb") as stream:
        span = Span(source=shlex.join(programs.lister))
        deque(read(stream, span=span, options=options or ReadOptions()), maxlen=0)
