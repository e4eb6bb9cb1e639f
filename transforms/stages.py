"""The functions of this package as Beam transforms; no other module of the package imports Beam.

Only small values travel between the transforms: spans and accounts, as JSON bytes, which every
runner can carry with its coder for bytes.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import apache_beam as beam
import msgspec
from msgspec.structs import replace

from schemas.account import Account, Chunk, merge
from schemas.avro import carried_bytes
from schemas.membership import Membership, RecordOrMembership
from schemas.notice import REFUSED, Loss
from schemas.record import Record
from schemas.reject import Reject, record_error
from schemas.span import Span
from transforms import convert as _convert
from transforms.conversion_settings import Settings
from transforms.formats import ReadOptions, ReadResult
from transforms.formats.adapt_rules import rejected
from transforms.formats.base import Outcome
from transforms.rules.adapt import Adapter, Target, adapt_membership, adapter, check_loss
from transforms.rules.normalize import normalize
from transforms.sinks.push.outcome import PushProgress
from transforms.sinks.push.settings import PushSettings
from transforms.sinks.push.throttle.gate import StopSignal
from transforms.sources import SourceConfig, SpanRequest, read_span

_log = logging.getLogger(__name__)
_chunks = msgspec.json.Decoder(Chunk)
_spans = msgspec.json.Decoder(Span)
_accounts = msgspec.json.Decoder(Account)


@dataclass
class CutFile(beam.PTransform):
    """Turn whole files into spans; a file that cannot be split is one span.

    The Reshuffle lets spans run in parallel.
    """

    span_bytes: int
    options: ReadOptions = ReadOptions()

    def expand(self, pcoll: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        cut = beam.FlatMap(_cut, self.span_bytes, self.options).with_output_types(bytes)
        return pcoll | "Cut" >> cut | "Spread" >> beam.Reshuffle()


@dataclass
class Convert(beam.PTransform):
    """Turn spans into their accounts; the chunk files exist when the account does.

    A span may be converted more than once; later attempts use the files of the first.
    """

    settings: Settings

    def expand(self, pcoll: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        convert = beam.Map(_convert_span, self.settings).with_output_types(bytes)
        return pcoll | "ConvertSpan" >> convert


@dataclass
class Merge(beam.PTransform):
    """Turn accounts into their sum."""

    def expand(self, pcoll: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        add = beam.CombineGlobally(_merge).without_defaults()
        return pcoll | "Add" >> add.with_output_types(bytes)


@dataclass
class ReadRecords(beam.PTransform):
    """Turn spans into their records and other results, in order, for a pipeline of your own.

    `config` is that of the source of the spans; programs, for example, retrieve the documents of a
    listing. Contents travel with their records: fuse the next transforms to this one, without a
    shuffle.
    """

    options: ReadOptions = ReadOptions()
    config: SourceConfig | None = None

    def expand(self, pcoll: beam.PCollection[bytes]) -> beam.PCollection[ReadResult]:
        return pcoll | "ReadSpan" >> beam.FlatMap(_read, self.options, self.config)


@dataclass
class Adapt(beam.PTransform):
    """Normalize records, and turn them into records that the target holds, and losses.

    Groups are rejected by a target without groups; other results are passed on. The pipeline fails
    with LossRefusedError at a loss of a field in `refused`: by default where a document would
    become public or empty.
    """

    target: Target
    refused: frozenset[str] = REFUSED

    def expand(self, pcoll: beam.PCollection[ReadResult]) -> beam.PCollection[ReadResult | Loss]:
        return pcoll | "AdaptRecord" >> beam.FlatMap(_adapt, self.target, self.refused)


@dataclass
class Push(beam.PTransform):
    """Turn chunks below `root` into the account of their push; receipts are in `folder`.

    All chunks of an appliance have one key, so that one worker pushes them: order, throttle and
    receipts hold for any number of workers. If its bundle is retried, chunks with a receipt are not
    sent again, provided that all workers share the folder of the push; only the chunk without a
    response is. With a folder of the worker's own, a retry elsewhere sends all chunks again, in
    order. A worker that is believed dead and still pushes holds the lock, so that the retry fails,
    and the runner tries again.
    """

    settings: PushSettings
    root: Path
    folder: Path

    def expand(self, pcoll: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        name = self.settings.appliance.name
        owned = beam.Map(_with_key, name).with_output_types(tuple[str, bytes])
        push = beam.Map(_push, self.settings, self.root, self.folder)
        return (
            pcoll
            | "Own" >> owned
            | "Gather" >> beam.GroupByKey()
            | "PushChunks" >> push.with_output_types(bytes)
        )


def _with_key(element: bytes, key: str) -> tuple[str, bytes]:
    return key, element


def _push(
    owned: tuple[str, Iterable[bytes]], settings: PushSettings, root: Path, folder: Path
) -> bytes:
    from transforms.sinks.push.pusher import Pusher  # loads the HTTP client

    decoded = [_chunks.decode(chunk) for chunk in owned[1]]
    progress = PushProgress(_log.warning)
    with Pusher(settings, stop=StopSignal(), progress=progress) as pusher:
        return msgspec.json.encode(pusher.push(decoded, root=root, folder=folder))


def _cut(whole: bytes, span_bytes: int, options: ReadOptions) -> Iterator[bytes]:
    spans = _convert.cut(_spans.decode(whole), span_bytes=span_bytes, options=options)
    yield from map(msgspec.json.encode, spans)


def _convert_span(span: bytes, settings: Settings) -> bytes:
    return msgspec.json.encode(_convert.convert(_spans.decode(span), settings))


def _read(span: bytes, options: ReadOptions, config: SourceConfig | None) -> Iterator[ReadResult]:
    request = SpanRequest(span=_spans.decode(span), config=config, options=options)
    with closing(read_span(request)) as results:
        yield from results


def _adapt(
    result: ReadResult, target: Target, refused: frozenset[str]
) -> Iterator[ReadResult | Loss]:
    if not isinstance(result, Record | Membership):
        yield result
        return
    outcomes, losses = _adapt_result(result, target)
    for loss in losses:
        check_loss(loss, refused, source=result.provenance.source)
    for outcome in outcomes:
        is_reject = isinstance(outcome, Reject)
        yield replace(outcome, data=carried_bytes(result)) if is_reject else outcome
    yield from losses


def _adapt_result(
    result: RecordOrMembership, target: Target
) -> tuple[tuple[Outcome | Membership, ...], tuple[Loss, ...]]:
    if isinstance(result, Membership):
        return (adapt_membership(result, target),), ()
    try:
        return _adapter(target)(normalize(result))
    except Exception as exc:
        return rejected(result, record_error(exc))


@cache
def _adapter(target: Target) -> Adapter:
    return adapter(target)


def _merge(accounts: Iterable[bytes]) -> bytes:
    return msgspec.json.encode(merge(map(_accounts.decode, accounts)))
