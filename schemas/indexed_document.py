"""The documents that a rehearsal appliance has, as `GET /documents` lists them."""

import enum

import msgspec

from feedferry.schemas.acl import Acl
from feedferry.schemas.record import Arrival, Meta


class DocumentOrigin(enum.Enum):
    """How a document arrived; ACL is the ACL of a URL without a document, such as a folder."""

    FEED = "feed"
    DATA = "data"
    ACL = "acl"


class IndexedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document of the index; its content is known by its digest only.

    `datasource` is the owner: a datasource or a profile. `bytes` and `sha256` are those of the
    decoded content, `None` if there is none. `fields` are texts that are not metadata and hints for
    crawling and ranking, by name; the names of additional fields begin with `u:`. `searchable` is
    false for data that waits for an update of the search indexes. `feed` is the ordinal of the
    delivery that changed the document last.
    """

    url: str
    datasource: str
    kind: DocumentOrigin
    arrival: Arrival | None = None
    mimetype: str | None = None
    bytes: int | None = None
    sha256: str | None = None
    metadata: tuple[Meta, ...] = ()
    acl: Acl | None = None
    fields: dict[str, bool | int | str | list[str]] = {}
    searchable: bool = True
    feed: int = 0
