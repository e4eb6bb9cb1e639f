"""A job: everything that one job file states, decoded and checked."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.job.file.job_keys import JobKey, job_keys
from feedferry.pipelines.options.compare_options import TARGET, VerifyOptions
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.display_options import LogOptions
from feedferry.schemas.errors import ConfigError, errors_worded
from feedferry.schemas.run_record import Replay
from feedferry.schemas.setting import Setting, as_flag, in_flags, settings_in, worded
from feedferry.transforms.formats import by_name
from feedferry.transforms.sinks.push.settings import Keep, PushSettings

_BY_VARIABLE = "environment "
"""The begin of the origin of a value that a variable states."""

BY_SET = "flag --set "
"""The begin of the origin of a value that --set states; the key follows."""


class KeyWording(msgspec.Struct, frozen=True):
    """Words messages with the keys of a job file, and with --set in parentheses.

    A flag that was given stays a flag, and a message about a value of a variable names that.
    """

    path: Path
    origins: Mapping[str, str]

    def __call__(self, text: str) -> str:
        return worded(text, self._word)

    def located(self, message: str) -> str:
        """Return a message, in each line with the place of the first key that has one."""
        return "\n".join(map(self._located, message.splitlines()))

    def _located(self, line: str) -> str:
        keys = [key.path for name in settings_in(line) if (key := self._key(name)) is not None]
        if not keys:
            return self(line)
        near = (*keys, *(f"{key.partition('.')[0]}.type" for key in keys))
        origins = [self.origins.get(key, "") for key in near]
        if origins[0].startswith((_BY_VARIABLE, BY_SET)):
            return self(line)
        places = [origin for origin in origins if origin.startswith(f"{self.path}:")]
        return f"{(*places, self.path)[0]}: {self(line)}"

    def _key(self, name: str) -> JobKey | None:
        """Return the key of a setting; None if it has none, or was given by a flag of its own."""
        key = key_of(name)
        origin = "" if key is None else self.origins.get(key.path, "")
        return None if origin.startswith("flag ") and not origin.startswith(BY_SET) else key

    def _word(self, setting: Setting) -> str:
        key = self._key(setting.name)
        if key is None:
            return as_flag(setting)
        origin = self.origins.get(key.path, "")
        if setting.is_subject and origin.startswith(_BY_VARIABLE):
            return origin.removeprefix(_BY_VARIABLE)
        if setting.is_subject and origin.startswith(BY_SET):
            return f"{origin.removeprefix('flag ')} {setting.value}".rstrip()
        value = setting.value
        if key.declared.is_switch:
            value = str(key.declared.default is not True).lower()
        if setting.is_subject or setting.name == "state" or not value:
            return f"{key.path} {setting.value}".rstrip()
        return f"{_as_yaml(key, value)} (--set {key.path}={value})"


def key_of(name: str) -> JobKey | None:
    """Return the key of a setting, by the name of its field."""
    keys = job_keys()
    if name == "state":
        return keys["state"]
    return next((key for key in keys.values() if key.declared.field == name), None)


def _as_yaml(key: JobKey, value: str) -> str:
    """Return a key with its value as in a job file: `loss: {accept: [acl]}`."""
    section, *names = key.path.split(".")
    text = f"[{value}]" if key.is_list else value
    for name in reversed(names):
        text = f"{{{name}: {text}}}"
    return f"{section}: {text}"


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """The finished runs that are kept: the newest `runs`, or those younger than `seconds`.

    `None` sets no limit. Failed and unfinished runs are always kept.
    """

    runs: int | None = None
    seconds: float | None = None


class Notify(msgspec.Struct, frozen=True):
    """A command that is started after each run, and its time limit in seconds."""

    command: str
    seconds: float


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job file after flags and environment variables have been applied, or flags only.

    A job of flags, as `convert -o` has, has no name and no `path`; its only run is in `home`, which
    is `convert.output`. For other jobs, `home` is the folder of their runs, `RUNS/JOB`, and
    `convert.output` is that of the next run only after the run has chosen it. The job that replays
    a run of flags has no name; its `path` is the settings of that run. `push` is `None` if the
    target has no URL, `verify` without a comparison after the push. `has_state` says whether the
    runs of the job share a state in `home`. `replay` is that of a run which does not read the
    source. `deadline` is in seconds since the epoch. `origins` states for each key where its value
    came from: `flag --NAME`, `environment NAME`, `FILE:LINE:COLUMN` or `default`. `settings` has
    the values that are not defaults, with references in place of secrets.
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
    notify: Notify | None = None
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


def verify_options(options: VerifyOptions, push: PushSettings | None) -> VerifyOptions:
    """Return the options with the address of the appliance in place of `target`.

    Raise ConfigError for a job that pushes nothing, or removes the chunks that are to be compared,
    and for an appliance that cannot list its documents.
    """
    from feedferry.pipelines.compare.verify import find_listing  # loads the HTTP client

    if push is None:
        raise ConfigError("⟦against⟧: the job pushes nothing; expected ⟦url⟧ of the target")
    if push.keep is not Keep.ALL:
        raise ConfigError("⟦keep⟧ refused and ⟦against⟧: both given; the chunks are compared")
    if options.against == TARGET:
        options = replace(options, against=push.appliance.url)
    find_listing(options, {}, push)
    return options


def check_compared_format(name: str, options: VerifyOptions | None) -> None:
    """Raise ConfigError for a run that is to be compared, and whose chunks cannot be read."""
    if options is not None and not by_name(name).is_read:
        raise ConfigError(
            f"⟦against⟧: the run is compared by its chunks, and {name} is only written; expected a"
            " target whose format is read"
        )
