"""The functions of the Python API, which `feedferry` exports.

Settings are those of the command: the names of its flags with underscores, and the same texts, or
Python values: numbers for sizes and times in bytes and seconds, `True` for a switch, any iterable
for a flag that may be repeated or that takes a list, a mapping for pairs.
"""

import enum
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import msgspec

from feedferry.pipelines.inspect.inspection import Inspection, read_results
from feedferry.pipelines.inspect.inspection import inspect as inspect_inputs
from feedferry.pipelines.inspect.inspection import parse as parse_inspect
from feedferry.pipelines.job.file.flag_job import job_of_flags
from feedferry.pipelines.job.file.job_file import load_job
from feedferry.pipelines.job.run.run_result import JobResult, RunResult
from feedferry.pipelines.observer.observer import LoggedObserver, Observer
from feedferry.pipelines.options.convert_options import ConvertOptions, PlanOptions
from feedferry.pipelines.options.display_options import LogOptions
from feedferry.pipelines.options.flags import FieldFlag, decode, flags_of
from feedferry.pipelines.options.job_options import JobOptions, OverrideOptions, RunOptions
from feedferry.pipelines.options.push_options import ApplianceOptions, PushOptions, parse_push
from feedferry.pipelines.plan.plan import Plan
from feedferry.pipelines.plan.planned_job import find_planned, plan_job
from feedferry.pipelines.push.engine import push as push_runs
from feedferry.pipelines.push.record import PushResult
from feedferry.schemas.errors import ConfigError, errors_worded
from feedferry.schemas.membership import Membership
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.setting import in_parameters
from feedferry.schemas.spelling import did_you_mean
from feedferry.transforms.formats import FORMATS, Format

Inputs = str | Path | Iterable[str | Path]


def formats() -> tuple[Format, ...]:
    """Return the formats, those of other packages included."""
    return tuple(FORMATS)


def read(
    inputs: Inputs, *, format: str | None = None, **settings: object
) -> Iterator[Record | Membership | Reject]:
    """Yield the records of files, folders, globs or URLs, in order, one in memory at a time.

    What cannot be read is a Reject in its place. The format is detected if it is not given.

    Raises ConfigError for inputs that cannot be used, FatalError where a source fails.
    """
    with errors_worded(in_parameters):
        words = _words(settings, ConvertOptions)
        options = parse_inspect({**words, "inputs": _names(inputs), "from_format": format})
        for result in read_results(options):
            if isinstance(result, Record | Membership | Reject):
                yield result


@errors_worded(in_parameters)
def inspect(inputs: Inputs, **settings: object) -> Inspection:
    """Count the records of inputs: actions, sizes, MIME types, ACLs, groups, duplicates."""
    words = _words(settings, ConvertOptions)
    return inspect_inputs(parse_inspect({**words, "inputs": _names(inputs)}))


@errors_worded(in_parameters)
def plan(inputs: Inputs, *, observer: Observer | None = None, **settings: object) -> Plan:
    """Return what `convert` of the inputs, or `run` of one job file, would do; write nothing.

    Raises FeedferryError where the run would not begin; `stops` has the reasons for a later end.
    """
    words = _words(settings, ConvertOptions, ApplianceOptions, PlanOptions, OverrideOptions)
    sample = decode(PlanOptions, words).sample
    return plan_job(find_planned({**words, "inputs": _names(inputs)}), _with_log(observer), sample)


@errors_worded(in_parameters)
def convert(
    inputs: Inputs,
    output: str | Path,
    *,
    to_format: str,
    push_to: str | None = None,
    observer: Observer | None = None,
    **settings: object,
) -> RunResult:
    """Convert inputs into the chunks of another format, in the folder `output`, and push them.

    They are pushed if `push_to`, the URL of an appliance, is given. A conversion that was
    interrupted is resumed by the same call. Call it in the main thread to let a signal end a push
    between two chunks.

    Raises ConfigError before anything is written, StoppedError at a limit with nothing published,
    FatalError if a source, the storage or the appliance fails, BusyError for a locked folder.
    """
    words = _words(settings, ConvertOptions, ApplianceOptions, LogOptions, OverrideOptions)
    given = {"inputs": _names(inputs), "output": str(output), "to_format": to_format}
    job = job_of_flags({**words, **given, "url": push_to})
    result: RunResult = _load_engine().convert(job, _with_log(observer))
    return result


@errors_worded(in_parameters)
def push(
    inputs: Inputs, url: str, *, observer: Observer | None = None, **settings: object
) -> tuple[PushResult, ...]:
    """Push the folders of finished runs, or feed files, to the appliance at a URL, in order.

    A push that was interrupted goes on with the same call. If a push stops, its account says why,
    and the runs after it are not begun.
    """
    words = _words(settings, PushOptions, ApplianceOptions)
    options, target = parse_push({**words, "inputs": _names(inputs), "url": url})
    return push_runs(options, target, _with_log(observer))


@errors_worded(in_parameters)
def run(
    job_file: str | Path,
    *,
    observer: Observer | None = None,
    environment: Mapping[str, str] | None = None,
    **settings: object,
) -> JobResult:
    """Run a job: finish its unfinished run, then begin a new one.

    Settings have precedence over environment variables, and those over the job file. `environment`
    is that of the process by default.
    """
    kinds = (ConvertOptions, ApplianceOptions, JobOptions, RunOptions, LogOptions, OverrideOptions)
    words = _words(settings, *kinds)
    variables = os.environ if environment is None else environment
    job = load_job(Path(job_file), {**words, "deadline": None}, variables)
    options = decode(RunOptions, words)
    logged = LoggedObserver(observer or Observer(), job.reword)
    result: JobResult = _load_engine().run(job, options, logged)
    return result


def _load_engine() -> ModuleType:
    """Return the engine of jobs; Beam, when loaded, configures a root logger without handlers."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        from feedferry.pipelines.job.run import engine
    finally:
        root.removeHandler(handler)
    return engine


def _with_log(observer: Observer | None) -> Observer:
    return LoggedObserver(observer or Observer(), in_parameters)


def _names(inputs: Inputs) -> tuple[str, ...]:
    return (str(inputs),) if isinstance(inputs, str | Path) else tuple(map(str, inputs))


def _words(settings: Mapping[str, object], *options: type[msgspec.Struct]) -> dict[str, object]:
    """Return the words of a command line for settings; raise ConfigError for an unknown one."""
    flags = {name: flag for struct in options for name, flag in flags_of(struct).items()}
    for name in settings:
        if name not in flags:
            raise ConfigError(f"{name}: no such setting{did_you_mean(name, flags)}")
    return {name: _word(flags[name], value) for name, value in settings.items()}


def _word(flag: FieldFlag, value: object) -> object:
    """Return a value as the parser of a flag takes it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, int | float):
        return flag.value.format(value)
    if isinstance(value, Mapping):
        value = [f"{key}={item}" for key, item in value.items()]
    if isinstance(value, Iterable) and not isinstance(value, str):
        texts = tuple(map(str, value))
        return texts if flag.is_repeatable else ",".join(texts)
    return (str(value),) if flag.is_repeatable else str(value)
