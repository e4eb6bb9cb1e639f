"""The names that --from and --to take: sources, then formats."""

from collections.abc import Iterator
from typing import NamedTuple

from pipelines.cli.value_parsers import one_of
from transforms.formats import all_formats
from transforms.sources.database.mapping import DATABASE
from transforms.sources.spool import SPOOL

COMMAND = "command"
"""The format of a source whose file names programs."""

FILES = "files"
"""The format of a source that is a tree of documents."""

ASKED = (COMMAND, FILES, DATABASE)
"""Formats of sources that are asked what there is before anything is read."""


class SourceTitle(NamedTuple):
    """A source, as `feedferry formats` lists it."""

    name: str
    title: str


SOURCES = (
    SourceTitle(FILES, "files of any kind: a folder or a uri, each a document"),
    SourceTitle(DATABASE, "rows of a database, each a document (a YAML file)"),
    SourceTitle(SPOOL, "what feedferry serve has taken: a folder of feeds"),
    SourceTitle(COMMAND, "GSA adaptor programs that speak command streams (a YAML file)"),
)


def format_lines() -> Iterator[str]:
    """Yield a line for each source and format, with its uses."""
    for source in SOURCES:
        yield f"{source.name:<19}{'read':<12}{source.title}"
    for format_ in all_formats():
        uses = "read" if format_.encoder is None else "read/write"
        yield f"{format_.name:<19}{uses:<12}{format_.title}"


def parse_from(text: str) -> str:
    """Return the name of a source or a format."""
    formats = (format_.name for format_ in all_formats())
    return one_of(text, (*(source.name for source in SOURCES), *formats))


def parse_to(text: str) -> str:
    """Return the name of a format that is written."""
    return one_of(text, (format_.name for format_ in all_formats() if format_.encoder))
