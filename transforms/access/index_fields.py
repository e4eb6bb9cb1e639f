"""The decision about a document as fields of a search index, and the filter of a search.

An index has no ACLs, but a filter of a search is a Boolean expression. A document has the tokens of
a decision in three parts of three layers, one field for the denials and one for the permits of each
layer. The filter is the same for all documents:

- A part permits if a permit of its first layer has a token of the user and no denial has one;
  or, if neither has one, if its next layer permits.
- All parts must permit.

A field that is missing permits nobody, so that a document without these fields is hidden. A part
that is not used permits everyone.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache
from urllib.parse import quote, unquote

import msgspec

from feedferry.schemas.acl import Access, Acl, AclLayer, Principal, Scope, identity
from feedferry.schemas.errors import RecordError
from feedferry.schemas.membership import Member
from feedferry.transforms.access.decision import (
    LAYERS,
    PARTS,
    ChainDecision,
    DecisionPart,
    Entries,
    Layer,
    fit,
)

EVERYONE = "*"
"""The token that each search has."""

_UNESCAPED = " @._-"
_CACHED = 32_768
_KINDS = {Scope.USER: "u", Scope.GROUP: "g"}
_SCOPES = {letter: scope for scope, letter in _KINDS.items()}
_CASES = {"s": True, "i": False}

AccessFields = dict[str, list[str]]
"""The tokens of each field; fields without tokens are absent."""


@cache
def _names(part: int, layer: int) -> tuple[str, str]:
    return f"acl_{part}_deny_{layer}", f"acl_{part}_permit_{layer}"


PARTS_OF_FIELDS = [
    [_names(part, layer) for layer in range(1, LAYERS + 1)] for part in range(1, PARTS + 1)
]
"""By part and layer, the names of the fields of its denials and of its permits."""


def field_names() -> list[str]:
    """Return the names of all fields, in the order of the filter.

    >>> field_names()[:4]
    ['acl_1_deny_1', 'acl_1_permit_1', 'acl_1_deny_2', 'acl_1_permit_2']
    """
    return [
        name
        for part in range(1, PARTS + 1)
        for layer in range(1, LAYERS + 1)
        for name in _names(part, layer)
    ]


@lru_cache(maxsize=_CACHED)
def token(principal: Principal | Member) -> str:
    r"""Return the token of a principal: its scope, whether case counts, namespace and name.

    It has no character that JSON escapes: OpenSearch Security puts the roles of a user into the
    query of a role as they are, so that a backslash or a quotation mark would change its meaning.

    >>> token(Member(name="ACME\\Bob", scope=Scope.USER, case_sensitive=False))
    'ui:Default:acme%5Cbob'
    """
    namespace, name = identity(principal.namespace, principal.name)
    counts = principal.case_sensitive is not False
    name = name if counts else name.casefold()
    kind = _KINDS[principal.scope] + ("s" if counts else "i")
    return f"{kind}:{quote(namespace, safe=_UNESCAPED)}:{quote(name, safe=_UNESCAPED)}"


def tokens_of(members: Iterable[Member]) -> list[str]:
    """Return the tokens of a search for a user: of the user and of all groups of the user.

    Each name has two, as the principal of a document states whether case counts.
    """
    found = {EVERYONE: None}
    for member in members:
        for counts in (True, False):
            found[token(msgspec.structs.replace(member, case_sensitive=counts))] = None
    return [*found]


def public_fields() -> AccessFields:
    """Return the fields of a document that everyone may see."""
    return {_names(part, 1)[1]: [EVERYONE] for part in range(1, PARTS + 1)}


def hidden_fields() -> AccessFields:
    """Return the fields of a document that is shown to nobody."""
    return {}


def withheld_fields() -> AccessFields:
    """Return the fields of a document that is shown to no user until its next version comes.

    The denial of everyone distinguishes it: no ACL denies the token that each search has.
    """
    return {_names(1, 1)[0]: [EVERYONE]}


def fields_of(decision: ChainDecision) -> AccessFields | None:
    """Return the fields of a decision; None if they cannot hold it exactly."""
    fitted = fit(decision)
    if fitted is None:
        return None
    fields = public_fields()
    for number, part in enumerate(fitted.parts, 1):
        fields.pop(_names(number, 1)[1])
        fields |= _fields_of_part(number, part)
    return fields


def search_filter(tokens: Collection[str]) -> dict[str, object]:
    """Return the filter of a search, as a query of OpenSearch and Elasticsearch.

    `tokens` are those of `tokens_of`.
    """
    held = [*tokens]
    return {"bool": {"filter": [_part_filter(part, 1, held) for part in range(1, PARTS + 1)]}}


def permits(fields: Mapping[str, Collection[str]], tokens: Collection[str]) -> bool:
    """Return whether a search with these tokens finds a document with these fields."""

    def names_user(name: str) -> bool:
        return not {*fields.get(name, ())}.isdisjoint(tokens)

    def part_permits(part: int) -> bool:
        for layer in range(1, LAYERS + 1):
            deny, permit = _names(part, layer)
            if names_user(deny):
                return False
            if names_user(permit):
                return True
        return False

    return all(part_permits(part) for part in range(1, PARTS + 1))


def _fields_of_part(number: int, part: DecisionPart) -> AccessFields:
    fields: AccessFields = {}
    for at, layer in enumerate(part.layers, 1):
        for name, entries in zip(_names(number, at), _entries(layer), strict=True):
            if entries:
                fields[name] = [*dict.fromkeys(map(token, entries.values()))]
    return fields


def _entries(layer: Layer) -> tuple[Entries, Entries]:
    return layer.denies, layer.permits


def _part_filter(part: int, layer: int, tokens: list[str]) -> dict[str, object]:
    deny, permit = _names(part, layer)
    ways: list[dict[str, object]] = [{"terms": {permit: tokens}}]
    if layer < LAYERS:
        ways.append(_part_filter(part, layer + 1, tokens))
    return {
        "bool": {
            "must_not": [{"terms": {deny: tokens}}],
            "filter": [{"bool": {"should": ways, "minimum_should_match": 1}}],
        }
    }


def acl_of_fields(fields: Mapping[str, Collection[str]]) -> Acl | None:
    """Return the ACL that the fields of a document state, None for one that everyone may see.

    Raise RecordError for a token that is none.
    """
    if EVERYONE in fields.get(_names(1, 1)[0], ()):
        return Acl(withholds=True)
    if all(_is_unused(fields, part) for part in range(1, PARTS + 1)):
        return None
    used = [part for part in range(1, PARTS + 1) if not _is_unused(fields, part)]
    permitted = [
        any(_names(part, layer)[1] in fields for layer in range(1, LAYERS + 1)) for part in used
    ]
    if not all(permitted):
        return Acl()  # a part that permits nobody
    layers = tuple(
        AclLayer(part=number, principals=principals)
        for number, part in enumerate(used)
        for layer in range(1, LAYERS + 1)
        if (principals := _principals(fields, part, layer)) or layer == 1
    )
    if len(layers) == 1:
        return Acl(principals=layers[0].principals)
    return Acl(decision=layers)


def _is_unused(fields: Mapping[str, Collection[str]], part: int) -> bool:
    """Whether a part permits everyone."""
    return EVERYONE in fields.get(_names(part, 1)[1], ())


def _principals(
    fields: Mapping[str, Collection[str]], part: int, layer: int
) -> tuple[Principal, ...]:
    named = zip(_names(part, layer), (Access.DENY, Access.PERMIT), strict=True)
    return tuple(
        principal_of_token(token_, access)
        for name, access in named
        for token_ in fields.get(name, ())
    )


def principal_of_token(stated: str, access: Access) -> Principal:
    """Return the principal of a token; raise RecordError for a text that is none."""
    kind, _, rest = stated.partition(":")
    namespace, colon, name = rest.partition(":")
    if len(kind) != 2 or kind[0] not in _SCOPES or kind[1] not in _CASES or not colon:
        raise RecordError("bad-token", f"{stated!r}; expected a token such as ui:Default:bob")
    return Principal(
        name=unquote(name),
        scope=_SCOPES[kind[0]],
        access=access,
        namespace=unquote(namespace),
        case_sensitive=_CASES[kind[1]],
    )


def security_role(index: str) -> dict[str, object]:
    """Return a role of OpenSearch Security that filters all searches of an index.

    The tokens of a user are the backend roles of the user, `*` included. Without it, or without
    backend roles, the user finds nothing.
    """
    roles = "${user.roles}"
    filter_text = msgspec.json.encode(search_filter([roles])).decode()
    permission = {
        "index_patterns": [index, f"{index}-*"],
        "dls": filter_text.replace(f'"{roles}"', roles),
        "allowed_actions": ["read"],
    }
    return {"index_permissions": [permission]}
