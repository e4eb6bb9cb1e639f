"""`feedferry plan`: what a run would read of a tree or a database, and what it would write."""

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from msgspec.structs import replace

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.display import ReportFormat
from pipelines.convert.inputs import list_spans
from pipelines.convert.settings import load_sources, refuse_shared_urls, settings_of, source_runs
from schemas.errors import ConfigError, StoppedError
from schemas.feed import FULL, INCREMENTAL, Feed
from schemas.record import Record
from schemas.reject import Reject, record_error
from schemas.span import Span
from transforms.adapt import Adapter, adapter
from transforms.convert import Settings
from transforms.formats import NATIVE, Encoder, WriteOptions, by_name
from transforms.normalize import normalize
from transforms.sources import SourceRun, SpanRequest, SpanTally, read_span, source_of

VERSION = 1
SAMPLES = 5
_SAMPLE_CHARS = 1000
_native = NATIVE.make_encoder(WriteOptions())


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run would do; `written` and `chunks` are estimated from the samples.

    `bytes` is the size of the files, None for rows. `codes` count the documents that would be
    filtered or rejected, as far as it is known before they are read.
    """

    source: str
    documents: int
    bytes: int | None
    deleted: int
    codes: dict[str, int]
    spans: int
    written: int
    chunks: int
    samples: tuple[Any, ...]  # documents as JSON values


class _Sample(NamedTuple):
    """A document as JSON values, and its size before and after the conversion."""

    values: dict[str, Any]
    read_bytes: int
    written_bytes: int


def run(options: ConvertOptions) -> int:
    """Print the plan of a run; raise FeedferryError where that run would not begin."""
    with tempfile.TemporaryDirectory(prefix="feedferry-plan-") as folder:
        spans = list_spans(options, stdin_copy=Path(folder) / "stdin")
        _check(spans)
        settings = settings_of(options, (), Path(folder), load_sources(spans, options))
        runs = source_runs(spans, settings, options)
        plans = [_plan(run, settings, options) for run in runs]
        refuse_shared_urls(runs)
    if options.report_format is ReportFormat.JSON:
        values = {"version": VERSION, "sources": [msgspec.to_builtins(plan) for plan in plans]}
        click.echo(json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False))
    else:
        click.echo("\n".join(line for plan in plans for line in _as_text(plan, options)))
    _check_empty(plans, options)
    return 0


def _check(spans: list[Span]) -> None:
    for span in spans:
        if not source_of(span).has_state:
            raise ConfigError(
                f"INPUT: {span.source!r} is read as {span.format}; expected a tree of files or a"
                " database; feedferry inspect says what is in a feed"
            )


def _check_empty(plans: list[Plan], options: ConvertOptions) -> None:
    """Raise StoppedError where the run would stop because its full feed is empty."""
    is_empty = not any(plan.documents or plan.deleted for plan in plans)
    if options.feedtype == FULL and is_empty and not options.allow_empty_full:
        raise StoppedError(
            "the input: a full feed without anything to write; expected at least one document, as"
            " an empty full feed deletes every document of its datasource; --allow-empty-full"
            " writes it"
        )


def _plan(run: SourceRun[Any], settings: Settings, options: ConvertOptions) -> Plan:
    parts = list(source_of(run.span).split(run))
    tallies = [source_of(part).tally(part) for part in parts]
    samples = list(_samples(parts, tallies, settings))
    documents = sum(tally.documents for tally in tallies)
    sizes = [tally.bytes for tally in tallies if tally.bytes is not None]
    codes: Counter[str] = Counter()
    for tally in tallies:
        codes.update(tally.codes)
    written = [_estimate(tally, samples) for tally in tallies]
    most = options.max_chunk_records or max(documents, 1)
    return Plan(
        source=run.span.source,
        documents=documents,
        bytes=sum(sizes) if len(sizes) == len(tallies) else None,
        deleted=sum(tally.deleted for tally in tallies),
        codes=dict(sorted(codes.items())),
        spans=len(parts),
        written=sum(written),
        chunks=sum(
            max(-(-size // options.max_chunk_bytes), -(-tally.documents // most))
            for size, tally in zip(written, tallies, strict=True)
        ),
        samples=tuple(sample.values for sample in samples),
    )


def _estimate(tally: SpanTally, samples: list[_Sample]) -> int:
    """Return the bytes that a span would become if its documents are like the samples."""
    written = sum(sample.written_bytes for sample in samples)
    read = sum(sample.read_bytes for sample in samples)
    if tally.bytes is not None and read:
        return tally.bytes * written // read
    return tally.documents * written // max(len(samples), 1)


def _samples(parts: list[Span], tallies: list[SpanTally], settings: Settings) -> Iterator[_Sample]:
    """Yield a few documents, spread evenly over the spans."""
    adapt, encoder = _target(settings)
    full = [pair for pair in zip(parts, tallies, strict=True) if pair[1].documents]
    chosen = [full[number * len(full) // SAMPLES] for number in range(SAMPLES)] if full else []
    for (part, documents), count in Counter(
        (part, tally.documents) for part, tally in chosen
    ).items():
        step = max(documents // count, 1)
        config = settings.sources[part.source]
        request = SpanRequest(span=part, config=config, options=settings.reading)
        with closing(read_span(request)) as results:
            records = (result for result in results if isinstance(result, Record))
            for record in islice(records, 0, step * count, step):
                yield _sample(record, adapt, encoder)


def _target(settings: Settings) -> tuple[Adapter, Encoder]:
    """Return the adapter and the encoder for a feed as the run would name it."""
    target = settings.target
    feed = Feed(datasource=target.datasource or "default", feedtype=target.feedtype or INCREMENTAL)
    target = replace(target, datasource=feed.datasource, feedtype=feed.feedtype)
    writing = replace(settings.writing, feed=feed)
    return adapter(target), by_name(target.format).make_encoder(writing)


def _sample(record: Record, adapt: Adapter, encoder: Encoder) -> _Sample:
    size = len(record.content.data) if record.content else 0
    values: dict[str, Any] = {"url": record.url}
    written = 0
    try:
        values = json.loads(_native.encode(replace(record, content=None)))
        values["content_bytes"] = size
        outcomes, losses = adapt(normalize(record))
        values["losses"] = {loss.field: loss.detail for loss in losses}
        for outcome in outcomes:
            if isinstance(outcome, Record):
                written += len(encoder.encode(outcome))
            elif isinstance(outcome, Reject):
                values["rejected"] = f"{outcome.code}: {outcome.reason}"
    except Exception as exc:
        error = record_error(exc)
        values["rejected"] = f"{error.code}: {error.reason}"
    return _Sample(values, size, written)


def _as_text(plan: Plan, options: ConvertOptions) -> Iterator[str]:
    size = "" if plan.bytes is None else f", {plan.bytes:,} bytes"
    yield f"source    {plan.source}"
    yield f"read      {plan.documents:,} documents{size}"
    if plan.deleted:
        yield f"deleted   {plan.deleted:,} that are gone"
    for code, count in plan.codes.items():
        yield f"left out  {code} {count:,}"
    yield (
        f"written   about {plan.written:,} bytes of {options.to_format}"
        f" in {plan.chunks:,} chunks or more"
    )
    for sample in plan.samples:
        yield f"sample    {json.dumps(sample, ensure_ascii=False)[:_SAMPLE_CHARS]}"
