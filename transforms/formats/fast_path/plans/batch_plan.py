"""The plan of a shape: the bytes of its records between the values of its columns.

The model record of a shape passes normalization, adapter and encoder once. Where its holes come out
in the bytes, the values of the columns are to be. That a hole does not come out does not prove that
a value is dropped: it may be part of a length, and functions in C read a hole without asking. So a
plan is only used if it also predicts the bytes and the losses of records with real values.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from feedferry.schemas.notice import Loss, Notice
from feedferry.schemas.record import Record
from feedferry.schemas.reject import record_error
from feedferry.transforms.formats.fast_path.columns.cells import Cells, EncodeColumn, unescaped
from feedferry.transforms.formats.fast_path.columns.column_kinds import Column, ColumnKind, Values
from feedferry.transforms.formats.fast_path.columns.holes import InspectedError
from feedferry.transforms.formats.fast_path.columns.marks import mark, variants
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.columns.shape import Shape
from feedferry.transforms.formats.fast_path.columns.shape_columns import Columns
from feedferry.transforms.formats.fast_path.learning.comparisons import ComparisonSchedule

ConvertedRecord = tuple[Record, tuple[Loss, ...]]
Convert = Callable[[Record], ConvertedRecord | None]
"""Normalizes and adapts a record; None unless the only results are a record and losses."""


@runtime_checkable
class ColumnEncoder(Protocol):
    """An encoder that also writes columns; `encode` of a record has the same bytes."""

    cells: Cells

    def encode(self, record: object) -> bytes:  # as that of an encoder
        """Return the bytes of one record."""
        ...


class Counted(NamedTuple):
    """The counts of a record: its action as it was read and as it is written, and reports.

    `changed` are the steps that change it, each with a number.
    """

    read: str
    written: str
    losses: tuple[Loss, ...]
    notices: tuple[Notice, ...] = ()
    changed: tuple[tuple[str, int], ...] = ()

    @property
    def has_reports(self) -> bool:
        return bool(self.losses or self.notices)

    def is_like(self, other: "Counted") -> bool:
        """Whether the same is counted of another record, with other details."""
        return self._names == other._names

    @property
    def _names(self) -> tuple[object, ...]:
        losses, notices = [loss.field for loss in self.losses], [of.code for of in self.notices]
        return self.read, self.written, losses, notices, self.changed


class EncodedBatch(NamedTuple):
    """The bytes of records, in one part or more, and what is counted of how many of them."""

    parts: list[bytes]
    counts: Sequence[tuple[Counted, int]]
    first_url: str
    last_url: str

    @property
    def actions(self) -> Counter[str]:
        """How many records have an action."""
        actions = Counter[str]()
        for counted, count in self.counts:
            actions[counted.written] += count
        return actions


class Cell(NamedTuple):
    """Where the values of a column come out: the column, its form, and whether that is bytes."""

    column: int
    encode: EncodeColumn
    is_binary: bool


class BatchPlan:
    """Encodes the columns of a shape, for one adapter and one encoder."""

    def __init__(
        self, constants: list[bytes], cells: list[Cell], adapted: Record, counted: Counted
    ) -> None:
        self.cells = cells
        self.is_binary = all(cell.is_binary for cell in cells)
        self.constants: Column = (
            constants if self.is_binary else [constant.decode() for constant in constants]
        )
        self._has_texts_only = not any(cell.is_binary for cell in cells)
        self.adapted, self.counted = adapted, counted
        self.is_due = ComparisonSchedule().is_due

    def encode(self, columns: Columns) -> bytes | None:
        """Return the bytes of all records, None if there are cells of bytes."""
        if not self._has_texts_only:
            return None
        texts, step = self.constants, 2 * len(self.cells)
        cells = [texts[-1] + texts[0]] * (step * columns.count + 1)
        cells[0] = texts[0]
        for place, cell in enumerate(self.cells):
            if place:
                cells[2 * place :: step] = [texts[place]] * columns.count
            cells[2 * place + 1 :: step] = cell.encode(columns.column(cell.column))
        cells[-1] = texts[-1]
        return "".join(cells).encode()

    def encode_each(self, columns: Columns) -> list[bytes]:
        """Return the bytes of each record."""
        return self._each([cell.encode(columns.column(cell.column)) for cell in self.cells])

    def encode_row(self, row: Values) -> bytes:
        """Return the bytes of one record of escaped values."""
        [data] = self._each([cell.encode([row[cell.column]]) for cell in self.cells])
        return data

    def _each(self, columns: list[Column]) -> list[bytes]:
        """Join constants and columns for each record: texts between cells of bytes first."""
        count, constants = len(columns[0]), self.constants
        parts: list[Iterable[bytes]] = []
        pending: list[Column] = [[constants[0]] * count]
        for cell, column, constant in zip(self.cells, columns, constants[1:], strict=True):
            if cell.is_binary and not self.is_binary:
                parts += [_joined(pending), column]
                pending = []
            else:
                pending.append(column)
            if constant:
                pending.append([constant] * count)
        if self.is_binary:
            return [*map(b"".join, zip(*pending, strict=True))]
        if not parts:
            return _joined(pending)
        return [*map(b"".join, zip(*parts, *([_joined(pending)] if pending else []), strict=True))]


def _joined(columns: list[Column]) -> list[bytes]:
    return [*map(str.encode, map("".join, zip(*columns, strict=True)))]


def encode_batch(batch: RecordBatch, plans: Sequence[BatchPlan]) -> EncodedBatch:
    """Return the bytes of a batch; `plans` are those of the shapes of its groups."""
    whole = plans[0].encode(batch.groups[0]) if len(plans) == 1 else None
    parts = encode_rows(batch, plans) if whole is None else [whole]
    counts = [(plan.counted, of.count) for plan, of in zip(plans, batch.groups, strict=True)]
    ends = ((batch.groups[batch.order[at]], at) for at in (0, -1))
    first, last = unescaped([group.column(group.shape.url_at)[at] for group, at in ends])
    return EncodedBatch(parts, counts, first, last)


def encode_rows(batch: RecordBatch, plans: Sequence[BatchPlan]) -> list[bytes]:
    """Return the bytes of each record of a batch, in its order."""
    each = [plan.encode_each(group) for plan, group in zip(plans, batch.groups, strict=True)]
    rows = [*map(iter, each)]
    return each[0] if len(each) == 1 else [next(rows[number]) for number in batch.order]


def learn(shape: Shape, convert: Convert, encoder: object) -> BatchPlan | None:
    """Return the plan of a shape; None if its records must be converted one by one."""
    if not isinstance(encoder, ColumnEncoder):
        return None
    try:
        converted = convert(shape.model)
        if converted is None or converted[0].url is not shape.model.url:
            return None
        plan = _plan(shape, *converted, encoder)
        if plan is not None and all(
            _predicts(plan, row, convert(shape.make(plain)), encoder)
            for row, plain in variants(shape.kinds)
        ):
            return plan
    except InspectedError:
        pass
    except Exception as exc:  # the records find out why, one by one
        record_error(exc)
    return None


def _plan(
    shape: Shape, adapted: Record, losses: tuple[Loss, ...], encoder: ColumnEncoder
) -> BatchPlan | None:
    found = find_cells(shape.kinds, encoder.encode(adapted), encoder)
    if found is None or not found[1]:
        return None
    counted = Counted(shape.model.action._value_, adapted.action._value_, losses)
    return BatchPlan(*found, adapted, counted)


def find_cells(
    kinds: Sequence[ColumnKind], data: bytes, encoder: ColumnEncoder
) -> tuple[list[bytes], list[Cell]] | None:
    """Return the cells of holes in the bytes of a model, and the bytes between these.

    Return None if a hole comes out more than once.
    """
    found: list[tuple[int, int, Cell]] = []
    for number, kind in enumerate(kinds):
        for encode in encoder.cells.get(kind, ()):
            [cell] = encode([mark(kind, number)])
            is_binary = isinstance(cell, bytes)
            text = cell if is_binary else cell.encode()
            if data.count(text) > 1:
                return None
            if (begin := data.find(text)) >= 0:
                found.append((begin, begin + len(text), Cell(number, encode, is_binary)))
    found.sort(key=lambda place: place[0])
    constants, end = [], 0
    for begin, after, _ in found:
        constants.append(data[end:begin])
        end = after
    constants.append(data[end:])
    return constants, [cell for *_, cell in found]


def _predicts(
    plan: BatchPlan, row: Values, converted: ConvertedRecord | None, encoder: ColumnEncoder
) -> bool:
    """Whether the plan has the bytes and the losses of a record with a row of real values."""
    if converted is None:
        return False
    adapted, losses = converted
    try:
        planned = plan.encode_row(row)
    except InspectedError:
        return True  # the plan writes no such values
    counted = plan.counted._replace(written=adapted.action._value_, losses=losses)
    return encoder.encode(adapted) == planned and counted.is_like(plan.counted)
