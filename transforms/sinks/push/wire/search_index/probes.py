"""Searches for one document as people who may see it, and as people who may not.

A comparison of fields shows that the tokens of a document are right. A probe shows that the search
alias, the mapping and the filter make of them what the ACL decides.
"""

from collections.abc import Callable, Iterator, Sequence

from feedferry.schemas.acl import identity
from feedferry.schemas.membership import Member
from feedferry.schemas.record import Record
from feedferry.transforms.access.decision import decision_of
from feedferry.transforms.access.index_fields import (
    AccessFields,
    fields_of,
    permits,
    public_fields,
    tokens_of,
)
from feedferry.transforms.sinks.push.wire.protocol import ApplianceReader, FailedProbe

Person = tuple[Member, ...]
"""A user, or the groups of a user; a person without any is unknown."""


IsFound = Callable[[ApplianceReader, Record, list[str]], bool]
"""Whether a search with the filter of tokens finds a document."""


def probe_as(
    reader: ApplianceReader, record: Record, is_found_by: IsFound
) -> Iterator[FailedProbe]:
    """Search for a document as three people; yield the searches that do not follow its ACL."""
    fields = _fields(record)
    for person in people_of(record, fields):
        tokens = tokens_of(person)
        is_found = is_found_by(reader, record, tokens)
        if is_found is not permits(fields, tokens):
            yield FailedProbe(person=_name(person), is_found=is_found)


def people_of(record: Record, fields: AccessFields) -> list[Person]:
    """Return a person who is permitted, one who is denied, if there are any, and an unknown one.

    The person who is denied would be permitted without the denial, if there is one.
    """
    layers = [] if record.acl is None else [part.layers for part in decision_of(record.acl).parts]
    of_parts = [[member for layer in part for member in layer.permits] for part in layers]
    denied = [member for part in layers for layer in part for member in layer.denies]
    permitted = (
        *((member,) for members in of_parts for member in members),
        tuple(members[0] for members in of_parts if members),
        tuple(member for members in of_parts for member in members),
    )
    found = _first(permitted, fields, is_permitted=True)
    refused = (
        *((*person, member) for person in found for member in denied),
        *((member,) for member in denied),
        *permitted,
    )
    return [*found, *_first(refused, fields, is_permitted=False), ()]


def _first(people: Sequence[Person], fields: AccessFields, *, is_permitted: bool) -> list[Person]:
    found = (
        person for person in people if person and permits(fields, tokens_of(person)) is is_permitted
    )
    return [*found][:1]


def _fields(record: Record) -> AccessFields:
    if record.acl is None:
        return public_fields()
    return fields_of(decision_of(record.acl)) or {}


def _name(person: Person) -> str:
    """Return the names of a person, as differences have them."""
    names = (
        f"{member.scope.value.lower()} {':'.join(identity(member.namespace, member.name))}"
        for member in person
    )
    return ", ".join(names) or "an unknown person"
