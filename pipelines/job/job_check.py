"""`feedferry config check`: a job file, and the files that it names."""

import os
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

from pipelines.convert.source_runs import source_options
from pipelines.job.job import Job
from pipelines.job.job_file import load_job
from pipelines.options.convert_options import ConvertOptions
from schemas.errors import raise_together
from schemas.span import Span
from transforms.sinks.push.throttle.window import zone_text
from transforms.sources import SPOOLS, find_source


def check_job(name: str) -> str:
    """Return lines about a job file without errors; raise ConfigError with all errors."""
    job = load_job(Path(name), {}, os.environ, check=_load_sources)
    return "\n".join([f"{name}: {len(job.settings)} keys, no errors", *_zones(job)])


def _load_sources(options: ConvertOptions) -> None:
    source, chosen = find_source(options.from_format), source_options(options)
    if source is not None and source is not SPOOLS:  # a spool has no settings in a file
        spans = [Span(source=path, path=path) for path in options.inputs]
        raise_together([partial(source.load, span, chosen) for span in spans])


def _zones(job: Job) -> Iterator[str]:
    """Yield a line for each time of day without a time zone."""
    for key in ("schedule.window", "schedule.deadline"):
        text = str(job.settings.get(key, ""))
        if ":" in text and text.rsplit(maxsplit=1)[-1][0].isdigit():
            zone = f"that of this machine, {zone_text(datetime.now().astimezone())}"
            yield f"{job.origins[key]}: {key}: {text}: no time zone stated; it is {zone}"
