"""The keys of a job file, made from the flags that have a key.

A source and a target are unions by `type`: each type has the keys of the flags that fit it.
"""

import glob
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Annotated, NamedTuple, NoReturn, Union

import msgspec

from feedferry.pipelines.options.compare_options import VerifyOptions
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.display_options import LogOptions
from feedferry.pipelines.options.flags import FieldFlag, flags_of
from feedferry.pipelines.options.job_options import JobOptions
from feedferry.pipelines.options.own_options import own_flags
from feedferry.pipelines.options.push_options import PUSH_TO, ApplianceOptions, PushOptions
from feedferry.pipelines.options.value_parsers import TEXT
from feedferry.transforms.config.yaml_structs import PROFILES, Value
from feedferry.transforms.formats import FORMATS, OwnOptions
from feedferry.transforms.registry import Named
from feedferry.transforms.sources import SOURCES
from feedferry.transforms.steps import StepConfig

VERSION = 1
FEEDS = "feeds"
"""The source whose format is detected."""

VARIABLE = "FEEDFERRY_"
"""The begin of the names of environment variables."""

OPTIONS = (ConvertOptions, ApplianceOptions, PushOptions, VerifyOptions, JobOptions, LogOptions)
TYPES = ("source", "target")
"""The sections that are unions by `type`."""

SECTIONS = {
    "job": "Name of the job.",
    "source": "What is read. The keys depend on the type.",
    "target": "The format that is written, and the appliance that receives it.",
    "transform": "Steps that change records on the way.",
    "chunk": "The size of the chunks.",
    "push": "How chunks are sent to the appliance.",
    "verify": "How the run is compared with its target after the push: `target`, or keys.",
    "rejects": "When a run stops because of rejected records.",
    "loss": "Fields that the target cannot hold.",
    "safety": "When a run stops because it would delete too much.",
    "schedule": "When chunks are sent.",
    "keep": "Which finished runs are kept: `14 runs`, `30d`, or keys.",
    "runs": "Where runs are stored.",
    "state": "Whether a run reads only changes.",
    "log": "The log of a run.",
    "metrics_file": "Figures of the last run for Prometheus.",
    "notify": "A command that is started after each run.",
    "jobs": "How much runs in parallel.",
    "cluster": "The cluster that converts, by a runner of Beam.",
    PROFILES: "Keys that `--profile NAME` sets, below the name of each profile.",
}
"""The keys at the top of a job file, in their order, and their meaning."""

TRANSFORM = "transform"
"""The key of the steps, a list; the flag names a file with this key, such as the job file."""

Parse = Callable[["JobKey", object], object]
_StructField = tuple[str, object] | tuple[str, object, object]


@dataclass(frozen=True)
class JobKey:
    """A key of a job file, and its flag."""

    options: type[msgspec.Struct]
    declared: FieldFlag

    @property
    def path(self) -> str:
        return self.declared.key

    @property
    def variable(self) -> str:
        """Return the name of its environment variable, "" if there is none."""
        return "" if self.path == "job" else VARIABLE + self.path.upper().replace(".", "_")

    @property
    def flag_name(self) -> str:
        """Return the flag of `convert`, or of `push` or `verify`; "" if there is none."""
        if self.declared.is_argument or self.options is JobOptions:
            return ""
        names = PUSH_TO.names if self.path == "target.url" else self.declared.names
        verb = {PushOptions: "push ", VerifyOptions: "verify "}.get(self.options, "")
        return f"{verb}{names[-1]}"

    @property
    def is_required(self) -> bool:
        """Whether the file, a variable or a flag has to state it, for types that have it."""
        has_default = self.path in ("target.url", "verify.against")
        return (self.declared.is_required and not has_default) or self.path == "source.mapping"

    @property
    def is_list(self) -> bool:
        return self.declared.is_repeatable or self.declared.value.schema.get("type") == "array"

    @property
    def is_scalar(self) -> bool:
        """Whether a value may be a number, true or false."""
        types = self.declared.value.schema.get("type")
        return self.declared.is_switch or types != "string"

    @property
    def is_pair(self) -> bool:
        """Whether the value in a file is an object with one text, and `NAME=TEXT` in a flag."""
        return self.declared.value.schema.get("type") == "object"

    @property
    def has_object(self) -> bool:
        """Whether the value in a file may be an object, which a profile replaces as a whole."""
        return self.is_pair or self.declared.value.list_of is not None

    @property
    def has_references(self) -> bool:
        """Whether a text may have `${env:NAME}` and `${file:PATH}` in place of secrets."""
        return self.is_pair or self.declared.value.schema == TEXT.schema

    def fits(self, type_: str) -> bool:
        """Whether a type of source or target has this key."""
        kinds = _kinds(self.path.partition(".")[0], type_)
        return any(map(self.declared.flag.fits, kinds or FORMATS))  # feeds are of any format

    @property
    def expected(self) -> str:
        """Return the words for a value in messages."""
        if self.declared.is_switch:
            return "true or false"
        schema = self.declared.value.schema
        if self.is_list:
            return f"a list: [{self.declared.metavar}]"
        if "enum" in schema:
            return f"one of {', '.join(map(str, schema['enum']))}"  # type: ignore[call-overload]  # a list
        if self.is_pair:
            return "an object with one key and its text"
        return {"integer": "a number", "string": "a text in quotes"}.get(
            str(schema["type"]), "a number or a text"
        )

    def absolute(self, folder: Path, text: str) -> str:
        """Return a text; if it is a relative path, return it below a folder."""
        type_ = self.declared.value
        is_word = text == "-" or "://" in text or text in type_.metavar.split("|")
        if is_word or not type_.is_path:
            return text
        slash = "/" if text.endswith("/") else ""
        below = glob.escape(str(folder)) if glob.has_magic(text) else folder
        return os.path.normpath(Path(below) / text) + slash


