"""The source `spool`: the feeds that a receiver took.

The feeds are selected once, before the pipeline. The selection is kept in the folder of the run, so
that a run that is started again continues with the same feeds, whatever was delivered since.
"""

import os
from collections.abc import Generator, Iterator, Sequence
from itertools import repeat
from pathlib import Path

import msgspec

from schemas.choices import SpoolHistory
from schemas.delivery import JOURNAL
from schemas.errors import ConfigError
from schemas.feed import FULL, REPLACE
from schemas.span import Span
from transforms.formats import by_name
from transforms.formats.base import ReadResult
from transforms.sources.base import (
    Source,
    SourceOptions,
    SourceRun,
    SpanRequest,
    check_input_name,
)
from transforms.sources.feed_files import read_files
from transforms.sources.spool.deliveries import name_of, read_deliveries
from transforms.sources.spool.selection import (
    Selection,
    Spool,
    find_faults,
    select,
    spans_of,
)
from transforms.storage.atomic import write_json

SPOOL = "spool"

SELECTION = "spool-selection"
"""The format of a span that reports the feeds which are not read."""

_FOLDERS = ("feeds", "incoming")
"""Folders of a spool; together with a journal, either identifies it."""


class SpoolSource(Source[Spool]):
    """The spool of a receiver."""

    name = SPOOL
    title = "feeds that feedferry serve has received (a folder)"
    noun = "a spool"
    span_formats = frozenset({SPOOL, SELECTION})
    is_folder = True
    may_grow = True
    lists_documents = False
    is_inspected = True

    def matches(self, name: str) -> bool:
        return os.path.isfile(Path(name, JOURNAL)) and any(
            os.path.isdir(Path(name, folder)) for folder in _FOLDERS
        )

    def list_inputs(self, names: Sequence[str], *, first: int) -> list[Span]:
        """Return a span for each spool; raise ConfigError for a folder that is none."""
        return [_spool_span(name, ordinal=ordinal) for ordinal, name in enumerate(names, first)]

    def check_inputs(self, spans: Sequence[Span], every: Sequence[Span]) -> None:
        """Raise ConfigError unless a spool is read alone: only its own feeds have an order."""
        other = next((span for span in every if span is not spans[0]), None)
        if other is not None:
            raise ConfigError(
                f"INPUT: {spans[0].source!r} is a spool, and {other.source!r} is another input;"
                " expected a run for each"
            )

    def load(self, span: Span, options: SourceOptions) -> Spool:
        """Return which feeds are read; raise ConfigError where they cannot be one run."""
        first = next(read_deliveries(Path(span.path)), None)
        if first is None:
            raise ConfigError(f"INPUT: {span.source!r} holds no feed so far; expected at least one")
        spool = Spool(
            source=span.source,
            root=span.path,
            history=options.history,
            only=options.only,
            first=first,
        )
        _check_erased(_select(spool), options)
        return spool

    def split(self, run: SourceRun[Spool]) -> Iterator[Span]:
        """Yield a span for each feed that is read, after a span that reports the other feeds.

        Raise SourceError where a feed is not as it was delivered. A feed whose file is missing is
        rejected by its reader.
        """
        if not run.listing.exists():
            write_json(run.listing, msgspec.to_builtins(_select(run.config)))
        selection, span = _read_selection(run.listing), run.span
        if selection.notices:
            yield Span(
                source=span.source,
                path=str(run.listing),
                source_ordinal=span.source_ordinal,
                format=SELECTION,
            )
        first = span.source_ordinal + 1
        yield from spans_of(selection, span, first=first, rejects_missing=True)

    def read(self, request: SpanRequest[Spool]) -> Generator[ReadResult, None, None]:
        """Yield the notices of a selection, or all feeds that a whole spool has ever taken."""
        span = request.span
        if span.format == SELECTION:
            for counted in _read_selection(Path(span.path)).notices:
                yield from repeat(counted.first, counted.count)
            return
        everything = Spool(source=span.source, root=span.path, history=SpoolHistory.ALL)
        selection = select(read_deliveries(Path(span.path)), everything)
        feeds = spans_of(selection, span, rejects_missing=True)
        yield from read_files(feeds, request.options, request.count)


def _read_selection(path: Path) -> Selection:
    return msgspec.json.decode(path.read_bytes(), type=Selection)


def _spool_span(name: str, *, ordinal: int) -> Span:
    check_input_name(name)
    if not os.path.isfile(Path(name, JOURNAL)):
        raise ConfigError(
            f"INPUT: {name!r} has no {JOURNAL}; expected the folder of feedferry serve --spool"
        )
    return Span(
        source=name.rstrip("/") or name,
        path=str(Path(name).absolute()),
        source_ordinal=ordinal,
        format=SPOOL,
    )


def _select(spool: Spool) -> Selection:
    deliveries = tuple(read_deliveries(Path(spool.root)))
    return select(deliveries, spool, find_faults(deliveries, Path(spool.root)))


def _check_erased(selection: Selection, options: SourceOptions) -> None:
    """Raise ConfigError where a full feed would erase the feeds of another datasource."""
    if options.datasource is None or options.feedtype is not None:
        return
    door = by_name(options.to_format).door
    feeds = [delivery for delivery in selection.deliveries if delivery.door is door]
    names = sorted({name_of(delivery) for delivery in feeds})
    if len(names) > 1 and any(delivery.feedtype in (FULL, REPLACE) for delivery in feeds):
        raise ConfigError(
            f"--datasource {options.datasource}: for feeds of {', '.join(map(repr, names))}, of"
            " which a full one would erase the others; expected --only NAME, or --feedtype full,"
            " which makes one feed of all"
        )


SPOOLS = SpoolSource()
