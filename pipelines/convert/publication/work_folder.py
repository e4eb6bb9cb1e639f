"""The folder of an unfinished run, `DIR/.work/FINGERPRINT`, from which it is resumed.

The fingerprint is a hash of the inputs and of the options that affect the output, so that a run is
only resumed for the same work. Before the pipeline begins, the files that sources made there (lists
of documents, plans, selections) are hashed into a seal: a run that continued with a list that lost
its last lines would silently leave out documents. A run whose seal does not fit begins again.
"""

import os
import shutil
from pathlib import Path

import msgspec

from feedferry.pipelines.convert.inputs.input_files import STDIN_COPY
from feedferry.pipelines.convert.publication.publish import PUBLISHED
from feedferry.pipelines.folders.locks import LOCK, PUSHES, SEAL, SEALED, WORK, locked_pushes
from feedferry.pipelines.folders.manifest import REPORT, check_own_folder
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.account import SpanFile
from feedferry.schemas.errors import ConfigError, FatalError
from feedferry.schemas.timeline import TIMELINE
from feedferry.transforms.steps.kept_acls import REPLACED_ACLS
from feedferry.transforms.storage.atomic import read_undamaged, write_whole
from feedferry.transforms.storage.run_folders.attempts import digest_of, is_untouched
from feedferry.transforms.storage.storage import PARTIAL, LocalStorage

_FINISHED = (*PUBLISHED, REPORT, PUSHES, REPLACED_ACLS)
"""The files of a finished run in its output folder."""

_LOGS = (TIMELINE, "report.html", "verification.json", "differences.jsonl")
"""Files that each attempt of a run writes, also one that ends before its conversion."""

_REMOVED = ".over"
"""Suffix of the folder of a run that is being removed."""


def check_output(output: Path, options: ConvertOptions) -> None:
    """Raise ConfigError for a folder of others, or for an input that would be removed."""
    check_own_folder(output)
    for name in options.inputs:
        is_local = "://" not in name
        if options.fresh and is_local and Path(name).absolute().is_relative_to(output.absolute()):
            raise ConfigError(
                f"⟦inputs⟧: {name!r} is in ⟦output {output}⟧, which ⟦fresh⟧ would remove"
            )


def open_work_folder(output: Path, fingerprint: str, options: ConvertOptions) -> Path:
    """Return the folder of a run, new or to be resumed, after removing what must not be resumed."""
    for path in (output / WORK).glob(f"*{_REMOVED}"):
        _remove(path)
    for path in output.glob(f"*{PARTIAL}"):  # of a run that was killed while it wrote its page
        if path.is_file():
            path.unlink(missing_ok=True)
    if options.fresh:
        _remove_earlier_runs(output)
    work = output / WORK / fingerprint
    check_unused(output, work, options)
    if work.exists() and not is_sealed(work, verify=options.verify):
        _check_can_begin_again(work, output, options)
        _remove_folder(work)
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigError(
            f"⟦output⟧ {output}: {exc.strerror}; expected a folder to write in"
        ) from exc
    return work


def find_work(output: Path) -> Path | None:
    """Return the folder from which a run in `output` is resumed, None if there is none."""
    folders = (path for path in (output / WORK).glob("*") if path.is_dir())
    return next((path for path in folders if path.suffix != _REMOVED), None)


def close_work_folder(work: Path) -> None:
    """Remove the files of all unfinished runs of an output folder; its lock stays."""
    _remove_folder(work)
    for path in work.parent.glob("*"):
        if path.name != LOCK:
            _remove(path)


def seal(work: Path) -> None:
    """Hash the files that were made before the pipeline begins.

    Call this only in a new run, or in one whose seal fits: files that differ from the seal were
    made by this run.
    """
    sealed = {file.path: file for file in read_undamaged(work / SEAL, list[SpanFile]) or ()}
    paths = sorted(path for pattern in SEALED for path in work.glob(pattern))
    files = [_describe(path, sealed.get(path.name)) for path in paths]
    if files != list(sealed.values()) or not (work / SEAL).exists():
        write_whole(work / SEAL, msgspec.json.encode(files))


def is_sealed(work: Path, *, verify: bool) -> bool:
    """Whether a run has a seal, and all sealed files are unchanged."""
    files = read_undamaged(work / SEAL, list[SpanFile])
    return files is not None and LocalStorage(work).are_whole(files, verify=verify)


def check_unused(output: Path, work: Path, options: ConvertOptions) -> None:
    """Raise ConfigError for the output of a finished run, unless the run at `work` goes on."""
    names = [name for name in _FINISHED if (output / name).exists()]
    if names and not options.fresh and not work.exists():
        raise ConfigError(
            f"⟦output⟧ {output}: holds {names[0]} of a finished run; expected another"
            " folder, or ⟦fresh⟧"
        )


def _check_can_begin_again(work: Path, output: Path, options: ConvertOptions) -> None:
    """Raise FatalError for a damaged run that has published and may have updated its state.

    With the new state, the run would find nothing to do.
    """
    if options.state is not None and (output / REPORT).exists():
        raise FatalError(
            f"{work}: files of the run are damaged; its output is published in {output}:"
            " push that, or begin again with ⟦fresh⟧"
        )


def _remove_earlier_runs(output: Path) -> None:
    with locked_pushes(output):
        for name in (*_FINISHED, *_LOGS):
            _remove(output / name)
    for path in (output / WORK).glob("*"):
        if path.name not in (STDIN_COPY, LOCK):  # the copy of standard input is new
            _remove(path)


def _remove_folder(work: Path) -> None:
    """Remove the folder of a run, which is renamed first.

    A run that is killed while it removes files must not leave a folder that looks resumable. Worker
    processes that outlived their run may still write.
    """
    removed = work.with_suffix(_REMOVED)
    os.replace(work, removed)
    shutil.rmtree(removed, ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _describe(path: Path, sealed: SpanFile | None) -> SpanFile:
    if sealed is not None and is_untouched(path, sealed):
        return sealed
    status = path.stat()
    return SpanFile(
        path=path.name, bytes=status.st_size, sha256=digest_of(path), modified_ns=status.st_mtime_ns
    )
