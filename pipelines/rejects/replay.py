"""Convert rejects again, corrected or with other settings, as a new run of the same job.

A replay converts the files of an export. It is never full, keeps the state of the job, and has no
limit for rejects unless one is given. Rejects that it converts are marked in their own run.
"""

import json
import re
import shlex
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.flags import decode, flags_of
from pipelines.cli.locks import WORK
from pipelines.cli.push_options import parse_push_to
from pipelines.cli.verb import Section
from pipelines.convert.run import run as run_conversion
from pipelines.job.folders import read_run, runs_of
from pipelines.job.job import Job
from pipelines.job.job_file import load_job
from pipelines.job.run import run as run_job
from pipelines.job.run_options import RunOptions
from pipelines.rejects.export import INDEX, Export, export
from pipelines.rejects.run_rejects import (
    EVERY_REJECT,
    REJECTS,
    RejectFilter,
    job_file_of,
    mark_replayed,
    rejects_of,
)
from schemas.errors import ConfigError
from schemas.feed import FULL, INCREMENTAL
from schemas.notice import REFUSED
from schemas.reject import Reject
from schemas.units import counted
from transforms.feed_elements import is_well_formed
from transforms.storage.atomic import whole_file

CORRECTED = "corrected"
"""Folder of damaged records that were corrected, in an export."""

_RUN = "run"
"""File of an export with the run that last replayed it."""

_REPLAY = "replay"
_HAS_REJECTS = 1
_COMMENT = re.compile(rb"<!-- ([0-9]+): ")
_SOURCE_SECTIONS = (Section.TREE, Section.SPOOL, Section.STATE)


def replay(
    run: Path,
    source: Path | RejectFilter,
    words: Mapping[str, object],
    *,
    job_file: Path | None,
    environment: Mapping[str, str],
) -> int:
    """Replay the files of an export, or new rejects of a run; return the exit code.

    A replay that was interrupted is resumed. Raises ConfigError if nothing can be replayed, and if
    that could undo a newer run.
    """
    job_file = job_file or job_file_of(run)
    job = None if job_file is None else load_job(job_file, words, environment)
    folder = source if isinstance(source, Path) else _unfinished(run, job)
    if folder is None:
        folder = _new_name(run / REJECTS, _REPLAY)
        chosen = source if isinstance(source, RejectFilter) else EVERY_REJECT
        export(run, chosen, folder, base=Path() if job is None else job.path.parent)
    index = read_export(folder)
    inputs, left = _inputs_of(folder, index)
    if not inputs:
        raise ConfigError(
            f"{folder}: {left} damaged files, and no other; expected one that is corrected"
        )
    if job is None:
        exit_code, made = _convert(run, folder, [*inputs], words)
    else:
        exit_code, made = _run_job(job, run, folder, [*inputs], words)
    if exit_code in (0, _HAS_REJECTS):
        count = _mark(run, made, inputs)
        if words.get("verbosity") != -1:
            click.echo(f"feedferry: {made}: {counted(count, 'reject')} of {run} replayed", err=True)
    if left:
        click.echo(f"feedferry: {folder}: still damaged: {counted(left, 'file')}", err=True)
    return exit_code or (_HAS_REJECTS if left else 0)


def read_export(folder: Path) -> Export:
    try:
        return msgspec.json.decode((folder / INDEX).read_bytes(), type=Export)
    except (OSError, msgspec.MsgspecError) as exc:
        raise ConfigError(
            f"{folder / INDEX}: {exc}; expected a folder that feedferry rejects export has written"
        ) from exc


def _inputs_of(folder: Path, index: Export) -> tuple[dict[str, list[int]], int]:
    """Return the files to convert with the numbers of their rejects, and how many are left.

    Damaged bytes that are well-formed now are completed to a feed.
    """
    inputs: dict[str, list[int]] = {}
    left = 0
    for file in index.files:
        path = (folder / file.path).absolute()
        if not path.exists():
            continue
        if file.is_raw:
            text = file.head.encode() + path.read_bytes() + file.tail.encode()
            if not file.head or not is_well_formed(text):
                left += 1
                continue
            path = folder.absolute() / CORRECTED / path.name
            path.parent.mkdir(exist_ok=True)
            with whole_file(path) as stream:
                stream.write(text)
        inputs[str(path)] = file.numbers
    return inputs, left


def _convert(
    run: Path, folder: Path, inputs: list[str], words: Mapping[str, object]
) -> tuple[int, Path]:
    """Convert with the settings of a conversion that has no job."""
    marker = folder / _RUN
    made = Path(str(words.get("output") or _new_name(run.parent, f"{run.name}-{_REPLAY}")))
    if marker.exists() and Path(marker.read_text("utf-8"), WORK).is_dir():
        made = Path(marker.read_text("utf-8"))  # it was interrupted
    marker.write_text(str(made), "utf-8")
    stated = {**_settings_of(run, folder), **_given(ConvertOptions, words)}
    values = {**stated, "inputs": tuple(inputs), "output": str(made)}
    options = msgspec.convert(values, ConvertOptions, strict=False, from_attributes=True)
    options = _for_replay(options, inputs, words)
    return run_conversion(options, parse_push_to(words)), made


