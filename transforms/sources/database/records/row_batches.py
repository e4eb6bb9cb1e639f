"""Make batches of the rows of a page: the records that are alike, in columns.

The values of a page come from the getters that single rows have, column by column. What of a value
is constant in a shape, and what is a column, is stated by its part. Rows of a page can have several
shapes, by their NULLs, types and principals. Rows that cannot be in a batch become single records:
deletions, errors, and values that are not neutral.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from typing import Any, ClassVar

from feedferry.schemas.acl import Acl
from feedferry.schemas.record import Content, Crawl, Meta, Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.formats.fast_path.columns.cells import escaped
from feedferry.transforms.formats.fast_path.columns.column_kinds import (
    TEXT_KINDS,
    Column,
    ColumnKind,
    Values,
)
from feedferry.transforms.formats.fast_path.columns.neutrality import are_neutral
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.columns.shape import Shape
from feedferry.transforms.formats.fast_path.columns.shape_columns import Columns, grouped
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.sources.database.mapping.columns import Page, Row, column_of
from feedferry.transforms.sources.database.records.content import TypedContent, TypedContents
from feedferry.transforms.sources.database.records.record_maker import TEXT_FIELDS, RecordMaker
from feedferry.transforms.sources.database.records.row_acl import AclGetter
from feedferry.transforms.sources.database.records.row_blocks import RowBlocks

_PARTS = 8
"""Into how many parts rows are divided of which one has no value."""

_MAX_SHAPES = 256
_MAX_SHAPES_OF_BATCH = 16
_MAX_PAUSE = 64
_SAMPLE = 64
"""How many rows show whether those of a page have too many shapes."""

RowResult = Record | Reject | RecordBatch | ElementBlock

Constant = Any
"""What of a value is the same in all records of a shape; each part has its own type."""

Cells = Iterator[Any]
"""The values, or holes, of the columns of a record; each column has its own type."""


class NotAlikeError(Exception):
    """Rows cannot be in one batch."""


class _ValuePart(ABC):
    """A value of all records, as its getter returns it."""

    def __init__(self, get: Callable[[Row], object]) -> None:
        self._get = get

    def values(self, page: Page) -> Column:
        """Return the values of the rows of a page."""
        return column_of(self._get, page)

    def select(self, values: Column, places: Sequence[int]) -> Column:
        """Return the values at some places."""
        return [values[place] for place in places]

    @abstractmethod
    def constants(self, values: Column) -> Sequence[Constant]:
        """Return the constant part of each value; only one if it is the same for all."""

    @abstractmethod
    def kinds(self, constant: Constant) -> Sequence[ColumnKind]: ...

    @abstractmethod
    def columns(self, constant: Constant, values: Column) -> Sequence[Column]:
        """Return the columns of values with the same constant."""

    @abstractmethod
    def join(self, constant: Constant, cells: Cells) -> Any:
        """Return a value with its cells."""


class _Scalar(_ValuePart):
    """A text, a URL or a time, or None."""

    def __init__(self, get: Callable[[Row], object], kind: ColumnKind = ColumnKind.TEXT) -> None:
        super().__init__(get)
        self._kind = kind

    def constants(self, values: Column) -> Sequence[Constant]:
        return [value is None for value in values] if None in values else (False,)

    def kinds(self, constant: Constant) -> Sequence[ColumnKind]:
        return () if constant else (self._kind,)

    def columns(self, constant: Constant, values: Column) -> Sequence[Column]:
        return () if constant else (values,)

    def join(self, constant: Constant, cells: Cells) -> object:
        return None if constant else next(cells)


class _Crawl(_Scalar):
    def columns(self, constant: Constant, values: Column) -> Sequence[Column]:
        return () if constant else ([crawl.display_url for crawl in values],)

    def join(self, constant: Constant, cells: Cells) -> Crawl | None:
        return None if constant else Crawl(display_url=next(cells))


class _Content(_ValuePart):
    """A document with its mimetype and its charset; the constant has its type in its place."""

    _KINDS: ClassVar = {str: (ColumnKind.DOCUMENT,), Content: (ColumnKind.FILE,)}

    def values(self, page: Page) -> TypedContents:
        columns: Callable[[Page], TypedContents] | None = getattr(self._get, "columns", None)
        if columns is not None:
            return columns(page)
        return TypedContents(*zip(*map(self._get, page.rows), strict=True))

    def select(self, values: Column, places: Sequence[int]) -> TypedContents:
        return TypedContents(*([column[place] for place in places] for column in values))

    def constants(self, values: Column) -> Sequence[Constant]:
        documents, *types = values
        columns = [_same([*map(type, documents)]), *map(_same, types)]
        if all(len(column) == 1 for column in columns):
            return (tuple(column[0] for column in columns),)
        return [*zip(map(type, documents), *types, strict=True)]

    def kinds(self, constant: Constant) -> Sequence[ColumnKind]:
        return self._KINDS.get(constant[0], ())

    def columns(self, constant: Constant, values: Column) -> Sequence[Column]:
        documents = values[0]
        if constant[0] is Content:
            return ([content.data for content in documents],)
        return (documents,) if constant[0] is str else ()

    def join(self, constant: Constant, cells: Cells) -> TypedContent:
        of_document, mimetype, charset = constant
        return Content(next(cells)) if of_document in self._KINDS else None, mimetype, charset


class _Metas(_ValuePart):
    """The metadata of one name; the constant is their number."""

    def __init__(self, get: Callable[[Row], object], name: str) -> None:
        super().__init__(get)
        self._name = name

    def constants(self, values: Column) -> Sequence[Constant]:
        if {*map(type, values)} == {str}:
            return (1,)
        return _same([1 if isinstance(value, str) else len(value) for value in values])

    def kinds(self, constant: Constant) -> Sequence[ColumnKind]:
        count: int = constant
        return (ColumnKind.TEXT,) * count

    def columns(self, constant: Constant, values: Column) -> Sequence[Column]:
        types = {*map(type, values)}
        if constant == 1 and types == {str}:
            return (values,)
        rows = [(value,) if isinstance(value, str) else value for value in values]
        if any(not isinstance(text, str) for texts in rows for text in texts):
            raise NotAlikeError
        return [*zip(*rows, strict=True)]

    def join(self, constant: Constant, cells: Cells) -> list[Meta]:
        return [Meta(self._name, next(cells)) for _ in range(constant)]


class _Acl(_ValuePart):
    """An ACL; the constant is the ACL without the names of principals."""

    def __init__(self, acl: AclGetter) -> None:
        super().__init__(acl)
        self._acl = acl

    def constants(self, values: Column) -> Sequence[Constant]:
        return _same([(tuple([number for number, _ in named]), of) for named, of in values])

    def kinds(self, constant: Constant) -> Sequence[ColumnKind]:
        return (ColumnKind.NAME,) * len(constant[0])

    def columns(self, constant: Constant, values: Column) -> Sequence[Column]:
        return [*zip(*([name for _, name in named] for named, _ in values), strict=True)]

    def join(self, constant: Constant, cells: Cells) -> Acl:
        numbers, parent = constant
        return self._acl.acl([(number, next(cells)) for number in numbers], parent)


def _same(constants: Sequence[Constant]) -> Sequence[Constant]:
    return constants[:1] if constants.count(constants[0]) == len(constants) else constants


class RowBatches:
    """Makes the records of rows, at most `max_records` at once, in columns.

    They are a batch if they are alike, else a block. The first record of a span is single, because
    it begins a feed. After a page of which most rows are single, some are not tried.
    """

    def __init__(
        self, maker: RecordMaker, *, max_records: int, acls_in_blocks: bool = False
    ) -> None:
        self._maker = maker
        self._max_records = max_records
        self._are_blocks = acls_in_blocks and maker.acl is not None
        of_fields: dict[str, Callable[[Any], _ValuePart]] = {
            **dict.fromkeys(TEXT_FIELDS, _Scalar),
            "modified": partial(_Scalar, kind=ColumnKind.TIME),
            "acl": _Acl,
        }
        self._parts: list[_ValuePart] = [
            _Scalar(maker.url, ColumnKind.URL),
            _Content(maker.content),
            *(of_fields.get(name, _Crawl)(get) for name, get in maker.fields.items()),
            *(_Metas(get, name) for name, get in maker.metadata.entries),
        ]
        self._shapes: dict[tuple[Constant, ...], Shape] = {}
        self._blocks = RowBlocks(maker)
        self._begin, self._pause, self._paused = 1, 0, 0

    def outcomes(self, rows: Sequence[Row]) -> Iterator[RowResult]:
        """Yield the outcomes of the rows of a page, in their order."""
        if self._paused or not self._max_records:
            self._paused -= bool(self._paused)
            yield from map(self._maker.make, rows)
            return
        first, self._begin = self._begin, 0
        yield from map(self._maker.make, rows[:first])
        for begin in range(first, len(rows), self._max_records):
            yield from self._outcomes(rows[begin : begin + self._max_records])

    def _outcomes(self, rows: Sequence[Row]) -> Iterator[RowResult]:
        numbers = self._not_deleted(rows)
        values = self._values(rows, numbers)
        if values is None:
            numbers = [*self._readable(rows, numbers)]
            values = self._values(rows, numbers) if numbers else None
        elif len(numbers) == len(rows) and not self._are_blocks:
            with suppress(NotAlikeError):
                batch = self._batch(values)
                self._pause = 0
                yield batch
                return
        block = None if values is None else self._blocks.block(rows, numbers, values)
        self._pause = 0 if block is not None else min(2 * self._pause + 1, _MAX_PAUSE)
        self._paused = self._pause
        yield from map(self._maker.make, rows) if block is None else (block,)

    def _not_deleted(self, rows: Sequence[Row]) -> Sequence[int]:
        """Return the numbers of rows without a mark of deletion."""
        is_deletion, numbers = self._maker.is_deletion, range(len(rows))
        if is_deletion is None:
            return numbers
        with suppress(Exception):  # single rows find out which of them is concerned
            return [number for number in numbers if not is_deletion(rows[number])]
        return numbers

    def _values(self, rows: Sequence[Row], numbers: Sequence[int]) -> list[Column] | None:
        """Return the values of some rows; None if these must be single."""
        some = rows if len(numbers) == len(rows) else [rows[number] for number in numbers]
        page, is_deletion = Page(some), self._maker.is_deletion
        with suppress(Exception):
            if is_deletion is None or not any(map(is_deletion, some)):
                return [part.values(page) for part in self._parts]
        return None

    def _readable(self, rows: Sequence[Row], numbers: Sequence[int]) -> Iterator[int]:
        """Yield the numbers of rows that have values, by trying parts of them."""
        if self._values(rows, numbers) is not None:
            yield from numbers
        elif len(numbers) > 1:
            step = -(-len(numbers) // _PARTS)
            for begin in range(0, len(numbers), step):
                yield from self._readable(rows, numbers[begin : begin + step])

    def _batch(self, values: Sequence[Column]) -> RecordBatch:
        """Return the records of values in columns; raise NotAlikeError if they are not alike."""
        pairs, count = [*zip(self._parts, values, strict=True)], len(values[0])  # of URLs
        begins = (part.select(of_part, range(min(count, _SAMPLE))) for part, of_part in pairs)
        if len(self._alike([*begins])) > _MAX_SHAPES_OF_BATCH:
            raise NotAlikeError
        alike = self._alike(values)
        if len(alike) == 1:
            return RecordBatch([self._columns(alike[0][0], values)], [0] * count)
        if len(alike) > _MAX_SHAPES_OF_BATCH:
            raise NotAlikeError
        groups = []
        for key, places in alike:
            of_key = [part.select(of_part, places) for part, of_part in pairs]
            groups.append((self._columns(key, of_key), places))
        return RecordBatch.of(groups)

    def _alike(
        self, values: Sequence[Column]
    ) -> Sequence[tuple[tuple[Constant, ...], Sequence[int]]]:
        """Return the constants of rows, and the places of the rows that have them."""
        pairs, count = zip(self._parts, values, strict=True), len(values[0])
        constants = [part.constants(of_part) for part, of_part in pairs]
        if all(len(of_part) == 1 for of_part in constants):
            return [(tuple(of_part[0] for of_part in constants), range(count))]
        of_rows = (of if len(of) > 1 else repeat(of[0], count) for of in constants)
        return [(key, places) for key, places, _ in grouped([*zip(*of_rows, strict=False)], ())]

    def _columns(self, key: tuple[Constant, ...], values: Sequence[Column]) -> Columns:
        """Return the columns of rows with the same constants, if they are neutral."""
        shape = self._shape(key)
        parts = zip(self._parts, key, values, strict=True)
        stated = chain.from_iterable(part.columns(*of_part) for part, *of_part in parts)
        columns = [
            escaped(column) if kind in TEXT_KINDS else column
            for kind, column in zip(shape.kinds, stated, strict=True)
        ]
        if not shape.has_model or not are_neutral(shape.kinds, columns):
            raise NotAlikeError
        return Columns(shape, columns, len(values[0]))  # of URLs

    def _shape(self, key: tuple[Constant, ...]) -> Shape:
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _MAX_SHAPES:
                raise NotAlikeError
            pairs = zip(self._parts, key, strict=True)
            kinds = [kind for part, constant in pairs for kind in part.kinds(constant)]
            shape = self._shapes[key] = Shape(lambda cells: self._record(key, cells), kinds)
        return shape

    def _record(self, key: tuple[Constant, ...], values: Values) -> Record:
        """Return the record with the values of its columns."""
        cells, fields = iter(values), self._maker.fields
        url, content, *others = [
            part.join(constant, cells) for part, constant in zip(self._parts, key, strict=True)
        ]
        metas = tuple(chain.from_iterable(others[len(fields) :]))
        return self._maker.record(url, content, metas, dict(zip(fields, others, strict=False)))
