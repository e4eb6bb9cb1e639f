"""Which records are also converted singly, to be compared with what plans make of them."""

COMPARED_RECORDS = 256


class ComparisonSchedule:
    """When a record is converted singly, too, to be compared: the first one, and one of many."""

    def __init__(self) -> None:
        self._not_compared = COMPARED_RECORDS

    def is_due(self, count: int = 1) -> bool:
        """Whether one of the next `count` records is to be compared."""
        is_due = self._not_compared >= COMPARED_RECORDS
        self._not_compared = count if is_due else self._not_compared + count
        return is_due


class Comparisons:
    """Which records of a block are also parsed, to be compared with what is built.

    These are the first of each order of elements, and one of every few hundred.
    """

    def __init__(self) -> None:
        self._are_equal: dict[str, bool] = {}
        self._schedule = ComparisonSchedule()

    def is_due(self, order: str) -> bool:
        return self._schedule.is_due() or order not in self._are_equal

    def add(self, order: str, *, is_equal: bool) -> bool:
        """Note a comparison; return whether it refutes an earlier one."""
        was_equal = self._are_equal.get(order)
        self._are_equal[order] = is_equal and was_equal is not False
        return was_equal is True and not is_equal

    def are_equal(self, order: str) -> bool:
        """Whether all records with an order of elements that were compared were equal."""
        return self._are_equal[order]