def _run_job(
    job: Job, run: Path, folder: Path, inputs: list[str], words: Mapping[str, object]
) -> tuple[int, Path]:
    options = decode(RunOptions, words)
    marker = folder / _RUN
    resumed = marker.read_text("utf-8") if marker.exists() else ""
    records = runs_of(job.home)
    command = f"feedferry run {shlex.quote(str(job.path))}"
    unfinished = [record.id for record in records if not record.is_over]
    if unfinished and unfinished != [resumed]:
        raise ConfigError(f"{job.home / unfinished[-1]}: an unfinished run; finish it: {command}")
    names = [record.id for record in records]
    first_later = names.index(run.name) + 1 if run.name in names else 0
    later = [name for name in names[first_later:] if name != resumed]
    if later and not options.allow_older:
        raise ConfigError(
            f"{run}: older than {later[-1]}, which may have sent newer documents; --allow-older"
            " replays it nevertheless"
        )
    try:
        convert = _for_replay(job.convert, inputs, words)
        options = replace(options, only_resume=bool(unfinished))  # and not replay again after it
        exit_code = run_job(replace(job, convert=convert, has_state=False), options)
    finally:
        if records := runs_of(job.home):
            marker.write_text(records[-1].id, "utf-8")
    made = job.home / records[-1].id
    return exit_code, made.relative_to(Path.cwd()) if made.is_relative_to(Path.cwd()) else made


def _for_replay(
    options: ConvertOptions, inputs: list[str], words: Mapping[str, object]
) -> ConvertOptions:
    """Return the options for files of an export: no source but those, and never full."""
    defaults: dict[str, Any] = {  # of any type
        name: declared.default
        for name, declared in flags_of(ConvertOptions).items()
        if declared.flag.section in _SOURCE_SECTIONS
    }
    return replace(
        options,
        **defaults,
        inputs=tuple(inputs),
        from_format=None,
        mapping=None,
        feedtype=INCREMENTAL if options.feedtype == FULL else options.feedtype,
        max_rejects=options.max_rejects if words.get("max_rejects") is not None else None,
    )


def _settings_of(run: Path, folder: Path) -> dict[str, Any]:
    """Return the options of a conversion, by the names of their fields, from its report."""
    report = json.loads((run / "report.json").read_bytes())
    if "settings" not in report:
        raise ConfigError(
            f"{run}: a push of files; expected a conversion: push the files of an export with"
            " feedferry push"
        )
    settings: dict[str, Any] = report["settings"]
    target, reading = settings["target"], settings["reading"]
    every = {**settings["writing"], **reading, **reading["docids"], **target, **settings}
    names = {*ConvertOptions.__struct_fields__} - {"max_rejects", "known_urls"}
    values = {name: every[name] for name in names & {*every}}
    refused = frozenset(settings["refused"])
    if target["known_urls"]:
        path = folder / "known-urls.txt"
        path.write_text("\n".join(target["known_urls"]), "utf-8")
        values["known_urls"] = str(path)
    return {
        **values,
        "to_format": target["format"],
        "allow_wide_deletes": target["wide_deletes"],
        "fields": target["named_fields"],
        "strict": reading["mode"] == "strict",
        "accept_loss": REFUSED - refused,
        "fail_on_loss": refused - REFUSED,
    }


def _given(options: type[msgspec.Struct], words: Mapping[str, object]) -> dict[str, object]:
    return {
        name: declared.parse(words[name])
        for name, declared in flags_of(options).items()
        if words.get(name) not in (None, ())
    }


def _mark(run: Path, made: Path, index: dict[str, list[int]]) -> int:
    """Mark the rejects that were not rejected again; return their number.

    `index` has the numbers of the rejects in each file. The comment before a record says which
    reject it is; without comments, its URL does.
    """
    urls = {found.number: found.reject.url for found in rejects_of(run)}
    rejected: dict[str, list[Reject]] = {path: [] for path in index}
    refused: set[str | None] = set()
    for found in rejects_of(made):
        if found.reject.source in rejected:
            rejected[found.reject.source].append(found.reject)
        else:  # by the appliance
            refused.add(found.reject.url)
    numbers = [
        number
        for path, of_file in index.items()
        for number in _converted(Path(path), of_file, rejected[path], urls)
        if urls.get(number) is None or urls[number] not in refused
    ]
    mark_replayed(run, numbers, str(made))
    return len(numbers)


def _converted(
    path: Path, numbers: list[int], rejected: list[Reject], urls: Mapping[int, str | None]
) -> list[int]:
    """Return the numbers of the rejects that a file had and of which none is in `rejected`."""
    if not rejected:
        return numbers
    comments = [(match.start(), int(match[1])) for match in _COMMENT.finditer(path.read_bytes())]
    again_urls = {reject.url for reject in rejected}
    if not comments and None in again_urls:
        return []
    positions = [bisect_right(comments, (reject.offset, 0)) - 1 for reject in rejected]
    again = {comments[position][1] for position in positions if position >= 0}
    known = {number for _, number in comments}
    return [
        number
        for number in numbers
        if number not in again
        and (number in known or (urls.get(number) and urls[number] not in again_urls))
    ]


def _unfinished(run: Path, job: Job | None) -> Path | None:
    """Return the export of a replay that was interrupted."""
    for folder in (run / REJECTS).glob(f"{_REPLAY}-*"):
        if (folder / _RUN).exists():
            made = (folder / _RUN).read_text("utf-8")
            record = read_run(Path(made) if job is None else job.home / made)
            is_open = Path(made, WORK).is_dir() if record is None else not record.is_over
            if is_open:
                return folder
    return None


def _new_name(folder: Path, name: str) -> Path:
    numbers = (int(path.name.rpartition("-")[2]) for path in folder.glob(f"{name}-[0-9]*"))
    return folder / f"{name}-{max(numbers, default=0) + 1}"
