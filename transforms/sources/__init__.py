"""The sources: one object each, in the order in which `feedferry formats` lists them.

A source is added by one module with its `Source`, and its object in `SOURCES`. Other packages
import from here, and never from the modules of a source.
"""

from collections.abc import Generator
from contextlib import closing
from typing import Any

from schemas.record import Record
from schemas.span import Span
from transforms.formats.base import ReadResult
from transforms.sources.base import (
    ByteCount,
    Source,
    SourceOptions,
    SourceRun,
    SpanRequest,
    check_input_name,
)
from transforms.sources.database.mapping import RowMapping
from transforms.sources.database.source import ROWS
from transforms.sources.feed_files import FEED_FILES
from transforms.sources.files import (
    cut_file,
    is_compressed,
    list_remote_files,
    open_span,
    sign_path,
    sniff_format,
)
from transforms.sources.programs.config import Programs
from transforms.sources.programs.source import PROGRAMS
from transforms.sources.spool.source import SPOOLS, Spool
from transforms.sources.state_changes import unsure_changes
from transforms.sources.tree.source import TREE
from transforms.sources.tree.tree import Tree

__all__ = [
    "PROGRAMS",
    "ROWS",
    "SOURCES",
    "SPOOLS",
    "TREE",
    "Source",
    "SourceConfig",
    "SourceOptions",
    "SourceRun",
    "SpanRequest",
    "check_input_name",
    "cut_file",
    "find_source",
    "is_compressed",
    "list_remote_files",
    "open_span",
    "read_span",
    "sign_path",
    "sniff_format",
    "source_of",
    "unsure_changes",
]

SourceConfig = Programs | Tree | RowMapping | Spool
"""How one source is read."""

SOURCES: tuple[Source[Any], ...] = (TREE, ROWS, SPOOLS, PROGRAMS)
"""The sources that --from names; files of records have the names of their formats."""

_by_span_format = {name: source for source in SOURCES for name in source.span_formats}


def find_source(name: str | None) -> Source[Any] | None:
    """Return the source with a name, None for the name of a format."""
    return next((source for source in SOURCES if name in (source.name, *source.former_names)), None)


def source_of(span: Span) -> Source[Any]:
    """Return the source that a span is read by."""
    return _by_span_format.get(span.format, FEED_FILES)


def read_span(request: SpanRequest[Any]) -> Generator[ReadResult, None, None]:
    """Yield the records of a span, and everything else that its source finds there, in order."""
    source = source_of(request.span)
    results = source.read(request)
    return _count_contents(results, request.count) if source.counts_contents else results


def _count_contents(
    results: Generator[ReadResult, None, None], count: ByteCount
) -> Generator[ReadResult, None, None]:
    with closing(results):
        for result in results:
            if isinstance(result, Record) and result.content is not None:
                count.add(len(result.content.data))
            yield result
