"""The source `files`: every file of a tree is a document.

A tree is listed once, before the pipeline. The listing is kept in the folder of the run, so that a
run that is started again continues with the same one.
"""

import hashlib
import itertools
import os
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from heapq import merge
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.schemas.account import Account
from feedferry.schemas.check import Check, CheckLine, fail, ok
from feedferry.schemas.errors import (
    ConfigError,
    EncodingError,
    FormatError,
    SourceError,
    UnreadableError,
)
from feedferry.schemas.source_options import SourceOptions, TreeRules
from feedferry.schemas.span import NamedFiles, Span
from feedferry.schemas.units import counted
from feedferry.transforms.formats import by_name
from feedferry.transforms.formats.base import ReadResult
from feedferry.transforms.sources.base import (
    Source,
    SourceRun,
    SpanRequest,
    SpanSize,
    check_input_name,
)
from feedferry.transforms.sources.changes.detector import ChangeDetector
from feedferry.transforms.sources.files import open_span, sniff_format
from feedferry.transforms.sources.listing import (
    LISTING,
    EntryKind,
    cut_listing,
    plain_path,
    read_listing,
    size_listing,
    write_changes,
    write_listing,
)
from feedferry.transforms.sources.state_changes import read_changes
from feedferry.transforms.sources.tree.acl.acl_table import load_acl_table
from feedferry.transforms.sources.tree.file_changes import compare, merge_unchanged
from feedferry.transforms.sources.tree.rules.patterns import judge
from feedferry.transforms.sources.tree.rules.tree import Tree, TreeAcl
from feedferry.transforms.sources.tree.rules.urls import check_urls
from feedferry.transforms.storage.run_folders.mirrors import shown
from feedferry.transforms.storage.state import StateHead, open_state, update_state

FILES = "files"

SNIFFED_FILES = 100
"""How many files of a folder are examined to distinguish documents from feeds."""

POSIX = "posix"
POSIX_INHERITED = "posix-inherited"
PUBLIC = "public"
_GLOB_CHARS = frozenset("*?[")
_BEFORE_MARKUP = b" \t\r\n\0\xef\xbb\xbf\xfe\xff"
_HEAD_BYTES = 1 << 10


class TreeSource(Source[Tree]):
    """A folder or a URI whose files are documents."""

    name = FILES
    title = "files of any kind: a folder or a uri, each a document"
    noun = "a tree"
    span_formats = frozenset({FILES, LISTING})
    is_folder = True
    makes_urls = True
    has_state = True
    config_type = Tree
    counts_contents = True

    def matches(self, name: str) -> bool:
        """Whether an input is a folder of documents rather than of feeds.

        Raise ConfigError where it seems to hold both, SourceError where it cannot be listed.
        """
        if "://" in name:
            return name.endswith("/")
        return Path(name).is_dir() and _has_documents(Path(name), name)

    def list_inputs(self, names: Sequence[str], *, first: int) -> list[Span]:
        """Return a span for each folder or URI, and one for all named files of a folder.

        Raise ConfigError where an input does not exist.
        """
        roots: dict[str, tuple[str, set[str]]] = {}
        for name in names:
            check_input_name(name)
            root, file = _root_of(name)
            path = root if "://" in root else str(Path(root).absolute())
            roots.setdefault(path.rstrip("/") or path, (root, set()))[1].add(file)
        return [
            Span(
                source=root,
                path=path,
                source_ordinal=ordinal,
                format=FILES,
                position=None if "" in files else NamedFiles(tuple(sorted(files))),
            )
            for ordinal, (path, (root, files)) in enumerate(roots.items(), start=first)
        ]

    def check_state(self, span: Span, state: str) -> None:
        if span.position is not None:
            raise ConfigError(
                f"⟦state⟧ {state}: of single files; expected a folder, as what is not named would"
                " look as if it were gone"
            )

    def load(self, span: Span, options: SourceOptions) -> Tree:
        tree = check_urls(tree_of(span, options))
        judge(tree)  # refuses bad patterns
        if tree.acl is not None and tree.acl.table is not None:
            load_acl_table(tree.acl.table)
        if "://" in tree.root and tree.follow_links:
            raise ConfigError("⟦follow_links⟧: not for a uri; expected it for a local folder")
        if "://" not in tree.root and not tree.only:
            _check_outside(tree, options)
        return tree

    def fingerprint(self, config: Tree) -> str:
        """Return a fingerprint of everything that decides over the records besides the files."""
        rules = msgspec.json.encode(config, order="sorted")
        if config.acl is not None and config.acl.table is not None:
            rules += Path(config.acl.table).read_bytes()
        return hashlib.sha256(rules).hexdigest()

    def may_inherit(self, span: Span, config: Tree | None) -> bool:
        return config is None or _has_folder_acls(config)

    def acls(self, span: Span, config: Tree | None) -> Iterator[ReadResult] | None:
        from feedferry.transforms.sources.tree.documents.read import read_folders

        return read_folders(span, config) if config and _has_folder_acls(config) else None

    def checks(self, runs: Sequence[SourceRun[Tree]]) -> Iterator[Check]:
        for run in runs:
            yield Check("tree", partial(_check_tree, run.config))

    def split(self, run: SourceRun[Tree]) -> Iterator[Span]:
        if not run.listing.exists():
            _write_listing(run)
        listing = replace(run.span, path=str(run.listing), position=None)
        return cut_listing(listing, span_bytes=run.options.span_bytes)

    def check_runs(self, runs: Sequence[SourceRun[Tree]]) -> None:
        """Raise ConfigError where two trees have the same path: one document would be lost."""
        trees = [_sent_keys(run) for run in runs if len(runs) > 1]
        for (key, source), (next_key, other) in pairwise(merge(*trees, key=itemgetter(0))):
            if key == next_key:
                raise ConfigError(
                    f"⟦inputs⟧: {key!r} is in {source!r} and in {other!r}, and would have one url;"
                    " expected a run for each, with a ⟦base_url⟧ of its own"
                )

    def size(self, span: Span) -> SpanSize:
        with open_span(span) as stream:
            return SpanSize(*size_listing(stream))

    def read(self, request: SpanRequest[Tree]) -> Generator[ReadResult, None, None]:
        from feedferry.transforms.sources.tree.documents.read import read_tree

        # Deletions of a database are a listing too, without a tree.
        tree = request.config if isinstance(request.config, Tree) else Tree(root="")
        with open_span(request.span) as stream:
            yield from read_tree(
                stream,
                span=request.span,
                tree=tree,
                options=request.options,
                see=request.see,
            )

    def remember(self, run: SourceRun[Tree], account: Account, *, generation: int) -> None:
        stamp = StateHead(
            source=run.span.path,
            rules=self.fingerprint(run.config),
            listed_at_ns=int(_listed_at(run.listing).read_text()),
            run=shown(run.work),
        )
        seen = read_changes(run.work, account.files)
        update_state(Path(run.options.state or ""), seen, before=generation, stamp=stamp)


