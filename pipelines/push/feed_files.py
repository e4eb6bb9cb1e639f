"""A run made of feed files that exist already.

An appliance takes a feed as it is: a torn or an empty full feed may delete a datasource. So every
file is checked before the first one is sent, and all faults are reported at once.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from feedferry.pipelines.folders.locks import locked_output
from feedferry.pipelines.folders.manifest import (
    EXPECTED_INPUT,
    MANIFEST,
    REPORT,
    check_own_folder,
    read_manifest,
    write_manifest,
)
from feedferry.pipelines.options.push_options import PushOptions
from feedferry.pipelines.report.conversion_report import Report, as_json
from feedferry.schemas.account import AccountTotals, Chunk
from feedferry.schemas.errors import ConfigError, FormatError, SourceError
from feedferry.schemas.feed import FULL, INCREMENTAL
from feedferry.schemas.membership import MembershipAction
from feedferry.schemas.span import Span
from feedferry.transforms.formats import Format, find_format, look_of, sniff
from feedferry.transforms.sinks.push.chunk_parts import scan_feed
from feedferry.transforms.sinks.push.model import BLOCK_BYTES, REQUEST_BYTES_LIMIT, open_chunk_file
from feedferry.transforms.sinks.push.push_plan import (
    check_several_full,
    plan_chunks,
    pushed_formats,
)
from feedferry.transforms.sinks.push.settings import PushSettings, SeveralFull
from feedferry.transforms.sinks.push.wire.protocol import Appliance, Endpoint
from feedferry.transforms.sources import check_input_name, open_span
from feedferry.transforms.storage.atomic import link_or_copy, whole_file, write_json

STAGING = ".staging"
"""Folder for decompressed feed files."""

COMPRESSED_EXTENSIONS = frozenset({".gz", ".bz2", ".xz", ".zst"})
"""Files with these extensions are decompressed before they are sent."""

RECORDS = "records"
"""The key of record counts if only a parser can distinguish actions."""

_SNIFFED_BYTES = 64 << 10


def make_run(options: PushOptions, settings: PushSettings) -> tuple[Path, list[Chunk]]:
    """Make a run of the feed files in the folder of -o; return the folder and its chunks."""
    if options.output is None:
        raise ConfigError(
            "⟦output⟧: not given; expected a folder for the receipts and the kept chunks of feed"
            " files"
        )
    root = Path(options.output)
    check_own_folder(root)
    with locked_output(root):
        staging = root / STAGING
        staging.mkdir(parents=True, exist_ok=True)
        try:
            chunks = scan_files(options, settings, staging)
            return root, _keep_files(root, chunks, options.inputs)
        finally:
            shutil.rmtree(staging)


def scan_files(options: PushOptions, settings: PushSettings, staging: Path) -> list[Chunk]:
    """Return a chunk for each feed file, in order; compressed files are unpacked to `staging`.

    A last chunk updates the search indexes, if the appliance needs that and no file requests it.
    Raises ConfigError, with a line for each fault, for files that must not be sent.
    """
    chunks: list[Chunk] = []
    faults: list[str] = []
    for ordinal, path in enumerate(_paths(options.inputs), start=1):
        plain = path
        try:
            if path.suffix.lower() in COMPRESSED_EXTENSIONS:
                plain = staging / f"{ordinal:06d}-{path.stem}"
                unpack(path, plain)
            chunk = _scan(path, plain, options, settings.appliance)
            chunks.append(replace(chunk, ordinal=ordinal))
        except (ConfigError, FormatError, SourceError) as exc:
            faults.append(exc.text)
    if faults:
        raise ConfigError("\n".join(faults))
    if options.several_full is SeveralFull.FIRST:
        chunks = list(_with_first_full(chunks))
    elif options.several_full is SeveralFull.REFUSE:
        check_several_full((chunk.source, [chunk]) for chunk in chunks)
    plan_chunks([replace(chunk, path=chunk.source) for chunk in chunks], settings)
    return chunks


def _paths(names: Sequence[str]) -> Iterator[Path]:
    """Yield files in the given order; those of a folder in the order of their names."""
    for name in names:
        check_input_name(name)
        path = Path(name)
        files = (
            sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
        )
        if not files:
            raise ConfigError(f"⟦inputs⟧: {name!r}: a folder without files; {EXPECTED_INPUT}")
        yield from files


def unpack(path: Path, plain: Path, *, max_bytes: int = REQUEST_BYTES_LIMIT) -> None:
    """Decompress a feed file; raise ConfigError if it has too many bytes for one request."""
    source = Span(source=str(path), path=str(path))
    with open_span(source) as packed, whole_file(plain) as stream:
        while block := packed.read(BLOCK_BYTES):
            if stream.tell() + len(block) >= max_bytes:
                raise ConfigError(
                    f"{path}: {max_bytes:,} bytes or more when decompressed; expected fewer: "
                    "convert it into chunks first"
                )
            stream.write(block)


def _scan(path: Path, plain: Path, options: PushOptions, appliance: Appliance) -> Chunk:
    """Return the chunk of a file; raise FormatError if it does not read as one whole feed."""
    with open_chunk_file(plain) as stream:
        format, endpoint = _format(path, stream.read(_SNIFFED_BYTES), appliance)
    offsets, reader = scan_feed(plain, format, source=str(path))
    if offsets.documents > 1:
        raise FormatError(
            f"{path}: {offsets.documents} feeds in one file; expected one: convert it first"
        )
    if offsets.is_torn:
        raise FormatError(
            f"{path}: the last end tag is missing; expected a complete feed: records may be lost"
        )
    datasource = feedtype = None
    if endpoint.source_field:
        datasource = options.datasource or offsets.datasource
        feedtype = options.feedtype or endpoint.default_feedtype or offsets.feedtype
    records = MembershipAction.MEMBERSHIP.value if format.holds_only_memberships else RECORDS
    return Chunk(
        path=str(plain),
        bytes=reader.bytes,
        sha256=reader.digest.hexdigest(),
        records={records: len(offsets)} if len(offsets) else {},
        first_url=offsets.first_url,
        last_url=offsets.last_url,
        source=str(path),
        span=0,
        format=format.name,
        datasource=datasource,
        feedtype=feedtype,
        requested_feedtype=feedtype,
    )


def _format(path: Path, head: bytes, appliance: Appliance) -> tuple[Format, Endpoint]:
    names = pushed_formats(appliance.protocol)
    expected = f"expected {' or '.join(names)} for {appliance.url}"
    if not head:
        raise FormatError(f"{path}: an empty file; {expected}")
    name = sniff(head, source=str(path))
    if name is None:
        raise FormatError(f"{path}: looks like {look_of(head)}; {expected}")
    format = find_format(name)
    endpoint = appliance.protocol.endpoint_of(name)
    if format is None or endpoint is None:
        raise FormatError(f"{path}: {name}; {expected}: convert it first")
    return format, endpoint


def _with_first_full(chunks: list[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks; only the first full feed of each datasource stays full."""
    seen: set[tuple[str | None, str | None]] = set()
    for chunk in chunks:
        key = (chunk.format, chunk.datasource)
        is_later = chunk.feedtype == FULL and key in seen
        if chunk.feedtype == FULL:
            seen.add(key)
        yield replace(chunk, feedtype=INCREMENTAL) if is_later else chunk


