"""Load a job file: YAML, merged with a profile, with environment variables, and with --set.

All errors are reported at once, each with its place. A reference `${env:NAME}` or `${file:PATH}` is
resolved when the job is loaded, and a relative path belongs to the folder of the file.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.convert.inputs.source_runs import check_source_datasource, source_options
from feedferry.pipelines.folders.job_folders import STATE
from feedferry.pipelines.job.file.job import (
    BY_SET,
    Job,
    KeyWording,
    Notify,
    Retention,
    check_compared_format,
    verify_options,
)
from feedferry.pipelines.job.file.job_keys import (
    FEEDS,
    SECTIONS,
    TRANSFORM,
    VARIABLE,
    JobKey,
    job_keys,
    job_type,
)
from feedferry.pipelines.options.compare_options import TARGET, VerifyOptions
from feedferry.pipelines.options.convert_checks import check_together, parse_each
from feedferry.pipelines.options.convert_options import ACLS_SUFFIX, ConvertOptions
from feedferry.pipelines.options.display_options import LogOptions
from feedferry.pipelines.options.flags import decode
from feedferry.pipelines.options.job_options import JobOptions, OverrideOptions
from feedferry.pipelines.options.push_options import (
    ApplianceOptions,
    PushOptions,
    check_pushed_format,
    parse_push_to,
)
from feedferry.pipelines.options.value_parsers import DELIMITER, TEXT, TO
from feedferry.schemas.check import CheckLine, ok
from feedferry.schemas.errors import ConfigError, raise_together
from feedferry.schemas.feed import FULL
from feedferry.schemas.span import Span
from feedferry.schemas.spelling import did_you_mean
from feedferry.transforms.config.secrets import (
    REFERENCE,
    check_no_secret,
    check_references,
    resolve,
    with_absolute_files,
)
from feedferry.transforms.config.yaml_structs import (
    SET,
    YAML_SUFFIXES,
    Decoded,
    Layers,
    Override,
    decode_located,
    profiles_of,
    read_text,
)
from feedferry.transforms.formats import OwnOptions
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.sinks.push.throttle.window import zone_text
from feedferry.transforms.sources import SPOOLS, find_source

_TOP_KEY = re.compile(r"^(version|job|source|target)[ \t]*:", re.MULTILINE)
_HEAD_CHARS = 1 << 16
KEYS_WITH_FLAGS = (
    *("jobs", "cluster.runner", "cluster.url", "log.file", "log.format"),
    "notify.command",
)
"""The keys that have flags in all verbs that start a job."""

_PYTHON_TYPES = {"string": str, "integer": int, "number": int | float}
_Result = TypeVar("_Result")


class KeyValue(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a key: the `word` of its flag, and the value to show, without secrets."""

    word: object
    shown: object
    origin: str = ""


def is_job_file(path: Path) -> bool:
    """Whether a file is a job file, by the keys at its top."""
    if path.suffix not in YAML_SUFFIXES or not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as stream:
        return len({*_TOP_KEY.findall(stream.read(_HEAD_CHARS))}) > 1


def job_file_of(words: Mapping[str, object]) -> Path | None:
    """Return the only INPUT if it is a job file."""
    inputs = words["inputs"]
    names = inputs if isinstance(inputs, tuple) else ()
    if len(names) == 1 and is_job_file(path := Path(names[0])):
        return path
    return None


def refuse_layers(words: Mapping[str, object]) -> None:
    """Raise ConfigError for flags that change a job file, where there is none."""
    for name in OverrideOptions.__struct_fields__:
        if words.get(name) not in (None, ()):
            raise ConfigError(f"⟦{name}⟧: only with a job file; expected JOB as the only INPUT")


def words_with_set(words: Mapping[str, object]) -> dict[str, object]:
    """Return the words of flags, and of the keys that --set states without a job file.

    A flag has precedence over the key. Raise ConfigError for a key that only jobs have.
    """
    given = decode(OverrideOptions, words)
    refuse_layers({"job_profile": given.job_profile})
    if not given.overrides:
        return {**words}
    type_ = TO.parse(str(words.get("to_format")))
    text = f"version: 1\njob: set\nsource: {{type: {FEEDS}}}\ntarget: {{type: {type_}}}\n"
    settings, errors = _read_settings(Path("flags"), text, given, None)
    keys = job_keys()
    stated = {path: item for path, item in settings.items() if item.origin.startswith(BY_SET)}
    errors += [
        f"--set {path}: a key of job files; expected one of a conversion or its target"
        for path in stated
        if keys[path].options not in (ConvertOptions, ApplianceOptions, LogOptions, OwnOptions)
    ]
    if errors:
        raise ConfigError("\n".join(errors))
    by_set = {keys[path].declared.field: item.word for path, item in stated.items()}
    return {**by_set, **{name: word for name, word in words.items() if word not in (None, ())}}


