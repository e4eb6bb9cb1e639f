"""`feedferry convert`: read the inputs, write chunk files for another appliance, and push them.

::

    inputs ── CutFile ──► spans ── Convert ──► accounts ── Merge ──► account ──► published chunks
    published chunks ── Push ──► account of the push ──► state of the sources

Nothing is sent before all chunks are written and the account balances: a run that stops at a limit
has sent nothing. A run that is started again continues in the part in which it ended.
"""

import hashlib
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import apache_beam as beam
import click
import msgspec
from apache_beam.io.filesystems import FileSystems
from msgspec.structs import replace

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.display import (
    ReportFormat,
    format_clock,
    print_defects,
    show_progress,
    show_status,
)
from pipelines.cli.endings import begun
from pipelines.cli.flags import flags_of
from pipelines.cli.locks import WORK, locked_output, locked_state
from pipelines.cli.progress import Progress
from pipelines.cli.summary import print_summary
from pipelines.convert.inputs import group_spans, list_spans
from pipelines.convert.progress import ConvertProgress
from pipelines.convert.publish import publish
from pipelines.convert.report import as_json_text, next_commands, summary_of
from pipelines.convert.run_folder import (
    STDIN_COPY,
    check_output,
    close_run_folder,
    open_run_folder,
    seal,
)
from pipelines.convert.runners import pipeline_options, runner_of
from pipelines.convert.settings import (
    check_account,
    check_limits,
    load_sources,
    read_known_urls,
    settings_of,
    source_runs,
    split_sources,
)
from pipelines.convert.state_update import remember, store_generation, store_update
from pipelines.push.run import print_account, push_and_report
from pipelines.push.run_folder import read_manifest, receipts_folder, record_push
from pipelines.report.run_report import write_report
from schemas.account import Account
from schemas.errors import ConfigError
from schemas.run_record import Phase
from schemas.span import Span
from transforms.conversion_settings import Settings
from transforms.rules.known_rejects import load_known_rejects
from transforms.sinks.push.generations import check_generation
from transforms.sinks.push.outcome import PushAccount
from transforms.sinks.push.settings import PushSettings
from transforms.sources import SourceConfig, source_of
from transforms.stages import Convert, CutFile, Merge, Push
from transforms.storage.atomic import write_by_several

_log = logging.getLogger(__name__)


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """A conversion before its first write: its options, and its inputs as they are now.

    `configs` are the configurations of the inputs that are not files of records. Conversions with
    the same fingerprint write the same output.
    """

    options: ConvertOptions
    known_urls: tuple[str, ...]
    spans: list[Span]
    configs: dict[str, SourceConfig]
    fingerprint: str

    @property
    def output(self) -> Path:
        return Path(self.options.output)

    @property
    def work(self) -> Path:
        """The folder from which it is resumed."""
        return self.output / WORK / self.fingerprint


def run(options: ConvertOptions, target: PushSettings | None = None) -> int:
    """Convert, publish and print the account, then push to the target if there is one.

    Return the exit code; raise FeedferryError with nothing published. A run that is started again
    with the same options and inputs is resumed. The state of the sources is updated at the end, if
    all chunks were pushed.
    """
    output = Path(options.output)
    check_output(output, options)
    with ExitStack() as locks:
        locks.enter_context(locked_output(output))
        conversion = list_inputs(options)
        if options.state is not None:
            locks.enter_context(locked_state(Path(options.state)))
        locks.enter_context(begun())
        exit_code = convert(conversion, is_pushed=target is not None)
        if target is not None:
            pushed = push(output, target, options)
            exit_code = pushed.exit_code or exit_code
            if pushed.stopped is not None:
                return exit_code
        remember(conversion.work, options.state)
        close_run_folder(conversion.work)
    return exit_code


def list_inputs(options: ConvertOptions) -> Conversion:
    """Return the conversion of the inputs; write nothing but a copy of standard input.

    Raise ConfigError for options or inputs that cannot be used.
    """
    known_urls = read_known_urls(options)
    runner_of(options)  # raises ConfigError before anything is written
    load_known_rejects(options.accepted_rejects)  # the same
    stdin_copy = Path(options.output) / WORK / STDIN_COPY
    try:
        with show_status("listing inputs", options):
            spans = list_spans(options, stdin_copy=stdin_copy)
            configs = load_sources(spans, options)
    except ConfigError:
        stdin_copy.unlink(missing_ok=True)
        raise
    return Conversion(
        options=options,
        known_urls=known_urls,
        spans=spans,
        configs=configs,
        fingerprint=_fingerprint(options, known_urls, spans, configs),
    )


