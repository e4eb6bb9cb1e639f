"""Feeds: datasource, feedtype and headers.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Choosing a Name for the Feed Data Source" and
"Choosing the Feed Type".
"""

import re

import msgspec

from feedferry.schemas.errors import ConfigError, FormatError

FULL = "full"
INCREMENTAL = "incremental"
METADATA_AND_URL = "metadata-and-url"
REPLACE = "replace"
"""The feedtype of groups that replace the groups of their groupsource only."""

CLEANUP = "cleanup"
"""The feedtype of a request that removes all groups of a groupsource."""

FEEDTYPES = (FULL, INCREMENTAL, METADATA_AND_URL)
DATASOURCE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,249}", re.ASCII)
A_NAME = "expected a letter or _, then letters, digits, _ and -, at most 250"
"""The names of datasources, as a pattern and in words."""


class Feed(msgspec.Struct, frozen=True, kw_only=True):
    """Datasource and feedtype of one feed."""

    datasource: str
    feedtype: str


class TargetFeed(msgspec.Struct, frozen=True, kw_only=True):
    """The feed that records belong to; full feeds of one datasource differ in their `origin`.

    `memberships` marks a groups feed, whose datasource is a groupsource. `format` is the format of
    its chunks, if it is not that of the run.
    """

    feed: Feed | None = None
    origin: str | None = None
    memberships: bool = False
    format: str | None = None


class FeedHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a feed without records.

    A reader yields it after the end of the feed. It distinguishes an empty full feed, which deletes
    every document of its datasource, from no feed. `memberships` marks a groups feed. `repair` is
    what was repaired in the header of any feed.
    """

    source: str
    datasource: str | None = None
    feedtype: str | None = None
    memberships: bool = False
    repair: str = ""


class FullFeed(msgspec.Struct, frozen=True, kw_only=True):
    """A full feed, or a part of it, that was read in a span.

    The target deletes all documents that the feed does not contain. `datasource` and `origin` name
    the feed as in a Chunk. `source` is the input and `span` the name of the span. `has_records` is
    true if a record of the feed was read. `is_archived` is true if it was read from an archive; its
    origin is then the feed of an earlier run and not the name of the file.
    """

    datasource: str | None
    origin: str | None
    source: str
    span: str
    memberships: bool = False
    has_records: bool = False
    is_archived: bool = False


class Hole(msgspec.Struct, frozen=True, kw_only=True):
    """Rejects of a span that may be of a full feed.

    `count` is the number of those that may be documents and are not accepted, `first` the first of
    them as text. `source` is "" if all inputs are one feed. Without a `datasource`, they may be of
    any full feed of the source.
    """

    source: str
    span: str
    count: int
    first: str
    datasource: str | None = None


def is_web(datasource: str | None, feedtype: str | None) -> bool:
    """Return whether the appliance crawls the documents of such a feed itself."""
    return datasource == "web" or feedtype == METADATA_AND_URL


def check_datasource(name: str, *, label: str = "⟦datasource⟧:") -> str:
    """Return `name`; raise ConfigError, with `label` before it, if no appliance accepts it."""
    if not DATASOURCE.fullmatch(name):
        raise ConfigError(f"{label} {name[:99]!r}; {A_NAME}")
    return name


def read_feedtype(text: str) -> str:
    """Return a feedtype as the guide spells it; an unknown one without blanks around it.

    >>> read_feedtype(" Full "), read_feedtype("Fulll")
    ('full', 'Fulll')
    """
    feedtype = text.strip().lower()
    return feedtype if feedtype in FEEDTYPES else text.strip()


def check_header(
    datasource: str | None, feedtype: str | None, *, where: str, used: frozenset[str]
) -> None:
    """Raise FormatError for a value that no appliance accepts, if its name is in `used`."""
    if "datasource" in used and datasource is not None and not DATASOURCE.fullmatch(datasource):
        name, value, expected = "datasource", datasource, A_NAME
    elif "feedtype" in used and feedtype not in (None, *FEEDTYPES):
        name, value, expected = "feedtype", feedtype, f"expected {' or '.join(FEEDTYPES)}"
    else:
        return
    raise FormatError(
        f"{where}: {name} {value!r}; {expected}: correct the header, or give --{name}"
    )
