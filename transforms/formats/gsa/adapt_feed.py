"""Adapt records to gsafeeds: content feeds, web feeds and metadata-and-url feeds.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Defining the XML Record for a Document",
"Choosing the Feed Type", "Adding Metadata Information to a Record". For the 5.0 dialect, which has
fewer elements and attributes: guide 5.0, "Google Search Appliance Feed DTD"; guide 7.x, "Legacy
Metadata Format (Deprecated)".
"""

from collections.abc import Iterator
from functools import partial
from urllib.parse import unquote, urlsplit

import pybase64
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.choices import DIALECT_5_0
from feedferry.schemas.content import decode
from feedferry.schemas.errors import RecordError
from feedferry.schemas.feed import is_web
from feedferry.schemas.record import (
    FEEDRANKS,
    PAGERANKS,
    Action,
    Arrival,
    Authmethod,
    Content,
    Crawl,
    Encoding,
    Meta,
    Record,
)
from feedferry.transforms.content_types import charset
from feedferry.transforms.content_types.mimetype_table import is_archive_type, type_of_name
from feedferry.transforms.formats.base import Adapter, Target
from feedferry.transforms.formats.gsa.gsa_formats import NO_MIMETYPE, FeedOptions, held_by
from feedferry.transforms.formats.holding.acl_metadata import (
    BLANKS,
    is_acl_name,
    join_parent,
    metadata_of,
    split_parent,
)
from feedferry.transforms.formats.holding.adapt_rules import (
    Draft,
    field_of,
    fit_metadata,
    is_deletion,
    lose_doubtful_values,
    lose_hints,
)
from feedferry.transforms.formats.holding.hold import hold
from feedferry.transforms.formats.text.xml_text import holds

IGNORED_MIMETYPE = "text/plain"
"""The DTD requires a mimetype where the appliance ignores it; deployed connectors write this."""

NOBODY = Principal(name="google:fakeUserToPreventMissingAcl", scope=Scope.USER, access=Access.DENY)
"""The principal of an ACL without others: an appliance takes an ACL without principals for none.

The adaptor library sends the same one.
"""

_DEFAULT_NAMESPACES = (None, "Default")
_UTF_8 = ("utf-8", "utf8")
# A look-up in the enum costs ten times as much.
_ADD, _UPDATE, _DELETE = Action.ADD, Action.UPDATE, Action.DELETE
_PUSHED, _CRAWLED = Arrival.PUSHED, Arrival.CRAWLED
_ZLIB_BASE64 = Encoding.ZLIB_BASE64


def adapter(target: Target) -> Adapter:
    """Return the function that adapts records to a feed of the target's feedtype and dialect."""
    is_url_feed = is_web(target.datasource, target.feedtype)
    own = target.of(FeedOptions)

    # Most records need no rule, and a call costs as much as five comparisons.
    def fit(draft: Draft) -> None:
        record = draft.record
        if record.acl is not None and _is_acl_unfit(record.acl):
            _fit_acl(draft, record.acl)
        if record.extras or (record.crawl is not None and _are_ranks_unfit(record.crawl)):
            lose_doubtful_values(draft)
        if record.acl is None or not record.acl.alone:
            _fit_document(draft, target, own, is_url_feed=is_url_feed)

    return hold(held_by(target), target, fit=fit)


def _fit_document(draft: Draft, target: Target, own: FeedOptions, *, is_url_feed: bool) -> None:
    record = draft.record
    if is_url_feed:
        _crawl(draft)
    elif record.arrival is not _PUSHED and record.action is not _DELETE:
        draft.change(arrival=_PUSHED)
    if record.charset is not None:
        _drop_charset(draft)
    if own.dialect == DIALECT_5_0:
        _fit_for_5_0(draft, target)
    if _has_empty_value(draft.record.metadata):
        fit_metadata(draft, partial(_fill, own=own))
    if own.dialect == DIALECT_5_0:
        fit_metadata(draft, _keep_text)
    record = draft.record
    if record.mimetype is None:
        draft.record = replace(record, mimetype=_mimetype_of(record, target))


def _is_acl_unfit(acl: Acl) -> bool:
    parent = acl.inherit_from
    return (
        acl.inherit_fragment is not None
        or not (acl.principals or parent)
        or (parent is not None and "?" in parent)
    )


def _fit_acl(draft: Draft, acl: Acl) -> None:
    """State the parent as the reader does: a URL, or a URL and a fragment.

    An ACL without principals and parent gets a denial: an appliance would take it for no ACL.
    """
    principals, parent = acl.principals, join_parent(acl.inherit_from, acl.inherit_fragment)
    if not (principals or acl.inherit_from or is_deletion(draft.record)):
        principals = (NOBODY,)
    if parent is None and acl.inherit_fragment is not None:
        where = "" if acl.inherit_from is None else f", {acl.inherit_from!r}, which has one already"
        draft.lose("acl", f"fragment {acl.inherit_fragment!r} of what it inherits from{where}")
        parent = acl.inherit_from
    url, fragment = (None, None) if parent is None else split_parent(parent)
    fitted = replace(acl, principals=principals, inherit_from=url, inherit_fragment=fragment)
    draft.change(acl=fitted)


def _are_ranks_unfit(crawl: Crawl) -> bool:
    return (crawl.pagerank is not None and crawl.pagerank not in PAGERANKS) or (
        crawl.feedrank is not None and crawl.feedrank not in FEEDRANKS
    )