def _check_tree(tree: Tree, seconds: float) -> Iterator[CheckLine]:
    """Count the files of a tree for some seconds, and those that cannot be read."""
    from feedferry.transforms.sources.tree.folders.walk import list_tree

    latest = time.monotonic() + seconds
    files = size = unreadable = 0
    first = more = ""
    for entry in list_tree(tree):
        reason = entry.reason if entry.kind is EntryKind.REJECTED else ""
        if entry.kind is EntryKind.FILE:
            files, size = files + 1, size + entry.size
            if "://" not in tree.root and not os.access(plain_path(entry.path), os.R_OK):
                reason = f"{tree.root}/{entry.key}: no permission to read it"
        if reason:
            unreadable, first = unreadable + 1, first or reason.partition("; ")[0]
        if time.monotonic() > latest:
            more = "more than "
            break
    yield ok("tree", f"{tree.root}: {more}{counted(files, 'file')}, {size:,} bytes", size=size)
    if unreadable:
        cure = "let the user of the run read them, or leave them out by ⟦exclude⟧"
        yield fail("tree", f"{unreadable:,} cannot be read, the first: {first}", cure)


def tree_of(span: Span, options: SourceOptions) -> Tree:
    """Return how the files of a tree become records, as the options say."""
    return Tree(
        **{name: getattr(options, name) for name in TreeRules.__struct_fields__},
        root=span.path,
        only=span.position.keys if isinstance(span.position, NamedFiles) else (),
        is_crawled=by_name(options.to_format).is_fetched_by_target(
            datasource=options.datasource, feedtype=options.feedtype
        ),
        acl=_acl(options, is_remote="://" in span.path),
        is_public=options.acl == PUBLIC,
    )


def _acl(options: SourceOptions, *, is_remote: bool) -> TreeAcl | None:
    if options.acl in (None, PUBLIC):
        return None
    if options.acl not in (POSIX, POSIX_INHERITED):
        return TreeAcl(table=str(Path(options.acl).absolute()))
    if is_remote:
        raise ConfigError(
            f"⟦acl⟧ {options.acl}: not for a uri, which has no owners; expected a CSV file"
        )
    return TreeAcl(
        is_inherited=options.acl == POSIX_INHERITED,
        namespace=options.acl_namespace,
        everyone=options.acl_everyone,
    )


