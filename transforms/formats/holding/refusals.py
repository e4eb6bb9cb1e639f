"""The kinds of records that a target rejects, and why."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Action, Arrival, Record
from feedferry.transforms.formats.base import Holds, Kind, KindRefusal, Target
from feedferry.transforms.formats.holding.adapt_rules import TEXTS, is_alone
from feedferry.transforms.formats.holding.values import is_absolute

# A look-up in the enum costs ten times as much.
_ADD, _DELETE, _UPDATE = Action.ADD, Action.DELETE, Action.UPDATE
_UPDATE_INDEX, _DELETE_PATTERN = Action.UPDATE_INDEX, Action.DELETE_PATTERN
_EXPANDS = "⟦known_urls⟧ lists the URLs that patterns are matched with"
REFUSALS = {
    Kind.DELETION: KindRefusal(
        "deletion", "a deletion; expected a document: {format} has no deletions"
    ),
    Kind.UPDATE: KindRefusal(
        "partial-update",
        "an update of some fields; expected a whole document, as {format} replaces all",
    ),
    Kind.PATTERN: KindRefusal(
        "delete-pattern",
        "a deletion by the pattern {url!r}; expected one of a URL, as {format} has no patterns",
    ),
    Kind.WIDE: KindRefusal(
        "wide-delete",
        "a deletion by the pattern {url!r}; expected a pattern that names part of a path, because"
        " this one empties a host or more; ⟦allow_wide_deletes⟧ allows it",
    ),
    Kind.CRAWLED: KindRefusal(
        "crawled",
        "a URL to be crawled; expected a document, as {format} has no such URLs; the crawler takes"
        " them as a list",
    ),
    Kind.DOCUMENT_ID: KindRefusal(
        "url-not-absolute",
        "url={url!r}; expected an absolute URL, as in http://host/path: ⟦base_url⟧ completes"
        " document ids and paths",
    ),
}
"""Why a kind of record that a format does not hold is rejected."""
_UNHELD = {
    _DELETE: Kind.DELETION,
    Action.UPDATE: Kind.UPDATE,
    _DELETE_PATTERN: Kind.PATTERN,
}
KINDS = {
    _ADD: (Kind.CRAWLED, Kind.EMPTY),
    Action.UPDATE: (Kind.UPDATE, Kind.UPDATE_OF_FIELDS, Kind.UPDATE_OF_NOTHING),
    _DELETE: (Kind.DELETION,),
    _DELETE_PATTERN: (Kind.PATTERN, Kind.WIDE),
}
"""The kinds of records of an action that a format may refuse."""
_ACTIONS = {kind: action for action, kinds in KINDS.items() for kind in kinds}
_STATED = ("body", "content", "metadata", "fields", "extras")


def refusal_of(kind: Kind, holds: Holds, target: Target) -> KindRefusal | None:
    """Return why a target rejects a kind of record, None if it does not."""
    if kind in holds.refuses:
        return holds.refuses[kind]
    action = _ACTIONS.get(kind, _ADD)
    if action not in holds.actions:
        refusal = REFUSALS[_UNHELD[action]]
        expands = action is _DELETE_PATTERN and _DELETE in holds.actions
        return refusal._replace(reason=f"{refusal.reason}; {_EXPANDS}") if expands else refusal
    is_unheld = {
        Kind.DOCUMENT_ID: holds.absolute_urls,
        Kind.CRAWLED: "content" in holds.fields and "arrival" not in holds.fields,
        Kind.WIDE: not target.allow_wide_deletes,
    }
    return REFUSALS[kind] if is_unheld.get(kind) else None


def refuse_kind(record: Record, holds: Holds, target: Target) -> None:
    """Raise RecordError for a record of a kind that the target rejects."""
    for kind in _kinds_of(record, holds):
        if refusal := refusal_of(kind, holds, target):
            reason = refusal.reason.format(url=record.url, format=target.format)
            raise RecordError(refusal.code, reason)


def _kinds_of(record: Record, holds: Holds) -> Iterator[Kind]:
    """Yield the kinds of a record that formats may refuse.

    An update is one of single fields if it has nothing that the format replaces as a whole.
    """
    action = record.action
    if action is _UPDATE_INDEX:
        return
    if action is not _DELETE_PATTERN and not is_absolute(record.url):
        yield Kind.DOCUMENT_ID
    if is_alone(record):
        yield Kind.ALONE
    if action not in holds.actions:
        yield _UNHELD[action]
    elif is_alone(record):
        return
    elif action is _DELETE_PATTERN:
        yield Kind.WIDE if record.is_wide_deletion else Kind.PATTERN
    elif action is _ADD:
        is_empty = record.content is None and record.body is None
        crawled = Kind.CRAWLED if record.arrival is Arrival.CRAWLED else Kind.EMPTY
        yield crawled if is_empty else Kind.CONTENT
    elif action is _DELETE:
        yield Kind.DELETION
    elif _has_whole_part(record, holds.fields):
        yield Kind.UPDATE
    else:
        is_stated = any(getattr(record, name) for name in (*TEXTS, *_STATED))
        yield Kind.UPDATE_OF_FIELDS if is_stated else Kind.UPDATE_OF_NOTHING


def _has_whole_part(record: Record, held: AbstractSet[str]) -> bool:
    """Whether an update has a part that the format replaces as a whole."""
    return bool(
        (record.metadata and "metadata" in held)
        or (record.acl is not None and "acl" in held)
        or (record.content is not None and "content" in held)
        or (record.body is not None and not held.isdisjoint(("body", "content")))
    )
