"""The reports of a rehearsal appliance: documents, totals, and the rows of its Feeds page."""

import enum

import msgspec

from schemas.acl import Acl
from schemas.delivery import Door
from schemas.record import Action, Arrival, Meta


class DocumentOrigin(enum.Enum):
    """How a document arrived; ACL is the ACL of a URL without a document, such as a folder."""

    FEED = "feed"
    DATA = "data"
    ACL = "acl"


class DeliveryStatus(enum.Enum):
    """The state of a delivery, in the words of the appliance's Feeds page.

    SET_ASIDE and WAITING are ours: a retry may be requested, or has been requested.
    """

    COMPLETED = "Completed"
    WITH_ERRORS = "Completed with errors"
    FAILED = "Failed in error"
    IN_PROGRESS = "In progress"
    SET_ASIDE = "Set aside"
    WAITING = "Waiting"


class IndexedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document of the index; its content is known by its digest only.

    `datasource` is the owner: a datasource or a profile. `bytes` and `sha256` are those of the
    decoded content, `None` if there is none. `fields` are texts that are not metadata, by name;
    the names of additional fields begin with `u:`. `flags` are hints for crawling and ranking.
    `searchable` is false for data that waits for an update of the search indexes. `feed` is the
    ordinal of the delivery that changed the document last, `action` the action of that change.
    """

    url: str
    datasource: str
    kind: DocumentOrigin
    action: Action
    arrival: Arrival | None = None
    mimetype: str | None = None
    display_url: str | None = None
    bytes: int | None = None
    sha256: str | None = None
    metadata: tuple[Meta, ...] = ()
    acl: Acl | None = None
    fields: dict[str, str | list[str]] = {}
    flags: dict[str, bool | int | str] = {}
    searchable: bool = True
    feed: int = 0


class DatasourceTotal(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the documents of a datasource, or of a profile.

    `documents` does not count URLs with only an ACL; it includes `crawled` and `unsearchable`.
    `bytes` is the size of all contents.
    """

    datasource: str
    kind: DocumentOrigin
    documents: int = 0
    crawled: int = 0
    unsearchable: int = 0
    acls: int = 0
    bytes: int = 0


class FeedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery as a row of the Feeds page.

    `datasource` may be a groupsource or a profile. `included` counts records, `in_error` refused
    records; `details` are the first reasons. Times are in RFC 3339.
    """

    ordinal: int
    door: Door
    datasource: str
    feedtype: str
    bytes: int
    at: str
    status: DeliveryStatus
    included: int = 0
    in_error: int = 0
    details: tuple[str, ...] = ()
    finished_at: str = ""
    client: str = ""
    user_agent: str = ""


def json_columns(view: type[msgspec.Struct], **expressions: str) -> str:
    """Return the SQL expression for a view as JSON: a column for each field, or an expression.

    >>> json_columns(DatasourceTotal, kind="'feed'")[:52]
    "json_object('datasource', datasource, 'kind', 'feed'"
    """
    pairs = (f"'{name}', {expressions.get(name, name)}" for name in view.__struct_fields__)
    return f"json_object({', '.join(pairs)})"
