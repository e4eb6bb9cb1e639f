"""Batches of plain files: small texts that differ in nothing but URL, content, time and place."""

from collections.abc import Callable, Iterable
from datetime import datetime

from schemas.record import Record
from transforms.content_types.detection import FileType
from transforms.formats.record_batch import (
    ColumnKind,
    Columns,
    RecordBatch,
    Shape,
    are_neutral,
    are_urls,
    is_document_text,
)
from transforms.sources.listing import ListingEntry
from transforms.sources.tree.records import time_of

_KINDS = (ColumnKind.URL, ColumnKind.CDATA, ColumnKind.TIME, ColumnKind.NUMBER)
_MAX_FILE_BYTES = 8 << 10
_MAX_BYTES = 256 << 10
_MIN_RECORDS = 2
"""Fewer records of a shape cost more as a batch than one by one."""

_Row = tuple[str, bytes, datetime, int]


class FileRun:
    """Collects plain files that follow one another; of 0 `max_records`, none is taken.

    `make` makes the record of a type of files and the values of one of them.
    """

    def __init__(
        self,
        make: Callable[[FileType, str, bytes, datetime | None, int], Record],
        *,
        max_records: int,
    ) -> None:
        self._make = make
        self._max_records = max_records
        self._shapes: dict[FileType, Shape] = {}
        self._rows: dict[FileType, list[_Row]] = {}
        self._types: list[FileType] = []
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return len(self._types) >= self._max_records or self._bytes >= _MAX_BYTES

    def add(self, listed: ListingEntry, content: bytes, file_type: FileType, offset: int) -> bool:
        """Add a file if it is plain; `offset` is that of its line."""
        modified = time_of(listed.modified_ns)
        if (
            not self._max_records
            or len(content) > _MAX_FILE_BYTES
            or file_type.named is not None
            or modified is None
            or listed.fingerprint
            or listed.sidecars
            or listed.members
            or listed.sent_document
            or not is_document_text(content)
        ):
            return False
        url = listed.url.replace("&", "&amp;")
        self._rows.setdefault(file_type, []).append((url, content, modified, offset))
        self._types.append(file_type)
        self._bytes += len(content)
        return True

    def take(self) -> Iterable[Record | RecordBatch]:
        """Return the records of all files, and forget them."""
        if not self._types:
            return ()
        types, rows, self._types, self._rows, self._bytes = self._types, self._rows, [], {}, 0
        numbers = {file_type: number for number, file_type in enumerate(rows)}
        groups = [
            Columns(self._shape(file_type), zip(*of_type, strict=True), len(of_type))
            for file_type, of_type in rows.items()
        ]
        batch = RecordBatch(groups, [numbers[file_type] for file_type in types])
        urls = [row[0] for of_type in rows.values() for row in of_type]
        is_batch = len(types) >= _MIN_RECORDS * len(groups) and are_neutral(urls) and are_urls(urls)
        return [batch] if is_batch else batch

    def _shape(self, file_type: FileType) -> Shape:
        if file_type not in self._shapes:
            make = self._make
            self._shapes[file_type] = Shape(lambda values: make(file_type, *values), _KINDS)
        return self._shapes[file_type]
