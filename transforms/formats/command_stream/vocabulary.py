"""The commands of streams, and the values that they have."""

from feedferry.schemas.acl import Access, Inheritance, Scope

PAIRS = {"meta-name": "meta-value", "param-name": "param-value", "anchor-uri": "anchor-text"}
"""The commands that come in pairs: the second by the first."""

PRINCIPALS = {
    "acl-permit-user": (Scope.USER, Access.PERMIT),
    "acl-deny-user": (Scope.USER, Access.DENY),
    "acl-permit-group": (Scope.GROUP, Access.PERMIT),
    "acl-deny-group": (Scope.GROUP, Access.DENY),
}
CASES = {"acl-case-sensitive": True, "acl-case-insensitive": False}
ACL_SETTINGS = (
    *("acl", "namespace", "acl-inherit-from", "acl-inherit-fragment", "acl-inheritance-type"),
    *CASES,
)
LISTED_FLAGS = ("crawl-immediately", "crawl-once", "lock")
FLAGS = ("secure", "no-index", "no-follow", "no-archive", "crawl-once", "lock")
"""The flags of documents; fields of `Crawl` have the same names as flags."""

LISTER = frozenset({"last-modified", "result-link", "delete", *LISTED_FLAGS})
"""The commands of a lister, except `id`."""

RETRIEVER = frozenset(
    {
        *("last-modified", "up-to-date", "not-found", "mime-type", "display-url", "content"),
        *(*FLAGS, *PAIRS, *PAIRS.values(), *PRINCIPALS, *ACL_SETTINGS),
    }
)
"""The commands of a retriever, except `id`."""

COMMAND_NAMES = LISTER | RETRIEVER | {"id", "id-list", "repository-unavailable", "authz-status"}
"""The commands that the deployed parser knows."""

USERS = ("username", "user", "password", "group")
"""Commands of a question to an authorizer, which the deployed parser does not know."""

INHERITANCES = {kind.value.lower().replace("_", "-"): kind for kind in Inheritance}
"""The values of `acl-inheritance-type`."""

STATUSES = ("PERMIT", "DENY", "INDETERMINATE")
"""The values of `authz-status`."""

# Commands without a field of the record are extras at these places.
PLACE = "stream/"
STATUS = PLACE + "authz-status"
USERNAME = PLACE + "username"
GROUP = PLACE + "group"
PARAM = PLACE + "param/"
"""Place of a `param-name` and its `param-value`, followed by the name."""
