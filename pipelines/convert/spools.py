"""Sources that are spools: found among the inputs, and what of them a run reads.

That is settled once, before the pipeline; it stands in the folder of the run until that is done, so
that a run that is started again goes on with the same feeds, whatever has been delivered since.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from pipelines.cli.convert_options import ConvertOptions
from pipelines.convert.trees import check_name
from schemas.delivery import JOURNAL, Delivery
from schemas.errors import ConfigError
from schemas.feed import FULL, REPLACE
from schemas.span import Span
from transforms.formats import by_name
from transforms.sources.spool import (
    SELECTION,
    SPOOL,
    History,
    Selection,
    Spool,
    name_of,
    read_deliveries,
    read_selection,
    select,
    spans_of,
    write_selection,
)
from transforms.sources.spool_look import look

_FOLDERS = ("feeds", "incoming")
"""Folders of a spool; with a journal beside it, either shows what it is."""


def is_spool(name: str) -> bool:
    """Whether an input whose format nobody names is a spool."""
    return os.path.isfile(Path(name, JOURNAL)) and any(
        os.path.isdir(Path(name, folder)) for folder in _FOLDERS
    )


def spool_span(name: str, *, ordinal: int) -> Span:
    """Return the span of a spool; raise ConfigError where there is none."""
    check_name(name)
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


def load_spool(span: Span, options: ConvertOptions) -> Spool:
    """Return which feeds of a spool are read; raise ConfigError where that cannot be done."""
    first = next(read_deliveries(Path(span.path)), None)
    if first is None:
        raise ConfigError(f"INPUT: {span.source!r} holds no feed so far; expected at least one")
    spool = Spool(
        source=span.source,
        root=span.path,
        history=History(options.history),
        only=options.only,
        first=first,
    )
    _check_erased(_selected(spool), options)
    return spool


def cut_spool(span: Span, spool: Spool, path: Path) -> Iterator[Span]:
    """Yield a span for each feed that is read, and before them one that tells of the others.

    What is selected is written to `path`, or taken from there. Raises SourceError where a feed is
    not as it was delivered. One that is gone is rejected by its reader.
    """
    if not path.exists():
        write_selection(_selected(spool), path)
    selection = read_selection(path)
    if selection.notices:
        yield Span(
            source=span.source,
            path=str(path),
            source_ordinal=span.source_ordinal,
            format=SELECTION,
        )
    first = span.source_ordinal + 1
    parts = spans_of(
        selection, source=span.source, root=spool.root, first=first, rejects_missing=True
    )
    for part in parts:
        yield replace(part, encoding=span.encoding)


def _selected(spool: Spool) -> Selection:
    deliveries = tuple(read_deliveries(Path(spool.root)))
    return select(deliveries, spool, look(deliveries, Path(spool.root)))


def _check_erased(selection: Selection, options: ConvertOptions) -> None:
    """Raise ConfigError where a full feed would erase those of another datasource."""
    if options.datasource is None or options.feedtype is not None:
        return
    door = by_name(options.to_format).door
    feeds = [one for one in selection.deliveries if one.door is door]
    names = sorted({name_of(one) for one in feeds})
    if len(names) > 1 and any(map(_is_full, feeds)):
        raise ConfigError(
            f"--datasource {options.datasource}: for feeds of {', '.join(map(repr, names))}, of"
            " which a full one would erase the others; expected --only NAME, or --feedtype full,"
            " which makes one feed of all"
        )


def _is_full(delivery: Delivery) -> bool:
    return delivery.feedtype in (FULL, REPLACE)
