"""The names that --from and --to take: sources, then formats."""

from collections.abc import Iterator

from pipelines.cli.value_parsers import parse_choice
from transforms.formats import all_formats
from transforms.sources import SOURCES


def format_lines() -> Iterator[str]:
    """Yield a line for each source and format, with its uses."""
    for source in SOURCES:
        yield f"{source.name:<19}{'read':<12}{source.title}"
    for format_ in all_formats():
        uses = "read" if format_.encoder is None else "read/write"
        yield f"{format_.name:<19}{uses:<12}{format_.title}"


def parse_from(text: str) -> str:
    """Return the name of a source or a format."""
    sources = [source.name for source in SOURCES]
    return parse_choice(text, [*sources, *(format_.name for format_ in all_formats())])


def parse_to(text: str) -> str:
    """Return the name of a format that is written."""
    return parse_choice(text, [format_.name for format_ in all_formats() if format_.encoder])
