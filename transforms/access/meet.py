"""The meet of two decisions about one document, and what changes from one to the other.

Decisions are fields of a search index, as in `index_fields`. The meet permits a user only if both
decisions do.
"""

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest

from feedferry.schemas.acl import Access
from feedferry.transforms.access.decision import PARTS, member_of
from feedferry.transforms.access.index_fields import (
    EVERYONE,
    PARTS_OF_FIELDS,
    AccessFields,
    permits,
    principal_of_token,
    public_fields,
    tokens_of,
)

_CACHED, _CACHED_TOKENS = 256, 32_768

Tokens = frozenset[str]
_Layer = tuple[Tokens, Tokens]
"""The denials and the permits of a layer."""

_Part = tuple[_Layer, ...]
"""The layers of a part, always `LAYERS` of them; one of them has a permit."""

_NAMES = PARTS_OF_FIELDS

AccessKey = frozenset[tuple[str, Tokens]]
"""Fields that can be compared and hashed; fields without tokens are absent."""


class AclChange(enum.Enum):
    """A change by a run in who sees a document."""

    WIDER = "wider"
    """More users see it, and none fewer."""

    BOTH = "both"
    """Some users see it who did not, and some no longer do, or neither can be excluded."""

    NARROWER = "narrower"
    HIDDEN = "hidden"
    """No user sees it any longer, though the index has it."""

    GONE = "gone"
    NEW = "new"
    SAME = "same"


def access_key(fields: Mapping[str, Collection[str]]) -> AccessKey:
    """Return fields as a key, in which tokens have no order."""
    return frozenset((name, frozenset(tokens)) for name, tokens in fields.items() if tokens)


HIDDEN_KEY = access_key({})


def meet(first: AccessKey, second: AccessKey) -> AccessKey:
    """Return a decision that permits only users whom both permit.

    It permits all of them if the different parts of both are at most `PARTS`. Otherwise the parts
    are joined by their numbers, layer by layer: the denials of both, and the permits that both
    have. No user is added by that. If a part permits a user, the user has a permit in a layer, and
    no denial in it or in one before it. With more permits and fewer denials in each layer, the user
    still has that permit and none of these denials, or a permit in an earlier layer. So each of the
    two parts permits whom the joined part permits.
    """
    parts, others = _parts(first), _parts(second)
    if parts is None or others is None:
        return HIDDEN_KEY
    needed = list[_Part]()
    for part in (*parts, *others):
        if not any(_is_within(held, part) for held in needed):
            needed = [held for held in needed if not _is_within(part, held)]
            needed.append(part)
    if len(needed) > PARTS:
        needed = [
            _joined(part, other) if part and other else part or other
            for part, other in zip_longest(parts, others, fillvalue=())
        ]
    return _key_of_parts(needed)


def narrowed(held: AccessKey, sent: AccessKey) -> AccessKey | None:
    """Return the meet of the decision that an index has with another one, None if it is the same.

    It is the same if the other one permits whom the first one permits.
    """
    found = held if is_within(held, sent) else meet(held, sent)
    return None if found == held else found


def is_within(first: AccessKey, second: AccessKey) -> bool:
    """Whether a decision is known to permit only users whom another one permits."""
    parts, others = _parts(first), _parts(second)
    if parts is None or others is None:
        return parts is None
    return all(any(_is_within(part, other) for part in parts) for other in others)


def change_of(held: AccessKey | None, sent: AccessKey | None) -> AclChange:
    """Return the change from the decision that an index has; None where there is no document."""
    if held is None or sent is None:
        if held is sent:
            return AclChange.SAME
        return AclChange.NEW if held is None else AclChange.GONE
    if is_within(held, sent):
        return AclChange.SAME if is_within(sent, held) else AclChange.WIDER
    if _parts(sent) is None:
        return AclChange.HIDDEN
    return AclChange.NARROWER if is_within(sent, held) else AclChange.BOTH


