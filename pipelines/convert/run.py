"""`feedferry convert`: read the inputs, write chunk files for another appliance.

::

    inputs ── CutFile ──► spans ── Convert ──► accounts ── Merge ──► account ──► report
"""

import hashlib
import json
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import apache_beam as beam
import click
import msgspec
from apache_beam.io.filesystems import FileSystems
from apache_beam.runners.runner import PipelineRunner

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.defect_report import print_defects
from pipelines.cli.display_options import ReportFormat
from pipelines.cli.flags import flags_of
from pipelines.cli.locks import WORK, locked_output, locked_state
from pipelines.cli.progress import Snapshot, show_progress
from pipelines.convert.group_limits import check_groups
from pipelines.convert.inputs import changed, group_spans, list_spans, size_of
from pipelines.convert.publish import publish
from pipelines.convert.report import Report, as_json_text, as_text
from pipelines.convert.run_folder import (
    STDIN_COPY,
    check_output,
    close_run_folder,
    open_run_folder,
    seal,
)
from pipelines.convert.runners import pipeline_options, runner_of
from pipelines.convert.settings import check_account, settings_of
from pipelines.convert.source_setup import (
    begin,
    cut_source,
    load_sources,
    refuse_shared_urls,
    remember,
    rules_of,
)
from schemas.account import Account
from schemas.errors import ConfigError, TooManyRejectsError
from schemas.span import Span
from transforms.convert import PROGRESS, Settings
from transforms.formats import by_name
from transforms.sinks.push.outcome import PushAccount
from transforms.sources import SourceConfig, is_compressed, source_of
from transforms.stages import Convert, CutFile, Merge
from transforms.storage.atomic import write_by_several

_log = logging.getLogger(__name__)


def run(options: ConvertOptions, *, deliver: Callable[[Path], PushAccount] | None = None) -> Report:
    """Convert, publish and print the account; raise FeedferryError with nothing published.

    A run that is started again with the same options and inputs is resumed. `deliver` is called
    with the folder of the published chunks. The state of the sources is updated after that, if all
    chunks were delivered.
    """
    output = Path(options.output)
    known_urls = _known_urls(options.known_urls)
    check_output(output, options)
    runner = runner_of(options)
    with ExitStack() as locks:
        locks.enter_context(locked_output(output))
        spans, sources = _list_sources(options, output / WORK / STDIN_COPY)
        if options.state is not None:
            locks.enter_context(locked_state(Path(options.state)))
        fingerprint = _fingerprint(options, known_urls, spans, sources)
        work = open_run_folder(output, fingerprint, options)
        settings = settings_of(options, known_urls, work, sources)
        account = _convert(options, settings, spans, runner)
        report = publish(account, settings, output=output, spans=spans)
        is_text = options.report_format is ReportFormat.TEXT
        click.echo(as_text(report) if is_text else as_json_text(report))
        print_defects(account.defects, folder=report.folder)
        if deliver is not None:
            pushed = deliver(output)
            report = msgspec.structs.replace(report, exit_code=pushed.exit_code or report.exit_code)
            if pushed.stopped is not None:
                return report
        remember(spans, settings, options, account)
        close_run_folder(work)
    return report


def build(
    pipeline: beam.Pipeline, spans: list[Span], settings: Settings, *, span_bytes: int
) -> beam.PCollection[bytes]:
    """Return the account of a pipeline that converts these spans."""
    return (
        pipeline
        | "Files" >> beam.Create([msgspec.json.encode(span) for span in spans])
        | CutFile(span_bytes, settings.reading)
        | Convert(settings)
        | Merge()
    )


def run_to_file(pipeline: beam.Pipeline, account: beam.PCollection[bytes], path: Path) -> bytes:
    """Run a pipeline, let a worker write its only result to a file, and return that."""
    _ = account | "Report" >> beam.Map(_store, str(path.absolute()))
    pipeline.run().wait_until_finish()
    return path.read_bytes()


