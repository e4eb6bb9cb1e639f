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


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The feed that records belong to; full feeds of one datasource differ in their `origin`.

    `memberships` tells that it is a groups feed: its datasource is a groupsource.
    """

    feed: Feed | None = None
    origin: str | None = None
    memberships: bool = False


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
