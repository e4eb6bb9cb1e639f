"""The ACL of a record as `google:acl*` metadata, and back.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Legacy Metadata Format (Deprecated)".
**Keeps:** order. Values that cannot be understood stay metadata: bytes, an inheritance type that
the guide does not have, an empty or second inherit-from. Names may be in any case, with blanks.
**Drops:** a role suffix (`joe=writer`), and a permitted `=peeker`, as the guide says. The deployed
connector manager also drops a denied `=writer` and `=owner`. We differ and keep every denial, a
`=peeker` too: without it, a denied user may see the document.
"""

from functools import lru_cache

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.record import Meta
from transforms.formats.gsa.acl_parent import join_parent, split_parent

INHERIT_FROM = "google:aclinheritfrom"
INHERITANCE_TYPE = "google:aclinheritancetype"
_LISTS = {
    "google:aclusers": (Scope.USER, Access.PERMIT),
    "google:aclgroups": (Scope.GROUP, Access.PERMIT),
    "google:acldenyusers": (Scope.USER, Access.DENY),
    "google:acldenygroups": (Scope.GROUP, Access.DENY),
}
_LIST_NAMES = {list_: name for name, list_ in _LISTS.items()}
_PREFIX = "google:acl"
_BLANKS = " \t\r\n"
_MOST_NAMES = 1024
_other_names: set[str] = set()
"""A cache of names that are not of an ACL; a set is three times as fast as `is_acl_name`."""

_TYPES = {kind.value.lower().replace("_", "-"): kind for kind in Inheritance}
_TYPE_NAMES = {kind: name for name, kind in _TYPES.items()}
_PEEKER = "=peeker"
_ROLES = ("=owner", "=writer", "=reader", _PEEKER)


def acl_of(metadata: tuple[Meta, ...]) -> tuple[Acl | None, tuple[Meta, ...]]:
    """Return the ACL that metadata states, None if it states none, and the other metadata.

    An ACL whose entries are all ignored has no principals: it permits no user.
    """
    for meta in metadata:
        if meta.name not in _other_names and is_acl_name(meta.name):
            return _split(metadata)
    return None, metadata


def is_acl_name(name: str) -> bool:
    """Whether an appliance may read metadata of this name as a part of an ACL."""
    if _folded(name).startswith(_PREFIX):
        return True
    if len(_other_names) < _MOST_NAMES:
        _other_names.add(name)
    return False


@lru_cache(maxsize=1024)
def _folded(name: str) -> str:
    return name.strip(_BLANKS).lower()


def metadata_of(acl: Acl) -> tuple[Meta, ...]:
    """Return metadata with the principals and the inheritance of an ACL.

    It has no place for namespaces, case sensitivity, unqualified names, or the fragment of a URL
    with a query.
    """
    metas = [
        Meta(_LIST_NAMES[principal.scope, principal.access], _shield(principal.name))
        for principal in acl.principals
    ]
    parent = join_parent(acl.inherit_from, acl.inherit_fragment) or acl.inherit_from
    if parent:
        metas.append(Meta(INHERIT_FROM, parent))
    if acl.inheritance is not None:
        metas.append(Meta(INHERITANCE_TYPE, _TYPE_NAMES[acl.inheritance]))
    return tuple(metas)


def _split(metadata: tuple[Meta, ...]) -> tuple[Acl | None, tuple[Meta, ...]]:
    principals = tuple(
        principal for meta in metadata if _is_listed(meta) for principal in _principals(meta)
    )
    listed = [meta for meta in metadata if _is_listed(meta)]
    parent = next((meta for meta in metadata if _is_parent(meta)), None)
    kind = next((meta for meta in metadata if _is_type(meta)), None)
    if not listed and parent is None and kind is None:
        return None, metadata
    url, fragment = (None, None) if parent is None else split_parent(parent.value)
    acl = Acl(
        inheritance=None if kind is None else _TYPES[kind.value],
        inherit_from=url,
        inherit_fragment=fragment,
        principals=principals,
    )
    others = (meta for meta in metadata if not (_is_listed(meta) or meta is parent or meta is kind))
    return acl, tuple(others)


def _is_listed(meta: Meta) -> bool:
    return _folded(meta.name) in _LISTS and meta.data is None


def _is_parent(meta: Meta) -> bool:
    return _folded(meta.name) == INHERIT_FROM and meta.data is None and meta.value != ""


def _is_type(meta: Meta) -> bool:
    return _folded(meta.name) == INHERITANCE_TYPE and meta.data is None and meta.value in _TYPES


def _principals(meta: Meta) -> tuple[Principal, ...]:
    """Return the principal of a pair; none for a permitted peeker."""
    scope, access = _LISTS[_folded(meta.name)]
    name, role = _cut_role(meta.value)
    if role == _PEEKER and access is Access.PERMIT:
        return ()
    return (Principal(name=name, scope=scope, access=access),)


def _cut_role(text: str) -> tuple[str, str]:
    bare = text.rstrip()
    for role in _ROLES:
        if bare.endswith(role):
            return bare[: -len(role)], role
    return text, ""


def _shield(name: str) -> str:
    """Add a role to a name that ends like one, so that the reader cuts the added one."""
    return f"{name}=reader" if name.rstrip().endswith(_ROLES) else name
