"""The conversion of a run: inputs to published chunks.

::

    inputs ── Convert ──► accounts of spans ── Merge ──► account ──► published chunks

Nothing is published before all chunks are written and the account balances. A conversion that is
started again continues in the part in which it ended.
"""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import apache_beam as beam
import msgspec
from apache_beam.io.filesystems import FileSystems
from msgspec.structs import replace

from feedferry.pipelines.convert.inputs.input_files import (
    STDIN_COPY,
    group_spans,
    list_spans,
    size_of,
)
from feedferry.pipelines.convert.inputs.source_runs import (
    load_sources,
    read_known_urls,
    settings_of,
    source_runs,
    split_sources,
    steps_of,
)
from feedferry.pipelines.convert.inputs.step_inputs import check_inputs_of_steps, prepare_steps
from feedferry.pipelines.convert.publication.account_checks import (
    check_account,
    check_limits,
    check_steps,
)
from feedferry.pipelines.convert.publication.publish import check_files, publish
from feedferry.pipelines.convert.publication.span_accounts import collect
from feedferry.pipelines.convert.publication.state_update import store_generation, store_update
from feedferry.pipelines.convert.publication.stated_update import store_stated
from feedferry.pipelines.convert.publication.step_lists import StepLists, add_rejects_of_groups
from feedferry.pipelines.convert.publication.work_folder import open_work_folder, seal
from feedferry.pipelines.convert.workers.beam_job import run_to_file
from feedferry.pipelines.convert.workers.fork_server import uses_processes
from feedferry.pipelines.convert.workers.progress import ConvertProgress
from feedferry.pipelines.convert.workers.runners import pipeline_options, runner_of
from feedferry.pipelines.folders.locks import ACCOUNT, WORK
from feedferry.pipelines.folders.remote_folder import RemoteFolder
from feedferry.pipelines.observer.observer import Observer, Step, followed, metered
from feedferry.pipelines.observer.progress import Progress
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.flags import flags_of
from feedferry.pipelines.options.own_options import texts_of_files
from feedferry.pipelines.report.conversion_report import ConversionResult
from feedferry.pipelines.report.run_report import write_report
from feedferry.schemas.account import Account
from feedferry.schemas.errors import ConfigError, StoppedError
from feedferry.schemas.run_record import Phase
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.rules.known_rejects import load_known_rejects
from feedferry.transforms.rules.older_versions import find_older_versions, store_older_versions
from feedferry.transforms.sources import SourceConfig, source_of
from feedferry.transforms.stages import Convert, Merge
from feedferry.transforms.storage.atomic import write_whole
from feedferry.transforms.storage.run_folders.mirrors import shown

_log = logging.getLogger(__name__)


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """A conversion before its first write: its options, and its inputs as they are now.

    `configs` are the configurations of the inputs that are not files of records; files of records
    are cut into spans of `span_bytes`. Conversions with the same fingerprint write the same output.
    `remote` is the folder in object storage of which the output folder is the mirror. `run` and
    `generation` are those of a run of a job, which formats may write (see `WriteOptions`).
    """

    options: ConvertOptions
    known_urls: tuple[str, ...]
    spans: list[Span]
    configs: dict[str, SourceConfig]
    span_bytes: int
    fingerprint: str
    remote: RemoteFolder | None = None
    run: str = ""
    generation: int = 0

    @property
    def output(self) -> Path:
        return Path(self.options.output)

    @property
    def work(self) -> Path:
        """The folder from which it is resumed."""
        return self.output / WORK / self.fingerprint


def list_inputs(options: ConvertOptions, observer: Observer) -> Conversion:
    """Return the conversion of the inputs; write nothing but a copy of standard input.

    Raise ConfigError for options or inputs that cannot be used.
    """
    known_urls = read_known_urls(options)
    runner_of(options)  # raises ConfigError before anything is written
    load_known_rejects(options.accepted_rejects)  # the same
    steps = steps_of(options)
    steps.make()  # raises ConfigError, too
    stdin_copy = Path(options.output) / WORK / STDIN_COPY
    try:
        with followed(observer, Step.LIST_INPUTS):
            spans = list_spans(options, stdin_copy=stdin_copy)
            configs = load_sources(spans, options)
            check_inputs_of_steps(spans, steps, configs, to_format=options.to_format)
    except ConfigError:
        stdin_copy.unlink(missing_ok=True)
        raise
    span_bytes = options.span_bytes_for(map(size_of, spans))
    affecting = replace(options, span_bytes=span_bytes)
    return Conversion(
        options=options,
        known_urls=known_urls,
        spans=spans,
        configs=configs,
        span_bytes=span_bytes,
        fingerprint=_fingerprint(affecting, (known_urls, steps.fingerprint()), spans, configs),
    )