def refuse_flags_of_keys(words: Mapping[str, object]) -> None:
    """Raise ConfigError for flags that a job file has keys for, except the flags of `run`."""
    for path, key in job_keys().items():
        if path not in KEYS_WITH_FLAGS and words.get(key.declared.field) not in (None, ()):
            expected = f"expected --set {path}=VALUE"
            raise ConfigError(f"⟦{key.declared.field}⟧: not with a job file; {expected}")


def load_job(
    path: Path,
    words: Mapping[str, object],
    environment: Mapping[str, str],
    *,
    check: Callable[[ConvertOptions], object] = lambda options: None,
) -> Job:
    """Return the job of a file; raise ConfigError with all its errors, and those of `check`.

    `words` are the texts of flags by the names of their fields; `None` and `()` are not given. The
    flag of a key has precedence over --set, that over environment variables, those over --profile,
    and that over the file.
    """
    given = decode(OverrideOptions, words)
    settings, errors = _read_settings(path, read_text(path), given, environment)
    for key in job_keys().values():
        word = words.get(key.declared.field)
        if word is not None and word != ():
            shown = word if isinstance(word, bool | tuple) else str(word)
            settings[key.path] = KeyValue(
                word=word, shown=shown, origin=f"flag {key.declared.names[-1]}"
            )
    return _make_job(path, settings, words, errors, check)


def _read_settings(
    path: Path, text: str, given: OverrideOptions, environment: Mapping[str, str] | None
) -> tuple[dict[str, KeyValue], list[str]]:
    """Return the settings of a file, as overrides and variables change it, and the errors.

    Without an environment, no variable is used, and values with references are not checked.
    """
    reader = _ValueReader(path.absolute().parent, environment)
    pairs = frozenset(key.path for key in job_keys().values() if key.has_object)
    layers = Layers(given.job_profile, [*map(_override, given.overrides)], pairs)
    decoded = decode_located(text, job_type(reader.read), name=str(path), layers=layers)
    errors, places = [*decoded.errors], decoded.places
    settings = {
        # A section may be written as one value.
        name: _located(setting, name, places.get(name) or places[name.rpartition(".")[0]])
        for name, setting in reader.settings.items()
    }
    if steps := _steps_of(decoded, path):
        shown = msgspec.to_builtins(steps)
        setting = KeyValue(word=str(path.absolute()), shown=shown)
        settings[TRANSFORM] = _located(setting, TRANSFORM, places[TRANSFORM])
    for name, tag in decoded.tags.items():
        settings[name] = _located(KeyValue(word=tag, shown=tag), name, places[name])
    for key in job_keys().values():
        is_set = key.path in settings and settings[key.path].origin.startswith(BY_SET)
        if environment and key.variable in environment and not is_set:
            try:
                settings[key.path] = _from_environment(key, environment[key.variable])
            except (ValueError, ConfigError) as exc:
                errors.append(f"{key.variable}: {exc}")
    if given.job_profile is not None and (named := settings.get("job")):  # with runs of its own
        name = f"{named.word}-{given.job_profile}"
        settings["job"] = msgspec.structs.replace(named, word=name, shown=name)
    return settings, [*errors, *_unknown_variables(environment or {})]


def _steps_of(decoded: Decoded[msgspec.Struct], path: Path) -> object:
    """Return the steps of a file; raise ConfigError for a list of steps of another place."""
    steps = getattr(decoded.content, TRANSFORM, None)
    if not isinstance(steps, tuple):
        return None
    place = decoded.places[TRANSFORM]
    if place == SET or TRANSFORM in decoded.replaced:
        raise ConfigError(
            f"{place}: {TRANSFORM}: a list of steps; expected it at the top of {path}, or the name"
            " of a file with steps"
        )
    return steps