def gained_and_lost(held: AccessKey, sent: AccessKey) -> tuple[list[str], list[str]]:
    """Return the tokens that see a document only afterwards, and those that no longer do.

    Each token that a decision names is taken for a user or group without others. Where that shows
    no difference, as with two parts, they are the tokens that only one of the decisions has: a
    permit is gained, and a denial is lost.
    """
    before, after = _fields(held), _fields(sent)
    named = {token: _tokens_alone(token) for _, tokens in held | sent for token in sorted(tokens)}
    named.setdefault(EVERYONE, _tokens_alone(EVERYONE))
    seen = {token: permits(before, alone) for token, alone in named.items()}
    sees = {token: permits(after, alone) for token, alone in named.items()}
    gained = sorted(token for token in named if sees[token] and not seen[token])
    lost = sorted(token for token in named if seen[token] and not sees[token])
    if not gained and not lost:
        added, removed = _only_in(sent, held), _only_in(held, sent)
        gained, lost = (sorted(added[at] | removed[1 - at]) for at in (1, 0))
    return _everyone_alone(gained), _everyone_alone(lost)


def fields_of_key(key: AccessKey) -> AccessFields:
    """Return fields in a fixed order."""
    return {name: sorted(tokens) for name, tokens in sorted(key)}


def _fields(key: AccessKey) -> dict[str, Tokens]:
    return dict(key)


@lru_cache(maxsize=_CACHED_TOKENS)
def _tokens_alone(token: str) -> Tokens:
    """Return the tokens of a search by one user or group."""
    if token == EVERYONE:
        return frozenset({EVERYONE})
    return frozenset(tokens_of([member_of(principal_of_token(token, Access.PERMIT))]))


def _everyone_alone(tokens: list[str]) -> list[str]:
    return [EVERYONE] if EVERYONE in tokens else tokens


def _only_in(key: AccessKey, other: AccessKey) -> tuple[Tokens, Tokens]:
    """Return the denials, and the permits, of a decision that another one lacks in that field."""
    held = dict(other)
    only = [(name, tokens - held.get(name, frozenset())) for name, tokens in key]
    of_kind = ((tokens for name, tokens in only if kind in name) for kind in ("_deny_", "_permit_"))
    denied, permitted = (frozenset[str]().union(*tokens) for tokens in of_kind)
    return denied, permitted


@lru_cache(maxsize=_CACHED)
def _parts(key: AccessKey) -> tuple[_Part, ...] | None:
    """Return the parts that not all users pass; None if a part permits no user."""
    fields = _fields(key)
    parts = []
    for names in _NAMES:
        layers = tuple(
            (fields.get(deny, frozenset()), fields.get(permit, frozenset()))
            for deny, permit in names
        )
        if not any(permitted for _, permitted in layers):
            return None
        denied, permitted = layers[0]
        if denied or EVERYONE not in permitted:
            parts.append(layers)
    return tuple(parts)


def _is_within(part: _Part, other: _Part) -> bool:
    """Whether a part permits only users whom another one permits; see `meet`."""
    return all(
        of_other[0] <= layer[0] and layer[1] <= of_other[1]
        for layer, of_other in zip(part, other, strict=True)
    )


def _joined(part: _Part, other: _Part) -> _Part:
    return tuple(
        (layer[0] | of_other[0], layer[1] & of_other[1])
        for layer, of_other in zip(part, other, strict=True)
    )


def _key_of_parts(parts: Sequence[_Part]) -> AccessKey:
    fields: dict[str, Iterable[str]] = {**public_fields()}
    for names, part in zip(_NAMES, parts, strict=False):
        if not any(permitted for _, permitted in part):
            return HIDDEN_KEY
        for (deny, permit), (denied, permitted) in zip(names, part, strict=True):
            fields |= {deny: denied, permit: permitted}
    return frozenset((name, frozenset(tokens)) for name, tokens in fields.items() if tokens)
