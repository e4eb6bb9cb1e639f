"""Which columns a mapping makes use of: the others are not read."""

from collections.abc import Sequence

from transforms.sources.database.column_index import Rows as Named
from transforms.sources.database.columns import Column
from transforms.sources.database.mapping import Mapping
from transforms.sources.database.records import check_columns


class _Noting(Named, frozen=True, kw_only=True):
    """Names that note which of them were asked for."""

    noted: set[int]

    def at(self, key: str, name: str) -> int:
        place = super().at(key, name)
        self.noted.add(place)
        return place


def used_columns(
    mapping: Mapping, columns: Sequence[Column], key: tuple[str, ...]
) -> tuple[Column, ...]:
    """Return the columns that records are made of; raise ConfigError for one that is not there."""
    noted: set[int] = set()
    names = _Noting(names=tuple(column.name for column in columns), key=key, noted=noted)
    check_columns(mapping, names)
    if mapping.all_metadata or _is_rendered(mapping):
        return tuple(columns)
    return tuple(column for at, column in enumerate(columns) if at in noted or column.name in key)


def _is_rendered(mapping: Mapping) -> bool:
    content = mapping.content
    return not (content.is_none or content.column or content.path or content.fetch)
