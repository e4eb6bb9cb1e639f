"""Find the actions on some documents in a body of `_bulk` requests, without reading the others."""

import re
from collections.abc import Collection, Iterator
from io import BytesIO
from typing import IO

import msgspec

from feedferry.schemas.record import Record
from feedferry.schemas.span import Span
from feedferry.transforms.formats.opensearch.bulk_reader import read
from feedferry.transforms.formats.search_document.document_encoder import id_of

_BLOCK_BYTES = 8 << 20
_ID = re.compile(rb'"_id":("(?:[^"\\]|\\.)*+")')


def find_records(
    stream: IO[bytes], urls: Collection[str], *, block_bytes: int = _BLOCK_BYTES
) -> Iterator[Record]:
    """Yield the records of URLs in a chunk that the writer has made, with their offsets.

    An id in the text of a document is no match, as JSON escapes its quotation marks.
    """
    ids = {msgspec.json.encode(id_of(url)) for url in urls}
    begin = 0
    while block := stream.read(block_bytes) + stream.readline():
        end = 0
        while (match := _ID.search(block, end)) is not None:
            if match[1] not in ids:
                end = match.end()
                continue
            line = block.rfind(b"\n", 0, match.start()) + 1
            end = block.find(b"\n", match.start()) + 1 or len(block)
            document_end = block.find(b"\n", end) + 1
            lines = block[line : document_end or len(block)]
            if not document_end:
                lines += (more := stream.readline())
                block += more
            for result in read(BytesIO(lines), span=Span(offset=begin + line)):
                if isinstance(result, Record) and result.provenance.offset == begin + line:
                    yield result
        begin += len(block)
