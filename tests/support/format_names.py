"""The names of formats and sources, as messages list them."""

from feedferry.transforms.formats import FORMATS
from feedferry.transforms.sources import SOURCES

READ = ", ".join(format_.name for format_ in FORMATS if format_.is_read)
WRITTEN = ", ".join(format_.name for format_ in FORMATS if format_.encoder)
SOURCE_NAMES = ", ".join(source.name for source in SOURCES)
