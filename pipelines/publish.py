"""What a run made, in its user's folder: all of it at the end, or nothing.

The manifest comes first, chunks get their names by one rename of their folder, and the report is
last: a run without one is unfinished, and goes on when it is started again.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from pipelines.report import Report, as_json
from schemas.account import Account, Chunk
from schemas.feed import FULL, INCREMENTAL, Feed
from schemas.span import Span
from transforms.convert import HEADED, Settings
from transforms.formats import WRITERS, Encoder
from transforms.full_feeds import settle_full_feeds
from transforms.sinks.files import whole_file, write_json
from transforms.sinks.push.update_index import write_update

_COPY_BYTES = 1 << 20
_APPENDED = (
    "incremental: appends to the groups of the full feed, the first chunk; push it behind that"
)


def publish(account: Account, settings: Settings, *, output: Path, spans: list[Span]) -> Report:
    """Number the chunks in input order, let them and all else appear in `output`, and report.

    May be called again after it was interrupted anywhere. Raises StoppedError, and publishes
    nothing, where a full feed would delete more than it says; see `settle_full_feeds`.
    """
    settle_full_feeds(account, settings)
    work = Path(settings.folder)
    standing = output / "chunks"
    staged = standing if standing.exists() else work / "chunks"
    staged.mkdir(exist_ok=True)
    chunks = [*account.chunks, *_update_index(account.chunks, work, settings)]
    full = _full_chunks(chunks)
    chunks = [
        _stage(chunk, ordinal, staged, settings, is_full=chunk.path in full)
        for ordinal, chunk in enumerate(chunks, start=1)
    ]
    with whole_file(output / "manifest.jsonl") as stream:
        stream.writelines(msgspec.json.encode(chunk, order="sorted") + b"\n" for chunk in chunks)
    _move_rejects(work, output)
    _join(work, "*.urls.txt", output / "urls.txt")
    _join(work, "*.filtered.jsonl", output / "filtered.jsonl")
    if staged != standing:
        os.replace(staged, standing)
    report = _report(account, chunks, settings, output=output, spans=spans)
    write_json(output / "report.json", as_json(report))
    return report


def _full_chunks(chunks: list[Chunk]) -> set[str]:
    """Paths of the chunks to be sent as full: of each full feed the first, and no other.

    A span cannot know whether those before it left anything to write, nor whether the feed that
    it is a part of began in another file.
    """
    first: dict[tuple[str | None, str], str] = {}
    for chunk in chunks:
        if chunk.asked == FULL:
            first.setdefault((chunk.datasource, chunk.origin or ""), chunk.path)
    return set(first.values())


def _stage(chunk: Chunk, ordinal: int, staged: Path, settings: Settings, *, is_full: bool) -> Chunk:
    """Give the chunk its number, and the feedtype that it must have among the others."""
    path = Path(settings.folder) / chunk.path
    name = f"{ordinal:06d}{path.suffix}"
    feedtype = chunk.feedtype
    if chunk.asked == FULL:
        feedtype = FULL if is_full else INCREMENTAL
    is_appended = settings.target.format == "gsa-groups" and feedtype != chunk.asked
    stated = msgspec.structs.replace(
        chunk,
        ordinal=ordinal,
        path=f"chunks/{name}",
        format=settings.target.format,
        feedtype=feedtype,
        note=_APPENDED if is_appended else None,
    )
    if feedtype == chunk.feedtype or settings.target.format not in HEADED:
        if path.exists():  # not if an interrupted run has moved it
            os.replace(path, staged / name)
        return stated
    if not (staged / name).exists():
        _restate(path, staged / name, chunk, stated, settings)
    return _described(stated, staged / name)


def _restate(path: Path, to: Path, before: Chunk, after: Chunk, settings: Settings) -> None:
    """Write a chunk with another feedtype at its head."""
    head = _encoder(settings, before).prolog()
    with path.open("rb") as source, whole_file(to) as stream:
        source.seek(len(head))
        stream.write(_encoder(settings, after).prolog())
        shutil.copyfileobj(source, stream, _COPY_BYTES)


def _described(chunk: Chunk, path: Path) -> Chunk:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return msgspec.structs.replace(chunk, bytes=path.stat().st_size, sha256=digest)


def _encoder(settings: Settings, chunk: Chunk) -> Encoder:
    feed = Feed(datasource=chunk.datasource or "", feedtype=chunk.feedtype or "")
    writing = msgspec.structs.replace(settings.writing, feed=feed)
    return WRITERS[settings.target.format](writing)


def _update_index(chunks: list[Chunk], work: Path, settings: Settings) -> Iterator[Chunk]:
    """The appliance updates its search indexes once, after all else: a document of its own."""
    if settings.target.format == "thunderstone" and chunks:
        yield write_update(work / "update-index.xml", options=settings.writing)


def _move_rejects(work: Path, output: Path) -> None:
    rejects = sorted(work.glob("*.rejects.avro"))
    if rejects:
        (output / "rejects").mkdir(exist_ok=True)
    for path in rejects:
        os.replace(path, output / "rejects" / path.name.replace(".rejects", ""))


def _join(work: Path, pattern: str, path: Path) -> None:
    """Put the files that spans made of one kind behind one another, in the order of the spans."""
    parts = sorted(work.glob(pattern))
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
    for name in ("folder", "beat", "sources", "state"):
        del values[name]
    return values
