"""Posted forms: multipart with any boundary, or urlencoded, with fields in any order.

The field `data` is a feed and is handed on as it arrives. The other fields are small.
"""

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator

from multipart import MultipartError, MultipartSegment, PushMultipartParser

from pipelines.serve.http.body_decoding import PercentDecoder, peek
from pipelines.serve.http.exchange import RefusedError

DATA = "data"
MAX_FIELD_BYTES = 4096
MAX_FIELDS = 20
_MAX_HEAD_BYTES = 1024
_BOUNDARY = re.compile(r';\s*boundary\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;]*))', re.IGNORECASE)

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
    boundary = _unquote_boundary(match) if match else b""
    if kind != "application/x-www-form-urlencoded" and not boundary:
        head, blocks = peek(blocks, 2)
        if head.startswith(b"--"):
            boundary, blocks = _first_line(blocks)
    yield from _read_parts(blocks, boundary) if boundary else _read_pairs(blocks)


def _decode(name: str, value: bytes) -> str:
    try:
        return value.decode().strip()
    except UnicodeDecodeError as exc:
        raise RefusedError(400, f"{name}: {value[:80]!r}; expected UTF-8") from exc


def _unquote_boundary(match: re.Match[str]) -> bytes:
    quoted, bare = match.groups()
    text = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else bare.strip()
    return text.encode("latin-1")


def _first_line(blocks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the boundary in the first line, and all the blocks."""
    following = iter(blocks)
    head = b""
    while b"\n" not in head and len(head) < _MAX_HEAD_BYTES and (block := next(following, b"")):
        head += block
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
    """Yield the pairs of an urlencoded body."""
    head, decoder = b"", None
    for piece, is_last in _split_pairs(blocks):
        value = piece
        if decoder is None:
            head, equals, value = (head + piece).partition(b"=")
            if len(head) > _MAX_HEAD_BYTES:
                raise RefusedError(400, f"{head[:80]!r}; expected name=value")
            if not equals and not is_last:
                continue
            decoder = PercentDecoder()
            yield decoder.decode(head, is_last=True).decode("latin-1")
        if decoded := decoder.decode(value, is_last=is_last):
            yield decoded
        if is_last:
            head, decoder = b"", None


def _split_pairs(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the text between `&` in pieces, and whether a piece is the last of its pair."""
    pairs = 1
    for block in blocks:
        begin = 0
        while (end := block.find(b"&", begin)) >= 0:
            pairs += 1
            if pairs > MAX_FIELDS:
                raise RefusedError(400, f"more than {MAX_FIELDS} fields; expected those of a feed")
            yield block[begin:end], True
            begin = end + 1
        yield block[begin:], False
    yield b"", True
