"""Publish the output of a run in its output folder: everything at the end, or nothing.

The files of the spans stay in the folder of the run until the run is finished. Published files are
links to them, or copies if the file system has no links, so publishing can be interrupted at any
point and starts again from the beginning. Chunks appear by one rename of their folder. The report
is written last: a run without a report is unfinished.
"""

import logging
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path

import msgspec

from feedferry.pipelines.convert.publication.step_lists import STEP_LISTS
from feedferry.pipelines.folders.locks import WORK
from feedferry.pipelines.folders.manifest import MANIFEST, REPORT, Manifest, write_manifest
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.report.conversion_report import Report, as_json
from feedferry.schemas.account import Account, Chunk
from feedferry.schemas.errors import FINDINGS_EXIT, FatalError
from feedferry.schemas.feed import FULL, INCREMENTAL, Feed
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.full_feed_checks import settle_full_feeds
from feedferry.transforms.formats import by_name
from feedferry.transforms.rules.withheld_list import HEAD, WITHHELD
from feedferry.transforms.storage.atomic import (
    AtomicFile,
    link_or_copy,
    paths_of,
    whole_file,
    write_json,
)
from feedferry.transforms.storage.files.journal import sync_file
from feedferry.transforms.storage.run_folders.attempts import SPAN_REJECTS, is_untouched
from feedferry.transforms.storage.storage import LocalStorage

_log = logging.getLogger(__name__)
_COPY_BYTES = 1 << 20
_SYNC_THREADS = 8
_SYNC_FILES = 1000
PUBLISHED = (
    *("chunks", "rejects", MANIFEST, "urls.txt", "filtered.jsonl", WITHHELD),
    *STEP_LISTS,
)
"""The files of a conversion in its output folder, apart from its report."""

_PLACES = ("folder", "local_folder", "progress", "state", "kept_acls")
"""The settings that say where a run reads and writes, which its report leaves out."""

_APPENDED = (
    "incremental: adds to the groups of the full feed in the first chunk; push it after that chunk"
)


def publish(
    account: Account,
    settings: Settings,
    *,
    output: Path,
    spans: list[Span],
    options: ConvertOptions,
) -> Report:
    """Number the chunks in input order, publish all files in `output`, and return the report.

    It may be called again after an interruption. Raises StoppedError for a full feed that would
    delete documents without being asked to (see `settle_full_feeds`), and FatalError if a file of
    the run has changed; nothing is published then. Of a run in object storage no chunk is copied,
    unless it states another feedtype: the manifest names the objects.
    """
    settle_full_feeds(account, settings)
    work = settings.local
    (output / REPORT).unlink(missing_ok=True)
    if settings.local_folder is None:
        check_files(account, work, verify=settings.verify)
    staged, previous, chunks_folder = work / "chunks", work / "chunks-before", output / "chunks"
    for folder in (staged, previous):
        shutil.rmtree(folder, ignore_errors=True)
    staged.mkdir()
    numbered = number_chunks(account, settings)
    write_manifest(output, (_place(*pair, staged, settings) for pair in numbered))
    chunks = Manifest(output / MANIFEST)
    _publish_rejects(account, work, output)
    _join(paths_of(work, account.files, ".urls.txt"), output / "urls.txt")
    _join(paths_of(work, account.files, ".filtered.jsonl"), output / "filtered.jsonl")
    _join(paths_of(work, account.files, f".{WITHHELD}"), output / WITHHELD, head=HEAD)
    for name in STEP_LISTS:
        _link(work / name, output / name)
    if chunks_folder.exists():  # an interrupted run has published it
        os.replace(chunks_folder, previous)
    os.replace(staged, chunks_folder)
    report = report_of(account, chunks, settings, folder=str(output), spans=spans)
    _sync(output)
    write_json(output / REPORT, as_json(report))
    sync_file(output / REPORT)
    sync_file(output)
    for chunk in chunks:
        records = ", ".join(f"{count} {action}" for action, count in chunk.records.items())
        _log.info("%s: published; %d bytes; %s", chunk.path, chunk.bytes, records)
    return report


def number_chunks(account: Account, settings: Settings) -> Iterator[tuple[Chunk, Chunk]]:
    """Yield the chunks of a run in input order, each as it was written and as it is published.

    The groups of a run with documents come after these. If the published chunk states another
    feedtype, its `bytes` are right and its `sha256` is not.
    """
    full = _full_chunks(account.chunks)
    documents = (chunk for chunk in account.chunks if chunk.format is None)
    groups = (chunk for chunk in account.chunks if chunk.format is not None)
    for ordinal, chunk in enumerate(chain(documents, groups), start=1):
        yield chunk, _number(chunk, ordinal, settings, is_full=chunk.path in full)


def check_files(account: Account, work: Path, *, verify: bool) -> None:
    """Raise FatalError if a file of the spans has changed.

    Files are hashed while they are written, or when a run is resumed. A file is read again only if
    its time stamp has changed since.
    """
    run = LocalStorage(work)
    for file in account.files:
        path = work / file.path
        if not is_untouched(path, file) and not run.is_whole(file, verify=verify):
            raise FatalError(
                f"{path}: differs from the {file.bytes:,} bytes that were written; start"
                " again to write it again"
            )


