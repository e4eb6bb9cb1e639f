"""Documents in the state of a source, for the detection of changes."""

from collections.abc import Callable

import msgspec

UNCHANGED = "unchanged"
"""The code of documents that are filtered because they have not changed since the last run."""


class Known(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document as it was sent last.

    `key` is unique in the source: the path below the root of a tree, or the key of a row as JSON.
    `modified_ns` is in nanoseconds since 1970. `fingerprint` combines the other inputs of the
    record, such as sidecars, permissions or the timestamp of a row. `digest` is the SHA-256 of the
    contents in hexadecimal. `parent` is the key of the archive that contains the document.
    """

    key: str
    url: str
    size: int = 0
    modified_ns: int | None = None
    fingerprint: str = ""
    digest: str = ""
    parent: str | None = None


class Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The present state of a document, or its deletion."""

    known: Known
    is_gone: bool = False


See = Callable[[Seen], None]
"""Called for each document before its result is yielded, so that the state can store it."""
