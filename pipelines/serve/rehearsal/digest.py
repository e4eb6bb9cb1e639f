"""The digestion of a delivery: its file is read, and each record becomes a change of the index."""

from collections.abc import Callable, Iterator
from pathlib import Path

from pipelines.serve.rehearsal import documents, groups
from pipelines.serve.rehearsal.documents import Change
from pipelines.serve.rehearsal.views import DeliveryStatus
from schemas.delivery import Delivery, Door
from schemas.feed import Feed
from schemas.membership import Membership
from schemas.record import Record
from schemas.reject import Reject, record_error
from schemas.span import Span
from transforms.formats import ReadOptions, ReadResult, by_door
from transforms.sources.spool import is_whole

MAX_DETAILS = 5
"""The number of reasons that are kept for a delivery."""

MAX_DETAIL_LENGTH = 1000
"""A longer reason is truncated; a reason may quote a value of any length."""

TORN = "torn-end"
"""The code of the reject for a document whose end is missing."""


class UnreadableDeliveryError(Exception):
    """A delivery changes nothing; the message begins with the appliance's words."""

    def __init__(self, reason: object) -> None:
        super().__init__(f"ProcessFeed: parsing error: {reason}")


class DigestTally:
    """Counts the records of a delivery that are included and refused, with the first reasons."""

    def __init__(self) -> None:
        self.included = self.in_error = 0
        self.details: list[str] = []

    @property
    def status(self) -> DeliveryStatus:
        if not self.in_error:
            return DeliveryStatus.COMPLETED
        return DeliveryStatus.WITH_ERRORS if self.included else DeliveryStatus.FAILED

    def refuse(self, line: int, reason: str) -> None:
        """Count a refused record."""
        self._add(f"Skipping the record, Line number: {line}, Error: {reason}")

    def refuse_end(self, reject: Reject) -> None:
        """Count the missing end of a feed."""
        self._add(f"ProcessFeed: parsing error, Line number: {reject.line}: {reject.reason}")

    def fail(self, reason: str) -> None:
        """Record that nothing of the delivery is included."""
        self.included, self.in_error = 0, max(1, self.in_error)
        self.details = [_truncate(reason), *self.details[: MAX_DETAILS - 1]]

    def _add(self, reason: str) -> None:
        self.in_error += 1
        if len(self.details) < MAX_DETAILS:
            self.details.append(_truncate(reason))


def read_changes(
    delivery: Delivery, spool: Path, tally: DigestTally, options: ReadOptions = ReadOptions()
) -> Iterator[Change]:
    """Yield the changes that a delivery makes, in order, with one record in memory at a time.

    Raises OSError if its file cannot be read, FormatError or UnreadableDeliveryError if it must
    change nothing: a full feed without its end would remove the documents of the missing part, and
    a full feed of which no record can be read would remove all documents.
    """
    is_feed = delivery.door is Door.FEED
    if is_whole(delivery):
        yield from documents.begin_full_feed(delivery) if is_feed else (groups.forget(delivery),)
    if delivery.path is None:
        return
    with (spool / delivery.path).open("rb") as stream:
        # The posted datasource and feedtype win over those in the header of a feed.
        posted = Feed(datasource=delivery.datasource, feedtype=delivery.feedtype)
        span = Span(source=delivery.path, feed=posted if is_feed else None)
        change = documents.change_of(delivery)
        is_read = False
        for result in by_door(delivery.door).read(stream, span=span, options=options):
            is_read = is_read or isinstance(result, Record | Membership)
            yield from _changes_of(result, delivery, tally, change)
    if tally.in_error and not is_read and is_whole(delivery):
        raise UnreadableDeliveryError(f"none of its {tally.in_error} records can be read")
    if is_feed and is_whole(delivery):
        yield documents.end_full_feed(delivery)


def _changes_of(
    result: ReadResult, delivery: Delivery, tally: DigestTally, change: Callable[[Record], Change]
) -> Iterator[Change]:
    if isinstance(result, Reject):
        _refuse(result, delivery, tally)
    elif isinstance(result, Record | Membership):
        try:
            if isinstance(result, Record):
                made = change(result)
            else:
                made = groups.add(result, groupsource=delivery.datasource)
        except Exception as exc:  # a defect costs the record, not the feed
            tally.refuse(result.provenance.line, record_error(exc).reason)
            if isinstance(result, Record):
                yield from documents.skip_record(delivery, result)
        else:
            tally.included += 1
            yield made


def _refuse(reject: Reject, delivery: Delivery, tally: DigestTally) -> None:
    if reject.code != TORN:
        tally.refuse(reject.line, reject.reason)
    elif is_whole(delivery):
        raise UnreadableDeliveryError(f"Line number: {reject.line}: {reject.reason}")
    else:
        tally.refuse_end(reject)


def _truncate(reason: str) -> str:
    return reason if len(reason) <= MAX_DETAIL_LENGTH else f"{reason[:MAX_DETAIL_LENGTH]} …"
