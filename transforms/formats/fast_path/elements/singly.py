"""The records of results, one by one."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from feedferry.schemas.record import Record
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock

Item = TypeVar("Item")


def singly(results: Iterable[Item | RecordBatch | ElementBlock]) -> Iterator[Item | Record]:
    """Yield results in their order, the records of batches and blocks in place of these."""
    for result in results:
        if isinstance(result, RecordBatch | ElementBlock):
            yield from result
        else:
            yield result
