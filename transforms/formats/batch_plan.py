"""The plan of a shape: the bytes of its records between the values of its columns.

The model record of a shape passes normalization, adapter and encoder once. Where its holes come out
in the bytes, the values of the columns are to be. That a hole does not come out does not prove that
a value is dropped: it may be part of a length, and functions in C read a hole without asking. So a
plan is only used if it also predicts the bytes and the losses of records with real values.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from schemas.notice import Loss
from schemas.record import Record
from schemas.reject import record_error
from transforms.formats.base import Encoder
from transforms.formats.holes import InspectedError
from transforms.formats.record_batch import (
    Cells,
    Column,
    Columns,
    EncodeColumn,
    RecordBatch,
    Shape,
    Values,
    hole,
    plain,
    unescaped,
    variants,
)

Convert = Callable[[Record], tuple[Record, tuple[Loss, ...]] | None]
"""Normalizes and adapts a record; None unless the only results are a record and losses."""


@runtime_checkable
class ColumnEncoder(Encoder, Protocol):
    """An encoder that also writes columns; `encode` of a record has the same bytes."""

    cells: Cells


class EncodedBatch(NamedTuple):
    """The bytes of a batch, in one part or more, and the counts of its records."""

    parts: list[bytes]
    size: int
    actions: Counter[str]
    first_url: str
    last_url: str


class BatchPlan:
    """Encodes the columns of a shape, for one adapter and one encoder."""

    def __init__(
        self,
        constants: list[bytes],
        cells: list[tuple[int, EncodeColumn]],
        adapted: Record,
        losses: tuple[Loss, ...],
        *,
        is_framed: bool,
    ) -> None:
        self._constants = constants
        self._texts = [] if is_framed else [constant.decode() for constant in constants]
        self._cells = cells
        self.action = adapted.action._value_
        self.losses = losses

    def encode(self, columns: Columns) -> bytes | None:
        """Return the bytes of all records, None in a framed format, which needs them one by one."""
        if not self._texts:
            return None
        texts, step = self._texts, 2 * len(self._cells)
        cells = [texts[-1] + texts[0]] * (step * columns.count + 1)
        cells[0] = texts[0]
        for place, (at, encode) in enumerate(self._cells):
            if place:
                cells[2 * place :: step] = [texts[place]] * columns.count
            cells[2 * place + 1 :: step] = encode(columns.column(at))
        cells[-1] = texts[-1]
        return "".join(cells).encode()

    def encode_each(self, columns: Columns) -> list[bytes]:
        """Return the bytes of each record."""
        return self._each([encode(columns.column(at)) for at, encode in self._cells])

    def encode_row(self, row: Values) -> bytes:
        """Return the bytes of one record of escaped values."""
        [data] = self._each([encode([row[at]]) for at, encode in self._cells])
        return data

    def _each(self, columns: list[Column]) -> list[bytes]:
        count = len(columns[0])
        constants: Column = self._texts or self._constants
        cells: list[Column] = [[constants[0]] * count]
        for column, constant in zip(columns, constants[1:], strict=True):
            cells += [column, [constant] * count] if constant else [column]
        if self._texts:
            return [*map(str.encode, map("".join, zip(*cells, strict=True)))]
        return [*map(b"".join, zip(*cells, strict=True))]


def encode_batch(batch: RecordBatch, plans: Sequence[BatchPlan]) -> EncodedBatch:
    """Return the bytes of a batch; `plans` are those of the shapes of its groups."""
    whole = plans[0].encode(batch.groups[0]) if len(plans) == 1 else None
    if whole is not None:
        parts = [whole]
    else:
        each = [
            iter(plan.encode_each(group)) for plan, group in zip(plans, batch.groups, strict=True)
        ]
        parts = [next(each[number]) for number in batch.order]
    actions = Counter[str]()
    for plan, group in zip(plans, batch.groups, strict=True):
        actions[plan.action] += group.count
    ends = ((batch.groups[batch.order[at]], at) for at in (0, -1))
    first, last = unescaped([group.column(group.shape.url_at)[at] for group, at in ends])
    return EncodedBatch(parts, sum(map(len, parts)), actions, first, last)


def learn(shape: Shape, convert: Convert, encoder: Encoder) -> BatchPlan | None:
    """Return the plan of a shape; None if its records must be converted one by one."""
    if not isinstance(encoder, ColumnEncoder):
        return None
    try:
        converted = convert(shape.model)
        if converted is None or converted[0].url is not shape.model.url:
            return None
        plan = _plan(shape, *converted, encoder, encoder.cells)
        if plan is not None and all(
            _predicts(plan, shape, row, convert, encoder) for row in variants(shape.kinds)
        ):
            return plan
    except InspectedError:
        pass
    except Exception as exc:  # the records find out why, one by one
        record_error(exc)
    return None


def _plan(
    shape: Shape, adapted: Record, losses: tuple[Loss, ...], encoder: Encoder, cells: Cells
) -> BatchPlan | None:
    """Return the plan with the holes where they come out, None if one does more than once."""
    data = encoder.encode(adapted)
    found = []
    for number, kind in enumerate(shape.kinds):
        for encode in cells.get(kind, ()):
            [cell] = encode([hole(kind, number)])
            mark = cell if isinstance(cell, bytes) else cell.encode()
            if data.count(mark) > 1:
                return None
            if (begin := data.find(mark)) >= 0:
                found.append((begin, begin + len(mark), number, encode))
    found.sort(key=lambda place: place[0])
    if not found:
        return None
    constants, end = [], 0
    for begin, after, *_ in found:
        constants.append(data[end:begin])
        end = after
    constants.append(data[end:])
    places = [(number, encode) for *_, number, encode in found]
    return BatchPlan(constants, places, adapted, losses, is_framed=bool(encoder.frame_bytes))


def _predicts(
    plan: BatchPlan, shape: Shape, row: Values, convert: Convert, encoder: Encoder
) -> bool:
    """Whether the plan has the bytes and the losses of a record with real values."""
    converted = convert(shape.make(_values(shape, row)))
    if converted is None:
        return False
    adapted, losses = converted
    return (
        encoder.encode(adapted) == plan.encode_row(row)
        and adapted.action._value_ == plan.action
        and [loss.field for loss in losses] == [loss.field for loss in plan.losses]
    )


def _values(shape: Shape, row: Values) -> Values:
    return [plain(kind, [value])[0] for kind, value in zip(shape.kinds, row, strict=True)]
