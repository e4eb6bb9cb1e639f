"""Make records of rows, as a mapping describes them.

Columns are looked up once, so that a row costs a few calls and no dict. A row without a valid
record becomes a Reject, which has the key of the row, and the row as JSON without the document.

**Keeps:** metadata in the order of the list, with all values. NULL is no metadata; an empty text
is.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Action, Arrival, Crawl, Meta, Provenance, Record
from feedferry.schemas.reject import Reject, record_error
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.sources.database.mapping.columns import (
    ColumnIndex,
    ColumnReference,
    LoadRows,
    Row,
    TextGetter,
    TimeGetter,
    ValueGetter,
    url_getter,
)
from feedferry.transforms.sources.database.mapping.row_mapping import (
    TIMESTAMP,
    DateColumn,
    MetadataColumn,
    RowMapping,
)
from feedferry.transforms.sources.database.mapping.values import text_of, time_converter, values_of
from feedferry.transforms.sources.database.records.content import TypedContent, content_getter
from feedferry.transforms.sources.database.records.row_acl import AclGetter

TEXT_FIELDS = ("title", "description", "keywords")

MetaGetter = Callable[[Row], str | Sequence[str | bytes]]
"""Returns the value of a metadata name, or its values if there is not one text."""

_ADD = Action.ADD  # the attribute lookup of an enum costs ten times as much


class RecordMaker:
    """Makes the record of a row, or its Reject.

    Raise ConfigError for a column of the mapping that the rows do not have. `load_rows` runs the
    lookup queries of the mapping for the key of a row. `fields` are the getters of the fields that
    are mapped, besides the content and the metadata.
    """

    def __init__(
        self,
        mapping: RowMapping,
        index: ColumnIndex,
        load_rows: LoadRows,
        *,
        span: Span = Span(),
        options: ReadOptions = ReadOptions(),
    ) -> None:
        content, max_bytes = mapping.content, options.max_content_bytes
        self._index = index
        self._span = span
        self._max_bytes = max_bytes
        self.provenance = Provenance(source=span.source, span=span.ordinal)
        self.has_content = not content.is_none
        self._arrival = Arrival.PUSHED if self.has_content else Arrival.CRAWLED
        places = {index.at(f"content: {key}", name) for key, name in content.columns.items()}
        hidden = _hidden_columns(mapping, index)
        self._not_kept = places
        self.url = url_getter("url", mapping.url or "", index)
        self.is_deletion = deletion_test(mapping, index)
        self.content = content_getter(mapping, index, max_bytes=max_bytes, without=hidden)
        self.fields: dict[str, Callable[[Row], object]] = {  # the types of fields
            name: index.text_getter(name, column)
            for name in TEXT_FIELDS
            if (column := getattr(mapping, name)) is not None
        }
        self.metadata = metadata_getter(mapping, index, load_rows, without=hidden | places)
        if mapping.modified is not None:
            self.fields["modified"] = _time_getter(mapping.modified, index, options.zone)
        self.acl: AclGetter | None = None
        if mapping.acl is not None:
            self.fields["acl"] = self.acl = AclGetter(mapping.acl, index, load_rows)
        if mapping.display_url is not None:
            self.fields["crawl"] = _crawl_getter(mapping.display_url, index)

    def make(self, row: Row, *, too_large: str | None = None) -> Record | Reject:
        """Return the outcome of a row; `too_large` is a column that the row is without."""
        url, action = None, _ADD
        try:
            if self.is_deletion is not None and self.is_deletion(row):
                action = Action.DELETE
            url = self.url(row)
            if action is not _ADD:
                return Record(url=url, action=action, provenance=self.provenance)
            if too_large is not None:
                reason = (
                    f"{too_large} has more than {self._max_bytes} bytes; expected at most that; "
                    "raise ⟦max_content_bytes⟧ to read it"
                )
                raise RecordError("content-too-large", reason)
            fields = {name: get(row) for name, get in self.fields.items()}
            return self.record(url, self.content(row), self.metadata(row), fields)
        except Exception as exc:
            return self._index.reject(
                row,
                record_error(exc),
                span=self._span,
                without=self._not_kept,
                url=url,
                action=action.value,
            )

    def record(
        self, url: str, document: TypedContent, metadata: tuple[Meta, ...], fields: dict[str, Any]
    ) -> Record:
        """Return a record to be added; `fields` are those of the maker."""
        content, mimetype, charset = document
        return Record(
            url=url,
            action=_ADD,
            arrival=self._arrival,
            content=content,
            mimetype=mimetype,
            charset=charset,
            metadata=metadata,
            provenance=self.provenance,
            **fields,
        )


def used_columns(mapping: RowMapping, index: ColumnIndex) -> Collection[int]:
    """Return the positions of the columns that records, keys and the watermark need.

    Raise ConfigError for a missing column. The function builds a RecordMaker and returns the
    columns that it looked up: a second list of them could differ from the code that reads them.
    """
    RecordMaker(mapping, index, lambda query, key: ())
    if mapping.timestamp is not None:
        index.at(TIMESTAMP, mapping.timestamp)
    for name in index.key:
        index.at("key", name)
    if mapping.content.is_page or any(entry.is_all for entry in mapping.metadata_columns):
        for name in index.names:
            index.at("query", name)
    return index.used


class MetadataGetter:
    """Returns the metadata of a row.

    `entries` are pairs of a name and the function that returns its values.
    """

    def __init__(self, entries: Iterable[tuple[str, MetaGetter]]) -> None:
        self.entries = tuple(entries)

    def __call__(self, row: Row) -> tuple[Meta, ...]:
        metas: list[Meta] = []
        for name, read in self.entries:
            value = read(row)
            metas += [
                Meta(name, each) if isinstance(each, str) else Meta(name, "", each)
                for each in ((value,) if isinstance(value, str) else value)
            ]
        return tuple(metas)


def metadata_getter(
    mapping: RowMapping, index: ColumnIndex, load_rows: LoadRows, *, without: Collection[int] = ()
) -> MetadataGetter:
    """Return the getter of the metadata of a row; raise ConfigError as above.

    `all` means all columns `without` some and without those that the list mentions.
    """
    entries = _metadata_entries(mapping, index, without)
    return MetadataGetter((entry.label, _meta_getter(entry, index, load_rows)) for entry in entries)


def _metadata_entries(
    mapping: RowMapping, index: ColumnIndex, without: Collection[int]
) -> Iterator[MetadataColumn]:
    """Yield the entries of the list, with the other columns in place of `all`."""
    entries = mapping.metadata_columns
    columns = [entry.column for entry in entries if entry.column is not None]
    used = {index.at("metadata", name) for name in columns} | {*without}
    for field in TEXT_FIELDS:  # targets write these fields as metadata
        name = getattr(mapping, field)
        if name is not None and name.lower() == field:
            used.add(index.at(field, name))
    for entry in entries:
        if not entry.is_all:
            yield entry
            continue
        for at, name in enumerate(index.names):
            if at not in used:
                yield MetadataColumn(column=name)


def _meta_getter(entry: MetadataColumn, index: ColumnIndex, load_rows: LoadRows) -> MetaGetter:
    name, separator = entry.label, entry.separator
    if entry.column is None:
        query, key_of = entry.query or "", index.key_getter()
        return lambda row: [*_answered(name, load_rows(query, key_of(row)))]
    at = index.at(f"metadata: {name}", entry.column)
    if separator is None:
        return TextGetter(at, partial(_values, name))
    return ValueGetter(at, partial(_split, name, separator))


def _values(name: str, value: object) -> Sequence[str | bytes]:
    try:
        return values_of(value)
    except RecordError as exc:
        raise RecordError(exc.code, f"{name}: {exc.reason}") from exc


def _split(name: str, separator: str, value: object) -> Sequence[str]:
    texts = [
        item if isinstance(item, str) else text_of(item) or ""
        for item in ((value,) if isinstance(value, str) else _values(name, value))
    ]
    parts = [part for text in texts for part in text.split(separator)]
    return [stripped for part in parts if (stripped := part.strip())]


def _answered(name: str, answers: Iterable[Row]) -> Iterator[str | bytes]:
    for answer in answers:
        if len(answer) != 1:
            raise RecordError(
                "bad-query", f"{name}: {len(answer)} columns after the key; expected one value"
            )
        yield from _values(name, answer[0])


def _hidden_columns(mapping: RowMapping, index: ColumnIndex) -> set[int]:
    """Return the columns of ACL and deletion: they are no part of the document."""
    columns = {} if mapping.acl is None else mapping.acl.columns
    hidden = {index.at(f"acl: {key}", name) for key, name in columns.items()}
    if mapping.action is not None:
        hidden.add(index.at("action", mapping.action.column))
    if mapping.deleted_at is not None:
        hidden.add(index.at("deleted_at", mapping.deleted_at))
    return hidden


def deletion_test(mapping: RowMapping, index: ColumnIndex) -> Callable[[Row], bool] | None:
    """Return the test of whether a row is marked as deleted, None without marks."""
    if mapping.deleted_at is not None:
        at, name = index.at("deleted_at", mapping.deleted_at), mapping.deleted_at
        return lambda row: row[at] is not None and _is_finite(name, row[at])
    if mapping.action is None:
        return None
    text = index.text_getter("action", mapping.action.column)
    words = frozenset(word.strip().lower() for word in mapping.action.delete)
    return lambda row: (text(row) or "").strip().lower() in words


def _is_finite(name: str, value: object) -> bool:
    if value in ("infinity", "-infinity"):
        raise RecordError("bad-date", f"{name}={value!r}; expected a date, or NULL")
    return True


def _time_getter(stated: str | DateColumn, index: ColumnIndex, zone: str) -> TimeGetter:
    if isinstance(stated, str):
        return TimeGetter(index.at("modified", stated), time_converter(stated, zone))
    convert = time_converter(stated.column, zone, stated.format)
    return TimeGetter(index.at("modified", stated.column), convert, has_form=True)


def _crawl_getter(
    source: str | ColumnReference, index: ColumnIndex
) -> Callable[[Row], Crawl | None]:
    make = url_getter("display_url", source, index)

    def get(row: Row) -> Crawl | None:
        try:
            return Crawl(display_url=make(row))
        except RecordError as exc:
            if exc.code == "null-url":
                return None
            raise

    return get
