"""Moments of many records, as numbers until somebody needs them."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import overload

import msgspec

SECOND = 1_000_000
"""Microseconds of a second."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_seconds = msgspec.json.Decoder(list[datetime], strict=False)


class Moments(Sequence[datetime]):
    """Aware moments: `numbers` since 1970, in UTC, in units of `microseconds`.

    Years are 1 to 9999; the caller has checked that.
    """

    __slots__ = ("microseconds", "numbers")

    def __init__(self, numbers: Sequence[int], *, microseconds: int = 1) -> None:
        self.numbers = numbers
        self.microseconds = microseconds

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, at: int) -> datetime: ...

    @overload
    def __getitem__(self, at: slice) -> "Moments": ...

    def __getitem__(self, at: int | slice) -> "datetime | Moments":
        if isinstance(at, slice):
            return Moments(self.numbers[at], microseconds=self.microseconds)
        return _EPOCH + timedelta(microseconds=self.numbers[at] * self.microseconds)

    def __iter__(self) -> Iterator[datetime]:
        if self.microseconds == SECOND:
            return iter(_seconds.decode(f"[{','.join(map(str, self.numbers))}]"))
        return (self[at] for at in range(len(self.numbers)))
