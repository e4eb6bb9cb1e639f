"""Hypothesis strategies for memberships; small, and as awkward as allowed."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from schemas.acl import Scope
from schemas.membership import Member, Membership
from schemas.record import Extra, Provenance
from support.strategies import TEXTS, provenances, xml_texts

_BLANKS = " \t\r\n"
_SCOPES = st.sampled_from(Scope)
_FLAGS = st.none() | st.booleans()
_NAMES = ("EXAMPLE\\joe", "joe@example.com", "abc.com/group1", "cn=a,dc=b", "]]>", "a  b", "é\nè")
_EXTRAS = (
    Extra("membership/@foo", "1 & 2"),
    Extra("membership/@{urn:example:x}foo", ""),
    Extra("membership/foo", "<foo>text</foo>"),
    Extra("membership/members/@foo", '"'),
    Extra("membership/principal/@foo", "\t"),
)


def members(
    *,
    name: SearchStrategy[str] = TEXTS,
    text: SearchStrategy[str] = TEXTS,
    scope: SearchStrategy[Scope] = _SCOPES,
    case_sensitive: SearchStrategy[bool | None] = _FLAGS,
) -> SearchStrategy[Member]:
    """Users and groups with names of any text."""
    return st.builds(
        Member,
        name=st.sampled_from(_NAMES) | name,
        scope=scope,
        namespace=st.none() | st.sampled_from(("Default", "")) | text,
        case_sensitive=case_sensitive,
        unqualified=st.booleans(),
    )


def memberships() -> SearchStrategy[Membership]:
    """Any canonical membership, what no appliance takes among them."""
    return st.builds(
        Membership,
        group=members(),
        members=st.lists(members(), max_size=4).map(tuple),
        origin=st.none() | TEXTS,
        extras=st.lists(st.builds(Extra, TEXTS, TEXTS), max_size=2).map(tuple),
        provenance=provenances(),
    )


def held_memberships() -> SearchStrategy[Membership]:
    """Memberships that a groups feed holds to the last character, without a provenance."""
    names = xml_texts().map(lambda text: text.strip(_BLANKS)).filter(bool)
    text = xml_texts()
    return st.builds(
        Membership,
        group=members(
            name=names,
            text=text,
            scope=st.just(Scope.GROUP),
            case_sensitive=st.sampled_from((None, True)),
        ),
        members=st.lists(members(name=names, text=text), max_size=4).map(tuple),
        origin=st.none() | text,
        extras=st.lists(st.sampled_from(_EXTRAS), max_size=3, unique=True).map(_sorted),
        provenance=st.just(Provenance()),
    )


def _sorted(extras: list[Extra]) -> tuple[Extra, ...]:
    return tuple(sorted(extras, key=lambda extra: extra.place))
