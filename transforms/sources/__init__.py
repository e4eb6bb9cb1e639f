"""The sources: one object each, in the order in which `feedferry formats` lists them.

A source is added by one module with its `Source`, and its object in `SOURCES`, or by another
package with an entry point in `feedferry.sources`. Others import from here, and never from the
modules of a source.
"""

from collections.abc import Generator
from contextlib import closing
from typing import Any

import msgspec

from feedferry.schemas.record import Record
from feedferry.schemas.source_options import SourceOptions
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ReadResult, find_format
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.registry import Registry
from feedferry.transforms.sources.base import (
    ByteCount,
    Source,
    SourceRun,
    SpanRequest,
    check_input_name,
)
from feedferry.transforms.sources.database.database_source import ROWS
from feedferry.transforms.sources.feed_files import FEED_FILES
from feedferry.transforms.sources.files import (
    begin_file,
    cut_file,
    is_compressed,
    open_span,
    refuse_binary,
    sign_path,
    sniff_format,
)
from feedferry.transforms.sources.programs.programs_source import PROGRAMS
from feedferry.transforms.sources.remote import match_remote
from feedferry.transforms.sources.spool.spool_source import SPOOLS
from feedferry.transforms.sources.state_changes import SHARED, unsure_changes
from feedferry.transforms.sources.tree.tree_source import TREE

__all__ = [
    "PROGRAMS",
    "ROWS",
    "SHARED",
    "SOURCES",
    "SPOOLS",
    "TREE",
    "Source",
    "SourceConfig",
    "SourceOptions",
    "SourceRun",
    "SpanRequest",
    "begin_file",
    "check_input_name",
    "cut_file",
    "find_source",
    "is_compressed",
    "match_remote",
    "open_span",
    "read_span",
    "refuse_binary",
    "sign_path",
    "sniff_format",
    "source_of",
    "unsure_changes",
]

SourceConfig = msgspec.Struct
"""How one source is read: the `config_type` of the source."""

SOURCES: Registry[Source[Any]] = Registry("feedferry.sources", Source, TREE, ROWS, SPOOLS, PROGRAMS)
"""The sources that --from names; files of records have the names of their formats."""

find_source = SOURCES.find

_by_span_format = {name: source for source in SOURCES.ours for name in source.span_formats}


def source_of(span: Span) -> Source[Any]:
    """Return the source that a span is read by."""
    if span.format in _by_span_format:
        return _by_span_format[span.format]
    if find_format(span.format) is None:
        for source in SOURCES:
            if span.format in source.span_formats:
                return source
    return FEED_FILES


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
            if isinstance(result, RecordBatch | ElementBlock):
                count.add(result.content_bytes)
            elif isinstance(result, Record) and result.content is not None:
                count.add(len(result.content.data))
            yield result