def _sync(output: Path) -> None:
    """Write the published files through to the disk, before the report is written.

    Several files at a time take a tenth of the time, because the file system joins the writes.
    """
    paths = [output / name for name in PUBLISHED if (output / name).exists()]
    folders = [path for path in paths if path.is_dir()]
    files = chain(
        (path for path in paths if not path.is_dir()),
        (file for folder in folders for file in folder.iterdir()),
    )
    with ThreadPoolExecutor(_SYNC_THREADS) as pool:
        while batch := list(islice(files, _SYNC_FILES)):
            for _ in pool.map(sync_file, batch):
                pass
    for folder in (*folders, output):
        sync_file(folder)


def _full_chunks(chunks: Iterable[Chunk]) -> set[str]:
    """Return the paths of the chunks to be sent as full: the first one of each full feed.

    A span cannot know this, because the first record of its feed may be in an earlier span.
    """
    first: dict[tuple[str | None, str | None, str], str] = {}
    for chunk in chunks:
        if chunk.requested_feedtype == FULL:
            first.setdefault((chunk.format, chunk.datasource, chunk.origin or ""), chunk.path)
    return set(first.values())


def _number(chunk: Chunk, ordinal: int, settings: Settings, *, is_full: bool) -> Chunk:
    """Return the chunk with its number, and with the feedtype that its place requires."""
    feedtype = chunk.feedtype
    if chunk.requested_feedtype == FULL:
        feedtype = FULL if is_full else INCREMENTAL
    format_ = by_name(chunk.format or settings.target.format)
    is_appended = format_.holds_only_memberships and feedtype != chunk.requested_feedtype
    stated = msgspec.structs.replace(
        chunk,
        ordinal=ordinal,
        path=f"chunks/{ordinal:06d}{Path(chunk.path).suffix}",
        format=format_.name,
        feedtype=feedtype,
        note=_APPENDED if is_appended else None,
    )
    if not _is_restated(chunk, stated):
        return stated
    grown = len(_prolog(settings, stated)) - len(_prolog(settings, chunk))
    return msgspec.structs.replace(stated, bytes=chunk.bytes + grown)


def _is_restated(before: Chunk, after: Chunk) -> bool:
    """Whether a chunk is published with another feedtype in its header."""
    has_feeds = by_name(after.format or "").has_document_feeds
    return has_feeds and after.feedtype != before.feedtype


def _place(before: Chunk, after: Chunk, staged: Path, settings: Settings) -> Chunk:
    """Return the published chunk: a link to its file, its object, or a copy.

    It is copied if it states another feedtype in its header.
    """
    run, folder = settings.storage, f"{WORK}/{staged.parent.name}"
    is_remote, path = settings.local_folder is not None, Path(after.path)
    if not _is_restated(before, after):
        if is_remote:
            return msgspec.structs.replace(after, path=f"{folder}/{before.path}")
        link_or_copy(settings.local / before.path, staged / path.name)
        return after
    restated = AtomicFile(LocalStorage(staged), path.name)
    if is_remote:
        name = f"{before.path}.{after.feedtype}{path.suffix}"
        path, restated = Path(folder, name), AtomicFile(run, name)
    restated.write(_prolog(settings, after))
    with run.open(before.path, len(_prolog(settings, before))) as source:
        while block := source.read(_COPY_BYTES):
            restated.write(block)
    return msgspec.structs.replace(after, path=str(path), sha256=restated.finish().sha256)


def _prolog(settings: Settings, chunk: Chunk) -> bytes:
    feed = Feed(datasource=chunk.datasource or "", feedtype=chunk.feedtype or "")
    writing = msgspec.structs.replace(settings.writing, feed=feed)
    return settings.target_format.make_encoder(writing).prolog()


def _publish_rejects(account: Account, work: Path, output: Path) -> None:
    rejects = paths_of(work, account.files, SPAN_REJECTS)
    if rejects:
        (output / "rejects").mkdir(exist_ok=True)
    for path in rejects:
        _link(path, output / "rejects" / path.name.replace(".rejects", ""))


def _link(path: Path, published: Path) -> None:
    """Publish a file in place of an earlier one; without the file, there is none."""
    published.unlink(missing_ok=True)
    if path.exists():
        link_or_copy(path, published)


def _join(parts: list[Path], path: Path, *, head: bytes = b"") -> None:
    """Concatenate files; without any, there is none."""
    path.unlink(missing_ok=True)
    if parts:
        with whole_file(path) as stream:
            stream.write(head)
            for part in parts:
                with part.open("rb") as lines:
                    shutil.copyfileobj(lines, stream, _COPY_BYTES)


def report_of(
    account: Account,
    chunks: Collection[Chunk],
    settings: Settings,
    *,
    folder: str | None,
    spans: list[Span],
) -> Report:
    """Return the report of a run that published these chunks."""
    values: dict[str, object] = msgspec.to_builtins(settings, order="sorted")
    for name in (*_PLACES, "begun", "sources", "verify"):
        del values[name]
    return Report(
        account=account,
        folder=folder,
        chunks=len(chunks),
        chunk_bytes=sum(chunk.bytes for chunk in chunks),
        exit_code=FINDINGS_EXIT if account.new_rejects else 0,
        settings=values,
        sources=tuple(span.source for span in spans),
    )
