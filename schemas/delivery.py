"""A feed that a client sent to the receiver: one line of the journal of the spool."""

import msgspec

JOURNAL = "deliveries.jsonl"
"""File name of the journal of a spool: one line per delivery, in the order of arrival."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A feed that is complete in a spool.

    `endpoint` is the name of the endpoint that received it, such as `xmlfeed`, and `format` that of
    the format that it takes.
    `path` is relative to the spool; `None` for a cleanup, which has no feed. `datasource` is the
    posted datasource or groupsource, `feedtype` the posted feedtype; for groups also `cleanup` and
    `replace`. Both override the header of the feed: "Only the data source and feed type provided
    as POST input parameters are used" (Feeds Protocol Developer's Guide 7.x). `profile` is the
    profile of Thunderstone data. `at` is the time of arrival in RFC 3339, `client` the address and
    `user_agent` the User-Agent of the client. `refused` are the URLs of records that a rehearsal
    appliance refused.
    """

    ordinal: int
    endpoint: str
    format: str
    path: str | None
    bytes: int
    datasource: str = ""
    feedtype: str = ""
    profile: str = ""
    at: str = ""
    client: str = ""
    user_agent: str = ""
    refused: tuple[str, ...] = ()
