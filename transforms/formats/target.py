"""The target that a record is adapted to, and the result."""

from collections.abc import Callable

import msgspec

from schemas.content import MAX_CONTENT_BYTES
from schemas.loss import Loss
from schemas.record import Record
from schemas.reject import Filtered, Reject

EMPTY_METADATA = ("drop", "placeholder")
CONTENT_ENCODINGS = ("auto", "base64", "zlib")

Outcome = Record | Reject | Filtered
Adapted = tuple[tuple[Outcome, ...], tuple[Loss, ...]]
"""The outcomes of one record, at least one, and its losses."""

Adapter = Callable[[Record], Adapted]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A format, and the user's choices for values that it holds only in part.

    A deletion by pattern is expanded against `known_urls` where the target has no patterns.
    `named_fields` pairs a metadata name with the Thunderstone field of its values.
    `max_content_bytes` is the limit of a document that must be decoded. `content_encoding` is the
    encoding of contents where a target leaves the choice: `auto` keeps it, and text stays text;
    `zlib`, in base64, is used where it is shorter.
    """

    format: str
    feedtype: str | None = None
    datasource: str | None = None
    dialect: str = "7.x"
    empty_metadata: str = EMPTY_METADATA[0]
    placeholder: str = "_noname_"
    known_urls: tuple[str, ...] = ()
    wide_deletes: bool = False
    default_mimetype: str | None = None
    named_fields: tuple[tuple[str, str], ...] = ()
    max_content_bytes: int = MAX_CONTENT_BYTES
    content_encoding: str = CONTENT_ENCODINGS[0]
