"""Records as Thunderstone dataload XML holds them.

**Spec:** Thunderstone dataload API, "Specifying all fields manually", "Additional Fields".
"""

import re
from collections.abc import Callable
from functools import partial

from schemas.errors import RecordError
from schemas.patterns import is_wide
from schemas.record import Action, Arrival, Content, Encoding, Field, Meta, Record
from schemas.reject import Filtered
from transforms.formats.adapt_rules import (
    HINTS,
    Draft,
    counted,
    is_alone,
    is_deletion,
    left_out,
    lose_acl,
    lose_extras,
    lose_fields,
    lose_hints,
    lose_protection,
    rejected,
    require_absolute_url,
)
from transforms.formats.target import Adapted, Adapter, Target

_SINGLE = ("title", "description", "keywords")
_CATEGORY = "category"
_BY_NAME = frozenset({*_SINGLE, _CATEGORY})
_FIELD = "u:"
_HELD_PLACES = ("Item/",)
_UTF_8 = (None, "utf-8", "utf8")
_LINE_END = re.compile(r"\r?\n")
_SEPARATOR = re.compile(": +")

_Rule = Callable[[Draft], None]


def adapter(target: Target) -> Adapter:
    """Return the function that adapts records to Items."""
    named = {name.lower(): field for name, field in target.named_fields}
    rules: tuple[_Rule, ...] = (
        lose_protection,
        lose_acl,
        _lose_unheld,
        _arrive,
        partial(_content_as_body, target=target),
        partial(_metadata_as_fields, named=named),
        _fit_metadata,
    )

    def adapt(record: Record) -> Adapted:
        try:
            _refuse(record, target)
        except RecordError as exc:
            return rejected(record, exc)
        if record.action is Action.UPDATE_INDEX:
            return (Filtered(code="update-index", url=record.url, action=record.action.value),), ()
        draft = Draft(record)
        if is_alone(record):
            return left_out(draft)
        for rule in rules:
            rule(draft)
        return draft.finish()

    return adapt


def _refuse(record: Record, target: Target) -> None:
    require_absolute_url(record)
    if record.action is Action.DELETE_PATTERN:
        if not target.wide_deletes and is_wide(record.url):
            raise RecordError(
                "wide-delete",
                f"a deletion of all urls like {record.url!r}; expected a pattern that names part"
                " of a path, as this one empties a host or more; --allow-wide-deletes allows it",
            )
    elif record.arrival is Arrival.CRAWLED and record.action is Action.ADD and _is_bare(record):
        raise RecordError(
            "crawled",
            "a url that is to be crawled; expected a document, as a dataload fetches none; the"
            " crawler takes such urls as a list",
        )


def _is_bare(record: Record) -> bool:
    return not is_alone(record) and record.content is None and record.body is None


def _lose_unheld(draft: Draft) -> None:
    lose_hints(draft, HINTS)
    if draft.record.overwrite_acls is not None:
        lose_fields(draft, ("overwrite_acls",))
    lose_extras(draft, _HELD_PLACES)


def _arrive(draft: Draft) -> None:
    record = draft.record
    arrival = None if is_deletion(record) else Arrival.PUSHED
    if record.arrival is not arrival:
        draft.change(arrival=arrival)


def _content_as_body(draft: Draft, *, target: Target) -> None:
    """Plain text needs no extraction. Whatever else there is goes as it came, as RawData."""
    record = draft.record
    content = record.content
    if content is None or content.encoding is not Encoding.NONE or record.body is not None:
        return
    if not _is_plain_text(record) or len(content.data) > target.max_content_bytes:
        return
    body = _text(content)
    if body is not None:
        draft.change(content=None, body=body, charset="UTF-8")


def _is_plain_text(record: Record) -> bool:
    charset = record.charset and record.charset.lower()
    mimetype = (record.mimetype or "").partition(";")[0].strip()
    return mimetype == "text/plain" and charset in _UTF_8


def _text(content: Content) -> str | None:
    try:
        return content.data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _metadata_as_fields(draft: Draft, *, named: dict[str, str]) -> None:
    """Move the pairs that have an element of their own, unless the record states that already."""
    record = draft.record
    places = [_place(meta, named) for meta in record.metadata]
    if not any(places):
        return
    taken: dict[str, list[str]] = {}
    rest = []
    stated = _stated(record)
    for meta, place in zip(record.metadata, places, strict=True):
        if place is None or place in stated or (place in _SINGLE and place in taken):
            rest.append(meta)
        else:
            taken.setdefault(place, []).append(meta.value)
    if taken:
        draft.change(metadata=tuple(rest), **_taken(record, taken))


def _place(meta: Meta, named: dict[str, str]) -> str | None:
    """The element that a pair goes to: of a field with its prefix, as one may be called title."""
    if meta.data is not None:
        return None
    name = meta.name.lower()
    if name in named:
        return _FIELD + named[name]
    return name if name in _BY_NAME else None


def _stated(record: Record) -> set[str]:
    texts = {name for name in _SINGLE if getattr(record, name) is not None}
    categories = {_CATEGORY} if record.categories else set()
    return texts | categories | {_FIELD + field.name for field in record.fields}


def _taken(record: Record, taken: dict[str, list[str]]) -> dict[str, object]:
    texts = {name: taken[name][0] for name in _SINGLE if name in taken}
    fields = tuple(
        Field(place.removeprefix(_FIELD), tuple(values), len(values) > 1)
        for place, values in taken.items()
        if place.startswith(_FIELD)
    )
    categories = record.categories + tuple(taken.get(_CATEGORY, ()))
    return {**texts, "categories": categories, "fields": record.fields + fields}


def _fit_metadata(draft: Draft) -> None:
    """Meta holds a line of `name: value` for each pair: what breaks the line is made to fit."""
    metadata = draft.record.metadata
    if not all(map(_fits, metadata)):
        fitted = (_fitted(draft, meta) for meta in metadata)
        draft.change(metadata=tuple(meta for meta in fitted if meta is not None))


def _fits(meta: Meta) -> bool:
    name = meta.name
    return meta.data is None and not ("\n" in name or ": " in name or "\n" in meta.value)


def _fitted(draft: Draft, meta: Meta) -> Meta | None:
    if meta.data is not None:
        draft.lose("metadata", f"{meta.name!r}, {counted(len(meta.data), 'byte')} that are no text")
        return None
    name = _SEPARATOR.sub(":", _LINE_END.sub(" ", meta.name))
    value = _LINE_END.sub(" ", meta.value)
    if name != meta.name:
        draft.lose("metadata", f"name {meta.name!r} written as {name!r}")
    if value != meta.value:
        draft.lose("metadata", f"line ends in the value of {meta.name!r} written as spaces")
    return meta if (name, value) == (meta.name, meta.value) else Meta(name, value)
