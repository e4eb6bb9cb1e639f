"""The source `adaptor`: programs list documents, and give each of them.

The lister is a program that writes a lister stream of all documents. It runs once, before the
pipeline. Its stream is kept in the folder of the run, so that a run that is started again does not
list again.
"""

import shutil
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from feedferry.schemas.check import Check, CheckLine, fail, ok
from feedferry.schemas.source_options import SourceOptions
from feedferry.schemas.span import Span
from feedferry.schemas.units import counted
from feedferry.transforms.config.secrets import resolve
from feedferry.transforms.formats import LISTER_STREAM
from feedferry.transforms.formats.base import ReadResult
from feedferry.transforms.sources.base import Source, SourceRun, SpanRequest
from feedferry.transforms.sources.feed_files import read_file
from feedferry.transforms.sources.files import cut_file, sign_path
from feedferry.transforms.sources.programs import config
from feedferry.transforms.sources.programs.config import Programs

ADAPTOR = "adaptor"

_LISTED_BYTES = 64 << 10
"""Bytes of a listing in one span: a thousand documents, which a resumed run need not ask again."""

_SPAN_BYTES_PER_LISTED_BYTE = 512
"""Smaller spans have smaller parts of the listing."""


class ProgramsSource(Source[Programs]):
    """Programs that speak command streams, as a YAML file names them."""

    name = ADAPTOR
    title = "GSA adaptor programs that speak command streams (a YAML file)"
    noun = "programs"
    span_formats = frozenset({ADAPTOR})
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
            from feedferry.transforms.sources.programs.documents import list_documents

            list_documents(run.config, run.listing, run.reading)
        path = str(run.listing)
        listing = replace(run.span, path=path, format=LISTER_STREAM.name, signature=sign_path(path))
        size = run.listing.stat().st_size * _SPAN_BYTES_PER_LISTED_BYTE
        listed_bytes = run.options.span_bytes_for([size]) // _SPAN_BYTES_PER_LISTED_BYTE
        for span in cut_file(listing, span_bytes=max(1, min(listed_bytes, _LISTED_BYTES))):
            yield replace(span, format=ADAPTOR)

    def read(self, request: SpanRequest[Programs]) -> Generator[ReadResult, None, None]:
        from feedferry.transforms.sources.programs.documents import documents

        if request.config is None:
            raise TypeError("documents of programs are read with their configuration")
        options = replace(request.options, batch_records=0)  # each record is retrieved
        read_documents = partial(documents, programs=request.config, options=options)
        yield from read_file(
            request.span, LISTER_STREAM, options, request.count, then=read_documents
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


PROGRAMS = ProgramsSource()
