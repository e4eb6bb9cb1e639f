"""The source `spool`: the feeds that a receiver took.

The feeds are selected once, before the pipeline. The selection is kept in the folder of the run, so
that a run that is started again continues with the same feeds, whatever was delivered since.
"""

import enum
import os
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import IO

import msgspec

from feedferry.schemas.account import NoticeCount
from feedferry.schemas.check import Check, CheckLine, fail, ok
from feedferry.schemas.choices import SpoolHistory
from feedferry.schemas.delivery import JOURNAL, Delivery
from feedferry.schemas.errors import ConfigError, EncodingError, FormatError, SourceError
from feedferry.schemas.feed import FULL, METADATA_AND_URL, REPLACE, Feed, FeedHeader
from feedferry.schemas.notice import Notice
from feedferry.schemas.reject import Reject
from feedferry.schemas.source_options import SourceOptions
from feedferry.schemas.span import FileSignature, Span
from feedferry.schemas.units import counted
from feedferry.transforms.formats import Format, by_name
from feedferry.transforms.formats.base import ReadResult
from feedferry.transforms.sources.base import (
    Source,
    SourceRun,
    SpanRequest,
    SpanSize,
    check_input_name,
)
from feedferry.transforms.sources.feed_files import read_files
from feedferry.transforms.sources.files import open_span
from feedferry.transforms.sources.spool.deliveries import (
    is_whole,
    name_of,
    queue_of,
    read_deliveries,
)
from feedferry.transforms.storage.atomic import write_json

SPOOL = "spool"

SELECTION = "spool-selection"
"""The format of a span that reports the feeds which are not read."""

_FOLDERS = ("feeds", "incoming")
"""Folders of a spool; together with a journal, either identifies it."""

_MAX_NAMES = 10
_END_TAG = re.compile(rb"</(?:gsafeed|xmlgroups)\s*>|<(?:gsafeed|xmlgroups)\b[^<>]*/>")
_TAIL_BYTES = 64 << 10

_SUPERSEDED = {
    SpoolHistory.LATEST: "later feeds supersede {}; left out: --history all reads them",
    SpoolHistory.ALL: "full feeds without records remove {}; left out",
}
_TORN = (
    "a full feed of {!r} that is no feed or has no end; left out, as it would delete documents of"
    " its missing part: earlier feeds stay"
)
_KEPT = {
    SpoolHistory.LATEST: "a cleanup of the groups of {!r}; no feed does that: the groups that the"
    " target has stay",
    SpoolHistory.ALL: "a cleanup of the groups of {!r}; no feed does that: earlier groups are read"
    " all the same",
}


class Spool(msgspec.Struct, frozen=True, kw_only=True):
    """Which feeds of a spool are read: all, or `only` the feeds of some names.

    A name is that of a datasource, groupsource or profile, or of an endpoint. `source` is the name
    in messages, `root` the folder. `first` distinguishes the spool from another in the same folder.
    """

    source: str
    root: str
    history: SpoolHistory = SpoolHistory.LATEST
    only: tuple[str, ...] = ()
    first: Delivery | None = None


