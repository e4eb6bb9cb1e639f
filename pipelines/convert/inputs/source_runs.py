"""The settings and the sources of a run.

Sources are loaded and split before the pipeline. Everything that a source reports before the
pipeline is kept in the folder of the run, so that a run that is started again continues with the
same spans.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from feedferry.pipelines.folders.locks import state_lock
from feedferry.pipelines.options.convert_checks import docids, refuse_flags
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.flags import shared_options
from feedferry.pipelines.options.own_options import chosen_of
from feedferry.pipelines.options.value_parsers import NO_OUTPUT
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.notice import REFUSED
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.formats import FORMATS, ReadOptions, WriteOptions
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.sources import (
    SOURCES,
    SPOOLS,
    SourceConfig,
    SourceOptions,
    SourceRun,
    source_of,
)
from feedferry.transforms.steps import Steps, read_steps
from feedferry.transforms.storage.state import check_state

_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def settings_of(
    options: ConvertOptions,
    known_urls: tuple[str, ...],
    folder: Path,
    sources: dict[str, SourceConfig],
) -> Settings:
    """Return the settings of a run for its spans."""
    limit = options.max_rejects
    return _from_options(
        Settings,
        options,
        max_chunk_bytes=options.max_chunk_bytes or options.target_format.chunk_bytes,
        folder=str(folder.absolute()),
        target=_from_options(
            Target,
            options,
            format=options.to_format,
            known_urls=known_urls,
            own=_own_options(options),
        ),
        reading=msgspec.structs.replace(read_options(options), used_header=_used_header(options)),
        writing=_from_options(WriteOptions, options, own=_own_options(options)),
        refused=(REFUSED - options.accept_loss) | options.fail_on_loss,
        max_rejects=limit.count if limit is not None else None,
        sources=sources,
        state=options.state and str(Path(options.state).absolute()),
        kept_acls=options.acls_path and str(Path(options.acls_path).absolute()),
        accepted_rejects=(
            options.accepted_rejects and str(Path(options.accepted_rejects).absolute())
        ),
        progress=str(folder.absolute()),
        steps=steps_of(options),
    )


def steps_of(options: ConvertOptions) -> Steps:
    """Return the steps of the user, and one that the target needs; raise ConfigError without them.

    A target that holds decisions has no ACLs to inherit from.
    """
    path = options.transform
    steps = Steps() if path is None else read_steps(Path(path).absolute())
    return steps.with_decisions() if options.target_format.needs_decisions else steps


def _used_header(options: ConvertOptions) -> frozenset[str]:
    """Return what a target with feeds takes from the headers, because no flag replaces it."""
    names = ("datasource", "feedtype") if options.target_format.keeps_feedtypes else ()
    return frozenset(name for name in names if getattr(options, name) is None)


def read_known_urls(options: ConvertOptions) -> tuple[str, ...]:
    """Return the URLs to expand deletions by pattern; raise ConfigError if they are unreadable."""
    path = options.known_urls
    if path is None:
        return ()
    try:
        return tuple(Path(path).read_text("utf-8").split())
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"⟦known_urls⟧ {path}: {exc}; expected a URL on each line") from exc


def read_options(options: ConvertOptions) -> ReadOptions:
    """Return how the formats of the inputs are read."""
    return _from_options(ReadOptions, options, own=_own_options(options))


def _own_options(options: ConvertOptions) -> tuple[msgspec.Struct, ...]:
    """Return the options of single formats, in the structs that these declare."""
    kinds = dict.fromkeys(kind for format_ in FORMATS for kind in format_.options)
    rule = docids(options)
    return tuple(
        _from_options(
            kind,
            options,
            **{"docids": rule} if "docids" in kind.__struct_fields__ else {},
            **chosen_of(options.own, kind),
        )
        for kind in kinds
    )


def _from_options(kind: type[_Struct], options: ConvertOptions, **others: object) -> _Struct:
    """Return a struct whose fields have the options of the same names, except for `others`."""
    return kind(**{**shared_options(options, kind), **others})


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
    check_source_datasource(spans, options)
    chosen = source_options(options)
    configs = {
        span.source: source_of(span).load(span, chosen)
        for span in spans
        if source_of(span) in SOURCES
    }
    for span in spans:
        if span.source in configs:
            source_of(span).check_config(configs[span.source])
    if options.state is not None:
        _check_state(spans, options.state)
    return configs


def check_source_datasource(spans: Sequence[Span], options: ConvertOptions) -> None:
    """Raise ConfigError for a source that states no datasource, if the target needs one."""
    if options.datasource is not None or not options.target_format.has_document_feeds:
        return
    for span in spans:
        if source_of(span) in SOURCES and source_of(span) is not SPOOLS:
            raise ConfigError(
                f"{span.source}: no datasource in the source; expected ⟦datasource NAME⟧"
            )


def source_runs(
    spans: Sequence[Span], settings: Settings, options: ConvertOptions
) -> list[SourceRun[object]]:
    """Return the run of each source; a file of records is a source of its own."""
    chosen = msgspec.structs.replace(source_options(options), state=settings.state)
    return [
        SourceRun(
            span=span,
            config=settings.sources.get(span.source),
            work=settings.local,
            reading=settings.reading,
            options=chosen,
            rewrite=settings.steps.rewriter,
        )
        for span in spans
    ]


def split_sources(runs: Sequence[SourceRun[object]]) -> Iterator[Span]:
    """Yield the spans of all sources; a file of records is yielded as it is.

    Raise SourceError where a source cannot be read, StoppedError where too much is gone, and
    ConfigError at the end where two sources would send one URL.
    """
    for run in runs:
        yield from source_of(run.span).split(run)
    for source in SOURCES:
        source.check_runs([run for run in runs if source_of(run.span) is source])


def source_options(options: ConvertOptions) -> SourceOptions:
    """Return the options of a conversion for its sources, with the paths that it writes."""
    written = [] if options.output == NO_OUTPUT else [("⟦output⟧", f"{options.output}/")]
    if options.state is not None:
        lock = str(state_lock(Path(options.state)))
        written += [("⟦state⟧", options.state), ("⟦state⟧", lock)]
    return msgspec.structs.replace(options, written_paths=tuple(written))


def _check_state(spans: Sequence[Span], state: str) -> None:
    if len(spans) != 1 or not source_of(spans[0]).has_state:
        names = ", ".join(span.source for span in spans)
        raise ConfigError(f"⟦state⟧ {state}: of {names}; expected one tree or one database")
    (span,) = spans
    source_of(span).check_state(span, state)
    check_state(Path(state), source=span.path)
