"""Sources that are databases: their plans, and what the next run must know of them.

Loaded where one is read: SQLAlchemy takes a while.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

from pipelines.cli.convert_options import ConvertOptions, safety_of
from schemas.account import Account
from schemas.span import Span
from transforms.convert import Settings
from transforms.sources.database.advance_state import advance_state
from transforms.sources.database.mapping import Mapping
from transforms.sources.database.mapping_file import load_mapping
from transforms.sources.database.plan import PlanRequest, plan_rows, read_plan
from transforms.sources.database.ranges import decode_range
from transforms.sources.database.table_query import connect, open_rows
from transforms.sources.database.watermark import encode_mark
from transforms.sources.seen import read_seen
from transforms.storage.state import Stamp, move, open_state


def read_mapping(span: Span) -> Mapping:
    """Return what the mapping file of a source says; raise ConfigError if it cannot be used."""
    return load_mapping(Path(span.path))


def cut_database(span: Span, settings: Settings, options: ConvertOptions) -> Iterator[Span]:
    """Yield the spans of what is to be deleted, and of the rows that a run is to read."""
    mapping = cast(Mapping, settings.sources[span.source])
    request = PlanRequest(
        span=span,
        folder=Path(settings.folder),
        span_bytes=options.span_bytes,
        is_refresh=options.refresh,
        safety=safety_of(options),
    )
    rows = open_rows(mapping, connect(mapping))
    if settings.state is None:
        yield from plan_rows(rows, None, request).spans
        return
    with open_state(Path(settings.state)) as state:
        yield from plan_rows(rows, state, request).spans


def remember_rows(span: Span, settings: Settings, account: Account, *, generation: int) -> None:
    """Move the state to what a run saw of a database."""
    work, path = Path(settings.folder), Path(settings.state or "")
    plan = read_plan(span, work)
    with open_state(path) as state:
        see_all = partial(read_seen, work, account.files)
        advance = advance_state(
            see_all, state=state, next_run=plan.next_run, path=work / "settled.jsonl"
        )
    stamp = Stamp(
        source=span.path,
        rules=plan.rules,
        mark=None if advance.mark is None else encode_mark(advance.mark),
        run=str(work),
    )
    move(path, advance.seen, before=generation, stamp=stamp)


def rows_in(span: Span) -> int:
    """Return about how many rows a span has."""
    return decode_range(span.context).rows
