"""The rules that leave of a record what a format holds: one for each part of a record."""

from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from feedferry.schemas.record import Record
from feedferry.transforms.formats.base import FIELDS, HINTS, Holds
from feedferry.transforms.formats.holding.adapt_rules import (
    NO_HINTS,
    NOTHING,
    TEXTS,
    Draft,
    body_as_content,
    fields_as_metadata,
    fit_protection,
    keep_extras,
    lose_content,
    lose_fields,
    lose_hints,
    texts_as_metadata,
)

_TYPES = ("mimetype", "charset")
_PLAIN_FIELDS = (
    *(*_TYPES, "size", "visited", "next_check", "overwrite_acls", "title", "description"),
    *("keywords", "modified", "categories", "metadata", "fields", "history"),
)


class LosingRule(NamedTuple):
    """A rule, and the fields of a record of which it needs at least one."""

    fields: tuple[str, ...]
    apply: Callable[[Draft], None]


def losing(holds: Holds) -> Callable[[Draft], None]:
    """Return the rule that leaves of a record what a format holds; all else is a loss.

    Three things move instead: a body to the content, texts and fields to the metadata, and the
    protection of a document to the hint that the format has.
    """
    held = holds.fields
    needed = tuple(
        (*_stating(rule.fields), rule.apply) for make in _RULES if (rule := make(holds)) is not None
    )
    unheld_fields = FIELDS.difference(held, HINTS, ("arrival", "provenance"))
    unheld, nothing = _stating(("extras", *unheld_fields))
    unheld_hints = attrgetter(*(_lost_hints(holds) or HINTS))
    no_hints = unheld_hints(NO_HINTS)
    has_names = not held >= {"acl", "metadata"}

    def lose(draft: Draft) -> None:  # most records need no rule
        record, crawl = draft.record, draft.record.crawl
        has_hints = crawl is not None and unheld_hints(crawl) != no_hints
        if has_hints or unheld(record) != nothing:
            for stated, default, apply in needed:
                if stated(record) != default:
                    apply(draft)
        elif has_names and record.metadata:
            fit_protection(draft, held)

    return lose


def _stating(names: Iterable[str]) -> tuple[Callable[[Record], object], object]:
    """Return a function that gets the values of some fields of a record, and the empty values."""
    get = attrgetter(*names)
    return get, get(NOTHING)


def _protection(holds: Holds) -> LosingRule | None:
    """State the protection of a document other than its ACL in the hint that the format has."""
    return LosingRule(("crawl", "metadata"), partial(fit_protection, held=holds.fields))


def _acl(holds: Holds) -> LosingRule | None:
    """Lose the ACL."""
    return None if "acl" in holds.fields else _losing_fields("acl")


def _content(holds: Holds) -> LosingRule | None:
    """Lose the content; a body stays where it is held."""
    if "content" in holds.fields:
        return None
    return LosingRule(("content", "body"), partial(lose_content, keeps_body="body" in holds.fields))


def _plain_fields(holds: Holds) -> LosingRule | None:
    """Lose the fields that have no other place."""
    lost = [name for name in _PLAIN_FIELDS if name not in {*holds.fields, *_moved(holds)}]
    return _losing_fields(*lost) if lost else None


def _body(holds: Holds) -> LosingRule | None:
    """Make a body the content."""
    if "content" not in holds.fields or "body" in holds.fields:
        return None
    return LosingRule(("body",), partial(body_as_content, unheld={*_TYPES} - holds.fields))


def _texts(holds: Holds) -> LosingRule | None:
    """Put texts into the metadata."""
    names = tuple(name for name in TEXTS if name in _moved(holds))
    move = partial(texts_as_metadata, names=names, keeps_empty=holds.empty_metadata)
    return LosingRule(names, move) if names else None


def _named_fields(holds: Holds) -> LosingRule | None:
    """Put named fields into the metadata."""
    return LosingRule(("fields",), fields_as_metadata) if "fields" in _moved(holds) else None


def _hints(holds: Holds) -> LosingRule | None:
    """Lose hints for crawling, ranking and showing."""
    lost = _lost_hints(holds)
    return LosingRule(("crawl",), partial(lose_hints, names=lost)) if lost else None


def _extras(holds: Holds) -> LosingRule | None:
    """Lose the extras of other formats."""
    if holds.extras == ("",):
        return None
    begins = holds.extras
    return LosingRule(
        ("extras",), partial(keep_extras, is_kept=lambda extra: extra.place.startswith(begins))
    )


_RULES = (
    *(_protection, _acl, _content, _plain_fields, _body, _texts, _named_fields, _hints),
    _extras,
)
"""In the order in which they are applied: a body and texts are looked at before they move."""


def _losing_fields(*names: str) -> LosingRule:
    return LosingRule(names, partial(lose_fields, names=names))


def _moved(holds: Holds) -> frozenset[str]:
    """Return the fields that move to the metadata."""
    moved = frozenset((*TEXTS, "fields")) - holds.fields
    return moved if "metadata" in holds.fields else frozenset()


def _lost_hints(holds: Holds) -> tuple[str, ...]:
    return tuple(name for name in HINTS if name not in holds.fields)
