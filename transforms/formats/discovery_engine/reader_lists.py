"""The readers of a document: lists of principals, all of which must permit a user.

**Spec:** Discovery Engine v1, `Document.acl_info.readers`. A user finds a document if each of its
restrictions names the user or a group of the user. There are no denials.
"""

from functools import lru_cache

from feedferry.schemas.acl import Acl, Scope
from feedferry.schemas.errors import RecordError
from feedferry.transforms.access.readers import EVERYONE, NO_USER, NOBODY, name_of, readers_of
from feedferry.transforms.formats.discovery_engine.discovery_format import MAX_READERS

_KEYS = {Scope.USER: "user_id", Scope.GROUP: "group_id"}
_CACHED = 4096
Restriction = dict[str, list[dict[str, str]] | bool]
HIDDEN: list[Restriction] = [{"principals": [{"user_id": NO_USER}]}]
PUBLIC: list[Restriction] = [{"idp_wide": True}]


@lru_cache(maxsize=_CACHED)
def readers_of_document(acl: Acl | None) -> list[Restriction]:
    """Return the restrictions of a document; raise RecordError if they cannot state its ACL."""
    readers = readers_of(acl, lists=MAX_READERS)
    if readers == EVERYONE:
        return PUBLIC
    if readers == NOBODY:
        return HIDDEN
    count = sum(map(len, readers))
    if count > MAX_READERS:
        raise RecordError("acl-too-large", f"{count} principals; expected at most {MAX_READERS}")
    return [
        {"principals": [{_KEYS[each.scope]: name_of(each, namespace=None)} for each in of_list]}
        for of_list in readers
    ]
