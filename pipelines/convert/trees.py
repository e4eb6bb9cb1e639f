"""Sources that are trees of files: found among the inputs, listed, compared with what was sent.

The listing is made before the pipeline, once; it stands in the folder of the run until that is
done, so that a run that is started again goes on with the same one.
"""

import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.format_list import FILES
from schemas.errors import (
    ConfigError,
    EncodingError,
    FileNameError,
    FormatError,
    SourceError,
    UnreadableError,
)
from schemas.span import Span
from transforms.formats import by_name
from transforms.sources.files import open_span, sniff_format
from transforms.sources.tree.tree import Oversize, Tree, TreeAcl

SNIFFED_FILES = 100
"""Of a folder whose format nobody names, so many files are looked into."""

POSIX = "posix"
POSIX_INHERITED = "posix-inherited"
PUBLIC = "public"
_GLOB_CHARS = frozenset("*?[")
_BEFORE_MARKUP = b" \t\r\n\0\xef\xbb\xbf\xfe\xff"
_HEAD_BYTES = 1 << 10


def is_tree(name: str) -> bool:
    """Whether an input whose format nobody names is a folder of documents rather than of feeds.

    Raises ConfigError where it seems to be one of both, SourceError where it cannot be listed.
    """
    if "://" in name:
        return name.endswith("/")
    if not Path(name).is_dir():
        return False
    try:
        os.scandir(name).close()
    except OSError as exc:
        raise SourceError(f"{name}: {exc.strerror}; expected a folder that can be listed") from exc
    feed = other = None
    for path in itertools.islice(_files_below(Path(name)), SNIFFED_FILES):
        try:
            found = _format_of(path)
        except (UnreadableError, EncodingError):  # it may be a feed or a document
            continue
        if found is None:
            other = path
        elif not by_name(found).is_common_text:
            feed = path
        if feed and other:
            raise ConfigError(
                f"INPUT: {name!r} holds feeds ({feed.name}) and other files ({other.name}); "
                "expected --from files, to take each file as a document, or --from and the format"
                " of the feeds"
            )
    return other is not None


def list_roots(inputs: tuple[str, ...]) -> list[Span]:
    """Return a span for each folder or uri, and one for all files of a folder that are named.

    Raises ConfigError where one is not there.
    """
    for name in inputs:
        check_name(name)
    roots: dict[str, tuple[str, set[str | None]]] = {}
    for root, file in map(_root_of, inputs):
        roots.setdefault(_path_of(root), (root, set()))[1].add(file)
    return [
        root_span(root, ordinal=ordinal, only=_only(files))
        for ordinal, (root, files) in enumerate(roots.values())
    ]


def root_span(root: str, *, ordinal: int, only: tuple[str, ...] = ()) -> Span:
    """Return the span of a tree; its `context` are the files that are to be read, if not all."""
    return Span(
        source=root,
        path=_path_of(root),
        source_ordinal=ordinal,
        format=FILES,
        context=msgspec.json.encode(only) if only else b"",
    )


def tree_of(span: Span, options: ConvertOptions) -> Tree:
    """Return how the files of a tree become records, as the options say."""
    return Tree(
        root=span.path,
        only=tuple(msgspec.json.decode(span.context)) if span.context else (),
        base_url=options.base_url,
        url_template=options.url_template,
        display_url=options.display_url,
        include=options.include,
        exclude=options.exclude,
        takes_hidden=options.hidden,
        follows_links=options.follow_links,
        opens_archives=options.open_archives,
        is_crawled=by_name(options.to_format).is_fetched_by_target(
            datasource=options.datasource, feedtype=options.feedtype
        ),
        oversize=Oversize(options.oversize),
        states_paths=options.path_metadata,
        charset=options.charset,
        acl=_acl(options, is_remote="://" in span.path),
        is_public=options.acl == PUBLIC,
    )


def _acl(options: ConvertOptions, *, is_remote: bool) -> TreeAcl | None:
    if options.acl in (None, PUBLIC):
        return None
    if options.acl not in (POSIX, POSIX_INHERITED):
        return TreeAcl(table=str(Path(options.acl).absolute()))
    if is_remote:
        raise ConfigError(
            f"--acl {options.acl}: not for a uri, which tells no owners; expected a CSV file"
        )
    return TreeAcl(
        is_inherited=options.acl == POSIX_INHERITED,
        namespace=options.acl_namespace,
        everyone=options.acl_everyone,
    )


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield files that are not hidden, a folder at a time, in no order that matters.

    What cannot be looked into tells nothing, and is passed over.
    """
    folders = [folder]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as found:
            for one in found:
                if one.name.startswith("."):
                    continue
                if one.is_dir(follow_symlinks=False):
                    folders.append(Path(one.path))
                elif one.is_file() and os.access(one.path, os.R_OK):
                    yield Path(one.path)


def _format_of(path: Path) -> str | None:
    """The format of a file, unless it is a text that only shows a feed, as this page would."""
    span = Span(source=str(path), path=str(path))
    try:
        found = sniff_format(span)
    except EncodingError:
        raise
    except (ConfigError, FormatError):
        return None
    with open_span(span) as stream:
        head = stream.read(_HEAD_BYTES)
    is_markup = head.lstrip(_BEFORE_MARKUP).startswith(b"<")
    return found if is_markup or not by_name(found).is_xml else None


def check_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as exc:  # reports and rejects could not say which one it was
        raise FileNameError(f"INPUT: {name!r}; expected a name in UTF-8") from exc


def _path_of(root: str) -> str:
    path = root if "://" in root else str(Path(root).absolute())
    return path.rstrip("/") or path


def _only(files: set[str | None]) -> tuple[str, ...]:
    """The files that are named; none where the folder is as well, so that all of it is read."""
    return () if None in files else tuple(sorted(file for file in files if file is not None))


def _root_of(name: str) -> tuple[str, str | None]:
    """The folder of a file and its name there, or a folder."""
    if "://" in name or Path(name).is_dir():
        return name, None
    if Path(name).exists():
        return str(Path(name).parent), Path(name).name
    if _GLOB_CHARS & set(name):
        raise ConfigError(
            f"INPUT: {name!r} is a glob; expected a folder, and the glob behind --include"
        )
    raise ConfigError(f"INPUT: {name!r} is not there; expected a file, a folder or a uri")
