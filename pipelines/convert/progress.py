"""The progress of a conversion: the sum of what its spans have done, and what they have to do."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from pipelines.observer.progress import Snapshot
from schemas.span import Span
from transforms.convert import PROGRESS
from transforms.sources import source_of
from transforms.storage.atomic import read_undamaged


class ConvertProgress:
    """Adds up the progress files of spans in the folder of an unfinished run."""

    def __init__(self, work: Path, spans: Sequence[Span]) -> None:
        self._work = work
        self._spans = spans

    def snapshot(self) -> Snapshot:
        paths = self._work.glob(f"*{PROGRESS}")
        counts = filter(None, (read_undamaged(path, tuple[int, int, int]) for path in paths))
        done, records, rejects = map(sum, zip((0, 0, 0), *counts, strict=True))
        total, counts_records = self._total
        return Snapshot(
            bytes=done,
            records=records,
            rejects=rejects,
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
