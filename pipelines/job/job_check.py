"""`feedferry config check`: a job file, and the files that it names."""

import os
from pathlib import Path

from pipelines.convert.settings import source_options
from pipelines.job.job_file import errors_in_keys, load_job
from schemas.span import Span
from transforms.sources import SPOOLS, find_source


def check_job(name: str) -> str:
    """Return a line about a job file without errors; raise ConfigError with all errors."""
    job = load_job(Path(name), {}, os.environ)
    source = find_source(job.convert.from_format)
    if source is not None and source is not SPOOLS:  # a spool has no settings in a file
        for path in job.convert.inputs:
            with errors_in_keys(job):
                source.load(Span(source=path, path=path), source_options(job.convert))
    return f"{name}: {len(job.settings)} keys, no errors"
