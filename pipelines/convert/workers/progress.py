"""The progress of a conversion: the finished and the remaining work of all its spans."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from feedferry.pipelines.observer.progress import Snapshot
from feedferry.schemas.account import Account
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.span_progress import progress_reader
from feedferry.transforms.sources import source_of


class ConvertProgress:
    """The finished and the remaining work of the spans of an unfinished run.

    `folder` is where their progress is, a path or a URI.
    """

    def __init__(self, folder: str, spans: Sequence[Span]) -> None:
        self._reader = progress_reader(folder)
        self._spans = spans
        self._is_finished = False

    def snapshot(self) -> Snapshot:
        done = self._reader.sum()
        total, counts_records = self._total
        if self._is_finished and total is not None:  # an estimate until now
            total = done.records if counts_records else done.bytes
        return Snapshot(
            bytes=done.bytes,
            records=done.records,
            rejects=done.rejects,
            total=total,
            counts_records=counts_records,
        )

    def finish(self, account: Account) -> None:
        """Take the account of the run, when all spans are converted."""
        self._reader.finish(account)
        self._is_finished = True

    def state(self) -> object:
        """Return a value that changes with the work of a job: a stall is when it does not."""
        return self.snapshot(), self._reader.lines  # a span that is found converted is a line

    @cached_property
    def _total(self) -> tuple[int | None, bool]:
        """Return the bytes of all spans, or their documents (True) where bytes are unknown."""
        sizes = [source_of(span).size(span) for span in self._spans]
        total = _sum_known(size.bytes for size in sizes)
        if total is not None:
            return total, False
        return _sum_known(size.documents for size in sizes), True


def _sum_known(sizes: Iterable[int | None]) -> int | None:
    """Return the sum, None if it is unknown or nothing."""
    known = list(sizes)
    return None if None in known else sum(size or 0 for size in known) or None
