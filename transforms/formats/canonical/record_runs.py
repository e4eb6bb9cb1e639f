"""Make batches of records that were read one by one, and the shapes of canonical records."""

from collections.abc import Hashable, Iterable, Sequence
from operator import attrgetter

from msgspec.structs import replace

from feedferry.schemas.record import Encoding, Meta, Record
from feedferry.schemas.reject import record_error
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.fast_path.columns.cells import escaped
from feedferry.transforms.formats.fast_path.columns.column_kinds import (
    TEXT_KINDS,
    Column,
    ColumnKind,
    Values,
)
from feedferry.transforms.formats.fast_path.columns.neutrality import are_neutral
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.columns.shape import Shape
from feedferry.transforms.formats.fast_path.columns.shape_columns import Columns, grouped

MAX_MISSES = 8
"""After this number of blocks in a row that are no batches, none is tried any more."""

_RECORDS_A_SHAPE = 8
_MAX_SHAPES = 256
_FREE = {
    **dict.fromkeys(("title", "description", "keywords"), ColumnKind.TEXT),
    **dict.fromkeys(("modified", "visited", "next_check"), ColumnKind.TIME),
    "size": ColumnKind.NUMBER,
}
"""The fields that differ from record to record, besides URL, metadata, content and place."""

_CONTENTS = {
    Encoding.NONE: ColumnKind.FILE,
    Encoding.BASE64: ColumnKind.BASE64,
    Encoding.ZLIB_BASE64: ColumnKind.ZLIB,
}
_NOT_STATED = (None, "")
_PARTS = {
    "url": (),
    "metadata": (),
    "content": (),
    "action": ("_value_",),  # the hash of an enum is slow
    "provenance": ("source", "span", "datasource", "feedtype"),
}
"""The constants among the parts of some fields; all other fields are constants."""

_free_values = attrgetter(*_FREE)
_constants = attrgetter(
    *(name for name in Record.__struct_fields__ if name not in (*_FREE, *_PARTS)),
    *(f"{name}.{part}" for name, parts in _PARTS.items() for part in parts),
)


class RecordRuns:
    """Makes batches of runs of records, if a run has few shapes and its values are neutral."""

    def __init__(self, options: ReadOptions) -> None:
        self.max_records = options.batch_records
        self._max_content_bytes = options.max_content_bytes
        self._shapes: dict[Hashable, Shape] = {}
        self._misses = 0

    def take(self, records: Sequence[Record]) -> Iterable[Record | RecordBatch]:
        """Return the records of a run, in a batch if they can be."""
        if len(records) <= 1 or self._misses == MAX_MISSES:
            return records
        try:
            batch = self._batch(records)
        except Exception as exc:
            record_error(exc)  # raises what concerns more than a record
            batch = None
        self._misses = self._misses + 1 if batch is None else 0
        return records if batch is None else [batch]

    def _batch(self, records: Sequence[Record]) -> RecordBatch | None:
        keys, rows = zip(*map(_split, records), strict=True)
        groups: list[tuple[Columns, Sequence[int]]] = []
        for key, places, [alike] in grouped(keys, (rows,)):
            columns = neutral_columns(
                self._shape(key, records[places[0]]),
                [*zip(*alike, strict=True)],
                max_content_bytes=self._max_content_bytes,
            )
            if columns is None or len(groups) * _RECORDS_A_SHAPE > len(records):
                return None
            groups.append((columns, places))
        return RecordBatch.of(groups)

    def _shape(self, key: Hashable, record: Record) -> Shape:
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            shape = self._shapes[key] = shape_of(record)
        return shape


def shape_of(record: Record) -> Shape:
    """Return the shape of the records that differ from one in the values that usually differ."""
    names = [name for name in _FREE if getattr(record, name) not in _NOT_STATED]
    metas = [meta.data is None and meta.value != "" for meta in record.metadata]
    content, place = record.content, record.provenance

    def make(values: Values) -> Record:
        rest = iter(values)
        return replace(
            record,
            url=next(rest),
            **{name: next(rest) for name in names},
            metadata=tuple(
                Meta(meta.name, next(rest)) if is_free else meta
                for meta, is_free in zip(record.metadata, metas, strict=True)
            ),
            content=content and replace(content, data=next(rest)),
            provenance=replace(place, line=next(rest), offset=next(rest)),
        )

    kinds = [ColumnKind.URL if "://" in record.url else ColumnKind.DOCID]
    kinds += [_FREE[name] for name in names] + [ColumnKind.TEXT] * sum(metas)
    kinds += [_CONTENTS[content.encoding]] if content else []
    return Shape(make, [*kinds, ColumnKind.NUMBER, ColumnKind.NUMBER])


def _split(record: Record) -> tuple[Hashable, Values]:
    """Return what records of one shape share, and the values of the columns of `shape_of`."""
    free, content, place = _free_values(record), record.content, record.provenance
    names: list[str | Meta] = []
    row = [record.url, *[value for value in free if value not in _NOT_STATED]]
    for meta in record.metadata:
        if meta.data is None and meta.value:
            names.append(meta.name)
            row.append(meta.value)
        else:
            names.append(meta)
    if content is not None:
        row.append(content.data)
    row += (place.line, place.offset)
    stated = tuple([value if value in _NOT_STATED else True for value in free])
    encoding = content and content.encoding._value_
    return (_constants(record), stated, tuple(names), encoding, "://" in record.url), row


def neutral_columns(
    shape: Shape, columns: Sequence[Column], *, max_content_bytes: int
) -> Columns | None:
    """Return the columns of records with texts as they are; None unless all are neutral."""
    kinds = shape.kinds
    columns = [
        escaped(column) if kind in TEXT_KINDS else column
        for kind, column in zip(kinds, columns, strict=True)
    ]
    is_neutral = are_neutral(kinds, columns, max_content_bytes=max_content_bytes)
    return Columns(shape, columns, len(columns[0])) if is_neutral and shape.has_model else None
