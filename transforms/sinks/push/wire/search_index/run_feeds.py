"""The feeds of a run by datasource: which are full, and how many documents they make."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import IO

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import TargetError
from feedferry.schemas.feed import FULL
from feedferry.transforms.sinks.push.model import ERASING_FEEDTYPES, count_records
from feedferry.transforms.sinks.push.wire.protocol import Appliance, RunSession

_NAMED = 3
IdsOf = Callable[[IO[bytes]], Iterator[tuple[bytes, bool]]]
"""Yields the ids of the documents of a chunk, in order, each with whether it is deleted."""


def is_full(chunk: Chunk) -> bool:
    return chunk.requested_feedtype == FULL or chunk.feedtype in ERASING_FEEDTYPES


def by_datasource(chunks: Sequence[Chunk]) -> dict[str, list[Chunk]]:
    found: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        found.setdefault(chunk.datasource or "", []).append(chunk)
    return found


def records_before(chunks: Sequence[Chunk]) -> dict[int, int]:
    """Return the number of records of earlier chunks, by the ordinal of a chunk."""
    *before, _ = accumulate(map(count_records, chunks), initial=0)
    return dict(zip((chunk.ordinal for chunk in chunks), before, strict=True))


def begun_at(session: RunSession, now: int) -> int:
    """Return the time at which the push of a run began, the same when it is continued."""
    return int(session.step("begin", lambda: str(now)))


def now() -> int:
    return time.time_ns() // 1000


def check_full_feeds(appliance: Appliance, datasource: str, chunks: Sequence[Chunk]) -> None:
    """Raise TargetError for feeds of a datasource of which one replaces documents of another."""
    where = f"{appliance.url}: {datasource!r} has"
    if len({is_full(chunk) for chunk in chunks}) > 1:
        raise TargetError(
            f"{where} full and incremental feeds in one run; expected one of them: feedferry"
            " compact makes one full feed of them"
        )
    origins = dict.fromkeys(chunk.origin for chunk in chunks if is_full(chunk))
    if len(origins) > 1:
        names = ", ".join(map(repr, islice(origins, _NAMED)))
        raise TargetError(
            f"{where} {len(origins)} full feeds in one run, of which each replaces the one before"
            f" it: {names}; expected one: begin a new run with ⟦fresh⟧ and the newest of them, or"
            " with the feed that feedferry compact makes of them; if they are parts of one feed,"
            " state ⟦feedtype⟧ full"
        )


def count_sent(session: RunSession, chunks: Iterable[Chunk], ids_of: IdsOf) -> int:
    """Return the number of documents that chunks make in an index without documents."""
    sent: set[int] = set()
    for chunk in chunks:
        with session.open(chunk) as stream:
            for id, is_deleted in ids_of(stream):
                (sent.discard if is_deleted else sent.add)(hash(id))
    return len(sent)
