"""What the 5.0 dialect of gsafeeds cannot say.

**Spec:** Feeds Protocol Developer's Guide 5.0, "Google Search Appliance Feed DTD"; for the ACL in
metadata 7.x, "Legacy Metadata Format (Deprecated)".
"""

from collections.abc import Iterator

import pybase64
from msgspec.structs import replace

from schemas.acl import Access, Acl, Principal
from schemas.content import decode
from schemas.record import Authmethod, Content, Encoding, Meta
from transforms.adapt._draft import Draft, lose_acl, lose_extras, lose_fields, lose_hints
from transforms.adapt.target import Target
from transforms.formats._legacy_acl import metadata_of
from transforms.formats._xml import holds

_UNHELD_HINTS = ("crawl_immediately", "crawl_once", "feedrank", "scoring")
_HELD_PLACES = ("record/", "group/")
_DEFAULT_NAMESPACES = (None, "Default")


def lose_unheld(draft: Draft, _target: Target) -> None:
    lose_hints(draft, _UNHELD_HINTS)
    crawl = draft.record.crawl
    if crawl is not None and crawl.authmethod is Authmethod.NEGOTIATE:
        lose_hints(draft, ("authmethod",))
    lose_fields(draft, ("overwrite_acls",))
    lose_extras(draft, _HELD_PLACES)


def acl_as_metadata(draft: Draft, target: Target) -> None:
    """Spell the ACL as google:acl* metadata, after the record's own."""
    acl = draft.record.acl
    if acl is None:
        return
    if target.datasource == "web" or not (acl.principals or acl.inherit_from or acl.inheritance):
        lose_acl(draft)
        return
    for detail in _unsayable(acl):
        draft.lose("acl", detail)
    sayable = replace(acl, principals=tuple(filter(_is_sayable, acl.principals)))
    draft.change(acl=None, metadata=draft.record.metadata + metadata_of(sayable))


def unzip_content(draft: Draft, target: Target) -> None:
    content = draft.record.content
    if content is not None and content.encoding is Encoding.ZLIB_BASE64:
        document = decode(content, max_bytes=target.max_content_bytes)
        draft.change(content=Content(pybase64.b64encode(document), Encoding.BASE64))


def lose_binary_metadata(draft: Draft, _target: Target) -> None:
    """Drop the pairs that would need base64, which the dialect has not."""
    metadata = draft.record.metadata
    kept = tuple(meta for meta in metadata if _is_text(meta))
    if len(kept) == len(metadata):
        return
    for meta in metadata:
        if not _is_text(meta):
            draft.lose("metadata", f"{meta.name!r}, that XML cannot hold")
    draft.change(metadata=kept)


FIRST_RULES = (lose_unheld, acl_as_metadata, unzip_content)
LAST_RULES = (lose_binary_metadata,)


def _unsayable(acl: Acl) -> Iterator[str]:
    for principal in acl.principals:
        if principal.namespace not in _DEFAULT_NAMESPACES:
            yield f"namespace {principal.namespace!r} of {principal.name!r}"
        if principal.case_sensitive is False:
            yield f"{principal.name!r} in letters of any case"
        if principal.unqualified:
            yield f"{principal.name!r} being unqualified"


def _is_sayable(principal: Principal) -> bool:
    """A permit would be for whoever has the name in the default namespace. A denial may be."""
    if not principal.name.strip():
        return False
    return principal.namespace in _DEFAULT_NAMESPACES or principal.access is Access.DENY


def _is_text(meta: Meta) -> bool:
    return meta.data is None and holds(meta.name) and holds(meta.value)
