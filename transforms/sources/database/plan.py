"""Plan a run of a database: the deletions, then the rows to read, as spans.

Without a state, and for a refresh, a run reads all rows. With a state and a timestamp column, it
reads

- the rows above the watermark, less the lag,
- the rows without a timestamp, since no watermark finds them,
- the rows that were rejected in the last run, by their keys.

Without a refresh, the rows that share a URL follow, if one of them is new, changed, gone or moved.

The rows are cut into ranges of keys with about the same number of bytes, one for each span. The
limits are keys of the data, so that gaps between keys cost nothing. The same rows give the same
ranges.

The plan is a file in the folder of the run, so that a resumed run continues with it. Deletions come
first, since another row can have taken over a URL.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import count
from pathlib import Path
from secrets import token_hex

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from feedferry.schemas.errors import RecordError
from feedferry.schemas.sent_document import NO_DIGEST
from feedferry.schemas.span import KeyRange, RowFilter, Span, Watermark
from feedferry.schemas.span_size import auto_span_bytes
from feedferry.transforms.sources.base import SourceRun
from feedferry.transforms.sources.changes.detector import ChangeDetector
from feedferry.transforms.sources.database.changes.deletions import (
    NULL_KEY,
    KeySets,
    RowDeletions,
    batches,
    read_deleted,
)
from feedferry.transforms.sources.database.changes.row_entries import is_row
from feedferry.transforms.sources.database.changes.watermark import (
    decode_mark,
    floor_of,
    limit_to_clock,
    read_clock,
    watermark_of,
)
from feedferry.transforms.sources.database.connection.session import UnreadableValueError
from feedferry.transforms.sources.database.mapping.columns import (
    ColumnIndex,
    ColumnReference,
    Key,
    parse_template,
    url_getter,
)
from feedferry.transforms.sources.database.mapping.row_mapping import (
    TIMESTAMP,
    RowMapping,
    rules_of,
)
from feedferry.transforms.sources.database.read import has_changes
from feedferry.transforms.sources.database.records.record_maker import deletion_test
from feedferry.transforms.sources.database.tables.table import TableQuery, fetch_all, write_key
from feedferry.transforms.sources.files import sign_path
from feedferry.transforms.sources.listing import (
    LISTING,
    cut_listing,
    write_changes,
)
from feedferry.transforms.sources.state_changes import SHARED
from feedferry.transforms.storage.atomic import read_lines, whole_file, write_whole
from feedferry.transforms.storage.state import SourceState

MAX_LIMITS = 20_000
"""The most keys in memory as possible limits of ranges."""

_SAMPLE_ROWS = 1_000
_BATCH_ROWS = 100
_ROW_BYTES = 64
"""The estimated size of a row besides its values."""


class RowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The spans of a run, the fingerprint of its rules, and the watermark for the next run.

    `secret` is that of the state, for signatures; the first run makes it.

    `mark` is the highest timestamp at the start of the run, at most the clock of the database and
    at least the last mark. Without a mark, the next run reads all rows.
    """

    rules: str
    secret: str = ""
    mark: Watermark | None = None
    spans: tuple[Span, ...] = ()


def plan_rows(table: TableQuery, state: SourceState | None, run: SourceRun[RowMapping]) -> RowPlan:
    """Return the plan of a run, the existing one if the run is resumed.

    Raise ConfigError for a timestamp or a query that cannot be used, StoppedError for more
    deletions than are safe.
    """
    path = _path(run)
    if not path.exists():
        with closing(table.session):
            plan = _make_plan(table, state, run)
        write_whole(path, msgspec.json.encode(plan))
    return read_plan(run)


def read_plan(run: SourceRun[RowMapping]) -> RowPlan:
    """Return the existing plan of a run, whose folder may have been moved since."""
    plan = msgspec.json.decode(_path(run).read_bytes(), type=RowPlan)
    path = str(_gone(run))
    placed = {"path": path, "signature": sign_path(path)}
    moved = (replace(span, **placed) if span.format == LISTING else span for span in plan.spans)
    return replace(plan, spans=tuple(moved))


def _path(run: SourceRun[RowMapping]) -> Path:
    return run.work / f"{run.span.name}.plan.json"


