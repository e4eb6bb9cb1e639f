"""How a delivery is digested: its file becomes changes and a tally of errors."""

import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pipelines.serve.rehearsal import documents, groups
from pipelines.serve.rehearsal.documents import Change
from pipelines.serve.rehearsal.views import Status
from schemas.defect import record_error
from schemas.delivery import Delivery, Door
from schemas.feed import Feed
from schemas.membership import Membership
from schemas.record import Record
from schemas.reject import Reject
from schemas.span import Span
from transforms.formats import ReadResult, by_door
from transforms.formats.base import ReadOptions
from transforms.sources.spool import is_whole

DETAILS = 5
"""How many reasons are kept of a delivery."""

DETAIL_LETTERS = 1000
"""How much is kept of a reason, which may show a value of any length."""

_BLOCK_BYTES = 1 << 20

TORN = "torn-end"
"""The code of the reject that stands for the end of a document, where that is missing."""


class Interrupted(Exception):  # noqa: N818 - nothing is wrong
    """A delivery was left in the middle, because the receiver stops."""


class Unreadable(Exception):  # noqa: N818 - one word says it
    """A delivery that changes nothing; the appliance's words come first."""

    def __init__(self, found: object) -> None:
        super().__init__(f"ProcessFeed: parsing error: {found}")


class Tally:
    """Counts what becomes of the records of a delivery, and keeps the first few reasons."""

    def __init__(self) -> None:
        self.included = self.in_error = 0
        self.details: list[str] = []

    @property
    def status(self) -> Status:
        if not self.in_error:
            return Status.COMPLETED
        return Status.WITH_ERRORS if self.included else Status.FAILED

    def refuse(self, line: int, reason: str) -> None:
        """Count a record that does not go in."""
        self._note(f"Skipping the record, Line number: {line}, Error: {reason}")

    def tear(self, reject: Reject) -> None:
        """Count the end that a feed does not have."""
        self._note(f"ProcessFeed: parsing error, Line number: {reject.line}: {reject.reason}")

    def fail(self, reason: str) -> None:
        """Tell of a delivery of which nothing goes in."""
        self.included, self.in_error = 0, max(1, self.in_error)
        self.details = [_cut(reason), *self.details[: DETAILS - 1]]

    def _note(self, reason: str) -> None:
        self.in_error += 1
        if len(self.details) < DETAILS:
            self.details.append(_cut(reason))


def digest(
    delivery: Delivery,
    spool: Path,
    tally: Tally,
    *,
    stopping: Callable[[], bool],
    options: ReadOptions = ReadOptions(),
) -> Iterator[Change]:
    """Yield the changes that a delivery makes, in order, one record in memory at a time.

    Raises Interrupted soon after `stopping` says so, OSError where its file cannot be read, and
    FormatError or Unreadable where nothing of it must go in: a full feed whose end is missing
    would remove documents that may stand in the rest, and one that has records of which none can
    be read would remove all of them.
    """
    for change in _all_changes(delivery, spool, tally, stopping, options):
        if stopping():
            raise Interrupted
        yield change


def _all_changes(
    delivery: Delivery,
    spool: Path,
    tally: Tally,
    stopping: Callable[[], bool],
    options: ReadOptions,
) -> Iterator[Change]:
    yield from _beginning(delivery)
    if delivery.path is None:
        return
    file = (spool / delivery.path).open("rb", buffering=0)
    with io.BufferedReader(_Interruptible(file, stopping)) as stream:
        span = Span(source=delivery.path, feed=_feed_of(delivery))
        found = by_door(delivery.door).read(stream, span=span, options=options)
        is_read = False
        for change in _changes(found, delivery, tally):
            is_read = True
            yield change
    if tally.in_error and not is_read and is_whole(delivery):
        raise Unreadable(f"none of its {tally.in_error} records can be read")
    if delivery.door is Door.FEED and is_whole(delivery):
        yield documents.keep(delivery)


def _beginning(delivery: Delivery) -> tuple[Change, ...]:
    """Return what goes before what is all that there is of a source."""
    if not is_whole(delivery):
        return ()
    forget = groups.forget if delivery.door is Door.GROUPS else documents.forget
    return forget(delivery)


def _feed_of(delivery: Delivery) -> Feed | None:
    """What a feed was posted as, which wins over its header."""
    if delivery.door is not Door.FEED:
        return None
    return Feed(datasource=delivery.datasource, feedtype=delivery.feedtype)


def _changes(found: Iterable[ReadResult], delivery: Delivery, tally: Tally) -> Iterator[Change]:
    change = documents.changer(delivery)
    for one in found:
        if isinstance(one, Record):
            try:
                made = change(one)
            except Exception as exc:
                tally.refuse(one.provenance.line, record_error(exc).reason)
                yield from documents.skip(delivery, one)
            else:
                tally.included += 1
                yield made
        elif isinstance(one, Membership):
            yield from _membership(one, delivery, tally)
        elif isinstance(one, Reject):
            _refuse(one, delivery, tally)


def _membership(one: Membership, delivery: Delivery, tally: Tally) -> Iterator[Change]:
    """Yield the changes of a group, or none: a group without some of its members is not kept."""
    try:
        made = tuple(groups.changes(one, groupsource=delivery.datasource))
    except Exception as exc:
        tally.refuse(one.provenance.line, record_error(exc).reason)
    else:
        tally.included += 1
        yield from made


def _refuse(reject: Reject, delivery: Delivery, tally: Tally) -> None:
    if reject.code != TORN:
        tally.refuse(reject.line, reject.reason)
    elif is_whole(delivery):
        raise Unreadable(f"Line number: {reject.line}: {reject.reason}")
    else:
        tally.tear(reject)


def _cut(reason: str) -> str:
    return reason if len(reason) <= DETAIL_LETTERS else f"{reason[:DETAIL_LETTERS]} …"


class _Interruptible(io.RawIOBase):
    """A file that is read until it is time to stop."""

    def __init__(self, file: io.FileIO, stopping: Callable[[], bool]) -> None:
        self._file = file
        self._stopping = stopping

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray", /) -> int:  # type: ignore[override]  # only these are passed
        if self._stopping():
            raise Interrupted
        return self._file.readinto(memoryview(buffer)[:_BLOCK_BYTES])

    def close(self) -> None:
        self._file.close()
        super().close()