def _store(account: bytes, path: str) -> None:
    write_by_several(Path(path), account)


def _list_sources(
    options: ConvertOptions, stdin_copy: Path
) -> tuple[list[Span], dict[str, SourceConfig]]:
    """Return the inputs, and the configurations of those that are not files of records."""
    try:
        spans = list_spans(
            options.inputs,
            from_format=options.from_format,
            spool=stdin_copy,
            encoding=options.encoding or "",
        )
        return spans, load_sources(spans, options)
    except ConfigError:
        stdin_copy.unlink(missing_ok=True)
        raise


def _convert(
    options: ConvertOptions, settings: Settings, sources: list[Span], runner: PipelineRunner
) -> Account:
    """Convert all spans of the sources; raise FeedferryError for a run that must stop."""
    work = Path(settings.folder)
    begin(settings)
    FileSystems.set_options(pipeline_options(options))
    try:
        spans = [part for source in sources for part in cut_source(source, settings, options)]
        refuse_shared_urls(sources, settings, options)
    finally:
        seal(work)
    account = Account()
    with _progress(options, work, spans):
        if grouped := group_spans(spans, span_bytes=options.span_bytes):
            pipeline = beam.Pipeline(runner=runner, options=pipeline_options(options))
            total = build(pipeline, grouped, settings, span_bytes=options.span_bytes)
            text = run_to_file(pipeline, total, work / "account.json")
            account = msgspec.json.decode(text, type=Account)
    _check(account, options)
    for notice in account.notices.values():
        _log.warning("%s; %s in all", notice.first.message, notice.count)
    return account


def _check(account: Account, options: ConvertOptions) -> None:
    """Raise the error that stopped a span, or the error of a limit that the run exceeds."""
    check_account(account)
    if by_name(options.to_format).holds_only_memberships:
        check_groups(account.chunks)
    rejects, records = sum(account.rejected.values()), sum(account.read.values())
    limit = options.max_rejects
    if limit is not None and not limit.allows(rejects=rejects, records=records):
        raise TooManyRejectsError(
            f"{rejects} of {records} records rejected; expected at most what --max-rejects allows; "
            "nothing is published"
        )


def _known_urls(path: str | None) -> tuple[str, ...]:
    if path is None:
        return ()
    try:
        return tuple(Path(path).read_text("utf-8").split())
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"--known-urls {path}: {exc}; expected a URL on each line") from exc


def _fingerprint(
    options: ConvertOptions,
    known_urls: tuple[str, ...],
    spans: list[Span],
    sources: dict[str, SourceConfig],
) -> str:
    """Return a hash of the inputs and of all options that affect the output."""
    affecting = {
        name: getattr(options, name)
        for name, declared in flags_of(ConvertOptions).items()
        if declared.flag.affects_output
    }
    states = [
        (span.source, span.format, size_of(span), changed(span), span.signature) for span in spans
    ]
    rules = {
        span.source: rules_of(span, sources[span.source])
        for span in spans
        if span.source in sources
    }
    text = msgspec.json.encode((affecting, known_urls, states, rules), order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]


def _progress(
    options: ConvertOptions, work: Path, spans: list[Span]
) -> AbstractContextManager[None]:
    sizes = [0 if _is_unsized(span) else size_of(span) for span in spans]
    total = sum(sizes) if all(sizes) else None
    return show_progress(lambda: _snapshot(work, total), options)


def _is_unsized(span: Span) -> bool:
    """Whether the number of bytes that are read of a span is not the size of its file."""
    return source_of(span).counts_contents or is_compressed(span.path)


def _snapshot(work: Path, total: int | None) -> Snapshot:
    """Add up the progress files of the spans."""
    counts = [json.loads(path.read_text()) for path in work.glob(f"*{PROGRESS}")]
    done, records, rejects = map(sum, zip((0, 0, 0), *counts, strict=True))
    return Snapshot(bytes_done=done, bytes_total=total, records=records, rejects=rejects)
