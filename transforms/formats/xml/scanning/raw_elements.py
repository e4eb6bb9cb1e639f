"""Elements as they came, and runs of them that are read at once."""

from collections.abc import Callable
from typing import NamedTuple

from feedferry.schemas.record import Record
from feedferry.schemas.span import ElementContext
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock


class RawElement(NamedTuple):
    """One element of the document: its bytes and its place in the stream."""

    name: str
    text: bytes
    offset: int
    line: int
    context: ElementContext


Records = list[Record | RecordBatch | ElementBlock | RawElement]


class Run(NamedTuple):
    """Adjacent elements that were understood: their number, and their length together.

    Those that need the parser are as they came.
    """

    records: Records
    number: int
    length: int


Bulk = Callable[[bytes, int, int, ElementContext], Run | None]
"""Makes records of the elements at the begin of a range, given its offset, line and context.

Returns None if the first is not understood. What it takes must be what the scanner would yield:
whole elements, with nothing between them but blanks.
"""
