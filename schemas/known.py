"""What a state remembers of a document that was sent: enough to tell whether it has changed."""

from collections.abc import Callable

import msgspec

UNCHANGED = "unchanged"
"""The code of what is filtered because it is as it was when it was sent last."""


class Known(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document as it was when it was sent last.

    `key` names it in its source: the path below the root of a tree, the key of a row as JSON.
    `modified_ns` counts nanoseconds since 1970. `fingerprint` is one text of the other
    inputs of its record: sidecars, permissions, the timestamp of a row. `digest` is the SHA-256 of
    what it was made of, in hexadecimal. `parent` is the key of the archive that it is a member of.
    """

    key: str
    url: str
    size: int = 0
    modified_ns: int | None = None
    fingerprint: str = ""
    digest: str = ""
    parent: str | None = None


class Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run learned of a document, for the state: how it is now, or that it is gone."""

    known: Known
    is_gone: bool = False


See = Callable[[Seen], None]
"""Told of each document just before its outcome is yielded, so that a state can remember it."""
