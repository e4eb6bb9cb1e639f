"""Sources in a run, for tests that need no pipeline."""

from pathlib import Path
from typing import Any

from schemas.span import Span
from transforms.formats import ReadOptions
from transforms.sources import SourceOptions, SourceRun


def source_run(span: Span, config: Any, *, work: Path, **options: Any) -> SourceRun[Any]:
    """Return a source in a run whose folder is `work`."""
    return SourceRun(
        span=span,
        config=config,
        work=work,
        reading=ReadOptions(),
        options=SourceOptions(**{"to_format": "gsa-feed", **options}),
    )
