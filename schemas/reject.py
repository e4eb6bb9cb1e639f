"""Rejected and filtered records."""

from typing import NamedTuple

import msgspec

from schemas.errors import RecordError
from schemas.membership import RecordOrMembership
from schemas.span import Span

UNREADABLE = "unreadable"
"""The code of a file that cannot be opened or read."""

TORN_COMPRESSION = "torn-compression"
"""The code of compressed data that cannot be decompressed."""

UNKNOWN_ENCODING = "unknown-encoding"
"""The code of a file that declares an unknown encoding."""

FILE_NAME = "file-name"
"""The code of a file whose name is not UTF-8."""

TORN_END = "torn-end"
"""The code of a document that has no end tag."""

HOLES = frozenset(
    {
        *(UNREADABLE, TORN_COMPRESSION, UNKNOWN_ENCODING, FILE_NAME, TORN_END),
        *("content-too-large", "record-too-large"),
    }
)
"""Codes of rejects that are holes in a full feed of any format; a format adds codes of its own.

Each is an unknown number of records, or a record that only a limit of this run refuses.
"""


class Reject(msgspec.Struct, frozen=True, kw_only=True):
    """A record or a part of a stream that is not converted.

    `data` has its original bytes, so that it can be corrected and read again; `truncated` is true
    if `data` is not complete. `reason` has the form *finding; expected …*.
    """

    code: str
    reason: str
    stage: str
    source: str = ""
    span: int = 0
    line: int = 0
    offset: int = 0
    length: int = 0
    url: str | None = None
    action: str | None = None
    data: bytes = b""
    truncated: bool = False

    @property
    def message(self) -> str:
        """The reject as one line: *where: finding; expected …*."""
        line = f":{self.line}" if self.line else ""  # not all formats have lines
        return f"{self.source}{line} (byte {self.offset}): {self.reason}"


class Filtered(msgspec.Struct, frozen=True, kw_only=True):
    """A record that the target does not need; `code` names the rule."""

    code: str
    url: str
    action: str


class Place(NamedTuple):
    """A part of a source: its offset and length in bytes, and its first line."""

    offset: int
    length: int
    line: int = 0


def reject_bytes(
    exc: RecordError, *, span: Span, place: Place, data: bytes, url: str | None = None
) -> Reject:
    """Return the reject of unreadable bytes; `data` may be the first of them."""
    return Reject(
        code=exc.code,
        reason=exc.reason,
        stage="read",
        source=span.source,
        span=span.ordinal,
        line=place.line,
        offset=place.offset,
        length=place.length,
        url=url,
        data=data,
        truncated=place.length > len(data),
    )


def reject_record(record: RecordOrMembership, *, code: str, reason: str, stage: str) -> Reject:
    """Return the reject of a record that was read; the caller adds its bytes."""
    provenance = record.provenance
    return Reject(
        code=code,
        reason=reason,
        stage=stage,
        source=provenance.source,
        span=provenance.span,
        line=provenance.line,
        offset=provenance.offset,
        url=record.url,
        action=record.action.value,
    )
