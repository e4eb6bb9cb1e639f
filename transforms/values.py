"""Attribute values that the specifications allow, and values of a record outside of them.

A reader keeps what it finds: a number in its field, and text that is no such value as an extra.
`doubtful_values` finds both for notices; the adapters drop them where a target refuses them, and
count a loss under the name of the field.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Defining the XML Record for a Document": pagerank
68 to 100, feedrank 1 to 100. The DTDs in `schemas/` state the other values.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from schemas.notice import Notice
from schemas.record import Extra, Record

PAGERANKS = range(68, 101)
FEEDRANKS = range(1, 101)

_ABSOLUTE = re.compile(r"(?!https?:///)[A-Za-z][A-Za-z0-9+.-]*://\S", re.IGNORECASE)
_BOOLEAN = "true or false"
_DATE = "a date"
_INTEGER = "an integer"


class _Value(NamedTuple):
    """The loss that a text counts as, the field of the record that it is for, and its values."""

    loss: str
    field: str | None
    expected: str


_TEXTS = {
    "record/@lock": _Value("lock", None, _BOOLEAN),
    "record/@crawl-immediately": _Value("crawl-immediately", None, _BOOLEAN),
    "record/@crawl-once": _Value("crawl-once", None, _BOOLEAN),
    "record/@authmethod": _Value("authmethod", None, "none, httpbasic, ntlm, httpsso or negotiate"),
    "record/@pagerank": _Value("pagerank", None, "an integer from 68 to 100"),
    "record/@feedrank": _Value("feedrank", None, "an integer from 1 to 100"),
    "record/@scoring": _Value("scoring", None, "content or web"),
    "record/@last-modified": _Value("modified", None, _DATE),
    "record/metadata/@overwrite-acls": _Value("overwrite-acls", None, _BOOLEAN),
    "Item/Modified": _Value("modified", "modified", _DATE),
    "Item/Visited": _Value("visited", "visited", _DATE),
    "Item/NextCheck": _Value("next-check", "next_check", _DATE),
    "Item/Size": _Value("size", "size", _INTEGER),
}
"""By the place of the extra. A field that is stated all the same had its element twice."""


class DoubtfulValue(NamedTuple):
    """A value that its specification does not allow; `loss` is the name that it is lost under."""

    loss: str
    place: str
    found: str
    expected: str

    @property
    def detail(self) -> str:
        return f"{self.place}={self.found}; expected {self.expected}"


def is_absolute(url: str) -> bool:
    """Whether a URL has a scheme and something after `://`, as appliances identify documents.

    A URL of the web also has a host; `file:///path` has none.

    >>> is_absolute("smb://host/share/a.pdf"), is_absolute("doc1"), is_absolute("//host/a")
    (True, False, False)
    """
    return _ABSOLUTE.match(url) is not None


def doubtful_extra(record: Record, extra: Extra) -> DoubtfulValue | None:
    """Return the value that an extra holds because no reader understands it, or None."""
    value = _TEXTS.get(extra.place)
    if value is None or (value.field is not None and getattr(record, value.field) is not None):
        return None
    return DoubtfulValue(value.loss, extra.place, repr(extra.value), value.expected)


def doubtful_ranks(record: Record) -> Iterator[DoubtfulValue]:
    """Yield the ranks that are out of range."""
    crawl = record.crawl
    if crawl is None:
        return
    for name, rank, allowed in (
        ("pagerank", crawl.pagerank, PAGERANKS),
        ("feedrank", crawl.feedrank, FEEDRANKS),
    ):
        if rank is not None and rank not in allowed:
            expected = f"an integer from {allowed[0]} to {allowed[-1]}"
            yield DoubtfulValue(name, name, str(rank), expected)


def doubtful_values(record: Record) -> Iterator[DoubtfulValue]:
    """Yield all such values of a record: ranks first, then extras in their order."""
    yield from doubtful_ranks(record)
    for extra in record.extras:
        if value := doubtful_extra(record, extra):
            yield value


def notices(record: Record) -> Iterator[Notice]:
    """Yield a notice for each such value; the code ends in `-value`, as in `pagerank-value`."""
    for value in doubtful_values(record):
        origin = record.provenance
        yield Notice(
            code=f"{value.loss}-value",
            detail=f"{value.detail}; kept as it is",
            source=origin.source,
            span=origin.span,
            offset=origin.offset,
        )
