"""The plan of a run: its account, made as the run makes it, with nothing stored.

The inputs are listed, split and converted as in a run, in this process, with `DryAttempt` in the
place of files. What sources make before the pipeline is in a temporary folder.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.convert.inputs.input_files import group_spans, listed_spans, size_of
from feedferry.pipelines.convert.inputs.source_runs import (
    load_sources,
    read_known_urls,
    settings_of,
    source_runs,
    split_sources,
)
from feedferry.pipelines.convert.inputs.step_inputs import check_inputs_of_steps, prepare_steps
from feedferry.pipelines.convert.publication.account_checks import (
    check_account,
    check_limits,
    check_steps,
)
from feedferry.pipelines.convert.publication.publish import number_chunks, report_of
from feedferry.pipelines.convert.publication.step_lists import StepLists, add_rejects_of_groups
from feedferry.pipelines.folders.locks import PUSHES
from feedferry.pipelines.folders.manifest import REPORT
from feedferry.pipelines.inspect.acl_changes import change_text
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.value_parsers import SampleSize
from feedferry.pipelines.plan.planned_access import AccessPlanner, PlannedAccess
from feedferry.pipelines.plan.sampling import (
    PART_BYTES,
    convert_sample,
    count_spans,
    estimate_chunks,
)
from feedferry.pipelines.report.conversion_report import Report
from feedferry.pipelines.report.conversion_report import as_json as report_as_json
from feedferry.pipelines.report.push_report import PushReport
from feedferry.schemas.account import Account, Chunk, merge
from feedferry.schemas.errors import ConfigError, StoppedError, TargetError
from feedferry.schemas.feed import FULL
from feedferry.schemas.span import Span
from feedferry.schemas.units import counted, format_clock
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.file_spans import cut
from feedferry.transforms.conversion.full_feed_checks import settle_full_feeds
from feedferry.transforms.rules.adapt import check_loss
from feedferry.transforms.rules.older_versions import find_older_versions, store_older_versions
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.storage.atomic import read_undamaged

MAX_URLS = 5
_MAX_PUSHES = 10
VERSION = 2


class PushEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The estimated time of a push, and the number of earlier pushes that it is estimated from."""

    seconds: float
    pushes: int


