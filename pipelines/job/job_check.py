"""`feedferry config check`: a job file, and the files that it names."""

import os
from pathlib import Path

from pipelines.job.job_file import load_job


def check_job(name: str) -> str:
    """Return a line about a job file without errors; raise ConfigError with all errors."""
    job = load_job(Path(name), {}, os.environ)
    return f"{name}: {len(job.settings)} keys, no errors"
