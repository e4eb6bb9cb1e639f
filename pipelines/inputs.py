"""What the arguments INPUT… name: files, folders, globs, uris and standard input, in order.

Files of a folder or glob stand in the order of their names; arguments keep the order as given.
"""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from apache_beam.io.filesystems import FileSystems

from schemas.errors import ConfigError, SourceError
from schemas.span import Span
from transforms.sinks.files import whole_file
from transforms.sources.files import sniff_format

STDIN = "-"
_GLOB_CHARS = frozenset("*?[")


def list_spans(inputs: tuple[str, ...], *, from_format: str | None, spool: Path) -> list[Span]:
    """Return a whole span for each file; standard input is first copied to `spool`.

    Raises ConfigError where an argument names nothing, SourceError where it cannot be listed,
    FormatError where a format is neither given nor found.
    """
    sources = [source for name in inputs for source in _expand(name, spool)]
    return [
        Span(
            source=source,
            source_ordinal=ordinal,
            format=from_format or sniff_format(source),
        )
        for ordinal, source in enumerate(sources)
    ]


def size_of(source: str) -> int:
    """The file's size in bytes, 0 where it cannot be known beforehand."""
    return 0 if "://" in source else Path(source).stat().st_size


def _expand(name: str, spool: Path) -> Iterator[str]:
    if name == STDIN:
        yield _spool(spool)
    elif "://" in name:
        yield from _remote(name)
    elif Path(name).is_dir():
        yield from _found(name, (path for path in Path(name).rglob("*") if _is_input(path)))
    elif Path(name).exists():
        yield name
    elif _GLOB_CHARS & set(name):
        root = Path(name).anchor or "."
        pattern = str(Path(name).relative_to(root)) if Path(name).is_absolute() else name
        yield from _found(name, (path for path in Path(root).glob(pattern) if path.is_file()))
    else:
        raise ConfigError(f"INPUT: {name!r} is not there; expected a file, folder, glob, uri or -")


def _is_input(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")


def _found(name: str, paths: Iterator[Path]) -> list[str]:
    found = sorted(str(path) for path in paths)
    if not found:
        raise ConfigError(f"INPUT: {name!r} holds no file; expected at least one")
    return found


def _remote(name: str) -> list[str]:
    """A uri with a glob is listed; any other is taken as it is, for not all schemes can list."""
    if not _GLOB_CHARS & set(name):
        return [name]
    try:
        [match] = FileSystems.match([name])
    except (OSError, ValueError) as exc:
        raise SourceError(f"{name}: {exc}; expected a uri that can be listed") from exc
    if not match.metadata_list:
        raise ConfigError(f"INPUT: {name!r} matches no file; expected at least one")
    return sorted(found.path for found in match.metadata_list)


def _spool(spool: Path) -> str:
    """Workers of other processes cannot read our standard input; a run can resume from a file."""
    with whole_file(spool) as stream:
        shutil.copyfileobj(sys.stdin.buffer, stream, 1 << 20)
    return str(spool)