def _shared(run: SourceRun[RowMapping]) -> Path:
    """Return the list of the rows that share URLs, as the table has them."""
    return run.work / f"{run.span.name}{SHARED}"


def _gone(run: SourceRun[RowMapping]) -> Path:
    """Return the listing of deletions."""
    return run.work / f"{run.span.name}.gone"


def _make_plan(table: TableQuery, state: SourceState | None, run: SourceRun[RowMapping]) -> RowPlan:
    rules = rules_of(table.mapping)
    _list_shared(table, _shared(run))
    if state is None:
        return RowPlan(rules=rules, spans=tuple(_row_spans(table, [KeyRange()], run, first=0)))
    is_refresh = run.options.refresh or rules != state.head.rules
    before = None if is_refresh else decode_mark(state.head.mark)
    mark, floor = _find_watermark(table, before)
    deletions = list(_deletion_spans(table, state, run, is_refresh=is_refresh))
    ranges = [KeyRange(is_refresh=is_refresh)]
    if floor is not None:
        changed = _changed_rows(state, floor, table.mapping.timestamp or "")
        ranges = [KeyRange(filter=rows) for rows in changed]
    secret = state.head.secret or token_hex(16)
    ranges = [replace(each, secret=secret) for each in ranges]
    if not is_refresh:
        again = _RowSharing(table, state, run).to_send(ranges)
        ranges += [
            KeyRange(filter=RowFilter(keys=keys), is_refresh=True, secret=secret) for keys in again
        ]
    spans = _row_spans(table, ranges, run, first=len(deletions))
    return RowPlan(rules=rules, secret=secret, mark=mark, spans=(*deletions, *spans))


def _list_shared(table: TableQuery, path: Path) -> None:
    """Write the URLs and keys of rows whose URL others may have: those with the same columns.

    A URL that has all columns of the key is of one row.
    """
    names = _url_columns(table)
    if {*table.key} <= {*names}:
        return
    columns = [table.column(name) for name in names]
    groups = sa.select(*columns).where(*table.where).group_by(*columns)
    several = groups.having(sa.func.count() > 1)
    condition = (sa.tuple_(*columns) if len(columns) > 1 else columns[0]).in_(several)
    rows = dataclasses.replace(table, where=(*table.where, condition))
    with whole_file(path) as stream:
        stream.writelines(msgspec.json.encode(pair) + b"\n" for pair in _urls_of(rows))


class _RowSharing:
    """The rows that share a URL with another row, in the table or in the state.

    The last row with a URL is the document that the target has. So if one of them is new, changed,
    gone or moved, all of them are sent again, in the order of their keys.
    """

    def __init__(self, table: TableQuery, state: SourceState, run: SourceRun[RowMapping]) -> None:
        self._table = table
        self._state = state
        self._run = run
        self._sent = state.sharing(run.rewrite)
        paths = [path for path in [_shared(run)] if path.exists()]
        self._urls = {key: url for url, key in read_lines(paths, tuple[str, str])}
        for keys in batches(row.key for row in self._sent):
            rows = table.filtered(RowFilter(keys=keys))
            self._urls |= {key: url for url, key in _urls_of(rows)}

    def to_send(self, ranges: Sequence[KeyRange]) -> Iterator[tuple[str, ...]]:
        """Yield the keys of the rows to send again, those of a URL together, none if all stay.

        `ranges` have the rows that the run reads.
        """
        is_moved = any(self._urls.get(row.key) != row.url for row in self._sent)
        if is_moved or any(map(self._has_changes, ranges)):
            yield from batches(sorted(self._urls, key=self._urls.__getitem__))

    def _has_changes(self, key_range: KeyRange) -> bool:
        listed = {*key_range.filter.keys}
        for keys in batches(key for key in self._urls if not listed or key in listed):
            position = replace(key_range, filter=replace(key_range.filter, keys=keys))
            span = replace(self._run.span, position=position)
            mapping, options = self._table.mapping, self._run.reading
            if has_changes(span, mapping=mapping, options=options, state=self._state):
                return True
        return False


