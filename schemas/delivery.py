"""A feed as a client delivered it to a receiver: a line of the journal of its spool."""

import enum

import msgspec

JOURNAL = "deliveries.jsonl"
"""The journal of a spool: a line for each delivery, in the order of their arrival."""


class Door(enum.Enum):
    """Where a feed came in: the last part of the path that it was posted to."""

    FEED = "xmlfeed"
    GROUPS = "xmlgroups"
    DATA = "recvdata"


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A feed that stands whole in a spool.

    `path` is that of its file, relative to the spool; `None` for a cleanup, which has no feed.
    `datasource` is the datasource or groupsource that was posted with it and `feedtype` what was
    posted as such: for groups also `cleanup` and `replace`. They win over those in the feed's own
    header: "Only the data source and feed type provided as POST input parameters are used" (Feeds
    Protocol Developer's Guide 7.x). `profile` is that of Thunderstone data. `at` is the time of
    arrival in RFC 3339, `client` the address that it came from, `user_agent` what that says it is.
    `refused` are urls that a rehearsal appliance has refused of it, and so does not hold.
    """

    ordinal: int
    door: Door
    path: str | None
    bytes: int
    datasource: str = ""
    feedtype: str = ""
    profile: str = ""
    at: str = ""
    client: str = ""
    user_agent: str = ""
    refused: tuple[str, ...] = ()
