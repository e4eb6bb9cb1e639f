"""The metadata of a row: its columns in their order, then what queries of its own have for it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from schemas.errors import RecordError
from schemas.record import Meta
from transforms.sources.database.column_index import Row, Rows, Sides
from transforms.sources.database.mapping import Columns, Mapping
from transforms.sources.database.values import text_of, values_of

LANGUAGE = "language"
"""What the language of a document is called: the feeds protocol has no field for it."""

_FIELDS = ("title", "description", "keywords")
_Gather = Callable[[Row], Iterable[Meta]]
_Place = tuple[int | None, Columns]


def metadata_maker(
    mapping: Mapping, rows: Rows, sides: Sides, *, without: Collection[int] = ()
) -> Callable[[Row], tuple[Meta, ...]]:
    """Return the function that gives the metadata of a row; raise ConfigError if it lacks a column.

    Where all columns are metadata they are so `without` some, unless those are named.
    """
    places = _places(mapping, rows, without)
    if all(at is not None and spec.separator is None for at, spec in places):
        return _of_columns([(spec.name, at) for at, spec in places if at is not None])
    gathers = [_gather(at, spec, rows, sides) for at, spec in places]
    return lambda row: tuple([meta for gather in gathers for meta in gather(row)])


def _places(mapping: Mapping, rows: Rows, without: Collection[int]) -> list[_Place]:
    """Where each name stands, None if a query has it."""
    named: list[_Place] = [
        (None if spec.column is None else rows.at(f"metadata: {spec.name}", spec.column), spec)
        for spec in mapping.metadata
    ]
    if mapping.all_metadata:
        named = _all(named, rows, {*without, *_fields(mapping, rows)})
    if mapping.language is None or any(spec.name.lower() == LANGUAGE for _, spec in named):
        return named
    language = Columns(name=LANGUAGE, column=mapping.language)
    return [*named, (rows.at(LANGUAGE, mapping.language), language)]


def _all(named: Sequence[_Place], rows: Rows, without: Collection[int]) -> list[_Place]:
    found: list[_Place] = []
    for at, name in enumerate(rows.names):
        special = [place for place in named if place[0] == at]
        usual = [] if at in without else [(at, Columns(name=name, column=name))]
        found += special or usual
    return found + [place for place in named if place[0] is None]


def _fields(mapping: Mapping, rows: Rows) -> Iterator[int]:
    """Columns that are a field of a record by the same name: targets make metadata of these."""
    for field in _FIELDS:
        name = getattr(mapping, field)
        if name is not None and name.lower() == field:
            yield rows.at(field, name)


def _of_columns(places: Sequence[tuple[str, int]]) -> Callable[[Row], tuple[Meta, ...]]:
    def make(row: Row) -> tuple[Meta, ...]:
        metas: list[Meta] = []
        for name, at in places:
            value = row[at]
            if type(value) is str:
                metas.append(Meta(name, value))
            elif value is not None:
                metas.extend(_metas(name, value))
        return tuple(metas)

    return make


def _gather(at: int | None, spec: Columns, rows: Rows, sides: Sides) -> _Gather:
    name, separator = spec.name, spec.separator
    if at is None:
        query, key_of = spec.query or "", rows.key_maker()
        return lambda row: _answered(name, sides(query, key_of(row)))
    if separator is None:
        return lambda row: _metas(name, row[at])
    return lambda row: _parted(name, row[at], separator)


def _metas(name: str, value: object) -> list[Meta]:
    values = _values(name, value)
    return [Meta(name, one) if isinstance(one, str) else Meta(name, "", one) for one in values]


def _values(name: str, value: object) -> tuple[str | bytes, ...]:
    try:
        return values_of(value)
    except RecordError as exc:
        raise RecordError(exc.code, f"{name}: {exc.reason}") from exc


def _parted(name: str, value: object, separator: str) -> Iterator[Meta]:
    for one in _values(name, value):
        for part in (text_of(one) or "").split(separator):
            if bare := part.strip():
                yield Meta(name, bare)


def _answered(name: str, answers: Sequence[Row]) -> Iterator[Meta]:
    for answer in answers:
        if len(answer) != 1:
            raise RecordError(
                "bad-query",
                f"{name}: {len(answer)} columns behind the key, of its query; expected one",
            )
        yield from _metas(name, answer[0])