def _urls_of(table: TableQuery) -> Iterator[tuple[str, str]]:
    """Yield the URLs and keys of the rows that have a URL and are not marked as deleted."""
    mapping = table.mapping
    mark = mapping.action.column if mapping.action else mapping.deleted_at
    marks = [table.index.names[table.index.at("deleted_at", mark)]] if mark else []
    names = [*dict.fromkeys([*table.key, *_url_columns(table), *marks])]
    index = ColumnIndex(names, table.key)
    key_of, url_of = index.key_getter(), url_getter("url", mapping.url or "", index)
    is_deletion = deletion_test(mapping, index) or (lambda row: False)
    statement = table.select(*map(table.column, names))
    for row in table.session.stream(statement, where=mapping.rows_name):
        with suppress(RecordError):  # reading rejects it
            if not is_deletion(row):
                yield url_of(row).strip(), write_key(key_of(row))


def _url_columns(table: TableQuery) -> list[str]:
    url, index = table.mapping.url or "", table.index
    parts = [("", url.column)] if isinstance(url, ColumnReference) else parse_template(url)
    return [index.names[index.at("url", name)] for _, name in parts if name is not None]


def _find_watermark(
    table: TableQuery, before: Watermark | None
) -> tuple[Watermark | None, Watermark | None]:
    """Return the watermark for the next run, and the floor above which this run reads rows.

    The watermark is neither lower than that of the last run nor ahead of the clock. There is no
    floor, and all rows are read, if the last run has no watermark of the type of the column.
    """
    name, lag_seconds = table.mapping.timestamp, table.mapping.reading.lag_seconds
    if name is None:
        return None, None
    clock = read_clock(table.session)
    column = table.timestamp_column(name)
    where = f"{table.mapping.rows_name}, {TIMESTAMP} {name!r}"
    ((highest,),) = table.run(sa.select(sa.func.max(column)).where(*table.where), where=where)
    if before is not None:
        before = limit_to_clock(before, clock)
    mark = before
    if highest is not None:
        mark = limit_to_clock(watermark_of(highest, name=name), clock)
        floor_of(mark, lag_seconds=lag_seconds, name=name)  # raises ConfigError for a wrong lag
        if before is not None and before.type is not mark.type:
            before = None
        if before is not None and before.is_above(mark):
            mark = before
    floor = None if before is None else floor_of(before, lag_seconds=lag_seconds, name=name)
    return mark, floor


def _changed_rows(state: SourceState, floor: Watermark, timestamp: str) -> Iterator[RowFilter]:
    yield RowFilter(timestamp=timestamp, above=floor)
    yield RowFilter(timestamp=timestamp, is_null=True)
    rejected = (entry.key for entry in state.with_digest(NO_DIGEST) if is_row(entry))
    for keys in batches(rejected):  # their timestamps may be older now
        yield RowFilter(timestamp=timestamp, upto=floor, keys=keys)


def _row_spans(
    table: TableQuery, ranges: Iterable[KeyRange], run: SourceRun[RowMapping], *, first: int
) -> Iterator[Span]:
    ordinals = count(first)
    for whole in ranges:
        parts: Iterable[KeyRange] = [KeyRange(rows=len(whole.filter.keys))]
        if not whole.filter.keys:
            rows = table.filtered(whole.filter)
            parts = cut_rows(rows, span_bytes=run.options.span_bytes)
        for part in parts:
            key_range = replace(
                part, filter=whole.filter, is_refresh=whole.is_refresh, secret=whole.secret
            )
            yield replace(run.span, ordinal=next(ordinals), position=key_range)


def _deletion_spans(
    table: TableQuery, state: SourceState, run: SourceRun[RowMapping], *, is_refresh: bool
) -> Iterator[Span]:
    """Yield the spans of the listing of deletions, which is complete before the first."""
    path = _gone(run)
    compares_keys = table.mapping.reading.compares_keys
    with (
        closing(KeySets()) as keys,
        closing(ChangeDetector(state, run.rewrite)) as detector,
    ):
        _collect_keys(table, keys)
        deletions = RowDeletions(detector, keys, is_refresh=is_refresh)
        deletions.of_state(compares_keys=compares_keys)
        if not compares_keys:
            _add_forgotten_rows(table, detector, keys)
        limits = run.options if compares_keys else None
        write_changes(deletions.of_query(), detector.deletions(limits), path)
    whole = replace(run.span, path=str(path), position=None)
    yield from cut_listing(whole, span_bytes=run.options.span_bytes)


