"""The sources that feedferry has, and the source of a span."""

from typing import Any

from schemas.span import Span
from transforms.sources.base import Source
from transforms.sources.database.mapping import RowMapping
from transforms.sources.database.source import ROWS
from transforms.sources.feed_files import FEED_FILES
from transforms.sources.programs.config import Programs
from transforms.sources.programs.source import PROGRAMS
from transforms.sources.spool import Spool
from transforms.sources.spool.source import SPOOLS
from transforms.sources.tree.source import TREE
from transforms.sources.tree.tree import Tree

SourceConfig = Programs | Tree | RowMapping | Spool
"""How one source is read."""

SOURCES: tuple[Source[Any], ...] = (TREE, ROWS, SPOOLS, PROGRAMS)
"""The sources that --from names; files of records have the names of their formats."""

_by_span_format = {name: source for source in SOURCES for name in source.span_formats}


def find_source(name: str | None) -> Source[Any] | None:
    """Return the source with a name, None for the name of a format."""
    return next((source for source in SOURCES if source.name == name), None)


def source_of(span: Span) -> Source[Any]:
    """Return the source that a span is read by."""
    return _by_span_format.get(span.format, FEED_FILES)
