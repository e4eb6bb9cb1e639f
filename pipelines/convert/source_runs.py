"""The settings and the sources of a run, and the check of its account.

Sources are loaded and split before the pipeline. Everything that a source reports before the
pipeline is kept in the folder of the run, so that a run that is started again continues with the
same spans.

**Spec** (of the limits of groups): Feeds Protocol Developer's Guide 7.x, "Feeding Groups to the
Search Appliance" (three million members), "Creating a Groups Feed Client" (1 GB).
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from feedferry.pipelines.convert.step_lists import URLS_MERGED, URLS_SHARED, sees_all_records
from feedferry.pipelines.folders.locks import state_lock
from feedferry.pipelines.options.convert_checks import docids, refuse_flags
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.flags import shared_options
from feedferry.pipelines.options.value_parsers import NO_OUTPUT
from feedferry.schemas.account import Account, Chunk, add_notice, check_balance
from feedferry.schemas.errors import (
    ConfigError,
    FatalError,
    FeedferryError,
    StoppedError,
    TooManyRejectsError,
)
from feedferry.schemas.notice import REFUSED, Notice
from feedferry.schemas.span import Span
from feedferry.transforms.conversion_settings import Settings
from feedferry.transforms.formats import FORMATS, ReadOptions, WriteOptions, by_name
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

MAX_MEMBERS = 3_000_000
MAX_BYTES = 1_000_000_000
WARNED_PERCENT = 90

_STOPS: dict[int, type[FeedferryError]] = {
    ConfigError.exit_code: ConfigError,
    StoppedError.exit_code: StoppedError,
    FatalError.exit_code: FatalError,
}
_MERGED = {URLS_MERGED: "correct the rules of the step", URLS_SHARED: "correct the source"}
_log = logging.getLogger(__name__)
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
        max_chunk_bytes=options.max_chunk_bytes or by_name(options.to_format).chunk_bytes,
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
        accepted_rejects=(
            options.accepted_rejects and str(Path(options.accepted_rejects).absolute())
        ),
        progress=str(folder.absolute()),
        steps=steps_of(options),
    )


def steps_of(options: ConvertOptions) -> Steps:
    """Return the steps of the user; raise ConfigError for a file without them."""
    return Steps() if options.transform is None else read_steps(Path(options.transform).absolute())


def _used_header(options: ConvertOptions) -> frozenset[str]:
    """Return what a target with feeds takes from the headers, because no flag replaces it."""
    names = ("datasource", "feedtype") if by_name(options.to_format).keeps_feedtypes else ()
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
        _from_options(kind, options, **{"docids": rule} if "docids" in fields else {})
        for kind in kinds
        for fields in (kind.__struct_fields__,)
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
    if options.datasource is not None or not by_name(options.to_format).has_document_feeds:
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


def check_account(account: Account) -> None:
    """Raise the error that stopped a span, or BalanceError."""
    if account.stopped is not None:
        raise _STOPS.get(account.exit_code, FeedferryError)(account.stopped)
    check_balance(account)


def check_limits(account: Account, options: ConvertOptions) -> None:
    """Raise StoppedError if the run exceeds a limit for groups or rejects."""
    named = ((chunk, by_name(chunk.format or options.to_format)) for chunk in account.chunks)
    check_groups(chunk for chunk, format_ in named if format_.holds_only_memberships)
    rejects, records = account.new_rejects, sum(account.read.values())
    limit = options.max_rejects
    if limit is not None and not limit.allows(rejects=rejects, records=records):
        raise TooManyRejectsError(
            f"{rejects} of {records} records rejected; expected at most what ⟦max_rejects⟧ allows; "
            "nothing is published; feedferry rejects list shows them"
        )


def check_steps(account: Account, steps: Steps) -> None:
    """Add a notice for each step without an effect; raise StoppedError if steps filter all.

    It is raised, too, where documents become or have one URL, if a step refuses that.
    """
    for name, config in zip(steps.names, steps.steps, strict=True):
        if config.urls is not None and not config.urls.rewrite:
            continue
        effects = (account.changed, account.filter_codes)
        if sees_all_records(account) and not any(name in by for by in effects):
            detail = f"step {name!r} changes and filters no record; expected at least one"
            add_notice(account.notices, Notice(code="step-unused", detail=detail))
    for code, cure in _MERGED.items():
        merged = account.notices.get(code)
        if merged is not None and steps.refuses_merged_urls:
            raise StoppedError(
                f"{merged.first.detail}; expected a URL for each, as urls: {{merged: refuse}}"
                f" demands: {cure}"
            )
    filtered = sum(account.filter_codes.get(name, 0) for name in steps.names)
    if filtered and filtered == sum(account.read.values()):
        raise StoppedError(
            f"the steps filter all {filtered:,} records; expected some that are left: correct the"
            " conditions, feedferry plan shows what each step does"
        )


def check_groups(chunks: Iterable[Chunk]) -> None:
    """Raise StoppedError for more groups than an appliance accepts; warn at 90 % of a limit.

    Only the chunks of this run are counted, in the order in which they are pushed; a full feed
    replaces the earlier chunks of its groupsource. The groups that an appliance already has are
    not known.
    """
    effective: dict[str | None, list[Chunk]] = {}
    last_full: dict[str | None, str] = {}
    for chunk in chunks:
        if chunk.origin is not None and last_full.get(chunk.datasource) != chunk.origin:
            last_full[chunk.datasource] = chunk.origin
            effective.pop(chunk.datasource, None)
        effective.setdefault(chunk.datasource, []).append(chunk)
    kept = [chunk for chunks in effective.values() for chunk in chunks]
    _check_limit("members", sum(chunk.members for chunk in kept), MAX_MEMBERS)
    _check_limit("bytes", sum(chunk.bytes for chunk in kept), MAX_BYTES)


def _check_limit(unit: str, count: int, limit: int) -> None:
    if count > limit:
        raise StoppedError(
            f"groups with {count:,} {unit}; expected at most {limit:,}, the limit of the group"
            " database of an appliance; leave out groups that no ACL names"
        )
    if count * 100 >= limit * WARNED_PERCENT:
        text = f"groups with {count:,} {unit}; an appliance accepts at most {limit:,}"
        _log.warning("%s", text)


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
