"""The codes of elements, one letter for each of a record in their order, and what they state."""

import re
from functools import lru_cache
from typing import NamedTuple

RECORD, RECORD_WITH_CONTENT, DELETION, CLOSED_RECORD = "R", "S", "Q", "E"
PARENTED_ACL, ACL, END_ACL = "A", "B", "a"
PERMIT, DENY = "P", "D"
METADATA, META, END_METADATA = "M", "m", "n"
CONTENT, END_CONTENT = "C", "c"
END_NAME, END_RECORD = "p", "r"
LOST = "-"
"""The code of an element that a target cannot hold, in the form of a writer."""

LOST_FIELDS = {ACL: "acl", PERMIT: "acl", META: "metadata", CONTENT: "content"}
"""The one field that is lost with such an element, by its code in the output of a writer."""

ALONE, CLOSED_ALONE = "X", "Y"
"""The codes of elements; those of an element that is not known, or whose values are not neutral."""

RECORDS = (RECORD, RECORD_WITH_CONTENT, DELETION, CLOSED_RECORD)
ACLS, PRINCIPALS = (PARENTED_ACL, ACL), (PERMIT, DENY)
SIGNED = (*RECORDS, *ACLS, CONTENT)
"""The codes of elements which are once in a record."""

WRITTEN_CODES = {
    **dict.fromkeys(RECORDS, RECORD),
    **dict.fromkeys(ACLS, ACL),
    **dict.fromkeys(PRINCIPALS, PERMIT),
    META: META,
    CONTENT: CONTENT,
}
"""The codes of elements with values in the output of a writer, by their own codes."""

CONTENT_MARK = "\3"
"""Is in place of a content in the text of a block; no text of XML has it."""

_WHOLE = re.compile(
    f"{CLOSED_RECORD}|[{RECORD}{RECORD_WITH_CONTENT}{DELETION}]"
    f"(?:[{ACL}{PARENTED_ACL}](?:[{PERMIT}{DENY}]{END_NAME})*{END_ACL}"
    f"|{METADATA}{META}*{END_METADATA}|{CONTENT}{END_CONTENT})*{END_RECORD}"
)
_REPEATED = re.compile(r"(.{1,2}?)\1+")


class ElementPlaces(NamedTuple):
    """The places of the elements of a record, from its first one on; they end before `*_end`."""

    order: str
    """The codes of a record without repetitions, and with one code for all principals."""

    acl: int
    principals_end: int
    metadata: int
    metadata_end: int
    content: int


@lru_cache(maxsize=4096)
def places_of(codes: str) -> ElementPlaces | None:
    """Return the places of elements; None if the record must be parsed.

    That is so with an element that is not known, and with two of what a record has once.
    """
    ends = END_ACL, END_METADATA, END_CONTENT
    if not _WHOLE.fullmatch(codes) or max(map(codes.count, ends)) > 1:
        return None
    acl = max(codes.find(ACL), codes.find(PARENTED_ACL))
    found = map(codes.find, (END_ACL, METADATA, END_METADATA, CONTENT))
    return ElementPlaces(_REPEATED.sub(r"\1", codes.replace(DENY, PERMIT)), acl, *found)
