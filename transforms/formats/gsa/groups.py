"""The groups feeds of a Google Search Appliance: xmlgroups, groups and who is in them.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Feeding Groups to the Search Appliance".

**Keeps:** namespaces, case sensitivity, principal-type; the `source` that an appliance writes when
its groups are downloaded; members in their order, duplicates too; unknown attributes and elements
as extras, which are written again. What is not stated stays so: no default is filled in.

**Reads beyond the guide:** no DOCTYPE or any, its own examples have that of gsafeed; a feed without
memberships and a group without members, which its prose has and its DTD has not; scope,
principal-type and case-sensitivity-type in any case, and the last with `_` or `-`, as the guide
spells it both ways.

**Refuses** the whole membership where anything in it is not understood: a group that lost a
member, or gained one, opens or closes documents to the wrong people.

**Drops:** white space around names, which the appliance drops too; comments; that a group's own
name is case-insensitive: the guide's example says so, its prose forbids it, and only members are
matched; on reading too, so that what was read is written and read again as it was.

One membership is in memory at a time, however many members it has.
"""

import re
from collections.abc import Iterable, Iterator
from typing import IO

from schemas.acl import Scope
from schemas.errors import RecordError
from schemas.membership import Member, Membership
from schemas.record import Record
from schemas.span import Span
from transforms.formats.base import ReadOptions, ReadResult, WriteOptions, write_all
from transforms.formats.gsa.acl import BLANKS
from transforms.formats.gsa.membership_reader import (
    MembershipBuilder,
    check_group,
    header_of,
    name_reject,
    nameless,
)
from transforms.formats.xml.element_names import ElementNames
from transforms.formats.xml.elements import (
    ElementReader,
    Grammar,
    cut_spans,
    parse_markup,
)
from transforms.formats.xml.extras import ExtraMarkup
from transforms.formats.xml.serializer import attributes, element, holds

ELEMENT_NAMES = ElementNames(root="xmlgroups", records=("membership",))
_NO_PAYLOAD = re.compile(rb"\0(?!)")  # a literal byte first, which `re` finds fastest
_SENSITIVITY_NAMES = {
    None: None,
    True: "EVERYTHING_CASE_SENSITIVE",
    False: "EVERYTHING_CASE_INSENSITIVE",
}


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield the memberships of a feed in its order, and a Reject for each that is refused."""
    return map(name_reject, _begin(stream, span, options).read())


def read_feed(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield what `read` does, the FeedHeader of each feed without memberships, and notices."""
    units = _begin(stream, span, options)
    yield from map(name_reject, units.read())
    yield from (header_of(span) for _ in units.contexts_without_records())
    yield from units.notices()


def _begin(stream: IO[bytes], span: Span, options: ReadOptions) -> ElementReader[Membership]:
    grammar = Grammar(ELEMENT_NAMES, _NO_PAYLOAD, "", MembershipBuilder(span).build)
    return ElementReader(stream, grammar, span=span, options=options)


def cut(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield spans of about `span_bytes` that together read as the stream does."""
    return cut_spans(stream, ELEMENT_NAMES, source=source, span_bytes=span_bytes, options=options)


def write(
    memberships: Iterable[Membership], stream: IO[bytes], *, options: WriteOptions = WriteOptions()
) -> None:
    """Write one feed; raise RecordError for a membership that no xmlgroups can hold."""
    write_all(encoder(options), memberships, stream)


def encoder(options: WriteOptions) -> "GsaGroupsEncoder":
    """Return the encoder; there is one way only to write memberships."""
    return GsaGroupsEncoder()


class GsaGroupsEncoder:
    """Writes memberships as deployed programs do, so that all chunks begin alike.

    Valid by the DTD, but for a group without members and a feed without memberships.
    """

    extension = "xml"
    frame_bytes = 0

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
        check_group(record.group)
        extras = ExtraMarkup(record.extras)
        try:
            markup = _membership(record, extras)
            encoded = markup.encode()
        except ValueError as exc:  # what XML or UTF-8 cannot hold
            found = "a lone surrogate" if isinstance(exc, UnicodeError) else str(exc)
            reason = f"{found}; expected characters that XML can hold"
            raise RecordError("not-xml", reason) from exc
        if extras:
            parse_markup(encoded)  # extras may come from anywhere
        return encoded

    def frame(self, records: list[bytes]) -> bytes:
        return b"".join(records)

    def epilog(self) -> bytes:
        return b"</xmlgroups>\n"


def _membership(membership: Membership, extras: ExtraMarkup) -> str:
    place = "membership"
    attrs = attributes([("source", membership.origin)]) + extras.attributes(place)
    group, members = _group(membership.group, extras), _members(membership.members, extras)
    return f"<membership{attrs}>\n{group}{members}{extras.children(place)}</membership>\n"


def _group(group: Member, extras: ExtraMarkup) -> str:
    sensitive = _SENSITIVITY_NAMES[True] if group.case_sensitive else None
    return _principal(group, sensitive, extras.attributes("membership/principal"))


def _members(members: tuple[Member, ...], extras: ExtraMarkup) -> str:
    attrs = extras.attributes("membership/members")
    if not members:
        return f"<members{attrs}/>\n"
    place = "membership/members/principal"
    principals = [
        _principal(
            member,
            _SENSITIVITY_NAMES[member.case_sensitive],
            extras.attributes(f"{place}[{number}]") if extras else "",
        )
        for number, member in enumerate(members)
    ]
    return f"<members{attrs}>\n{''.join(principals)}</members>\n"


def _principal(member: Member, sensitivity: str | None, more_attributes: str) -> str:
    """In the alphabetical order of attributes that deployed programs have."""
    if not member.name.strip(BLANKS):
        raise nameless(member.scope.value)
    if not holds(member.name):
        raise ValueError(f"principal {member.name!r}")
    pairs = [
        ("case-sensitivity-type", sensitivity),
        ("namespace", member.namespace),
        ("principal-type", "unqualified" if member.unqualified else None),
        ("scope", "GROUP" if member.scope is Scope.GROUP else "USER"),
    ]
    name = member.name.strip(BLANKS)
    return element("principal", name, attributes(pairs) + more_attributes) + "\n"
