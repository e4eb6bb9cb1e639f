"""Attribute values that the specifications allow, and the values of a record outside of them.

A reader keeps the values that it finds: a number in its field, and a text that is no such value as
an extra. `notices` reports both. The adapters drop them where a target refuses them, and count a
loss under the name of the field.

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


class _ValueRule(NamedTuple):
    """The name of the loss, the field of the record, and the allowed values, of an extra."""

    loss: str
    field: str | None
    expected: str


_TEXTS = {
    "record/@lock": _ValueRule("lock", None, _BOOLEAN),
    "record/@crawl-immediately": _ValueRule("crawl-immediately", None, _BOOLEAN),
    "record/@crawl-once": _ValueRule("crawl-once", None, _BOOLEAN),
    "record/@authmethod": _ValueRule(
        "authmethod", None, "none, httpbasic, ntlm, httpsso or negotiate"
    ),
    "record/@pagerank": _ValueRule("pagerank", None, "an integer from 68 to 100"),
    "record/@feedrank": _ValueRule("feedrank", None, "an integer from 1 to 100"),
    "record/@scoring": _ValueRule("scoring", None, "content or web"),
    "record/@last-modified": _ValueRule("modified", None, _DATE),
    "record/metadata/@overwrite-acls": _ValueRule("overwrite-acls", None, _BOOLEAN),
    "Item/Modified": _ValueRule("modified", "modified", _DATE),
    "Item/Visited": _ValueRule("visited", "visited", _DATE),
    "Item/NextCheck": _ValueRule("next-check", "next_check", _DATE),
    "Item/Size": _ValueRule("size", "size", _INTEGER),
}
"""Rules by the place of the extra. If the field has a value too, its element occurred twice."""


class DoubtfulValue(NamedTuple):
    """A value that its specification does not allow; `loss` is the name of its loss."""

    loss: str
    place: str
    text: str
    expected: str

    @property
    def detail(self) -> str:
        return f"{self.place}={self.text}; expected {self.expected}"


def is_absolute(url: str) -> bool:
    """Whether a URL has a scheme and more after `://`, as appliances identify documents.

    An HTTP URL also has a host; `file:///path` has none.

    >>> is_absolute("smb://host/share/a.pdf"), is_absolute("doc1"), is_absolute("//host/a")
    (True, False, False)
    """
    return _ABSOLUTE.match(url) is not None


def doubtful_extra(record: Record, extra: Extra) -> DoubtfulValue | None:
    """Return the value of an extra that states an attribute which no reader understands."""
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


def notices(record: Record) -> Iterator[Notice]:
    """Yield a notice for each doubtful value; its code ends in `-value`, as in `pagerank-value`."""
    origin = record.provenance
    extras = (doubtful_extra(record, extra) for extra in record.extras)
    for value in (*doubtful_ranks(record), *extras):
        if value is not None:
            yield Notice(
                code=f"{value.loss}-value",
                detail=f"{value.detail}; kept as it is",
                source=origin.source,
                span=origin.span,
                offset=origin.offset,
            )
