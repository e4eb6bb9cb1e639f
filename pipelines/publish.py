"""What a run made, in its user's folder: all of it at the end, or nothing.

Chunks get their final names in one rename of their folder, the manifest follows, the report is
last. A run that was stopped leaves none of them.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from pipelines.report import Report, as_json
from schemas.account import Account, Chunk
from schemas.feed import FULL, Feed
from schemas.record import Action, Record
from schemas.span import Span
from transforms.convert import Settings
from transforms.formats import WRITERS, Encoder
from transforms.sinks.files import whole_file, write_json

_COPY_BYTES = 1 << 20


def publish(account: Account, settings: Settings, *, output: Path, spans: list[Span]) -> Report:
    """Number the chunks in input order, let them and all else appear in `output`, and report."""
    work = Path(settings.folder)
    full = _full_feeds(account, settings)
    chunks = [_restate(chunk, work, settings, full) for chunk in account.chunks]
    chunks += _update_index(chunks, work, settings)
    chunks = _move_chunks(chunks, work, output)
    _move_rejects(work, output)
    _join_urls(work, output)
    with whole_file(output / "manifest.jsonl") as stream:
        stream.writelines(msgspec.json.encode(chunk, order="sorted") + b"\n" for chunk in chunks)
    report = _report(account, chunks, settings, output=output, spans=spans)
    write_json(output / "report.json", as_json(report))
    return report


def _full_feeds(account: Account, settings: Settings) -> set[str]:
    """Paths of chunks that must be full: the first of each full feed, if it could not be known.

    A span knows that it is not the first of its file, but not whether those before it left
    anything to write.
    """
    begun: set[tuple[str, str | None]] = set()
    first = set()
    for chunk in account.chunks:
        key = (chunk.source, chunk.datasource)
        if chunk.asked == FULL and key not in begun and chunk.feedtype != FULL:
            first.add(chunk.path)
        begun.add(key)
    return first


def _restate(chunk: Chunk, work: Path, settings: Settings, full: set[str]) -> Chunk:
    """Write the chunk again with `full` at its head, if it is to be so."""
    if chunk.path not in full or chunk.datasource is None or chunk.feedtype is None:
        return chunk
    stated = Feed(datasource=chunk.datasource, feedtype=chunk.feedtype)
    old = _encoder(settings, stated).prolog()
    new = _encoder(settings, Feed(datasource=chunk.datasource, feedtype=FULL)).prolog()
    path = work / chunk.path
    digest = hashlib.sha256(new)
    with path.open("rb") as source, whole_file(path.with_suffix(".full")) as stream:
        source.seek(len(old))
        stream.write(new)
        for block in iter(lambda: source.read(_COPY_BYTES), b""):
            digest.update(block)
            stream.write(block)
    os.replace(path.with_suffix(".full"), path)
    size = chunk.bytes - len(old) + len(new)
    return msgspec.structs.replace(chunk, feedtype=FULL, bytes=size, sha256=digest.hexdigest())


def _encoder(settings: Settings, feed: Feed) -> Encoder:
    writing = msgspec.structs.replace(settings.writing, feed=feed)
    return WRITERS[settings.target.format](writing)


def _update_index(chunks: list[Chunk], work: Path, settings: Settings) -> Iterator[Chunk]:
    """The appliance updates its search indexes once, after all else: a document of its own."""
    if settings.target.format != "thunderstone" or not chunks:
        return
    encoder = WRITERS["thunderstone"](settings.writing)
    record = Record(url="", action=Action.UPDATE_INDEX)
    text = encoder.prolog() + encoder.frame([encoder.encode(record)]) + encoder.epilog()
    path = work / "update-index.xml"
    with whole_file(path) as stream:
        stream.write(text)
    yield Chunk(
        path=path.name,
        bytes=len(text),
        sha256=hashlib.sha256(text).hexdigest(),
        records={Action.UPDATE_INDEX.value: 1},
        first_url="",
        last_url="",
        source="",
        span=0,
    )


def _move_chunks(chunks: Iterable[Chunk], work: Path, output: Path) -> list[Chunk]:
    staged = work / "chunks"
    staged.mkdir(exist_ok=True)
    moved = []
    for ordinal, chunk in enumerate(chunks, start=1):
        name = f"{ordinal:06d}{Path(chunk.path).suffix}"
        if (work / chunk.path).exists():  # not if an interrupted run has moved it
            os.replace(work / chunk.path, staged / name)
        moved.append(msgspec.structs.replace(chunk, ordinal=ordinal, path=f"chunks/{name}"))
    os.replace(staged, output / "chunks")
    return moved


def _move_rejects(work: Path, output: Path) -> None:
    rejects = sorted(work.glob("*.rejects.avro"))
    if rejects:
        (output / "rejects").mkdir(exist_ok=True)
    for path in rejects:
        os.replace(path, output / "rejects" / path.name.replace(".rejects", ""))


def _join_urls(work: Path, output: Path) -> None:
    """Urls that only the target's own crawler can bring in."""
    lists = sorted(work.glob("*.urls.txt"))
    if lists:
        with whole_file(output / "urls.txt") as stream:
            stream.writelines(path.read_bytes() for path in lists)


def _report(
    account: Account, chunks: list[Chunk], settings: Settings, *, output: Path, spans: list[Span]
) -> Report:
    return Report(
        account=account,
        folder=str(output),
        chunks=len(chunks),
        chunk_bytes=sum(chunk.bytes for chunk in chunks),
        exit_code=1 if account.rejected else 0,
        settings=msgspec.to_builtins(settings, order="sorted"),
        sources=tuple(span.source for span in spans),
    )
