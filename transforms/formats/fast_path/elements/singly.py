"""The records of results, one by one."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from feedferry.schemas.record import Record
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock

Item = TypeVar("Item")


def singly(
    results: Iterable[Item | RecordBatch | ElementBlock],
    *,
    outlined: Callable[[str], bool] | None = None,
) -> Iterator[Item | Record]:
    """Yield results in their order, the records of batches and blocks in place of these.

    With `outlined`, records of blocks may be without contents and metadata (see `ElementBlock`).
    """
    for result in results:
        if isinstance(result, ElementBlock):
            yield from result.records(0, len(result.ends), outlined=outlined)
        elif isinstance(result, RecordBatch):
            yield from result
        else:
            yield result
