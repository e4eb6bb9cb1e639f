"""A run made of feed files that exist already."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from msgspec.structs import replace

from pipelines.cli.locks import locked_output
from pipelines.cli.push_options import PushOptions
from pipelines.push.run_folder import MANIFEST, REPORT, read_manifest, write_manifest
from schemas.account import Chunk
from schemas.errors import ConfigError
from schemas.span import Span
from transforms.sinks.push.existing_feeds import FeedFileOptions, chunks_of_files
from transforms.sources import open_span
from transforms.storage.atomic import whole_file, write_json

STAGING = ".staging"
"""Folder for decompressed feed files."""

EXPECTED_INPUT = (
    "expected the folder of a finished run (the -o of convert), or feed files with -o DIR"
)
_COPY_BYTES = 1 << 20


def make_run(options: PushOptions) -> tuple[Path, list[Chunk]]:
    """Make a run of the feed files in the folder of -o; return the folder and its chunks."""
    if options.output is None:
        raise ConfigError(
            "-o: not given; expected a folder for the receipts and the kept chunks of feed files"
        )
    root = Path(options.output)
    with locked_output(root):
        staging = root / STAGING
        staging.mkdir(parents=True, exist_ok=True)
        try:
            return root, _make_run(root, options, staging)
        finally:
            shutil.rmtree(staging)


def scan_files(options: PushOptions, staging: Path) -> list[Chunk]:
    """Return a chunk for each feed file; raise ConfigError for files that must not be sent."""
    file_options = FeedFileOptions(
        datasource=options.datasource,
        feedtype=options.feedtype,
        several_full=options.several_full,
        allow_empty_full=options.allow_empty_full,
    )
    paths = list(_paths(options.inputs))
    return chunks_of_files(paths, file_options, staging=staging, open_plain=_open_plain)


def _make_run(root: Path, options: PushOptions, staging: Path) -> list[Chunk]:
    chunks = scan_files(options, staging)
    is_new = not (root / MANIFEST).exists()
    if not is_new and list(map(_identity, read_manifest(root))) != list(map(_identity, chunks)):
        raise ConfigError(
            f"-o {root}: has the run of other files, or of other names for them; expected another"
            " folder"
        )
    chunks = [_keep_file(chunk, root, is_new=is_new) for chunk in chunks]
    if is_new:
        write_manifest(root, chunks)
        write_json(root / REPORT, {"version": 1, "pushed": list(options.inputs)})
    return chunks


def _identity(chunk: Chunk) -> tuple[str, str | None, str | None]:
    return chunk.sha256, chunk.datasource, chunk.feedtype


def _paths(names: Sequence[str]) -> Iterator[Path]:
    """Yield files in the given order; those of a folder in the order of their names."""
    for name in names:
        path = Path(name)
        files = (
            sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
        )
        if not files:
            raise ConfigError(f"INPUT: {name!r}: a folder without files; {EXPECTED_INPUT}")
        yield from files


def _keep_file(chunk: Chunk, root: Path, *, is_new: bool) -> Chunk:
    """Keep the file of a chunk in the folder of the run: a link, or a copy on another disk.

    In a new run, a file of that name was left by a push that ended before it had a manifest.
    """
    path = Path(chunk.path)
    kept = Path("chunks") / f"{chunk.ordinal:06d}{path.suffix}"
    if is_new:
        (root / kept).unlink(missing_ok=True)
    if not (root / kept).exists():
        (root / kept).parent.mkdir(exist_ok=True)
        try:
            os.link(path, root / kept)
        except OSError:
            with path.open("rb") as source, whole_file(root / kept) as stream:
                shutil.copyfileobj(source, stream, _COPY_BYTES)
    return replace(chunk, path=str(kept))


@contextmanager
def _open_plain(path: Path) -> Iterator[IO[bytes]]:
    with open_span(Span(source=str(path), path=str(path))) as stream:
        yield stream
