"""A job: everything that one job file states, decoded and checked."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from pipelines.cli.convert_options import ConvertOptions
from schemas.run_record import Replay
from transforms.sinks.push.settings import PushSettings


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """The finished runs that are kept: the newest `runs`, or those younger than `seconds`.

    `None` sets no limit. Failed and unfinished runs are always kept.
    """

    runs: int | None = None
    seconds: float | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job file after flags and environment variables have been applied.

    `convert.output` is the folder of the next run only after the run has chosen it; `push` is
    `None` if the target has no URL. `home` is the folder of the runs of this job, `RUNS/JOB`.
    `has_state` says whether the runs of the job share a state in `home`. `replay` is that of a run
    which does not read the source. `deadline` is in seconds
    since the epoch. `origins` tells for each key where its value came from: `flag --NAME`,
    `environment NAME`, `FILE:LINE:COLUMN` or `default`. `settings` has the values that are not
    defaults, with references in place of secrets.
    """

    name: str
    path: Path
    home: Path
    convert: ConvertOptions
    push: PushSettings | None = None
    has_state: bool = False
    replay: Replay | None = None
    keep: Retention = Retention()
    metrics_file: Path | None = None
    deadline: float | None = None
    origins: Mapping[str, str] = {}
    settings: Mapping[str, object] = {}
