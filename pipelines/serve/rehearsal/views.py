"""What a rehearsal appliance shows of what it holds."""

import enum

import msgspec

from schemas.acl import Acl
from schemas.delivery import Door
from schemas.membership import Member
from schemas.record import Action, Arrival, Meta


class Held(enum.Enum):
    """How a document came in; ACL is the ACL of a url that is no document, such as a folder."""

    FEED = "feed"
    DATA = "data"
    ACL = "acl"


class Status(enum.Enum):
    """What became of a delivery, in the words of the appliance's Feeds page.

    SET_ASIDE and WAITING are ours: another attempt may be asked for, or is asked for.
    """

    COMPLETED = "Completed"
    WITH_ERRORS = "Completed with errors"
    FAILED = "Failed in error"
    IN_PROGRESS = "In progress"
    SET_ASIDE = "Set aside"
    WAITING = "Waiting"


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it is held; its content is known by its digest only.

    `datasource` is the one that owns it, or its profile. `bytes` and `sha256` are of the content
    behind its encodings, `None` where it has none. `fields` are texts that stand in no metadata,
    by their names; those of additional fields begin with `u:`. `flags` are hints for crawling
    and ranking. `searchable` data waits for no update of the search indexes. `feed` is the ordinal
    of the delivery that touched it last, `action` what that did.
    """

    url: str
    datasource: str
    kind: Held
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


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """What is held of a datasource, or of a profile.

    `documents` are all but ACLs that stand alone; `crawled` and `unsearchable` are among them.
    `bytes` are those of their contents.
    """

    datasource: str
    kind: Held
    documents: int = 0
    crawled: int = 0
    unsearchable: int = 0
    acls: int = 0
    bytes: int = 0


class Fed(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery as a line of the Feeds page.

    `datasource` may be a groupsource or a profile. `included` counts records, `in_error` those that
    were refused; `details` are the first few reasons. Times are in RFC 3339.
    """

    ordinal: int
    door: Door
    datasource: str
    feedtype: str
    bytes: int
    at: str
    status: Status
    included: int = 0
    in_error: int = 0
    details: tuple[str, ...] = ()
    finished_at: str = ""
    client: str = ""
    user_agent: str = ""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A group as it is held: `count` members, the first of which are in `members`."""

    groupsource: str
    name: str
    namespace: str
    count: int
    members: tuple[Member, ...] = ()
