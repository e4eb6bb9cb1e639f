"""feedferry in Beam YAML: a provider of the type `python` names these classes.

Their inputs and outputs are rows, those of records as in `feedferry.beam.RecordRow`. A record that
is rejected ends the pipeline, unless `error_handling: {output: NAME}` gives rejects an output.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import msgspec
from apache_beam.metrics import Metrics

from feedferry.beam import RecordRow, from_row, list_spans, to_row
from feedferry.pipelines.folders.manifest import receipts_folder
from feedferry.pipelines.options.push_options import parse_push
from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import ConfigError, FatalError, RecordError, TargetError
from feedferry.schemas.notice import REFUSED, Loss, Notice
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Filtered, Reject
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.formats import ReadOptions, ReadResult, WriteOptions
from feedferry.transforms.formats.base import Target
from feedferry.transforms.sinks.push.outcome import PushAccount
from feedferry.transforms.stages import Adapt, CutFile, Push, ReadRecords, WriteChunks

_SPAN_BYTES = 64 << 20


class RejectRow(NamedTuple):
    """A reject as a row; `data` has the original bytes of the record."""

    code: str
    reason: str
    url: str | None
    source: str
    line: int
    data: bytes


class ChunkRow(NamedTuple):
    """A chunk file as a row; `manifest` is its line in a manifest."""

    path: str
    size: int
    manifest: bytes


class PushRow(NamedTuple):
    """A finished push as a row; `account` is JSON."""

    target: str
    chunks: int
    account: str


@dataclass
class ReadFeed(beam.PTransform):
    """Read the records of files, folders or globs; the format is detected if it is not given.

    Large files are read by several workers. The order of records is that of the file in each span.
    """

    path: str
    format: str | None = None
    error_handling: dict[str, str] | None = None

    def expand(self, pbegin: beam.pvalue.PBegin) -> Any:
        spans = beam.Create(list_spans(self.path, from_format=self.format), reshuffle=False)
        results = pbegin | spans | CutFile(_SPAN_BYTES) | ReadRecords()
        return _as_rows(results, self.error_handling)


@dataclass
class AdaptRecords(beam.PTransform):
    """Normalize records and adapt them to a format; losses in `accept_loss` are counted only."""

    format: str
    accept_loss: list[str] | None = None
    error_handling: dict[str, str] | None = None

    def expand(self, rows: beam.PCollection) -> Any:
        refused = REFUSED.difference(self.accept_loss or ())
        records = rows | "FromRows" >> beam.Map(_record_or_reject)
        adapted = records | Adapt(Target(format=self.format), refused=refused)
        return _as_rows(adapted, self.error_handling)


@dataclass
class WriteFeedChunks(beam.PTransform):
    """Write records into chunk files in a new folder; see `transforms.stages.WriteChunks`.

    Records of one URL are in one of the `shards`, which are converted in parallel.
    """

    folder: str
    format: str
    feedtype: str | None = None
    datasource: str | None = None
    accept_loss: list[str] | None = None
    max_chunk_bytes: int = 50_000_000
    shards: int = 8

    def expand(self, rows: beam.PCollection) -> beam.PCollection[ChunkRow]:
        target = Target(format=self.format, feedtype=self.feedtype, datasource=self.datasource)
        settings = Settings(
            folder=self.folder,
            target=target,
            reading=ReadOptions(),
            writing=WriteOptions(),
            max_chunk_bytes=self.max_chunk_bytes,
            refused=REFUSED.difference(self.accept_loss or ()),
        )
        keyed = rows | "FromRows" >> beam.Map(_keyed_record, self.shards)
        return keyed | WriteChunks(settings) | "ToRows" >> beam.Map(_chunk_row)


@dataclass
class PushChunks(beam.PTransform):
    """Push chunks below `folder` to the appliance at a URL; a push that stops ends the pipeline."""

    url: str
    folder: str

    def expand(self, rows: beam.PCollection) -> beam.PCollection[PushRow]:
        _, settings = parse_push({"inputs": (self.folder,), "url": self.url})
        root = Path(self.folder)
        lines = rows | "Lines" >> beam.Map(attrgetter("manifest")).with_output_types(bytes)
        push = Push(settings, root, receipts_folder(root, settings))
        return lines | push | "ToRows" >> beam.Map(_push_row)


def _as_rows(results: beam.PCollection, error_handling: dict[str, str] | None) -> Any:
    """Return the records as rows, and the rejects if they have an output."""
    if error_handling is not None and "output" not in error_handling:
        raise ConfigError("error_handling: no output; expected {output: NAME}")
    rows = results | "ToRows" >> beam.FlatMap(_record_rows, error_handling is None)
    if error_handling is None:
        return rows
    rejects = results | "ToRejects" >> beam.FlatMap(_reject_rows)
    return {"output": rows, error_handling["output"]: rejects}


def _record_rows(result: ReadResult | Loss, raises: bool) -> Iterator[RecordRow]:
    if isinstance(result, Record):
        yield to_row(result)
    elif isinstance(result, Reject):
        if raises:
            raise FatalError(f"{result.message}; error_handling gives rejects an output")
    elif isinstance(result, Loss):
        Metrics.counter("feedferry", f"loss-{result.field}").inc()
    elif isinstance(result, Filtered | Notice):
        Metrics.counter("feedferry", result.code).inc()
    else:
        raise FatalError(f"a {type(result).__name__}; expected documents only")


def _reject_rows(result: ReadResult | Loss) -> Iterator[RejectRow]:
    if isinstance(result, Reject):
        place = result.source, result.line
        yield RejectRow(result.code, result.reason, result.url, *place, result.data)


def _record_or_reject(row: Any) -> Record | Reject:
    try:
        return from_row(row)
    except RecordError as exc:
        return Reject(code=exc.code, reason=exc.reason, stage="read", data=repr(row).encode())


def _keyed_record(row: Any, shards: int) -> tuple[int, Record]:
    record = from_row(row)
    return zlib.crc32(record.url.encode()) % shards, record


def _chunk_row(line: bytes) -> ChunkRow:
    chunk = msgspec.json.decode(line, type=Chunk)
    return ChunkRow(chunk.path, chunk.bytes, line)


def _push_row(line: bytes) -> PushRow:
    account = msgspec.json.decode(line, type=PushAccount)
    if account.stopped is not None:
        raise TargetError(f"{account.target}: {account.stopped}")
    return PushRow(account.target, len(account.outcomes), line.decode())
