"""Convert the differences of two inputs into a feed."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from feedferry.pipelines.compare.diff import ComparedInputs
from feedferry.pipelines.compare.feed_of_changes import (
    full_where_known,
    incremental,
    write_archives,
)
from feedferry.pipelines.job.file.flag_job import job_of_flags
from feedferry.pipelines.job.run.engine import convert
from feedferry.pipelines.job.run.run_result import RunResult
from feedferry.pipelines.observer.observer import Observer
from feedferry.schemas.errors import ConfigError


def emit(
    compared: ComparedInputs,
    output: str,
    words: Mapping[str, object],
    observer: Observer,
    *,
    is_whole: bool = False,
) -> RunResult | None:
    """Write a feed of the differences into a folder, as `convert` does; None if there are none.

    With `is_whole`, the feeds of a datasource of which the input has a full feed are full.
    """
    if words.get("to_format") is None:
        raise ConfigError(
            "⟦to_format⟧: not given; expected the format of the feed that ⟦emit⟧ writes"
        )
    feedtype = full_where_known(compared.comparer) if is_whole else incremental
    with tempfile.TemporaryDirectory(prefix="feedferry-emit-") as folder:
        archives = write_archives(
            compared.comparer,
            compared.after.results(),
            Path(folder),
            feedtype=feedtype,
        )
        if not archives:
            return None
        inputs = tuple(map(str, archives))
        read: dict[str, object] = {"from_format": None, "inputs": inputs, "output": output}
        if compared.after.has_steps:  # the steps are applied
            read["transform"] = None
        return convert(job_of_flags({**words, **read}), observer)
