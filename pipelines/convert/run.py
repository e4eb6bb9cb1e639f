"""`feedferry convert`: archives in, chunk files for another appliance out.

::

    files ── CutFile ──► spans ── Convert ──► accounts ── Merge ──► account ──► report
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import apache_beam as beam
import click
import msgspec
from apache_beam.io.filesystems import FileSystems
from apache_beam.runners.runner import PipelineRunner

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.defect_report import tell_defects
from pipelines.cli.display_options import ReportFormat
from pipelines.cli.locks import LOCK, WORK, locked_output, locked_pushes, locked_state
from pipelines.cli.progress import Snapshot, show_progress
from pipelines.convert.group_limits import check_groups
from pipelines.convert.inputs import changed, group_spans, list_spans, size_of
from pipelines.convert.publish import publish
from pipelines.convert.report import Report, as_json_text, as_text
from pipelines.convert.run_fingerprint import is_sealed, seal
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
from schemas.errors import (
    ConfigError,
    FatalError,
    TooManyRejectsError,
)
from schemas.span import Span
from transforms.convert import PROGRESS, Settings
from transforms.formats import by_name
from transforms.sinks.push.outcome import PushAccount
from transforms.sources import SourceConfig, source_of
from transforms.sources.files import is_compressed
from transforms.stages import Convert, CutFile, Merge
from transforms.storage.atomic import write_by_several

_log = logging.getLogger(__name__)

SPOOL = "stdin"
"""What standard input is kept as in there; it was just read, so `--fresh` leaves it."""

_OF_THE_RUN = (
    *("jobs", "fresh", "runner", "verbosity", "beam_flags", "progress", "report_format"),
    *("allow_empty_full", "accept_holes", "verify"),
)
"""Options that change nothing about what is made."""

_OVER = ".over"
"""How the folder of a run is called while it is removed."""

_FINISHED = (
    *("chunks", "rejects", "manifest.jsonl", "report.json", "urls.txt"),
    *("filtered.jsonl", "push"),
)


def run(options: ConvertOptions, *, deliver: Callable[[Path], PushAccount] | None = None) -> Report:
    """Convert, publish, print the account; raise FeedferryError, and publish nothing, otherwise.

    Started again with the same options and inputs, it goes on where it was interrupted. What it
    published is then delivered; what is remembered of the sources moves when all of it was.
    """
    output = Path(options.output)
    known_urls = _known_urls(options.known_urls)
    _require_room(output, options)
    runner = runner_of(options)
    with ExitStack() as locks:
        locks.enter_context(locked_output(output))
        return _run(options, known_urls, runner, deliver, locks)


def _run(
    options: ConvertOptions,
    known_urls: tuple[str, ...],
    runner: PipelineRunner,
    deliver: Callable[[Path], PushAccount] | None,
    locks: ExitStack,
) -> Report:
    """Convert, publish and deliver, alone in the folder of the run."""
    output = Path(options.output)
    spool = output / WORK / SPOOL
    try:
        spans = list_spans(
            options.inputs,
            from_format=options.from_format,
            spool=spool,
            encoding=options.encoding or "",
        )
        sources = load_sources(spans, options)
    except ConfigError:
        spool.unlink(missing_ok=True)
        raise
    if options.state is not None:
        locks.enter_context(locked_state(Path(options.state)))
    _prepare(output, fresh=options.fresh)
    work = output / WORK / _fingerprint(options, known_urls, spans, sources)
    _refuse_finished(output, options, work)
    _discard_damaged(work, output, options)
    _make_folder(work, output)
    settings = settings_of(options, known_urls, work, sources)
    begin(settings)
    FileSystems.set_options(pipeline_options(options))
    try:
        listed = [part for span in spans for part in cut_source(span, settings, options)]
        refuse_shared_urls(spans, settings, options)
    finally:
        seal(work)
    with _progress(options, settings, listed):
        account = _account(
            group_spans(listed, span_bytes=options.span_bytes), options, settings, runner
        )
    _check(account, options)
    _log_notices(account)
    report = publish(account, settings, output=output, spans=spans)
    as_asked = as_text if options.report_format is ReportFormat.TEXT else as_json_text
    click.echo(as_asked(report))
    tell_defects(account.defects, folder=report.folder)
    if deliver is not None:
        pushed = deliver(output)
        report = msgspec.structs.replace(report, exit_code=pushed.exit_code or report.exit_code)
        if pushed.stopped is not None:
            return report
    remember(spans, settings, options, account)
    _clear(work)
    return report


def _discard_damaged(work: Path, output: Path, options: ConvertOptions) -> None:
    """Let a run begin again if what it had found of its sources is not there, or not as it was.

    A run that has published may have moved its state, so that it would find nothing to do.
    """
    if not work.exists() or is_sealed(work, verify=options.verify):
        return
    if options.state is not None and (output / "report.json").exists():
        raise FatalError(
            f"{work}: files of the run are damaged; expected them as they were written; what it"
            f" made is published in {output}: push that, or begin again with --fresh"
        )
    _remove_whole(work)


def _remove_whole(work: Path) -> None:
    """Remove the folder of a run.

    It is renamed first: a run that is killed in the middle of this must not leave one that looks
    unfinished and has lost some of its files. Workers that outlived their run may still write.
    """
    over = work.with_suffix(_OVER)
    os.replace(work, over)
    shutil.rmtree(over, ignore_errors=True)


def _clear(work: Path) -> None:
    """Remove the files of all unfinished runs in a folder, now that one is over."""
    _remove_whole(work)
    for path in work.parent.glob("*"):
        if path.name != LOCK:
            _remove(path)


def _log_notices(account: Account) -> None:
    """Say once of each thing that a reader mended or did not know what it was, and how often."""
    for noted in account.notices.values():
        _log.warning("%s; %s in all", noted.first.message, noted.count)


def build(
    pipeline: beam.Pipeline, spans: list[Span], settings: Settings, *, span_bytes: int
) -> beam.PCollection[bytes]:
    """The dataflow: whole files in, one account out."""
    return (
        pipeline
        | "Files" >> beam.Create([msgspec.json.encode(span) for span in spans])
        | CutFile(span_bytes, settings.reading)
        | Convert(settings)
        | Merge()
    )


def _account(
    spans: list[Span], options: ConvertOptions, settings: Settings, runner: PipelineRunner
) -> Account:
    if not spans:
        return Account()
    path = Path(settings.folder) / "account.json"
    pipeline = beam.Pipeline(runner=runner, options=pipeline_options(options))
    total = build(pipeline, spans, settings, span_bytes=options.span_bytes)
    _ = total | "Report" >> beam.Map(_store, str(path))
    pipeline.run().wait_until_finish()
    return msgspec.json.decode(path.read_bytes(), type=Account)


def _store(account: bytes, path: str) -> None:
    write_by_several(Path(path), account)


def _check(account: Account, options: ConvertOptions) -> None:
    """Raise what stopped a span, or the threshold that the whole run is over."""
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


def _require_room(output: Path, options: ConvertOptions) -> None:
    """Refuse to touch what a finished run has left, and to read what is about to be removed."""
    inside = [name for name in options.inputs if _is_below(name, output)]
    if inside and options.fresh:
        raise ConfigError(f"INPUT: {inside[0]!r} is in -o {output}, which --fresh would remove")
    _refuse_finished(output, options, output / WORK)


def _refuse_finished(output: Path, options: ConvertOptions, work: Path) -> None:
    """Raise ConfigError for what a run has left that no unfinished one at `work` goes on with."""
    standing = [name for name in _FINISHED if (output / name).exists()]
    if standing and not options.fresh and not work.exists():
        raise ConfigError(
            f"-o {output}: holds {standing[0]} of a finished run; "
            "expected another folder, or --fresh"
        )


def _is_below(name: str, output: Path) -> bool:
    return "://" not in name and Path(name).absolute().is_relative_to(output.absolute())


def _prepare(output: Path, *, fresh: bool) -> None:
    for path in (output / WORK).glob(f"*{_OVER}"):
        _remove(path)
    if not fresh:
        return
    with locked_pushes(output):
        for name in _FINISHED:
            _remove(output / name)
    for path in (output / WORK).glob("*"):
        if path.name not in (SPOOL, LOCK):
            _remove(path)


def _make_folder(folder: Path, output: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigError(f"-o {output}: {exc.strerror}; expected a folder to write in") from exc


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _known_urls(path: str | None) -> tuple[str, ...]:
    if path is None:
        return ()
    try:
        return tuple(Path(path).read_text("utf-8").split())
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"--known-urls {path}: {exc}; expected a url on each line") from exc


def _fingerprint(
    options: ConvertOptions,
    known_urls: tuple[str, ...],
    spans: list[Span],
    sources: dict[str, SourceConfig],
) -> str:
    """What decides over the bytes that are written: the inputs, and every option but how to run."""
    usual = ConvertOptions(inputs=(), output="", to_format="")
    kept = msgspec.structs.replace(
        options, **{name: getattr(usual, name) for name in _OF_THE_RUN}, output=""
    )
    states = [
        (span.source, span.format, size_of(span), changed(span), span.signature) for span in spans
    ]
    rules = {
        span.source: rules_of(span, sources[span.source])
        for span in spans
        if span.source in sources
    }
    text = msgspec.json.encode((kept, known_urls, states, rules), order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]


def _progress(
    options: ConvertOptions, settings: Settings, spans: list[Span]
) -> AbstractContextManager[None]:
    sizes = [0 if _is_unsized(span) else size_of(span) for span in spans]
    total = sum(sizes) if all(sizes) else None
    folder = Path(settings.folder)
    return show_progress(lambda: _snapshot(folder, total), options)


def _is_unsized(span: Span) -> bool:
    """Whether the bytes that are read of it are not those of its file."""
    return source_of(span).counts_contents or is_compressed(span.path)


def _snapshot(folder: Path, total: int | None) -> Snapshot:
    """Adds up what the spans tell of themselves in their small files."""
    progress = [json.loads(path.read_text()) for path in folder.glob(f"*{PROGRESS}")]
    done, records, rejects = (
        (sum(column) for column in zip(*progress, strict=True)) if progress else (0, 0, 0)
    )
    return Snapshot(bytes_done=done, bytes_total=total, records=records, rejects=rejects)
