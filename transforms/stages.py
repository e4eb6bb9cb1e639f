"""The functions of this package as Beam transforms: the only place here that knows Beam.

What travels between them is small: spans and accounts, as JSON bytes, so that every runner can
carry them with the coder that it has for bytes.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache

import apache_beam as beam
import msgspec

from schemas.account import Account, Chunk, merge
from schemas.defect import record_error
from schemas.errors import FeedferryError
from schemas.loss import REFUSED, Loss
from schemas.record import Record
from schemas.reject import reject_record
from schemas.span import Span
from transforms import convert as _convert
from transforms.adapt import Adapter, Target, adapter, check_loss
from transforms.formats import ReadOptions, ReadResult
from transforms.normalize import normalize
from transforms.sinks.push.progress import PushProgress
from transforms.sinks.push.pusher import PushPaths, push
from transforms.sinks.push.settings import PushSettings
from transforms.sinks.push.throttle.gate import StopSignal
from transforms.sources import files as _files
from transforms.sources.programs.config import Programs
from transforms.sources.programs.documents import documents
from transforms.sources.span_reader import SpanReader

_log = logging.getLogger(__name__)
_chunks = msgspec.json.Decoder(Chunk)
_spans = msgspec.json.Decoder(Span)
_accounts = msgspec.json.Decoder(Account)


USUAL = ReadOptions()


@dataclass
class CutFile(beam.PTransform):
    """Takes whole files, gives their spans; a file that cannot be cut is one span.

    The Reshuffle behind it is what makes spans run in parallel.
    """

    span_bytes: int
    options: ReadOptions = USUAL

    def expand(self, pcoll: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        cut = beam.FlatMap(_cut, self.span_bytes, self.options).with_output_types(bytes)
        return pcoll | "Cut" >> cut | "Spread" >> beam.Reshuffle()


@dataclass
class Convert(beam.PTransform):
    """Takes spans, gives the account of each; its chunk files stand when the account is there.

    Runs at least once for each span, and a second time finds the files of the first.
    """

    settings: _convert.Settings

    def expand(self, pcoll: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        convert = beam.Map(_convert_span, self.settings).with_output_types(bytes)
        return pcoll | "ConvertSpan" >> convert


@dataclass
class Merge(beam.PTransform):
    """Takes accounts, gives one that adds them up."""

    def expand(self, pcoll: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        keyed = beam.Map(_key).with_output_types(tuple[str, bytes])
        return (
            pcoll
            | "Key" >> keyed
            | "Add" >> beam.CombinePerKey(_merge)
            | "Total" >> beam.Values().with_output_types(bytes)
        )


@dataclass
class ReadRecords(beam.PTransform):
    """Takes spans, gives what is found in them, that of one span in its order.

    Contents travel with their records: keep what follows fused to it, without a shuffle between.
    """

    options: ReadOptions

    def expand(self, pcoll: beam.PCollection[bytes]) -> beam.PCollection[ReadResult]:
        return pcoll | "ReadSpan" >> beam.FlatMap(_read, self.options)


@dataclass
class Retrieve(beam.PTransform):
    """Takes spans of a listing, gives what its programs say of the documents, in its order.

    Each worker runs as many programs at a time as `programs.parallel` says; a bundle that is tried
    again asks for its documents again.
    """

    programs: Programs
    options: ReadOptions

    def expand(self, pcoll: beam.PCollection[bytes]) -> beam.PCollection[ReadResult]:
        return pcoll | "RetrieveSpan" >> beam.FlatMap(_retrieve, self.programs, self.options)


@dataclass
class Normalize(beam.PTransform):
    """Takes what is found, gives its records as normal ones and the rest as it is."""

    def expand(self, pcoll: beam.PCollection[ReadResult]) -> beam.PCollection[ReadResult]:
        return pcoll | "NormalizeRecord" >> beam.Map(_normalize)


@dataclass
class Adapt(beam.PTransform):
    """Takes what is found, gives what the target can hold of its records, the rest, and losses.

    Records are normalized first, as the rules of targets expect. The pipeline fails with
    LossRefusedError at a loss of a field in `refused`: unless stated otherwise, at a document that
    would become public or empty.
    """

    target: Target
    refused: frozenset[str] = REFUSED

    def expand(self, pcoll: beam.PCollection[ReadResult]) -> beam.PCollection[ReadResult | Loss]:
        return pcoll | "AdaptRecord" >> beam.FlatMap(_adapt, self.target, self.refused)


@dataclass
class Push(beam.PTransform):
    """Takes chunks, gives the account of their push to one appliance.

    All chunks of an appliance are one key, so that one worker owns it: order, throttle and receipts
    hold however many workers there are. When its bundle is retried, what has a receipt is not sent
    again, as long as the folder of the push is one that all workers share; the one chunk whose
    answer was not seen is. On a folder of the worker's own, a retry elsewhere sends all of it
    again: at least once, in order. A worker that is taken for dead while it still pushes has the
    lock, so that the retry fails, and the runner tries again.
    """

    settings: PushSettings
    places: PushPaths

    def expand(self, pcoll: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        name = self.settings.appliance.name
        owned = beam.Map(_own, name).with_output_types(tuple[str, bytes])
        push = beam.Map(_push, self.settings, self.places)
        return (
            pcoll
            | "Own" >> owned
            | "Gather" >> beam.GroupByKey()
            | "PushChunks" >> push.with_output_types(bytes)
        )


def _own(chunk: bytes, name: str) -> tuple[str, bytes]:
    return name, chunk


def _push(owned: tuple[str, Iterable[bytes]], settings: PushSettings, places: PushPaths) -> bytes:
    decoded = [_chunks.decode(chunk) for chunk in owned[1]]
    progress = PushProgress(_log.warning)
    return msgspec.json.encode(
        push(decoded, places, settings, stop=StopSignal(), progress=progress)
    )


def _read(span: bytes, options: ReadOptions) -> Iterator[ReadResult]:
    return SpanReader(_spans.decode(span), options=options).results()


def _retrieve(span: bytes, programs: Programs, options: ReadOptions) -> Iterator[ReadResult]:
    with closing(documents(_read(span, options), programs, options=options)) as found:
        yield from found


def _normalize(one: ReadResult) -> ReadResult:
    if not isinstance(one, Record):
        return one
    try:
        return normalize(one)
    except Exception as exc:
        error = record_error(exc)
        return reject_record(one, code=error.code, reason=error.reason, stage="normalize")


def _adapt(one: ReadResult, target: Target, refused: frozenset[str]) -> Iterator[ReadResult | Loss]:
    if not isinstance(one, Record):
        yield one
        return
    adapt = _adapter(target)
    try:
        outcomes, losses = adapt(normalize(one))
    except Exception as exc:
        error = record_error(exc)
        yield reject_record(one, code=error.code, reason=error.reason, stage="adapt")
        return
    for loss in losses:
        check_loss(loss, refused, source=one.provenance.source)
    yield from outcomes
    yield from losses


@cache
def _adapter(target: Target) -> Adapter:
    return adapter(target)


def _cut(whole: bytes, span_bytes: int, options: ReadOptions) -> Iterator[bytes]:
    """A file that cannot be cut stays whole: reading it tells why, in its account."""
    try:
        parts = _files.cut_file(_spans.decode(whole), span_bytes=span_bytes, options=options)
        spans = list(parts)
    except (FeedferryError, OSError):
        yield whole
        return
    except Exception as exc:  # a defect of ours must not cost the file
        _log.warning("%s: read in one piece: %s", _spans.decode(whole).source, record_error(exc))
        yield whole
        return
    yield from map(msgspec.json.encode, spans)


def _convert_span(span: bytes, settings: _convert.Settings) -> bytes:
    return msgspec.json.encode(_convert.convert(_spans.decode(span), settings))


def _key(account: bytes) -> tuple[str, bytes]:
    return "account", account


def _merge(accounts: Iterable[bytes]) -> bytes:
    return msgspec.json.encode(merge(map(_accounts.decode, accounts)))
