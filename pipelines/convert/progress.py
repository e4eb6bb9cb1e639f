"""The progress of a conversion: the sum of what its spans have done, and what they have to do."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from pipelines.observer.progress import Snapshot
from schemas.span import Span
from transforms.sources import source_of
from transforms.span_progress import ProgressReader


class ConvertProgress:
    """What the spans of an unfinished run have done and what they have to do."""

    def __init__(self, work: Path, spans: Sequence[Span]) -> None:
        self._reader = ProgressReader(work)
        self._spans = spans

    def snapshot(self) -> Snapshot:
        done = self._reader.sum()
        total, counts_records = self._total
        return Snapshot(
            bytes=done.bytes,
            records=done.records,
            rejects=done.rejects,
            total=total,
            counts_records=counts_records,
        )

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
