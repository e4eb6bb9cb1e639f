"""Convert rejects again, corrected or with other settings, as a new run of the same job.

A replay converts the files of an export. It is never full, keeps the state of the job, and has no
limit for rejects unless one is given. Rejects that it converts are marked in their own run, when it
has ended or when the next replay of this export begins. They are not converted again. The replays
of a run without a job have the settings of this run, and are in the folder of its rejects.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.convert.inputs.source_runs import read_options
from feedferry.pipelines.folders.job_folders import runs_of, shown_path
from feedferry.pipelines.folders.manifest import MANIFEST, read_manifest
from feedferry.pipelines.job.file.job import Job
from feedferry.pipelines.job.file.job_file import load_job
from feedferry.pipelines.job.run.engine import run as run_job
from feedferry.pipelines.observer.observer import Observer
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.flags import decode, flags_of
from feedferry.pipelines.options.job_options import RunOptions
from feedferry.pipelines.options.section import Section
from feedferry.pipelines.rejects.corrections import (
    converted_numbers,
    files_as_exported,
    read_corrections,
)
from feedferry.pipelines.rejects.export import INDEX, Export, export
from feedferry.pipelines.rejects.run_rejects import (
    RejectFilter,
    job_file_of,
    mark_replayed,
    read_replayed,
)
from feedferry.pipelines.report.run_data import REJECTS
from feedferry.pipelines.report.run_report import CONFIG
from feedferry.schemas.errors import FINDINGS_EXIT, ConfigError
from feedferry.schemas.feed import FULL, INCREMENTAL
from feedferry.schemas.run_record import Replay
from feedferry.schemas.units import counted, names_text
from feedferry.transforms.storage.run_folders.run_record import read_run

REPLAYS = "replays"
"""Folder of the replays of a run without a job, in that of its rejects."""

_EXPORT = "replay"
"""The begin of the names of exports that a replay has made, in the folder of rejects."""

_SOURCE_SECTIONS = (Section.TREE, Section.SPOOL, Section.STATE)


class ReplayRequest(NamedTuple):
    """The words of a replay, and where the job of its run is found."""

    words: Mapping[str, object]
    environment: Mapping[str, str]
    job_file: Path | None = None


def replay(
    run: Path,
    source: Path | RejectFilter,
    request: ReplayRequest,
    observer: Observer,
) -> int:
    """Replay the files of an export, or new rejects of a run; return the exit code.

    A replay that was interrupted is resumed. Raises ConfigError if nothing can be replayed, and if
    that could undo a newer run.
    """
    job, starting = _job_of(run, request), decode(RunOptions, request.words)
    if isinstance(source, Path):
        return _ExportReplay(run, source, job, starting, observer).replay(is_edited=True)
    for folder in (run / REJECTS).glob(f"{_EXPORT}-*"):
        started = _ExportReplay(run, folder, job, starting, observer)
        last = started.mark_last()
        if last is not None and not last.is_over:
            return started.replay()
    folder = _new_export(run)
    export(run, source, folder, base=(job.path or run).parent)
    return _ExportReplay(run, folder, job, starting, observer).replay()


def read_export(folder: Path) -> Export:
    try:
        return msgspec.json.decode((folder / INDEX).read_bytes(), type=Export)
    except (OSError, msgspec.MsgspecError) as exc:
        raise ConfigError(
            f"{folder / INDEX}: {exc}; expected a folder that feedferry rejects export has written"
        ) from exc


def exported_run(folder: Path, home: Path) -> Path:
    """Return the run whose rejects an export has; `home` has the runs of its job."""
    run = home / Path(read_export(folder).run).name
    if not run.is_dir():
        raise ConfigError(f"{folder}: an export of {run}, which is not there")
    return run


def _job_of(run: Path, request: ReplayRequest) -> Job:
    """Return the job whose runs replay a run: its own, or that of the settings of the run.

    Raise ConfigError for a run that has not ended, or is not of the job that is given.
    """
    record, words = read_run(run), {**request.words, "deadline": None}
    if record is None:
        raise ConfigError(
            f"{run}: a push of files; expected a conversion: push the files of an export with"
            " feedferry push"
        )
    if not record.is_over:
        raise ConfigError(f"{run}: an unfinished run; expected a finished one: start it again")
    path = request.job_file or job_file_of(run)
    if path is None:
        job = load_job(run / CONFIG, words, request.environment)
        options = replace(job.convert, kept_acls=None)
        return replace(job, name=None, home=run / REJECTS / REPLAYS, convert=options)
    job = load_job(path, words, request.environment)
    if run.absolute().parent != job.home.absolute():
        expected = "expected ⟦job_profile⟧, if the run had a profile"
        raise ConfigError(f"{run}: not a run of the job {job.name}; {expected}")
    return job


class _LastReplay(NamedTuple):
    """The last replay of an export, and when it began."""

    run: Path
    began: float
    is_over: bool


@dataclass(eq=False)
class _ExportReplay:
    """Replays an export of a run by a job, which is started with some options."""

    run: Path
    folder: Path
    job: Job
    starting: RunOptions
    observer: Observer

    @cached_property
    def index(self) -> Export:
        return read_export(self.folder)

    def replay(self, *, is_edited: bool = False) -> int:
        """Replay the remaining rejects; return the exit code."""
        self._check_run()
        self.mark_last()
        replayed, options = read_replayed(self.run), self._options()
        corrections = read_corrections(self.folder, self.index, replayed, read_options(options))
        same = files_as_exported(self.folder, self.index, replayed) if is_edited else []
        left = [path for path in corrections.left if path not in same]
        done = sorted(
            {number for file in self.index.files for number in file.numbers} & {*replayed}
        )
        self._tell("already replayed", "reject", [*map(str, done)])
        self._tell("still as exported", "file", same)
        self._tell("still damaged", "file", left)
        if not corrections.inputs and not done:
            raise ConfigError(f"{self.folder}: nothing to replay; expected corrected files")
        exit_code = 0
        if corrections.inputs:
            exit_code = self._start(replace(options, inputs=tuple(corrections.inputs)))
        if corrections.inputs and exit_code in (0, FINDINGS_EXIT) and (last := self.mark_last()):
            count = counted(len(read_replayed(self.run)) - len(replayed), "reject")
            self.observer.notice(f"feedferry: {last.run}: {count} of {self.run} replayed")
            edited = self._files_edited_since(last.began)
            self._tell("edited since this replay began, so replay again", "file", edited)
            exit_code = FINDINGS_EXIT if edited else exit_code
        return exit_code or (FINDINGS_EXIT if corrections.left else 0)

    def mark_last(self) -> _LastReplay | None:
        """Mark the rejects that the last replay has converted, if it is over; return it.

        Nothing is marked if files were edited since: what they were then is not known.
        """
        last = self._last()
        if last is not None and last.is_over and not self._files_edited_since(last.began):
            replayed, reading = read_replayed(self.run), read_options(self._options())
            corrections = read_corrections(self.folder, self.index, replayed, reading)
            mark_replayed(self.run, converted_numbers(last.run, corrections), str(last.run))
        return last

    def _files_edited_since(self, began: float) -> list[str]:
        paths = {file.path: self.folder / file.path for file in self.index.files}
        return [
            name for name, path in paths.items() if path.exists() and path.stat().st_ctime > began
        ]

    def _last(self) -> _LastReplay | None:
        for record in reversed(runs_of(self.job.home)):
            if record.replay is not None and record.replay.export == str(self.folder.absolute()):
                run, began = shown_path(self.job.home / record.id), record.started_at.timestamp()
                return None if record.is_abandoned else _LastReplay(run, began, record.is_over)
        return None

    def _check_run(self) -> None:
        """Raise ConfigError unless the export is of this run."""
        record, origin = read_run(self.run), Path(self.index.run)
        if record is not None and record.started_at == self.index.began:
            return
        if origin.absolute() == self.run.absolute():
            command = shlex.join(["feedferry", "rejects", "export", str(self.run), "-o", "NEW"])
            raise ConfigError(f"{self.folder}: an export of an earlier run in {origin}: {command}")
        command = shlex.join(
            ["feedferry", "rejects", "replay", str(shown_path(origin)), str(self.folder)]
        )
        raise ConfigError(
            f"{self.folder}: an export of another run than {self.run.name}: {command}"
        )

    def _options(self) -> ConvertOptions:
        """Return the options for files of an export: no other source, and never full."""
        options = self.job.convert
        defaults: dict[str, object] = {
            name: declared.default
            for name, declared in flags_of(ConvertOptions).items()
            if declared.flag.section in _SOURCE_SECTIONS
        }
        has_limit = self.job.origins["rejects.max"].startswith("flag ")
        # Files of groups do not state their groupsource.
        has_chunks = (self.run / MANIFEST).exists()
        names = {chunk.datasource for chunk in read_manifest(self.run)} if has_chunks else {None}
        return replace(
            options,
            **defaults,
            datasource=options.datasource or (names.pop() if len(names) == 1 else None),
            from_format=None,
            mapping=None,
            feedtype=INCREMENTAL if options.feedtype == FULL else options.feedtype,
            max_rejects=options.max_rejects if has_limit else None,
        )

    def _start(self, options: ConvertOptions) -> int:
        """Convert and push by a new run, or by the last one if it is unfinished."""
        record, is_of_job = read_run(self.run), self.job.name is not None
        replay = Replay(
            run=self.run.name if is_of_job else str(self.run.absolute()),
            generation=None if record is None else record.generation,
            export=str(self.folder.absolute()),
        )
        job = replace(self.job, convert=options, has_state=False, replay=replay)
        return run_job(job, self.starting, self.observer).exit_code

    def _tell(self, what: str, noun: str, names: Sequence[str]) -> None:
        if names:
            text = f"feedferry: {self.folder}: {what}: {counted(len(names), noun)}"
            self.observer.notice(f"{text}: {names_text(names)}")


def _new_export(run: Path) -> Path:
    folders = (run / REJECTS).glob(f"{_EXPORT}-[0-9]*")
    numbers = (int(folder.name.rpartition("-")[2]) for folder in folders)
    return run / REJECTS / f"{_EXPORT}-{max(numbers, default=0) + 1}"
