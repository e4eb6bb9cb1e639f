"""Attribute values that the specifications allow, and the values of a record outside of them.

A reader keeps the values that it finds: a number in its field, and a text that is no such value as
an extra. `notices` reports both. The adapters drop them where a target refuses them, and count a
loss under the name of the field. `notices` also reports URLs that no appliance can serve, and ACLs
that permit no user.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Defining the XML Record for a Document": pagerank
68 to 100, feedrank 1 to 100. The rows of the formats have the other values.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from feedferry.schemas.notice import Notice
from feedferry.schemas.record import DELETIONS, FEEDRANKS, PAGERANKS, Extra, Record
from feedferry.schemas.setting import in_flags
from feedferry.transforms.formats.base import StatedValue
from feedferry.transforms.formats.known_formats import FORMATS

_ABSOLUTE = re.compile(r"(?!https?:///)[A-Za-z][A-Za-z0-9+.-]*://\S", re.IGNORECASE)
is_unserved = re.compile(
    r"(?!https?://[a-z]+\.[a-z][!-~]*\Z)"  # most URLs, in less time
    r"[Hh][Tt][Tt][Pp][Ss]?://(?:[0-9.]+(?:[:/?#]|\Z)"
    r"|(?![^./?#\[ \t\r\n]+\.[^/?#: \t\r\n][!-\U0010ffff]*\Z))"
).match
"""Match an HTTP URL whose host is an IP address or has no dot, or which contains a blank.

Connectors serve the URLs of other schemes, such as googleconnector.
"""

_RANKS = {"pagerank": PAGERANKS, "feedrank": FEEDRANKS}


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


def doubtful_url(record: Record) -> str | None:
    """Return why no appliance can serve the URL; None for a deletion, which needs no document."""
    if record.action in DELETIONS or not is_unserved(record.url):
        return None
    return f"url={record.url!r}; expected a host name with a dot, not an IP address, and no blank"


def doubtful_extra(record: Record, extra: Extra) -> DoubtfulValue | None:
    """Return the value of an extra that states an attribute which no reader understands."""
    stated = _stated_values(tuple(format_.values for format_ in FORMATS)).get(extra.place)
    if stated is None or ("@" not in extra.place and getattr(record, stated.field) is not None):
        return None  # an element, unlike an attribute, may occur twice
    return DoubtfulValue(stated.loss, extra.place, repr(extra.value), stated.expected)


@lru_cache(maxsize=4)
def _stated_values(
    of_formats: tuple[Callable[[], Mapping[str, StatedValue]], ...],
) -> dict[str, StatedValue]:
    """Return the values of a known form of all formats, by the places of extras."""
    return {place: value for of_format in of_formats for place, value in of_format().items()}


def range_text(allowed: range) -> str:
    """Return what is expected of a rank."""
    return f"an integer from {allowed[0]} to {allowed[-1]}"


def doubtful_ranks(record: Record) -> Iterator[DoubtfulValue]:
    """Yield the ranks that are out of range."""
    if record.crawl is None:
        return
    for name, allowed in _RANKS.items():
        rank = getattr(record.crawl, name)
        if rank is not None and rank not in allowed:
            yield DoubtfulValue(name, name, str(rank), range_text(allowed))


def notices(record: Record, outcomes: Iterable[object] | None = None) -> Iterator[Notice]:
    """Yield a notice for each doubtful value of a normalized record.

    The code of a value ends in `-value`, as in `pagerank-value`. `outcomes` are those of the
    record: a notice states whether the value is written. Without them, nothing is written.
    """
    written = [outcome for outcome in outcomes or () if isinstance(outcome, Record)]
    kept = {value for outcome in written for value in _doubtful_values(outcome)}
    for value in _doubtful_values(record):
        result = "kept as it is" if value in kept else "not written"
        detail = value.detail if outcomes is None else f"{value.detail}; {result}"
        yield _notice(record, f"{value.loss}-value", detail)
    if (doubt := doubtful_url(record)) is not None:
        yield _notice(record, "url-doubtful", f"{doubt}: ⟦urls strict⟧ rejects such URLs")
    acl = record.acl
    if acl and acl.permits_nobody and not acl.is_waiting and record.action not in DELETIONS:
        detail = f"{record.url!r}: an ACL that permits no user; no user finds what it protects"
        yield _notice(record, "acl-permits-nobody", detail)
    for extra in record.extras:
        if extra.place == "record/acl/@url":
            detail = f"{extra.place}={extra.value!r}; the ACL is that of the record, {record.url!r}"
            yield _notice(record, "acl-url", detail)


def _doubtful_values(record: Record) -> Iterator[DoubtfulValue]:
    yield from doubtful_ranks(record)
    extras = (doubtful_extra(record, extra) for extra in record.extras)
    yield from (value for value in extras if value is not None)


def _notice(record: Record, code: str, detail: str) -> Notice:
    at = record.provenance
    return Notice(
        code=code, detail=in_flags(detail), source=at.source, span=at.span, offset=at.offset
    )
