"""A part of a chunk as a request: each document gets the version of its record in the run."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Set
from itertools import pairwise

from feedferry.transforms.formats.opensearch.bulk_writer import hiding_lines
from feedferry.transforms.formats.opensearch.opensearch_format import (
    PLACE_OF_VERSION,
    VERSIONS_PER_MICROSECOND,
)
from feedferry.transforms.sinks.push.model import ChunkPart
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.opensearch.indexes import RunIndexes
from feedferry.transforms.sinks.push.wire.opensearch.results import BULK_FILTER
from feedferry.transforms.sinks.push.wire.search_index.stored_decisions import without_decision

_PLACE = b'"version":%d' % PLACE_OF_VERSION
"""No text of a document has it, as quotation marks in texts are escaped."""

_OF_DOCUMENT = b"\n{"


def make_request(part: ChunkPart, indexes: RunIndexes) -> tuple[str, RequestBody]:
    """Return the path and the body of a request.

    A server refuses a bulk without actions, so an empty full feed is sent as a refresh of its new
    index.
    """
    if not part.size:
        path = f"{indexes.suffixes[part.chunk.datasource or '']}/_refresh"
        return path, RequestBody(content_type="application/json", length=0)
    begin = _first_version(part, indexes) + part.first
    base, superseded = begin - indexes.before[part.chunk.ordinal] - part.first, indexes.superseded
    places = (bisect_left(superseded, version - base) for version in (begin, begin + part.records))
    hidden = frozenset(base + number for number in superseded[slice(*places)])
    body = RequestBody(
        content_type="application/x-ndjson",
        length=part.size,
        part=part,
        recode=lambda blocks: numbered(blocks, begin, hidden),
    )
    return bulk_path(part.chunk.datasource, indexes), body


def make_hiding(
    urls: Iterable[tuple[int, str]], part: ChunkPart, indexes: RunIndexes
) -> tuple[str, RequestBody]:
    """Return the request that shows documents to no user; each URL with its number in the chunk."""
    chunk = part.chunk
    begin = _first_version(part, indexes)
    lines = (b"".join(numbered([hiding_lines(url)], begin + number)) for number, url in urls)
    data = b"".join(lines)
    body = RequestBody(content_type="application/x-ndjson", length=len(data), before=data)
    return bulk_path(chunk.datasource, indexes), body


def version_before(indexes: RunIndexes) -> int:
    """Return the version of what precedes the records of a run, and follows those of others."""
    return indexes.begun * VERSIONS_PER_MICROSECOND - 1


def bulk_path(datasource: str | None, indexes: RunIndexes) -> str:
    """Return the path of changes of the documents of a datasource."""
    suffix = indexes.suffixes[datasource or ""]
    return f"{suffix}/_bulk?require_alias=true&{BULK_FILTER}"


def numbered(
    blocks: Iterable[bytes], first: int, hidden: Set[int] = frozenset()
) -> Iterator[bytes]:
    """Yield blocks of lines with the version of each record, from `first` on.

    The lines of a record have the same version. All versions have as many digits. In records with
    the versions `hidden`, spaces replace the decision, so that no user finds the document.
    """
    version, pending = first - 1, b""
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        if not cut:
            pending += block
            continue
        text = b"\n" + pending + block[:cut]
        pending = block[cut:]
        pieces = text.split(_PLACE)
        parts = [pieces[0][1:]]
        for before, after in pairwise(pieces):
            version += not before.endswith(_OF_DOCUMENT)
            if version in hidden:
                after = without_decision(after)  # noqa: PLW2901
            parts += b'"version":%d' % version, after
        yield b"".join(parts)
    yield pending


def _first_version(part: ChunkPart, indexes: RunIndexes) -> int:
    """Return the version of the first record of a chunk."""
    return indexes.begun * VERSIONS_PER_MICROSECOND + indexes.before[part.chunk.ordinal]
