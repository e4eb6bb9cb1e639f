"""Job files as texts: all settings of a job, and the JSON Schema of job files."""

import json
from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from pipelines.job.job import Job
from pipelines.job.job_keys import (
    FEEDS,
    SECTIONS,
    SHORT_FORMS,
    TRANSFORM,
    TYPES,
    VERSION,
    JobKey,
    job_keys,
    job_type,
)
from pipelines.options.compare_options import VerifyOptions
from pipelines.options.push_options import ApplianceOptions
from transforms.config.yaml_structs import Value, former_tags, quote_text
from transforms.steps import StepConfig

_COMMENT_COLUMN = 48
Schema = dict[str, object]


def render(job: Job, *, has_origins: bool = True) -> str:
    """Return all settings of a job as a job file, with references in place of secrets.

    Keys without a value are comments; with `has_origins`, a comment says where a value came from.
    """
    types = {section: str(job.settings.get(f"{section}.type", FEEDS)) for section in TYPES}
    shown = {**job.settings, "runs": str(job.home.parent), "state": job.has_state}
    lines = [f"version: {VERSION}"]
    above: list[str] = []
    for path, key in job_keys().items():
        section = path.partition(".")[0]
        if section in TYPES and not key.fits(types[section]):
            continue
        *parents, name = path.split(".")
        shared = 0
        while above[: shared + 1] == parents[: shared + 1] and shared < len(parents):
            shared += 1
        lines += [f"{'  ' * at}{parents[at]}:" for at in range(shared, len(parents))]
        above = parents
        indent, value = "  " * len(parents), _value_text(key, shown)
        used = {ApplianceOptions: job.push, VerifyOptions: job.verify}.get(key.options, job)
        text = f"{indent}{name}: {value}"
        if not value or (path not in shown and used is None):
            text = f"{indent}# {name}: {value or key.declared.default_text or 'none'}"
        origin = f"# {job.origins[path]}" if has_origins else ""
        lines.append(f"{text:<{_COMMENT_COLUMN}}  {origin}".rstrip())
    return "\n".join(lines) + "\n"


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
    is_number = declared.value.schema.get("type") != "string" and text.isdecimal()
    return text if is_number and "enum" not in declared.value.schema else quote_text(text)


def json_schema() -> Schema:
    """Return the JSON Schema of job files.

    It allows all that is allowed, and more: the values of texts are only checked by `config check`.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Job file of feedferry",
        **_object_schema(job_type(lambda key, value: value)),
    }


def _object_schema(type_: type[msgspec.Struct]) -> Schema:
    fields = msgspec.structs.fields(type_)
    properties: Schema = {
        field.name: _steps_schema() if field.name == TRANSFORM else _schema(field.name, field.type)
        for field in fields
    }
    required = [
        field.name
        for field in fields
        if field.name != TRANSFORM
        and (field.required or ((key := _key_of(field.type)) is not None and key.is_required))
    ]
    if (tag := type_.__struct_config__.tag) is not None:
        former = former_tags(type_)
        named = {"enum": [tag, *former]} if former else {"const": tag}
        properties = {"type": named, **properties}
        required = ["type", *required]
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
    return {"description": SECTIONS[TRANSFORM], "type": "array", "items": step}


def _schema(name: str, type_: Any) -> Schema:  # Any: a type or a union
    arguments = [one for one in get_args(type_) if one is not type(None)]
    described = {"description": SECTIONS[name]} if name in SECTIONS else {}
    if isinstance(arguments[-1], Value):
        key = _key_of(type_)
        return {"const": VERSION} if key is None else _key_schema(key)
    choices = [_object_schema(struct) for struct in arguments]
    if name in SHORT_FORMS:
        choices.append({"type": "string", "description": SHORT_FORMS[name].description})
    if name not in TYPES:
        choices.append({"type": "null"})
    return {**described, "oneOf": choices}


def _key_of(type_: Any) -> JobKey | None:  # Any: a type or a union
    """Return the key whose value a type parses."""
    value = get_args(type_)[-1]
    return getattr(value.parse, "args", (None,))[0] if isinstance(value, Value) else None


def _key_schema(key: JobKey) -> Schema:
    declared = key.declared
    schema: Schema = {"type": "boolean"} if declared.is_switch else {**declared.value.schema}
    if key.is_list:
        items = schema.get("items", schema)
        least = {"minItems": 1} if key.is_required else {}
        schema = {"anyOf": [items, {"type": "array", "items": items, **least}]}
    default = declared.default_text
    return {
        "description": declared.flag.help + (f" Default: {default}." if default else ""),
        **schema,
    }
