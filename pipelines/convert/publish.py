"""Publish what a run made in its user's folder: all of it at the end, or nothing.

The files of the spans stay where they are until the run is over: what is published are links to
them, or copies where the file system has no links. So publishing can be interrupted anywhere, and
begins again from the start. Chunks get their names by one rename of their folder. The report comes
last: a run without one is unfinished.
"""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from pipelines.convert.report import Report, as_json
from schemas.account import Account, Chunk
from schemas.errors import FatalError
from schemas.feed import FULL, INCREMENTAL, Feed
from schemas.span import Span
from transforms.convert import Settings
from transforms.formats import Encoder, by_name
from transforms.full_feeds import settle_full_feeds
from transforms.sinks.push.update_index import write_update
from transforms.storage.atomic import HashedFile, whole_file, write_json
from transforms.storage.attempts import is_untouched, is_whole
from transforms.storage.journal import sync_file, sync_folder

_COPY_BYTES = 1 << 20
_SYNCED_AT_ONCE = 8
_REPORT = "report.json"
_PUBLISHED = ("chunks", "rejects", "manifest.jsonl", "urls.txt", "filtered.jsonl")
_APPENDED = (
    "incremental: appends to the groups of the full feed, the first chunk; push it behind that"
)


def publish(account: Account, settings: Settings, *, output: Path, spans: list[Span]) -> Report:
    """Number the chunks in input order, let them and all else appear in `output`, and report.

    May be called again after it was interrupted anywhere. Raises StoppedError where a full feed
    would delete more than it says (see `settle_full_feeds`), and FatalError where a file of the run
    is not as it was written; nothing is published then.
    """
    settle_full_feeds(account, settings)
    work = Path(settings.folder)
    (output / _REPORT).unlink(missing_ok=True)
    check_files(account, work, verify=settings.verify)
    staged = work / "chunks"
    _remove(staged)
    staged.mkdir()
    chunks = [*account.chunks, *_update_index(account.chunks, work, settings)]
    full = _full_chunks(chunks)
    chunks = [
        _stage(chunk, ordinal, staged, settings, is_full=chunk.path in full)
        for ordinal, chunk in enumerate(chunks, start=1)
    ]
    with whole_file(output / "manifest.jsonl") as stream:
        stream.writelines(msgspec.json.encode(chunk, order="sorted") + b"\n" for chunk in chunks)
    _publish_rejects(account, work, output)
    _join(_parts(account, work, ".urls.txt"), output / "urls.txt")
    _join(_parts(account, work, ".filtered.jsonl"), output / "filtered.jsonl")
    _move_chunks(staged, output / "chunks", aside=work / "chunks-before")
    report = _report(account, chunks, settings, output=output, spans=spans)
    _sync(output)
    write_json(output / _REPORT, as_json(report))
    sync_file(output / _REPORT)
    sync_folder(output)
    return report


def check_files(account: Account, work: Path, *, verify: bool) -> None:
    """Raise FatalError unless all files of the spans are as they were written.

    A file is read again only if it was written to since: it was hashed while it was written, or
    when this run took it over from the one before.
    """
    for file in account.files:
        path = work / file.path
        if not is_untouched(path, file) and not is_whole(path, file, verify=verify):
            raise FatalError(
                f"{path}: not the {file.bytes:,} bytes that were written there; expected that no"
                " one touches the files of a run; start again, and they are made again"
            )


def _move_chunks(staged: Path, standing: Path, *, aside: Path) -> None:
    """Give the chunks their names, in place of what an interrupted run has published."""
    _remove(aside)
    if standing.exists():
        os.replace(standing, aside)
    os.replace(staged, standing)


def _sync(output: Path) -> None:
    """Let all that is published outlive a crash, before the report says that it is there.

    Several files at a time: the file system writes them together, in a tenth of the time.
    """
    paths = [output / name for name in _PUBLISHED if (output / name).exists()]
    folders = [path for path in paths if path.is_dir()]
    files = [path for path in paths if not path.is_dir()]
    with ThreadPoolExecutor(_SYNCED_AT_ONCE) as pool:
        files += [file for folder in folders for file in folder.iterdir()]
        for _ in pool.map(sync_file, files):
            pass
    for folder in (*folders, output):
        sync_folder(folder)


