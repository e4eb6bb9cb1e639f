"""Rules of targets that have texts, ids, and decisions in place of ACLs that inherit."""

import base64
import hashlib

from msgspec.structs import replace

from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Arrival, Content, Record
from feedferry.transforms.content_types.document_text import is_plain_text, is_text, text_of
from feedferry.transforms.formats.fast_path.columns.holes import ContentHole, InspectedError
from feedferry.transforms.formats.holding.acl_metadata import is_acl_name
from feedferry.transforms.formats.holding.adapt_rules import Draft, counted, is_deletion


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


def lose_acl_metadata(draft: Draft) -> None:
    """Count metadata with the name of an ACL as lost: the target would not apply it."""
    for meta in draft.record.metadata:
        if is_acl_name(meta.name):
            draft.lose("acl", f"metadata {meta.name!r}")


def fit_text(
    draft: Draft, content: Content, data: bytes, *, keeps: str = "the step `text` keeps them"
) -> None:
    """Make a content, which is decoded, the body; a document that is no text is lost.

    `keeps` states how the bytes of such a document are kept.
    """
    record: Record = draft.record
    if record.arrival is Arrival.CRAWLED:
        draft.change(arrival=Arrival.PUSHED)
    if record.body is not None:
        draft.change(content=None)  # the body is its text
    elif isinstance(content.data, ContentHole) and is_text(record.mimetype, data):
        draft.change(content=None, body=_text_of_hole(record, data))
    elif is_text(record.mimetype, data):
        text = text_of(data, mimetype=record.mimetype, charset=record.charset)
        title = record.title if record.title is not None else text.title
        draft.change(content=None, body=text.body, title=title)
        if text.unreadable:
            draft.lose("charset", f"{counted(text.unreadable, 'byte')} that are no {text.charset}")
    else:
        mimetype = record.mimetype or "no type"
        stated = f"{counted(len(data), 'byte')} of {mimetype}, which are no text; {keeps}"
        draft.lose("content", stated)
        draft.change(content=None)


def _text_of_hole(record: Record, data: bytes) -> str:
    """Return the text of a hole; the columns of the writer have no texts of another charset."""
    if not is_plain_text(record.mimetype):
        raise InspectedError
    return data.decode()


def hashed_id(url: str) -> str:
    """Return an id of letters and digits for a URL, which any target takes.

    It conforms to RFC 1034, as a label of 53 letters and digits.

    >>> hashed_id("http://example.com/")
    'ufinuajba55dfo5drzxdubgypuldkebg3gfxftlpc3acugvejubtq'
    """
    digest = hashlib.sha256(url.encode("utf-8", "surrogatepass")).digest()
    return "u" + base64.b32encode(digest).decode().rstrip("=").lower()
