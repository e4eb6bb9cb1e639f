"""Rules of targets that hold the decision of an ACL and all above it in place of the ACL."""

import base64
import hashlib

from msgspec.structs import replace

from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Record
from feedferry.transforms.formats.holding.adapt_rules import Draft, is_deletion


def refuse_undecided(record: Record) -> None:
    """Raise RecordError for an ACL that inherits and has no decision."""
    acl = record.acl
    if acl is not None and acl.inherits and not acl.decision and not is_deletion(record):
        raise RecordError(
            "acl-inherits",
            f"an ACL that inherits from {acl.inherit_from!r}; expected the decision of its chain:"
            " the step `acl: decision` resolves it",
        )


def close_secure(draft: Draft) -> None:
    """Show a document that is secure and has no ACL to no user."""
    crawl = draft.record.crawl
    if crawl is not None and crawl.secure and draft.record.acl is None:
        draft.lose("secure", "without an ACL: the document is shown to no user")
        draft.change(acl=Acl(), crawl=replace(crawl, secure=None))


def hashed_id(url: str) -> str:
    """Return an id of letters and digits for a URL, which any target takes.

    It conforms to RFC 1034, as a label of 53 letters and digits.

    >>> hashed_id("http://example.com/")
    'ufinuajba55dfo5drzxdubgypuldkebg3gfxftlpc3acugvejubtq'
    """
    digest = hashlib.sha256(url.encode("utf-8", "surrogatepass")).digest()
    return "u" + base64.b32encode(digest).decode().rstrip("=").lower()
