"""Plan a run of a database: the deletions, then the rows to read, as spans.

Without a state, and for a refresh, a run reads all rows. With a state and a timestamp column, it
reads

- the rows above the watermark, less the lag,
- the rows without a timestamp, since no watermark finds them,
- the rows that were rejected in the last run, by their keys.

The plan is a file in the folder of the run, so that a resumed run continues with it. Deletions come
first, since another row can have taken over a URL.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from itertools import count, islice
from pathlib import Path

import msgspec
from msgspec.structs import replace

from schemas.sent_document import NO_DIGEST
from schemas.span import KeyRange, RowFilter, Span, Watermark
from transforms.sources.change_detection import Safety
from transforms.sources.database.advance_state import NextRunPlan
from transforms.sources.database.deletions import (
    NULL_KEY,
    KeySets,
    check_deletions,
    is_row_key,
    list_deletions,
    read_deleted,
)
from transforms.sources.database.key_ranges import cut_rows, filter_rows
from transforms.sources.database.keys import write_key
from transforms.sources.database.mapping import IncrementalReading, RowMapping
from transforms.sources.database.table_query import TableQuery
from transforms.sources.database.watermark import (
    decode_mark,
    floor_of,
    limit_to_clock,
    read_clock,
    watermark_of,
)
from transforms.sources.listing import cut_listing, write_listing
from transforms.storage.atomic import whole_file
from transforms.storage.state import SourceState

KEYS_PER_SPAN = 1_000
"""The most rejected rows that one span reads again."""

_LOGIN = re.compile(r"(?<=://).*@")  # greedy: a reference in it can hold slashes


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a run; `folder` is that of the run, `span` the whole database."""

    span: Span
    folder: Path
    span_bytes: int
    is_refresh: bool = False
    safety: Safety = Safety()


class RowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The spans of a run, the fingerprint of its rules, and the settings of the next run."""

    rules: str
    next_run: NextRunPlan
    spans: tuple[Span, ...] = ()


def plan_rows(table: TableQuery, state: SourceState | None, request: PlanRequest) -> RowPlan:
    """Return the plan of a run, the existing one if the run is resumed.

    Raise ConfigError for a timestamp or a query that cannot be used, StoppedError for more
    deletions than are safe.
    """
    path = _path(request.span, request.folder)
    if not path.exists():
        plan = _make_plan(table, state, request)
        with whole_file(path) as stream:
            stream.write(msgspec.json.encode(plan))
    return read_plan(request.span, request.folder)


def read_plan(span: Span, folder: Path) -> RowPlan:
    """Return the existing plan of a run."""
    return msgspec.json.decode(_path(span, folder).read_bytes(), type=RowPlan)


def rules_of(mapping: RowMapping) -> str:
    """Return a fingerprint of the settings that decide about records.

    It leaves out login, the folder of the mapping file, the path of a template, paging, retries,
    the lag and the query for deletes: records do not depend on them. It contains the text of a
    template.
    """
    template = mapping.content.template
    incremental = mapping.incremental or IncrementalReading()
    deletes = "compare" if incremental.compares_keys else None
    defaults = RowMapping(connection="")
    rules = replace(
        mapping,
        connection=_LOGIN.sub("", mapping.connection),
        content=replace(mapping.content, template=None if template is None else ""),
        incremental=replace(incremental, lag_seconds=0, deletes=deletes),
        page_rows=defaults.page_rows,
        retries=defaults.retries,
        backoff_seconds=defaults.backoff_seconds,
        folder=defaults.folder,
    )
    text = b"" if template is None else Path(template).read_bytes()
    return hashlib.sha256(msgspec.json.encode(rules, order="sorted") + text).hexdigest()


def _make_plan(table: TableQuery, state: SourceState | None, request: PlanRequest) -> RowPlan:
    rules = rules_of(table.mapping)
    if state is None:
        spans = _row_spans(table, [KeyRange()], request, first=0)
        return RowPlan(rules=rules, next_run=NextRunPlan(), spans=tuple(spans))
    is_refresh = request.is_refresh or rules != state.rules
    before = None if is_refresh or state.mark is None else decode_mark(state.mark)
    next_run, floor = _find_watermark(table, before)
    deletions = list(_deletion_spans(table, state, request, is_refresh=is_refresh))
    ranges = [KeyRange(is_refresh=is_refresh)]
    if floor is not None:
        ranges = [KeyRange(filter=rows) for rows in _changed_rows(state, floor, next_run.timestamp)]
    spans = _row_spans(table, ranges, request, first=len(deletions))
    return RowPlan(rules=rules, next_run=next_run, spans=(*deletions, *spans))


def _find_watermark(
    table: TableQuery, before: Watermark | None
) -> tuple[NextRunPlan, Watermark | None]:
    """Return the settings of the next run, and the floor above which this run reads rows.

    The watermark is neither lower than that of the last run nor ahead of the clock. There is no
    floor, and all rows are read, if the last run has no watermark of the type of the column.
    """
    incremental = table.mapping.incremental or IncrementalReading()
    name, lag_seconds = incremental.timestamp or "", incremental.lag_seconds
    next_run = NextRunPlan(
        timestamp=name,
        lag_seconds=lag_seconds,
        compares_keys=incremental.compares_keys,
        has_deletes_query=incremental.deletes_query is not None,
    )
    if not name:
        return next_run, None
    with table.translate_errors("its clock"), table.engine.connect() as connection:
        clock = read_clock(connection)
    highest = table.highest(name)
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
    return replace(next_run, mark=mark), floor


def _changed_rows(state: SourceState, floor: Watermark, timestamp: str) -> Iterator[RowFilter]:
    yield RowFilter(timestamp=timestamp, above=floor)
    yield RowFilter(timestamp=timestamp, is_null=True)
    for keys in _batches(_rejected_keys(state, floor)):
        yield RowFilter(timestamp=timestamp, upto=floor, keys=keys)


def _rejected_keys(state: SourceState, floor: Watermark) -> Iterator[str]:
    """Yield the keys of rejected rows that are not above the floor."""
    for known in state.documents():
        if known.digest != NO_DIGEST or not is_row_key(known.key):
            continue
        is_above_floor = False
        with suppress(ValueError, TypeError):  # a timestamp of another type
            is_above_floor = replace(floor, text=known.fingerprint).is_above(floor)
        if not is_above_floor:
            yield known.key


def _row_spans(
    table: TableQuery, ranges: Iterable[KeyRange], request: PlanRequest, *, first: int
) -> Iterator[Span]:
    ordinals = count(first)
    for whole in ranges:
        parts: Iterable[KeyRange] = [KeyRange(rows=len(whole.filter.keys))]
        if not whole.filter.keys:
            parts = cut_rows(filter_rows(table, whole.filter), span_bytes=request.span_bytes)
        for part in parts:
            key_range = replace(part, filter=whole.filter, is_refresh=whole.is_refresh)
            yield replace(request.span, ordinal=next(ordinals), position=key_range)


def _deletion_spans(
    table: TableQuery, state: SourceState, request: PlanRequest, *, is_refresh: bool
) -> Iterator[Span]:
    """Yield the spans of the listing of deletions, which is complete before the first."""
    path = request.folder / f"{request.span.name}.gone"
    incremental = table.mapping.incremental or IncrementalReading()
    compares_keys = incremental.compares_keys
    with closing(KeySets()) as keys:
        _collect_keys(table, incremental, keys)
        lines = list_deletions(state, keys, compares_keys=compares_keys, is_refresh=is_refresh)
        if compares_keys:
            lines = check_deletions(lines, state, keys, request.safety)
        write_listing(lines, path)
    whole = replace(request.span, path=str(path), position=None)
    yield from cut_listing(whole, span_bytes=request.span_bytes)


def _collect_keys(table: TableQuery, incremental: IncrementalReading, keys: KeySets) -> None:
    """Read the deleted keys first, and then the existing ones: all, or those that are deleted."""
    if incremental.deletes_query is not None:
        keys.add_deleted(read_deleted(table, incremental.deletes_query))
    if incremental.compares_keys:
        keys.add_existing(map(write_key, table.read_keys()))
        return
    for batch in _batches(one.key for one in keys.deleted() if one.key != NULL_KEY):
        keys.add_existing(map(write_key, table.with_keys(batch).read_keys()))


def _batches(keys: Iterable[str]) -> Iterator[tuple[str, ...]]:
    iterator = iter(keys)
    while batch := tuple(islice(iterator, KEYS_PER_SPAN)):
        yield batch


def _path(span: Span, folder: Path) -> Path:
    return folder / f"{span.name}.plan.json"