def predict_push(size: int, home: Path) -> PushEstimate | None:
    """Return the time to push `size` bytes, by the latest pushes of the runs in a folder."""
    paths = sorted(home.glob(f"*/{PUSHES}/*/{REPORT}"), reverse=True)
    reports = (read_undamaged(path, PushReport) for path in paths)
    sent = [*islice((each for each in reports if each and each.sent_bytes), _MAX_PUSHES)]
    if not sent:
        return None
    rate = sum(report.seconds for report in sent) / sum(report.sent_bytes for report in sent)
    return PushEstimate(seconds=round(size * rate, 3), pushes=len(sent))


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run would do.

    `stops` are the reasons why it would stop. `seconds` is the time to read and convert, in one
    process. The account is an estimate if `converted` is less than `parts`, the number of parts of
    the input. `urls` are a few of the documents. `push` is None if earlier runs have not pushed.
    `verified_against` is what the run will be compared with after its push. `full_feeds` are the
    datasources that are replaced as a whole, and `exchanges` say how the target does that. `access`
    is None without a target that holds decisions.
    """

    report: Report
    stops: tuple[str, ...]
    seconds: float
    parts: int
    converted: int
    is_estimate: bool
    urls: tuple[str, ...]
    defects: Mapping[str, int] = {}
    push: PushEstimate | None = None
    verified_against: str | None = None
    full_feeds: tuple[str, ...] = ()
    exchanges: tuple[str, ...] = ()
    access: PlannedAccess | None = None


def make_plan(
    options: ConvertOptions,
    sample: SampleSize | None = None,
    *,
    push: PushSettings | None = None,
) -> Plan:
    """Return the plan of a run; raise FeedferryError where the run would not begin.

    Losses and rejects beyond a limit do not end the plan, so that it has all of them. The target of
    a `push` is asked who sees its documents.
    """
    begun = time.monotonic()
    with listed_spans(options) as (wholes, folder):
        run_span_bytes = options.span_bytes_for(map(size_of, wholes))
        span_bytes = run_span_bytes if sample is None else min(run_span_bytes, PART_BYTES)
        configs = load_sources(wholes, options)
        settings = settings_of(options, read_known_urls(options), folder, configs)
        check_inputs_of_steps(wholes, settings.steps, configs, to_format=options.to_format)
        cut_options = options if sample is None else replace(options, span_bytes=span_bytes)
        sources = source_runs(wholes, settings, cut_options)
        split = list(split_sources(sources))
        split = [*prepare_steps(split, settings), *split]
        grouped = group_spans(split, span_bytes=span_bytes)
        cut_part = partial(cut, span_bytes=span_bytes, options=settings.reading)
        parts = [part for whole in grouped for part in cut_part(whole)]
        listed = time.monotonic()
        lenient = replace(settings, refused=frozenset(), max_rejects=None)
        planner = AccessPlanner(push, is_sample=sample is not None)
        account, converted = _convert(parts, lenient, sample, planner)
        seconds = time.monotonic() - listed
        check_account(account)
        add_rejects_of_groups(account, settings)
        StepLists(account, settings).write()
        stops = tuple(_stops(account, settings, options))
        settle_full_feeds(account, replace(lenient, allow_empty_full=True, accept_holes=True))
        numbered = [*number_chunks(account, settings)]
        chunks = [published for _, published in numbered]
        if (stop := _refusal(chunks, push)) is not None:
            stops = (*stops, stop)
        stored = [replace(published, path=chunk.path) for chunk, published in numbered]
        access = planner.compare(stored, folder)
        if access is not None and access.stop is not None:
            stops = (*stops, access.stop)
        full = [chunk.datasource or "" for chunk in chunks if chunk.requested_feedtype == FULL]
        report = report_of(account, chunks, settings, folder=None, spans=wholes)
        if sample is not None:
            spans = count_spans(parts, span_bytes=max(run_span_bytes, PART_BYTES))
            report = replace(report, chunks=estimate_chunks(account, settings, spans=spans))
            seconds *= len(parts) / max(converted, 1)
    return Plan(
        report=report,
        stops=stops,
        seconds=round(listed - begun + seconds, 3),
        parts=len(parts),
        converted=converted,
        is_estimate=sample is not None,
        urls=tuple(_urls(chunks)),
        defects=account.defects,
        full_feeds=tuple(dict.fromkeys(full)),
        access=access,
    )


def _refusal(chunks: Sequence[Chunk], push: PushSettings | None) -> str | None:
    """Return why the target of a push refuses chunks, None if it does not."""
    check = None if push is None else push.appliance.protocol.check_feeds
    try:
        if push is not None and check is not None:
            check(push.appliance, chunks)
    except (TargetError, ConfigError) as exc:
        return exc.text
    return None


def _convert(
    parts: list[Span], settings: Settings, sample: SampleSize | None, planner: AccessPlanner
) -> tuple[Account, int]:
    """Return the account of all parts, and the number of parts that were converted."""
    if sample is not None:
        return convert_sample(parts, settings, sample)
    accounts = [planner.convert(part, settings) for part in parts]
    older = find_older_versions(settings.local, merge(accounts))
    if older.refused:
        settings = replace(settings, older_versions=store_older_versions(older, settings.folder))
        accounts = [
            planner.convert(part, settings) if older.may_be_in(part.name) else account
            for part, account in zip(parts, accounts, strict=True)
        ]
    return merge(accounts), len(parts)


def _stops(account: Account, settings: Settings, options: ConvertOptions) -> Iterator[str]:
    """Yield the reasons why a run with this account would stop."""
    checks: list[Callable[[], None]] = [
        partial(check_loss, loss.samples[0], settings.refused, source=documents)
        for _, loss in sorted(account.losses.items())
        for documents in [counted(loss.count, "document")]
    ]
    checks.append(partial(check_limits, account, options))
    checks.append(partial(check_steps, account, settings.steps))
    unsettled = replace(account, losses={**account.losses}, chunks=[*account.chunks])
    checks.append(partial(settle_full_feeds, unsettled, settings))
    for check in checks:
        try:
            check()
        except StoppedError as exc:
            yield exc.text


def _urls(chunks: list[Chunk]) -> list[str]:
    """Return a few URLs, evenly spread over the chunks."""
    urls = [url for chunk in chunks for url in (chunk.first_url, chunk.last_url) if url]
    urls = list(dict.fromkeys(urls))
    return urls[:: -(-len(urls) // MAX_URLS)] if urls else []


def as_json(plan: Plan) -> dict[str, object]:
    """Return the plan as plain values: the report of the run, and what only a plan has."""
    report = report_as_json(plan.report)
    del report["folder"]
    return {
        **report,
        "version": VERSION,
        "stops": plan.stops,
        "seconds": plan.seconds,
        "parts": plan.parts,
        "converted_parts": plan.converted,
        "is_estimate": plan.is_estimate,
        "urls": plan.urls,
        "push_seconds": plan.push and plan.push.seconds,
        "verified_against": plan.verified_against,
        "full_feeds": plan.full_feeds,
        "exchanges": plan.exchanges,
        "access": None if plan.access is None else msgspec.to_builtins(plan.access),
    }


def summary_lines(plan: Plan) -> Iterator[tuple[str, str]]:
    for url in plan.urls:
        yield "url", url
    for words in plan.exchanges:
        yield "full feed", words
    if plan.access is not None:
        yield from _access_lines(plan.access)
    if plan.verified_against is not None:
        yield "verify", f"against {plan.verified_against}, after the push"
    yield (
        "duration",
        f"{format_clock(max(plan.seconds, 1))} to read and convert; {_push_text(plan)}",
    )


def _access_lines(access: PlannedAccess) -> Iterator[tuple[str, str]]:
    """Yield how many documents more users would see, and how many fewer, and the first of them."""
    if access.not_compared is not None:
        yield "access", f"not compared with the target: {access.not_compared}"
        return
    changes = ", ".join(f"{name} {count:,}" for name, count in access.changes.items())
    yield "access", changes or "no documents to compare"
    for change in access.first:
        yield change.change, change_text(change)


def _push_text(plan: Plan) -> str:
    if plan.push is None:
        return "without the push"
    pushes = "push" if plan.push.pushes == 1 else f"{plan.push.pushes:,} pushes"
    return f"{format_clock(max(plan.push.seconds, 1))} to push, at the rate of the last {pushes}"
