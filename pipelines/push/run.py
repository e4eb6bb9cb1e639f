"""`feedferry push`: send existing chunks to an appliance, in order and throttled."""

import json
import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from msgspec.structs import replace

from pipelines.cli.display import DisplayOptions, ProgressStyle, ReportFormat, show_progress
from pipelines.cli.locks import WORK
from pipelines.cli.logs import tell
from pipelines.cli.progress import Snapshot
from pipelines.cli.push_options import PushOptions
from pipelines.cli.signals import DRAINING, draining
from pipelines.cli.summary import print_summary
from pipelines.push.run_folder import (
    EXPECTED_INPUT,
    MANIFEST,
    REPORT,
    as_json,
    plan_text,
    read_manifest,
    receipts_folder,
    record_push,
    summary_of,
    unfinished_message,
)
from schemas.account import Chunk
from schemas.errors import ConfigError
from schemas.run_record import Phase
from transforms.sinks.push.generations import check_generation
from transforms.sinks.push.outcome import (
    HAS_REJECTS,
    ChunkOutcome,
    PushAccount,
    PushProgress,
    outcomes_of,
)
from transforms.sinks.push.push_plan import check_several_full, plan_chunks
from transforms.sinks.push.receipts import Receipts
from transforms.sinks.push.settings import PushSettings, SeveralFull
from transforms.sinks.push.throttle.gate import StopSignal


def run(options: PushOptions, target: PushSettings) -> int:
    """Push, print the account of each run, and return the exit code.

    Raises ConfigError before anything is sent. Several runs are pushed one after another; if a run
    stops, the runs after it are not begun.
    """
    settings = replace(
        target,
        jobs=options.jobs,
        max_rejects=options.max_rejects,
        keep=options.keep,
        can_empty=options.allow_empty_full,
        replay=options.replay,
        allow_older=options.allow_older,
        groups_mode=options.groups_mode,
        accepted_rejects=options.accepted_rejects,
    )
    folders = _run_folders(options)
    if options.replay and not folders:
        raise ConfigError(f"--replay: {options.inputs[0]!r} is no folder of a run; expected one")
    if folders:
        runs = _read_runs(folders, options, settings)
    else:
        from pipelines.push.feed_files import make_run, scan_files

        if options.dry_run:
            with TemporaryDirectory() as staging:
                root = Path(staging)
                _print_plan(root, scan_files(options, settings, root), settings)
            return 0
        runs = [make_run(options, settings)]
    exit_code = 0
    for root, chunks in runs:
        if options.dry_run:
            _print_plan(root, chunks, settings)
            continue
        account = push_and_report(root, chunks, settings, output=options)
        exit_code = max(exit_code, account.exit_code)
        if account.stopped is not None:
            break
    return exit_code


def push_and_report(
    root: Path, chunks: Sequence[Chunk], settings: PushSettings, *, output: DisplayOptions
) -> PushAccount:
    """Push the chunks of a run, show progress, and print the account; a signal stops it."""
    from pipelines.report.run_report import write_report
    from transforms.sinks.push.pusher import Pusher

    is_quiet = output.is_quiet
    stop = StopSignal()
    progress = PushProgress(lambda text: tell(output.reword(text), is_quiet=is_quiet))
    folder = receipts_folder(root, settings)
    earlier = _read_outcomes(root, chunks, settings)
    progress.add_earlier(earlier)  # the rate of this push does not count them
    progress.has_earlier = True
    is_settled = all(outcome.allows_next for outcome in earlier)
    total = sum(chunk.bytes for chunk in chunks)
    display = show_progress(
        Phase.PUSH,
        lambda: Snapshot(
            bytes=progress.bytes,
            records=progress.records,
            rejects=progress.rejects,
            total=total,
            backlog=progress.backlog,
        ),
        replace(output, progress=ProgressStyle.NONE) if is_settled else output,
        folder=root if (root / REPORT).exists() and not is_settled else None,
    )
    with draining(stop.stop, message=None if is_quiet else DRAINING) as received:
        with display, Pusher(settings, stop=stop, progress=progress) as pusher:
            folder.mkdir(parents=True, exist_ok=True)
            account = pusher.push(chunks, root=root, folder=folder)
        account = record_push(root, account, settings)
        write_report(root)  # with the last point of the timeline
    if account.stopped is not None:
        account = replace(account, exit_code=received.exit_code(account.exit_code))
    print_account(root, account, settings, output=output)
    if account.stopped is None:  # the signal came during the last chunk
        received.raise_again()
    return account


