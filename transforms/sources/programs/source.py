"""The source `command`: programs list documents, and give each of them.

The lister is a program that writes a lister stream of all documents. It runs once, before the
pipeline. Its stream is kept in the folder of the run, so that a run that is started again does not
list again.

**Spec:** GSA adaptor library, CommandLineAdaptor, getDocIds. Unlike the library, we stop the run
if the lister exits with another code than 0, is killed, exceeds its limits, or writes a stream
that cannot be read to its end.
"""

import os
import shlex
import shutil
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import TypeGuard

from msgspec.structs import replace

from schemas.check import Check, CheckLine, counted, fail, ok
from schemas.errors import FatalError, ProgramError, SourceError
from schemas.record import Action, Record
from schemas.span import Span
from transforms.formats import LISTER_STREAM
from transforms.formats.base import ReadOptions, ReadResult
from transforms.sources.base import Source, SourceOptions, SourceRun, SpanRequest
from transforms.sources.feed_files import read_file
from transforms.sources.files import cut_file, sign_path
from transforms.sources.programs import config
from transforms.sources.programs.authorizer import authorize
from transforms.sources.programs.calls import ProgramCalls, map_ordered
from transforms.sources.programs.config import Programs
from transforms.sources.programs.process import run as run_program
from transforms.sources.programs.redact import Mask
from transforms.sources.programs.retriever import retrieve
from transforms.sources.programs.transformer import transform
from transforms.sources.secrets import resolve

COMMAND = "command"

_LISTED_BYTES = 64 << 10
"""Bytes of a listing in one span: a thousand documents, which a resumed run need not ask again."""

_SPAN_BYTES_PER_LISTED_BYTE = 512
"""Smaller spans have smaller parts of the listing."""


class ProgramsSource(Source[Programs]):
    """Programs that speak command streams, as a YAML file names them."""

    name = COMMAND
    title = "GSA adaptor programs that speak command streams (a YAML file)"
    noun = "programs"
    span_formats = frozenset({COMMAND})
    reads_in_threads = True

    def load(self, span: Span, options: SourceOptions) -> Programs:
        programs = config.load(Path(span.path))
        return replace(programs, parallel=programs.parallel or options.jobs)

    def checks(self, runs: Sequence[SourceRun[Programs]]) -> Iterator[Check]:
        for run in runs:
            yield Check("secrets", partial(_check_secrets, run.config))
            for name in ("lister", "retriever", "transformer", "authorizer"):
                if command := getattr(run.config, name):
                    check = partial(_check_program, run.config, name, command[0])
                    yield Check(name, check)

    def split(self, run: SourceRun[Programs]) -> Iterator[Span]:
        if not run.listing.exists():
            list_documents(run.config, run.listing, run.reading)
        path = str(run.listing)
        listing = replace(run.span, path=path, format=LISTER_STREAM.name, signature=sign_path(path))
        listed_bytes = run.options.span_bytes // _SPAN_BYTES_PER_LISTED_BYTE
        for span in cut_file(listing, span_bytes=max(1, min(listed_bytes, _LISTED_BYTES))):
            yield replace(span, format=COMMAND)

    def read(self, request: SpanRequest[Programs]) -> Generator[ReadResult, None, None]:
        if request.config is None:
            raise TypeError("documents of programs are read with their configuration")
        read_documents = partial(documents, programs=request.config, options=request.options)
        yield from read_file(
            request.span, LISTER_STREAM, request.options, request.count, then=read_documents
        )


def _check_secrets(programs: Programs, _seconds: float) -> Iterator[CheckLine]:
    if count := len(programs.secrets()):  # raises ConfigError for one without a value
        yield ok("secrets", f"{counted(count, 'secret')} of programs, all with a value")


def _check_program(
    programs: Programs, what: str, program: str, _seconds: float
) -> Iterator[CheckLine]:
    """Look for a program as a call would; do not start it."""
    folders = programs.environment.get("PATH")
    path = Path(programs.folder, program) if "/" in program else program
    found = shutil.which(path, path=None if folders is None else resolve(folders))
    if found is None:
        cure = f"name one on the PATH or below {programs.folder} with ./, and chmod +x it"
        yield fail(what, f"{program}: no program that can be executed", cure)
    else:
        yield ok(what, found)


def list_documents(programs: Programs, path: Path, options: ReadOptions = ReadOptions()) -> None:
    """Write the output of the lister to `path`, atomically.

    Raise SourceError if the lister fails or reports that the repository is unavailable, and
    FormatError if its output is not a lister stream. No message shows a secret.
    """
    command = shlex.join(programs.lister)
    partial_path = path.with_name(path.name + ".partial")
    try:
        with Mask(programs.secrets()).errors():
            with partial_path.open("wb") as stream:
                run_program(programs, programs.lister, listing=stream)
            with partial_path.open("rb") as stream:  # its end can report that it is incomplete
                results = LISTER_STREAM.read(stream, span=Span(source=command), options=options)
                deque(results, maxlen=0)
        os.replace(partial_path, path)
    except ProgramError as exc:
        code = exc.code.replace("program", "lister")
        raise SourceError(f"{command} ({code}): {exc.reason}") from exc
    except OSError as exc:
        raise FatalError(f"{path}: {exc.strerror}; expected to write there") from exc
    finally:
        with suppress(OSError):
            partial_path.unlink(missing_ok=True)


def documents(
    listed: Iterable[ReadResult], programs: Programs, *, options: ReadOptions = ReadOptions()
) -> Generator[ReadResult, None, None]:
    """Yield the results of all programs for a listing, in its order.

    Each listed ADD is retrieved, and all other items are passed on. No reason and no notice shows a
    secret of the programs. Raise SourceError if a program cannot be started.
    """
    mask = Mask(programs.secrets())
    calls = ProgramCalls(programs, options)
    with (
        mask.errors(),
        closing(_retrieve(listed, calls)) as retrieved,
        closing(authorize(retrieved, calls)) as authorized,
    ):
        yield from map(mask.result, authorized)


def _retrieve(
    listed: Iterable[ReadResult], calls: ProgramCalls
) -> Generator[ReadResult, None, None]:
    """Yield notices and one Record, Filtered or Reject for each listed ADD."""
    if not calls.programs.retriever:
        yield from listed
        return

    def get(record: Record, cancelled: Event) -> list[ReadResult]:
        results = retrieve(calls, record, cancelled)
        if not calls.programs.transformer:
            return results
        return [transform(calls, one, cancelled) if _is_added(one) else one for one in results]

    items = (partial(get, item) if _is_added(item) else item for item in listed)
    with closing(map_ordered(items, parallel=calls.programs.parallel or 1)) as results:
        yield from results


def _is_added(item: ReadResult) -> TypeGuard[Record]:
    return isinstance(item, Record) and item.action is Action.ADD


PROGRAMS = ProgramsSource()
