"""Fields of a record that a target cannot hold."""

import msgspec


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """A field that is left out or changed for a target.

    `field` is the name that `--accept-loss` and `--fail-on-loss` take.
    """

    field: str
    url: str
    detail: str


REFUSED = frozenset({"acl", "content"})
"""Fields whose loss stops a run unless it is accepted: documents would become public, or empty."""
