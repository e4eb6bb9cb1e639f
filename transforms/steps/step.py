"""The interface of a step, and the application of several in order."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from schemas.errors import RecordError
from schemas.membership import Membership
from schemas.record import Record
from schemas.reject import Filtered, Reject, record_error, reject_record

STAGE = "transform"
"""The stage of rejects that a step makes."""

StepResult = Record | Membership | Filtered | Reject
"""What becomes of a record: changed ones, or none of them."""


class Step(Protocol):
    """One step; a worker makes it once, and applies it to all records of its spans."""

    def apply(self, record: Record) -> Record | Sequence[Record] | None:
        """Return the record, changed or as it is; several; or None to filter it.

        Raise RecordError for a record that is to be rejected.
        """
        ...

    def apply_to_group(self, membership: Membership) -> Membership | None:
        """Return the membership, changed or as it is, or None to filter it."""
        ...


class StepCounts(msgspec.Struct, kw_only=True):
    """How many records a step has changed, filtered and rejected."""

    changed: int = 0
    filtered: int = 0
    rejected: int = 0


class AppliedSteps:
    """Steps with their names, in order, and their counts."""

    def __init__(self, steps: Sequence[tuple[str, Step]]) -> None:
        self._steps = steps
        self.counts = {name: StepCounts() for name, _ in steps}

    def apply(self, item: Record | Membership) -> list[StepResult]:
        """Return what becomes of a record or membership after all steps; count it."""
        return _apply(item, self._steps, self.counts)

    def changes(self, record: Record) -> tuple[Record, tuple[str, ...]] | None:
        """Return a record after all steps, and the names of those that change it, uncounted.

        Return None if it becomes anything but one record.
        """
        counts = {name: StepCounts() for name, _ in self._steps}
        results = _apply(record, self._steps, counts)
        if len(results) != 1 or not isinstance(results[0], Record):
            return None
        return results[0], tuple(name for name, count in counts.items() if count.changed)

    def count(self, names: Sequence[str], records: int) -> None:
        """Count records that were changed by these steps, as one of them was."""
        for name in names:
            self.counts[name].changed += records


def _apply(
    item: Record | Membership,
    steps: Sequence[tuple[str, Step]],
    counts: dict[str, StepCounts],
) -> list[StepResult]:
    results: list[StepResult] = [item]
    for name, step in steps:
        count, before, results = counts[name], results, []
        for result in before:
            if isinstance(result, Filtered | Reject):
                results.append(result)
                continue
            made = _taken(step, result)
            results += made or [_filtered(name, result)]
            count.filtered += not made
            count.rejected += len(made) == 1 and isinstance(made[0], Reject)
            count.changed += bool(made) and made != [result] and not isinstance(made[0], Reject)
    return results


def _taken(step: Step, item: Record | Membership) -> list[StepResult]:
    """Return what a step makes of an item, nothing if it is filtered."""
    try:
        if isinstance(item, Membership):
            group = step.apply_to_group(item)
            return [] if group is None else [group]
        made = step.apply(item)
    except Exception as exc:
        return [reject_record(item, record_error(exc), stage=STAGE)]
    if made is None:
        return []
    return [made] if isinstance(made, Record) else [*made]


def _filtered(name: str, item: Record | Membership) -> Filtered:
    return Filtered(code=name, url=item.url, action=item.action.value)


class RecordStep:
    """A step that concerns documents only: groups stay as they are."""

    def apply_to_group(self, membership: Membership) -> Membership | None:
        return membership


def rejection(code: str, reason: str) -> RecordError:
    """Return the error for a record that a step rejects."""
    return RecordError(code, reason)


Rewrite = Callable[[str], str | None]
"""Returns a text in its new form, None if no rule is about it."""
