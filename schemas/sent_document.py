"""Documents in the state of a source, for the detection of changes."""

from collections.abc import Callable

import msgspec

UNCHANGED = "unchanged"
"""The code of documents that are filtered because they have not changed since the last run."""

NO_DIGEST = ""
"""The digest of a document that the next run reads again, and of a key without a document."""

DELETION_SENT = "gone"
"""The digest of a key whose deletion was sent."""


StateRow = tuple[str, str, int, int | None, str]
"""The key, URL, size, time and fingerprint of a `SentDocument`."""


class SentDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document as it was sent last.

    `key` is unique in the source: the path below the root of a tree, or the key of a row as JSON.
    `size` is that of a file; of a row, it is the signature of its values, or 0.
    `modified_ns` is in nanoseconds since 1970: of a local file, the later of mtime and ctime.
    `fingerprint` combines the other inputs of the record, such as sidecars, permissions or the
    timestamp of a row. `digest` is the SHA-256 of the contents in hexadecimal, or a constant of
    this module. `parent` is the key of the archive that contains the document.
    """

    key: str
    url: str
    size: int = 0
    modified_ns: int | None = None
    fingerprint: str = ""
    digest: str = NO_DIGEST
    parent: str | None = None


class StateChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The present state of a document, or its deletion."""

    document: SentDocument
    is_deleted: bool = False


OnChange = Callable[[StateChange], None]
"""Called for each document before its result is yielded, so that the state can store it."""
