"""A job: everything that one job file states, decoded and checked."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec

from pipelines.job.key_wording import KeyWording
from pipelines.options.compare_options import VerifyOptions
from pipelines.options.convert_options import ConvertOptions
from pipelines.options.display_options import LogOptions
from schemas.errors import errors_worded
from schemas.run_record import Replay
from schemas.setting import in_flags
from transforms.sinks.push.settings import PushSettings


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """The finished runs that are kept: the newest `runs`, or those younger than `seconds`.

    `None` sets no limit. Failed and unfinished runs are always kept.
    """

    runs: int | None = None
    seconds: float | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job file after flags and environment variables have been applied, or flags only.

    A job of flags, as `convert -o` has, has no name and no `path`; its only run is in `home`, which
    is `convert.output`. For other jobs, `home` is the folder of their runs, `RUNS/JOB`, and
    `convert.output` is that of the next run only after the run has chosen it. `push` is `None` if
    the target has no URL, `verify` without a comparison after the push.
    `has_state` says whether the runs of the job share a state in `home`. `replay` is that of a run
    which does not read the source. `deadline` is in seconds
    since the epoch. `origins` tells for each key where its value came from: `flag --NAME`,
    `environment NAME`, `FILE:LINE:COLUMN` or `default`. `settings` has the values that are not
    defaults, with references in place of secrets.
    """

    name: str | None = None
    path: Path | None = None
    home: Path
    convert: ConvertOptions
    log: LogOptions = LogOptions()
    push: PushSettings | None = None
    verify: VerifyOptions | None = None
    has_state: bool = False
    replay: Replay | None = None
    keep: Retention = Retention()
    metrics_file: Path | None = None
    deadline: float | None = None
    origins: Mapping[str, str] = {}
    settings: Mapping[str, object] = {}

    def reword(self, text: str) -> str:
        """Return a message in terms of the keys of the job file, or of flags if it has none."""
        return in_flags(text) if self.path is None else KeyWording(self.path, self.origins)(text)

    def errors_in_keys(self) -> AbstractContextManager[None]:
        """Raise the errors of the block in terms of the keys of the job file, if it has one."""
        if self.path is None:
            return nullcontext()
        return errors_worded(KeyWording(self.path, self.origins).located)
