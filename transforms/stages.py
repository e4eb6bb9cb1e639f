"""The functions of this package as Beam transforms; no other module of the package imports Beam.

Between the transforms of a conversion only small values travel: spans and accounts, as JSON bytes,
which every runner can carry with its coder for bytes. Records travel between the transforms for
pipelines of other programs. Runners may apply a transform to an element more than once: each says
what that does.
"""

import hashlib
import logging
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TypeVar

import apache_beam as beam
import msgspec
from msgspec.structs import replace

from feedferry.schemas.account import Account, Chunk, merge, place_of
from feedferry.schemas.avro import carried_bytes, encode
from feedferry.schemas.errors import (
    BusyError,
    ConfigError,
    FatalError,
    FeedferryError,
    StoppedError,
)
from feedferry.schemas.feed import FULL
from feedferry.schemas.membership import Membership, RecordOrMembership
from feedferry.schemas.notice import REFUSED, Loss
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject, record_error, reject_record
from feedferry.schemas.span import Span, SpanEnd
from feedferry.transforms.compare.comparison import Difference, difference_of
from feedferry.transforms.compare.events import encoded, event_of
from feedferry.transforms.compare.history import FeedHistory
from feedferry.transforms.conversion import convert as _convert
from feedferry.transforms.conversion import file_spans
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.formats import AVRO, ReadOptions, ReadResult, WriteOptions
from feedferry.transforms.formats.base import Outcome, Survey, frames
from feedferry.transforms.formats.holding.adapt_rules import rejected
from feedferry.transforms.rules.adapt import Adapter, Target, adapt_membership, adapter, check_loss
from feedferry.transforms.rules.normalize import normalize
from feedferry.transforms.sinks.push.model import ERASING_FEEDTYPES
from feedferry.transforms.sinks.push.outcome import PushProgress
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.sinks.push.throttle.gate import StopSignal
from feedferry.transforms.sources import SourceConfig, SpanRequest, read_span
from feedferry.transforms.steps import StepResult, Steps
from feedferry.transforms.storage.atomic import whole_file
from feedferry.transforms.storage.objects.lease import EXPIRY_SECONDS
from feedferry.transforms.storage.run_folders.find_storage import storage_of
from feedferry.transforms.storage.run_folders.mirrors import MirrorDisk, mirror_of
from feedferry.transforms.storage.storage import Storage, is_object

_log = logging.getLogger(__name__)
_chunks = msgspec.json.Decoder(Chunk)
_spans = msgspec.json.Decoder(Span)
_accounts = msgspec.json.Decoder(Account)
_errors = {error.exit_code: error for error in (ConfigError, StoppedError, FatalError, BusyError)}
_ORDINALS = 10**12
_POLL_SECONDS = 2.0
_FAST = 1
"""The level of compression."""

_MAX_SURVEYS = 1000
"""Each is of as many adjacent parts of a file as necessary."""

_MAX_SPREAD = 5000
"""The same for spans, which are converted one after another."""

