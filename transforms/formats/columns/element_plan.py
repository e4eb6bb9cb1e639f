"""The plan of an element: what a writer makes of it, cut out of the plan of a record around it."""

from typing import Protocol, runtime_checkable

from transforms.formats.columns.batch_plan import Convert, learn
from transforms.formats.columns.element_block import ElementJoints, ElementPlan, ElementShape


@runtime_checkable
class ElementEncoder(Protocol):
    """An encoder that also writes the elements of records; without `joints`, it does not."""

    joints: ElementJoints | None


def learn_element(element: ElementShape, convert: Convert, encoder: object) -> ElementPlan | None:
    """Return the plan of an element; None if its records must be converted one by one."""
    joints = encoder.joints if isinstance(encoder, ElementEncoder) else None
    plan = learn(element.shape, convert, encoder) if joints else None
    if joints is None or plan is None or plan.losses:
        return None
    first, last = element.first_column, element.first_column + element.columns
    numbers = [cell.column for cell in plan.cells]
    own = numbers[first:last]
    if sorted(own) != [*range(first, last)] or any(number >= first for number in numbers[:first]):
        return None
    constants = [text if isinstance(text, str) else text.decode() for text in plan.constants]
    begin, *middle = constants[first : last + 1]
    before, after = joints.frames[element.code]
    if not begin.startswith(before):
        return None
    texts = [begin.removeprefix(before), *middle]
    if not texts[-1].endswith(after):
        return None
    texts[-1] = texts[-1].removesuffix(after)
    is_last = last == len(numbers)
    if not is_last and len(numbers) > last + 1:
        return None  # the frame has one column after an element, if any
    cells = [(cell.column - first, cell.encode) for cell in plan.cells[first:last]]
    return ElementPlan(texts, cells, plan.action)
