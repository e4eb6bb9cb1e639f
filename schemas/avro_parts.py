"""Encoders of the values that records and memberships have in common.

**Spec:** Apache Avro 1.12, "Binary Encoding".
"""

import enum
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from schemas.errors import RecordError
from schemas.record import Extra, Provenance
from schemas.varint import length, long

INT = (-(2**31), 2**31 - 1)
LONG = (-(2**63), 2**63 - 1)

NULL = b"\x00"
VALUE = b"\x02"
END = b"\x00"
FLAG = (b"\x00", b"\x01")
STATED_FLAG = {None: NULL, False: VALUE + b"\x00", True: VALUE + b"\x01"}

_Part = TypeVar("_Part")


def symbols(enum_type: type[enum.Enum]) -> dict[str, bytes]:
    """Return the bytes of each value of an enum."""
    return {symbol.value: long(ordinal) for ordinal, symbol in enumerate(enum_type)}


def stated_symbols(enum_type: type[enum.Enum]) -> dict[str, bytes]:
    """Return the bytes of each value of an enum that may be null."""
    return {value: VALUE + ordinal for value, ordinal in symbols(enum_type).items()}


def text_part(text: str) -> bytes:
    utf8 = text.encode()
    return length(utf8) + utf8


def optional_text(text: str | None) -> bytes:
    return NULL if text is None else VALUE + text_part(text)


def array(encode_item: Callable[[_Part], bytes], parts: tuple[_Part, ...]) -> bytes:
    if not parts:
        return END
    return long(len(parts)) + b"".join(map(encode_item, parts)) + END


def bounded(field: str, number: int, bounds: tuple[int, int]) -> bytes:
    """Return the bytes of an int or a long; raise RecordError if it is out of bounds."""
    lowest, highest = bounds
    if not lowest <= number <= highest:
        raise RecordError("out-of-range", f"{field}={number}; expected {lowest} to {highest}")
    return long(number)


def extra_part(extra: Extra) -> bytes:
    return text_part(extra.place) + text_part(extra.value)


def put_provenance(parts: list[bytes], provenance: Provenance) -> None:
    """Append the bytes of a provenance."""
    parts += (
        _origin(provenance.source, provenance.span),
        bounded("provenance.line", provenance.line, LONG),
        bounded("provenance.offset", provenance.offset, LONG),
        _feed(provenance.datasource, provenance.feedtype),
    )


def not_unicode(exc: UnicodeEncodeError) -> RecordError:
    """Return the error for a text with a lone surrogate."""
    code = f"U+{ord(exc.object[exc.start]):04X}"
    return RecordError("not-unicode", f"a lone surrogate {code}; expected Unicode text")


@lru_cache(maxsize=16)  # the same for all records of a span
def _origin(source: str, span: int) -> bytes:
    return text_part(source) + bounded("provenance.span", span, INT)


@lru_cache(maxsize=16)
def _feed(datasource: str | None, feedtype: str | None) -> bytes:
    return optional_text(datasource) + optional_text(feedtype)
