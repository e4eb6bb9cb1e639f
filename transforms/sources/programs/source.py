"""The source `command`: programs list documents, and give each of them.

The lister runs once, before the pipeline. Its stream is kept in the folder of the run, so that a
run that is started again does not list again.
"""

from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from schemas.span import Span
from transforms.formats import LISTER_STREAM
from transforms.formats.base import ReadResult
from transforms.sources.base import Source, SourceOptions, SourceRun, SpanRequest
from transforms.sources.feed_files import read_file
from transforms.sources.files import cut_file
from transforms.sources.programs import config
from transforms.sources.programs.config import Programs
from transforms.sources.programs.documents import documents
from transforms.sources.programs.lister import list_documents
from transforms.sources.signature import sign_path

COMMAND = "command"

_LISTED_BYTES = 64 << 10
"""Bytes of a listing in one span: a thousand documents, which a resumed run need not ask again."""


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

    def split(self, run: SourceRun[Programs]) -> Iterator[Span]:
        if not run.listing.exists():
            list_documents(run.config, run.listing, options=run.reading)
        path = str(run.listing)
        listing = replace(run.span, path=path, format=LISTER_STREAM.name, signature=sign_path(path))
        for span in cut_file(listing, span_bytes=_LISTED_BYTES):
            yield replace(span, format=COMMAND)

    def read(self, request: SpanRequest[Programs]) -> Generator[ReadResult, None, None]:
        if request.config is None:
            raise TypeError("documents of programs are read with their configuration")
        retrieve = partial(documents, programs=request.config, options=request.options)
        yield from read_file(
            request.span, LISTER_STREAM, request.options, request.count, then=retrieve
        )


PROGRAMS = ProgramsSource()
