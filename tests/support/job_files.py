"""The examples of job files in the docs, and the reference of their keys."""

import re
from collections.abc import Iterator

from feedferry.pipelines.job.file.job_keys import SECTIONS, TYPES, JobKey, job_keys, types_of
from support.runs import ROOT

PAGE = ROOT / "docs" / "job-file.md"
MARK = "<!-- pytest tests/pipelines/job/test_job_text.py --accept writes everything below -->\n"
_EXAMPLE = re.compile(r'```yaml title="([\w-]+)\.yaml"\n(.*?)```', re.DOTALL)


def examples() -> dict[str, str]:
    """Return the job files of the page, by their names."""
    return dict(_EXAMPLE.findall(PAGE.read_text("utf-8").partition(MARK)[0]))


def reference() -> str:
    """Return the part of the page that lists all keys."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    single = [key for path, key in job_keys().items() if path in SECTIONS]
    yield from ("", *map(_line, single))
    for section, meaning in SECTIONS.items():
        keys = [key for path, key in job_keys().items() if path.startswith(f"{section}.")]
        if not keys:
            continue
        yield from ("", f"### {section}", "", meaning)
        by_types: dict[str, list[JobKey]] = {}
        for key in keys:
            by_types.setdefault(_types(key), []).append(key)
        for types, group in by_types.items():
            yield from ("", f"{types}:", "") if types else ("",)
            yield from map(_line, group)


def _line(key: JobKey) -> str:
    declared = key.declared
    default = declared.default_text
    if key.is_required or key.path == "source.type":
        default = "required"
    elif declared.is_switch:
        default = declared.default_text or str(declared.default).lower()
    names = ", ".join(f"`{name}`" for name in (key.path, key.flag_name) if name)
    stated = f" [{'' if default == 'required' else 'default: '}{default}]" if default else ""
    return f"- {names} ({_value(key)}): {declared.flag.help + stated}"


def _value(key: JobKey) -> str:
    schema = key.declared.value.schema
    choices = types_of(key.path.removesuffix(".type")) if key.path.endswith(".type") else None
    if key.declared.is_switch:
        choices = ("true", "false")
    elif "enum" in schema:
        choices = tuple(key.declared.metavar.split("|"))
    text = ", ".join(f"`{item}`" for item in choices or ()) or key.declared.metavar
    return f"list of {text}" if key.is_list else text


def _types(key: JobKey) -> str:
    section = key.path.partition(".")[0]
    if section not in TYPES or key.path.endswith(".type"):
        return ""
    every = types_of(section)
    types = [type_ for type_ in every if key.fits(type_)]
    others = [type_ for type_ in every if type_ not in types]
    word, named = ("Only", types) if len(types) <= len(others) else ("Not", others)
    return f"{word} for {', '.join(f'`{type_}`' for type_ in named)}" if others else ""
