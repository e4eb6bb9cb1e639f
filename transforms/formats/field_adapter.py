"""An adapter for formats that hold some fields of a record, and lose the others."""

from collections.abc import Callable

from schemas.errors import RecordError
from schemas.record import Action, Record
from schemas.reject import Filtered
from transforms.formats.adapt_rules import (
    HINTS,
    Draft,
    is_alone,
    left_out,
    lose_acl,
    lose_content,
    lose_extras,
    lose_fields,
    lose_hints,
    lose_history,
    lose_protection,
    rejected,
)
from transforms.formats.target import Adapted, Adapter, Target

_SINGLE_FIELDS = (
    *("mimetype", "charset", "size", "title", "description", "keywords", "body"),
    *("modified", "visited", "next_check", "overwrite_acls"),
)
_LISTS = ("categories", "metadata", "fields")
_REFUSED = {
    Action.UPDATE: "partial-update",
    Action.DELETE_PATTERN: "delete-pattern",
}


def hold_fields(*fields: str) -> Callable[[Target], Adapter]:
    """Return the `Format.adapter` of a format that holds the URL, deletions and these fields.

    Every other field becomes a loss under its name. Partial updates and deletions by pattern are
    rejected.
    """
    lost = tuple(name for name in _SINGLE_FIELDS if name not in fields)
    lost_lists = tuple(name for name in _LISTS if name not in fields)

    def adapt(record: Record) -> Adapted:
        if record.action is Action.UPDATE_INDEX:
            return (Filtered(code="update-index", url=record.url, action=record.action.value),), ()
        if (code := _REFUSED.get(record.action)) is not None:
            reason = f"{record.action.value}; expected a whole document or its deletion"
            return rejected(record, RecordError(code, reason))
        draft = Draft(record)
        if "acl" not in fields:
            if is_alone(record):
                return left_out(draft)
            lose_protection(draft)
            lose_acl(draft)
        if "content" not in fields:
            lose_content(draft)
        lose_fields(draft, lost)
        for name in lost_lists:
            values = getattr(draft.record, name)
            if values:
                draft.lose(name, str(len(values)))
                draft.change(**{name: ()})
        if "crawl" not in fields:
            lose_hints(draft, HINTS)
        if "history" not in fields:
            lose_history(draft)
        if "extras" not in fields:
            lose_extras(draft, ())
        return draft.finish()

    return lambda _target: adapt
