"""`feedferry push`: chunks that exist, to an appliance, in order and throttled.

::

    manifest ──► lanes ──► push ──► receipts ──► account ──► report, rejects, manifest
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import click
import msgspec
from msgspec.structs import replace

from pipelines.cli.display_options import DisplayOptions, ReportFormat
from pipelines.cli.locks import PUSHES, WORK, locked_output
from pipelines.cli.progress import Snapshot, show_progress
from pipelines.cli.push_options import ApplianceOptions, PushOptions, push_settings
from pipelines.cli.signals import DRAINING, draining
from pipelines.push.report import as_json, as_json_text, as_text, plan_text
from schemas.account import Chunk
from schemas.errors import ConfigError
from schemas.span import Span
from transforms.sinks.push.existing_feeds import SeveralFull, describe
from transforms.sinks.push.model import ERASING
from transforms.sinks.push.outcome import ACCEPTED, ChunkOutcome, PushAccount
from transforms.sinks.push.progress import PushProgress
from transforms.sinks.push.pusher import (
    PushPaths,
    check_chunks,
    check_receipts,
    planned,
    push,
    restated,
)
from transforms.sinks.push.rejects import write_rejects
from transforms.sinks.push.settings import Keep, PushSettings
from transforms.sinks.push.throttle.gate import StopSignal
from transforms.sources.files import open_span
from transforms.storage.atomic import whole_file, write_json

MANIFEST = "manifest.jsonl"
STAGING = ".staging"
"""Where compressed feed files are unpacked."""

_COPY_BYTES = 1 << 20
_EXPECTED_INPUT = (
    "expected the folder of a finished run (the -o of convert), or feed files with -o DIR"
)


def run(options: PushOptions, appliance: ApplianceOptions) -> int:
    """Push, print the account of each run, and return the exit code.

    Raises ConfigError before anything is sent. Several runs are pushed one after another; a run
    that is not pushed to its end keeps those after it from beginning.
    """
    settings = replace(
        push_settings(appliance),
        jobs=options.jobs,
        max_rejects=options.max_rejects,
        replay=options.replay,
        keep=options.keep,
        can_empty=options.allow_empty_full,
        groups_mode=options.groups_mode,
    )
    folders = _run_folders(options)
    if options.replay and not folders:
        raise ConfigError(f"--replay: {options.inputs[0]!r} is not the folder of a run")
    if options.dry_run:
        return _plan(options, folders, settings)
    exit_code = 0
    for root, chunks in _runs(folders, options, settings) if folders else [_loose(options)]:
        pushed = push_and_tell(root, chunks, settings, telling=options)
        exit_code = max(exit_code, pushed.exit_code)
        if pushed.stopped is not None:
            break
    return exit_code


def _plan(options: PushOptions, folders: Sequence[Path], settings: PushSettings) -> int:
    """Say what would be sent, or raise what would keep it from being; no file is made."""
    if folders:
        for root, chunks in _runs(folders, options, settings):
            sent = restated(chunks, settings.groups_mode)
            click.echo(plan_text(planned(sent, folder_of(root, settings), settings), settings))
        return 0
    with TemporaryDirectory() as staging:
        chunks = restated(_described(options, Path(staging)), settings.groups_mode)
        check_chunks(chunks, settings)
        click.echo(plan_text(planned(chunks, Path(staging), settings), settings))
    return 0


def push_and_tell(
    root: Path, chunks: Sequence[Chunk], settings: PushSettings, *, telling: DisplayOptions
) -> PushAccount:
    """Push the chunks of a run, show that it moves, and print the account; a signal drains it."""
    is_quiet = telling.is_quiet
    stop, watch = StopSignal(), PushProgress(keep_still if is_quiet else tell)
    with (
        draining(stop.drain, message=None if is_quiet else DRAINING) as received,
        _progress(telling, chunks, watch),
    ):
        pushed = push_folder(root, chunks, settings, stop=stop, watch=watch)
    if pushed.stopped is not None:
        pushed = replace(pushed, exit_code=received.exit_code(pushed.exit_code))
    return tell_pushed(root, pushed, settings, telling=telling)


def tell_pushed(
    root: Path, pushed: PushAccount, settings: PushSettings, *, telling: DisplayOptions
) -> PushAccount:
    """Print the account of a push, and what stopped it if something did; return it."""
    shown = as_text if telling.report_format is ReportFormat.TEXT else as_json_text
    click.echo(shown(pushed, root=root, folder=folder_of(root, settings)))
    if pushed.stopped is not None:
        click.echo(f"feedferry: {pushed.stopped}", err=True)
    return pushed


def push_folder(
    root: Path,
    chunks: Sequence[Chunk],
    settings: PushSettings,
    *,
    stop: StopSignal,
    watch: PushProgress,
) -> PushAccount:
    """Push the chunks of a run; its folder then tells what became of each of them."""
    folder = folder_of(root, settings)
    folder.mkdir(parents=True, exist_ok=True)
    pushed = push(chunks, PushPaths(root=root, folder=folder), settings, stop=stop, watch=watch)
    settle(root, pushed, settings)
    return pushed


def settle(root: Path, pushed: PushAccount, settings: PushSettings) -> None:
    """Let the folder of a run tell what became of its chunks: rejects, report and manifest."""
    folder = folder_of(root, settings)
    write_json(folder / "report.json", as_json(pushed))
    _write_manifest(root, pushed)
    write_rejects(pushed.outcomes, root=root, path=root / "rejects" / f"push-{folder.name}.avro")
    if settings.keep is Keep.REFUSED:
        for fate in pushed.outcomes:
            if fate.state == ACCEPTED:
                (root / fate.chunk.path).unlink(missing_ok=True)


def folder_of(root: Path, settings: PushSettings) -> Path:
    """Where the receipts of an appliance stand in the folder of a run."""
    return root / PUSHES / settings.appliance.name


def read_manifest(root: Path) -> list[Chunk]:
    """Return the chunks of a run; raise ConfigError unless it is finished and can be read."""
    if not (root / "report.json").exists():
        raise ConfigError(_unfinished(root))
    try:
        lines = (root / MANIFEST).read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Chunk) for line in lines]
    except (OSError, msgspec.DecodeError) as exc:
        raise ConfigError(f"{root / MANIFEST}: {exc}; expected the manifest of a run") from exc


def _run_folders(options: PushOptions) -> list[Path]:
    """Return the run folders that are given, in order; none if feed files are given.

    Raises ConfigError for a mixture, and for a folder that is no run where no -o is given.
    """
    paths = [Path(name) for name in options.inputs]
    for path in paths:
        if not path.exists():
            raise ConfigError(f"INPUT: {str(path)!r}: no such file or folder; {_EXPECTED_INPUT}")
    runs = [path for path in paths if (path / MANIFEST).exists()]
    others = [path for path in paths if path not in runs]
    if runs and others:
        raise ConfigError(
            f"INPUT: {str(others[0])!r}: not the folder of a run, but {str(runs[0])!r} is one;"
            " expected only folders of runs or only feed files: push them one after the other"
        )
    for path in others:
        if (path / WORK).exists():
            raise ConfigError(_unfinished(path))
        if path.is_dir() and options.output is None:
            raise ConfigError(f"INPUT: {str(path)!r}: no {MANIFEST} in it; {_EXPECTED_INPUT}")
    if len({path.resolve() for path in runs}) < len(runs):
        raise ConfigError("INPUT: the same run is given twice; expected each run once")
    return runs


def _runs(
    folders: Sequence[Path], options: PushOptions, settings: PushSettings
) -> list[tuple[Path, list[Chunk]]]:
    """Return the chunks of each run; raise ConfigError for what must not be sent."""
    _refuse_feed_flags(options)
    runs = [(root, read_manifest(root)) for root in folders]
    sent = [(root, restated(chunks, settings.groups_mode)) for root, chunks in runs]
    for root, chunks in sent:
        check_chunks(chunks, settings)
        if len(sent) > 1:  # a single run is checked by its push, before anything is sent
            check_receipts(chunks, PushPaths(root=root, folder=folder_of(root, settings)), settings)
    if options.several_full is not SeveralFull.EACH:
        _refuse_several_full(sent)
    return runs


def _refuse_several_full(runs: Sequence[tuple[Path, list[Chunk]]]) -> None:
    """Raise ConfigError where two runs have a full feed of the same datasource."""
    full: dict[tuple[str | None, str | None], Path] = {}
    for root, chunks in runs:
        for key in {(one.format, one.datasource) for one in chunks if one.feedtype in ERASING}:
            if key in full:
                raise ConfigError(
                    f"{root}: a full feed of {key[1]!r}, like {full[key]}; expected one, because"
                    " the second deletes what the first one brought: push the newer run alone, or"
                    " send both with --several-full each"
                )
            full[key] = root


def _unfinished(path: Path) -> str:
    return (
        f"INPUT: {str(path)!r}: an unfinished run; expected a finished one: start its conversion"
        " again to complete it"
    )


def _refuse_feed_flags(options: PushOptions) -> None:
    for flag, stated in (
        ("--datasource", options.datasource),
        ("--feedtype", options.feedtype),
        ("-o", options.output),
    ):
        if stated is not None:
            raise ConfigError(
                f"{flag}: given with the folder of a run; expected it with feed files only,"
                " because the manifest of a run states it"
            )


def _loose(options: PushOptions) -> tuple[Path, list[Chunk]]:
    """Make a run of feed files that exist already, in the folder that -o names."""
    if options.output is None:
        raise ConfigError(
            "-o: not given; expected a folder for the receipts of feed files, and for what is kept"
        )
    root = Path(options.output)
    with locked_output(root):
        return _made_in(root, options)


def _made_in(root: Path, options: PushOptions) -> tuple[Path, list[Chunk]]:
    staging = root / STAGING
    staging.mkdir(parents=True, exist_ok=True)
    try:
        return root, _staged(root, options, staging)
    finally:
        shutil.rmtree(staging)


def _staged(root: Path, options: PushOptions, staging: Path) -> list[Chunk]:
    found = _described(options, staging)
    is_new = not (root / MANIFEST).exists()
    if not is_new and list(map(_named, read_manifest(root))) != list(map(_named, found)):
        raise ConfigError(
            f"-o {root}: holds the run of other files, or of other names for them; expected another"
            " folder"
        )
    chunks = [_taken(chunk, root, is_new=is_new) for chunk in found]
    if is_new:
        with whole_file(root / MANIFEST) as stream:
            stream.writelines(msgspec.json.encode(one, order="sorted") + b"\n" for one in chunks)
        write_json(root / "report.json", {"version": 1, "pushed": list(options.inputs)})
    return chunks


def _described(options: PushOptions, staging: Path) -> list[Chunk]:
    return describe(
        list(_files(options.inputs)),
        datasource=options.datasource,
        feedtype=options.feedtype,
        several_full=options.several_full,
        allow_empty_full=options.allow_empty_full,
        staging=staging,
        open_plain=_open_plain,
    )


def _named(chunk: Chunk) -> tuple[str, str | None, str | None]:
    """What a chunk is sent as, whatever has become of it."""
    return chunk.sha256, chunk.datasource, chunk.feedtype


def _files(names: Sequence[str]) -> Iterator[Path]:
    """Yield files as they are given, those of a folder in the order of their names."""
    for name in names:
        path = Path(name)
        files = sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]
        if not files:
            raise ConfigError(f"INPUT: {name!r}: a folder without files; {_EXPECTED_INPUT}")
        yield from files


def _taken(chunk: Chunk, root: Path, *, is_new: bool) -> Chunk:
    """Keep the file of a chunk in the folder of the run: a link, or a copy on another disk.

    In a run that `is_new`, what stands there was left by one that ended before it had a manifest.
    """
    path = Path(chunk.path)
    kept = Path("chunks") / f"{chunk.ordinal:06d}{path.suffix}"
    if is_new:
        (root / kept).unlink(missing_ok=True)
    if not (root / kept).exists():
        (root / kept).parent.mkdir(exist_ok=True)
        try:
            os.link(path, root / kept)
        except OSError:
            with path.open("rb") as source, whole_file(root / kept) as stream:
                shutil.copyfileobj(source, stream, _COPY_BYTES)
    return replace(chunk, path=str(kept))


@contextmanager
def _open_plain(path: Path) -> Iterator[IO[bytes]]:
    with open_span(Span(source=str(path), path=str(path))) as stream:
        yield stream


def _progress(
    telling: DisplayOptions, chunks: Sequence[Chunk], watch: PushProgress
) -> AbstractContextManager[None]:
    total = sum(chunk.bytes for chunk in chunks)
    return show_progress(
        lambda: Snapshot(
            bytes_done=watch.bytes,
            bytes_total=total,
            records=watch.records,
            rejects=watch.rejects,
        ),
        telling,
    )


def tell(line: str) -> None:
    click.echo(line, err=True)


def keep_still(line: str) -> None:
    """For who is to be quiet."""


def _write_manifest(root: Path, pushed: PushAccount) -> None:
    """Say of each chunk what became of it.

    An update of indexes that no run made is left out. One that is not pushed stays: receipts are
    of all the chunks of a run.
    """
    outcomes = {fate.chunk.ordinal: fate for fate in pushed.outcomes}
    chunks = read_manifest(root)
    with whole_file(root / MANIFEST) as stream:
        for chunk in chunks:
            told = _told(chunk, outcomes[chunk.ordinal]) if chunk.ordinal in outcomes else chunk
            stream.write(msgspec.json.encode(told, order="sorted") + b"\n")


def _told(chunk: Chunk, fate: ChunkOutcome) -> Chunk:
    """Return a chunk as the run made it, with what became of it."""
    return replace(chunk, state=fate.state, attempts=fate.attempts, reply=fate.reply)