@cache
def job_keys() -> Mapping[str, JobKey]:
    """Return all keys by their paths, in the order of a job file."""
    keys = [
        JobKey(options, declared)
        for options in OPTIONS
        for declared in flags_of(options).values()
        if declared.key
    ]
    keys += [JobKey(OwnOptions, declared) for declared in own_flags().values()]
    keys.sort(key=_order)
    first: dict[str, JobKey] = {}
    for key in keys:
        first.setdefault(key.path, key)
    return first


def _order(key: JobKey) -> tuple[int, list[str], bool]:
    """Return the place of a key: by section, subsections last, a type first."""
    section, *parents = key.path.split(".")[:-1] or [key.path]
    return [*SECTIONS].index(section), parents, not key.path.endswith(".type")


def types_of(section: str) -> tuple[str, ...]:
    """Return the types of a source or target."""
    names = [kind.name for kind in _kinds(section)]
    return (*names, FEEDS) if section == "source" else tuple(names)


def parts_of(keys: Mapping[str, JobKey]) -> Iterator[tuple[str, JobKey | dict[str, JobKey]]]:
    """Yield the first names of paths in order, each with its key, or the keys below it."""
    for name, group in groupby(keys.items(), key=lambda item: item[0].partition(".")[0]):
        below = {path.partition(".")[2]: key for path, key in group}
        yield name, below.get("", below)


def typed_keys(keys: Mapping[str, JobKey], type_: str) -> dict[str, JobKey]:
    """Return those keys of a source or target that a type has, apart from the type."""
    return {path: key for path, key in keys.items() if path != "type" and key.fits(type_)}


def job_type(parse: Parse) -> type[msgspec.Struct]:
    """Return the struct of a job file, in which `parse` makes the value of each key."""
    fields: list[_StructField] = [("version", Annotated[int, Value(_parse_version, f"{VERSION}")])]
    for name, part in parts_of(job_keys()):
        if name == TRANSFORM:
            parsed = Annotated[object, Value(partial(parse, part), "a list of steps, or a file")]
            fields.append((name, tuple[StepConfig, ...] | parsed | None, None))
        elif isinstance(part, JobKey):
            fields.append(_field(name, part, parse))
        elif name in TYPES:
            structs = [
                _struct(name, typed_keys(part, type_), parse, tag=type_) for type_ in types_of(name)
            ]
            fields.append((name, Union[tuple(structs)]))  # noqa: UP007  # of many types
        else:
            fields.append((name, _struct(name, part, parse) | None, None))
    no_profiles = Value(_refuse, "them at the top of the file only")
    fields.append((PROFILES, Annotated[object, no_profiles], None))
    return msgspec.defstruct("Job", fields, kw_only=True)


def _struct(
    name: str, keys: Mapping[str, JobKey], parse: Parse, *, tag: str | None = None
) -> type[msgspec.Struct]:
    fields = [
        _field(head, part, parse)
        if isinstance(part, JobKey)
        else (head, _struct(head, part, parse) | None, None)
        for head, part in parts_of(keys)
    ]
    namespace: dict[str, object] = {}
    if tag is None and (short := SHORT_FORMS.get(name)):
        namespace["from_scalar"] = staticmethod(partial(short.parse, parse))
    return msgspec.defstruct(
        name.capitalize(),
        fields,
        namespace=namespace,
        kw_only=True,
        tag=tag,
        tag_field=None if tag is None else "type",
    )


def _field(name: str, key: JobKey, parse: Parse) -> _StructField:
    type_ = Annotated[object, Value(partial(parse, key), key.expected)]
    return (name, type_) if key.path == "job" else (name, type_, None)


def _keep_of(parse: Parse, value: object) -> object:
    """Parse `14 runs` and `30d`, the short forms of `keep`."""
    number, _, unit = str(value).partition(" ")
    if unit in ("run", "runs") and number.isdecimal():
        return parse(job_keys()["keep.runs"], int(number))
    try:
        return parse(job_keys()["keep.age"], value)
    except ValueError:
        raise ValueError(f"{value!r}; expected an age or a number, as 30d or 14 runs") from None


class ShortForm(NamedTuple):
    """A value in place of the keys of a section."""

    parse: Callable[[Parse, object], object]
    description: str


SHORT_FORMS: Mapping[str, ShortForm] = {
    "keep": ShortForm(_keep_of, "14 runs, or a duration such as 30d"),
    "verify": ShortForm(
        lambda parse, value: parse(job_keys()["verify.against"], value),
        "target, or another input to compare with",
    ),
}


def _parse_version(value: object) -> int:
    if value != VERSION or isinstance(value, bool):
        raise ValueError
    return VERSION


def _refuse(value: object) -> NoReturn:
    raise ValueError


def _kinds(section: str, name: str = "") -> list[Named]:
    """Return the sources and formats of a section, or those with a name."""
    kinds: list[Named] = [*SOURCES] if section == "source" else []
    is_source = section == "source"
    kinds += [each for each in FORMATS if (each.is_read if is_source else each.encoder)]
    return [kind for kind in kinds if not name or name == kind.name]