def print_account(
    root: Path, account: PushAccount, settings: PushSettings, *, output: DisplayOptions
) -> None:
    """Print the account of a push, and the reason if it stopped."""
    folder = receipts_folder(root, settings)
    if output.report_format is ReportFormat.TEXT:
        summary = summary_of(account, root=root, folder=folder)
        rejects = f"feedferry rejects list {shlex.quote(str(root))}"
        has_new = account.exit_code == HAS_REJECTS
        print_summary(summary, output, next_commands=[rejects] if has_new else ())
    else:
        report = {**as_json(account), "folder": str(root), "receipts": str(folder)}
        click.echo(json.dumps(report, indent=2, sort_keys=True, ensure_ascii=False))
    if account.stopped is not None:
        tell(f"feedferry: {output.reword(account.stopped)}", level=logging.ERROR)


def _print_plan(root: Path, chunks: Sequence[Chunk], settings: PushSettings) -> None:
    """Print what a push would send now; make no file."""
    outcomes = _read_outcomes(root, chunks, settings)
    remaining = [outcome.chunk for outcome in outcomes if not outcome.allows_next]
    check_generation(root, remaining, settings)
    click.echo(plan_text(remaining, settings))


def _read_outcomes(
    root: Path, chunks: Sequence[Chunk], settings: PushSettings
) -> tuple[ChunkOutcome, ...]:
    """Return the outcomes of earlier pushes; make no file."""
    planned = plan_chunks(chunks, settings)
    receipts = Receipts(receipts_folder(root, settings), planned, settings)
    return outcomes_of(planned, receipts.read())


def _run_folders(options: PushOptions) -> list[Path]:
    """Return the folders of runs, in order; none if the inputs are feed files.

    Raises ConfigError for a mixture, and without -o for a folder that is no run.
    """
    paths = [Path(name) for name in options.inputs]
    for path in paths:
        if not path.exists():
            raise ConfigError(f"INPUT: {str(path)!r}: no such file or folder; {EXPECTED_INPUT}")
    runs = [path for path in paths if (path / MANIFEST).exists()]
    others = [path for path in paths if path not in runs]
    if runs and others:
        raise ConfigError(
            f"INPUT: {str(others[0])!r}: not the folder of a run, but {str(runs[0])!r} is one;"
            " expected only folders of runs or only feed files: push them one after the other"
        )
    for path in others:
        if (path / WORK).exists():
            raise ConfigError(unfinished_message(path))
        if path.is_dir() and options.output is None:
            raise ConfigError(f"INPUT: {str(path)!r}: no {MANIFEST} in it; {EXPECTED_INPUT}")
    if len({path.resolve() for path in runs}) < len(runs):
        raise ConfigError("INPUT: the same run is given twice; expected each run once")
    return runs


def _read_runs(
    folders: Sequence[Path], options: PushOptions, settings: PushSettings
) -> list[tuple[Path, list[Chunk]]]:
    """Return the planned chunks of each run; raise ConfigError if one must not be sent."""
    file_flags = (
        ("--datasource", options.datasource),
        ("--feedtype", options.feedtype),
        ("-o", options.output),
    )
    for flag, value in file_flags:
        if value is not None:
            raise ConfigError(
                f"{flag}: given with the folder of a run; expected it with feed files only,"
                " because the manifest of a run states it"
            )
    runs = [(root, plan_chunks(read_manifest(root), settings)) for root in folders]
    for root, planned in runs if len(runs) > 1 else ():  # a single run is checked by its push
        Receipts(receipts_folder(root, settings), planned, settings).read()
    if options.several_full is not SeveralFull.EACH:
        check_several_full((str(root), planned) for root, planned in runs)
    return runs