def convert(conversion: Conversion, *, is_pushed: bool) -> int:
    """Convert, publish and print the account; return the exit code. `is_pushed`: a push follows.

    The output folder and the state are locked by the caller. What was converted before an
    interruption is not converted again.
    """
    options, spans = conversion.options, conversion.spans
    is_resumed = conversion.work.exists()
    work = open_run_folder(conversion.output, conversion.fingerprint, options)
    begun = "resumed" if is_resumed else "begun"
    _log.info("conversion to %s: %s; inputs: %s", conversion.output, begun, len(spans))
    settings = settings_of(options, conversion.known_urls, work, conversion.configs)
    sources = source_runs(spans, settings, options)
    store_generation(settings)
    FileSystems.set_options(pipeline_options(options))
    try:
        with show_status("listing documents", options):
            parts = list(split_sources(sources))
    finally:
        seal(work)
    account, progress = _convert(parts, settings, options)
    with show_status("publishing", options):
        store_update(sources, account, work)
        report = publish(account, settings, output=conversion.output, spans=spans)
        write_report(conversion.output)
    if options.report_format is ReportFormat.TEXT:
        print_summary(
            summary_of(report),
            options,
            time=", ".join(filter(None, (format_clock(progress.seconds), progress.rate_text))),
            next_commands=next_commands(report, is_pushed=is_pushed),
        )
    else:
        click.echo(as_json_text(report))
    print_defects(account.defects, folder=report.folder)
    return report.exit_code


def _convert(
    parts: list[Span], settings: Settings, options: ConvertOptions
) -> tuple[Account, Progress]:
    """Convert all spans of the sources; raise FeedferryError for a run that must stop."""
    work = Path(settings.folder)
    account = Account()
    snapshot = ConvertProgress(work, parts).snapshot
    with show_progress(Phase.CONVERT, snapshot, options, folder=Path(options.output)) as meter:
        if grouped := group_spans(parts, span_bytes=options.span_bytes):
            pipeline = beam.Pipeline(runner=runner_of(options), options=pipeline_options(options))
            total = (
                pipeline
                | "Files" >> beam.Create([msgspec.json.encode(span) for span in grouped])
                | CutFile(options.span_bytes, settings.reading)
                | Convert(settings)
                | Merge()
            )
            text = _run_to_file(pipeline, total, work / "account.json")
            account = msgspec.json.decode(text, type=Account)
    check_account(account)
    check_limits(account, options)
    for notice in account.notices.values():
        # The account shows it, too.
        _log.warning("%s; %s in all", notice.first.message, notice.count, extra={"is_shown": True})
    return account, meter.last or meter.finish()


def push(output: Path, target: PushSettings, options: ConvertOptions) -> PushAccount:
    """Push the published chunks: in this process, or with --runner by a worker of the runner."""
    limit = options.max_rejects
    settings = replace(
        target,
        jobs=options.jobs,
        can_empty=options.allow_empty_full,
        max_rejects=limit.count if limit is not None else None,
        accepted_rejects=options.accepted_rejects,
    )
    if options.runner is None:
        return push_and_report(output, read_manifest(output), settings, output=options)
    return _push_on_beam(output, settings, options)


def _push_on_beam(output: Path, settings: PushSettings, options: ConvertOptions) -> PushAccount:
    """Push by one worker, which shares the folder of the run."""
    folder = receipts_folder(output, settings).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    manifest = read_manifest(output)
    check_generation(output, manifest, settings)  # a worker could only fail
    pipeline = beam.Pipeline(runner=runner_of(options), options=pipeline_options(options))
    chunks = [msgspec.json.encode(chunk) for chunk in manifest]
    total = pipeline | "Chunks" >> beam.Create(chunks) | Push(settings, output.absolute(), folder)
    text = _run_to_file(pipeline, total, folder / "account.json")
    account = msgspec.json.decode(text, type=PushAccount)
    account = record_push(output, account, settings)
    write_report(output)
    print_account(output, account, settings, output=options)
    return account


def _run_to_file(pipeline: beam.Pipeline, account: beam.PCollection[bytes], path: Path) -> bytes:
    """Run a pipeline, let a worker write its only result to a file, and return that."""
    _ = account | "Report" >> beam.Map(_store, str(path.absolute()))
    pipeline.run().wait_until_finish()
    return path.read_bytes()


def _store(account: bytes, path: str) -> None:
    write_by_several(Path(path), account)


def _fingerprint(
    options: ConvertOptions,
    known_urls: tuple[str, ...],
    spans: Sequence[Span],
    configs: dict[str, SourceConfig],
) -> str:
    """Return a hash of the inputs and of all options that affect the output."""
    affecting = {
        name: getattr(options, name)
        for name, declared in flags_of(ConvertOptions).items()
        if declared.flag.affects_output
    }
    states = [(span.source, span.format, span.signature) for span in spans]
    rules = {
        span.source: source_of(span).fingerprint(configs[span.source])
        for span in spans
        if span.source in configs
    }
    text = msgspec.json.encode((affecting, known_urls, states, rules), order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]
