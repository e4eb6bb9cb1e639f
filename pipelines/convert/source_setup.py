"""Sources that are asked what there is: programs, trees, databases and spools.

They are asked before the pipeline, once; what they say stands in the folder of the run until that
is done, so that a run that is started again goes on with the same listing. The state of a source
moves when all that the run made is published, and not before.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

import msgspec
from msgspec.structs import replace

from pipelines.cli.convert_options import (
    ConvertOptions,
    refuse_spool_flags,
    refuse_tree_flags,
    safety_of,
)
from pipelines.cli.format_list import COMMAND, FILES
from pipelines.cli.locks import state_lock
from pipelines.convert.spools import cut_spool, load_spool
from pipelines.convert.trees import tree_of
from schemas.account import Account
from schemas.errors import ConfigError
from schemas.span import Span
from transforms.convert import Settings
from transforms.formats import LISTER_STREAM
from transforms.sources.change_detection import compare
from transforms.sources.database.mapping import DATABASE, Mapping
from transforms.sources.deletion_guard import Counts, check_safety, counted
from transforms.sources.files import cut_file
from transforms.sources.listing import Kind, cut_listing, read_listing, write_listing
from transforms.sources.programs import config, lister
from transforms.sources.programs.config import Programs
from transforms.sources.seen import read_seen
from transforms.sources.signature import sign_path
from transforms.sources.span_reader import Source
from transforms.sources.spool import SPOOL, Spool
from transforms.sources.tree.acl_table import load_acl_table
from transforms.sources.tree.patterns import check_patterns, judge
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.urls import check_urls
from transforms.sources.tree.walk import list_tree
from transforms.storage.atomic import whole_file
from transforms.storage.state import Stamp, check_state, move, open_state

LISTED_BYTES = 64 << 10
"""About how much of the listing of a program is a span: a thousand documents, which a resumed run
need not ask for again.
"""

STDOUT = "-"
"""The output of what writes no files."""

_GENERATION = "generation"


def load_sources(spans: Iterable[Span], options: ConvertOptions) -> dict[str, Source]:
    """Return how those sources are read that are more than bytes; raise ConfigError if they cannot.

    A state is of one source, so that a run that has one reads no other.
    """
    spans = list(spans)
    if not any(span.format == FILES for span in spans):
        refuse_tree_flags(options)
    _check_spools(spans, options)
    sources = {span.source: _load(span, options) for span in spans if span.format in _LOADERS}
    for source in sources.values():
        if isinstance(source, Tree) and "://" not in source.root and not source.only:
            _check_outside(source, options)
    if options.state is not None:
        _check_one(spans, options.state)
    return sources


def cut_source(span: Span, settings: Settings, options: ConvertOptions) -> Iterator[Span]:
    """Yield the spans of a source that is asked, or any other as it is.

    Raises SourceError where it cannot be asked, and StoppedError where what it says is not safe.
    """
    if span.format == COMMAND:
        yield from _cut_programs(span, settings)
    elif span.format == FILES:
        yield from _cut_tree(span, settings, options)
    elif span.format == DATABASE:
        from pipelines.convert.databases import cut_database

        yield from cut_database(span, settings, options)
    elif isinstance(spool := settings.sources.get(span.source), Spool):
        yield from cut_spool(span, spool, _listing_of(span, settings))
    else:
        yield span


def refuse_shared_urls(spans: Iterable[Span], settings: Settings) -> None:
    """Raise ConfigError where trees that were listed share a path: one document would be lost."""
    trees = [_stands_in(span, settings) for span in spans if span.format == FILES]
    if len(trees) < 2:
        return
    for (key, one), (next_key, other) in pairwise(merge(*trees, key=itemgetter(0))):
        if key == next_key:
            raise ConfigError(
                f"INPUT: {key!r} stands in {one!r} and in {other!r}, and would have one url;"
                " expected a run for each, with a --base-url of its own"
            )


def rules_of(source: Source) -> str:
    """Return a fingerprint of what decides over records beside what stands in their source.

    Tables of ACLs and templates are in it by what they say.
    """
    if isinstance(source, Mapping):
        from transforms.sources.database import plan

        return plan.rules_of(source)
    said = msgspec.json.encode(source, order="sorted")
    if isinstance(source, Tree) and source.acl is not None and source.acl.table is not None:
        said += Path(source.acl.table).read_bytes()
    return hashlib.sha256(said).hexdigest()


def begin(settings: Settings) -> None:
    """Note in the folder of the run what the state is when it begins, once."""
    path = Path(settings.folder) / _GENERATION
    if settings.state is not None and not path.exists():
        with open_state(Path(settings.state)) as state, whole_file(path) as stream:
            stream.write(str(state.generation).encode())


def remember(spans: list[Span], settings: Settings, account: Account) -> None:
    """Update the state after a successful run; if it is interrupted after that, it may do so again.

    `account` is that of the run: it names the files in which the spans wrote what they saw.
    """
    if settings.state is None:
        return
    (span,) = spans
    work = Path(settings.folder)
    generation = int((work / _GENERATION).read_text())
    if span.format == DATABASE:
        from pipelines.convert.databases import remember_rows

        remember_rows(span, settings, account, generation=generation)
        return
    stamp = Stamp(
        source=span.path,
        rules=rules_of(settings.sources[span.source]),
        listed_at_ns=int(_listed_at(_listing_of(span, settings)).read_text()),
        run=str(work),
    )
    seen = read_seen(work, account.files)
    move(Path(settings.state), seen, before=generation, stamp=stamp)


def _check_one(spans: list[Span], state: str) -> None:
    if len(spans) != 1 or spans[0].format not in (FILES, DATABASE):
        names = ", ".join(span.source for span in spans)
        raise ConfigError(f"--state {state}: of {names}; expected one tree or one database")
    if spans[0].context:
        raise ConfigError(
            f"--state {state}: of single files; expected a folder, as what is not named would look"
            " as if it were gone"
        )
    check_state(Path(state), source=spans[0].path)


def _check_spools(spans: list[Span], options: ConvertOptions) -> None:
    """Raise ConfigError unless a spool is all that is read: what came when is known of one only."""
    spool = next((span for span in spans if span.format == SPOOL), None)
    if spool is None:
        refuse_spool_flags(options)
    elif len(spans) > 1:
        other = next(span for span in spans if span is not spool)
        raise ConfigError(
            f"INPUT: {spool.source!r} is a spool, and {other.source!r} stands beside it; expected a"
            " run for each"
        )


def _load(span: Span, options: ConvertOptions) -> Source:
    return _LOADERS[span.format](span, options)


def _load_programs(span: Span, options: ConvertOptions) -> Programs:
    loaded = config.load(Path(span.path))
    return replace(
        loaded,
        parallel=loaded.parallel or options.jobs,
    )


def _check_outside(tree: Tree, options: ConvertOptions) -> None:
    """Raise ConfigError where what a run writes would be read as documents, by it or the next."""
    code_of = judge(tree)
    output = None if options.output == STDOUT else options.output
    lock = None if options.state is None else str(state_lock(Path(options.state)))
    places = (("-o", output, "/"), ("--state", options.state, ""), ("--state", lock, ""))
    for flag, name, slash in places:
        path, root = Path(name or "/").resolve(), Path(tree.root).resolve()
        key = path.relative_to(root).as_posix() if path.is_relative_to(root) else None
        if name and key is not None and (key == "." or not code_of(key + slash, None)):
            cure = "" if key == "." else f", or --exclude {key + slash!r}"
            raise ConfigError(
                f"{flag} {name}: in the tree {tree.root!r}, whose files are documents; expected a"
                f" place outside{cure}"
            )


def _load_tree(span: Span, options: ConvertOptions) -> Tree:
    tree = check_patterns(check_urls(tree_of(span, options)))
    if tree.acl is not None and tree.acl.table is not None:
        load_acl_table(tree.acl.table)
    return tree


def _load_mapping(span: Span, _options: ConvertOptions) -> Source:
    from pipelines.convert.databases import read_mapping

    return read_mapping(span)


def _cut_programs(span: Span, settings: Settings) -> Iterator[Span]:
    path = _listing_of(span, settings)
    source = settings.sources[span.source]
    if not path.exists() and isinstance(source, Programs):
        lister.list_documents(source, path, options=settings.reading)
    signature = sign_path(str(path))
    listing = replace(span, path=str(path), format=LISTER_STREAM.name, signature=signature)
    yield from cut_file(listing, span_bytes=LISTED_BYTES)


def _cut_tree(span: Span, settings: Settings, options: ConvertOptions) -> Iterator[Span]:
    path = _listing_of(span, settings)
    tree = settings.sources[span.source]
    if not path.exists() and isinstance(tree, Tree):
        _list_tree(tree, path, options)
    listing = replace(span, path=str(path), context=b"")
    yield from cut_listing(listing, span_bytes=options.span_bytes)


def _list_tree(tree: Tree, path: Path, options: ConvertOptions) -> None:
    """Write what stands in a tree, or what has changed there since the state was moved."""
    now = time.time_ns()
    if options.state is None:
        write_listing(list_tree(tree), path)
        return
    _listed_at(path).write_text(str(now))
    counts = Counts()
    with open_state(Path(options.state)) as state:
        changes = compare(list_tree(tree), state, rules=rules_of(tree), is_refresh=options.refresh)
        unchecked = path.with_suffix(".unchecked")
        write_listing(counted(changes, counts), unchecked)
        check_safety(counts, known=state.count, safety=safety_of(options))
    unchecked.replace(path)


def _stands_in(span: Span, settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the paths in a tree of which something is sent, each with the name of the tree."""
    with _listing_of(span, settings).open("rb") as stream:
        for _, listed in read_listing(stream):
            if listed.kind in (Kind.FILE, Kind.FOLDER):
                yield listed.key, span.source


def _listing_of(span: Span, settings: Settings) -> Path:
    return Path(settings.folder) / f"{span.name}.listing"


def _listed_at(listing: Path) -> Path:
    return listing.with_suffix(".listed-at")


_LOADERS: dict[str, Callable[[Span, ConvertOptions], Source]] = {
    COMMAND: _load_programs,
    FILES: _load_tree,
    DATABASE: _load_mapping,
    SPOOL: load_spool,
}
