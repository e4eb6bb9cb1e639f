"""The sources: one object each, in the order in which `feedferry formats` lists them.

A source is added by one module with its `Source`, and its name in `registry.SOURCES`. Other
packages import from here, and never from the modules of a source.
"""

from transforms.sources.base import (
    Source,
    SourceOptions,
    SourceRun,
    SpanRequest,
    SpanTally,
    check_input_name,
)
from transforms.sources.database.source import ROWS
from transforms.sources.feed_files import FEED_FILES
from transforms.sources.files import (
    cut_file,
    is_compressed,
    list_remote_files,
    open_span,
    sniff_format,
)
from transforms.sources.programs.source import PROGRAMS
from transforms.sources.registry import SOURCES, SourceConfig, find_source, source_of
from transforms.sources.signature import sign_path
from transforms.sources.span_reader import SpanReader
from transforms.sources.spool import SpoolHistory
from transforms.sources.spool.source import SPOOLS
from transforms.sources.tree.source import TREE
from transforms.sources.tree.tree import Oversize

__all__ = [
    "FEED_FILES",
    "PROGRAMS",
    "ROWS",
    "SOURCES",
    "SPOOLS",
    "TREE",
    "Oversize",
    "Source",
    "SourceConfig",
    "SourceOptions",
    "SourceRun",
    "SpanReader",
    "SpanRequest",
    "SpanTally",
    "SpoolHistory",
    "check_input_name",
    "cut_file",
    "find_source",
    "is_compressed",
    "list_remote_files",
    "open_span",
    "sign_path",
    "sniff_format",
    "source_of",
]
