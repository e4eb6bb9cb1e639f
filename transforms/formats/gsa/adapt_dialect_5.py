"""Adapt records to the 5.0 dialect of gsafeeds, which has fewer elements and attributes.

**Spec:** Feeds Protocol Developer's Guide 5.0, "Google Search Appliance Feed DTD"; for the ACL in
metadata 7.x, "Legacy Metadata Format (Deprecated)".
"""

from collections.abc import Iterator

import pybase64
from msgspec.structs import replace

from schemas.acl import Access, Acl, Principal, Scope
from schemas.content import decode
from schemas.record import Authmethod, Content, Encoding, Meta
from transforms.formats.adapt_rules import (
    Draft,
    RuleOf,
    field_of,
    lose_acl,
    lose_extras,
    lose_fields,
    lose_hints,
)
from transforms.formats.gsa.legacy_acl import is_acl_name, metadata_of
from transforms.formats.target import Target
from transforms.formats.xml.serializer import holds

_UNHELD_HINTS = ("crawl_immediately", "crawl_once", "feedrank", "scoring")
_HELD_PLACES = ("record/", "group/")
_DEFAULT_NAMESPACES = (None, "Default")
_BLANKS = " \t\r\n"
NOBODY = Principal(name="google:fakeUserToPreventMissingAcl", scope=Scope.USER, access=Access.DENY)
"""The principal of an ACL without others: an appliance takes an ACL without principals for none.

The adaptor library sends the same one.
"""


def lose_unheld(draft: Draft, _target: Target) -> None:
    lose_hints(draft, _UNHELD_HINTS)
    crawl = draft.record.crawl
    if crawl is not None and crawl.authmethod is Authmethod.NEGOTIATE:
        draft.lose("acl", "the authmethod NEGOTIATE")  # also with an ACL: 5.0 may ignore it
        lose_hints(draft, ("authmethod",))
    lose_fields(draft, ("overwrite_acls",))
    lose_extras(draft, _HELD_PLACES)


def acl_as_metadata(draft: Draft, target: Target) -> None:
    """Write the ACL as google:acl* metadata, after the record's own.

    If no part of the ACL can be written, the document is closed to everyone.
    """
    acl = draft.record.acl
    if acl is None:
        return
    if target.datasource == "web":
        lose_acl(draft)
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
            draft.lose("acl", f"metadata {meta.name!r} beside an ACL")
        else:
            others.append(meta)
    draft.change(acl=None, metadata=(*others, *metadata_of(held)))


def unzip_content(draft: Draft, target: Target) -> None:
    content = draft.record.content
    if content is not None and content.encoding is Encoding.ZLIB_BASE64:
        document = decode(content, max_bytes=target.max_content_bytes)
        draft.change(content=Content(pybase64.b64encode(document), Encoding.BASE64))


def lose_binary_metadata(draft: Draft, _target: Target) -> None:
    """Drop the pairs that need base64, which the dialect does not have."""
    metadata = draft.record.metadata
    kept = tuple(meta for meta in metadata if _is_text(meta))
    if len(kept) == len(metadata):
        return
    for meta in metadata:
        if not _is_text(meta):
            draft.lose(field_of(meta), f"{meta.name!r}, that XML cannot hold")
    draft.change(metadata=kept)


FIRST_RULES = (
    RuleOf(lose_unheld, fields=("crawl", "overwrite_acls", "extras")),
    RuleOf(acl_as_metadata, fields=("acl",)),
    RuleOf(unzip_content),
)
LAST_RULES = (RuleOf(lose_binary_metadata),)


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
    if not principal.name.strip(_BLANKS) or not holds(principal.name):
        return False
    return principal.namespace in _DEFAULT_NAMESPACES or principal.access is Access.DENY


def _has_holdable_parent(acl: Acl) -> bool:
    return acl.inherit_from is None or holds(acl.inherit_from)


def _is_text(meta: Meta) -> bool:
    return meta.data is None and holds(meta.name) and holds(meta.value)