def _drop_charset(draft: Draft) -> None:
    """Drop the charset of content that is UTF-8 or states its charset itself; else it is a loss."""
    record = draft.record
    stated = record.charset
    if stated is None:
        return
    content = record.content
    if content is None or not (
        stated.lower() in _UTF_8
        or (
            content.encoding is Encoding.NONE
            and charset.declares_charset(content.data, mimetype=record.mimetype or "")
        )
    ):
        draft.lose("charset", repr(stated))
    draft.record = replace(record, charset=None)


def _crawl(draft: Draft) -> None:
    """The appliance fetches the document. The metadata of an update replaces all others."""
    record = draft.record
    if record.action is _UPDATE or (record.action is _ADD and record.arrival is not _CRAWLED):
        draft.change(action=_ADD, arrival=_CRAWLED)


def _has_empty_value(metadata: tuple[Meta, ...]) -> bool:
    for meta in metadata:  # noqa: SIM110 - a generator costs as much as all other checks
        if not (meta.name and (meta.value or meta.data)):
            return True
    return False


def _fill(draft: Draft, meta: Meta, *, own: FeedOptions) -> Meta | None:
    """Drop or fill empty values: an appliance refuses the whole record ("Misplaced metadata")."""
    if not meta.name:
        draft.lose("metadata", "a value without a name")
        return None
    if meta.value or meta.data:
        return meta
    if own.empty_metadata == "placeholder":
        draft.lose(field_of(meta), f"empty value of {meta.name!r} replaced")
        return Meta(meta.name, own.placeholder)
    draft.lose(field_of(meta), f"empty value of {meta.name!r}")
    return None


def _mimetype_of(record: Record, target: Target) -> str:
    if record.content is None or is_deletion(record):
        return IGNORED_MIMETYPE
    mimetype = _guess(record.url) or target.default_mimetype
    if mimetype is None:
        raise RecordError(*NO_MIMETYPE)
    return mimetype


def _guess(url: str) -> str | None:
    """Return the mimetype of the url's extension, None for an extension of a compression."""
    try:
        path = urlsplit(url).path
    except ValueError:  # brackets without an address
        return None
    mimetype = type_of_name(unquote(path.rpartition("/")[2]))
    return None if is_archive_type(mimetype) else mimetype


# The 5.0 dialect


def _fit_for_5_0(draft: Draft, target: Target) -> None:
    crawl = draft.record.crawl
    if crawl is not None and crawl.authmethod is Authmethod.NEGOTIATE:
        draft.lose("acl", "the authmethod NEGOTIATE")  # also with an ACL: 5.0 may ignore it
        lose_hints(draft, ("authmethod",))
    _acl_as_metadata(draft)
    content = draft.record.content
    if content is not None and content.encoding is _ZLIB_BASE64:
        document = decode(content, max_bytes=target.max_content_bytes)
        draft.change(content=Content(pybase64.b64encode(document), Encoding.BASE64))


def _acl_as_metadata(draft: Draft) -> None:
    """Write the ACL as google:acl* metadata, after the record's own.

    If no part of the ACL can be written, the document is closed to everyone.
    """
    acl = draft.record.acl
    if acl is None:
        return
    for detail in _unholdable(acl):
        draft.lose("acl", detail)
    principals = tuple(filter(_is_holdable, acl.principals))
    parent = acl.inherit_from if _has_holdable_parent(acl) else None
    fragment = None if parent is None else acl.inherit_fragment
    held = replace(
        acl,
        principals=principals if principals or parent else (NOBODY,),
        inherit_from=parent,
        inherit_fragment=fragment,
    )
    others = []
    for meta in draft.record.metadata:
        if is_acl_name(meta.name):  # a second ACL: with it, the first would permit more
            draft.lose("acl", f"metadata {meta.name!r} next to an ACL")
        else:
            others.append(meta)
    draft.change(acl=None, metadata=(*others, *metadata_of(held)))


def _keep_text(draft: Draft, meta: Meta) -> Meta | None:
    """Drop the pairs that need base64, which the dialect does not have."""
    if meta.data is None and holds(meta.name) and holds(meta.value):
        return meta
    draft.lose(field_of(meta), f"{meta.name!r}, that XML cannot hold")
    return None


def _unholdable(acl: Acl) -> Iterator[str]:
    for principal in acl.principals:
        if principal.namespace not in _DEFAULT_NAMESPACES:
            yield f"namespace {principal.namespace!r} of {principal.name!r}"
        if principal.case_sensitive is False:
            yield f"{principal.name!r} in letters of any case"
        if principal.unqualified:
            yield f"{principal.name!r} being unqualified"
        if not holds(principal.name):
            yield f"{principal.name!r}, that XML cannot hold"
    if not _has_holdable_parent(acl):
        yield f"what it inherits from, {acl.inherit_from!r}, that XML cannot hold"


def _is_holdable(principal: Principal) -> bool:
    """Whether a principal may lose its namespace: a denial may, a permit must not."""
    if not principal.name.strip(BLANKS) or not holds(principal.name):
        return False
    return principal.namespace in _DEFAULT_NAMESPACES or principal.access is Access.DENY


def _has_holdable_parent(acl: Acl) -> bool:
    return acl.inherit_from is None or holds(acl.inherit_from)
