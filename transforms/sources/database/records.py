"""Records of rows, as a mapping says it.

What a mapping names is looked up once, so that a row costs a few calls and no dict of it is made.
A row that no record can be made of is a Reject: its reason begins with the key of the row, and it
keeps the row, but for its document, as JSON.

**Keeps:** metadata in the order of its columns, and as many values as there are. NULL is no
metadata; an empty text is some.
"""

from collections.abc import Callable
from datetime import datetime

from schemas.defect import record_error
from schemas.errors import RecordError
from schemas.record import Action, Arrival, Crawl, Provenance, Record
from schemas.reject import Reject
from schemas.span import Span
from transforms.formats.base import ReadOptions
from transforms.sources.database.acl import acl_columns, acl_maker
from transforms.sources.database.column_index import Row, Rows, Sides, reject_row, text_maker
from transforms.sources.database.content import content_maker
from transforms.sources.database.mapping import ActionFrom, Mapping
from transforms.sources.database.metadata import metadata_maker
from transforms.sources.database.timestamps import moment_maker
from transforms.sources.database.url_templates import column_url_maker, url_maker

RecordMaker = Callable[[Row], Record | Reject]

_ADD = Action.ADD  # looked up in its enum it costs ten times as much


def record_maker(
    mapping: Mapping,
    rows: Rows,
    sides: Sides,
    *,
    span: Span = Span(),
    options: ReadOptions = ReadOptions(),
) -> RecordMaker:
    """Return the function that makes the record of a row, or its Reject.

    Raise ConfigError for a column that the mapping names and the rows do not have. `sides` is asked
    for what queries of their own have for the key of a row.
    """
    return _Maker(mapping, rows, sides, span=span, options=options).make


def check_columns(mapping: Mapping, rows: Rows) -> None:
    """Raise ConfigError for a column that the mapping names and the rows do not have."""
    record_maker(mapping, rows, lambda query, key: ())
    if mapping.incremental is not None and mapping.incremental.timestamp is not None:
        rows.at("incremental: timestamp", mapping.incremental.timestamp)


class _Maker:
    """Makes a record of a row, each part of it by a function of its own."""

    def __init__(
        self, mapping: Mapping, rows: Rows, sides: Sides, *, span: Span, options: ReadOptions
    ) -> None:
        self._rows = rows
        self._span = span
        self._provenance = Provenance(source=span.source, span=span.ordinal)
        self._arrival = Arrival.CRAWLED if mapping.content.is_none else Arrival.PUSHED
        self._unkept = _places(rows, mapping.content.column, mapping.content.fetch)
        unshown = _unshown(mapping, rows)
        used = unshown | self._unkept | _places(rows, mapping.content.path)
        most = options.max_content_bytes
        self._url = _url_maker(mapping, rows)
        self._is_deletion = _deletion_maker(mapping.action, rows)
        self._content = content_maker(mapping, rows, max_bytes=most, without=unshown)
        self._title = _text_maker("title", mapping.title, rows)
        self._description = _text_maker("description", mapping.description, rows)
        self._keywords = _text_maker("keywords", mapping.keywords, rows)
        self._metadata = metadata_maker(mapping, rows, sides, without=used)
        self._modified = _modified_maker(mapping, rows, zone=options.zone)
        self._acl = None if mapping.acl is None else acl_maker(mapping.acl, rows, sides)
        self._crawl = _crawl_maker(mapping, rows)

    def make(self, row: Row) -> Record | Reject:
        """Return the record of a row, or its Reject."""
        url, action = None, _ADD
        try:
            if self._is_deletion is not None and self._is_deletion(row):
                action = Action.DELETE
            url = self._url(row)
            if action is not _ADD:
                return Record(url=url, action=action, provenance=self._provenance)
            return self._add(row, url)
        except Exception as exc:
            return self._reject(row, record_error(exc), url=url, action=action)

    def _add(self, row: Row, url: str) -> Record:
        content, mimetype, charset = self._content(row)
        return Record(
            url=url,
            action=_ADD,
            arrival=self._arrival,
            content=content,
            mimetype=mimetype,
            charset=charset,
            title=None if self._title is None else self._title(row),
            description=None if self._description is None else self._description(row),
            keywords=None if self._keywords is None else self._keywords(row),
            metadata=self._metadata(row),
            modified=None if self._modified is None else self._modified(row),
            acl=None if self._acl is None else self._acl(row),
            crawl=None if self._crawl is None else self._crawl(row),
            provenance=self._provenance,
        )

    def _reject(self, row: Row, exc: RecordError, *, url: str | None, action: Action) -> Reject:
        return reject_row(
            self._rows,
            row,
            exc,
            span=self._span,
            without=self._unkept,
            url=url,
            action=action.value,
        )


def _places(rows: Rows, *names: str | None) -> set[int]:
    return {rows.at("content", name) for name in names if name is not None}


def _unshown(mapping: Mapping, rows: Rows) -> set[int]:
    """Columns that say who may see a document, and whether there is one: not a part of it."""
    acl = () if mapping.acl is None else acl_columns(mapping.acl)
    found = {rows.at("acl", name) for name in acl}
    return found if mapping.action is None else found | {rows.at("action", mapping.action.column)}


def _url_maker(mapping: Mapping, rows: Rows) -> Callable[[Row], str]:
    if mapping.url_column is not None:
        return column_url_maker("url", mapping.url_column, rows)
    return url_maker("url", mapping.url or "", rows)


def _deletion_maker(action: ActionFrom | None, rows: Rows) -> Callable[[Row], bool] | None:
    if action is None:
        return None
    text = text_maker("action", action.column, rows)
    words = frozenset(word.strip().lower() for word in action.delete)
    return lambda row: (text(row) or "").strip().lower() in words


def _text_maker(key: str, name: str | None, rows: Rows) -> Callable[[Row], str | None] | None:
    return None if name is None else text_maker(key, name, rows)


def _modified_maker(
    mapping: Mapping, rows: Rows, *, zone: str
) -> Callable[[Row], datetime | None] | None:
    name = mapping.modified
    if name is None:
        return None
    return moment_maker(rows.at("modified", name), name=name, zone=zone)


def _crawl_maker(mapping: Mapping, rows: Rows) -> Callable[[Row], Crawl | None] | None:
    make = _display_maker(mapping, rows)
    if make is None:
        return None

    def crawl(row: Row) -> Crawl | None:
        url = make(row)
        return Crawl(display_url=url) if url else None

    return crawl


def _display_maker(mapping: Mapping, rows: Rows) -> Callable[[Row], str | None] | None:
    if mapping.display_url_column is not None:
        return text_maker("display_url", mapping.display_url_column, rows)
    if mapping.display_url is None:
        return None
    make = url_maker("display_url", mapping.display_url, rows)

    def display(row: Row) -> str | None:
        try:
            return make(row)
        except RecordError as exc:
            if exc.code == "null-url":  # as where a column of display urls is NULL
                return None
            raise

    return display
