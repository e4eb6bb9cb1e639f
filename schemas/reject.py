"""Rejected and filtered records.

A defect of feedferry that appears while one record is processed costs that record only: every place
that turns a `RecordError` into a `Reject` catches `Exception` and calls `record_error`. So a
KeyError in a reader becomes a reject like any other. The record is set aside with its original
bytes, the other records go on, and the run reports the defect at its end.
"""

import re
from types import TracebackType
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from feedferry.schemas.errors import (
    EncodingError,
    FeedferryError,
    FileNameError,
    RecordError,
    UnreadableError,
)
from feedferry.schemas.membership import RecordOrMembership
from feedferry.schemas.printable import printable
from feedferry.schemas.record import Record
from feedferry.schemas.span import Span, UnreadableFile

DEFECT = "defect"
"""The code of rejects that are caused by a defect of feedferry."""

# Codes of a whole file: it cannot be opened or read, its compressed data cannot be decompressed, it
# declares an unknown encoding, it is not in its format or in any, or its name is not UTF-8.
UNREADABLE = "unreadable"
TORN_COMPRESSION = "torn-compression"
UNKNOWN_ENCODING = "unknown-encoding"
UNKNOWN_FORMAT = "unknown-format"
FILE_NAME = "file-name"

TORN_END = "torn-end"
"""The code of a document that has no end tag."""

KEPT_BYTES = 1 << 20
"""Most bytes of a damaged part of a stream that its reject keeps."""

_MAX_NUMBERS = {"span": 1 << 31}
_FILE_CODES = {EncodingError: UNKNOWN_ENCODING, FileNameError: FILE_NAME}
_PLACE = re.compile(r"^(?::\d+: |: | \(byte \d+\): )")
_NOT_OF_ONE_RECORD = (FeedferryError, OSError, MemoryError)
_PACKAGE = "feedferry"
_EXCEPTION_TYPE = re.compile(r"a defect of feedferry: ([\w.]+) in ")


class Reject(msgspec.Struct, frozen=True, kw_only=True):
    """A record or a part of a stream that is not converted.

    `data` has its original bytes, so that it can be corrected and read again; `truncated` is true
    if `data` is not complete. `reason` has the form *finding; expected …*. Without an `action`, it
    may be any number of records. `datasource` and `feedtype` are those of a record that was read.
    `key` is the place in a source that is not read by bytes: the path of a file in a tree, or the
    key of a row.
    """

    code: str
    reason: str
    stage: str
    source: str = ""
    span: int = 0
    line: int = 0
    offset: int = 0
    length: int = 0
    key: str | None = None
    url: str | None = None
    action: str | None = None
    datasource: str | None = None
    feedtype: str | None = None
    data: bytes = b""
    truncated: bool = False

    @property
    def message(self) -> str:
        """The reject as one line: *where: finding; expected …*."""
        return message_of(self.source, self.line, self.offset, self.key, self.reason)

    @property
    def where(self) -> str:
        """The place of the record in its source."""
        return where_of(self.source, self.line, self.offset, self.key)


class Filtered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record that the target does not need; `code` names the rule.

    It may represent several unchanged records, which have no URL.
    """

    code: str
    url: str
    action: str
    count: int = 1


_Outcome = TypeVar("_Outcome", Reject, Filtered)


def storable(outcome: _Outcome) -> _Outcome:
    r"""Return an outcome that files can hold.

    A lone surrogate, as of a file name that is not UTF-8, becomes `\udcfc`, and a number out of
    range becomes 0.
    """
    changed: dict[str, str | int] = {}
    for name in outcome.__struct_fields__:
        value = getattr(outcome, name)
        if isinstance(value, str) and not value.isascii():
            changed[name] = value.encode("utf-8", "backslashreplace").decode()
        elif isinstance(value, int) and not 0 <= value < _MAX_NUMBERS.get(name, 1 << 63):
            changed[name] = 0
    return replace(outcome, **changed) if changed else outcome


_OF_ACLS = ("acl-", "bad-acl", "no-acl", "principal-")
"""Begin the codes of records whose ACL is not known."""


def is_until_acl(reject: Reject, origin: Record | None = None) -> bool:
    """Whether a good ACL alone shows the document of a reject again.

    That is so if its ACL was the reason, or if the record had nothing else. For any other reason,
    the target has only an older version, which stays hidden.
    """
    is_alone = origin is not None and origin.acl is not None and origin.acl.alone
    return is_alone or reject.code.startswith(_OF_ACLS)


def message_of(source: str, line: int, offset: int, key: str | None, reason: str) -> str:
    """Return a reject as one line."""
    return printable(f"{where_of(source, line, offset, key)}: {reason}")


def where_of(source: str, line: int, offset: int, key: str | None) -> str:
    """Return the place of a record; not all formats have lines, and some sources have keys."""
    place = f"{f':{line}' if line else ''} (byte {offset})" if key is None else f": {key}"
    return f"{source}{place}"


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


def reject_record(record: RecordOrMembership, exc: RecordError, *, stage: str) -> Reject:
    """Return the reject of a record that was read; the caller adds its bytes."""
    provenance = record.provenance
    return Reject(
        code=exc.code,
        reason=exc.reason,
        stage=stage,
        source=provenance.source,
        span=provenance.span,
        line=provenance.line,
        offset=provenance.offset,
        url=record.url,
        action=record.action.value,
        datasource=provenance.datasource,
        feedtype=provenance.feedtype,
    )


def unreadable_file(source: str, exc: FeedferryError) -> UnreadableFile:
    """Return the code and the reason of the reject of a file that cannot be read.

    >>> unreadable_file("a.xml", FeedferryError("a.xml:1: no element; expected <gsafeed>"))
    UnreadableFile(code='unknown-format', reason='no element; expected <gsafeed>')
    """
    if isinstance(exc, UnreadableError):
        return UnreadableFile(exc.code, exc.reason)
    reason = str(exc).removeprefix("INPUT: ").removeprefix(f"{source!r} ").removeprefix(source)
    return UnreadableFile(_FILE_CODES.get(type(exc), UNKNOWN_FORMAT), _PLACE.sub("", reason))


def record_error(exc: Exception) -> RecordError:
    """Return the RecordError that one record is rejected for; raise `exc` if it concerns more.

    A RecordError is returned as it is. Other errors of feedferry, OSError and MemoryError are
    raised again: they are not caused by one record. Any other exception is a defect. Its message is
    left out, because it may contain a part of the document.
    """
    if isinstance(exc, RecordError):
        return exc
    if isinstance(exc, _NOT_OF_ONE_RECORD):
        raise exc
    reason = (
        f"a defect of feedferry: {_type_name(type(exc))} in {_place(exc.__traceback__)};"
        " expected a record, or a reason why it is refused; please report this"
    )
    return RecordError(DEFECT, reason)


def defect_type(reject: Reject) -> str | None:
    """Return the name of the exception type if a defect caused the reject, else None.

    >>> error = record_error(KeyError())
    >>> defect_type(Reject(code=error.code, reason=error.reason, stage="read"))
    'KeyError'
    """
    if reject.code != DEFECT:
        return None
    match = _EXCEPTION_TYPE.search(reject.reason)
    return match[1] if match else "unknown"


def _type_name(kind: type[Exception]) -> str:
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _place(traceback: TracebackType | None) -> str:
    """Return module and line of the innermost frame of our own modules."""
    place = "an unknown place"
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] == _PACKAGE:
            place = f"{module}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
