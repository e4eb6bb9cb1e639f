"""The job of `convert`: its settings are flags, and it has one run, in the folder of -o."""

import re
from collections.abc import Mapping
from pathlib import Path

from feedferry.pipelines.job.file.job import Job
from feedferry.pipelines.job.file.job_file import words_with_set
from feedferry.pipelines.job.file.job_keys import FEEDS, JobKey, job_keys
from feedferry.pipelines.options.convert_checks import parse
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.display_options import LogOptions
from feedferry.pipelines.options.flags import decode
from feedferry.pipelines.options.push_options import (
    ApplianceOptions,
    check_pushed_format,
    parse_push_to,
)
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.config.secrets import check_no_secret, with_absolute_files
from feedferry.transforms.formats import OwnOptions

_HIDDEN = "***"
_OPTIONS = (ConvertOptions, ApplianceOptions, LogOptions, OwnOptions)


def job_of_flags(words: Mapping[str, object]) -> Job:
    """Return the job whose flags have these texts, by the names of their fields.

    Raises ConfigError for flags that cannot be used.
    """
    try:
        words = words_with_set(words)
    except ConfigError as exc:
        name = words.get("to_format")
        text = exc.text.replace(f"not for type: {name}", f"not for ⟦to_format {name}⟧")
        raise ConfigError(text) from exc
    options, target = parse(words), parse_push_to(words)
    check_pushed_format(options, target)
    given = {
        path: (key, word)
        for path, key in job_keys().items()
        if key.options in _OPTIONS and (word := words.get(key.declared.field)) not in (None, ())
    }
    origins = {
        path: f"flag {key.flag_name}" if key.flag_name else "argument"
        for path, (key, _) in given.items()
    }
    name = Path(options.output).absolute().name  # a job with these settings could have it
    return Job(
        home=Path(options.output),
        convert=options,
        log=decode(LogOptions, words),
        push=target,
        origins=dict.fromkeys(job_keys(), "default") | origins,
        settings={
            "job": re.sub(r"[^\w.-]", "-", name).lstrip(".-") or "job",
            "source.type": FEEDS,
            **{path: _shown(key, word) for path, (key, word) in given.items()},
        },
    )


def _shown(key: JobKey, word: object) -> object:
    """Return a word without passwords and tokens in URLs; paths are absolute."""
    if isinstance(word, tuple):
        return tuple(_shown(key, item) for item in word)
    try:
        check_no_secret(str(word))
    except ValueError:
        return _HIDDEN
    if isinstance(word, bool):
        return word
    folder, text = Path.cwd(), str(word)
    return key.absolute(folder, with_absolute_files(text, folder) if key.has_references else text)
