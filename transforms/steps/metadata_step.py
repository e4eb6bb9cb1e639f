"""`metadata`: rename, drop, set, split, map and move metadata."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec.structs import replace

from feedferry.schemas.record import Field, Meta, Record
from feedferry.transforms.config.yaml_structs import (
    Value,
    mapping_of,
    parse_text,
    several,
    text_where,
)
from feedferry.transforms.steps.patterns import Pairs, Patterns, any_pattern
from feedferry.transforms.steps.step import TransformStep
from feedferry.transforms.steps.tables import Table, load_table

_TEXTS = ("title", "description", "keywords")
_CACHED = 4096
_FIELD = "field:"
_METADATA = "metadata:"


def _is_place(text: str) -> bool:
    prefix, colon, name = text.partition(":")
    return text in _TEXTS or (prefix + colon in (_FIELD, _METADATA) and bool(name))


_parse_place = text_where(_is_place)
_Moves = Annotated[
    dict[str, str],
    Value(
        mapping_of(_parse_place, _parse_place),
        f"a mapping of places: {', '.join(_TEXTS)}, {_METADATA}NAME or {_FIELD}NAME",
    ),
]
_NamedValues = Annotated[
    dict[str, tuple[str, ...]],
    Value(mapping_of(several(parse_text)), "a mapping of names to a text, or a list of texts"),
]


class MetadataRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happens to metadata, in the order of these keys.

    `split` has the separator of each name whose values are lists in one text; `values` the CSV
    table of each name, with old and new values; `move` a place for each place.
    """

    rename: Pairs = {}
    drop: Patterns | None = None
    split: Pairs = {}
    values: Pairs = {}
    set: _NamedValues = {}
    move: _Moves = {}

    @property
    def patterns(self) -> list[str]:
        return [*(self.drop or ())]

    def check(self) -> None:
        if not any(msgspec.structs.asdict(self).values()):
            raise ValueError("no rule; expected one, such as rename")


class MetadataStep(TransformStep):
    """Changes metadata, and moves them between metadata, texts and named fields."""

    def __init__(self, rules: MetadataRules, *, base: Path) -> None:
        self._rules = rules
        self.used: set[str] = set()
        self._is_dropped = any_pattern(rules.drop or (), self.used)
        self.is_of_model = not (rules.split or rules.values or rules.move)
        self._tables = {name: load_table(base / path) for name, path in rules.values.items()}
        self._set = [Meta(name, text) for name, texts in rules.set.items() for text in texts]
        self._change = lru_cache(maxsize=_CACHED)(self._change_of)

    def apply(self, record: Record) -> Record:
        metadata = (*self._metadata(record), *self._set)
        if metadata != record.metadata:
            record = replace(record, metadata=metadata)
        for old, new in self._rules.move.items():
            values, record = _take(record, old)
            if values:
                record = _put(record, new, values)
        return record

    def _change_of(self, name: str) -> tuple[str | None, str | None, Table | None]:
        """Return the new name of metadata, None to drop them; the separator and table of values."""
        rules, new = self._rules, self._rules.rename.get(name, name)
        is_dropped = new in rules.set or (rules.drop and self._is_dropped(new))
        return None if is_dropped else new, rules.split.get(new), self._tables.get(new)

    def _metadata(self, record: Record) -> Iterator[Meta]:
        for meta in record.metadata:
            name, separator, table = self._change(meta.name)
            if name is None:
                continue
            if meta.data is not None or not (separator or table):
                yield meta if name == meta.name else replace(meta, name=name)
                continue
            values = meta.value.split(separator) if separator else [meta.value]
            for value in (part.strip() for part in values) if separator else values:
                if value or not separator:
                    yield Meta(name, (table and table.find(value)) or value)


def _take(record: Record, place: str) -> tuple[tuple[str, ...], Record]:
    """Return the values of a place, and the record without them."""
    if place in _TEXTS:
        text = getattr(record, place)
        return ((), record) if text is None else ((text,), replace(record, **{place: None}))
    name = place.partition(":")[2]
    if place.startswith(_FIELD):
        taken = [field for field in record.fields if field.name == name]
        left = tuple(field for field in record.fields if field.name != name)
        values = tuple(value for field in taken for value in field.values)
        return values, replace(record, fields=left) if taken else record
    metas = [meta for meta in record.metadata if meta.name == name and meta.data is None]
    if not metas:
        return (), record
    kept = tuple(meta for meta in record.metadata if meta.name != name or meta.data is not None)
    return tuple(meta.value for meta in metas), replace(record, metadata=kept)


def _put(record: Record, place: str, values: tuple[str, ...]) -> Record:
    """Return the record with values added at a place; a text takes them joined."""
    if place in _TEXTS:
        return replace(record, **{place: ", ".join(values)})
    name = place.partition(":")[2]
    if place.startswith(_FIELD):
        field = Field(name, values, many=len(values) > 1)
        return replace(record, fields=(*record.fields, field))
    return replace(record, metadata=(*record.metadata, *(Meta(name, value) for value in values)))