def _add_forgotten_rows(table: TableQuery, detector: ChangeDetector, keys: KeySets) -> None:
    """Add rows that are gone, and share a URL with one that remains: the state forgets them."""
    url_of = detector.rewrite or str
    sharing = detector.state.sharing(detector.rewrite)
    shared = [row for row in sharing if is_row(row) and not keys.is_deleted(row.key)]
    existing = {
        write_key(key)
        for batch in batches(row.key for row in shared)
        for key in table.filtered(RowFilter(keys=batch)).read_keys()
    }
    remaining = {url_of(row.url) for row in shared if row.key in existing}
    for row in shared:
        if row.key not in existing and url_of(row.url) in remaining:
            detector.add_gone(row.key, "")


def _collect_keys(table: TableQuery, keys: KeySets) -> None:
    """Read the deleted keys first, and then the existing ones: all, or those that are deleted."""
    reading = table.mapping.reading
    if reading.deletes_query is not None:
        keys.add_deleted(read_deleted(table, reading.deletes_query))
    if reading.compares_keys:
        keys.add_existing(map(write_key, table.read_keys()))
        return
    for batch in batches(key for key, _ in keys.deleted() if key != NULL_KEY):
        existing = table.filtered(RowFilter(keys=batch)).read_keys()
        keys.add_existing(map(write_key, existing))


def cut_rows(table: TableQuery, *, span_bytes: int) -> Iterator[KeyRange]:
    """Yield ranges of about `span_bytes` in the order of the keys; none for an empty table.

    The rows with NULL in the key come last. Raise ConfigError if two rows have the same key.
    """
    table.check_unique_key()
    has_key = sa.func.count(sa.case((table.has_key, 1)))
    counts = sa.select(sa.func.count(), has_key).select_from(table.selectable).where(*table.where)
    ((rows, with_key),) = table.run(counts)
    if with_key:
        yield from _cut(table, with_key, span_bytes)
    if rows > with_key:
        yield KeyRange(has_null_keys=True, rows=rows - with_key)


def _cut(table: TableQuery, count: int, span_bytes: int) -> Iterator[KeyRange]:
    limits = _every_nth_key(table, -(-count // MAX_LIMITS))
    row_bytes = _estimate_row_bytes(table, limits[:: max(1, len(limits) // _SAMPLE_ROWS)])
    span_bytes = span_bytes or auto_span_bytes([count * row_bytes])
    ranges = max(1, min(len(limits), -(-count * row_bytes // span_bytes)))
    ends = [limits[len(limits) * number // ranges - 1] for number in range(1, ranges)]
    after = None
    for number, upto in enumerate([*map(write_key, ends), None]):
        rows = count * (number + 1) // ranges - count * number // ranges
        yield KeyRange(after=after, upto=upto, rows=rows, size=rows * row_bytes)
        after = upto


def _every_nth_key(table: TableQuery, step: int) -> list[Key]:
    columns = table.key_columns
    with table.readable_keys():
        if not table.session.dialect.is_remote:  # to number the rows takes twice the time
            fetch = partial(fetch_all, table.select(*columns), step=step)
            return table.session.run(fetch, where=table.mapping.rows_name)
        number = sa.func.row_number().over(order_by=columns).label("feedferry_number")
        numbered = sa.select(*columns, number).where(*table.where, table.has_key)
        *keys, place = numbered.subquery("feedferry_keys").c
        return table.run(sa.select(*keys).where(place % step == 0).order_by(place))


def _estimate_row_bytes(table: TableQuery, sample: Sequence[Key]) -> int:
    """Return the average size of the rows with some keys, of which only sizes are read."""
    dialect = table.session.dialect
    sizes = [dialect.size(table.column(column.name), column) for column in table.columns]
    total = sum((sa.func.coalesce(size, 0) for size in sizes), start=sa.literal(_ROW_BYTES))
    row_bytes: list[int] = []
    for at in range(0, len(sample), _BATCH_ROWS):
        keys = tuple(map(write_key, sample[at : at + _BATCH_ROWS]))
        rows = table.filtered(RowFilter(keys=keys))
        with suppress(UnreadableValueError):  # reading rejects the rows with such values
            row_bytes += [size for (size,) in table.run(rows.select(total))]
    return sum(row_bytes) // len(row_bytes) if row_bytes else _ROW_BYTES
