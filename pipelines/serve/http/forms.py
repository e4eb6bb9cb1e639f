"""Posted forms: multipart with any boundary, or urlencoded, with fields in any order.

The field `data` is a feed and is handed on as it arrives. The other fields are small. Bodies are
decoded block by block.
"""

import binascii
import itertools
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator

from multipart import MultipartError, MultipartSegment, PushMultipartParser

from feedferry.pipelines.serve.http.server import RefusedError

DATA = "data"
MAX_FIELD_BYTES = 4096
MAX_FIELDS = 20
_MAX_HEAD_BYTES = 1024
_BOUNDARY = re.compile(r';\s*boundary\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;]*))', re.IGNORECASE)
PIECE_BYTES = 256 << 10
_GZIP = 31  # a window of any size, with the header and check sum of gzip
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_QUOTED_PRINTABLE = bytes.maketrans(b"%+", b"= ")

Event = str | bytes
"""The name of a field that begins, or a part of its value."""


def read_form(
    blocks: Iterable[bytes],
    content_type: str,
    *,
    known: Collection[str],
    write: Callable[[bytes], object],
) -> dict[str, str]:
    """Return the known fields; `data` is passed to `write`. Unknown fields are ignored.

    Raises RefusedError if the body is no form, or a known field is repeated, is no text or is too
    long.
    """
    fields: dict[str, bytes] = {}
    name = ""
    for event in read_events(blocks, content_type):
        if isinstance(event, str):
            name = event if event == DATA or event in known else ""
            if name in fields:
                raise RefusedError(400, f"{name}: given twice; expected it once")
            if name:
                fields[name] = b""
        elif name == DATA:
            write(event)
        elif name:
            fields[name] += event
            if len(fields[name]) > MAX_FIELD_BYTES:
                raise RefusedError(400, f"{name}: more than {MAX_FIELD_BYTES} bytes; expected less")
    return {name: _decode(name, value) for name, value in fields.items()}


def read_events(blocks: Iterable[bytes], content_type: str) -> Iterator[Event]:
    """Yield the fields one after the other: a name, then its value in blocks.

    The guide's own example has multipart without a boundary in its header, and an urlencoded body.
    If the header has no boundary, the first line of the body is used.
    """
    kind = content_type.partition(";")[0].strip().lower()
    match = _BOUNDARY.search(content_type) if kind == "multipart/form-data" else None
    boundary = b""
    if match:
        quoted, bare = match.groups()
        text = bare.strip() if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        boundary = text.encode("latin-1")
    if kind != "application/x-www-form-urlencoded" and not boundary:
        boundary, blocks = _find_boundary(blocks)
    yield from _read_parts(blocks, boundary) if boundary else _read_pairs(blocks)


def _decode(name: str, value: bytes) -> str:
    try:
        return value.decode().strip()
    except UnicodeDecodeError as exc:
        raise RefusedError(400, f"{name}: {value[:80]!r}; expected UTF-8") from exc


