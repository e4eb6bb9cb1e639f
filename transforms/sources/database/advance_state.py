"""Update the state after a successful run, keeping only the rows that the next run needs.

If keys are compared, or without a timestamp, that is every row. Otherwise it is the rows that the
next run reads again, the rows without a timestamp, and the rejected rows: rows below the watermark
and its lag are forgotten.

A rejected row is kept without a digest and read again by its key until it is accepted.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from schemas.sent_document import DELETION_SENT, NO_DIGEST, SentDocument, StateChange
from schemas.span import Timestamp, Watermark, is_above
from transforms.sources.database.deletions import former_url_key, is_row_key
from transforms.sources.database.watermark import floor_of
from transforms.storage.atomic import whole_file
from transforms.storage.state import SourceState

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(StateChange)


class NextRunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The watermark for the next run, and how it finds deletions.

    `mark` is the highest value of the column `timestamp` at the start of the run, at most the clock
    of the database and at least the last mark. Without a mark, the next run reads all rows.
    """

    timestamp: str = ""
    mark: Watermark | None = None
    lag_seconds: float = 0
    compares_keys: bool = False
    has_deletes_query: bool = False


def advance_state(
    all_seen: Iterable[StateChange], *, state: SourceState, next_run: NextRunPlan, path: Path
) -> Iterator[StateChange]:
    """Return the changes of the state, from the rows that a run has seen.

    They are written to `path` first, since a state cannot be changed while it is read.
    """
    changes = _StateChanges(state, next_run)
    with whole_file(path) as stream:
        for seen in changes.forgotten():
            stream.write(_encoder.encode(seen) + b"\n")
        for seen in all_seen:
            stream.writelines(_encoder.encode(one) + b"\n" for one in changes.of(seen))
    return _read(path)


class _StateChanges:
    def __init__(self, state: SourceState, next_run: NextRunPlan) -> None:
        self._state = state
        self._has_deletes_query = next_run.has_deletes_query
        self._mark = None if next_run.compares_keys else next_run.mark
        self._floor: Timestamp | None = None
        if self._mark is not None:
            lag_seconds, name = next_run.lag_seconds, next_run.timestamp
            self._floor = floor_of(self._mark, lag_seconds=lag_seconds, name=name).value()

    def forgotten(self) -> Iterator[StateChange]:
        """Yield old rows, and rejected rows: those that are rejected again are seen again."""
        for known in self._state.documents() if self._mark else ():
            is_sent_row = known.digest != DELETION_SENT and is_row_key(known.key)
            if is_sent_row and not (known.digest != NO_DIGEST and self._is_needed(known)):
                yield StateChange(known=known, is_gone=True)

    def of(self, seen: StateChange) -> Iterator[StateChange]:
        """Yield the changes for a row that was seen."""
        known = seen.known
        has_digest = known.digest != NO_DIGEST
        before = self._state.find(known.key) if self._state.generation else None
        if before is not None and before.url and has_digest and known.url != before.url:
            yield StateChange(known=SentDocument(key=former_url_key(before.url), url=""))
        if seen.is_gone:
            yield self._gone(known)
        elif has_digest:
            yield StateChange(known=known, is_gone=not self._is_needed(known))
        else:
            yield StateChange(known=replace(known, url=before.url if before else ""))

    def _gone(self, known: SentDocument) -> StateChange:
        if known.digest != NO_DIGEST:  # a row that is marked as deleted, and still exists
            return StateChange(known=replace(known, url=""), is_gone=not self._is_needed(known))
        if self._has_deletes_query and known.url and is_row_key(known.key):
            return StateChange(
                known=SentDocument(
                    key=known.key, url="", fingerprint=known.url, digest=DELETION_SENT
                )
            )
        return StateChange(known=known, is_gone=True)

    def _is_needed(self, known: SentDocument) -> bool:
        """Return whether the next run reads the row again, or may do so."""
        if self._mark is None or self._floor is None or not known.fingerprint:
            return True
        try:
            return is_above(replace(self._mark, text=known.fingerprint).value(), self._floor)
        except (ValueError, TypeError):  # a timestamp of another type
            return True


def _read(path: Path) -> Iterator[StateChange]:
    with path.open("rb") as lines:
        yield from map(_decoder.decode, lines)
