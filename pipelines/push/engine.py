"""Push the chunks of runs, or feed files, to an appliance: in order and throttled."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.folders.locks import WORK
from feedferry.pipelines.folders.manifest import (
    EXPECTED_INPUT,
    MANIFEST,
    REPORT,
    read_manifest,
    receipts_folder,
    unfinished_message,
)
from feedferry.pipelines.folders.remote_runs import opened_runs
from feedferry.pipelines.observer.observer import Observer, Step, followed, metered
from feedferry.pipelines.observer.progress import Snapshot
from feedferry.pipelines.observer.signals import draining
from feedferry.pipelines.options.flags import shared_options
from feedferry.pipelines.options.push_options import PushOptions
from feedferry.pipelines.push.record import PushResult, record_push
from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.lazy_sequence import LazySequence, flagged
from feedferry.schemas.run_record import Phase
from feedferry.transforms.sinks.push.generations import check_generation
from feedferry.transforms.sinks.push.outcome import ChunkOutcome, PushProgress
from feedferry.transforms.sinks.push.push_plan import check_several_full, plan_chunks
from feedferry.transforms.sinks.push.receipts import Receipts
from feedferry.transforms.sinks.push.settings import PushSettings, SeveralFull
from feedferry.transforms.sinks.push.throttle.gate import StopSignal
from feedferry.transforms.storage.run_folders.mirrors import MirrorDisk


class PushPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a push: the chunks that are left, and how."""

    root: Path
    chunks: Sequence[Chunk]
    settings: PushSettings


def push(options: PushOptions, target: PushSettings, observer: Observer) -> tuple[PushResult, ...]:
    """Push runs one after another, or feed files; if a run stops, the runs after it are not begun.

    Raises ConfigError before anything is sent.
    """
    settings = replace(target, **shared_options(options, PushSettings))
    results: list[PushResult] = []
    with opened_runs(options.inputs) as inputs:
        options = replace(options, inputs=inputs)
        if folders := _run_folders(options):
            runs = _read_runs(folders, options, settings)
        else:
            from feedferry.pipelines.push.feed_files import make_run

            runs = [make_run(options, settings)]
        for root, chunks in runs:
            results.append(push_chunks(root, chunks, settings, observer))
            if results[-1].reason is not None:
                break
    return tuple(results)


def plan_push(options: PushOptions, target: PushSettings) -> Iterator[PushPlan]:
    """Yield the plan of a push at this time, for each run; make no file."""
    settings = replace(target, **shared_options(options, PushSettings))
    with opened_runs(options.inputs, is_read_only=True) as inputs, TemporaryDirectory() as staging:
        options = replace(options, inputs=inputs)
        if folders := _run_folders(options):
            for root, chunks in _read_runs(folders, options, settings):
                yield _plan(root, chunks, settings)
            return
        from feedferry.pipelines.push.feed_files import scan_files

        yield _plan(Path(staging), scan_files(options, settings, Path(staging)), settings)


def push_chunks(
    root: Path, chunks: Sequence[Chunk], settings: PushSettings, observer: Observer
) -> PushResult:
    """Push the chunks of a run; a signal stops it after the chunks that are being sent."""
    from feedferry.pipelines.report.run_report import write_report
    from feedferry.transforms.sinks.push.pusher import Pusher

    stop = StopSignal()
    progress = PushProgress(observer.notice)
    folder = receipts_folder(root, settings)
    earlier = _read_outcomes(root, chunks, settings)
    progress.add_earlier(earlier)  # the rate of this push does not count them
    progress.has_earlier = True
    is_settled = all(outcome.allows_next for outcome in earlier)
    total = sum(chunk.bytes for chunk in chunks)
    meter = metered(
        Observer() if is_settled else observer,
        Phase.PUSH,
        lambda: Snapshot(
            bytes=progress.bytes,
            records=progress.records,
            rejects=progress.rejects,
            total=total,
            backlog=progress.backlog,
            step=progress.step,
        ),
        folder=root if (root / REPORT).exists() and not is_settled else None,
    )

    def drain() -> None:
        stop.stop()
        observer.interrupted()

    with followed(observer, Step.PUSH) as step:
        with draining(drain) as received:
            with meter, Pusher(settings, stop=stop, progress=progress, disk=MirrorDisk()) as pusher:
                folder.mkdir(parents=True, exist_ok=True)
                account = pusher.push(chunks, root=root, folder=folder)
                if account.stopped is None:
                    total = progress.bytes  # a chunk that was sent in parts has other bytes
            result = record_push(root, account, settings)
            write_report(root)  # with the last point of the timeline
        if result.reason is not None:
            code = received.exit_code(result.exit_code)
            result = replace(result, account=replace(result.account, exit_code=code))
        step.result = result
    if result.reason is None:  # the signal came during the last chunk
        received.raise_again()
    notify_stop(result, observer)
    return result


