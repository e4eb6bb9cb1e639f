"""The fields of a document that state who may see it; a mapping gives no values, only names."""

from functools import lru_cache

from feedferry.schemas.acl import Acl, Scope
from feedferry.schemas.errors import RecordError
from feedferry.transforms.access.decision import decision_of
from feedferry.transforms.access.index_fields import (
    field_names,
    fields_of,
    public_fields,
)
from feedferry.transforms.access.readers import EVERYONE, NO_USER, name_of, readers_of
from feedferry.transforms.formats.json_documents.document_mapping import ReaderFields

_CACHED = 4096
AccessValues = dict[str, list[str] | bool]


@lru_cache(maxsize=_CACHED)
def access_values(acl: Acl | None, fields: ReaderFields | None) -> AccessValues:
    """Return the fields of a decision, or of readers by name.

    All fields are stated, as an ACL alone is merged into a document that may have others. Raise
    RecordError for an ACL that the fields cannot state exactly.
    """
    return _decision(acl) if fields is None else _readers(acl, fields)


def _decision(acl: Acl | None) -> AccessValues:
    stated = public_fields()
    if acl is not None:
        decided = fields_of(decision_of(acl))
        if decided is None:
            found = f"a decision of {len(acl.decision)} layers"
            raise RecordError("acl-complex", f"{found}; expected 3 parts of 3 layers at most")
        stated = decided
    return {name: stated.get(name, []) for name in field_names()}


def _readers(acl: Acl | None, fields: ReaderFields) -> AccessValues:
    readers = readers_of(acl, lists=1)
    is_public = readers == EVERYONE
    members = () if is_public else readers[0]
    named = [(name_of(member, namespace=fields.namespace), member.scope) for member in members]
    users = [name for name, scope in named if scope is Scope.USER]
    groups = [name for name, scope in named if scope is Scope.GROUP]
    if groups and fields.groups is None:
        raise RecordError("acl-groups", f"a group, {groups[0]!r}; expected users only")
    values: AccessValues = {fields.public: is_public}
    values[fields.users] = users if members or is_public else [NO_USER]
    if fields.groups is not None:
        values[fields.groups] = groups
    return values