class FeedFault(enum.Enum):
    """The missing part of a full feed: its root or its end, a record, or readable bytes."""

    TORN = "torn"
    EMPTY = "empty"
    UNREADABLE = "unreadable"


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The deliveries that a run reads, and the notices of the others."""

    deliveries: tuple[Delivery, ...] = ()
    notices: tuple[NoticeCount, ...] = ()


class SpoolSource(Source[Spool]):
    """The spool of a receiver."""

    name = SPOOL
    title = "feeds that feedferry serve has received (a folder)"
    noun = "a spool"
    span_formats = frozenset({SPOOL, SELECTION})
    is_folder = True
    is_inspected = True

    def matches(self, name: str) -> bool:
        return os.path.isfile(Path(name, JOURNAL)) and any(
            os.path.isdir(Path(name, folder)) for folder in _FOLDERS
        )

    def list_inputs(self, names: Sequence[str], *, first: int) -> list[Span]:
        """Return a span for each spool; raise ConfigError for a folder that is none."""
        for name in names:
            check_input_name(name)
            if not os.path.isfile(Path(name, JOURNAL)):
                raise ConfigError(
                    f"⟦inputs⟧: {name!r} has no {JOURNAL}; expected the folder of feedferry serve"
                    " --spool"
                )
        return [
            Span(
                source=name.rstrip("/") or name,
                path=str(Path(name).absolute()),
                source_ordinal=ordinal,
                format=SPOOL,
            )
            for ordinal, name in enumerate(names, first)
        ]

    def check_inputs(self, spans: Sequence[Span], every: Sequence[Span]) -> None:
        """Raise ConfigError unless a spool is read alone: only its own feeds have an order."""
        other = next((span for span in every if span is not spans[0]), None)
        if other is not None:
            raise ConfigError(
                f"⟦inputs⟧: {spans[0].source!r} is a spool, and {other.source!r} is another input;"
                " expected a run for each"
            )

    def load(self, span: Span, options: SourceOptions) -> Spool:
        """Return which feeds are read; raise ConfigError where they cannot be one run."""
        first = next(read_deliveries(Path(span.path)), None)
        if first is None:
            raise ConfigError(
                f"⟦inputs⟧: {span.source!r} holds no feed so far; expected at least one"
            )
        spool = Spool(
            source=span.source,
            root=span.path,
            history=options.history,
            only=options.only,
            first=first,
        )
        _check_erased(_select(spool), options)
        return spool

    def checks(self, runs: Sequence[SourceRun[Spool]]) -> Iterator[Check]:
        for run in runs:
            yield Check("spool", partial(_check_spool, Path(run.config.root)))

    def split(self, run: SourceRun[Spool]) -> Iterator[Span]:
        """Yield a span for each feed that is read, after a span that reports the other feeds.

        Raise SourceError where a feed is not as it was delivered. A feed whose file is missing is
        rejected by its reader.
        """
        if not run.listing.exists():
            write_json(run.listing, msgspec.to_builtins(_select(run.config)))
        selection = msgspec.json.decode(run.listing.read_bytes(), type=Selection)
        span = run.span
        if selection.notices:
            yield Span(
                source=span.source,
                path=str(run.listing),
                source_ordinal=span.source_ordinal,
                format=SELECTION,
            )
        first = span.source_ordinal + 1
        yield from spans_of(selection.deliveries, span, first=first, rejects_missing=True)

    def size(self, span: Span) -> SpanSize:
        return SpanSize(bytes=0) if span.format == SELECTION else super().size(span)

    def read(self, request: SpanRequest[Spool]) -> Generator[ReadResult, None, None]:
        """Yield the notices of a selection, or all feeds that a whole spool has ever taken."""
        span = request.span
        if span.format == SELECTION:
            with open_span(span) as stream:
                notices = msgspec.json.decode(stream.read(), type=Selection).notices
            for counted in notices:
                yield from repeat(counted.first, counted.count)
            return
        everything = Spool(source=span.source, root=span.path, history=SpoolHistory.ALL)
        selection = select(read_deliveries(Path(span.path)), everything)
        feeds = spans_of(selection.deliveries, span, rejects_missing=True)
        yield from read_files(feeds, request.options, request.count)


def _check_spool(root: Path, _seconds: float) -> Iterator[CheckLine]:
    paths = [delivery.path for delivery in read_deliveries(root) if delivery.path is not None]
    yield ok("spool", f"{root}: {counted(len(paths), 'feed')}")
    missing = [path for path in paths if not os.access(root / path, os.R_OK)]
    if missing:
        found = f"{counted(len(missing), 'feed')} cannot be read, the first {missing[0]}"
        yield fail("spool", found, "restore their files, or let the user of the run read them")


def find_faults(deliveries: Iterable[Delivery], root: Path) -> dict[int, FeedFault]:
    """Examine the file of each full feed; return the faults by the ordinals of the deliveries.

    A full feed whose end is missing was not sent completely; an appliance takes nothing of it, nor
    of another document. The journal does not say so.
    """
    return {
        delivery.ordinal: fault
        for delivery in deliveries
        if delivery.path is not None and is_whole(delivery)
        if (fault := _fault_of(root / delivery.path, by_name(delivery.format))) is not None
    }


def select(
    deliveries: Iterable[Delivery], spool: Spool, faults: Mapping[int, FeedFault] = {}
) -> Selection:
    """Return the deliveries that a run reads.

    A full feed supersedes the earlier feeds of its datasource, and full, replaced or cleaned up
    groups those of their groupsource; Thunderstone data and web feeds supersede nothing. A torn
    full feed is left out, and supersedes nothing; nor does an unreadable one. A full feed without a
    record always supersedes: not every target has a chunk that says so.

    Raise ConfigError for names without deliveries, and for several profiles unless `only` names
    them: their records are of different indexes, and do not say which.
    """
    every = tuple(deliveries)
    _check_names(spool, every)
    torn: list[Delivery] = []
    gone: list[Delivery] = []
    current: dict[tuple[str, str], list[Delivery]] = {}
    for delivery in every:
        name, fault = name_of(delivery), faults.get(delivery.ordinal)
        if spool.only and not {name, delivery.endpoint} & {*spool.only}:
            continue
        if fault is FeedFault.TORN:
            torn.append(delivery)
            continue
        supersedes = fault is None and spool.history is SpoolHistory.LATEST
        earlier = current.setdefault(queue_of(delivery), [])
        if is_whole(delivery) and (supersedes or fault is FeedFault.EMPTY):
            gone += earlier
            earlier.clear()
        earlier.append(delivery)
    kept = sorted((one for some in current.values() for one in some), key=lambda one: one.ordinal)
    notices = (
        _note_superseded(gone, spool),
        _note("torn", torn, _TORN, spool),
        _note("cleanup", [one for one in kept if one.path is None], _KEPT[spool.history], spool),
    )
    return Selection(
        deliveries=tuple(delivery for delivery in kept if delivery.path is not None),
        notices=tuple(notice for notice in notices if notice is not None),
    )


def spans_of(
    deliveries: Iterable[Delivery], spool: Span, *, first: int = 0, rejects_missing: bool = False
) -> Iterator[Span]:
    """Yield a span for each delivery of the span of a spool, the sources numbered from `first`.

    Small feeds are not put together: an appliance takes feeds in their order, but the guide does
    not say in which order it takes the records of one feed.

    Raise SourceError where a file is not as it was delivered. With `rejects_missing`, the reader of
    a missing file rejects it instead.
    """
    for ordinal, delivery in enumerate(deliveries, start=first):
        path = Path(spool.path, delivery.path or "")
        name = f"{spool.source}#{delivery.ordinal}"
        if path.exists() or not rejects_missing:
            _require_file(path, delivery, name)
        yield Span(
            source=name,
            path=str(path),
            source_ordinal=ordinal,
            format=delivery.format,
            feed=_feed_of(delivery),
            encoding=spool.encoding,
            signature=FileSignature(size=delivery.bytes),
        )


def _fault_of(path: Path, format_: Format) -> FeedFault | None:
    try:
        with path.open("rb") as stream:
            if not _has_end(stream):
                return FeedFault.TORN
            stream.seek(0)
            has_rejects = False
            for result in format_.read(stream):
                has_rejects |= isinstance(result, Reject)
                if not isinstance(result, Reject | Notice):
                    is_empty = isinstance(result, FeedHeader) and not has_rejects
                    return FeedFault.EMPTY if is_empty else None
            return None
    except (OSError, EncodingError):  # its reader rejects it
        return FeedFault.UNREADABLE
    except FormatError:
        return FeedFault.TORN


def _has_end(stream: IO[bytes]) -> bool:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(size - _TAIL_BYTES, 0))
    tail = stream.read().replace(b"\0", b"")  # UTF-16 and UTF-32 have zeros in ASCII characters
    return _END_TAG.search(tail) is not None


def _feed_of(delivery: Delivery) -> Feed | None:
    format_ = by_name(delivery.format)
    if not format_.has_feedtypes:
        return None
    feedtype = FULL if delivery.feedtype == REPLACE else delivery.feedtype
    if feedtype == FULL and not format_.holds_only_memberships and not is_whole(delivery):
        feedtype = METADATA_AND_URL  # web is never replaced, whichever feedtype a client posts
    return Feed(datasource=delivery.datasource, feedtype=feedtype)


def _check_names(spool: Spool, deliveries: tuple[Delivery, ...]) -> None:
    names = {name_of(delivery) for delivery in deliveries}
    endpoints = {delivery.endpoint for delivery in deliveries}
    unknown = sorted(set(spool.only) - names - endpoints)
    if unknown:
        raise ConfigError(
            f"⟦only⟧ {unknown[0]}: {spool.source!r} holds nothing of that name; expected one of"
            f" {_quote_all(names)}, or an endpoint: {_quote_all(endpoints)}"
        )
    profiles = {delivery.profile for delivery in deliveries if delivery.profile}
    if len(profiles) > 1 and not spool.only:
        raise ConfigError(
            f"⟦inputs⟧: {spool.source!r} holds data of the profiles {_quote_all(profiles)}; "
            "expected ⟦only PROFILE⟧, as records do not say which they are of"
        )


def _note_superseded(deliveries: Iterable[Delivery], spool: Spool) -> NoticeCount | None:
    counts = Counter(name_of(delivery) for delivery in deliveries if delivery.path is not None)
    if not counts:
        return None
    names = [f"{count} of {name!r}" for name, count in counts.most_common(_MAX_NAMES)]
    if len(counts) > _MAX_NAMES:
        names.append(f"and those of {len(counts) - _MAX_NAMES} more")
    detail = _SUPERSEDED[spool.history].format(", ".join(names))
    notice = Notice(code="superseded", detail=detail, source=spool.source)
    return NoticeCount(counts.total(), notice)


def _note(
    code: str, deliveries: Sequence[Delivery], detail: str, spool: Spool
) -> NoticeCount | None:
    if not deliveries:
        return None
    first = deliveries[0]
    source = f"{spool.source}#{first.ordinal}"
    notice = Notice(code=code, detail=detail.format(name_of(first)), source=source)
    return NoticeCount(len(deliveries), notice)


def _require_file(path: Path, delivery: Delivery, name: str) -> None:
    try:
        size = path.stat().st_size
        found = f"{size:,} bytes"
    except OSError as exc:
        size, found = -1, str(exc.strerror)
    if size != delivery.bytes:
        raise SourceError(
            f"{name}: {path}: {found}; expected the {delivery.bytes:,} bytes that were delivered;"
            f" copy the file again, or take its line out of {JOURNAL}"
        )


def _quote_all(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def _select(spool: Spool) -> Selection:
    deliveries = tuple(read_deliveries(Path(spool.root)))
    return select(deliveries, spool, find_faults(deliveries, Path(spool.root)))


def _check_erased(selection: Selection, options: SourceOptions) -> None:
    """Raise ConfigError where a full feed would erase the feeds of another datasource."""
    if options.datasource is None or options.feedtype is not None:
        return
    format_ = by_name(options.to_format)
    for name in filter(None, (format_.name, format_.holds.groups_feed)):
        feeds = [delivery for delivery in selection.deliveries if delivery.format == name]
        names = sorted({name_of(delivery) for delivery in feeds})
        if len(names) > 1 and any(delivery.feedtype in (FULL, REPLACE) for delivery in feeds):
            raise ConfigError(
                f"⟦datasource⟧ {options.datasource}: for feeds of {', '.join(map(repr, names))}, of"
                " which a full one would erase the others; expected ⟦only NAME⟧, or"
                " ⟦feedtype full⟧, which makes one feed of all"
            )


SPOOLS = SpoolSource()
