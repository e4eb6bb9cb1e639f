"""Read the datums of records that are alike by columns.

The first datum of a shape is read as a record. The plan of the shape has the bytes between the
values of its records: each datum that has the same bytes there is a record of the shape.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from feedferry.schemas.avro import read_long
from feedferry.schemas.record import Record
from feedferry.transforms.formats.base import Encoder, ReadOptions
from feedferry.transforms.formats.canonical.record_runs import MAX_MISSES, neutral_columns, shape_of
from feedferry.transforms.formats.fast_path.columns.column_kinds import (
    TEXT_KINDS,
    Column,
    ColumnKind,
    Values,
)
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.columns.shape import Shape
from feedferry.transforms.formats.fast_path.columns.shape_columns import Columns, grouped
from feedferry.transforms.formats.fast_path.plans.batch_plan import learn

_MAX_TEMPLATES = 16
_MAX_BYTES = 1 << 20
_MIN_RECORDS = 4
"""Fewer records in a block cost more as a batch than one by one."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBERS = (ColumnKind.NUMBER, ColumnKind.TIME)

ReadRecord = Callable[[io.BytesIO], Record]


class _Template(NamedTuple):
    """The bytes before each value of a datum, with its kind and column, and those at the end."""

    shape: Shape
    values: list[tuple[bytes, ColumnKind, int]]
    end: bytes

    def match(self, data: bytes, at: int) -> tuple[Values, int] | None:
        """Return the values of a datum and its end; None if it has another shape."""
        row: list[object] = [None] * len(self.values)
        for constant, kind, column in self.values:
            if not data.startswith(constant, at):
                return None
            at += len(constant)
            byte = data[at]
            number, at = read_long(data, at) if byte & 0x81 else (byte >> 1, at + 1)
            if kind in _NUMBERS:
                row[column] = number
            elif not 0 <= number <= len(data) - at:
                return None
            else:
                row[column] = data[at : at + number]
                at += number
        return (row, at + len(self.end)) if data.startswith(self.end, at) else None


class DatumRuns:
    """Makes batches of blocks of datums in our own schema, if a block has few shapes."""

    def __init__(self, read_record: ReadRecord, encoder: Encoder, options: ReadOptions) -> None:
        self._read_record = read_record
        self._encoder = encoder
        self._options = options
        self._templates: list[_Template] = []
        self._misses = 0

    def take(self, datums: bytes, count: int) -> Iterator[RecordBatch] | None:
        """Return the records of a block, None if they must be read one by one."""
        size = self._options.batch_records
        is_tried = size and count >= _MIN_RECORDS and len(datums) <= _MAX_BYTES
        if not is_tried or self._misses == MAX_MISSES:
            return None
        batch = self._batch(datums, count)
        self._misses = self._misses + 1 if batch is None else 0
        return None if batch is None else batch.parts(size)

    def _batch(self, datums: bytes, count: int) -> RecordBatch | None:
        at = 0
        numbers: list[int] = []
        rows: list[Values] = []
        for _ in range(count):
            found = self._match(datums, at)
            if found is None:
                return None
            number, row, at = found
            numbers.append(number)
            rows.append(row)
        groups = []
        for number, places, [alike] in grouped(numbers, (rows,)):
            columns = self._columns(self._templates[number].shape, alike)
            if columns is None:
                return None
            groups.append((columns, places))
        return RecordBatch.of(groups) if at == len(datums) else None

    def _match(self, datums: bytes, at: int) -> tuple[int, Values, int] | None:
        """Return the number of a template, the values of the datum and its end."""
        for number, template in enumerate(self._templates):
            if found := template.match(datums, at):
                return (number, *found)
        if len(self._templates) == _MAX_TEMPLATES:
            return None
        shape = shape_of(self._read_record(io.BytesIO(datums[at:])))
        learned = _template(shape, self._encoder)
        values = learned and learned.match(datums, at)
        if learned is None or values is None:
            return None
        self._templates.append(learned)
        return (len(self._templates) - 1, *values)

    def _columns(self, shape: Shape, rows: Column) -> Columns | None:
        """Return the columns of records; None unless their values are neutral."""
        columns = [*map(_column, shape.kinds, zip(*rows, strict=True))]
        most = self._options.max_content_bytes
        return neutral_columns(shape, columns, max_content_bytes=most)


def _column(kind: ColumnKind, values: Sequence[Any]) -> Column:
    if kind in TEXT_KINDS:
        return [*map(bytes.decode, values)]
    if kind is ColumnKind.TIME:
        return [_EPOCH + timedelta(microseconds=value) for value in values]
    return values


def _template(shape: Shape, encoder: Encoder) -> _Template | None:
    """Return the template of a shape; None unless each of its values comes out once."""
    plan = learn(shape, lambda record: (record, ()), encoder) if shape.has_model else None
    if plan is None or len(plan.cells) != len(shape.kinds):
        return None
    *before, end = map(bytes, plan.constants)
    columns = [cell.column for cell in plan.cells]
    kinds = [shape.kinds[column] for column in columns]
    return _Template(shape, [*zip(before, kinds, columns, strict=True)], end)
