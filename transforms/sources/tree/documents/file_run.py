"""Batches of plain files: small texts that differ in nothing but URL, content, time and place."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from feedferry.schemas.record import Record
from feedferry.transforms.content_types.charset import UTF_8
from feedferry.transforms.content_types.detection import FileType
from feedferry.transforms.formats.fast_path.columns.cells import escaped
from feedferry.transforms.formats.fast_path.columns.column_kinds import Column, ColumnKind
from feedferry.transforms.formats.fast_path.columns.neutrality import find_not_neutral
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.columns.shape import Shape
from feedferry.transforms.formats.fast_path.columns.shape_columns import Columns, grouped
from feedferry.transforms.sources.listing import ListingEntry
from feedferry.transforms.sources.tree.documents.records import time_of

_KINDS = (ColumnKind.URL, ColumnKind.FILE, ColumnKind.TIME, ColumnKind.NUMBER)
_MAX_FILE_BYTES = 8 << 10
_MAX_BYTES = 256 << 10
_MIN_RECORDS = 2
"""Fewer records of a shape cost more as a batch than one by one."""

MakeRecord = Callable[[FileType, str, bytes, datetime | None, int], Record]
"""Makes the record of a plain file of its type and the values of the columns."""


class FileRun:
    """Collects plain files that follow one another; with 0 as `max_records`, it takes none.

    The first file is alone: the first records of a feed are converted one by one.
    """

    def __init__(self, make: MakeRecord, *, max_records: int) -> None:
        self._make = make
        self._max_records = max_records
        self._shapes: dict[FileType, Shape] = {}
        self._rows: list[tuple[FileType, str, bytes, datetime, int]] = []
        self._bytes = 0
        self._is_first = True

    @property
    def is_empty(self) -> bool:
        return not self._rows

    @property
    def is_full(self) -> bool:
        most = 1 if self._is_first else self._max_records
        return len(self._rows) >= most or self._bytes >= _MAX_BYTES

    def add(self, listed: ListingEntry, content: bytes, file_type: FileType, offset: int) -> bool:
        """Add a file if it is plain; `offset` is that of its line."""
        modified = time_of(listed.modified_ns)
        if (
            not self._max_records
            or len(content) > _MAX_FILE_BYTES
            or modified is None
            or file_type.charset != UTF_8
            or file_type.named is not None
            or listed.fingerprint
            or listed.sidecars
            or any(member.key != listed.key for member in listed.members)
            or listed.sent_document
        ):
            return False
        self._rows.append((file_type, listed.url, content, modified, offset))
        self._bytes += len(content)
        return True

    def take(self) -> Iterable[Record | RecordBatch]:
        """Return the records of all files, and forget them."""
        if not self._rows:
            return ()
        types, texts, *others = zip(*self._rows, strict=True)
        columns = (escaped(texts), *others)
        groups = [
            (Columns(self._shape(file_type), of_type, len(places)), places)
            for file_type, places, of_type in grouped(types, columns)
        ]
        batch = RecordBatch.of(groups)
        self._rows, self._bytes, self._is_first = [], 0, False
        is_batch = len(texts) >= _MIN_RECORDS * len(groups)
        return _neutral_in_batches(batch, columns) if is_batch else batch

    def _shape(self, file_type: FileType) -> Shape:
        if file_type not in self._shapes:
            make = self._make
            self._shapes[file_type] = Shape(lambda values: make(file_type, *values), _KINDS)
        return self._shapes[file_type]


def _neutral_in_batches(
    batch: RecordBatch, columns: Sequence[Column]
) -> Iterable[Record | RecordBatch]:
    """Yield a batch without the records that are not neutral, which come one by one."""
    count = len(batch.order)
    alone = find_not_neutral(_KINDS, columns, most=count)
    place = 0
    for part in batch.parts(count, alone):
        yield from part if place in alone else (part,)
        place += len(part.order)
