"""The sources of a run: loaded and split before the pipeline, remembered after it.

Everything that a source reports before the pipeline is kept in the folder of the run, so that a run
that is started again continues with the same spans. The state of a source is updated when all that
the run made is published, and not before.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pipelines.cli.convert_checks import refuse_flags
from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.locks import state_lock
from schemas.account import Account
from schemas.errors import ConfigError
from schemas.span import Span
from transforms.convert import Settings
from transforms.sources import SOURCES, SourceConfig, SourceOptions, SourceRun, source_of
from transforms.storage.atomic import whole_file
from transforms.storage.state import check_state, open_state

STDOUT = "-"
"""The output of verbs that write no files."""

_GENERATION = "generation"


def load_sources(spans: Sequence[Span], options: ConvertOptions) -> dict[str, SourceConfig]:
    """Return the configurations of the sources that have one, by the names of their spans.

    Raise ConfigError where they cannot be read, or not together. A run with a state reads one
    source.
    """
    for source in SOURCES:
        own = [span for span in spans if source_of(span) is source]
        if own:
            source.check_inputs(own, spans)
        else:
            refuse_flags(options, source)
    chosen = _source_options(options)
    configs = {
        span.source: source_of(span).load(span, chosen)
        for span in spans
        if source_of(span) in SOURCES
    }
    if options.state is not None:
        _check_state(spans, options.state)
    return configs


def source_runs(
    spans: Sequence[Span], settings: Settings, options: ConvertOptions
) -> list[SourceRun[Any]]:  # Any: each source has its own configuration
    """Return the run of each source; a file of records is a source of its own."""
    chosen = msgspec.structs.replace(_source_options(options), state=settings.state)
    return [
        SourceRun(
            span=span,
            config=settings.sources.get(span.source),
            work=Path(settings.folder),
            reading=settings.reading,
            options=chosen,
        )
        for span in spans
    ]


def split_sources(runs: Sequence[SourceRun[Any]]) -> Iterator[Span]:
    """Yield the spans of all sources; a file of records is yielded as it is.

    Raise SourceError where a source cannot be read, StoppedError where too much is gone, and
    ConfigError at the end where two sources would send one URL.
    """
    for run in runs:
        yield from source_of(run.span).split(run)
    refuse_shared_urls(runs)


def refuse_shared_urls(runs: Sequence[SourceRun[Any]]) -> None:
    """Raise ConfigError where sources that were split would send one URL twice."""
    for source in SOURCES:
        source.check_runs([run for run in runs if source_of(run.span) is source])


def store_generation(settings: Settings) -> None:
    """Store the generation of the state in the folder of the run, once."""
    path = Path(settings.folder) / _GENERATION
    if settings.state is not None and not path.exists():
        with open_state(Path(settings.state)) as state, whole_file(path) as stream:
            stream.write(str(state.generation).encode())


def remember(runs: Sequence[SourceRun[Any]], account: Account) -> None:
    """Update the state after a successful run, if it has one; this may be repeated.

    `account` is that of the run: it names the files in which the spans wrote what they saw.
    """
    for run in runs:
        if run.options.state is not None:
            generation = int((run.work / _GENERATION).read_text())
            source_of(run.span).remember(run, account, generation=generation)


def _source_options(options: ConvertOptions) -> SourceOptions:
    chosen = msgspec.convert(options, SourceOptions, from_attributes=True)
    written = [] if options.output == STDOUT else [("-o", f"{options.output}/")]
    if options.state is not None:
        lock = str(state_lock(Path(options.state)))
        written += [("--state", options.state), ("--state", lock)]
    return msgspec.structs.replace(chosen, written_paths=tuple(written))


def _check_state(spans: Sequence[Span], state: str) -> None:
    if len(spans) != 1 or not source_of(spans[0]).has_state:
        names = ", ".join(span.source for span in spans)
        raise ConfigError(f"--state {state}: of {names}; expected one tree or one database")
    (span,) = spans
    source_of(span).check_state(span, state)
    check_state(Path(state), source=span.path)
