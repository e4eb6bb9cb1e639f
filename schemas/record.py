"""The canonical record: a document, its update or its deletion, independent of formats.

`record.avsc` is the source of truth; the structs here have the same fields in the same order.
`None` and the empty tuple mean "not stated", never a default.
"""

import enum
from datetime import datetime
from typing import Annotated, TypeVar

import msgspec

from feedferry.schemas.acl import Acl
from feedferry.schemas.patterns import is_wide

Int = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Long = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""The integers of the schema, which are checked when a record is decoded."""


class Action(enum.Enum):
    """The change of the document at the target."""

    ADD = "ADD"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    DELETE_PATTERN = "DELETE_PATTERN"
    UPDATE_INDEX = "UPDATE_INDEX"


DELETIONS = (Action.DELETE, Action.DELETE_PATTERN)
"""A tuple, as a set would call the hash function of the enum for each record."""


class Arrival(enum.Enum):
    """The way of the content to the appliance: with the record, or by the crawler."""

    PUSHED = "PUSHED"
    CRAWLED = "CRAWLED"


class Encoding(enum.Enum):
    """The encoding of the bytes of a content."""

    NONE = "NONE"
    BASE64 = "BASE64"
    ZLIB_BASE64 = "ZLIB_BASE64"


class Authmethod(enum.Enum):
    """The authentication method of the crawler for the document."""

    NONE = "NONE"
    HTTPBASIC = "HTTPBASIC"
    NTLM = "NTLM"
    HTTPSSO = "HTTPSSO"
    NEGOTIATE = "NEGOTIATE"


class Scoring(enum.Enum):
    """The basis of the ranking of a document."""

    CONTENT = "CONTENT"
    WEB = "WEB"


class Content(msgspec.Struct, gc=False, frozen=True, forbid_unknown_fields=True):
    """The bytes of a document in `encoding`, as they were read; see `schemas.content`."""

    data: bytes
    encoding: Encoding = Encoding.NONE


class Meta(msgspec.Struct, gc=False, frozen=True, forbid_unknown_fields=True):
    """A metadata pair; a value that is not text is in `data`, and `value` is empty."""

    name: str
    value: str
    data: bytes | None = None


class Field(msgspec.Struct, gc=False, frozen=True, forbid_unknown_fields=True):
    """A field of the profile of the target; `many` marks a set, also a set of one value."""

    name: str
    values: tuple[str, ...]
    many: bool = False
    namespace: str | None = None


class Anchor(msgspec.Struct, gc=False, frozen=True, forbid_unknown_fields=True):
    """A link to the document, with its text if the source states one."""

    uri: str
    text: str | None


PAGERANKS, FEEDRANKS = range(68, 101), range(1, 101)
"""The ranks that an appliance accepts; a record may have others."""


class Crawl(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hints for crawling, ranking and display."""

    lock: bool | None = None
    crawl_immediately: bool | None = None
    crawl_once: bool | None = None
    authmethod: Authmethod | None = None
    pagerank: Int | None = None
    feedrank: Int | None = None
    scoring: Scoring | None = None
    secure: bool | None = None
    no_index: bool | None = None
    no_follow: bool | None = None
    no_archive: bool | None = None
    display_url: str | None = None
    anchors: tuple[Anchor, ...] = ()


class History(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Statistics of an appliance about a document."""

    download_seconds: float | None = None
    depth: Long | None = None
    views: Long | None = None
    clicks: Long | None = None
    click_ratio: float | None = None
    popularity: Long | None = None
    references: tuple[str, ...] | None = None
    errors: tuple[str, ...] | None = None


class Provenance(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The place where a record was read, and its feed."""

    source: str = ""
    span: Int = 0
    line: Long = 0
    offset: Long = 0
    datasource: str | None = None
    feedtype: str | None = None


class Extra(msgspec.Struct, gc=False, frozen=True, forbid_unknown_fields=True):
    """Input that no field holds: its place (`record/@x`, `Item/rid`) and its text or markup."""

    place: str
    value: str


class Record(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document, its partial update or its deletion."""

    url: str
    action: Action
    arrival: Arrival | None = None
    content: Content | None = None
    mimetype: str | None = None
    charset: str | None = None
    size: Long | None = None
    title: str | None = None
    description: str | None = None
    keywords: str | None = None
    body: str | None = None
    categories: tuple[str, ...] = ()
    metadata: tuple[Meta, ...] = ()
    fields: tuple[Field, ...] = ()
    modified: datetime | None = None
    visited: datetime | None = None
    next_check: datetime | None = None
    acl: Acl | None = None
    overwrite_acls: bool | None = None
    crawl: Crawl | None = None
    history: History | None = None
    extras: tuple[Extra, ...] = ()
    provenance: Provenance = Provenance()

    @property
    def is_wide_deletion(self) -> bool:
        return self.action is Action.DELETE_PATTERN and is_wide(self.url)


def withheld(url: str, provenance: Provenance, *, until_acl: bool) -> Record:
    """Return the record that shows a document to no user until its next version comes.

    With `until_acl`, an ACL alone shows it again.
    """
    acl = Acl(alone=True, withholds=not until_acl)
    return Record(url=url, action=Action.UPDATE, acl=acl, provenance=provenance)


_Stated = TypeVar("_Stated", Record, Crawl)


def overlaid(below: _Stated, above: _Stated) -> _Stated:
    """Return a record with the stated fields of another one in place of its own; hints singly."""
    stated = {
        name: value
        for name in above.__struct_fields__
        if (value := getattr(above, name)) not in (None, ())
    }
    hints: Crawl | None = getattr(below, "crawl", None)
    if hints is not None and "crawl" in stated:
        stated["crawl"] = overlaid(hints, stated["crawl"])
    return msgspec.structs.replace(below, **stated)
