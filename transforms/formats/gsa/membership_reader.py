"""One membership element of a groups feed; what is not understood of it is refused."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TypeVar

import msgspec
from lxml import etree

from schemas.acl import Scope
from schemas.errors import RecordError
from schemas.feed import FeedHeader
from schemas.membership import Member, Membership
from schemas.record import Extra, Provenance
from schemas.reject import Reject
from schemas.span import Span
from transforms.formats.gsa.acl import BLANKS, require_no_text, tag_of
from transforms.formats.xml.elements import ParsedElement
from transforms.formats.xml.extras import extra_element

SCOPES = {scope.value: scope for scope in Scope}
SENSITIVITIES = {"EVERYTHING_CASE_SENSITIVE": True, "EVERYTHING_CASE_INSENSITIVE": False}
TYPES = {"UNQUALIFIED": True}

_GROUP = re.compile(rb"<membership\b[^<>]*>\s*<principal\b[^<>]*>([^<>]+)</principal")
_Value = TypeVar("_Value")


class MembershipBuilder:
    """Builds the memberships of one span; `build` raises RecordError for one that is refused."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def build(self, parsed: ParsedElement) -> Membership:
        """The membership of an element."""
        element, unit, feed = parsed.element, parsed.raw, self._span.feed
        parts = _Parts()
        parts.take(element)
        if parts.group is None:
            raise bad_membership("a membership without a principal; expected that of its group")
        check_group(parts.group)
        return Membership(
            group=_without_insensitivity(parts.group),
            members=tuple(parts.members),
            origin=parts.origin,
            extras=tuple(sorted(parts.extras, key=lambda extra: extra.place)),
            provenance=Provenance(
                source=self._span.source,
                span=self._span.ordinal,
                line=unit.line,
                offset=unit.offset,
                datasource=feed.datasource or None if feed else None,
                feedtype=feed.feedtype or None if feed else None,
            ),
        )


def header_of(span: Span) -> FeedHeader:
    """Return the header of a groups feed: what it was posted as, for no groups feed says so."""
    feed = span.feed
    return FeedHeader(
        source=span.source,
        datasource=feed.datasource or None if feed else None,
        feedtype=feed.feedtype or None if feed else None,
        memberships=True,
    )


def check_group(group: Member) -> None:
    """Raise RecordError for a user that is to have members."""
    if group.scope is not Scope.GROUP:
        reason = (
            f"the group {group.name!r} with scope={group.scope.value!r}; expected GROUP, for users "
            "cannot have members: correct its scope, or leave the membership out"
        )
        raise RecordError("user-with-members", reason)


def bad_membership(reason: str) -> RecordError:
    return RecordError("bad-membership", reason)


def name_reject(found: _Value) -> _Value | Reject:
    """Let a reject say which group it is about, as it is written there in UTF-8."""
    if isinstance(found, Reject) and (group := _GROUP.match(found.data)):
        with suppress(UnicodeDecodeError):
            name = group[1].decode().strip(BLANKS)
            return msgspec.structs.replace(found, url=name or None)
    return found


class _Parts:
    """What a membership is made of, taken from its element in one pass."""

    def __init__(self) -> None:
        self.group: Member | None = None
        self.members: list[Member] = []
        self.origin: str | None = None
        self.extras: list[Extra] = []
        self._has_members = False

    def take(self, element: etree._Element) -> None:
        require_no_text(element)
        attributes = dict(element.items())
        self.origin = attributes.pop("source", None)
        self._keep("membership", attributes)
        for child in element:
            if child.tag == "principal":
                self._take_group(child)
            elif child.tag == "members":
                self._take_members(child)
            else:
                self._take_unknown(child)

    def _take_group(self, child: etree._Element) -> None:
        if self.group is not None:
            reason = "a second principal beside the members; expected one group: move it into them"
            raise bad_membership(reason)
        self.group = self._member(child, "membership/principal")

    def _take_members(self, child: etree._Element) -> None:
        if self._has_members:
            raise bad_membership("a second members element in a membership; expected one")
        self._has_members = True
        require_no_text(child)
        self._keep("membership/members", dict(child.items()))
        for number, inner in enumerate(child):
            if inner.tag != "principal":
                raise bad_membership(f"<{tag_of(inner)}> inside <members>; expected <principal>")
            self.members.append(self._member(inner, f"membership/members/principal[{number}]"))

    def _take_unknown(self, child: etree._Element) -> None:
        """Keep it, unless it can be members whose tag is damaged."""
        if any(tag_of(inner).lower() == "principal" for inner in child.iter(etree.Element)):
            raise bad_membership(f"<{tag_of(child)}> around a principal; expected <members>")
        self.extras.append(extra_element("membership", child))

    def _member(self, element: etree._Element, place: str) -> Member:
        if len(element):
            raise bad_membership(f"<{tag_of(element[0])}> inside <principal>; expected a name")
        attributes = dict(element.items())
        scope = attributes.pop("scope", None)
        name = (element.text or "").strip(BLANKS)
        if not name:
            raise nameless(scope)
        if scope is None:
            raise bad_membership(f"no scope of {name!r}; expected USER or GROUP")
        sensitivity = attributes.pop("case-sensitivity-type", None)
        kind = attributes.pop("principal-type", None)
        member = Member(
            name=name,
            scope=_one_of("scope", scope, SCOPES, name),
            namespace=attributes.pop("namespace", None),
            case_sensitive=None
            if sensitivity is None
            else _one_of("case-sensitivity-type", sensitivity, SENSITIVITIES, name),
            unqualified=kind is not None and _one_of("principal-type", kind, TYPES, name),
        )
        if attributes:
            self._keep(place, attributes)
        return member

    def _keep(self, place: str, attributes: Mapping[str, str]) -> None:
        self.extras.extend(Extra(f"{place}/@{key}", value) for key, value in attributes.items())


def nameless(scope: str | None) -> RecordError:
    found = "without a name" if scope is None else f"with scope={scope!r} and no name"
    return bad_membership(f"a principal {found}; expected the name of a user or group")


def _one_of(attribute: str, found: str, values: Mapping[str, _Value], name: str) -> _Value:
    """The guide and deployed programs spell these in either case, with _ or with -."""
    value = values.get(found.strip(BLANKS).upper().replace("-", "_"))
    if value is None:
        expected = " or ".join(values) if len(values) > 1 else "unqualified"
        raise bad_membership(f"{attribute}={found!r} of {name!r}; expected {expected}")
    return value


def _without_insensitivity(group: Member) -> Member:
    """A group is matched as a member only; what its own name says of case has no effect."""
    if group.case_sensitive is False:
        return msgspec.structs.replace(group, case_sensitive=None)
    return group
