"""Checks of this machine: folders, disk, state, secrets, schedule, and unfinished runs."""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from feedferry.pipelines.folders.job_folders import STATE, runs_of
from feedferry.pipelines.folders.manifest import read_manifest
from feedferry.pipelines.job.file.job import Job
from feedferry.schemas.check import CheckLine, fail, ok, warn
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.run_record import Phase
from feedferry.schemas.units import format_size
from feedferry.transforms.config.secrets import REFERENCE
from feedferry.transforms.config.yaml_structs import YAML_SUFFIXES, is_placeholder, read_scalars
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.sinks.push.throttle.window import zone_text
from feedferry.transforms.steps.stated.kept_file import check_kept
from feedferry.transforms.storage.state import check_state

_GROWTH = 1.4
"""The bytes of a feed for each byte of its documents: base64, and elements around it."""

_KEPT_RUNS = 2


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def check_folder(job: Job) -> Iterator[CheckLine]:
    """Write a file without a name into the folder of runs, or into the one that it is made in."""
    folder = _existing(job.home)
    try:
        with tempfile.TemporaryFile(dir=folder):
            yield ok("folder of runs", f"{job.home}: can be written")
    except OSError as exc:
        cure = f"let the user of the run write to {folder}, or choose another folder by `runs`"
        yield fail("folder of runs", f"{folder}: {exc.strerror}", cure)


def check_disk(job: Job, input_bytes: int, free: Callable[[Path], int]) -> CheckLine:
    """Compare the free disk space with the chunks of the last run, or with the input."""
    available = free(_existing(job.home))
    last = _last_run_bytes(job)
    needed = last if last is not None else int(input_bytes * _GROWTH)
    basis = "as the last run" if last is not None else "estimated from the input"
    found = f"{format_size(available)} free; a run needs {format_size(needed)}, {basis}"
    cure = "free some, keep fewer runs by `keep`, or choose another folder by `runs`"
    if available <= needed:
        return fail("disk", found, cure)
    if available < _KEPT_RUNS * needed:
        return warn("disk", found, cure)
    return ok("disk", found if needed else f"{format_size(available)} free; the need is not known")


def check_job_state(job: Job) -> Iterator[CheckLine]:
    if (acls := job.convert.acls_path) is not None and Path(acls).exists():
        check_kept(Path(acls))  # raises ConfigError
        yield ok("state", f"{acls}: can be read")
    path = Path(job.convert.state) if job.convert.state else job.home / STATE
    if not (job.has_state or job.convert.state):
        return
    if not path.exists():
        yield ok("state", f"{path}: none yet, so the next run reads everything")
        return
    check_state(path)  # raises ConfigError
    if os.access(path, os.W_OK):
        yield ok("state", f"{path}: can be read and written")
    else:
        yield fail("state", f"{path}: cannot be written", "let the user of the run write to it")


def check_secrets(job: Job) -> Iterator[CheckLine]:
    """Check who can read the files that hold secrets; their content is not read."""
    mapping = (job.convert.mapping,) if job.convert.mapping else ()
    configs = [*filter(None, [job.path]), *map(Path, (*job.convert.inputs, *mapping))]
    for config in dict.fromkeys(path for path in configs if path.suffix in YAML_SUFFIXES):
        if not config.is_file():
            continue
        for kind, name in REFERENCE.findall(config.read_text("utf-8", "replace")):
            if kind == "file" and (path := config.parent / name).is_file():
                yield _check_mode(path)


def check_placeholders(mapping: str | None, job: Job | None) -> Iterator[CheckLine]:
    """Warn about names that a draft of `init` leaves to its user, and that are still there."""
    values = [] if job is None else [job.convert.base_url, job.convert.url_template]
    if job is not None and job.push is not None:
        values += [job.push.appliance.url, job.push.appliance.profile]
    with suppress(ConfigError):  # the check of the source reports it
        values += [read_scalars(Path(mapping)).get("url")] if mapping else []
    for value in values:
        if value and is_placeholder(value):
            cure = "replace it by the real name before documents are sent"
            yield warn("placeholder", f"{value}: the name of an example", cure)


def check_schedule(push: PushSettings, now: datetime) -> Iterator[CheckLine]:
    """Check that chunks can be sent between now and the deadline."""
    zone = f"this machine is in {zone_text(now)}"
    if push.window is None:
        yield ok("schedule", f"feeds are sent at any time; {zone}")
        return
    opens = push.window.opens_at(now)
    found = f"feeds are sent {push.window.text}, next {opens:%a %H:%M %Z}; {zone}"
    if push.deadline is not None and push.deadline <= opens.timestamp():
        deadline = datetime.fromtimestamp(push.deadline).astimezone()
        cure = "choose a later deadline or an earlier window, or nothing is sent"
        yield fail("schedule", f"{found}; the deadline, {deadline:%a %H:%M %Z}, is earlier", cure)
    else:
        yield ok("schedule", found)


def check_unfinished(job: Job) -> Iterator[CheckLine]:
    """Warn about a run that `run` would go on with."""
    for record in runs_of(job.home)[-1:]:
        if record.phase is not Phase.DONE and not record.is_abandoned:
            found = f"{record.id}: ended in the phase {record.phase.value}"
            cure = "`feedferry run` goes on with it; with ⟦fresh⟧, it begins anew"
            yield warn("unfinished run", f"{found}, attempt {record.attempts}", cure)


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def _last_run_bytes(job: Job) -> int | None:
    """Return the bytes of the chunks of the last finished run, None before the first."""
    for record in reversed(runs_of(job.home)):
        if record.phase is Phase.DONE:
            try:
                return sum(chunk.bytes for chunk in read_manifest(job.home / record.id))
            except ConfigError:  # its files were removed
                continue
    return None


def _check_mode(path: Path) -> CheckLine:
    mode = stat.S_IMODE(path.stat().st_mode)
    found = f"{path}: mode {mode:04o}"
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        return warn("secret", f"{found}, open to other users", f"chmod 600 {path}")
    return ok("secret", found)