def notify_stop(result: PushResult, observer: Observer) -> None:
    """Notify the observer why a push has stopped, if it has."""
    if result.reason is not None:
        observer.notice(f"feedferry: {result.reason}", logging.ERROR)


def _plan(root: Path, chunks: Sequence[Chunk], settings: PushSettings) -> PushPlan:
    outcomes = _read_outcomes(root, chunks, settings)
    planned = plan_chunks(chunks, settings)
    remaining = flagged(planned, (not outcome.allows_next for outcome in outcomes))
    check_generation(root, remaining, settings)
    return PushPlan(root=root, chunks=remaining, settings=settings)


def _read_outcomes(
    root: Path, chunks: Sequence[Chunk], settings: PushSettings
) -> LazySequence[ChunkOutcome]:
    """Return the outcomes of earlier pushes; make no file."""
    planned = plan_chunks(chunks, settings)
    receipts = Receipts(receipts_folder(root, settings), planned, settings)
    return receipts.read().outcomes(planned)


def _run_folders(options: PushOptions) -> list[Path]:
    """Return the folders of runs, in order; none if the inputs are feed files.

    Raises ConfigError for a mixture, and without -o for a folder that is no run.
    """
    paths = [Path(name) for name in options.inputs]
    for path in paths:
        if not path.exists():
            raise ConfigError(f"⟦inputs⟧: {str(path)!r}: no such file or folder; {EXPECTED_INPUT}")
    runs = [path for path in paths if (path / MANIFEST).exists()]
    others = [path for path in paths if path not in runs]
    if runs and others:
        raise ConfigError(
            f"⟦inputs⟧: {str(others[0])!r}: not the folder of a run, but {str(runs[0])!r} is one;"
            " expected only folders of runs or only feed files: push them one after the other"
        )
    for path in others:
        if (path / WORK).exists():
            raise ConfigError(unfinished_message(path))
        if path.is_dir() and options.output is None:
            raise ConfigError(f"⟦inputs⟧: {str(path)!r}: no {MANIFEST} in it; {EXPECTED_INPUT}")
    if len({path.resolve() for path in runs}) < len(runs):
        raise ConfigError("⟦inputs⟧: the same run is given twice; expected each run once")
    if options.replay and not runs:
        raise ConfigError(f"⟦replay⟧: {options.inputs[0]!r}; expected the folder of a run")
    return runs


def _read_runs(
    folders: Sequence[Path], options: PushOptions, settings: PushSettings
) -> list[tuple[Path, Sequence[Chunk]]]:
    """Return the planned chunks of each run; raise ConfigError if one must not be sent."""
    file_flags = (
        ("⟦datasource⟧", options.datasource),
        ("⟦feedtype⟧", options.feedtype),
        ("⟦output⟧", options.output),
    )
    for flag, value in file_flags:
        if value is not None:
            raise ConfigError(
                f"{flag}: given with the folder of a run; expected it with feed files only,"
                " because the manifest of a run states it"
            )
    planned_runs = [(root, plan_chunks(read_manifest(root), settings)) for root in folders]
    for root, planned in planned_runs if len(folders) > 1 else ():  # one is checked by its push
        Receipts(receipts_folder(root, settings), planned, settings).read()
    runs: list[tuple[Path, Sequence[Chunk]]] = [*planned_runs]
    if options.several_full is not SeveralFull.EACH:
        check_several_full((str(root), planned) for root, planned in runs)
    return runs
