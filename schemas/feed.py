"""A feed: the datasource whose records it carries, and how the target takes them.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Choosing a Name for the Feed Data Source" and
"Choosing the Feed Type".
"""

import re

import msgspec

from schemas.errors import ConfigError

FULL = "full"
INCREMENTAL = "incremental"
METADATA_AND_URL = "metadata-and-url"
REPLACE = "replace"
"""The feedtype of groups that take the place of those of their source, and of no other."""

CLEANUP = "cleanup"
"""That of what removes all groups of a source, and brings none."""

FEEDTYPES = (FULL, INCREMENTAL, METADATA_AND_URL)
_DATASOURCE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]*", re.ASCII)


class Feed(msgspec.Struct, frozen=True, kw_only=True):
    """Datasource and feedtype of one feed."""

    datasource: str
    feedtype: str


class TargetFeed(msgspec.Struct, frozen=True, kw_only=True):
    """The feed that records belong to; full feeds of one datasource differ in their `origin`.

    `memberships` tells that it is a groups feed: its datasource is a groupsource.
    """

    feed: Feed | None = None
    origin: str | None = None
    memberships: bool = False


class FeedHeader(msgspec.Struct, frozen=True, kw_only=True):
    """A feed of which a reader found no record: what its header says of it.

    Readers yield one after the end of such a feed. Without it, nothing would tell an empty full
    feed, which deletes every document of its datasource, from no feed at all. `memberships` says
    that it is a groups feed.
    """

    source: str
    datasource: str | None = None
    feedtype: str | None = None
    memberships: bool = False


class FullFeed(msgspec.Struct, frozen=True, kw_only=True):
    """A full feed that a span read or a part of it; it deletes what it leaves out.

    `datasource` and `origin` name the feed as in a Chunk. `source` is the input in which it was
    found, `span` the name of the span. `has_records` tells whether a record of it was read,
    `is_archived` whether from an archive. The origin is then a feed that was read before, and does
    not name the file.
    """

    datasource: str | None
    origin: str | None
    source: str
    span: str
    memberships: bool = False
    has_records: bool = False
    is_archived: bool = False


def is_web(datasource: str | None, feedtype: str | None) -> bool:
    """Whether the appliance fetches the documents of such a feed itself."""
    return datasource == "web" or feedtype == METADATA_AND_URL


def check_datasource(name: str, *, said_as: str = "--datasource:") -> str:
    """Return `name`; raise ConfigError unless an appliance takes it as a datasource.

    `said_as` is what stands before the name in that message.
    """
    if not _DATASOURCE.fullmatch(name):
        raise ConfigError(
            f"{said_as} {name!r}; expected a letter or _, then letters, digits, _ and -"
        )
    return name
