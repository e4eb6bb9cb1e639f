"""What a state moves by when a run has succeeded: of all that it saw, what the next run needs.

Where keys are compared, and where no timestamp tells what is new, that is every row. Else it is
the rows that the next run will read again, those without a timestamp and those that were rejected:
what lies below the mark and its lag is forgotten.

A row that was rejected is known without a digest, and read again by its key until it is mended.
More than so many that were rejected keep the mark below the first of them.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from schemas.known import Known, Seen
from transforms.sources.database.deletions import GONE, is_row, moved_key
from transforms.sources.database.watermark import Mark, Timestamp, floor_of, is_above
from transforms.storage.atomic import whole_file
from transforms.storage.state import State

MOST_REMEMBERED = 100_000
"""How many rejected rows are read again by their keys."""

SeeAll = Callable[[], Iterable[Seen]]
"""Gives all that a run saw, as often as it is asked."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Seen)


class NextRunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run leaves to the next one.

    `mark` is the highest timestamp that was read, of the column `timestamp`; without one all rows
    are read in every run. `compares_keys` and `asks_deletes` tell how deletions are found.
    """

    timestamp: str = ""
    mark: Mark | None = None
    lag_seconds: float = 0
    compares_keys: bool = False
    asks_deletes: bool = False


class StateAdvance(NamedTuple):
    """The mark that the state moves to, and what it moves by; see `transforms.storage.state`."""

    mark: Mark | None
    seen: Iterator[Seen]


def advance_state(
    see_all: SeeAll, *, state: State, next_run: NextRunPlan, path: Path, most: int = MOST_REMEMBERED
) -> StateAdvance:
    """Write what the state moves by to `path`, and return it with the mark.

    The state is not read any more when this returns, so that it can be moved.
    """
    mark = _first_of_many(see_all(), next_run.mark, most) or next_run.mark
    choice = _Choice(state, replace(next_run, mark=mark))
    with whole_file(path) as stream:
        for seen in choice.all_of(see_all()):
            stream.write(_encoder.encode(seen) + b"\n")
    return StateAdvance(mark, _read(path))


class _Choice:
    """Chooses what the next run must know."""

    def __init__(self, state: State, next_run: NextRunPlan) -> None:
        self._state = state
        self._is_first = state.generation == 0
        self._asks_deletes = next_run.asks_deletes
        self._mark = None if next_run.compares_keys else next_run.mark
        self._floor = _floor(next_run) if self._mark else None

    def all_of(self, all_seen: Iterable[Seen]) -> Iterator[Seen]:
        yield from self._forgotten()
        for seen in all_seen:
            before = None if self._is_first else self._state.find(seen.known.key)
            yield from _moved(seen.known, before)
            yield self._gone(seen.known) if seen.is_gone else self._standing(seen.known, before)

    def _forgotten(self) -> Iterator[Seen]:
        """What the state need not know any more; what was rejected again follows."""
        for known in self._state.documents() if self._mark else ():
            is_told = known.digest != GONE and is_row(known.key)
            if is_told and (not known.digest or not self._is_needed(known)):
                yield Seen(known=known, is_gone=True)

    def _standing(self, known: Known, before: Known | None) -> Seen:
        if not known.digest:
            return Seen(known=replace(known, url=before.url if before else ""))
        return Seen(known=known, is_gone=not self._is_needed(known))

    def _gone(self, known: Known) -> Seen:
        if known.digest:  # a row that says so, and stays there
            return Seen(known=replace(known, url=""), is_gone=not self._is_needed(known))
        if self._asks_deletes and known.url and is_row(known.key):
            return Seen(known=Known(key=known.key, url="", fingerprint=known.url, digest=GONE))
        return Seen(known=known, is_gone=True)

    def _is_needed(self, known: Known) -> bool:
        if self._mark is None or self._floor is None or not known.fingerprint:
            return True
        value = _value(self._mark, known.fingerprint)
        return value is None or is_above(value, self._floor)


def _floor(next_run: NextRunPlan) -> Timestamp | None:
    if next_run.mark is None:
        return None
    return floor_of(next_run.mark, lag_seconds=next_run.lag_seconds, name=next_run.timestamp)


def _moved(known: Known, before: Known | None) -> Iterator[Seen]:
    """The url that a row had, for the next run to delete."""
    if before is not None and before.url and known.digest and known.url != before.url:
        yield Seen(known=Known(key=moved_key(before.url), url=""))


def _first_of_many(all_seen: Iterable[Seen], mark: Mark | None, most: int) -> Mark | None:
    """The least timestamp of rejected rows, if there are too many to read by their keys."""
    if mark is None:
        return None
    texts = (one.known.fingerprint for one in all_seen if not one.known.digest and not one.is_gone)
    count, first = 0, mark
    for text in texts:
        count += 1
        value = _value(mark, text) if text else None
        if value is not None and is_above(first.value(), value):
            first = replace(mark, text=text)
    return first if count > most else None


def _value(mark: Mark, text: str) -> Timestamp | None:
    """A timestamp as it can be compared with a mark; `None` if it cannot."""
    try:
        value = replace(mark, text=text).value()
        is_above(value, mark.value())
    except (ValueError, ArithmeticError, TypeError):
        return None
    return value


def _read(path: Path) -> Iterator[Seen]:
    with path.open("rb") as lines:
        yield from map(_decoder.decode, lines)