def _keep_files(root: Path, chunks: list[Chunk], inputs: tuple[str, ...]) -> list[Chunk]:
    """Keep the files in the folder of the run, which is made unless it is the run of these."""
    is_new = not (root / MANIFEST).exists()
    if not is_new and list(map(_identity, read_manifest(root))) != list(map(_identity, chunks)):
        raise ConfigError(
            f"⟦output⟧ {root}: has the run of other files, or of other names for them; expected"
            " another folder"
        )
    chunks = [_keep_file(chunk, root, is_new=is_new) for chunk in chunks]
    if is_new:
        write_manifest(root, chunks)
        write_json(root / REPORT, as_json(_report(root, chunks, inputs)))
    return chunks


def _report(root: Path, chunks: list[Chunk], inputs: tuple[str, ...]) -> Report:
    """Return a report in which the records of the files are read and written."""
    counts = sum((Counter(chunk.records) for chunk in chunks), Counter[str]())
    return Report(
        account=AccountTotals(read=counts, written=counts),
        folder=str(root),
        chunks=len(chunks),
        chunk_bytes=sum(chunk.bytes for chunk in chunks),
        exit_code=0,
        settings={},
        sources=inputs,
    )


def _identity(chunk: Chunk) -> tuple[str, str | None, str | None]:
    return chunk.sha256, chunk.datasource, chunk.feedtype


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
        link_or_copy(path, root / kept)
    return replace(chunk, path=str(kept))
