"""The elements of an Item that hold a text, a row each, in the order of the specification.

**Spec:** Thunderstone dataload API, "Specifying all fields manually".
"""

import math
import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache, partial

from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Action, Meta
from feedferry.transforms.formats.base import StatedValue
from feedferry.transforms.formats.text.dates import local_date, parse_date
from feedferry.transforms.formats.xml.rows import Codec, ElementRows, Row, choices

TYPES = choices(
    {
        "I": Action.ADD,
        "D": Action.DELETE,
        "DP": Action.DELETE_PATTERN,
        "U": Action.UPDATE,
        "UI": Action.UPDATE_INDEX,
    }
)
NESTED = (Row("Refs", "history.references"), Row("Errors", "history.errors"))
"""Elements with a document of `results/result`, each with a Url and a text of this record."""

SEPARATORS = {"Meta": "\n", "Category": ""}
"""What separates the values of an element; each category has an element of its own."""

_SEPARATOR = ": "
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_INTEGER_LIMIT = 1 << 63
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")


@lru_cache(maxsize=16)
def item_rows(zone: str) -> ElementRows:
    """Return the rows; dates without a time zone are in `zone`."""
    date = Codec(partial(_read_date, zone=zone), partial(local_date, zone=zone), "a date")
    return ElementRows(
        "Item",
        Row("Size", "size", _INTEGERS),
        Row("Visited", "visited", date),
        Row("Dlsecs", "history.download_seconds", _numbers("Dlsecs", _seconds)),
        Row("Depth", "history.depth", _INTEGERS),
        Row("Url", "url"),
        Row("Title", "title"),
        Row("Body", "body"),
        Row("Keywords", "keywords"),
        Row("Description", "description"),
        Row("Meta", "metadata", Codec(_read_line, _write_line)),
        Row("Category", "categories"),
        Row("Modified", "modified", date),
        Row("NextCheck", "next_check", date),
        Row("Views", "history.views", _INTEGERS),
        Row("Clicks", "history.clicks", _INTEGERS),
        Row("CTR", "history.click_ratio", _numbers("CTR", _ratio)),
        Row("Pop", "history.popularity", _INTEGERS),
        Row("MimeType", "mimetype"),
        Row("Charset", "charset"),
    )


def stated_values() -> dict[str, StatedValue]:
    """Return the values of a known form, by the place of an extra that has another form."""
    return item_rows("UTC").stated_values()


def _read_date(text: str, *, zone: str) -> datetime | None:
    """Return a date; one with a fraction of a second cannot be written."""
    moment = parse_date(text, zone=zone)
    return moment if moment and not moment.microsecond else None


def _read_integer(text: str) -> int | None:
    """Return an integer of 64 bits, None for any other text."""
    text = text.strip()
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INTEGER_LIMIT <= number < _INTEGER_LIMIT else None


_INTEGERS = Codec(_read_integer, str, "an integer")


def _numbers(name: str, form: Callable[[float], str]) -> Codec:
    def write(number: float) -> str:
        if not math.isfinite(number):
            raise RecordError("bad-number", f"{name} {number!r}; expected a finite number")
        return form(number)

    return Codec(_read_number, write, "a number")


def _read_number(text: str) -> float | None:
    text = text.strip()
    number = float(text) if _NUMBER.fullmatch(text) else math.inf
    return number if math.isfinite(number) else None


def _seconds(number: float) -> str:
    """Return a number without decimals if it is whole."""
    return str(int(number)) if number == int(number) else repr(number)


def _ratio(number: float) -> str:
    """Return a number with six decimals, or more if it has more."""
    text = f"{number:.6f}"
    return text if float(text) == number else repr(number)


def _read_line(text: str) -> Meta:
    """Return the pair of a line of Meta; without `: ` it is a value without a name."""
    name, separator, value = text.partition(_SEPARATOR)
    return Meta(name, value) if separator else Meta("", name)


def _write_line(pair: Meta) -> str:
    """Return the line of a pair; raise RecordError if it has none."""
    if pair.data is not None:
        reason = f"metadata {pair.name!r} of {len(pair.data)} bytes that are no text; expected text"
        raise RecordError("bad-metadata", reason)
    if "\n" in pair.name or "\n" in pair.value or _SEPARATOR in pair.name:
        raise RecordError(
            "bad-metadata",
            f"metadata {pair.name!r} does not fit on a line of Meta; expected no line end in it"
            f" and no {_SEPARATOR!r} in its name",
        )
    if not pair.name and pair.value.strip() and _SEPARATOR not in pair.value:
        return pair.value
    return f"{pair.name}{_SEPARATOR}{pair.value}"
