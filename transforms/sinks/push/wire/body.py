"""Bodies of requests: a form around a document that is streamed from its file.

A GSA takes multipart/form-data. Ours is that of the adaptor library, whose connectors feed real
appliances: parts in its order with the content types that it gives, and no file name. (The client
of the Feeds Protocol Developer's Guide gives one and no types, so both are known to be taken.)

**The boundary** is made of the SHA-256 of the file that the document is, or is a part of. No file
holds its own digest, or what is made of it, so the boundary never occurs in what it bounds and
nothing has to be searched for it.

**A file that has changed is never taken for what it was.** The digest is counted while the blocks
go out, and the last block waits for it. If it is another one, neither that block nor the end of the
form is sent: the connection is cut, the announced Content-Length is not reached, and no appliance
has got a feed.

A Thunderstone appliance takes application/x-www-form-urlencoded, which is longer by as much as must
be encoded: the file is read once more to know how long.
"""

import gzip
import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

import msgspec

from schemas.errors import SourceError
from transforms.sinks.push.model import ChunkPart
from transforms.sinks.push.wire.urlencode import encode, encoded_length

BLOCK_BYTES = 1 << 20
_CURE = "make the chunk again"

Field = tuple[str, str]


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent: `before`, the encoded document if there is one, `after`; `length` bytes."""

    content_type: str
    length: int
    before: bytes = b""
    part: ChunkPart | None = None
    after: bytes = b""
    encode: Callable[[bytes], bytes] = bytes
    content_encoding: str = ""

    def blocks(self) -> Generator[bytes, None, None]:
        """Yield the body; raise SourceError before its end if the file is not what it was."""
        yield self.before
        if self.part is not None:
            with closing(checked(self.part)) as blocks:
                yield from map(self.encode, blocks)
        if self.after:
            yield self.after


def multipart(
    fields: Iterable[Field], part: ChunkPart | None = None, *, content_type: str = "text/xml"
) -> Body:
    """Return a form of fields and, as the last of them, the document as `data`."""
    fields = tuple(fields)
    boundary = _boundary(fields, part)
    before = "".join(
        _header(boundary, name, "text/plain") + f"{value}\r\n" for name, value in fields
    )
    after = f"--{boundary}--\r\n"
    if part is not None:
        before += _header(boundary, "data", content_type)
        after = "\r\n" + after
    return Body(
        content_type=f"multipart/form-data; boundary={boundary}",
        length=len(before.encode()) + (part.size if part else 0) + len(after),
        before=before.encode(),
        part=part,
        after=after.encode(),
    )


def urlencoded(fields: Iterable[Field], part: ChunkPart) -> Body:
    """Return a form of fields and, as the last of them, the document as `data`; reads the file."""
    pairs = [name.encode() + b"=" + encode(value.encode()) for name, value in fields]
    before = b"&".join([*pairs, b"data="])
    return Body(
        content_type="application/x-www-form-urlencoded",
        length=len(before) + _encoded_length(part),
        before=before,
        part=part,
        encode=encode,
    )


def compressed(body: Body) -> Body:
    """Return a small body compressed by gzip; the same body gives the same bytes.

    It is read to its end for that: raises SourceError if its file is not what it was.
    """
    text = gzip.compress(b"".join(body.blocks()), mtime=0)
    return Body(
        content_type=body.content_type, length=len(text), before=text, content_encoding="gzip"
    )


def checked(part: ChunkPart) -> Generator[bytes, None, None]:
    """Yield the document; the last block only if the file still is what it was.

    Raise SourceError if it is not. A block is hashed while the one who asked for it sends it.
    """
    expected = part.chunk.sha256 if part.is_whole else part.sha256
    middle = msgspec.structs.replace(part, head=b"", tail=b"")
    digest, left = hashlib.sha256(), part.length
    if part.head:
        yield part.head
    with _opened(part.path) as stream, ThreadPoolExecutor(max_workers=1) as hasher:
        for block in middle.blocks(stream, block_bytes=BLOCK_BYTES):
            left -= len(block)
            hashing = hasher.submit(digest.update, block)
            if not left:
                hashing.result()
                _check(part, digest.hexdigest(), expected)
            yield block
            hashing.result()
    if left:
        raise SourceError(f"{part.path}: changed on disk: {left} bytes fewer than it had; {_CURE}")
    if part.tail:
        yield part.tail


def _check(part: ChunkPart, found: str, expected: str | None) -> None:
    if expected is not None and found != expected:
        raise SourceError(
            f"{part.path}: changed on disk: a SHA-256 of {found}; expected {expected}: {_CURE}"
        )


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as stream:
            yield stream
    except OSError as exc:
        raise SourceError(f"{path}: {exc.strerror}; expected a chunk that can be read") from exc


def _encoded_length(part: ChunkPart) -> int:
    with _opened(part.path) as stream:
        return sum(map(encoded_length, part.blocks(stream, block_bytes=BLOCK_BYTES)))


def _boundary(fields: tuple[Field, ...], part: ChunkPart | None) -> str:
    if part is None:
        digest = hashlib.sha256(repr(fields).encode()).hexdigest()
    elif part.is_whole:
        digest = part.chunk.sha256
    else:
        of_part = f"{part.chunk.sha256} {part.first} {part.count}"
        digest = hashlib.sha256(of_part.encode()).hexdigest()
    return f"feedferry-{digest[:48]}"


def _header(boundary: str, name: str, content_type: str) -> str:
    return (
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n'
        f"Content-Type: {content_type}\r\n\r\n"
    )
