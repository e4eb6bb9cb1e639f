"""The interface of a step, and the application of several in order."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

from schemas.membership import Membership
from schemas.record import Record
from schemas.reject import Filtered, Reject, record_error, reject_record
from transforms.formats.holes import InspectedError

STAGE = "transform"
"""The stage of rejects that a step makes."""

StepResult = Record | Membership | Filtered | Reject
"""The result of a step: a record, changed or not, or a record that is set aside."""


class TransformStep(Protocol):
    """One step; a worker makes it once, and applies it to all records of its spans."""

    @property
    def is_of_model(self) -> bool:
        """Whether it looks only at values that alike records have in common.

        If not, alike records go one by one: all of them would get the result of one.
        """
        ...

    def apply(self, record: Record) -> Record | Sequence[Record] | None:
        """Return the record, changed or as it is; several; or None to filter it.

        Raise RecordError for a record that is to be rejected.
        """
        ...

    def apply_to_group(self, membership: Membership) -> Membership | None:
        """Return the membership, changed or as it is, or None to filter it."""
        ...


class AppliedSteps:
    """Steps with their names, in order; `changed` counts the records that each has changed."""

    def __init__(self, steps: Sequence[tuple[str, TransformStep]]) -> None:
        self._steps = steps
        self.changed = Counter[str]()
        self.is_of_model = all(step.is_of_model for _, step in steps)

    def apply(self, item: Record | Membership) -> list[StepResult]:
        """Return the results of a record or membership after all steps; count them."""
        results: list[StepResult] = [item]
        for name, step in self._steps:
            before, results = results, []
            for result in before:
                results += self._taken(name, step, result)
        return results

    def explain(self, item: Record | Membership) -> Iterator[tuple[str, list[StepResult]]]:
        """Yield the name of each step with what is left after it; count nothing."""
        counted, self.changed = self.changed, Counter()
        results: list[StepResult] = [item]
        for name, step in self._steps:
            results = [made for result in results for made in self._taken(name, step, result)]
            yield name, results
        self.changed = counted

    def apply_to_model(self, record: Record) -> tuple[Record, Counter[str]] | None:
        """Return a record after all steps, and how it would be counted; None if it is not one."""
        counted, self.changed = self.changed, Counter()
        try:
            results = self.apply(record)
            found = self.changed
        finally:
            self.changed = counted
        match results:
            case [Record() as made]:
                return made, found
        return None

    def _taken(self, name: str, step: TransformStep, item: StepResult) -> Sequence[StepResult]:
        """Return the results of a step for an item."""
        if isinstance(item, Filtered | Reject):
            return (item,)
        try:
            made = step.apply_to_group(item) if isinstance(item, Membership) else step.apply(item)
        except InspectedError:  # of a model of many records, which then go one by one
            raise
        except Exception as exc:
            return (reject_record(item, record_error(exc), stage=STAGE),)
        if made is None:
            return (Filtered(code=name, url=item.url, action=item.action.value),)
        self.changed[name] += made is not item
        return made if isinstance(made, Sequence) else (made,)


class RecordStep:
    """A step that concerns documents only: groups stay as they are."""

    is_of_model = False

    def apply_to_group(self, membership: Membership) -> Membership | None:
        return membership
