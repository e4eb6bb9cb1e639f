"""The canonical record: one document, or its deletion, in no format's terms.

`record.avsc` is the source of truth; the structs here have the same fields in the same order.
`None` and the empty tuple mean "not stated", never a default.
"""

import enum
from datetime import datetime

import msgspec

from schemas.acl import Acl


class Action(enum.Enum):
    """What becomes of the document at the target."""

    ADD = "ADD"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    DELETE_PATTERN = "DELETE_PATTERN"
    UPDATE_INDEX = "UPDATE_INDEX"


class Arrival(enum.Enum):
    """How the content reaches the appliance: with the record, or fetched by its crawler."""

    PUSHED = "PUSHED"
    CRAWLED = "CRAWLED"


class Encoding(enum.Enum):
    """What the bytes of a content are wrapped in."""

    NONE = "NONE"
    BASE64 = "BASE64"
    ZLIB_BASE64 = "ZLIB_BASE64"


class Authmethod(enum.Enum):
    """How a crawler logs in to fetch the document."""

    NONE = "NONE"
    HTTPBASIC = "HTTPBASIC"
    NTLM = "NTLM"
    HTTPSSO = "HTTPSSO"
    NEGOTIATE = "NEGOTIATE"


class Scoring(enum.Enum):
    """What a document is ranked by."""

    CONTENT = "CONTENT"
    WEB = "WEB"


class Content(msgspec.Struct, gc=False, frozen=True, forbid_unknown_fields=True):
    """The bytes of a document as they came, still in `encoding`; see `schemas.content`."""

    data: bytes
    encoding: Encoding = Encoding.NONE


class Meta(msgspec.Struct, gc=False, frozen=True, forbid_unknown_fields=True):
    """A metadata pair; `data` holds a value that is not text, and `value` is empty then."""

    name: str
    value: str
    data: bytes | None = None


class Field(msgspec.Struct, gc=False, frozen=True, forbid_unknown_fields=True):
    """A field that the target's profile defines; `many` tells a set of one from a single value."""

    name: str
    values: tuple[str, ...]
    many: bool = False
    namespace: str | None = None


class Anchor(msgspec.Struct, gc=False, frozen=True, forbid_unknown_fields=True):
    """A link that points at the document, and its text, if the source states one."""

    uri: str
    text: str | None


class Crawl(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hints for crawling, ranking and showing."""

    lock: bool | None = None
    crawl_immediately: bool | None = None
    crawl_once: bool | None = None
    authmethod: Authmethod | None = None
    pagerank: int | None = None
    feedrank: int | None = None
    scoring: Scoring | None = None
    secure: bool | None = None
    no_index: bool | None = None
    no_follow: bool | None = None
    no_archive: bool | None = None
    display_url: str | None = None
    anchors: tuple[Anchor, ...] = ()


class History(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an appliance remembers of a document."""

    download_seconds: float | None = None
    depth: int | None = None
    views: int | None = None
    clicks: int | None = None
    click_ratio: float | None = None
    popularity: int | None = None
    references: tuple[str, ...] | None = None
    errors: tuple[str, ...] | None = None


class Provenance(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a record was read, and the feed that it came in."""

    source: str = ""
    span: int = 0
    line: int = 0
    offset: int = 0
    datasource: str | None = None
    feedtype: str | None = None


class Extra(msgspec.Struct, gc=False, frozen=True, forbid_unknown_fields=True):
    """Something no field holds: its place (`record/@x`, `Item/rid`) and its text or markup."""

    place: str
    value: str


class Record(msgspec.Struct, gc=False, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One document, its partial update or its deletion."""

    url: str
    action: Action
    arrival: Arrival | None = None
    content: Content | None = None
    mimetype: str | None = None
    charset: str | None = None
    size: int | None = None
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
