"""The part of a record that an element is, as a function of the values of its columns.

It is cut out of the model of the record around the element, so that no rule of a reader is written
again.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from feedferry.transforms.formats.fast_path.columns.column_kinds import ColumnKind
from feedferry.transforms.formats.fast_path.columns.marks import hole, stated
from feedferry.transforms.formats.fast_path.columns.shape import Shape
from feedferry.transforms.formats.text.dates import parse_date

MakePart = Callable[..., Any]
"""Takes a value of each column of an element, without references; dates are moments."""


def part_maker(
    shape: Shape, own: range, part: Callable[[Any], Struct], *, left_out: Collection[str]
) -> MakePart | None:
    """Return the function that makes a part of a record; `own` are the columns of the element.

    With fields that are left out, which come from other elements, it returns a function that takes
    them. Return None if a column does not come out in exactly one field.
    """
    holes = [hole(kind, number) for number, kind in enumerate(shape.kinds)]
    model = part(shape.make(holes))
    names = {}
    constants = {}
    for name in model.__struct_fields__:
        value = getattr(model, name)
        at = next((at for at in own if _is_of(value, holes[at], shape.kinds[at])), None)
        if at is not None and at not in names:
            names[at] = name
        elif name not in left_out:
            constants[name] = value
    if sorted(names) != [*own]:
        return None
    make = partial(type(model), **constants)
    return _maker(partial(partial, make) if left_out else make, [names[at] for at in own])


def _is_of(value: object, filled: object, kind: ColumnKind) -> bool:
    """Whether a field of a model has the value of a hole."""
    if kind is ColumnKind.DATE:
        return value is not None and value == parse_date(stated(filled))
    return value is filled


def _maker(make: MakePart, names: Sequence[str]) -> MakePart:
    if not names:
        part = make()
        return lambda: part
    if len(names) == 1:
        [name] = names
        return lambda value: make(**{name: value})
    return lambda *values: make(**dict(zip(names, values, strict=True)))
