"""A limit that is a number or a percentage."""

from decimal import Decimal

import msgspec


class ShareLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The most of something that a run may have: a `count`, or a `percent` of the whole."""

    count: int | None = None
    percent: Decimal | None = None

    def __str__(self) -> str:
        return f"{self.count}" if self.percent is None else f"{self.percent}%"

    def allows(self, part: int, *, of: int) -> bool:
        """Whether a part of a whole is within the limit."""
        if self.percent is not None:
            return part * 100 <= self.percent * of
        return self.count is None or part <= self.count
