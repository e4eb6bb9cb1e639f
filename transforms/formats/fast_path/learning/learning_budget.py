"""How much is learned: what is not met again must cost little."""

RECORDS_A_PLAN = 32
"""How many records by columns save as much time as it takes to learn a shape or a plan."""


class LearningBudget:
    """Limits how much is learned: what few records use costs what other records save.

    `free` is how much is learned before anything has saved time, and `cost` the number of records
    that save the time for one.
    """

    def __init__(self, free: int, *, cost: int = RECORDS_A_PLAN) -> None:
        self._saved, self._cost = free * cost, cost

    def add(self, records: int) -> None:
        """Count records that were read or written by columns."""
        self._saved += records

    def pay(self) -> bool:
        """Pay for what is to be learned; return whether enough time was saved."""
        is_paid = self._saved >= self._cost
        self._saved -= is_paid * self._cost
        return is_paid
