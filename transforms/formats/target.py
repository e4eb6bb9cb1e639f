"""What a record is adapted to, and what comes of it."""

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
"""What becomes of one record, at least one outcome, and what it loses on the way."""

Adapter = Callable[[Record], Adapted]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A format, and how its user wants to have what it holds only in part.

    `known_urls` are what a deletion by pattern is expanded against where the target knows no
    patterns. `named_fields` pairs a metadata name with the Thunderstone field that takes its
    values. `max_content_bytes` bounds one document where it must be decoded. `content_encoding` is
    how contents travel where a target leaves the choice: `auto` as they came, text as text; `zlib`
    in base64 where that is shorter.
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