def _link(path: Path, to: Path) -> None:
    """Link a file, or copy it where that cannot be done."""
    try:
        os.link(path, to)
    except OSError:
        shutil.copyfile(path, to)


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _full_chunks(chunks: list[Chunk]) -> set[str]:
    """Paths of the chunks to be sent as full: of each full feed the first, and no other.

    A span cannot know whether those before it left anything to write, nor whether the feed that
    it is a part of began in another file.
    """
    first: dict[tuple[str | None, str], str] = {}
    for chunk in chunks:
        if chunk.requested_feedtype == FULL:
            first.setdefault((chunk.datasource, chunk.origin or ""), chunk.path)
    return set(first.values())


def _stage(chunk: Chunk, ordinal: int, staged: Path, settings: Settings, *, is_full: bool) -> Chunk:
    """Give the chunk its number, and the feedtype that it must have among the others."""
    path = Path(settings.folder) / chunk.path
    name = f"{ordinal:06d}{path.suffix}"
    feedtype = chunk.feedtype
    if chunk.requested_feedtype == FULL:
        feedtype = FULL if is_full else INCREMENTAL
    format_ = by_name(settings.target.format)
    is_appended = format_.holds_only_memberships and feedtype != chunk.requested_feedtype
    stated = msgspec.structs.replace(
        chunk,
        ordinal=ordinal,
        path=f"chunks/{name}",
        format=format_.name,
        feedtype=feedtype,
        note=_APPENDED if is_appended else None,
    )
    if feedtype == chunk.feedtype or not format_.names_its_feed:
        _link(path, staged / name)
        return stated
    return _restate(path, staged / name, chunk, stated, settings)


def _restate(path: Path, to: Path, before: Chunk, after: Chunk, settings: Settings) -> Chunk:
    """Write a chunk with another feedtype at its head; return what it is now."""
    head = _encoder(settings, before).prolog()
    with path.open("rb") as source, HashedFile(to) as stream:
        source.seek(len(head))
        stream.write(_encoder(settings, after).prolog())
        while block := source.read(_COPY_BYTES):
            stream.write(block)
        written = stream.written(to.name)
    return msgspec.structs.replace(after, bytes=written.bytes, sha256=written.sha256)


def _encoder(settings: Settings, chunk: Chunk) -> Encoder:
    feed = Feed(datasource=chunk.datasource or "", feedtype=chunk.feedtype or "")
    writing = msgspec.structs.replace(settings.writing, feed=feed)
    return by_name(settings.target.format).make_encoder(writing)


def _update_index(chunks: list[Chunk], work: Path, settings: Settings) -> Iterator[Chunk]:
    """The appliance updates its search indexes once, after all else: a document of its own."""
    if by_name(settings.target.format).has_index_updates and chunks:
        yield write_update(work / "update-index.xml", options=settings.writing)


def _parts(account: Account, work: Path, suffix: str) -> list[Path]:
    """Return the files of one kind, in the order of their spans."""
    return [work / file.path for file in account.files if file.path.endswith(suffix)]


def _publish_rejects(account: Account, work: Path, output: Path) -> None:
    rejects = _parts(account, work, ".rejects.avro")
    if rejects:
        (output / "rejects").mkdir(exist_ok=True)
    for path in rejects:
        published = output / "rejects" / path.name.replace(".rejects", "")
        published.unlink(missing_ok=True)
        _link(path, published)


def _join(parts: list[Path], path: Path) -> None:
    """Put files behind one another."""
    if parts:
        with whole_file(path) as stream:
            for part in parts:
                with part.open("rb") as lines:
                    shutil.copyfileobj(lines, stream, _COPY_BYTES)


def _report(
    account: Account, chunks: list[Chunk], settings: Settings, *, output: Path, spans: list[Span]
) -> Report:
    return Report(
        account=account,
        folder=str(output),
        chunks=len(chunks),
        chunk_bytes=sum(chunk.bytes for chunk in chunks),
        exit_code=1 if account.rejected else 0,
        settings=_shown(settings),
        sources=tuple(span.source for span in spans),
    )


def _shown(settings: Settings) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(settings, order="sorted")
    for name in ("folder", "has_progress", "sources", "state", "verify"):
        del values[name]
    return values
