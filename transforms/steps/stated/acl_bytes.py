"""ACLs in few bytes, which a job keeps; ACLs are equal if their bytes are.

An ACL is an array: a number that has all flags, its principals, the fragment and the URL that it
inherits from. With a decision, its layers follow the principals. A principal is its name if it is a
permitted group without other statements, and an array with a number for these otherwise.
"""

from itertools import product

import msgspec

from feedferry.schemas.acl import Access, Acl, AclLayer, Inheritance, Principal, Scope

NO_ACL = msgspec.msgpack.encode(None)
"""The bytes of a document that states no ACL."""

_INHERITANCES = (None, *Inheritance)
_PLACES = {inheritance: place for place, inheritance in enumerate(_INHERITANCES)}
_ALONE, _WITHHOLDS = 8, 16

_KINDS = dict(
    zip(
        product((None, True, False), (False, True), (Access.PERMIT, Access.DENY), Scope),
        range(24),
        strict=True,
    )
)
_TRAITS = [*_KINDS]
_GROUP = _KINDS[None, False, Access.PERMIT, Scope.GROUP]


class _PrincipalArray(msgspec.Struct, frozen=True, array_like=True):
    name: str
    kind: int
    namespace: str | None = None


_Principals = tuple[str | _PrincipalArray, ...]


class _AclArray(msgspec.Struct, frozen=True, array_like=True):
    flags: int
    principals: _Principals
    fragment: str | None
    parent: str | None


class _LayeredAcl(msgspec.Struct, frozen=True, array_like=True):
    flags: int
    principals: _Principals
    layers: tuple[tuple[int, _Principals], ...]
    fragment: str | None
    parent: str | None


class _AclBefore(msgspec.Struct, frozen=True, array_like=True):
    inheritance: int
    parent: str | None
    fragment: str | None
    principals: tuple[_PrincipalArray, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode_before = msgspec.msgpack.Decoder(_AclBefore).decode
_decode = msgspec.msgpack.Decoder(_AclArray).decode
_decode_layered = msgspec.msgpack.Decoder(_LayeredAcl).decode
_LAYERED = 0x95
"""The first byte of an array of five."""


def packed(acl: Acl) -> bytes:
    """Return an ACL in few bytes; those of the URL that it inherits from are the last.

    >>> packed(Acl(inherit_from="http://x/"))[-9:]
    b'http://x/'
    """
    flags = _PLACES[acl.inheritance] + _ALONE * acl.alone + _WITHHOLDS * acl.withholds
    names, above = [*map(_pack, acl.principals)], (acl.inherit_fragment, acl.inherit_from)
    if not acl.decision:
        return _encode((flags, names, *above))
    layers = [(layer.part, [*map(_pack, layer.principals)]) for layer in acl.decision]
    return _encode((flags, names, layers, *above))


def unpacked(data: bytes) -> Acl:
    """Return the ACL of bytes that `packed` has returned."""
    acl = _decode_layered(data) if data[0] == _LAYERED else _decode(data)
    layers = acl.layers if isinstance(acl, _LayeredAcl) else ()
    return Acl(
        inheritance=_INHERITANCES[acl.flags & 7],
        inherit_from=acl.parent,
        inherit_fragment=acl.fragment,
        principals=tuple(map(_unpack, acl.principals)),
        alone=bool(acl.flags & _ALONE),
        decision=tuple(
            AclLayer(part=part, principals=tuple(map(_unpack, names))) for part, names in layers
        ),
        withholds=bool(acl.flags & _WITHHOLDS),
    )


def packed_before(data: bytes) -> bytes:
    """Return the bytes of a stated ACL that version 2 of the file of a job has."""
    acl = _decode_before(data)
    return packed(
        Acl(
            inheritance=_INHERITANCES[acl.inheritance],
            inherit_from=acl.parent,
            inherit_fragment=acl.fragment,
            principals=tuple(map(_unpack, acl.principals)),
        )
    )


def unpacked_if_any(data: bytes) -> Acl | None:
    """Return the ACL of bytes, None for those of a document that states none."""
    return None if data == NO_ACL else unpacked(data)


def _pack(of: Principal) -> str | tuple[str, int] | tuple[str, int, str]:
    kind = _KINDS[of.case_sensitive, of.unqualified, of.access, of.scope]
    if of.namespace is not None:
        return of.name, kind, of.namespace
    return of.name if kind == _GROUP else (of.name, kind)


def _unpack(stated: str | _PrincipalArray) -> Principal:
    if isinstance(stated, str):
        return Principal(name=stated, scope=Scope.GROUP, access=Access.PERMIT)
    case_sensitive, unqualified, access, scope = _TRAITS[stated.kind]
    return Principal(
        name=stated.name,
        scope=scope,
        access=access,
        namespace=stated.namespace,
        case_sensitive=case_sensitive,
        unqualified=unqualified,
    )