def _override(text: str) -> Override:
    """Return the value of KEY=VALUE: YAML for lists, objects, numbers and switches."""
    path, sign, value = text.partition("=")
    if not sign or not path:
        raise ConfigError(f"⟦overrides⟧: {text!r}; expected a key and a value, as jobs=2")
    key = job_keys().get(path)
    is_plain = key is not None and not key.is_pair and path != TRANSFORM and not key.is_list
    is_yaml = key is not None and key.is_scalar if is_plain else value.startswith(("[", "{"))
    return Override(path, value, is_yaml)


def _unknown_variables(environment: Iterable[str]) -> Iterator[str]:
    """Yield an error for each variable that seems to be for a key, and for which there is none."""
    known = {key.variable for key in job_keys().values()}
    begins = tuple(f"{VARIABLE}{section.upper()}_" for section in SECTIONS)
    for name in sorted({*environment} - known):
        if name.startswith(begins):
            hint = did_you_mean(name, known)
            yield f"{name}: no key of a job file; expected the name of a key{hint}"


def _located(setting: KeyValue, name: str, place: str) -> KeyValue:
    return msgspec.structs.replace(setting, origin=f"{BY_SET}{name}" if place == SET else place)


class _ValueReader:
    """Reads the values of a file, and collects the settings."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None) -> None:
        self._folder = folder
        self._environment = environment
        self.settings: dict[str, KeyValue] = {}

    def read(self, key: JobKey, value: object) -> object:
        """Store the setting of a value; raise ValueError, without a secret, if it is none."""
        shown = value
        try:
            shown = _map_texts(_typed(key, value), lambda text: self._shown(key, text))
            if self._environment is not None or not _has_reference(shown):
                word = _word(key, _map_texts(shown, lambda text: self._resolved(key, text)))
                _check(key, word)
            else:
                word = _word(key, shown)
        except ConfigError as exc:
            raise ValueError(self._redact(str(exc), shown)) from None
        self.settings[key.path] = KeyValue(word=word, shown=shown)
        return word

    def _shown(self, key: JobKey, text: str) -> str:
        """Return a text with its references; all paths are absolute."""
        if key.has_references:
            check_references(text)
            text = with_absolute_files(text, self._folder)
        return text if text.startswith("${") else key.absolute(self._folder, text)

    def _resolved(self, key: JobKey, text: str) -> str:
        """Return a text without references; those in a query of HTTP are resolved by the source."""
        type_ = key.declared.value
        if key.is_pair:
            resolve(text, self._environment)  # its user resolves it again
        if type_.schema != TEXT.schema:
            return text
        resolved = key.absolute(self._folder, resolve(text, self._environment))
        if type_.is_path and text.startswith(("http://", "https://")):
            return text
        try:
            check_no_secret(resolved)
        except ValueError:
            expected = "expected credentials where docs/formats/files.md says, Remote trees"
            raise ValueError(f"{text!r}: a password in a URL; {expected}") from None
        return resolved

    def _redact(self, message: str, shown: object) -> str:
        """Return a message with references in place of secrets."""
        for text in shown if isinstance(shown, tuple) else (shown,):
            for reference in REFERENCE.finditer(str(text)):
                with suppress(ConfigError):  # the message says that it has no value
                    secret = resolve(reference[0], self._environment)
                    message = message.replace(secret, reference[0]) if secret else message
        return message


def _has_reference(value: object) -> bool:
    texts = value if isinstance(value, tuple) else (value,)
    return any(REFERENCE.search(str(text)) for text in texts)


def _typed(key: JobKey, value: object) -> object:
    """Return a value of a file that has the type of its key; a list becomes a tuple."""
    schema = key.declared.value.schema
    if key.declared.is_switch:
        if not isinstance(value, bool):
            raise ValueError
    elif key.is_pair:
        pairs = [*value.items()] if isinstance(value, dict) else []
        if len(pairs) != 1 or not all(isinstance(text, str) for text in pairs[0]):
            raise ValueError(f"expected {key.expected}")
        return "=".join(pairs[0])
    elif key.is_list:
        list_of = key.declared.value.list_of
        if list_of is not None and isinstance(value, dict):
            value = list_of(value)
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) and item for item in items):
            raise ValueError
        if not items and key.is_required:
            raise ValueError("an empty list; expected at least one item")
        return tuple(items)
    else:
        stated = schema.get("type", "string")
        names = stated if isinstance(stated, list) else [stated]
        is_typed = isinstance(value, tuple(_PYTHON_TYPES[str(name)] for name in names))
        if not is_typed or isinstance(value, bool) or value == "":
            _check(key, str(value))  # raises ConfigError with the best message
            if value == "":
                raise ValueError("an empty text; expected a value")
            raise ValueError(f"{value!r}; expected {key.expected}, in quotes")
    if isinstance(value, str) and "\0" in value and key.declared.value is not DELIMITER:
        raise ValueError("a NUL character; expected a text without it")
    return value


def _map_texts(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, tuple):
        return tuple(change(str(item)) for item in value)
    return change(value) if isinstance(value, str) else value


def _word(key: JobKey, value: object) -> object:
    """Return a value as the flag of the key takes it; `None` for an empty list."""
    if isinstance(value, tuple) and not key.declared.is_repeatable:
        return ",".join(value) or None
    return value if isinstance(value, bool | tuple) else str(value)


def _check(key: JobKey, word: object) -> None:
    if word not in (None, FEEDS) and not isinstance(word, bool):  # feeds: of a detected format
        key.declared.value.parse(word)


def _from_environment(key: JobKey, text: str) -> KeyValue:
    check_no_secret(text)
    word: object = text
    if key.declared.is_switch:
        if text not in ("true", "false"):
            raise ValueError(f"{text!r}; expected true or false")
        word = text == "true"
    elif key.declared.is_repeatable:
        word = tuple(shlex.split(text))
    _check(key, word)
    return KeyValue(word=word, shown=word, origin=f"environment {key.variable}")


def _make_job(
    path: Path,
    settings: Mapping[str, KeyValue],
    words: Mapping[str, object],
    errors: list[str],
    check: Callable[[ConvertOptions], object],
) -> Job:
    """Return the job; raise ConfigError with the errors, and with all conflicts of its settings.

    An error about a key that has an error already is not reported.
    """
    origins = {key: settings[key].origin if key in settings else "default" for key in job_keys()}
    wrong = {key for key in job_keys() if any(_is_about(key, error) for error in errors)}
    own = decode(JobOptions, {"name": path.stem, **_words(settings, JobOptions)})
    runs = Path(own.runs) if "runs" in settings else path.parent / own.runs
    home = runs.absolute() / own.name
    stated = {**words, **_words(settings, ConvertOptions), **_words(settings, OwnOptions)}
    given: dict[str, object] = {**stated, "output": str(home)}
    if given.get("from_format") == FEEDS:
        del given["from_format"]
    if has_state := _has_state(given, settings):
        given["state"] = str(home / STATE)

    def attempt(make: Callable[[], _Result]) -> _Result | None:
        try:
            return make()
        except ConfigError as exc:
            lines = KeyWording(path, origins).located(exc.text).splitlines()
            errors.extend(line for line in lines if not any(_is_about(key, line) for key in wrong))
            return None

    convert = attempt(lambda: parse_each(given))
    if convert is not None:
        attempt(partial(check_together, convert))
        attempt(partial(check, convert))
    push = verify = None
    if "target.url" not in wrong:
        push = attempt(lambda: _push_of(settings, stated))
        verify = attempt(lambda: _verify_of(settings, push))
    if convert is not None:
        attempt(partial(check_pushed_format, convert, push))
        attempt(partial(check_compared_format, convert.to_format, verify))
    appliance = _words(settings, ApplianceOptions)
    if errors or convert is None:
        raise ConfigError("\n".join(errors))
    return Job(
        name=own.name,
        path=path,
        home=home,
        convert=replace(convert, kept_acls=f"{home / STATE}{ACLS_SUFFIX}"),
        log=decode(LogOptions, _words(settings, LogOptions)),
        push=push,
        verify=verify,
        has_state=has_state,
        keep=Retention(runs=own.keep_runs, seconds=own.keep_seconds),
        notify=None if own.on_end is None else Notify(own.on_end, own.notify_timeout),
        metrics_file=Path(own.metrics_file).absolute() if own.metrics_file else None,
        deadline=decode(ApplianceOptions, {"url": "", **appliance}).deadline,
        origins=origins,
        settings={key: setting.shown for key, setting in settings.items()},
    )


def _verify_of(settings: Mapping[str, KeyValue], push: PushSettings | None) -> VerifyOptions | None:
    """Return how a run is compared with its target, None without any key of it."""
    words = _words(settings, VerifyOptions)
    if not words:
        return None
    return verify_options(decode(VerifyOptions, {"against": TARGET, **words}), push)


def _is_about(key: str, error: str) -> bool:
    """Whether an error of a file, `PLACE: KEY: TEXT`, is about a key or a section of it.

    An error about the type of a section is about all its keys: they are not read.
    """
    parts = key.split(".")
    names = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return any(f": {name}: " in error for name in (*names, f"{parts[0]}.type"))


def _words(settings: Mapping[str, KeyValue], options: type[msgspec.Struct]) -> dict[str, object]:
    """Return the words of the settings of one struct, by the names of their fields."""
    return {
        key.declared.field: settings[path].word
        for path, key in job_keys().items()
        if key.options is options and path in settings
    }


def _has_state(given: Mapping[str, object], settings: Mapping[str, KeyValue]) -> bool:
    """Whether the runs share a state; by default where a source has one and nothing is full."""
    if "state" in settings:
        return settings["state"].word is True
    source = find_source(str(given.get("from_format")))
    inputs = given.get("inputs", ())
    is_one = not isinstance(inputs, tuple) or len(inputs) < 2
    return source is not None and source.has_state and is_one and given.get("feedtype") != FULL


def _push_of(settings: Mapping[str, KeyValue], words: Mapping[str, object]) -> PushSettings | None:
    """Return how the target is pushed to; without a URL, deadlines and variables have no effect."""
    if "target.url" not in settings:
        settings = {
            key: setting
            for key, setting in settings.items()
            if key != "schedule.deadline" and not setting.origin.startswith("environment")
        }
    push = parse_push_to({**words, **_words(settings, ApplianceOptions)}, name="url")
    if push is None:
        return None
    more = decode(PushOptions, {"inputs": ("",), **_words(settings, PushOptions)})
    return msgspec.structs.replace(push, keep=more.keep, groups_mode=more.groups_mode)


def load_checked(path: Path, words: Mapping[str, object]) -> Job:
    """Return the job of a file; raise ConfigError with the errors of the file and its profiles.

    Of the profiles that are not chosen, the keys and values are checked: their secrets and sources
    may be on another machine.
    """
    chosen = words.get("job_profile")
    faults: list[str] = []
    job: Job | None = None
    try:
        job = load_job(path, words, os.environ, check=_load_sources)
    except ConfigError as exc:
        faults += str(exc).splitlines()
    text = read_text(path)
    for profile in (None, *profiles_of(path)):
        if profile != chosen:
            given = decode(OverrideOptions, {**words, "job_profile": profile})
            faults += _read_settings(path, text, given, None)[1]
    if faults or job is None:
        raise ConfigError("\n".join(dict.fromkeys(faults)))
    return job


def file_checks(job: Job) -> Iterator[CheckLine]:
    """Yield a line for a job file without errors, and one for each time without a zone."""
    yield ok("job file", f"{job.path}: {len(job.settings)} keys, no errors")
    for line in _zones(job):
        yield ok("schedule", line)


def _load_sources(options: ConvertOptions) -> None:
    source, chosen = find_source(options.from_format), source_options(options)
    if source is not None and source is not SPOOLS:  # a spool has no settings in a file
        spans = [Span(source=path, path=path) for path in options.inputs]
        loads = [partial(source.load, span, chosen) for span in spans]
        named = [replace(span, format=source.name) for span in spans]
        raise_together([*loads, partial(check_source_datasource, named, options)])


def _zones(job: Job) -> Iterator[str]:
    """Yield a line for each time of day without a time zone."""
    for key in ("schedule.window", "schedule.deadline"):
        text = str(job.settings.get(key, ""))
        if ":" in text and text.rsplit(maxsplit=1)[-1][0].isdigit():
            zone = f"that of this machine, {zone_text(datetime.now().astimezone())}"
            yield f"{job.origins[key]}: {key}: {text}: no time zone stated; it is {zone}"
