"""Job files as texts: all settings of a job, and the JSON Schema of job files."""

import json
from collections.abc import Iterator, Mapping, Sequence

from feedferry.pipelines.job.file.job import Job
from feedferry.pipelines.job.file.job_keys import (
    FEEDS,
    SECTIONS,
    SHORT_FORMS,
    TRANSFORM,
    TYPES,
    VERSION,
    JobKey,
    job_keys,
    parts_of,
    typed_keys,
    types_of,
)
from feedferry.pipelines.options.compare_options import VerifyOptions
from feedferry.pipelines.options.push_options import ApplianceOptions
from feedferry.transforms.config.yaml_structs import PROFILES, quote_text
from feedferry.transforms.steps import StepConfig
from feedferry.transforms.storage.run_folders.mirrors import shown as shown_folder
from feedferry.transforms.storage.storage import is_object

_COMMENT_COLUMN = 48
Schema = dict[str, object]


def render(job: Job, *, has_origins: bool = True) -> str:
    """Return all settings of a job as a job file, with references in place of secrets.

    Keys without a value are comments; with `has_origins`, a comment says where a value came from.
    """
    types = {section: str(job.settings.get(f"{section}.type", FEEDS)) for section in TYPES}
    home = shown_folder(job.home)
    runs = home.rpartition("/")[0] if is_object(home) else str(job.home.parent)
    shown = {**job.settings, "runs": runs, "state": job.has_state}

    def lines(keys: Mapping[str, JobKey], indent: str = "") -> Iterator[str]:
        for name, part in parts_of(keys):
            if not isinstance(part, JobKey):
                yield f"{indent}{name}:"
                yield from lines(part, f"{indent}  ")
                continue
            value = _value_text(part, shown)
            used = {ApplianceOptions: job.push, VerifyOptions: job.verify}.get(part.options, job)
            text = f"{indent}{name}: {value}"
            if not value or (part.path not in shown and used is None):
                text = f"{indent}# {name}: {value or part.declared.default_text or 'none'}"
            origin = f"# {job.origins[part.path]}" if has_origins else ""
            yield f"{text:<{_COMMENT_COLUMN}}  {origin}".rstrip()

    keys = {
        path: key
        for path, key in job_keys().items()
        if (section := path.partition(".")[0]) not in TYPES or key.fits(types[section])
    }
    return "\n".join([f"version: {VERSION}", *lines(keys)]) + "\n"


def _value_text(key: JobKey, shown: Mapping[str, object]) -> str:
    """Return a value as YAML; "" if there is none."""
    declared = key.declared
    value = shown.get(key.path, declared.default if declared.is_switch else declared.default_text)
    if key.path == TRANSFORM and isinstance(value, list | tuple):  # JSON is YAML, too
        return json.dumps(value, ensure_ascii=False)
    if key.is_list and isinstance(value, str) and key.path in shown:
        value = (value,) if declared.is_repeatable else tuple(value.split(","))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(quote_text, value))}]"
    if key.path not in shown and (declared.default is None or key.is_list):
        return "[]" if key.is_list else ""
    text = str(value)
    if key.is_pair:
        name, _, stated = text.partition("=")
        return f"{{{name}: {quote_text(stated)}}}"
    is_number = declared.value.schema.get("type") != "string" and text.isdecimal()
    return text if is_number and "enum" not in declared.value.schema else quote_text(text)


def json_schema() -> Schema:
    """Return the JSON Schema of job files.

    It allows all that is allowed, and more: the values of texts are only checked by `check`.
    """
    properties: dict[str, Schema] = {
        "version": {"const": VERSION},
        **{name: _part_schema(name, part) for name, part in parts_of(job_keys())},
        TRANSFORM: _steps_schema(),
        PROFILES: _profiles_schema(),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Job file of feedferry",
        **_object_schema(properties, ["version", "job", *TYPES]),
    }


def _profiles_schema() -> Schema:
    """Return the schema of the profiles: objects with any keys of a job, each of any type."""

    def keys_schema(keys: Mapping[str, JobKey]) -> Schema:
        parts = dict(parts_of(keys))
        names = {name: part_schema(name, part) for name, part in parts.items()}
        return _object_schema(names, [])

    def part_schema(name: str, part: JobKey | Mapping[str, JobKey]) -> Schema:
        if isinstance(part, JobKey):
            return {"type": "string"} if name == TRANSFORM else _key_schema(part)
        short = [{"type": "string"}] if name in SHORT_FORMS else []
        return {"anyOf": [*short, keys_schema(part)]}

    profile = keys_schema(job_keys())
    described = {"description": SECTIONS[PROFILES], "type": "object"}
    return {**described, "additionalProperties": profile}


def _part_schema(name: str, part: JobKey | Mapping[str, JobKey]) -> Schema:
    """Return the schema of a key, or of all below it."""
    if isinstance(part, JobKey):
        return _key_schema(part)
    described = {"description": SECTIONS[name]} if name in SECTIONS else {}
    if name in TYPES:
        choices = [_type_schema(part, type_) for type_ in types_of(name)]
        return {**described, "oneOf": choices}
    choices = [_keys_schema(part)]
    if name in SHORT_FORMS:
        choices.append({"type": "string", "description": SHORT_FORMS[name].description})
    return {**described, "oneOf": [*choices, {"type": "null"}]}


def _type_schema(keys: Mapping[str, JobKey], type_: str) -> Schema:
    return _keys_schema(typed_keys(keys, type_), {"type": {"const": type_}})


def _keys_schema(keys: Mapping[str, JobKey], first: Mapping[str, Schema] = {}) -> Schema:
    """Return the schema of an object with `first`, which it must have, and keys."""
    parts = dict(parts_of(keys))
    properties = {**first, **{name: _part_schema(name, part) for name, part in parts.items()}}
    needed = [name for name, part in parts.items() if isinstance(part, JobKey) and part.is_required]
    return _object_schema(properties, [*first, *needed])


def _object_schema(properties: Mapping[str, Schema], required: Sequence[str]) -> Schema:
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _steps_schema() -> Schema:
    """Return the schema of the list of steps: one key in each, next to its name."""
    names = StepConfig.__struct_fields__
    step = {
        "type": "object",
        "properties": {name: {"type": "string"} if name == "name" else {} for name in names},
        "additionalProperties": False,
        "minProperties": 1,
    }
    steps = {"type": "array", "items": step}
    return {"description": SECTIONS[TRANSFORM], "anyOf": [{"type": "string"}, steps]}


def _key_schema(key: JobKey) -> Schema:
    declared = key.declared
    schema: Schema = {"type": "boolean"} if declared.is_switch else {**declared.value.schema}
    if key.is_list:
        items: object = schema.get("items", schema)
        least = {"minItems": 1} if key.is_required else {}
        choices: list[object] = [items, {"type": "array", "items": items, **least}]
        if key.has_object:
            choices.append({"type": "object", "additionalProperties": {"type": "string"}})
        schema = {"anyOf": choices}
    default, help_text = declared.default_text, declared.flag.help
    return {
        "description": help_text + (f" Default: {default}." if default else ""),
        **schema,
    }
