"""The plan of an element: what a writer makes of it, cut out of the plan of a record around it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from feedferry.schemas.record import Record
from feedferry.transforms.formats.fast_path.columns.column_kinds import Column, ColumnKind
from feedferry.transforms.formats.fast_path.elements.element_block import ElementShape
from feedferry.transforms.formats.fast_path.elements.element_codes import (
    CONTENT,
    LOST,
    LOST_FIELDS,
    RECORD,
    WRITTEN_CODES,
)
from feedferry.transforms.formats.fast_path.plans.batch_plan import (
    Cell,
    ColumnEncoder,
    Convert,
    find_cells,
    learn,
)

Pieces = Sequence[tuple[str, bytes]]
"""The bytes of a record in pieces, each with the code of the element that it is of, or with none.

A record has several pieces of its own if others are between them; any other element has one. A
piece without a code depends on nothing but the codes of the elements. A digit is the code of an
element that a writer has for some names. There is one, maybe empty, in
place of an element that the record does not have.
"""


@runtime_checkable
class ElementEncoder(ColumnEncoder, Protocol):
    """An encoder that says how it joins elements to records.

    A record goes alone if two of its elements with the code `elements_once` begin alike.
    """

    elements_once: str

    def elements(self, record: Record) -> Pieces | None:
        """Return the bytes of a record in pieces; None if they are not made of its elements."""
        ...


class PiecePlan(NamedTuple):
    """The texts of a piece between its columns, or bytes for a binary format; and its code."""

    texts: Column
    cells: Sequence[Cell]
    code: str


class ElementPlan(NamedTuple):
    """The pieces of an element in the form of one writer, and its code there.

    An element that a target cannot hold has no pieces. Those of a record may have the codes of
    other elements, as a title that is written as metadata.
    """

    pieces: Sequence[PiecePlan]
    code: str


def pieces_of(record: Record, encoder: ElementEncoder) -> list[tuple[str, bytes]]:
    """Return the bytes of a record in pieces, those of the record itself as few as possible."""
    pieces: list[tuple[str, bytes]] = []
    for code, data in encoder.elements(record) or ():
        if code in (RECORD, CONTENT) and pieces and pieces[-1][0] == code:
            pieces[-1] = code, pieces[-1][1] + data
        else:
            pieces.append((code, data))
    return pieces


def learn_element(
    element: ElementShape, convert: Convert, encoder: ElementEncoder
) -> ElementPlan | None:
    """Return the plan of an element; None if its records must be converted one by one."""
    plan = learn(element.shape, convert, encoder)
    if plan is None:
        return None
    code, kinds = WRITTEN_CODES[element.code], element.shape.kinds
    own = [*range(element.first_column, element.first_column + element.columns)]
    if code == RECORD:  # the last columns are the line and the offset
        own += [number for number, kind in enumerate(kinds) if kind is ColumnKind.NUMBER]
    pieces = []
    for of, data in pieces_of(plan.adapted, encoder):
        piece = find_cells(kinds, data, encoder)
        if piece is None:
            return None
        constants, cells = piece
        if of == code or (of and of != RECORD and any(cell.column in own for cell in cells)):
            texts = constants if plan.is_binary else [*map(bytes.decode, constants)]
            pieces.append(PiecePlan(texts, cells, of))
    losses = {loss.field for loss in plan.counted.losses}
    if not pieces and losses == {LOST_FIELDS.get(code)}:
        return ElementPlan((), LOST)
    columns = [cell.column for piece in pieces for cell in piece.cells]
    is_own = {*columns} <= {*own}
    is_whole = {*own[: element.columns]} <= {*columns}
    if code == RECORD:
        is_known = bool(pieces) and pieces[0].code == RECORD and (is_whole or bool(losses))
    else:
        is_known = len(pieces) == 1 and is_whole and not losses
    if not (is_known and is_own):
        return None
    # A writer may have elements of its own for some names.
    written = code if code == RECORD else pieces[0].code
    return ElementPlan(pieces, written)