_Item = TypeVar("_Item", bound=ReadResult)
_Key = tuple[str, bool]
"""A key of the user, and whether it is that of groups."""


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
class SpreadParts(beam.PTransform):
    """Turn whole files into lists of adjacent parts; the first part of a file is its first span.

    The Reshuffle lets the parts run in parallel.
    """

    span_bytes: int
    options: ReadOptions = ReadOptions()

    def expand(self, pcoll: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        begin = beam.FlatMap(_begin, self.span_bytes, self.options).with_output_types(bytes)
        part = beam.FlatMap(_parts).with_output_types(bytes)
        return pcoll | "Begin" >> begin | "Part" >> part | "Spread" >> beam.Reshuffle()


@dataclass
class GuessSpans(beam.PTransform):
    """Turn lists of parts into lists of spans without a scan; a span may be a wrong guess.

    Each part of a file is surveyed by some worker. The Reshuffle lets spans run in parallel;
    surveys of less than 100 kB and spans cross a shuffle.
    """

    def expand(self, pcoll: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        return (
            pcoll
            | "Survey" >> beam.Map(_survey).with_output_types(tuple[int, bytes])
            | "Gather" >> beam.GroupByKey()
            | "Guess" >> beam.FlatMap(_guess).with_output_types(bytes)
            | "SpreadSpans" >> beam.Reshuffle()
        )


@dataclass
class Convert(beam.PTransform):
    """Turn whole files into the accounts of their spans; the chunk files exist when those do.

    By default, the spans of a file are converted in turn: each says where the next one begins. With
    `is_parallel`, they are converted at the same time, from where they seem to begin. Then the
    accounts of wrong guesses are dropped, and what they were wrong about is converted again. The
    accounts are the same. A span may be converted more than once; later attempts use the files of
    the first. Spans begin to be converted when all parts of the files are surveyed. If the workers
    are `on_one_machine`, they share the surveys in its folder of the run, and begin at once.
    """

    settings: Settings
    span_bytes: int
    is_parallel: bool = False
    on_one_machine: bool = False

    def expand(self, pcoll: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        files = (self.span_bytes, self.settings.reading)
        if not self.is_parallel:
            begin = beam.FlatMap(_begin, *files).with_output_types(bytes)
            in_turn = beam.FlatMap(_convert_in_turn, self.settings).with_output_types(bytes)
            begun = pcoll | "Spread" >> beam.Reshuffle() | "Begin" >> begin
            return begun | "ConvertInTurn" >> in_turn
        parts = pcoll | "Parts" >> SpreadParts(*files)
        spans = parts if self.on_one_machine else parts | "Guess" >> GuessSpans()
        convert = beam.FlatMap(_convert_spans, self.settings, are_parts=self.on_one_machine)
        converted = spans | "ConvertSpans" >> convert.with_output_types(tuple[int, bytes])
        check = beam.FlatMap(_check, self.settings).with_output_types(bytes)
        return converted | "Gather" >> beam.GroupByKey() | "Check" >> check


@dataclass
class Merge(beam.PTransform):
    """Turn accounts into their sum, which one worker makes when all are there."""

    def expand(self, pcoll: beam.PCollection[bytes]) -> beam.PCollection[bytes]:
        add = beam.CombineGlobally(_MergeOnce()).without_defaults()
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
class Transform(beam.PTransform):
    """Apply steps of the user to records and groups, in the order of the list.

    A filtered record is a Filtered, one that a step cannot handle a Reject; other results are
    passed on. Each worker makes the steps once; the pipeline fails with ConfigError if it cannot.
    Order is kept, nothing crosses a shuffle, and a retry has the same results if the functions of
    the user have.
    """

    steps: Steps

    def expand(self, pcoll: beam.PCollection[ReadResult]) -> beam.PCollection[ReadResult]:
        return pcoll | "TransformRecord" >> beam.ParDo(_ApplySteps(self.steps))


@dataclass
class Normalize(beam.PTransform):
    """Normalize records; other results are passed on. `Adapt` and `WriteChunks` do it, too.

    Order is kept, nothing crosses a shuffle, and a retry has the same results.
    """

    def expand(self, pcoll: beam.PCollection[ReadResult]) -> beam.PCollection[ReadResult]:
        return pcoll | "NormalizeRecord" >> beam.Map(_normalize)


@dataclass
class Adapt(beam.PTransform):
    """Normalize records, and turn them into records that the target holds, and losses.

    Groups are filtered by a target without groups; other results are passed on. The pipeline fails
    with LossRefusedError at a loss of a field in `refused`: by default where a document would
    become public or empty. Order is kept, nothing crosses a shuffle, and a retry has the same
    results.
    """

    target: Target
    refused: frozenset[str] = REFUSED

    def expand(self, pcoll: beam.PCollection[ReadResult]) -> beam.PCollection[ReadResult | Loss]:
        return pcoll | "AdaptRecord" >> beam.FlatMap(_adapt, self.target, self.refused)


@dataclass
class WriteChunks(beam.PTransform):
    """Turn pairs of a key and a record into chunk files, and these into the lines of a manifest.

    The records of a key become a file in `settings.folder`, which is converted as one span: losses,
    rejects, limits and names are those of every conversion, and a span that is stopped fails the
    pipeline with its error. Paths in the lines are relative to the folder, which all workers share.
    Groups become a file of their own, after the records of their key.

    All contents cross a shuffle. The local runner keeps them in memory, at 4 to 9 bytes for each
    byte; clusters store them, and transfer them once. They are stored again in the folder. Beam
    keeps no order within a key, so a key must not have two records of one URL whose order matters.
    Lines are in the order of the keys as text, numbered from 1 by one worker. If a key is retried,
    the files of its first attempt are used. Full feeds are refused: they delete what they leave
    out, and records that were set aside before are not known here.
    """

    settings: Settings

    def expand(
        self, pcoll: beam.PCollection[tuple[object, RecordOrMembership]]
    ) -> beam.PCollection[bytes]:
        convert = beam.FlatMap(_convert_key, self.settings)
        return (
            pcoll
            | "Encode" >> beam.MapTuple(_encode).with_output_types(tuple[_Key, bytes])
            | "GroupRecords" >> beam.GroupByKey()
            | "ConvertKey" >> convert.with_output_types(tuple[str, tuple[_Key, bytes]])
            | "Gather" >> beam.GroupByKey()
            | "Number" >> beam.FlatMap(_number).with_output_types(bytes)
        )


@dataclass
class CompareRecords(beam.PTransform):
    """Turn the records and groups of two collections, (before, after), into their differences.

    They are those of `diff`. Beam keeps no order, so each side has at most one record of a URL, as
    the output of `compact` has; the pipeline fails with FatalError at another one. `ignored` are
    names of fields and patterns, such as `metadata:x-*`. Fields cross a shuffle, and of a content
    its size and SHA-256. A retry has the same results.
    """

    ignored: frozenset[str] = frozenset()

    def expand(
        self, pcolls: tuple[beam.PCollection[ReadResult], beam.PCollection[ReadResult]]
    ) -> beam.PCollection[Difference]:
        stored = [
            pcoll | name >> beam.Map(_store).with_output_types(tuple[bytes, bytes])
            for name, pcoll in zip(("StoreBefore", "StoreAfter"), pcolls, strict=True)
        ]
        differ = beam.FlatMap(_differ, self.ignored).with_output_types(Difference)
        return stored | "GroupByUrl" >> beam.CoGroupByKey() | "Differ" >> differ


@dataclass
class Push(beam.PTransform):
    """Turn chunks below `root` into the account of their push; receipts are in `folder`.

    All chunks of an appliance have one key, so that one worker pushes them: order, throttle and
    receipts hold for any number of workers. If its bundle is retried, chunks with a receipt are not
    sent again, provided that all workers share the folder of the push; only the chunk without a
    response is. With a folder of the worker's own, a retry elsewhere sends all chunks again, in
    order. A worker that is believed dead and still pushes holds the lock, so that the retry fails,
    and the runner tries again. In object storage, `root` and `folder` are URIs, and the lock is a
    lease, whose end a retry waits for. A file `cancelled` in the folder ends the push after the
    current chunk.
    """

    settings: PushSettings
    root: Path | str
    folder: Path | str

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


def _store(item: RecordOrMembership) -> tuple[bytes, bytes]:
    _require_item(item, "CompareRecords")
    return encoded(event_of(item), 0)


def _differ(
    keyed: tuple[bytes, Sequence[Iterable[bytes]]], ignored: frozenset[str]
) -> Iterator[Difference]:
    key, sides = keyed
    rows = [[*side] for side in sides]
    if max(map(len, rows)) > 1:
        found = f"CompareRecords: {key.decode()}: several records in one input"
        raise FatalError(f"{found}; expected one: feedferry compact makes it of a history")
    before, after = (FeedHistory().document(side) for side in rows)
    difference = difference_of(key, before, after, ignored=ignored)
    if difference is not None:
        yield difference


def _with_key(element: bytes, key: str) -> tuple[str, bytes]:
    return key, element


def _push(
    owned: tuple[str, Iterable[bytes]], settings: PushSettings, root: Path | str, folder: Path | str
) -> bytes:
    decoded = [_chunks.decode(chunk) for chunk in owned[1]]
    uri, stop = str(root), StopSignal()
    with _stopped_if_cancelled(storage_of(str(folder)), stop):
        if not is_object(uri):
            return _push_below(Path(root), Path(folder), decoded, settings, stop)
        with mirror_of(uri) as mirror:
            receipts = mirror / str(folder).removeprefix(f"{uri}/")
            receipts.mkdir(parents=True)
            account = _push_leased(mirror, receipts, decoded, settings, stop)
            return account.replace(str(mirror).encode(), uri.encode())


def _push_leased(
    root: Path, folder: Path, chunks: list[Chunk], settings: PushSettings, stop: StopSignal
) -> bytes:
    """Push when the lease of a worker that may have been lost has expired."""
    end = time.monotonic() + 2 * EXPIRY_SECONDS
    while True:
        try:
            return _push_below(root, folder, chunks, settings, stop)
        except BusyError:
            if time.monotonic() > end:
                raise
            time.sleep(_POLL_SECONDS)


def _push_below(
    root: Path, folder: Path, chunks: list[Chunk], settings: PushSettings, stop: StopSignal
) -> bytes:
    from feedferry.transforms.sinks.push.pusher import Pusher  # loads the HTTP client

    progress = PushProgress(_log.warning)
    with Pusher(settings, stop=stop, progress=progress, disk=MirrorDisk()) as pusher:
        account = pusher.push(chunks, root=root, folder=folder)
        return msgspec.json.encode(replace(account, outcomes=[*account.outcomes]))


@contextmanager
def _stopped_if_cancelled(storage: Storage, stop: StopSignal) -> Iterator[None]:
    """Stop the push of the block when its job is cancelled: the runner may let it go on."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL_SECONDS):
            with suppress(FatalError, OSError):  # it is tried again
                if storage.get(_convert.CANCELLED) is not None:
                    stop.stop()
                    storage.remove(_convert.CANCELLED)
                    return

    thread = threading.Thread(target=watch, name="cancelled", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _cut(whole: bytes, span_bytes: int, options: ReadOptions) -> Iterator[bytes]:
    spans = file_spans.cut(_spans.decode(whole), span_bytes=span_bytes, options=options)
    yield from map(msgspec.json.encode, spans)


class _Surveyed(msgspec.Struct, frozen=True):
    """A span of a grid as if it began at a multiple of it, and the survey there.

    All that is certain without a survey is a span of its own.
    """

    span: Span
    survey: Survey | None = None


_guessed_spans = cache(file_spans.GuessedSpans)
_spans_of = msgspec.json.Decoder(list[Span]).decode
_surveyed_of = msgspec.json.Decoder(list[_Surveyed]).decode


class _Converted(msgspec.Struct, frozen=True):
    """A span, certain or guessed, and its account."""

    span: Span
    account: Account


_converted_of = msgspec.json.Decoder(list[_Converted]).decode


def _begin(whole: bytes, span_bytes: int, options: ReadOptions) -> Iterator[bytes]:
    spans = file_spans.begin(_spans.decode(whole), span_bytes=span_bytes, options=options)
    yield from map(msgspec.json.encode, spans)


def _parts(span: bytes) -> Iterator[bytes]:
    return _together(list(file_spans.parts(_spans.decode(span))), most=_MAX_SURVEYS)


def _together(spans: Sequence[Span], *, most: int) -> Iterator[bytes]:
    """Yield adjacent spans together: an element of a shuffle costs the runner several kB."""
    size = -(-len(spans) // most) or 1
    yield from (msgspec.json.encode(spans[at : at + size]) for at in range(0, len(spans), size))


def _survey(parts: bytes) -> tuple[int, bytes]:
    surveyed = [_Surveyed(part, file_spans.survey(part)) for part in _spans_of(parts)]
    return surveyed[0].span.source_ordinal, msgspec.json.encode(surveyed)


def _guess(surveyed: tuple[int, Iterable[bytes]]) -> Iterator[bytes]:
    """Yield the spans of one source: those that are certain, and guesses."""
    parts = [part for text in surveyed[1] for part in _surveyed_of(text)]
    parts.sort(key=lambda part: part.span.ordinal)
    surveys = [part.survey for part in parts if part.survey is not None]
    spans = [part.span for part in parts if part.survey is None or not part.span.ordinal]
    if surveys:
        spans += file_spans.guess(spans[0], surveys)
    yield from _together(spans, most=_MAX_SPREAD)


def _convert_spans(
    spans: bytes, settings: Settings, *, are_parts: bool
) -> Iterator[tuple[int, bytes]]:
    """Convert a list of spans of a file, or the spans that there seem to be in a list of parts."""
    converted = []
    for stated in _spans_of(spans):
        span = _guess_in(stated, settings) if are_parts else stated
        if span is not None:
            converted.append(_Converted(span, _stored(_convert.convert(span, settings))))
    if converted:
        data = zlib.compress(msgspec.json.encode(converted), _FAST)
        yield converted[0].span.source_ordinal, data


def _guess_in(part: Span, settings: Settings) -> Span | None:
    if not (part.grid and part.ordinal):
        return part
    first = replace(part, ordinal=0, offset=0)
    return _guessed_spans(first, settings.local).find(part.ordinal)


def _convert_in_turn(span: bytes, settings: Settings) -> Iterator[bytes]:
    """Yield the accounts of a span, and of those that are found by converting it."""
    accounts = _convert.convert_on(_spans.decode(span), settings)
    yield from map(msgspec.json.encode, map(_stored, accounts))


def _stored(account: Account) -> Account:
    """Return an account without the files that are in the account that its attempt has stored."""
    return replace(account, chunks=[], files=[]) if account.stored else account


def _check(converted: tuple[int, Iterable[bytes]], settings: Settings) -> Iterator[bytes]:
    """Yield the accounts of all spans of one source, of which all or some were converted before."""
    lists = (_converted_of(zlib.decompress(data)) for data in converted[1])
    attempted = {at.span: at.account for at in chain.from_iterable(lists)}
    for span in [span for span in attempted if not (span.grid and span.ordinal)]:
        for account in _convert.convert_on(span, settings, attempted):
            yield msgspec.json.encode(_stored(account))


def _read(span: bytes, options: ReadOptions, config: SourceConfig | None) -> Iterator[ReadResult]:
    request = SpanRequest(span=_spans.decode(span), config=config, options=options)
    with closing(read_span(request)) as results:
        yield from (result for result in results if not isinstance(result, SpanEnd))


class _ApplySteps(beam.DoFn):
    """Applies steps, which are made when a worker begins."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def setup(self) -> None:
        self._applied = self._steps.make()

    def teardown(self) -> None:
        self._applied.close()

    def process(self, result: ReadResult) -> Iterator[ReadResult | StepResult]:
        if not isinstance(result, Record | Membership):
            yield result
            return
        for item in self._applied.apply(result):
            yield _with_data(item, result)


def _normalize(result: ReadResult) -> ReadResult:
    if not isinstance(result, Record):
        return result
    try:
        return normalize(result)
    except Exception as exc:
        return _with_data(reject_record(result, record_error(exc), stage="adapt"), result)


def _with_data(item: _Item, origin: RecordOrMembership) -> _Item:
    """Return an item; a reject with the bytes of the record that it was."""
    return replace(item, data=carried_bytes(origin)) if isinstance(item, Reject) else item


def _require_item(item: RecordOrMembership, stage: str) -> RecordOrMembership:
    if not isinstance(item, Record | Membership):
        raise ConfigError(
            f"{stage}: a {type(item).__name__}; expected records and groups: give rejects and"
            " losses an output of their own"
        )
    return item


def _encode(key: object, item: RecordOrMembership) -> tuple[_Key, bytes]:
    _require_item(item, "WriteChunks")
    return (str(key), isinstance(item, Membership)), encode(item)


def _convert_key(
    keyed: tuple[_Key, Iterable[bytes]], settings: Settings
) -> Iterator[tuple[str, tuple[_Key, bytes]]]:
    key, datums = keyed
    name, memberships = key
    path = _write_records(datums, Path(settings.folder), memberships=memberships)
    text = f"{name} groups" if memberships else name
    ordinal = int(hashlib.sha256(text.encode()).hexdigest(), 16) % _ORDINALS
    span = Span(source=str(path), format=AVRO.name, source_ordinal=ordinal)
    account = _convert.convert(span, settings)
    if account.stopped is not None:
        raise _errors.get(account.exit_code, FeedferryError)(account.stopped)
    for chunk in account.chunks:
        if chunk.requested_feedtype == FULL or chunk.feedtype in ERASING_FEEDTYPES:
            raise ConfigError(
                f"WriteChunks: key {name!r}: a full feed; expected another feedtype: state that of"
                " the target, as in Target(feedtype='incremental')"
            )
        yield (
            "",
            (
                key,
                msgspec.json.encode(replace(chunk, format=chunk.format or settings.target.format)),
            ),
        )


def _write_records(datums: Iterable[bytes], folder: Path, *, memberships: bool) -> Path:
    """Write the records of a key, in a file whose name is that of its contents in any order."""
    digests = sorted(hashlib.sha256(datum).digest() for datum in datums)
    path = folder / f"{hashlib.sha256(b''.join(digests)).hexdigest()}.avro"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        encoder = AVRO.make_encoder(WriteOptions(memberships=memberships))
        with whole_file(path, by_several=True) as stream:
            stream.write(encoder.prolog())
            stream.writelines(frames(encoder, datums))
    return path


def _number(gathered: tuple[str, Iterable[tuple[_Key, bytes]]]) -> Iterator[bytes]:
    chunks = ((key, _chunks.decode(line)) for key, line in gathered[1])
    ordered = sorted(chunks, key=lambda chunk: (chunk[0], place_of(chunk[1])))
    for ordinal, (_, chunk) in enumerate(ordered, start=1):
        yield msgspec.json.encode(replace(chunk, ordinal=ordinal))


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
        yield _with_data(outcome, result)
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


_Collected = tuple[list[bytes], list[bytes]]
"""Accounts, and blocks of several compressed accounts."""


class _MergeOnce(beam.CombineFn):
    """Collects encoded accounts and merges them at the end.

    Beam would apply a function to partial sums after every few accounts, and so decode and encode
    the growing sum each time. It keeps several copies of the data that it transfers: many accounts
    together are compressed to a tenth.
    """

    def create_accumulator(self) -> _Collected:
        return [], []

    def add_input(self, collected: _Collected, account: bytes) -> _Collected:
        collected[0].append(account)
        return collected

    def merge_accumulators(self, parts: Iterable[_Collected]) -> _Collected:
        merged = self.create_accumulator()
        for accounts, blocks in parts:
            merged[0].extend(accounts)
            merged[1].extend(blocks)
        return merged

    def compact(self, collected: _Collected) -> _Collected:
        accounts, blocks = collected
        added = [zlib.compress(b"\n".join(accounts), _FAST)] if accounts else []
        return [], [*blocks, *added]

    def extract_output(self, collected: _Collected) -> bytes:
        accounts, blocks = collected
        lines = (line for block in blocks for line in zlib.decompress(block).split(b"\n"))
        return msgspec.json.encode(merge(map(_accounts.decode, chain(accounts, lines))))