def convert(
    conversion: Conversion, observer: Observer, *, is_pushed: bool = False
) -> ConversionResult:
    """Convert and publish; raise FeedferryError with nothing published.

    `is_pushed` says that a push follows.
    The output folder and the state are locked by the caller. What was converted before an
    interruption is not converted again.
    """
    options, spans, remote = conversion.options, conversion.spans, conversion.remote
    is_resumed = conversion.work.exists()
    work = open_work_folder(conversion.output, conversion.fingerprint, options)
    begun = "resumed" if is_resumed else "begun"
    _log.info("conversion to %s: %s; inputs: %s", conversion.output, begun, len(spans))
    settings = settings_of(options, conversion.known_urls, work, conversion.configs)
    writing = replace(settings.writing, run=conversion.run, generation=conversion.generation)
    settings = replace(settings, writing=writing)
    if remote is not None:
        settings = replace(
            settings,
            folder=remote.work_uri(work),
            local_folder=str(work),
            begun=uuid4().hex,
            # other hosts do not see this one's folders
            progress=str(work) if options.runner is None else remote.work_uri(work),
        )
    sources = source_runs(spans, settings, options)
    store_generation(settings)
    FileSystems.set_options(pipeline_options(options))
    try:
        with followed(observer, Step.LIST_DOCUMENTS):
            parts = list(split_sources(sources))
            run = conversion.run or conversion.output.name
            parts = [*prepare_steps(parts, settings, run=run), *parts]
    finally:
        seal(work)
    if remote is not None:
        remote.save()
    account, progress = _convert(parts, settings, conversion, observer)
    with followed(observer, Step.PUBLISH) as step:
        store_update(sources, account.files, work)
        store_stated(account, settings)
        report = publish(account, settings, output=conversion.output, spans=spans, options=options)
        if remote is not None:
            remote.publish()
            report = replace(report, folder=remote.uri)
        write_report(conversion.output)
        step.result = result = ConversionResult(
            report=report,
            progress=progress,
            defects=account.defects,
            is_pushed=is_pushed,
            has_state=options.state is not None,
        )
    return result


def _convert(
    parts: list[Span], settings: Settings, conversion: Conversion, observer: Observer
) -> tuple[Account, Progress]:
    """Convert all spans of the sources; raise FeedferryError for a run that must stop.

    Spans with older versions of what was rejected are converted again.
    """
    options, remote = conversion.options, conversion.remote
    work = settings.local
    progress = ConvertProgress(settings.progress or settings.folder, parts)
    grouped = group_spans(parts, span_bytes=conversion.span_bytes)
    is_parallel = _is_parallel(grouped, conversion)
    if remote is not None:
        grouped = list(map(remote.shared, grouped))
    with metered(observer, Phase.CONVERT, progress.snapshot, folder=Path(options.output)) as meter:
        account = _run_pipeline(grouped, settings, conversion, progress, is_parallel=is_parallel)
        older = find_older_versions(work, account)
        if older.refused:
            stored = store_older_versions(older, settings.folder)
            settings = replace(settings, older_versions=stored)
            account = _run_pipeline(
                grouped, settings, conversion, progress, is_parallel=is_parallel
            )
    with _kept_if_stopped(replace(account, chunks=[]), work):
        add_rejects_of_groups(account, settings)
        check_limits(account, options)
        StepLists(account, settings).write()
        check_steps(account, settings.steps)
    for notice in account.notices.values():
        # The account shows it, too.
        _log.warning("%s; %s in all", notice.first.message, notice.count, extra={"is_shown": True})
    return account, meter.last or meter.finish()


def _run_pipeline(
    spans: list[Span],
    settings: Settings,
    conversion: Conversion,
    progress: ConvertProgress,
    *,
    is_parallel: bool,
) -> Account:
    """Return the account of all spans, with their chunks and files; those that exist are kept."""
    if not spans:
        return Account()
    options, remote, work = conversion.options, conversion.remote, settings.local
    pipeline = beam.Pipeline(runner=runner_of(options), options=pipeline_options(options))
    total = (
        pipeline
        | "Files" >> beam.Create([msgspec.json.encode(span) for span in spans])
        | Convert(
            settings,
            conversion.span_bytes,
            is_parallel=is_parallel,
            on_one_machine=options.runner is None,
        )
        | Merge()
    )
    text = run_to_file(pipeline, total, settings.folder, options=options, progress=progress.state)
    account = msgspec.json.decode(text, type=Account)
    if account.stopped is None:
        progress.finish(account)
    with _kept_if_stopped(account, work):
        check_account(account)
        if remote is None:
            return collect(
                account, settings, partial(check_files, work=work, verify=settings.verify)
            )
        account = collect(account, settings, remote.check_sizes(work))
        remote.fetch(work, account)
        return account


@contextmanager
def _kept_if_stopped(account: Account, work: Path) -> Iterator[None]:
    """Keep the account of a run that must stop, for the pages and verbs that show the run."""
    try:
        yield
    except StoppedError:
        write_whole(work / ACCOUNT, msgspec.json.encode(account))
        raise


def _is_parallel(spans: Sequence[Span], conversion: Conversion) -> bool:
    """Whether several workers can share a file; the size of a remote file may not be known yet."""
    options = conversion.options
    has_workers = uses_processes(options) or options.runner is not None
    return has_workers and any(
        ("://" in span.path and span.signature is None) or size_of(span) > conversion.span_bytes
        for span in spans
    )


def _fingerprint(
    options: ConvertOptions,
    files: object,
    spans: Sequence[Span],
    configs: dict[str, SourceConfig],
) -> str:
    """Return a hash of the inputs, and of all options and files that affect the output."""
    affecting = {
        name: getattr(options, name)
        for name, declared in flags_of(ConvertOptions).items()
        if declared.flag.affects_output
    }
    if options.own:
        affecting["own"] = options.own, texts_of_files(options.own)
    if options.state is not None:
        affecting["state"] = shown(Path(options.state))  # the copy of one in object storage moves
    states = [(span.source, span.format, span.signature) for span in spans]
    rules = {
        span.source: source_of(span).fingerprint(configs[span.source])
        for span in spans
        if span.source in configs
    }
    text = msgspec.json.encode((affecting, files, states, rules), order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]
