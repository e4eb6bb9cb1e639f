"""The attributes of gsafeeds and groups feeds, a row each, in the order in which they are written.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Google Search Appliance Feed DTD" and "Feeding
Groups to the Search Appliance", with the `feedrank` of its prose; the same of release 5.0.
"""

from feedferry.schemas.acl import Access, Scope
from feedferry.schemas.record import (
    FEEDRANKS,
    PAGERANKS,
    Action,
    Authmethod,
    Encoding,
    Scoring,
)
from feedferry.transforms.formats.base import StatedValue
from feedferry.transforms.formats.holding.acl_metadata import BLANKS, INHERITANCE
from feedferry.transforms.formats.holding.values import range_text
from feedferry.transforms.formats.text.dates import parse_date, rfc1123
from feedferry.transforms.formats.xml.rows import Codec, ElementRows, Row, choices, names_of

_RANK_DIGITS = 9
_OF_GROUP = ("action", "pagerank", "feedrank")


def _rank(allowed: range) -> Codec:
    """Return the codec of a rank; the reader keeps one that is out of range."""
    return Codec(_read_rank, str, range_text(allowed))


def _read_rank(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _RANK_DIGITS else None


def _in_any_case(codec: Codec) -> Codec:
    """Return the codec with names in any case, with `_` or `-`: the guide spells them both ways."""
    values = {_fold(name): codec.decode(name) for name in codec.names}
    return codec._replace(decode=lambda text: values.get(_fold(text)))


def _fold(name: str) -> str:
    return name.strip(BLANKS).upper().replace("-", "_")


ACTION = choices({"add": Action.ADD, "delete": Action.DELETE})
_WRITTEN_ACTION = Codec(ACTION.decode, {Action.DELETE: "delete"}.get, names=ACTION.names)
_BASE64 = choices({"base64binary": Encoding.BASE64})
ENCODING = choices(
    {"base64binary": Encoding.BASE64, "base64compressed": Encoding.ZLIB_BASE64},
    expected="base64binary, base64compressed or no encoding",
)
_BOOLEAN = choices({"true": True, "false": False})
_DATE = Codec(parse_date, rfc1123, "a date")
_UNQUALIFIED = choices({"unqualified": True})
_OLD_METHODS = names_of(kind for kind in Authmethod if kind is not Authmethod.NEGOTIATE)
_CASES = choices({"EVERYTHING_CASE_SENSITIVE": True, "EVERYTHING_CASE_INSENSITIVE": False})
_SCOPES = choices({"USER": Scope.USER, "GROUP": Scope.GROUP})

RECORD = ElementRows(
    "record",
    Row("url", "url", is_required=True),
    Row("displayurl", "crawl.display_url"),
    Row("action", "action", _WRITTEN_ACTION),
    Row("lock", "crawl.lock", _BOOLEAN),
    Row("mimetype", "mimetype", is_required=True),
    Row("last-modified", "modified", _DATE),
    Row("authmethod", "crawl.authmethod", names_of(Authmethod), old=_OLD_METHODS),
    Row("pagerank", "crawl.pagerank", _rank(PAGERANKS)),
    Row("feedrank", "crawl.feedrank", _rank(FEEDRANKS), is_new=True),
    Row("crawl-immediately", "crawl.crawl_immediately", _BOOLEAN, is_new=True),
    Row("crawl-once", "crawl.crawl_once", _BOOLEAN, is_new=True),
    Row("scoring", "crawl.scoring", names_of(Scoring), is_new=True),
)
GROUP = ElementRows("group", *(row for row in RECORD.rows if row.name in _OF_GROUP))
HINTS = ElementRows("record", *(row for row in RECORD.rows if row.struct))
METADATA = ElementRows(
    "record/metadata", Row("overwrite-acls", "overwrite_acls", _BOOLEAN, is_new=True)
)
META = ElementRows(
    "record/metadata/meta",
    Row("encoding", "encoding", _BASE64, is_new=True),
    Row("name", "name", is_required=True),
    Row("content", "value", is_required=True),
    code="bad-meta",
    owner=" of a meta",
)
CONTENT = ElementRows(
    "record/content",
    Row("encoding", "encoding", ENCODING, old=_BASE64),
    code="bad-encoding",
    owner=" of a content",
)
ACL = ElementRows(
    "record/acl",
    Row("inheritance-type", "inheritance", INHERITANCE),
    Row("inherit-from", "inherit_from"),
    code="bad-acl",
)
ACL_ALONE = ElementRows("acl", Row("url", "url"), *ACL.rows, code="bad-acl")
PRINCIPAL = ElementRows(
    "record/acl/principal",
    Row("scope", "scope", names_of(Scope), is_required=True),
    Row("access", "access", names_of(Access), is_required=True),
    Row("namespace", "namespace"),
    Row(
        "case-sensitivity-type",
        "case_sensitive",
        choices({"everything-case-sensitive": True, "everything-case-insensitive": False}),
    ),
    Row("principal-type", "unqualified", _UNQUALIFIED, names_owner=False),
    code="bad-acl",
    owner=" of a principal",
)
MEMBERSHIP = ElementRows("membership", Row("source", "origin"))
MEMBERS = ElementRows("membership/members")
MEMBER = ElementRows(
    "membership/principal",
    Row("case-sensitivity-type", "case_sensitive", _in_any_case(_CASES)),
    Row("namespace", "namespace"),
    Row("principal-type", "unqualified", _in_any_case(_UNQUALIFIED)),
    Row("scope", "scope", _in_any_case(_SCOPES), is_required=True),
    code="bad-membership",
)
"""In alphabetical order, as deployed programs write them."""


def stated_values() -> dict[str, StatedValue]:
    """Return the values of a known form, by the place of an extra that has another form."""
    return RECORD.stated_values("@") | METADATA.stated_values("@")