def _find_boundary(blocks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the boundary in the first line, b"" if it does not begin with `--`, and all blocks."""
    following = iter(blocks)
    head = b""
    for block in following:
        head += block
        if len(head) >= _MAX_HEAD_BYTES or b"\n" in head or not b"--".startswith(head[:2]):
            break
    boundary = b""
    if head.startswith(b"--"):
        line, end, _ = head.partition(b"\n")
        boundary = line[2:].rstrip(b"\r")
        if not end or not boundary:
            raise RefusedError(400, f"{line[:80]!r}; expected a boundary, followed by a line end")
    return boundary, itertools.chain([head], following)


def _read_parts(blocks: Iterable[bytes], boundary: bytes) -> Iterator[Event]:
    """Yield the parts of a multipart body; raise RefusedError if it is incomplete."""
    try:
        # Latin-1 decodes all bytes: a filename in any encoding is no reason to refuse a feed.
        parser = PushMultipartParser(
            boundary, max_segment_count=MAX_FIELDS, header_charset="latin-1", strict=False
        )
        for block in filter(None, blocks):  # an empty block would mean the end
            for event in parser.parse(block):
                if isinstance(event, MultipartSegment):
                    yield _name_of(event)
                elif event:
                    yield event
        parser.close()
    except MultipartError as exc:
        raise RefusedError(400, f"multipart/form-data: {exc}; expected complete parts") from exc


def _name_of(part: MultipartSegment) -> str:
    transfer = str(part.header("Content-Transfer-Encoding", "")).strip().lower()
    if transfer in {"base64", "quoted-printable"}:
        raise RefusedError(
            400, f"Content-Transfer-Encoding: {transfer}; expected the content without it"
        )
    return part.name or ""


def _read_pairs(blocks: Iterable[bytes]) -> Iterator[Event]:
    """Yield the pairs of an urlencoded body; each `&` ends one, and so does the end."""
    pairs, is_name, pending = 1, True, b""  # what is not decoded yet
    for block in itertools.chain(blocks, (b"&",)):
        for place, piece in enumerate(block.split(b"&", MAX_FIELDS + 1)):
            if place:
                if is_name or pending:
                    yield unquote(pending).decode("latin-1") if is_name else unquote(pending)
                pairs, is_name, pending = pairs + 1, True, b""
                if pairs > MAX_FIELDS + 1:
                    raise RefusedError(
                        400, f"more than {MAX_FIELDS} fields; expected those of a feed"
                    )
            pending += piece
            if is_name:
                name, equals, value = pending.partition(b"=")
                if len(name) > _MAX_HEAD_BYTES:
                    raise RefusedError(400, f"{name[:80]!r}; expected name=value")
                if not equals:
                    continue
                yield unquote(name).decode("latin-1")
                is_name, pending = False, value
            cut = pending.rfind(b"%", max(len(pending) - 2, 0))
            if cut := len(pending) if cut < 0 else cut:  # before an escape that may be incomplete
                yield unquote(pending[:cut])
                pending = pending[cut:]


def limit_size(blocks: Iterable[bytes], *, limit: int) -> Iterator[bytes]:
    """Yield the blocks; raise RefusedError when their sizes add up to `limit` or more."""
    total = 0
    for block in blocks:
        total += len(block)
        if total >= limit:
            raise too_large(total, limit=limit)
        yield block


def too_large(size: int, *, limit: int) -> RefusedError:
    return RefusedError(413, f"a body of {size} bytes or more; expected less than {limit}")


def decompress(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the decoded body in pieces of at most PIECE_BYTES.

    Raises RefusedError for an unknown Content-Encoding, and for an incomplete body.
    """
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return iter(blocks)
    if name in {"gzip", "x-gzip"}:
        return _gunzip(blocks)
    raise RefusedError(415, f"Content-Encoding: {encoding!r}; expected gzip or none")


def unquote(block: bytes) -> bytes:
    """Decode a percent-encoded text, in which `+` is a space; a `%` that begins no escape is kept.

    Quoted-printable is the same code with other signs, and the standard library decodes it in C:
    three times as fast for base64, twenty times for XML. The result differs, and is not used, if a
    `%` begins no escape, which its length shows, or is followed by a line end.
    """
    if b"=" in block:
        block = block.replace(b"=", b"%3D")
    decoded = binascii.a2b_qp(block.translate(_QUOTED_PRINTABLE))
    is_exact = len(decoded) == len(block) - 2 * block.count(b"%")
    if is_exact and b"%\n" not in block and b"%\r" not in block:
        return decoded
    # `unquote_to_bytes` of the standard library takes 200 bytes for each escape.
    return _ESCAPE.sub(lambda escape: binascii.unhexlify(escape[1]), block.replace(b"+", b" "))


def _gunzip(blocks: Iterable[bytes]) -> Iterator[bytes]:
    inflater = zlib.decompressobj(_GZIP)
    try:
        for block in blocks:
            data = block
            while data and not inflater.eof:
                if piece := inflater.decompress(data, PIECE_BYTES):
                    yield piece
                data = inflater.unconsumed_tail
            if inflater.unused_data or (data and inflater.eof):
                raise RefusedError(400, "bytes after a compressed body; expected its end")
        if piece := inflater.flush():  # at most a few KiB, for which a full piece had no room
            yield piece
    except zlib.error as exc:
        raise RefusedError(400, f"a compressed body: {exc}; expected a complete one") from exc
    if not inflater.eof:
        raise RefusedError(400, "an incomplete compressed body; expected all of it")
