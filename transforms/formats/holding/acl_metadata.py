"""An ACL in metadata, and the parent of an ACL.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Legacy Metadata Format (Deprecated)"; GSA adaptor
library, GsaFeedFileMaker and DocumentHandler, for fragments.

**Metadata** `google:acl*` keep their order. Values that cannot be understood stay metadata: bytes,
an inheritance type that the guide does not have, an empty or second inherit-from. Names may be in
any case, with blanks. A role suffix (`joe=writer`) and a permitted `=peeker` are dropped, as the
guide says. The deployed connector manager also drops a denied `=writer` and `=owner`. We differ and
keep every denial, a `=peeker` too: without it, a denied user may see the document.

**The parent**: an appliance strips fragments from URLs, so the adaptor library writes the fragment
of a named resource as the query of its URL.
"""

import re
from functools import cache, lru_cache
from urllib.parse import quote, unquote

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.record import Meta
from feedferry.transforms.formats.text.java_uri import OTHER, PATH
from feedferry.transforms.formats.xml.rows import names_of

_KINDS = names_of(Inheritance)
INHERITANCE = _KINDS._replace(expected=f"one of {', '.join(_KINDS.names)}")

BLANKS = " \t\r\n"
"""The white space of XML; Python's has more characters."""

INHERIT_FROM = "google:aclinheritfrom"
INHERITANCE_TYPE = "google:aclinheritancetype"
_PREFIX = "google:acl"
_LISTS = {
    "google:aclusers": (Scope.USER, Access.PERMIT),
    "google:aclgroups": (Scope.GROUP, Access.PERMIT),
    "google:acldenyusers": (Scope.USER, Access.DENY),
    "google:acldenygroups": (Scope.GROUP, Access.DENY),
}
_LIST_NAMES = {list_: name for name, list_ in _LISTS.items()}
_PEEKER = "=peeker"
_ROLES = ("=owner", "=writer", "=reader", _PEEKER)
_MOST_NAMES = 1024
_other_names: set[str] = set()
"""A cache of names that are not of an ACL; a set is three times as fast as `is_acl_name`."""

_OF_A_QUERY = re.compile("[=&?#]")


def join_parent(url: str | None, fragment: str | None) -> str | None:
    """Return the URL that an ACL inherits from, with its fragment; None if the URL has a query.

    The library replaces a query that the URL already has, which names another resource.

    >>> join_parent("http://adaptor.example.com/doc/share/", "allFoldersAcl")
    'http://adaptor.example.com/doc/share/?allFoldersAcl'
    """
    if fragment is None:
        return url
    if url is None or "?" in url or "#" in url:
        return None
    return f"{url}?{_quoted().sub(lambda match: _escape(match[0]), fragment)}"


def parent_of(acl: Acl) -> str | None:
    """Return the URL that an ACL inherits from as an appliance knows it; None without a parent.

    A fragment of a URL with a query, which `join_parent` cannot add, follows it as it is.
    """
    url, fragment = acl.inherit_from and acl.inherit_from.strip(), acl.inherit_fragment
    return url and (join_parent(url, fragment) or f"{url}?{fragment}")


@cache
def _quoted() -> re.Pattern[str]:
    """Compile the pattern at its first use: that takes as long as the import of a codec."""
    return re.compile(rf"[^?\[\]{PATH}{OTHER}]")


@lru_cache(maxsize=4096)
def split_parent(text: str) -> tuple[str, str | None]:
    """Return the URL and the fragment of an ACL's parent; `join_parent` joins them again.

    A query without `=` and `&` is a fragment. Any other query is part of the URL.

    >>> split_parent("http://connector.example.com/doc?docid=folder")
    ('http://connector.example.com/doc?docid=folder', None)
    """
    url, mark, query = text.partition("?")
    if not mark or not url or "#" in url or _OF_A_QUERY.search(query):
        return text, None
    try:
        fragment = unquote(query, errors="strict")
    except UnicodeDecodeError:
        return text, None
    return (url, fragment) if join_parent(url, fragment) == text else (text, None)


@cache
def _escape(char: str) -> str:
    """Percent-encode a character; there are about a hundred of them, so the cache stays small."""
    return quote(char, safe="")


def acl_of(metadata: tuple[Meta, ...]) -> tuple[Acl | None, tuple[Meta, ...]]:
    """Return the ACL that metadata states, None if it states none, and the other metadata.

    An ACL whose entries are all ignored has no principals: it permits no user.
    """
    for meta in metadata:
        if meta.name not in _other_names and is_acl_name(meta.name):
            return _split_metadata(metadata)
    return None, metadata


def is_acl_name(name: str) -> bool:
    """Whether an appliance may read metadata of this name as a part of an ACL."""
    if _fold(name).startswith(_PREFIX):
        return True
    if len(_other_names) < _MOST_NAMES:
        _other_names.add(name)
    return False


def metadata_of(acl: Acl) -> tuple[Meta, ...]:
    """Return metadata with the principals and the inheritance of an ACL.

    It has no place for namespaces, case sensitivity, unqualified names, or the fragment of a URL
    with a query. A name that ends like a role gets one more, so that the reader cuts that one.
    """
    metas = []
    for principal in acl.principals:
        name = principal.name
        value = f"{name}=reader" if name.rstrip().endswith(_ROLES) else name
        metas.append(Meta(_LIST_NAMES[principal.scope, principal.access], value))
    parent = join_parent(acl.inherit_from, acl.inherit_fragment) or acl.inherit_from
    if parent:
        metas.append(Meta(INHERIT_FROM, parent))
    if (inheritance := INHERITANCE.encode(acl.inheritance)) is not None:
        metas.append(Meta(INHERITANCE_TYPE, inheritance))
    return tuple(metas)


@lru_cache(maxsize=1024)
def _fold(name: str) -> str:
    return name.strip(BLANKS).lower()


def _split_metadata(metadata: tuple[Meta, ...]) -> tuple[Acl | None, tuple[Meta, ...]]:
    is_stated = False
    principals: list[Principal] = []
    others: list[Meta] = []
    parent: str | None = None
    inheritance: Inheritance | None = None
    for meta in metadata:
        name, value = _fold(meta.name) if meta.data is None else "", meta.value
        if name in _LISTS:
            principals += _principals(*_LISTS[name], value)
        elif name == INHERIT_FROM and value and parent is None:
            parent = value
        elif name == INHERITANCE_TYPE and value in INHERITANCE.names and not inheritance:
            inheritance = INHERITANCE.decode(value)
        else:
            others.append(meta)
            continue
        is_stated = True
    if not is_stated:
        return None, metadata
    url, fragment = (None, None) if parent is None else split_parent(parent)
    acl = Acl(
        inheritance=inheritance,
        inherit_from=url,
        inherit_fragment=fragment,
        principals=tuple(principals),
    )
    return acl, tuple(others)


def _principals(scope: Scope, access: Access, text: str) -> tuple[Principal, ...]:
    """Return the principal of a pair; none for a permitted peeker."""
    name = text.rstrip()
    role = next((role for role in _ROLES if name.endswith(role)), None)
    if role == _PEEKER and access is Access.PERMIT:
        return ()
    return (
        Principal(
            name=text if role is None else name.removesuffix(role), scope=scope, access=access
        ),
    )