def _has_folder_acls(config: msgspec.Struct) -> bool:
    """Whether files inherit from folders. A listing of a database has deletions, and no tree."""
    return isinstance(config, Tree) and config.acl is not None and config.acl.is_inherited


def _check_outside(tree: Tree, options: SourceOptions) -> None:
    """Raise ConfigError for a path that the run writes and would read as a document."""
    code_of = judge(tree)
    for flag, name in options.written_paths:
        path, root = Path(name).resolve(), Path(tree.root).resolve()
        if not path.is_relative_to(root):
            continue
        key = path.relative_to(root).as_posix()
        slash = "/" if name.endswith("/") else ""
        if key == "." or not code_of(key + slash):
            cure = "" if key == "." else f", or ⟦exclude {key + slash!r}⟧"
            raise ConfigError(
                f"{flag} {name.removesuffix('/')}: in the tree {tree.root!r}, whose files are"
                f" documents; expected a place outside{cure}"
            )


def _write_listing(run: SourceRun[Tree]) -> None:
    """Write the files of a tree, or the changes since the state was updated."""
    from feedferry.transforms.sources.tree.documents.member_keys import MemberLister
    from feedferry.transforms.sources.tree.folders.walk import list_blocks, list_tree

    now, tree, options = time.time_ns(), run.config, run.options
    if options.state is None:
        write_listing(list_tree(tree), run.listing)
        return
    marks_files = by_name(options.to_format).needs_decisions
    _listed_at(run.listing).write_text(str(now))
    with (
        open_state(Path(options.state)) as state,
        closing(ChangeDetector(state, run.rewrite)) as detector,
    ):
        lines = compare(
            list_blocks(tree, marks_files=marks_files),
            detector,
            rules=TREE.fingerprint(tree),
            is_refresh=options.refresh,
            member_keys=MemberLister(tree),
        )
        write_changes(merge_unchanged(lines, detector), detector.deletions(options), run.listing)


def _listed_at(listing: Path) -> Path:
    return listing.with_suffix(".listed-at")


def _sent_keys(run: SourceRun[Tree]) -> Iterator[tuple[str, str]]:
    """Yield the keys of the documents of a tree, each with the name of the tree."""
    with run.listing.open("rb") as stream:
        for _, listed in read_listing(stream):
            if listed.kind in (EntryKind.FILE, EntryKind.FOLDER):
                yield listed.key, run.span.source


def _has_documents(folder: Path, name: str) -> bool:
    try:
        os.scandir(folder).close()
    except OSError as exc:
        from feedferry.transforms.sources.tree.folders.folders import LISTABLE

        raise SourceError(f"{name}: {exc.strerror}; {LISTABLE}") from exc
    feed = other = None
    for path in itertools.islice(_files_below(folder), SNIFFED_FILES):
        try:
            format_ = _format_of(path)
        except (UnreadableError, EncodingError):  # it may be a feed or a document
            continue
        if format_ is None:
            other = path
        elif not by_name(format_).is_common_text:
            feed = path
        if feed and other:
            raise ConfigError(
                f"⟦inputs⟧: {name!r} holds feeds ({feed.name}) and other files ({other.name}); "
                "expected ⟦from_format files⟧, to take each file as a document, or ⟦from_format⟧"
                " and the format of the feeds"
            )
    return other is not None


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield files that are not hidden, a folder at a time; skip folders that cannot be listed."""
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(above, name) for name in names if not name.startswith(".")):
            if os.path.isfile(path) and os.access(path, os.R_OK):
                yield path


def _format_of(path: Path) -> str | None:
    """Return the format of a file, None for a text that only quotes a feed."""
    span = Span(source=str(path), path=str(path))
    try:
        format_ = sniff_format(span)
    except (ConfigError, FormatError) as exc:
        if isinstance(exc, EncodingError):
            raise
        return None
    with open_span(span) as stream:
        is_markup = stream.read(_HEAD_BYTES).lstrip(_BEFORE_MARKUP).startswith(b"<")
    return format_ if is_markup or not by_name(format_).is_xml else None


def _root_of(name: str) -> tuple[str, str]:
    """Return the folder of a file and the name of the file there; of a folder, no name."""
    if "://" in name or Path(name).is_dir():
        return name, ""
    if Path(name).exists():
        return str(Path(name).parent), Path(name).name
    if _GLOB_CHARS & set(name):
        raise ConfigError(
            f"⟦inputs⟧: {name!r} is a glob; expected a folder, and the glob after ⟦include⟧"
        )
    raise ConfigError(f"⟦inputs⟧: {name!r} is not there; expected a file, a folder or a uri")


TREE = TreeSource()
