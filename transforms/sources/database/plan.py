"""The spans of a run of a database: what is to be deleted, then the rows that are to be read.

Without a state, and from scratch, these are all rows. Else, by a timestamp, they are

- the rows above the mark less the lag, up to the highest timestamp there is: see `incremental`,
- those ahead of the clock of the database, if there are some,
- those without a timestamp, as no mark finds them,
- those that were rejected when they were read last, by their keys.

A plan stands in a file of the run's folder, so that a run that is started again goes on with it.
Deletions come first: a url that another row has taken over is sent behind them.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import count, islice
from pathlib import Path

import msgspec
from msgspec.structs import replace

from schemas.span import Span
from transforms.sources.database.advance_state import NextRunPlan
from transforms.sources.database.delete_queries import read_deleted
from transforms.sources.database.deletions import NO_KEY, Keys, check_gone, is_row, list_gone
from transforms.sources.database.errors import told
from transforms.sources.database.filters import Scope, encode_share, scoped
from transforms.sources.database.keys import write_key
from transforms.sources.database.mapping import Incremental, Mapping
from transforms.sources.database.ranges import KeyRange, cut_rows
from transforms.sources.database.table_query import Rows
from transforms.sources.database.watermark import (
    Clock,
    Mark,
    Timestamp,
    bounded,
    decode_mark,
    floor_of,
    is_above,
    mark_of,
    read_clock,
)
from transforms.sources.deletion_guard import Safety
from transforms.sources.listing import cut_listing, write_listing
from transforms.storage.atomic import whole_file
from transforms.storage.state import State

RETRIED_KEYS = 1_000
"""The most rejected rows that one span reads again."""

_LOGIN = re.compile(r"(?<=://).*@")  # and what stands in it may hold slashes
_INFINITE = ("infinity", "-infinity")  # of PostgreSQL, which Python has no times for


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of one run; `folder` is its own, `span` all of the database."""

    span: Span
    folder: Path
    span_bytes: int
    is_refresh: bool = False
    safety: Safety = Safety()


class RowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run reads, and what it leaves to the next one."""

    rules: str
    next_run: NextRunPlan
    spans: tuple[Span, ...] = ()


def plan_rows(rows: Rows, state: State | None, run: PlanRequest) -> RowPlan:
    """Return the plan of a run, that which stands in its folder if it has been made.

    Raise ConfigError for a timestamp or a query that cannot be used, StoppedError if more is gone
    than is safe.
    """
    path = _path(run.span, run.folder)
    if not path.exists():
        plan = _made(rows, state, run)
        with whole_file(path) as stream:
            stream.write(msgspec.json.encode(plan))
    return read_plan(run.span, run.folder)


def read_plan(span: Span, folder: Path) -> RowPlan:
    """Return the plan that stands in the folder of a run."""
    return msgspec.json.decode(_path(span, folder).read_bytes(), type=RowPlan)


def rules_of(mapping: Mapping) -> str:
    """Return a fingerprint of what decides over records beside the rows.

    It leaves out who connects, where the mapping file stands, how pages are read and, as no record
    is another for it, the lag and the query for deletes. A template is in it by what it says.
    """
    usual, template = Mapping(connection=""), mapping.content.template
    kept = replace(
        mapping,
        connection=_LOGIN.sub("", mapping.connection),
        content=replace(mapping.content, template=None if template is None else ""),
        incremental=replace(_incremental(mapping), lag_seconds=0, deletes=None),
        page_rows=usual.page_rows,
        retries=usual.retries,
        backoff_seconds=usual.backoff_seconds,
        folder=usual.folder,
    )
    said = b"" if template is None else Path(template).read_bytes()
    return hashlib.sha256(msgspec.json.encode(kept, order="sorted") + said).hexdigest()


def _made(rows: Rows, state: State | None, run: PlanRequest) -> RowPlan:
    rules = rules_of(rows.mapping)
    if state is None:
        spans = _spans(rows, [Scope()], run, first=0)
        return RowPlan(rules=rules, next_run=NextRunPlan(), spans=tuple(spans))
    is_anew = run.is_refresh or rules != state.rules
    times = _Times(rows, None if is_anew or state.mark is None else decode_mark(state.mark))
    listed = list(_gone(rows, state, run, is_anew=is_anew))
    scopes = [Scope(anew=True)] if is_anew else times.scopes(state)
    spans = _spans(rows, scopes, run, first=len(listed))
    return RowPlan(rules=rules, next_run=times.next_run, spans=(*listed, *spans))


class _Times:
    """What the timestamps of rows say: where the mark is to stand, and which rows are read.

    The mark is not below that of the run `before`, nor ahead of the clock.
    """

    def __init__(self, rows: Rows, before: Mark | None) -> None:
        incremental = _incremental(rows.mapping)
        self._before: Mark | None = None
        self._is_ahead = False
        self.next_run = NextRunPlan(
            timestamp=incremental.timestamp or "",
            lag_seconds=incremental.lag_seconds,
            compares_keys=incremental.compares_keys,
            asks_deletes=incremental.deletes is not None,
        )
        if self.next_run.timestamp:
            self._find(rows, before)

    def scopes(self, state: State) -> list[Scope]:
        """Return which rows are read, in their order."""
        mark, name = self.next_run.mark, self.next_run.timestamp
        floor = None if self._before is None else self._floor(self._before)
        if floor is None or mark is None:
            return [Scope()]
        above = mark_of(floor, name=name)
        found = [Scope(timestamp=name, above=above, upto=mark)]
        if self._is_ahead:
            found.append(Scope(timestamp=name, above=mark))
        found.append(Scope(timestamp=name, is_null=True))
        retried = _in_lists(_rejected_keys(state, above))
        return [*found, *(Scope(timestamp=name, upto=above, keys=keys) for keys in retried)]

    def _find(self, rows: Rows, before: Mark | None) -> None:
        with told(rows.mapping, where="its clock"), rows.engine.connect() as connection:
            clock = read_clock(connection)
        highest, self._is_ahead = _highest(rows, self.next_run.timestamp, clock)
        mark = self._before = None if before is None else bounded(before, clock)
        if highest is not None:
            self._floor(highest)  # raises ConfigError if that cannot be told
            mark = bounded(highest, clock)
            self._is_ahead = self._is_ahead or mark != highest
            if self._before is not None and not self._before.compares_with(mark):
                self._before = None
            if self._before is not None and _is_higher(self._before, mark):
                mark = self._before
        self.next_run = replace(self.next_run, mark=mark)

    def _floor(self, mark: Mark) -> Timestamp | None:
        lag_seconds = self.next_run.lag_seconds
        return floor_of(mark, lag_seconds=lag_seconds, name=self.next_run.timestamp)


def _highest(rows: Rows, name: str, clock: Clock) -> tuple[Mark | None, bool]:
    """The mark at the highest timestamp, and whether there may be some that are infinitely high."""
    value = rows.maximum(name)
    is_infinite = value in _INFINITE
    if is_infinite:
        value = rows.narrowed(name, upto=clock.aware).maximum(name)
    if value is None or value in _INFINITE:
        return None, is_infinite
    return mark_of(value, name=name), is_infinite


def _is_higher(one: Mark, other: Mark) -> bool:
    return is_above(one.value(), other.value())


def _rejected_keys(state: State, floor: Mark) -> Iterator[str]:
    """The keys of rows that were rejected, but for those that the mark finds."""
    for known in state.documents():
        if not known.digest and is_row(known.key) and not _is_found(known.fingerprint, floor):
            yield known.key


def _is_found(fingerprint: str, floor: Mark) -> bool:
    try:
        return _is_higher(replace(floor, text=fingerprint), floor)
    except (ValueError, ArithmeticError, TypeError):
        return False


def _spans(rows: Rows, scopes: Iterable[Scope], run: PlanRequest, *, first: int) -> Iterator[Span]:
    ordinals = count(first)
    for scope in scopes:
        whole = [KeyRange(rows=len(scope.keys))] if scope.keys else None
        for key_range in whole or cut_rows(scoped(rows, scope), span_bytes=run.span_bytes):
            context = encode_share(key_range, scope)
            yield replace(run.span, ordinal=next(ordinals), context=context)


def _gone(rows: Rows, state: State, run: PlanRequest, *, is_anew: bool) -> Iterator[Span]:
    """The spans of the listing of what is to be deleted, which is written before the first."""
    path = run.folder / f"{run.span.name}.gone"
    incremental = _incremental(rows.mapping)
    with closing(Keys()) as keys:
        _ask(rows, incremental, keys)
        lines = list_gone(state, keys, compares_keys=incremental.compares_keys, is_anew=is_anew)
        if incremental.compares_keys:
            lines = check_gone(lines, state, keys, run.safety)
        write_listing(lines, path)
    whole = replace(run.span, path=str(path), context=b"")
    yield from cut_listing(whole, span_bytes=run.span_bytes)


def _ask(rows: Rows, incremental: Incremental, keys: Keys) -> None:
    """Ask which keys are deleted, and then which stand: all of them, or of the deleted ones."""
    if incremental.deletes is not None:
        keys.delete(read_deleted(rows, incremental.deletes))
    if incremental.compares_keys:
        keys.stand(map(write_key, rows.keys_only()))
        return
    for texts in _in_lists(one.key for one in keys.deleted() if one.key != NO_KEY):
        keys.stand(map(write_key, scoped(rows, Scope(keys=texts)).keys_only()))


def _in_lists(texts: Iterable[str]) -> Iterator[tuple[str, ...]]:
    texts = iter(texts)
    while found := tuple(islice(texts, RETRIED_KEYS)):
        yield found


def _incremental(mapping: Mapping) -> Incremental:
    return mapping.incremental or Incremental()


def _path(span: Span, folder: Path) -> Path:
    return folder / f"{span.name}.plan.json"
