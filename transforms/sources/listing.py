"""A listing: what stands in a source, a line each, so that spans are ranges of one small file.

The driver writes it before the pipeline starts, and a run that is started again goes on with the
same one. Lines are JSON, in the order of the bytes of their keys.
"""

import enum
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from schemas.known import Known
from schemas.span import Span
from transforms.sources.signature import sign_path
from transforms.storage.atomic import whole_file

LISTING = "listing"
"""The format of a span that is a range of a listing."""

LINE_BYTES = 1 << 10
"""What a document counts for in a span beside its own bytes."""

_READ_BYTES = 1 << 20


class Kind(enum.Enum):
    """What a line of a listing is about."""

    FILE = "FILE"
    FOLDER = "FOLDER"
    GONE = "GONE"
    FILTERED = "FILTERED"
    REJECTED = "REJECTED"


class Listed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that stands in a source, or stood there.

    `key` is unique: for a tree the path below its root, with `/` between its parts; `path` is where
    it is opened. A FILE is to be read; of a FOLDER only the ACL is sent; what is GONE is to be
    deleted at `url`. `code` and `reason` tell why it was FILTERED or REJECTED. `fingerprint` is one
    text of the other inputs of its record, `sidecars` the paths of files that describe it.
    `known` is what the state has of it, `members` what was sent of it, each at a url of its own:
    what the state has of the members of an archive, or of a document.
    """

    key: str
    kind: Kind = Kind.FILE
    path: str = ""
    url: str = ""
    size: int = 0
    modified_ns: int | None = None
    fingerprint: str = ""
    sidecars: tuple[str, ...] = ()
    code: str = ""
    reason: str = ""
    known: Known | None = None
    members: tuple[Known, ...] = ()


class _Sized(msgspec.Struct, frozen=True):
    size: int = 0


_lines = msgspec.json.Decoder(Listed)
_sizes = msgspec.json.Decoder(_Sized)


def write_listing(listed: Iterable[Listed], path: Path) -> None:
    """Write all lines; the file gets its name when the last one is there."""
    encoder = msgspec.json.Encoder()
    with whole_file(path) as stream:
        stream.writelines(encoder.encode(one) + b"\n" for one in listed)


def read_listing(stream: IO[bytes]) -> Iterator[tuple[int, Listed]]:
    """Yield the lines of a listing, each with its offset in the stream."""
    offset = 0
    for line in _split(stream):
        yield offset, _lines.decode(line)
        offset += len(line) + 1


def cut_listing(whole: Span, *, span_bytes: int) -> Iterator[Span]:
    """Yield spans of a listing of about `span_bytes` of what it lists, in its order."""
    whole = msgspec.structs.replace(whole, signature=sign_path(whole.path))
    ordinal = begin = end = size = 0
    with open(whole.path, "rb") as stream:
        for line in stream:
            more = LINE_BYTES + _sizes.decode(line).size
            if size and size + more > span_bytes:
                yield _part(whole, ordinal, begin, end)
                ordinal, begin, size = ordinal + 1, end, 0
            end += len(line)
            size += more
    if size:
        yield _part(whole, ordinal, begin, end)


def _part(whole: Span, ordinal: int, begin: int, end: int) -> Span:
    return msgspec.structs.replace(
        whole, format=LISTING, ordinal=ordinal, offset=begin, length=end - begin
    )


def _split(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield lines without their ends, of a stream that can only be read in blocks."""
    rest = b""
    while block := stream.read(_READ_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
