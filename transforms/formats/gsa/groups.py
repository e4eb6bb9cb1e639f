"""The groups feeds of a Google Search Appliance: xmlgroups, with groups and their members.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Feeding Groups to the Search Appliance".

**Keeps:** namespaces, case sensitivity, principal-type; the `source` that an appliance writes when
its groups are downloaded; members in their order, with duplicates; unknown attributes and elements
as extras, which are written again. No default is filled in.

**Reads beyond the guide:** any DOCTYPE or none (the guide's own examples have that of gsafeed); a
feed without memberships and a group without members, which the guide's prose allows and its DTD
does not; scope, principal-type and case-sensitivity-type in any case, with `_` or `-`, because the
guide spells them both ways.

**Refuses** the whole membership if anything in it is not understood: a group that lost a member, or
gained one, opens or closes documents to the wrong people.

**Drops:** white space around names, as the appliance does; comments; that a group's own name is
case-insensitive. The guide's example has this, its prose forbids it, and only members are matched.
It is dropped on reading too, so that a membership reads back as it was.

One membership is in memory at a time, however many members it has.
"""

from collections.abc import Iterator
from typing import IO

from lxml import etree
from msgspec.structs import replace

from feedferry.schemas.acl import Scope
from feedferry.schemas.errors import RecordError
from feedferry.schemas.feed import FeedHeader
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import Extra, Provenance, Record
from feedferry.schemas.span import ElementContext, Span
from feedferry.transforms.formats.base import Encoder, ReadOptions, ReadResult
from feedferry.transforms.formats.gsa.acl import require_no_text, tag_of, write_principal
from feedferry.transforms.formats.gsa.gsa_formats import GROUPS_NAMES
from feedferry.transforms.formats.gsa.rows import MEMBER, MEMBERS, MEMBERSHIP
from feedferry.transforms.formats.holding.acl_metadata import BLANKS
from feedferry.transforms.formats.xml.elements import (
    ElementReader,
    Grammar,
    ParsedElement,
    parse_markup,
)
from feedferry.transforms.formats.xml.serializer import (
    ExtraMarkup,
    attributes_of,
    extra_element,
    not_xml,
)


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield the memberships of a feed in its order, and a Reject for each that is refused.

    Then yield a FeedHeader for each feed without memberships, and notices.
    """
    builder = MembershipBuilder(span)
    grammar = Grammar(names=GROUPS_NAMES, build=builder.build, header=builder.header)
    return ElementReader(stream, grammar, span=span, options=options).read()


# Reading


class MembershipBuilder:
    """Builds the memberships of one span; `build` raises RecordError for one that is refused."""

    def __init__(self, span: Span) -> None:
        self._span = span
        feed = span.feed
        self._datasource = feed.datasource or None if feed else None
        self._feedtype = feed.feedtype or None if feed else None

    def build(self, parsed: ParsedElement) -> Membership:
        require_no_text(parsed.element)
        extras: list[Extra] = []
        values = MEMBERSHIP.take(parsed.element.items(), extras)
        group: Member | None = None
        members: list[Member] | None = None
        for child in parsed.element:
            if child.tag == "principal":
                if group is not None:
                    raise _bad_membership(
                        "a second principal next to the members; expected one group: move it"
                        " into them"
                    )
                group = _member(child, "membership/principal", extras)
            elif child.tag == "members":
                if members is not None:
                    raise _bad_membership("a second members element in a membership; expected one")
                members = _members(child, extras)
            elif any(tag_of(inner).lower() == "principal" for inner in child.iter(etree.Element)):
                # It may be members whose tag is damaged.
                raise _bad_membership(f"<{tag_of(child)}> around a principal; expected <members>")
            else:
                extras.append(extra_element(f"membership/{tag_of(child)}", child))
        if group is None:
            raise _bad_membership("a membership without a principal; expected that of its group")
        _check_group(group)
        return Membership(
            group=_with_usual_case(group),
            members=tuple(members or ()),
            origin=values.get("origin"),
            extras=tuple(sorted(extras, key=lambda extra: extra.place)),
            provenance=Provenance(
                source=self._span.source,
                span=self._span.ordinal,
                line=parsed.raw.line,
                offset=parsed.raw.offset,
                datasource=self._datasource,
                feedtype=self._feedtype,
            ),
        )

    def header(self, _context: ElementContext) -> FeedHeader:
        """Return how a groups feed was posted; the feed itself does not say."""
        return FeedHeader(
            source=self._span.source,
            datasource=self._datasource,
            feedtype=self._feedtype,
            memberships=True,
        )


def _members(element: etree._Element, extras: list[Extra]) -> list[Member]:
    require_no_text(element)
    MEMBERS.take(element.items(), extras)
    members: list[Member] = []
    for child in element:
        if child.tag != "principal":
            raise _bad_membership(f"<{tag_of(child)}> inside <members>; expected <principal>")
        members.append(_member(child, f"membership/members/principal[{len(members)}]", extras))
    return members


def _member(element: etree._Element, place: str, extras: list[Extra]) -> Member:
    if len(element):
        raise _bad_membership(f"<{tag_of(element[0])}> inside <principal>; expected a name")
    name = (element.text or "").strip(BLANKS)
    if not name:
        raise _nameless(element.get("scope"))
    values = MEMBER.take(element.items(), extras, place=place, owner=name)
    return Member(name=name, **values)


def _bad_membership(reason: str) -> RecordError:
    return RecordError("bad-membership", reason)


def _nameless(scope: str | None) -> RecordError:
    found = "without a name" if scope is None else f"with scope={scope!r} and no name"
    return _bad_membership(f"a principal {found}; expected the name of a user or group")


def _check_group(group: Member) -> None:
    if group.scope is not Scope.GROUP:
        reason = (
            f"the group {group.name!r} with scope={group.scope.value!r}; expected GROUP, for users "
            "cannot have members: correct its scope, or leave the membership out"
        )
        raise RecordError("user-with-members", reason)


def _with_usual_case(group: Member) -> Member:
    """Return a group without the case-insensitive name that the prose of the guide forbids."""
    return group if group.case_sensitive else replace(group, case_sensitive=None)


# Writing


class GsaGroupsEncoder(Encoder):
    """Writes memberships as deployed programs do.

    Valid by the DTD, except for a group without members and a feed without memberships.
    """

    extension = "xml"

    def prolog(self) -> bytes:
        return (
            b'<?xml version="1.0" encoding="UTF-8"?>\n'
            b'<!DOCTYPE xmlgroups PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
            b"<xmlgroups>\n"
        )

    def encode(self, record: Record | Membership) -> bytes:
        if not isinstance(record, Membership):
            reason = f"a record of {record.url!r}; expected a group and its members"
            raise RecordError("not-a-membership", reason)
        _check_group(record.group)
        extras = ExtraMarkup(record.extras)
        try:
            encoded = _membership(record, extras).encode()
        except ValueError as exc:
            raise not_xml(exc) from exc
        if extras:
            parse_markup(encoded)  # extras may come from anywhere
        return encoded

    def epilog(self) -> bytes:
        return b"</xmlgroups>\n"


def _membership(membership: Membership, extras: ExtraMarkup) -> str:
    group = _with_usual_case(membership.group)
    origin = extras.attributes("membership", stated=attributes_of(MEMBERSHIP, membership))
    members_attributes = extras.attributes("membership/members")
    members = "".join(
        _principal(member, extras, f"membership/members/principal[{number}]" if extras else "")
        for number, member in enumerate(membership.members)
    )
    return (
        f"<membership{origin}>\n"
        + _principal(group, extras, "membership/principal")
        + (
            f"<members{members_attributes}>\n{members}</members>\n"
            if members
            else f"<members{members_attributes}/>\n"
        )
        + f"{extras.children('membership')}</membership>\n"
    )


def _principal(member: Member, extras: ExtraMarkup, place: str) -> str:
    if not member.name.strip(BLANKS):
        raise _nameless(member.scope.value)
    return write_principal(MEMBER, member, extras, place)
